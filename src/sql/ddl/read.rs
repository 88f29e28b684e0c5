//! Reads the statements of [`Ddl`] from tokens, as Flink and Spark write them. Imports `words` and the statements.

use datafusion::sql::sqlparser::ast::Ident;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::statement::{AnalyzedColumns, CreateView, Ddl, Insert, Name, PartitionSpec};
use super::{read_alter, read_create};
use crate::error::{Error, Result};
use crate::sql::rewrite::hint_options;
use crate::sql::tokens::{is_word, tokenize};
use crate::sql::words::Words;

/// The parts of a table's name.
pub(super) const TABLE_PARTS: usize = 3;

/// Reads a statement that defines or changes tables, or `None` for any other.
///
/// # Errors
/// When the statement starts like one of these and goes on otherwise, and for clauses that tables do not have.
pub(crate) fn read(tokens: &[TokenWithSpan]) -> Result<Option<Ddl>> {
    let mut words = Words::new(tokens);
    let Some(ddl) = statement(&mut words)? else { return Ok(None) };
    words.end()?;
    Ok(Some(ddl))
}

fn statement(words: &mut Words<'_>) -> Result<Option<Ddl>> {
    Ok(Some(if words.take("CREATE") {
        match create(words)? {
            Some(ddl) => ddl,
            None => return Ok(None),
        }
    } else if words.take_all(&["REPLACE", "TABLE"]) {
        Ddl::CreateTable(Box::new(read_create::table(words, true)?))
    } else if words.take("DROP") {
        match drop(words)? {
            Some(ddl) => ddl,
            None => return Ok(None),
        }
    } else if words.take_all(&["ALTER", "TABLE"]) {
        read_alter::table(words)?
    } else if words.take_all(&["COMMENT", "ON", "TABLE"]) {
        read_alter::comment(words)?
    } else if words.take_all(&["TRUNCATE", "TABLE"]) {
        let table = words.name(TABLE_PARTS)?;
        let partition = if words.take("PARTITION") { partition(words)? } else { Vec::new() };
        Ddl::Truncate { table, partition }
    } else if words.take_all(&["ANALYZE", "TABLE"]) {
        analyze(words)?
    } else if words.sees(&["INSERT"]) || words.sees(&["EXECUTE", "INSERT"]) {
        // Flink's EXECUTE says nothing more.
        words.take("EXECUTE");
        Ddl::Insert(Box::new(insert(words)?))
    } else if words.sees(&["EXECUTE", "STATEMENT", "SET"]) || words.sees(&["BEGIN", "STATEMENT", "SET"]) {
        return Err(Error::unsupported(
            "a STATEMENT SET is not supported: INSERT into one table after the other, each is a commit of its own",
        ));
    } else if words.sees(&["WITH"]) {
        match insert_behind_with(words)? {
            Some(insert) => Ddl::Insert(Box::new(insert)),
            None => return Ok(None),
        }
    } else if words.sees(&["EXPLAIN"]) {
        // EXPLAIN ANALYZE INSERT .. is an INSERT of which the plan is shown.
        let mut verb = 1;
        while ["ANALYZE", "VERBOSE"].iter().any(|word| is_word(words.peek_at(verb), word)) {
            verb += 1;
        }
        let explain = words.rest()[..verb].to_vec();
        let mut statement = words.clone();
        (0..verb).for_each(|_| drop_token(&mut statement));
        let explained = match is_word(statement.peek(), "INSERT") {
            true => Some(insert(&mut statement)?),
            false if is_word(statement.peek(), "WITH") => insert_behind_with(&mut statement)?,
            false => None,
        };
        let Some(explained) = explained else { return Ok(None) };
        *words = statement;
        Ddl::Insert(Box::new(Insert { explain, ..explained }))
    } else {
        return Ok(None);
    }))
}

/// `WITH name AS (query), .. INSERT ..`: the INSERT of a query with these common table expressions; `None` for a query.
fn insert_behind_with(words: &mut Words<'_>) -> Result<Option<Insert>> {
    let (mut depth, mut behind_expression) = (0_usize, false);
    let verb = words.rest().iter().position(|token| {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ => {}
        }
        let found = depth == 0 && behind_expression && is_word(&token.token, "INSERT");
        behind_expression = token.token == Token::RParen;
        found
    });
    let Some(verb) = verb else { return Ok(None) };
    let with = words.rest()[..verb].to_vec();
    (0..verb).for_each(|_| drop_token(words));
    let mut insert = insert(words)?;
    insert.query = joined(with, &insert.query);
    Ok(Some(insert))
}

