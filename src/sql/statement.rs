//! Which statement a text is: one of the session's own commands, or one for the engine.
//!
//! Imports the parser, `rewrite` and `tokens`.

use datafusion::sql::parser::{CopyToSource, DFParserBuilder, Statement};
use datafusion::sql::sqlparser::ast::{
    FromTable, Ident, ObjectName, ObjectType, SetExpr, Statement as SqlStatement, TableFactor, TableObject,
};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use super::ddl::{self, Ddl, PartitionSpec};
use super::dialect::LakeDialect;
use super::procedures::{Call, read_call};
use super::rewrite::rewrite;
use super::tokens::is_word;
use super::words::Words;
use crate::error::{Error, Result};

/// A statement that the session answers itself.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Command {
    /// `USE [catalog.]database`
    Use(Vec<Ident>),
    /// `USE CATALOG catalog`
    UseCatalog(Ident),
    /// `SHOW CATALOGS`
    ShowCatalogs,
    /// `SHOW CURRENT CATALOG`
    ShowCurrentCatalog,
    /// `SHOW CURRENT DATABASE`
    ShowCurrentDatabase,
    /// `SHOW DATABASES [{FROM | IN} catalog] [[NOT] LIKE 'pattern']`
    ShowDatabases { catalog: Option<Ident>, like: Option<Like> },
    /// `SHOW TABLES [{FROM | IN} [catalog.]database] [[NOT] LIKE 'pattern']`
    ShowTables { database: Vec<Ident>, like: Option<Like> },
    /// `SHOW VIEWS [{FROM | IN} [catalog.]database] [[NOT] LIKE 'pattern']`
    ShowViews { database: Vec<Ident>, like: Option<Like> },
    /// `SHOW COLUMNS {FROM | IN} table [{FROM | IN} database] [[NOT] LIKE 'pattern']`
    ShowColumns { table: Vec<Ident>, like: Option<Like> },
    /// `SHOW CREATE TABLE table`
    ShowCreateTable(Vec<Ident>),
    /// `SHOW CREATE VIEW view`
    ShowCreateView(Vec<Ident>),
    /// `SHOW PROCEDURES [[NOT] LIKE 'pattern']`
    ShowProcedures(Option<Like>),
    /// `[EXPLAIN] CALL [catalog.]sys.procedure(..)`
    Call(Box<Call>),
    /// `SHOW PARTITIONS table [PARTITION (column = value, ..)]`
    ShowPartitions { table: Vec<Ident>, partition: PartitionSpec },
    /// `SHOW TBLPROPERTIES table [('key')]`
    ShowProperties { table: Vec<Ident>, key: Option<String> },
    /// `{DESCRIBE | DESC} [TABLE] [EXTENDED | FORMATTED] table`
    Describe { table: Vec<Ident>, extended: bool },
    /// `SET key = value`, `SET 'key' = 'value'`, `SET TIME ZONE 'zone'`
    Set { key: String, value: String },
    /// `RESET key`
    Reset(String),
}

/// `[NOT] LIKE 'pattern'` of SHOW. `%` is any text, as Spark's `*` is, and `_` any character; `|` divides several patterns.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Like {
    pub negated: bool,
    pub pattern: String,
}

impl Like {
    /// Whether a name is one of those asked for.
    pub(crate) fn fits(&self, name: &str) -> bool {
        self.pattern.split('|').any(|pattern| matches_like(name, pattern)) != self.negated
    }
}

fn matches_like(text: &str, pattern: &str) -> bool {
    let text: Vec<char> = text.chars().collect();
    let (mut i, mut star) = (0, None);
    let pattern: Vec<char> = pattern.chars().collect();
    let mut k = 0;
    while i < text.len() {
        match pattern.get(k) {
            Some('%' | '*') => {
                star = Some((k, i));
                k += 1;
            }
            Some(c) if *c == '_' || *c == text[i] => {
                i += 1;
                k += 1;
            }
            _ => match star {
                // The last % takes one character more.
                Some((at, taken)) => {
                    k = at + 1;
                    i = taken + 1;
                    star = Some((at, taken + 1));
                }
                None => return false,
            },
        }
    }
    pattern[k..].iter().all(|c| matches!(c, '%' | '*'))
}

