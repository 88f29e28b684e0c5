//! Reads CREATE TABLE: columns, constraints and clauses in any order. Imports `words` and the statements.

use datafusion::sql::sqlparser::ast::Ident;
use datafusion::sql::sqlparser::tokenizer::Token;

use super::read::{TABLE_PARTS, query};
use super::statement::{ColumnDefinition, CreateTable, Like, TableSource};
use crate::error::{Error, Result};
use crate::sql::words::Words;
use crate::table::ColumnPosition;

/// What follows `CREATE [OR REPLACE] TABLE`.
pub(super) fn table(words: &mut Words<'_>, or_replace: bool) -> Result<CreateTable> {
    let if_not_exists = words.if_not_exists();
    if or_replace && if_not_exists {
        return Err(Error::invalid("OR REPLACE and IF NOT EXISTS exclude each other"));
    }
    let mut table = CreateTable { name: words.name(TABLE_PARTS)?, or_replace, if_not_exists, ..CreateTable::default() };
    if words.take_token(&Token::LParen) {
        loop {
            element(words, &mut table)?;
            if !words.take_token(&Token::Comma) {
                break;
            }
        }
        words.expect_token(&Token::RParen)?;
    }
    while clause(words, &mut table)? {}
    if words.take("AS") {
        if matches!(table.source, TableSource::Like(_)) {
            return Err(Error::invalid("CREATE TABLE takes LIKE or AS, not both"));
        }
        table.source = TableSource::Query(query(words)?);
    }
    if table.columns.is_empty() && matches!(table.source, TableSource::Nothing) {
        return Err(Error::invalid("a table needs columns: CREATE TABLE t (a INT, ..), LIKE table or AS query"));
    }
    Ok(table)
}

/// A column or a constraint.
fn element(words: &mut Words<'_>, table: &mut CreateTable) -> Result<()> {
    if words.take("CONSTRAINT") {
        words.ident()?;
        if !words.sees(&["PRIMARY", "KEY"]) {
            return Err(Error::unsupported("a table has no constraints but its primary key"));
        }
    }
    if words.take_all(&["PRIMARY", "KEY"]) {
        let columns = words.list(Words::ident)?;
        enforcement(words)?;
        return set_primary_key(table, columns);
    }
    if words.sees(&["WATERMARK", "FOR"]) {
        return Err(Error::unsupported("WATERMARK FOR is not supported in this version; leave it out of the table"));
    }
    for refused in ["UNIQUE", "CHECK", "FOREIGN", "INDEX"] {
        let constraint =
            words.sees(&[refused]) && matches!(words.peek_at(1), Token::LParen) || words.sees(&["FOREIGN", "KEY"]);
        if constraint {
            return Err(Error::unsupported("a table has no constraints but its primary key"));
        }
    }
    let (column, is_key) = column(words, true)?;
    if is_key {
        let [name] = column.path.as_slice() else { return Err(Error::invalid("a key is a column of the table")) };
        set_primary_key(table, vec![name.clone()])?;
    }
    table.columns.push(column);
    Ok(())
}

fn set_primary_key(table: &mut CreateTable, columns: Vec<Ident>) -> Result<()> {
    if !table.primary_key.is_empty() {
        return Err(Error::invalid("a table has one PRIMARY KEY; name all its columns in it: PRIMARY KEY (a, b)"));
    }
    table.primary_key = columns;
    Ok(())
}

/// `[NOT] ENFORCED`. A key holds in any case: later rows of a key replace the earlier ones.
fn enforcement(words: &mut Words<'_>) -> Result<()> {
    if words.take("NOT") {
        return words.expect(&["ENFORCED"]);
    }
    words.take("ENFORCED");
    Ok(())
}

/// `name type [NOT NULL] [PRIMARY KEY] [COMMENT 'text'] [DEFAULT value] [FIRST | AFTER column]`, and whether it is the key.
///
/// A nested field is written by its path; a new table's columns have none.
pub(super) fn column(words: &mut Words<'_>, of_new_table: bool) -> Result<(ColumnDefinition, bool)> {
    let path = words.name(if of_new_table { 1 } else { usize::MAX })?;
    definition(words, path)
}

/// What follows the name of a column.
pub(super) fn definition(words: &mut Words<'_>, path: Vec<Ident>) -> Result<(ColumnDefinition, bool)> {
    let shown = |path: &[Ident]| path.iter().map(|part| part.value.clone()).collect::<Vec<_>>().join(".");
    if words.sees(&["AS"]) || words.sees(&["METADATA"]) {
        return Err(Error::unsupported(format!(
            "column {}: computed and METADATA columns are not stored; leave it out, or make a view",
            shown(&path)
        )));
    }
    let data_type = words.data_type().map_err(|error| error.with("column", shown(&path)))?;
    let mut column = ColumnDefinition { path, data_type, comment: None, default: None, position: None };
    let mut is_key = false;
    loop {
        if words.take_all(&["NOT", "NULL"]) {
            column.data_type.nullable = false;
        } else if words.take("NULL") {
            column.data_type.nullable = true;
        } else if words.take_all(&["PRIMARY", "KEY"]) {
            enforcement(words)?;
            is_key = true;
        } else if words.take("COMMENT") {
            column.comment = Some(words.comment()?);
        } else if words.take("DEFAULT") {
            let constant = words.constant().map_err(|error| {
                Error::unsupported("a default is a constant, such as 5, 'text', TRUE or DATE '2024-01-31'")
                    .with("column", shown(&column.path))
                    .with_source(error)
            })?;
            column.default = Some(constant.text);
        } else if let Some(position) = position(words)? {
            column.position = Some(position);
        } else if words.sees(&["METADATA"]) || words.sees(&["GENERATED"]) {
            return Err(Error::unsupported(format!(
                "column {}: METADATA and GENERATED columns are not stored; leave it out, or make a view",
                shown(&column.path)
            )));
        } else {
            return Ok((column, is_key));
        }
    }
}

