//! Compares a result with an answer: names, then all rows by value.

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::Schema;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

use crate::answer::Answer;
use crate::values::{Value, from_array, from_json};

type Row = Vec<Value>;

/// The first difference between the result and the answer, told in one line.
///
/// Columns named in `sets` hold lists whose order means nothing. Rows are compared as a multiset; where the outermost query of
/// `sql` has ORDER BY, the values of the columns it names must also follow each other as in the answer.
pub fn compare(
    answer: &Answer,
    sql: &str,
    schema: &Schema,
    batches: &[RecordBatch],
    sets: &[String],
) -> Result<(), String> {
    let row_count: usize = batches.iter().map(RecordBatch::num_rows).sum();
    if answer.rows.is_empty() {
        return if row_count == 0 { Ok(()) } else { Err(format!("expected no rows, got {row_count}")) };
    }
    compare_names(&answer.columns, schema)?;
    let is_set = |column: usize| sets.iter().any(|set| set.eq_ignore_ascii_case(&answer.columns[column]));
    let shaped = |column: usize, value: Value| if is_set(column) { value.into_set() } else { value };
    let expected: Vec<Row> = answer
        .rows
        .iter()
        .map(|row| {
            let fields = schema.fields().iter().zip(row).enumerate();
            fields.map(|(i, (field, json))| shaped(i, from_json(json, field.data_type()))).collect()
        })
        .collect();
    let got: Vec<Row> = batches
        .iter()
        .flat_map(|batch| (0..batch.num_rows()).map(move |row| (batch, row)))
        .map(|(batch, row)| {
            batch.columns().iter().enumerate().map(|(i, array)| shaped(i, from_array(array, row))).collect()
        })
        .collect();
    compare_bags(&expected, &got, &answer.columns)?;
    match order_of(sql)? {
        None => Ok(()),
        Some(keys) => compare_order(&expected, &got, &keys, &answer.columns),
    }
}

/// The result without what later versions added: columns behind those of the answer, and rows behind those of a DESCRIBE.
pub fn without_newer(
    answer: &Answer,
    schema: &Schema,
    batches: &[RecordBatch],
) -> Result<(Schema, Vec<RecordBatch>), String> {
    let columns: Vec<usize> = (0..schema.fields().len().min(answer.columns.len())).collect();
    let is_describe = answer.sql.trim_start().to_ascii_uppercase().starts_with("DESCRIBE ");
    let mut left = if is_describe { answer.rows.len() } else { usize::MAX };
    let kept = batches.iter().map(|batch| {
        let batch = batch.project(&columns).map_err(|e| e.to_string())?;
        let taken = batch.num_rows().min(left);
        left -= taken;
        Ok(batch.slice(0, taken))
    });
    let kept = kept.collect::<Result<Vec<_>, String>>()?;
    Ok((schema.project(&columns).map_err(|e| e.to_string())?, kept))
}

/// Flink names an expression without an alias `EXPR$n`: such a name says nothing.
fn compare_names(expected: &[String], schema: &Schema) -> Result<(), String> {
    let got: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    let equal = |(a, b): (&String, &&str)| a.starts_with("EXPR$") || a.eq_ignore_ascii_case(b);
    if expected.len() == got.len() && expected.iter().zip(&got).all(equal) {
        return Ok(());
    }
    Err(format!("expected columns {expected:?}, got {got:?}"))
}

