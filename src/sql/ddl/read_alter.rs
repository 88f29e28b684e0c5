//! Reads ALTER TABLE. Imports `words` and the statements.

use datafusion::sql::sqlparser::ast::Ident;
use datafusion::sql::sqlparser::tokenizer::Token;

use super::read::{TABLE_PARTS, partition};
use super::read_create::{column, definition, position};
use super::statement::{Alteration, ColumnChange, ColumnDefinition, Ddl};
use crate::error::{Error, Result};
use crate::sql::words::Words;

/// What follows `ALTER TABLE`.
pub(super) fn table(words: &mut Words<'_>) -> Result<Ddl> {
    let if_exists = words.if_exists();
    let table = words.name(TABLE_PARTS)?;
    if words.sees(&["DROP"]) {
        let mut ahead = words.clone();
        ahead.take("DROP");
        let if_exists = ahead.if_exists();
        if ahead.sees(&["PARTITION"]) {
            *words = ahead;
            let partitions = words.items(|words| {
                words.expect(&["PARTITION"])?;
                partition(words)
            })?;
            words.take("PURGE");
            return Ok(Ddl::DropPartitions { table, if_exists, partitions });
        }
    }
    Ok(Ddl::AlterTable { table, if_exists, alteration: alteration(words)? })
}

/// What follows `COMMENT ON TABLE`.
pub(super) fn comment(words: &mut Words<'_>) -> Result<Ddl> {
    let table = words.name(TABLE_PARTS)?;
    words.expect(&["IS"])?;
    let comment = if words.take("NULL") { None } else { Some(words.text("a comment in quotes")?) };
    Ok(Ddl::AlterTable { table, if_exists: false, alteration: Alteration::Comment(comment) })
}

fn alteration(words: &mut Words<'_>) -> Result<Alteration> {
    if words.take("SET") {
        words.take("TBLPROPERTIES");
        return Ok(Alteration::SetOptions(words.options()?));
    }
    if words.take("RESET") {
        return Ok(Alteration::ResetOptions { keys: words.list(Words::key)?, if_exists: false });
    }
    if words.take("UNSET") {
        words.expect(&["TBLPROPERTIES"])?;
        let if_exists = words.if_exists();
        return Ok(Alteration::ResetOptions { keys: words.list(Words::key)?, if_exists });
    }
    if words.take("RENAME") {
        return rename(words);
    }
    if words.take("ADD") {
        return add(words);
    }
    if words.take("MODIFY") {
        words.take_any(&["COLUMNS", "COLUMN"]);
        return Ok(Alteration::ModifyColumns(columns(words)?));
    }
    if words.take("CHANGE") {
        return change(words);
    }
    if words.take("ALTER") {
        words.take("COLUMN");
        let column = words.name(usize::MAX)?;
        return Ok(Alteration::AlterColumn { column, changes: column_changes(words)? });
    }
    if words.take("DROP") {
        return drop(words);
    }
    if words.sees(&["REPLACE", "COLUMNS"]) {
        return Err(Error::unsupported(
            "REPLACE COLUMNS would drop every column with its values and add new ones, also those of the same name; use ADD, \
             DROP, RENAME and ALTER COLUMN",
        ));
    }
    Err(words.unexpected("SET, RESET, UNSET, ADD, MODIFY, ALTER, CHANGE, RENAME or DROP"))
}

fn rename(words: &mut Words<'_>) -> Result<Alteration> {
    if words.take("TO") {
        return Ok(Alteration::RenameTable(words.name(TABLE_PARTS)?));
    }
    let spelled_out = words.sees(&["COLUMN"]) && words.peek_at(1) != &Token::Period && !words.sees(&["COLUMN", "TO"]);
    if spelled_out {
        words.take("COLUMN");
    }
    let column = words.name(usize::MAX)?;
    words.expect(&["TO"])?;
    Ok(Alteration::RenameColumn { column, name: words.ident()?, spelled_out })
}

