//! The folder of a partition and the texts that show it (`spec/metadata.md 1.3`).
//!
//! A folder is made from the values, never the other way round: NULL, blank text and the default name itself may share
//! one folder, so the values are always those of the manifest.
//!
//! May import: `error`, `spec::{types, datum, binary_row}`.

mod float_text;
mod text;

pub use text::{cast_text, double_text, float_text, raw_text};

use std::fmt::Write;

use crate::error::{Error, Result};
use crate::spec::binary_row::BinaryRow;
use crate::spec::datum::Datum;
use crate::spec::types::DataField;
use text::legacy_text;

/// Default of option `partition.default-name`.
pub const DEFAULT_PARTITION_NAME: &str = "__DEFAULT_PARTITION__";

/// The folder of a partition below the table's: `k=v/k2=v2/`, escaped; empty without partition fields.
///
/// `row` is the serialized partition, `legacy` option `partition.legacy-name`, `default_name` option
/// `partition.default-name`, which stands for NULL and blank values.
///
/// Errors: `Corrupt` when the row does not hold the fields; `Unsupported` for bytes with legacy names, whose folders
/// Java names after an object's address.
pub fn partition_path(row: &[u8], fields: &[&DataField], legacy: bool, default_name: &str) -> Result<String> {
    let mut path = String::new();
    for (field, value) in fields.iter().zip(partition_values(row, fields, legacy, default_name)?) {
        escape(&field.name, &mut path);
        path.push('=');
        escape(&value, &mut path);
        path.push('/');
    }
    Ok(path)
}

/// The values that [`partition_path`] makes the folder of, before they are escaped.
pub fn partition_values(row: &[u8], fields: &[&DataField], legacy: bool, default_name: &str) -> Result<Vec<String>> {
    let texts = values(row, fields)?.into_iter().zip(fields).map(|(value, field)| {
        let text = if legacy { legacy_text(&value, &field.data_type) } else { cast_text(&value, &field.data_type) };
        let text = text.map_err(|error| error.with("partition column", &field.name))?;
        Ok(text.filter(|text| !text.chars().all(is_java_whitespace)).unwrap_or_else(|| default_name.to_owned()))
    });
    texts.collect()
}

/// The partition as system tables show it: `{v1, v2}`, values cast to text, `null` for NULL, whatever the folder is
/// called. Errors as [`partition_path`].
pub fn partition_tuple(row: &[u8], fields: &[&DataField]) -> Result<String> {
    let mut shown = String::from("{");
    for (i, (value, field)) in values(row, fields)?.iter().zip(fields).enumerate() {
        if i > 0 {
            shown.push_str(", ");
        }
        shown.push_str(cast_text(value, &field.data_type)?.as_deref().unwrap_or("null"));
    }
    shown.push('}');
    Ok(shown)
}

/// The partition as a specification: `k=v/k2=v2`, values cast to text and not escaped, `default_name` for NULL and
/// blank text. Errors as [`partition_path`].
pub fn partition_spec(row: &[u8], fields: &[&DataField], default_name: &str) -> Result<String> {
    let values = partition_values(row, fields, false, default_name)?;
    let pairs: Vec<_> = fields.iter().zip(values).map(|(field, value)| format!("{}={value}", field.name)).collect();
    Ok(pairs.join("/"))
}

/// The values of a serialized partition row.
fn values(row: &[u8], fields: &[&DataField]) -> Result<Vec<Datum>> {
    let row = BinaryRow::from_serialized(row)?;
    if row.arity() != fields.len() {
        let (arity, fields) = (row.arity(), fields.len());
        return Err(Error::corrupt(format!("a partition has {arity} values, the table {fields} partition columns")));
    }
    let value = |(index, field): (usize, &&DataField)| {
        row.datum(index, &field.data_type).map_err(|error| error.with("partition column", &field.name))
    };
    fields.iter().enumerate().map(value).collect()
}

/// Whether Java counts the character among the white space that makes a value blank: not the no-break spaces.
fn is_java_whitespace(c: char) -> bool {
    matches!(c,
        '\t'..='\r' | '\u{1c}'..='\u{1f}' | ' ' | '\u{1680}' | '\u{2000}'..='\u{2006}' | '\u{2008}'..='\u{200a}'
        | '\u{2028}' | '\u{2029}' | '\u{205f}' | '\u{3000}')
}

/// Appends a name or value of a partition as a folder's name holds it: `%XX` for control characters and those that a
/// path or a glob gives a meaning to.
pub fn escape(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '\0'..='\x1f'
            | '\x7f'
            | '"'
            | '#'
            | '%'
            | '\''
            | '*'
            | '/'
            | ':'
            | '='
            | '?'
            | '\\'
            | '{'
            | '}'
            | '['
            | ']'
            | '^' => {
                // Writing to a string does not fail.
                let _ = write!(out, "%{:02X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
}

/// Undoes [`escape`]: every `%HH` is the character of that number, any other `%` is itself.
pub fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        let digits = rest.get(at + 1..at + 3).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(code) => {
                out.push(char::from(code));
                rest = &rest[at + 3..];
            }
            None => {
                out.push('%');
                rest = &rest[at + 1..];
            }
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests;
