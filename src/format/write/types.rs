//! Which column types the files of a format can hold (`spec/data.md 1.5`).

use crate::error::{Error, Result};
use crate::format::FileFormat;
use crate::spec::types::MAX_LENGTH;
use crate::spec::{DataField, DataType, TypeKind};

/// Whether files of a format can be written with these columns, asked before a file is named.
///
/// # Errors
/// Unsupported when a column's type can't be written, or the format can't; the error names the column and the remedy.
pub(crate) fn check_types(format: FileFormat, fields: &[DataField]) -> Result<()> {
    let why_not: fn(&DataType) -> Option<&'static str> = match format {
        FileFormat::Parquet => return Ok(()),
        FileFormat::Avro => in_avro,
        FileFormat::Orc => in_orc,
        other => {
            return Err(Error::unsupported(format!(
                "files of the format '{}' can't be written; {REMEDY}",
                other.name()
            )));
        }
    };
    for field in fields {
        let reason = why_not(&field.data_type)
            .or_else(|| (format == FileFormat::Avro && !is_avro_name(&field.name)).then_some(NAMES));
        if let Some(reason) = reason {
            let (name, data_type) = (&field.name, &field.data_type);
            return Err(Error::unsupported(format!(
                "the column {name} of type {data_type} can't be written to {} files: {reason}; {REMEDY}",
                format.name()
            )));
        }
    }
    Ok(())
}

/// What to do about a type or value that the table's format does not take.
pub(super) const REMEDY: &str = "use ALTER TABLE .. SET ('file.format'='parquet')";
const NAMES: &str = "names in Avro are letters, digits and underscores";

/// Letters of any script, as Java's library takes them.
fn is_avro_name(name: &str) -> bool {
    let mut letters = name.chars();
    letters.next().is_some_and(|first| first.is_alphabetic() || first == '_')
        && letters.all(|letter| letter.is_alphanumeric() || letter == '_')
}

/// Why a type is not in Avro files.
fn in_avro(data_type: &DataType) -> Option<&'static str> {
    match &data_type.kind {
        TypeKind::Time(precision) if *precision > 3 => Some("TIME has at most 3 digits there"),
        TypeKind::Timestamp(precision) | TypeKind::TimestampLtz(precision) if *precision > 6 => {
            Some("timestamps have at most 6 digits there")
        }
        TypeKind::Variant => Some("VARIANT is in Parquet files only"),
        TypeKind::Geometry(_) | TypeKind::Geography(_) => Some("shapes are in Parquet files only"),
        TypeKind::Array(inner) | TypeKind::Vector(inner, _) | TypeKind::Multiset(inner) => in_avro(inner),
        TypeKind::Map(key, value) => in_avro(key).or_else(|| in_avro(value)),
        TypeKind::Row(fields) => fields
            .iter()
            .find_map(|field| in_avro(&field.data_type).or_else(|| (!is_avro_name(&field.name)).then_some(NAMES))),
        _ => None,
    }
}

/// Why a type is not in ORC files: what Java does not write there, and what the ORC writer can't.
fn in_orc(data_type: &DataType) -> Option<&'static str> {
    match &data_type.kind {
        TypeKind::Boolean
        | TypeKind::TinyInt
        | TypeKind::SmallInt
        | TypeKind::Int
        | TypeKind::BigInt
        | TypeKind::Float
        | TypeKind::Double
        | TypeKind::Char(_)
        | TypeKind::VarChar(_)
        | TypeKind::VarBinary(MAX_LENGTH)
        | TypeKind::Blob
        | TypeKind::Date
        | TypeKind::Time(_)
        | TypeKind::Timestamp(_)
        | TypeKind::TimestampLtz(_) => None,
        TypeKind::Binary(_) | TypeKind::VarBinary(_) => Some("bytes there are BYTES, of any length"),
        TypeKind::Decimal(..) => Some("DECIMAL is not among the types that can be written there"),
        _ if data_type.is_nested() => Some("nested types are not among those that can be written there"),
        _ => Some("the format has no such type"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(format: FileFormat, name: &str, data_type: &str) -> Result<()> {
        check_types(format, &[DataField::new(0, name, DataType::parse(data_type).unwrap())])
    }

    #[test]
    fn check_types_when_not_writable_then_column_and_remedy_are_named() {
        for (format, name, data_type) in [
            (FileFormat::Orc, "c", "DECIMAL(10, 2)"),
            (FileFormat::Orc, "c", "INT ARRAY"),
            (FileFormat::Orc, "c", "INT MULTISET"),
            (FileFormat::Orc, "c", "VARBINARY(5)"),
            (FileFormat::Orc, "c", "VARIANT"),
            (FileFormat::Avro, "c", "TIMESTAMP(9)"),
            (FileFormat::Avro, "c", "TIME(6)"),
            (FileFormat::Avro, "c", "VARIANT"),
            (FileFormat::Avro, "c", "TIMESTAMP(9) ARRAY"),
            (FileFormat::Avro, "c d", "INT"),
            (FileFormat::Avro, "1c", "INT"),
            (FileFormat::Csv, "c", "INT"),
        ] {
            let error = check(format, name, data_type).unwrap_err();
            let text = error.to_string();
            assert!(text.contains("('file.format'='parquet')"), "{text}");
            assert!(format == FileFormat::Csv || text.contains(&format!("column {name} ")), "{text}");
        }
    }

    #[test]
    fn check_types_when_writable_then_fine() {
        for (format, name, data_type) in [
            (FileFormat::Parquet, "c d", "VARIANT"),
            (FileFormat::Avro, "é_1", "DECIMAL(38, 2) ARRAY"),
            (FileFormat::Orc, "c d", "TIMESTAMP(9)"),
        ] {
            check(format, name, data_type).unwrap();
        }
    }
}