/// A statement, read.
#[derive(Clone, Debug)]
pub(crate) enum Parsed {
    Command(Command),
    /// With its tokens, for the engine when it concerns no table of a lake.
    Ddl(Box<Ddl>, Vec<TokenWithSpan>),
    Engine(Box<Statement>),
}

/// Reads the tokens of one statement.
///
/// # Errors
/// When the text is no statement, and for statements that this version does not have.
pub(crate) fn parse(statement: Vec<TokenWithSpan>) -> Result<Parsed> {
    if let Some(command) = command(&statement)? {
        return Ok(Parsed::Command(command));
    }
    if let Some(ddl) = ddl::read(&statement)? {
        return Ok(Parsed::Ddl(Box::new(ddl), statement));
    }
    let verb = verb(&statement);
    match engine_statement(statement) {
        Ok(statement) => Ok(Parsed::Engine(Box::new(statement))),
        // These are all that there is of them.
        Err(error) if verb.as_deref().is_some_and(|verb| ["DELETE", "UPDATE", "MERGE"].contains(&verb)) => Err(error),
        // What the engine's grammar does not know may be a change as Flink or Spark write it.
        Err(error) => Err(verb.map_or(error, |verb| unsupported(&verb))),
    }
}

/// Reads a statement of the engine, with what Flink and Spark write inside of it.
///
/// # Errors
/// When the tokens are none.
#[expect(clippy::needless_pass_by_value, reason = "what is read is of no use to anybody else")]
pub(crate) fn engine_statement(tokens: Vec<TokenWithSpan>) -> Result<Statement> {
    let tokens = rewrite(&tokens)?;
    let mut parser =
        DFParserBuilder::new(tokens).with_dialect(&LakeDialect).build().map_err(|error| wrong_syntax(&error))?;
    let mut statements = parser.parse_statements().map_err(|error| wrong_syntax(&error))?;
    match (statements.pop_front(), statements.pop_front()) {
        (Some(statement), None) => Ok(statement),
        _ => Err(Error::invalid("one statement is expected")),
    }
}

fn wrong_syntax(error: &datafusion::error::DataFusionError) -> Error {
    Error::invalid(error.strip_backtrace())
}

/// The error for a statement that is not built.
fn unsupported(verb: &str) -> Error {
    Error::unsupported(format!("{verb} is not supported in this version"))
}

/// The verb of a statement that changes tables, databases or their files.
fn verb(tokens: &[TokenWithSpan]) -> Option<String> {
    const ALONE: [&str; 13] = [
        "INSERT", "UPDATE", "DELETE", "MERGE", "TRUNCATE", "CALL", "ANALYZE", "MSCK", "OPTIMIZE", "REPLACE", "COMMENT",
        "REFRESH", "VACUUM",
    ];
    const WITH_OBJECT: [&str; 3] = ["CREATE", "ALTER", "DROP"];
    let words: Vec<String> = tokens
        .iter()
        .map_while(|token| match &token.token {
            Token::Word(Word { value, quote_style: None, .. }) => Some(value.to_ascii_uppercase()),
            _ => None,
        })
        .filter(|word| {
            !matches!(word.as_str(), "OR" | "REPLACE" | "TEMPORARY" | "TEMP" | "EXPLAIN") || tokens.len() == 1
        })
        .take(2)
        .collect();
    let first = words.first()?;
    if ALONE.contains(&first.as_str()) {
        return Some(first.clone());
    }
    if !WITH_OBJECT.contains(&first.as_str()) {
        return None;
    }
    Some(words.join(" "))
}

/// What a statement of the engine does to something, and to what: `("INSERT", t)`. Queries do nothing to anything.
pub(crate) fn change(statement: &Statement) -> Option<(String, Option<ObjectName>)> {
    let statement = match statement {
        Statement::Statement(statement) => statement.as_ref(),
        Statement::Explain(explain) => return change(&explain.statement),
        Statement::CopyTo(_) | Statement::CreateExternalTable(_) | Statement::Reset(_) => return None,
    };
    change_of(statement)
}