fn add(words: &mut Words<'_>) -> Result<Alteration> {
    if words.sees(&["PRIMARY", "KEY"]) || words.sees(&["CONSTRAINT"]) {
        return Err(Error::unsupported("a primary key is given when the table is created; it cannot be added"));
    }
    if words.sees(&["WATERMARK", "FOR"]) {
        return Err(Error::unsupported("WATERMARK FOR is not supported in this version"));
    }
    if words.sees(&["PARTITION"]) || words.sees(&["IF", "NOT", "EXISTS", "PARTITION"]) {
        return Err(Error::unsupported("ADD PARTITION is not needed: a partition is there when it has rows"));
    }
    words.take_any(&["COLUMNS", "COLUMN"]);
    let if_not_exists = words.if_not_exists();
    Ok(Alteration::AddColumns { columns: columns(words)?, if_not_exists })
}

/// Definitions of columns, in parentheses or not.
fn columns(words: &mut Words<'_>) -> Result<Vec<ColumnDefinition>> {
    let one = |words: &mut Words<'_>| {
        if words.sees(&["PRIMARY", "KEY"]) || words.sees(&["WATERMARK", "FOR"]) {
            return Err(Error::unsupported(
                "only columns of a table can be added and modified, not keys and watermarks",
            ));
        }
        match column(words, false)? {
            (column, false) => Ok(column),
            (_, true) => {
                Err(Error::unsupported("a primary key is given when the table is created; it cannot be added"))
            }
        }
    };
    if *words.peek() == Token::LParen { words.list(one) } else { words.items(one) }
}

/// `CHANGE [COLUMN] old new type ..` as Hive has it, or `CHANGE [COLUMN] column TYPE type ..`.
fn change(words: &mut Words<'_>) -> Result<Alteration> {
    words.take("COLUMN");
    let column = words.name(usize::MAX)?;
    let clause = match words.peek_at(1) {
        Token::SingleQuotedString(_) => words.sees(&["COMMENT"]),
        Token::EOF => words.sees(&["FIRST"]),
        _ => ["TYPE", "SET", "DROP", "AFTER"].iter().any(|word| words.sees(&[word])),
    };
    if clause {
        return Ok(Alteration::AlterColumn { column, changes: column_changes(words)? });
    }
    let name = words.ident()?;
    match definition(words, vec![name])? {
        (definition, false) => Ok(Alteration::ChangeColumn { column, definition }),
        (_, true) => Err(Error::unsupported("a primary key is given when the table is created; it cannot be added")),
    }
}

fn column_changes(words: &mut Words<'_>) -> Result<Vec<ColumnChange>> {
    let mut changes = Vec::new();
    while !words.done() {
        let change = if words.take("TYPE") || words.take_all(&["SET", "DATA", "TYPE"]) {
            ColumnChange::Type(words.data_type()?)
        } else if words.take_all(&["SET", "NOT", "NULL"]) {
            ColumnChange::Nullable(false)
        } else if words.take_all(&["DROP", "NOT", "NULL"]) {
            ColumnChange::Nullable(true)
        } else if words.take("COMMENT") || words.take_all(&["SET", "COMMENT"]) {
            ColumnChange::Comment(words.comment()?)
        } else if words.take_all(&["SET", "DEFAULT"]) {
            ColumnChange::Default(words.constant()?.text)
        } else if words.take_all(&["DROP", "DEFAULT"]) {
            ColumnChange::Default(None)
        } else if let Some(position) = position(words)? {
            ColumnChange::Position(position)
        } else {
            break;
        };
        changes.push(change);
    }
    if changes.is_empty() {
        return Err(
            words.unexpected("TYPE, SET NOT NULL, DROP NOT NULL, COMMENT, SET DEFAULT, DROP DEFAULT, FIRST or AFTER")
        );
    }
    Ok(changes)
}

fn drop(words: &mut Words<'_>) -> Result<Alteration> {
    if words.take_all(&["PRIMARY", "KEY"]) {
        return Ok(Alteration::DropPrimaryKey);
    }
    if words.take("CONSTRAINT") {
        // The only constraint of a table, whatever its name was.
        words.ident()?;
        return Ok(Alteration::DropPrimaryKey);
    }
    if words.sees(&["WATERMARK"]) && words.peek_at(1) == &Token::EOF {
        return Err(Error::unsupported("DROP WATERMARK: a table has none"));
    }
    words.take_any(&["COLUMNS", "COLUMN"]);
    let if_exists = words.if_exists();
    let path = |words: &mut Words<'_>| -> Result<Vec<Ident>> { words.name(usize::MAX) };
    let columns = if *words.peek() == Token::LParen { words.list(path)? } else { words.items(path)? };
    Ok(Alteration::DropColumns { columns, if_exists })
}
