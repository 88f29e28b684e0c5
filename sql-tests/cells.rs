//! Rows as sqllogictest files write them, by the conventions of DataFusion's own suites: `NULL`, `(empty)`, floats rounded to
//! twelve digits, decimals at their scale, and a last cell of several lines (EXPLAIN) as numbered lines.

use std::iter;

use datafusion::arrow::array::types::{Float32Type, Float64Type};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use sqllogictest::ColumnType;

/// The letter a file gives a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CellType {
    Boolean,
    DateTime,
    Integer,
    Timestamp,
    Float,
    Text,
    Other,
}

impl ColumnType for CellType {
    fn from_char(value: char) -> Option<Self> {
        match value {
            'B' => Some(Self::Boolean),
            'D' => Some(Self::DateTime),
            'I' => Some(Self::Integer),
            'P' => Some(Self::Timestamp),
            'R' => Some(Self::Float),
            'T' => Some(Self::Text),
            '?' => Some(Self::Other),
            _ => None,
        }
    }

    fn to_char(&self) -> char {
        match self {
            Self::Boolean => 'B',
            Self::DateTime => 'D',
            Self::Integer => 'I',
            Self::Timestamp => 'P',
            Self::Float => 'R',
            Self::Text => 'T',
            Self::Other => '?',
        }
    }
}

/// The letters of a schema's columns.
pub fn cell_types(schema: &Schema) -> Vec<CellType> {
    schema.fields().iter().map(|field| cell_type(field.data_type())).collect()
}

fn cell_type(data_type: &DataType) -> CellType {
    match data_type {
        DataType::Boolean => CellType::Boolean,
        t if t.is_integer() => CellType::Integer,
        t if t.is_floating() || t.is_decimal() => CellType::Float,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => CellType::Text,
        DataType::Date32 | DataType::Date64 | DataType::Time32(_) | DataType::Time64(_) => CellType::DateTime,
        DataType::Timestamp(..) => CellType::Timestamp,
        DataType::Dictionary(_, values) => cell_type(values),
        _ => CellType::Other,
    }
}

/// All rows of a result as cells.
pub fn rows(batches: &[RecordBatch]) -> Result<Vec<Vec<String>>, ArrowError> {
    let mut rows = vec![];
    for batch in batches {
        for row in 0..batch.num_rows() {
            let cells = batch.columns().iter().map(|column| cell(column, row)).collect::<Result<Vec<_>, _>>()?;
            rows.extend(expanded(cells));
        }
    }
    Ok(rows)
}

fn cell(array: &ArrayRef, row: usize) -> Result<String, ArrowError> {
    if array.is_null(row) || *array.data_type() == DataType::Null {
        return Ok("NULL".to_string());
    }
    Ok(match array.data_type() {
        DataType::Float16 => return cell(&cast(&array.slice(row, 1), &DataType::Float32)?, 0),
        DataType::Float32 => float_text(array.as_primitive::<Float32Type>().value(row)),
        DataType::Float64 => float_text(array.as_primitive::<Float64Type>().value(row)),
        DataType::Utf8 => string_text(array.as_string::<i32>().value(row)),
        DataType::LargeUtf8 => string_text(array.as_string::<i64>().value(row)),
        DataType::Utf8View => string_text(array.as_string_view().value(row)),
        DataType::Dictionary(_, values) => return cell(&cast(&array.slice(row, 1), values)?, 0),
        _ => {
            let options = FormatOptions::default().with_null("NULL");
            ArrayFormatter::try_new(array.as_ref(), &options)?.value(row).try_to_string()?
        }
    })
}

fn string_text(text: &str) -> String {
    if text.is_empty() { "(empty)".to_string() } else { text.trim_end_matches('\n').to_string() }
}

/// The shortest text of a float in plain notation, rounded (half to even) to twelve digits after the point, without trailing
/// zeros.
fn float_text<T: Copy + Into<f64> + ToString>(value: T) -> String {
    let wide: f64 = value.into();
    if wide.is_nan() {
        return "NaN".to_string();
    }
    if wide.is_infinite() {
        return if wide > 0.0 { "Infinity" } else { "-Infinity" }.to_string();
    }
    let plain = value.to_string();
    let (sign, digits) = plain.strip_prefix('-').map_or(("", plain.as_str()), |digits| ("-", digits));
    let rounded = rounded(digits, 12);
    if rounded == "0" { rounded } else { format!("{sign}{rounded}") }
}

fn rounded(digits: &str, places: usize) -> String {
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let kept = fraction.get(..places).unwrap_or(fraction);
    let cut = fraction.get(places..).unwrap_or("");
    let mut number: Vec<u8> = whole.bytes().chain(kept.bytes()).collect();
    let odd = number.last().is_some_and(|digit| digit % 2 == 1);
    let half = format!("5{}", "0".repeat(cut.len().saturating_sub(1)));
    if !cut.is_empty() && (cut > half.as_str() || (cut == half && odd)) {
        let nines = number.iter().rev().take_while(|digit| **digit == b'9').count();
        let from = number.len() - nines;
        number[from..].fill(b'0');
        match from.checked_sub(1) {
            Some(last) => number[last] += 1,
            None => number.insert(0, b'1'),
        }
    }
    let point = number.len() - kept.len();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (whole, fraction) = (text(&number[..point]), text(&number[point..]));
    match fraction.trim_end_matches('0') {
        "" => whole,
        fraction => format!("{whole}.{fraction}"),
    }
}

/// A row whose last cell has several lines becomes the other cells and then one numbered line each; blanks that lead a line
/// become `-`, since sqllogictest does not keep them.
fn expanded(mut row: Vec<String>) -> Vec<Vec<String>> {
    match row.pop() {
        Some(last) if last.contains('\n') => {
            let lines = last.lines().enumerate().map(|(i, line)| {
                let content = line.trim_start();
                let indent = "-".repeat(line.len() - content.len());
                vec![format!("{:02}){indent}{content}", i + 1)]
            });
            iter::once(row).chain(lines).collect()
        }
        Some(last) => {
            row.push(last);
            vec![row]
        }
        None => vec![row],
    }
}

/// Blanks at the end of a cell or line do not count.
#[expect(clippy::ptr_arg, reason = "the shape sqllogictest asks for")]
pub fn normalized(text: &String) -> String {
    text.trim_end().to_string()
}

/// What stands for a volatile part of a line, such as a time or a file name.
const IGNORE: &str = "<slt:ignore>";

/// Whether every row is the expected line; [`IGNORE`] in a line stands for any text.
pub fn rows_match(normalizer: sqllogictest::Normalizer, actual: &[Vec<String>], expected: &[String]) -> bool {
    let line = |row: &Vec<String>| normalizer(&row.iter().map(normalizer).collect::<Vec<_>>().join(" "));
    actual.len() == expected.len()
        && actual.iter().zip(expected).all(|(row, expected)| line_matches(&line(row), &normalizer(expected)))
}

fn line_matches(line: &str, expected: &str) -> bool {
    let Some((start, rest)) = expected.split_once(IGNORE) else { return line == expected };
    let Some(mut line) = line.strip_prefix(start) else { return false };
    let mut parts: Vec<&str> = rest.split(IGNORE).collect();
    let end = parts.pop().unwrap_or_default();
    for part in parts {
        match line.find(part) {
            Some(at) => line = &line[at + part.len()..],
            None => return false,
        }
    }
    line.ends_with(end)
}