fn change_of(statement: &SqlStatement) -> Option<(String, Option<ObjectName>)> {
    let named = |verb: &str, name: Option<&ObjectName>| Some((verb.to_owned(), name.cloned()));
    let of_factor = |factor: &TableFactor| match factor {
        TableFactor::Table { name, .. } => Some(name.clone()),
        _ => None,
    };
    match statement {
        SqlStatement::Insert(insert) => match &insert.table {
            TableObject::TableName(name) => named("INSERT", Some(name)),
            _ => named("INSERT", None),
        },
        SqlStatement::Update(update) => Some(("UPDATE".to_owned(), of_factor(&update.table.relation))),
        SqlStatement::Delete(delete) => {
            let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
            Some(("DELETE".to_owned(), from.first().and_then(|table| of_factor(&table.relation))))
        }
        SqlStatement::Merge(merge) => Some(("MERGE".to_owned(), of_factor(&merge.table))),
        SqlStatement::Truncate(truncate) => named("TRUNCATE", truncate.table_names.first().map(|table| &table.name)),
        SqlStatement::CreateTable(create) => named("CREATE TABLE", Some(&create.name)),
        SqlStatement::AlterTable(alter) => named("ALTER TABLE", Some(&alter.name)),
        SqlStatement::CreateSchema { .. } => named("CREATE SCHEMA", None),
        SqlStatement::CreateDatabase { .. } => named("CREATE DATABASE", None),
        SqlStatement::Drop { object_type, names, .. } => {
            let verb = format!("DROP {object_type}");
            match object_type {
                ObjectType::Table | ObjectType::View => named(&verb, names.first()),
                _ => named(&verb, None),
            }
        }
        SqlStatement::CreateView(create) => named("CREATE VIEW", Some(&create.name)),
        SqlStatement::Call(_) => named("CALL", None),
        // WITH .. INSERT is a query to the parser.
        SqlStatement::Query(query) => inner_change(&query.body).and_then(change_of),
        SqlStatement::Explain { statement, .. } | SqlStatement::Prepare { statement, .. } => change_of(statement),
        SqlStatement::Analyze(analyze) => named("ANALYZE", analyze.table_name.as_ref()),
        SqlStatement::Msck(_) => named("MSCK", None),
        _ => None,
    }
}

/// Whether a statement is an INSERT by itself, or EXPLAIN of one: the engine plans no others.
pub(crate) fn is_plain_insert(statement: &Statement) -> bool {
    match statement {
        Statement::Statement(statement) => match statement.as_ref() {
            SqlStatement::Insert(_) => true,
            SqlStatement::Explain { statement, .. } => matches!(statement.as_ref(), SqlStatement::Insert(_)),
            _ => false,
        },
        Statement::Explain(explain) => is_plain_insert(&explain.statement),
        Statement::CopyTo(_) | Statement::CreateExternalTable(_) | Statement::Reset(_) => false,
    }
}

/// The statement inside of a query that is none.
fn inner_change(body: &SetExpr) -> Option<&SqlStatement> {
    match body {
        SetExpr::Insert(statement)
        | SetExpr::Update(statement)
        | SetExpr::Delete(statement)
        | SetExpr::Merge(statement) => Some(statement),
        SetExpr::Query(query) => inner_change(&query.body),
        SetExpr::SetOperation { left, right, .. } => inner_change(left).or_else(|| inner_change(right)),
        _ => None,
    }
}

/// Whether a statement only reads.
pub(crate) fn only_reads(statement: &Statement) -> bool {
    match statement {
        Statement::Statement(statement) => match statement.as_ref() {
            SqlStatement::Query(query) => inner_change(&query.body).is_none(),
            SqlStatement::ExplainTable { .. }
            | SqlStatement::ShowVariable { .. }
            | SqlStatement::ShowVariables { .. }
            | SqlStatement::ShowTables { .. }
            | SqlStatement::ShowColumns { .. }
            | SqlStatement::ShowCreate { .. }
            | SqlStatement::ShowFunctions { .. }
            | SqlStatement::Set(_) => true,
            SqlStatement::Explain { statement, .. } => match statement.as_ref() {
                SqlStatement::Query(query) => inner_change(&query.body).is_none(),
                _ => false,
            },
            _ => false,
        },
        Statement::Explain(explain) => only_reads(&explain.statement),
        Statement::Reset(_) => true,
        Statement::CopyTo(copy) => {
            let (CopyToSource::Relation(_) | CopyToSource::Query(_)) = copy.source;
            false
        }
        Statement::CreateExternalTable(_) => false,
    }
}