/// A query with common table expressions before those that it has itself.
fn joined(mut with: Vec<TokenWithSpan>, query: &[TokenWithSpan]) -> Vec<TokenWithSpan> {
    let is =
        |tokens: &[TokenWithSpan], at: usize, word| tokens.get(at).is_some_and(|token| is_word(&token.token, word));
    if !is(query, 0, "WITH") {
        with.extend_from_slice(query);
        return with;
    }
    let recursive = is(query, 1, "RECURSIVE");
    if recursive && !is(&with, 1, "RECURSIVE") {
        with.insert(1, query[1].clone());
    }
    with.push(TokenWithSpan::wrap(Token::Comma));
    with.extend_from_slice(&query[1 + usize::from(recursive)..]);
    with
}

fn drop_token(words: &mut Words<'_>) {
    words.next();
}

fn create(words: &mut Words<'_>) -> Result<Option<Ddl>> {
    let or_replace = words.take_all(&["OR", "REPLACE"]);
    let temporary = words.take_any(&["TEMPORARY", "TEMP"]);
    if words.take("TABLE") {
        if temporary {
            return Err(Error::unsupported(
                "CREATE TEMPORARY TABLE is not supported in this version; a view of the session is CREATE TEMPORARY VIEW",
            ));
        }
        return Ok(Some(Ddl::CreateTable(Box::new(read_create::table(words, or_replace)?))));
    }
    if words.take("VIEW") {
        return Ok(Some(Ddl::CreateView(Box::new(view(words, or_replace)?))));
    }
    if or_replace || temporary || !words.take_any(&["DATABASE", "SCHEMA"]) {
        return Ok(None);
    }
    let if_not_exists = words.if_not_exists();
    let name = words.name(2)?;
    for (clause, what) in
        [("COMMENT", "a comment"), ("LOCATION", "a location"), ("MANAGED", "a location"), ("WITH", "properties")]
    {
        if words.take(clause) {
            return Err(Error::unsupported(format!(
                "CREATE DATABASE .. {clause}: a database of a lake catalog is a folder and has not {what}; leave the clause out"
            )));
        }
    }
    Ok(Some(Ddl::CreateDatabase { name, if_not_exists }))
}

fn view(words: &mut Words<'_>, or_replace: bool) -> Result<CreateView> {
    let if_not_exists = words.if_not_exists();
    let name = words.name(TABLE_PARTS)?;
    let columns = if *words.peek() == Token::LParen {
        words.list(|words| {
            let name = words.ident()?;
            if words.take("COMMENT") {
                return Err(Error::unsupported("a column of a view of the session has no comment"));
            }
            Ok(name)
        })?
    } else {
        Vec::new()
    };
    let comment = if words.take("COMMENT") { Some(words.comment()?) } else { None };
    words.expect(&["AS"])?;
    Ok(CreateView { name, or_replace, if_not_exists, columns, comment, query: query(words)? })
}

/// All that is left, as a query.
pub(super) fn query(words: &mut Words<'_>) -> Result<Vec<TokenWithSpan>> {
    if words.done() {
        return Err(words.unexpected("a query"));
    }
    let mut query = words.rest().to_vec();
    (0..query.len()).for_each(|_| drop_token(words));
    if query.first().is_some_and(|token| is_word(&token.token, "TABLE")) {
        // `TABLE t` is all of t, which the engine's parser does not read.
        query.splice(..1, tokenize("SELECT * FROM")?);
    }
    Ok(query)
}