fn compare_bags(expected: &[Row], got: &[Row], columns: &[String]) -> Result<(), String> {
    let sorted = |rows: &[Row]| {
        let mut rows = rows.to_vec();
        rows.sort();
        rows
    };
    let (wanted, found) = (sorted(expected), sorted(got));
    if wanted == found {
        return Ok(());
    }
    let missing = first_without_partner(&wanted, &found);
    let surplus = first_without_partner(&found, &wanted);
    let counts = if wanted.len() == found.len() {
        String::new()
    } else {
        format!("expected {} rows, got {}; ", wanted.len(), found.len())
    };
    Err(match (missing, surplus) {
        (Some(a), Some(b)) if counts.is_empty() && a.iter().zip(b).filter(|(a, b)| a != b).count() == 1 => {
            let at = a.iter().zip(b).position(|(a, b)| a != b).unwrap_or_default();
            format!("column {}: expected {}, got {} in row {}", columns[at], a[at], b[at], row_text(b))
        }
        (Some(a), Some(b)) => format!("{counts}missing {}, unexpected {}", row_text(a), row_text(b)),
        (Some(a), None) => format!("{counts}missing {}", row_text(a)),
        (None, Some(b)) => format!("{counts}unexpected {}", row_text(b)),
        (None, None) => format!("{counts}rows differ"),
    })
}

/// The first of the sorted `rows` that has no equal left in the sorted `others`.
fn first_without_partner<'a>(rows: &'a [Row], others: &[Row]) -> Option<&'a Row> {
    let mut others = others.iter().peekable();
    rows.iter().find(|row| {
        while others.next_if(|other| other < row).is_some() {}
        others.next_if_eq(row).is_none()
    })
}

fn compare_order(expected: &[Row], got: &[Row], keys: &[String], columns: &[String]) -> Result<(), String> {
    let positions: Vec<usize> = keys
        .iter()
        .map_while(|key| match key.parse::<usize>() {
            Ok(position) => position.checked_sub(1).filter(|p| *p < columns.len()),
            Err(_) => columns.iter().position(|column| column.eq_ignore_ascii_case(key)),
        })
        .collect();
    let key_of = |row: &Row| -> Row {
        if positions.is_empty() { row.clone() } else { positions.iter().map(|&p| row[p].clone()).collect() }
    };
    let differs = expected.iter().zip(got).enumerate().find(|(_, (a, b))| key_of(a) != key_of(b));
    match differs {
        None => Ok(()),
        Some((at, (a, b))) => {
            Err(format!("order: row {} expected {}, got {}", at + 1, row_text(&key_of(a)), row_text(&key_of(b))))
        }
    }
}

fn row_text(row: &Row) -> String {
    let cells: Vec<String> = row.iter().map(ToString::to_string).collect();
    let text = format!("({})", cells.join(", "));
    if text.chars().count() > 400 { text.chars().take(400).chain("..".chars()).collect() } else { text }
}

/// What the outermost ORDER BY of a query sorts by: names of columns (the last part of a qualified one), or the text of an
/// expression; `None` without one.
pub fn order_of(sql: &str) -> Result<Option<Vec<String>>, String> {
    let tokens = Tokenizer::new(&GenericDialect {}, sql).tokenize().map_err(|e| e.to_string())?;
    let mut depth = 0;
    let mut outer = vec![];
    for token in tokens {
        match &token {
            Token::Whitespace(_) => continue,
            Token::RParen | Token::RBracket => depth -= 1,
            _ if depth == 0 => outer.push(token.clone()),
            _ => {}
        }
        if matches!(token, Token::LParen | Token::LBracket) {
            depth += 1;
        }
    }
    let is = |token: &Token, word: &str| matches!(token, Token::Word(w) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word));
    let Some(start) = outer.windows(2).rposition(|pair| is(&pair[0], "ORDER") && is(&pair[1], "BY")) else {
        return Ok(None);
    };
    let ends = |token: &Token| ["LIMIT", "OFFSET", "FETCH"].iter().any(|word| is(token, word));
    let keys = outer[start + 2..].iter().take_while(|token| !ends(token)).cloned().collect::<Vec<_>>();
    let direction = |token: &&Token| !["ASC", "DESC", "NULLS", "FIRST", "LAST"].iter().any(|word| is(token, word));
    let name = |key: &[Token]| match key.iter().filter(direction).collect::<Vec<_>>().as_slice() {
        [Token::Word(column)] | [.., Token::Period, Token::Word(column)] => column.value.clone(),
        expression => expression.iter().map(ToString::to_string).collect(),
    };
    Ok(Some(keys.split(|token| *token == Token::Comma).map(name).collect()))
}