/// The refusal of `change` on a lake table.
pub(crate) fn refused(verb: &str) -> Error {
    unsupported(verb)
}

/// Reads one of the session's own commands, or `None` for what the engine answers.
fn command(tokens: &[TokenWithSpan]) -> Result<Option<Command>> {
    if let Some(call) = read_call(tokens)? {
        return Ok(Some(Command::Call(Box::new(call))));
    }
    let mut words = Words::new(tokens);
    let command = if words.take("USE") {
        match words.take("CATALOG") {
            true => Command::UseCatalog(words.ident()?),
            false => Command::Use(words.name(2)?),
        }
    } else if words.take("SHOW") {
        match show(&mut words)? {
            Some(command) => command,
            None => return Ok(None),
        }
    } else if words.take("DESCRIBE") || words.take("DESC") {
        // A query can be described too; the engine does that.
        if ["SELECT", "WITH", "VALUES"].iter().any(|word| is_word(words.peek(), word)) {
            return Ok(None);
        }
        words.take("TABLE");
        let extended = words.take_any(&["EXTENDED", "FORMATTED"]);
        Command::Describe { table: words.name(3)?, extended }
    } else if words.take("SET") {
        if words.done() {
            return Err(Error::invalid("SET takes a key and a value; SHOW ALL lists what can be set"));
        }
        set(&mut words)?
    } else if words.take("RESET") {
        Command::Reset(setting(&mut words)?)
    } else {
        return Ok(None);
    };
    words.end()?;
    Ok(Some(command))
}

/// What follows SHOW, or `None` for what the engine shows.
fn show(words: &mut Words<'_>) -> Result<Option<Command>> {
    Ok(Some(if words.take("CATALOGS") {
        Command::ShowCatalogs
    } else if words.take("CURRENT") {
        match (words.take("CATALOG"), words.take("DATABASE")) {
            (true, _) => Command::ShowCurrentCatalog,
            (_, true) => Command::ShowCurrentDatabase,
            _ => return Err(words.unexpected("CATALOG or DATABASE")),
        }
    } else if words.take_any(&["DATABASES", "SCHEMAS"]) {
        let catalog = if words.take_any(&["FROM", "IN"]) { Some(words.ident()?) } else { None };
        Command::ShowDatabases { catalog, like: like(words)? }
    } else if words.take("TABLES") {
        let database = if words.take_any(&["FROM", "IN"]) { words.name(2)? } else { Vec::new() };
        Command::ShowTables { database, like: like(words)? }
    } else if words.take("VIEWS") {
        let database = if words.take_any(&["FROM", "IN"]) { words.name(2)? } else { Vec::new() };
        Command::ShowViews { database, like: like(words)? }
    } else if words.take_any(&["COLUMNS", "FIELDS"]) {
        if !words.take_any(&["FROM", "IN"]) {
            return Err(words.unexpected("FROM or IN"));
        }
        let mut table = words.name(3)?;
        if words.take_any(&["FROM", "IN"]) {
            let mut name = words.name(2)?;
            let [table] = table.as_slice() else {
                return Err(Error::invalid("SHOW COLUMNS names the database of the table twice"));
            };
            name.push(table.clone());
            return Ok(Some(Command::ShowColumns { table: name, like: like(words)? }));
        }
        Command::ShowColumns { table: std::mem::take(&mut table), like: like(words)? }
    } else if words.take_all(&["CREATE", "TABLE"]) {
        Command::ShowCreateTable(words.name(3)?)
    } else if words.take_all(&["CREATE", "VIEW"]) {
        Command::ShowCreateView(words.name(3)?)
    } else if words.take("PARTITIONS") {
        let table = words.name(3)?;
        let partition = if words.take("PARTITION") { ddl::partition(words)? } else { Vec::new() };
        Command::ShowPartitions { table, partition }
    } else if words.take("TBLPROPERTIES") {
        let table = words.name(3)?;
        let key = if words.take_token(&Token::LParen) {
            let key = words.key()?;
            words.expect_token(&Token::RParen)?;
            Some(key)
        } else {
            None
        };
        Command::ShowProperties { table, key }
    } else if words.take("PROCEDURES") {
        Command::ShowProcedures(like(words)?)
    } else {
        return Ok(None);
    }))
}