fn drop(words: &mut Words<'_>) -> Result<Option<Ddl>> {
    if words.take_any(&["DATABASE", "SCHEMA"]) {
        let if_exists = words.if_exists();
        let name = words.name(2)?;
        let cascade = words.take("CASCADE");
        if !cascade {
            words.take("RESTRICT");
        }
        return Ok(Some(Ddl::DropDatabase { name, if_exists, cascade }));
    }
    if words.take("TABLE") {
        let if_exists = words.if_exists();
        let table = words.name(TABLE_PARTS)?;
        // Files are removed at once in any case.
        words.take("PURGE");
        return Ok(Some(Ddl::DropTable { table, if_exists }));
    }
    words.take_any(&["TEMPORARY", "TEMP"]);
    if words.take("VIEW") {
        let if_exists = words.if_exists();
        return Ok(Some(Ddl::DropView { view: words.name(TABLE_PARTS)?, if_exists }));
    }
    Ok(None)
}

fn analyze(words: &mut Words<'_>) -> Result<Ddl> {
    let table = words.name(TABLE_PARTS)?;
    if words.take("PARTITION") {
        return Err(Error::unsupported(
            "ANALYZE TABLE .. PARTITION is not supported in this version; analyze the table",
        ));
    }
    words.expect(&["COMPUTE", "STATISTICS"])?;
    let columns = if words.take("FOR") {
        let all = words.take("ALL");
        words.expect(&["COLUMNS"])?;
        match all || words.done() {
            true => AnalyzedColumns::All,
            false => AnalyzedColumns::Named(words.items(Words::ident)?),
        }
    } else {
        words.take("NOSCAN");
        AnalyzedColumns::None
    };
    Ok(Ddl::Analyze { table, columns })
}

/// `(column = value, column, ..)`
pub(crate) fn partition(words: &mut Words<'_>) -> Result<PartitionSpec> {
    let spec = words.list(|words| {
        let column = words.ident()?;
        let value = if words.take_token(&Token::Eq) { Some(words.constant()?) } else { None };
        Ok((column, value))
    })?;
    let twice = |(i, column): (usize, &Ident)| {
        spec[..i].iter().any(|(other, _)| other.value.eq_ignore_ascii_case(&column.value)).then(|| column.clone())
    };
    match spec.iter().map(|(column, _)| column).enumerate().find_map(twice) {
        Some(column) => Err(Error::invalid(format!("PARTITION names column {column} twice"))),
        None => Ok(spec),
    }
}

fn insert(words: &mut Words<'_>) -> Result<Insert> {
    words.expect(&["INSERT"])?;
    let overwrite = words.take("OVERWRITE");
    if !words.take("INTO") && !overwrite {
        return Err(words.unexpected("INTO or OVERWRITE"));
    }
    words.take("TABLE");
    let mut insert = Insert { table: words.name(TABLE_PARTS)?, overwrite, ..Insert::default() };
    loop {
        if let Some(hint) = words.hint() {
            if !insert.options.is_empty() {
                return Err(Error::invalid("INSERT takes one OPTIONS hint behind its table"));
            }
            insert.options = hint_options(hint)?;
        } else if words.take("PARTITION") {
            insert.partition = partition(words)?;
            if words.if_not_exists() {
                return Err(Error::unsupported("INSERT .. PARTITION (..) IF NOT EXISTS is not supported"));
            }
        } else if words.take_all(&["BY", "NAME"]) {
            insert.by_name = true;
        } else if words.sees(&["REPLACE", "WHERE"])
            || words.sees(&["REPLACE", "USING"])
            || words.sees(&["REPLACE", "ON"])
        {
            return Err(Error::unsupported(
                "INSERT .. REPLACE is not supported; DELETE the rows and INSERT the new ones, or INSERT OVERWRITE the partitions",
            ));
        } else if insert.columns.is_empty() && is_column_list(words) {
            insert.columns = words.list(Words::ident)?;
        } else {
            break;
        }
    }
    if insert.by_name && !insert.columns.is_empty() {
        return Err(Error::invalid("INSERT BY NAME takes no list of columns"));
    }
    insert.query = query(words)?;
    Ok(insert)
}

/// Whether a list of names comes next, and not a query in parentheses.
fn is_column_list(words: &Words<'_>) -> bool {
    *words.peek() == Token::LParen
        && matches!(words.peek_at(1), Token::Word(_))
        && matches!(words.peek_at(2), Token::Comma | Token::RParen)
}

/// The names of a statement's parts, for messages.
pub(crate) fn shown(name: &Name) -> String {
    name.iter().map(ToString::to_string).collect::<Vec<_>>().join(".")
}