/// `FIRST`, `LAST` or `AFTER column`
pub(super) fn position(words: &mut Words<'_>) -> Result<Option<ColumnPosition>> {
    Ok(if words.take("FIRST") {
        Some(ColumnPosition::First)
    } else if words.take("LAST") {
        Some(ColumnPosition::Last)
    } else if words.take("AFTER") {
        Some(ColumnPosition::After(words.ident()?.value))
    } else if words.take("BEFORE") {
        Some(ColumnPosition::Before(words.ident()?.value))
    } else {
        None
    })
}

/// A clause behind the columns; false when none comes next.
fn clause(words: &mut Words<'_>, table: &mut CreateTable) -> Result<bool> {
    if words.take("COMMENT") {
        table.comment = Some(words.comment()?);
    } else if words.take_all(&["PARTITIONED", "BY"]) {
        if !table.partition_keys.is_empty() {
            return Err(Error::invalid("PARTITIONED BY is given twice"));
        }
        table.partition_keys = partition_keys(words, &mut table.columns)?;
    } else if words.take_any(&["WITH", "TBLPROPERTIES", "OPTIONS"]) {
        for (key, value) in words.options()? {
            set_option(table, key, value)?;
        }
    } else if words.take("USING") {
        let format = words.ident()?;
        if !format.value.eq_ignore_ascii_case("paimon") {
            return Err(Error::invalid(format!(
                "USING {format}: tables of a lake catalog are USING paimon; the format of their files is the option 'file.format'"
            )));
        }
    } else if words.take_any(&["DISTRIBUTED", "CLUSTERED"]) {
        buckets(words, table)?;
    } else if words.take("LOCATION") {
        return Err(Error::unsupported(
            "LOCATION: a table of a lake catalog lies in the folder of its database; for a table elsewhere use CREATE EXTERNAL \
             TABLE .. STORED AS PAIMON LOCATION '..'",
        ));
    } else if words.take("LIKE") {
        if !matches!(table.source, TableSource::Nothing) {
            return Err(Error::invalid("LIKE is given twice"));
        }
        table.source = TableSource::Like(like(words)?);
    } else {
        return Ok(false);
    }
    Ok(true)
}

fn set_option(table: &mut CreateTable, key: String, value: String) -> Result<()> {
    if table.options.iter().any(|(known, _)| *known == key) {
        return Err(Error::invalid(format!("the option '{key}' is given twice")));
    }
    table.options.push((key, value));
    Ok(())
}

/// `(a, b)`; with types, as Hive and Spark allow, the columns are new ones behind the others.
fn partition_keys(words: &mut Words<'_>, columns: &mut Vec<ColumnDefinition>) -> Result<Vec<Ident>> {
    words.list(|words| {
        let name = words.ident()?;
        match words.peek() {
            Token::Comma | Token::RParen => {}
            Token::LParen => {
                return Err(Error::unsupported(format!(
                    "PARTITIONED BY ({name}(..)): partitions are columns of the table, not expressions"
                )));
            }
            _ => {
                let (column, is_key) = definition(words, vec![name.clone()])?;
                if is_key {
                    return Err(Error::invalid("PRIMARY KEY does not stand in PARTITIONED BY"));
                }
                columns.push(column);
            }
        }
        Ok(name)
    })
}

/// `{DISTRIBUTED | CLUSTERED} [BY [HASH] (a, b)] INTO n BUCKETS`: the options `bucket-key` and `bucket`.
fn buckets(words: &mut Words<'_>, table: &mut CreateTable) -> Result<()> {
    let mut keys: Vec<String> = Vec::new();
    if words.take("BY") {
        words.take("HASH");
        keys = words.list(Words::ident)?.into_iter().map(|key| key.value).collect();
    }
    words.expect(&["INTO"])?;
    let Token::Number(count, false) = words.next() else { return Err(Error::invalid("INTO n BUCKETS takes a number")) };
    words.expect(&["BUCKETS"])?;
    // Without BY the primary key says it.
    if !keys.is_empty() {
        set_option(table, "bucket-key".to_owned(), keys.join(","))?;
    }
    set_option(table, "bucket".to_owned(), count)
}

fn like(words: &mut Words<'_>) -> Result<Like> {
    let mut like = Like { table: words.name(TABLE_PARTS)?, constraints: true, partitions: true, options: true };
    if !words.take_token(&Token::LParen) {
        return Ok(like);
    }
    while !words.take_token(&Token::RParen) {
        let taken = if words.take_any(&["INCLUDING", "OVERWRITING"]) {
            true
        } else if words.take("EXCLUDING") {
            false
        } else {
            return Err(words.unexpected("INCLUDING, EXCLUDING or OVERWRITING"));
        };
        if words.take("ALL") {
            (like.constraints, like.partitions, like.options) = (taken, taken, taken);
        } else if words.take("CONSTRAINTS") {
            like.constraints = taken;
        } else if words.take("PARTITIONS") {
            like.partitions = taken;
        } else if words.take("OPTIONS") {
            like.options = taken;
        } else if !words.take_any(&["GENERATED", "METADATA", "WATERMARKS", "DISTRIBUTION"]) {
            return Err(words.unexpected("ALL, CONSTRAINTS, PARTITIONS or OPTIONS"));
        }
        words.take_token(&Token::Comma);
    }
    Ok(like)
}