fn like(words: &mut Words<'_>) -> Result<Option<Like>> {
    let negated = words.take("NOT");
    if !words.take("LIKE") {
        return if negated { Err(words.unexpected("LIKE")) } else { Ok(None) };
    }
    match words.next() {
        Token::SingleQuotedString(pattern) => Ok(Some(Like { negated, pattern })),
        other => Err(Error::invalid(format!("LIKE takes a pattern in quotes, not '{other}'"))),
    }
}

/// The key of SET and RESET.
fn setting(words: &mut Words<'_>) -> Result<String> {
    if words.take("TIME") {
        words.expect(&["ZONE"])?;
        return Ok("time zone".to_owned());
    }
    words.key()
}

fn set(words: &mut Words<'_>) -> Result<Command> {
    let key = setting(words)?;
    let optional = key == "time zone" && *words.peek() != Token::Eq;
    if optional {
        return Ok(Command::Set { key, value: value(words)? });
    }
    if !(words.take_token(&Token::Eq) || words.take("TO")) {
        return Err(words.unexpected("'='"));
    }
    Ok(Command::Set { key, value: value(words)? })
}

/// Everything that is left: one string, or words and numbers as they stand.
fn value(words: &mut Words<'_>) -> Result<String> {
    let mut value = String::new();
    if words.done() {
        return Err(words.unexpected("a value"));
    }
    while !words.done() {
        match words.next() {
            Token::SingleQuotedString(text) | Token::DoubleQuotedString(text) => value.push_str(&text),
            Token::Word(word) => value.push_str(&word.value),
            Token::Number(digits, long) => {
                value.push_str(&digits);
                value.push_str(if long { "L" } else { "" });
            }
            other => value.push_str(&other.to_string()),
        }
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    fn read(sql: &str) -> Result<Parsed> {
        parse(crate::sql::tokens::tokenize(sql)?)
    }

    fn set(sql: &str) -> (String, String) {
        match read(sql).unwrap() {
            Parsed::Command(Command::Set { key, value }) => (key, value),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn parse_when_a_setting_is_written_in_any_style_then_key_and_value_are_whole() {
        let of = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(set("SET 'table.local-time-zone' = 'Asia/Shanghai'"), of("table.local-time-zone", "Asia/Shanghai"));
        assert_eq!(set("SET paimon.scan.snapshot-id = 5"), of("paimon.scan.snapshot-id", "5"));
        assert_eq!(set("SET datafusion.execution.batch_size=100"), of("datafusion.execution.batch_size", "100"));
        assert_eq!(set("SET TIME ZONE '+08:00'"), of("time zone", "+08:00"));
        assert_eq!(set("SET TIME ZONE = UTC"), of("time zone", "UTC"));
        assert!(read("SET paimon.x").is_err());
    }

    #[test]
    fn parse_when_a_statement_changes_tables_in_the_words_of_flink_or_spark_then_it_is_unsupported() {
        let error = read("REFRESH TABLE t").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert_eq!(error.message(), "REFRESH is not supported in this version");
        let error = read("MERGE INTO t USING s WHEN MATCHED THEN UPDATE *").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }

    #[test]
    fn parse_when_tables_are_listed_or_described_then_the_session_answers() {
        for (sql, expected) in [
            ("SHOW DATABASES", Command::ShowDatabases { catalog: None, like: None }),
            (
                "SHOW TABLES IN lake.db NOT LIKE 'a%'",
                Command::ShowTables {
                    database: vec![Ident::new("lake"), Ident::new("db")],
                    like: Some(Like { negated: true, pattern: "a%".to_owned() }),
                },
            ),
            (
                "DESCRIBE EXTENDED `t$files`",
                Command::Describe { table: vec![Ident::with_quote('`', "t$files")], extended: true },
            ),
            ("use lake.x", Command::Use(vec![Ident::new("lake"), Ident::new("x")])),
        ] {
            match read(sql).unwrap() {
                Parsed::Command(command) => assert_eq!(command, expected, "{sql}"),
                other => panic!("{sql}: {other:?}"),
            }
        }
        assert!(matches!(read("DESCRIBE SELECT 1").unwrap(), Parsed::Engine(_)));
        assert!(read("USE a b").is_err());
    }
}
