//! Which types a column takes without a CAST.
//!
//! The engine casts almost everything into almost everything: `1` is `TRUE`, a number of some unit is a TIMESTAMP, an ARRAY is
//! its text, and a value is the ARRAY with that value. Spark and Flink refuse these, as they are mistakes (columns in another
//! order) more often than intentions.
//!
//! Imports the types of arrow and their names in SQL.

use arrow::datatypes::{DataType, FieldRef};

use crate::error::{Error, Result};
use crate::sql::types;

/// Refuses values of the type `given` for a column of the type `to` that are of another kind.
///
/// Numbers of all types are of one kind; so are dates and timestamps. Text becomes all that is not nested (whether a value is
/// a number or a date is told when it is written), and all that is not nested becomes text.
///
/// # Errors
/// Invalid with the column and both types.
pub(crate) fn check_conversion(column: &str, given: &DataType, to: &DataType) -> Result<()> {
    if becomes(given, to) {
        return Ok(());
    }
    let (given, to) = (shown(given), shown(to));
    Err(Error::invalid(format!(
        "column {column} takes {to}, and {given} becomes {to} by a CAST in the statement only; look at the order of the columns"
    )))
}

/// A type as SQL writes it.
pub(crate) fn shown(data_type: &DataType) -> String {
    types::from_arrow(data_type, true).map_or_else(|_| data_type.to_string(), |shown| shown.to_string())
}

/// What values are, as far as conversions go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Boolean,
    Number,
    Text,
    Bytes,
    Day,
    TimeOfDay,
    Nested,
    /// NULL, and types that the engine alone knows, which it may judge.
    Any,
}

fn kind(data_type: &DataType) -> Kind {
    match data_type {
        DataType::Boolean => Kind::Boolean,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Kind::Text,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => Kind::Bytes,
        DataType::Date32 | DataType::Date64 | DataType::Timestamp(..) => Kind::Day,
        DataType::Time32(_) | DataType::Time64(_) => Kind::TimeOfDay,
        number if number.is_numeric() => Kind::Number,
        nested if nested.is_nested() => Kind::Nested,
        _ => Kind::Any,
    }
}

fn becomes(given: &DataType, to: &DataType) -> bool {
    match (given, to) {
        (DataType::Dictionary(_, given), to) => return becomes(given, to),
        (DataType::RunEndEncoded(_, given), to) => return becomes(given.data_type(), to),
        (DataType::Struct(given), DataType::Struct(to)) => {
            // The engine takes fields by their names where some are the same, and leaves out what it has no place for.
            let of_name = |given: &FieldRef| to.iter().find(|to| to.name() == given.name());
            if given.iter().any(|given| of_name(given).is_some()) {
                return given.iter().all(|given| of_name(given).is_some_and(|to| field_becomes(given, to)));
            }
            return given.len() != to.len() || given.iter().zip(to).all(|(given, to)| field_becomes(given, to));
        }
        (DataType::Map(given, _), DataType::Map(to, _)) => return field_becomes(given, to),
        _ => {}
    }
    if let (Some(given), Some(to)) = (element(given), element(to)) {
        return field_becomes(given, to);
    }
    match (kind(given), kind(to)) {
        (Kind::Any, _) | (_, Kind::Any) => true,
        (Kind::Nested, Kind::Nested) => true,
        (Kind::Nested, _) | (_, Kind::Nested) => false,
        (Kind::Text, _) | (_, Kind::Text) => true,
        // A timestamp's time of the day.
        (Kind::Day, Kind::TimeOfDay) => true,
        (given, to) => given == to,
    }
}

fn field_becomes(given: &FieldRef, to: &FieldRef) -> bool {
    becomes(given.data_type(), to.data_type())
}

fn element(data_type: &DataType) -> Option<&FieldRef> {
    match data_type {
        DataType::List(element)
        | DataType::LargeList(element)
        | DataType::ListView(element)
        | DataType::LargeListView(element)
        | DataType::FixedSizeList(element, _) => Some(element),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::{Field, TimeUnit};

    use super::*;

    fn list(element: DataType) -> DataType {
        DataType::List(Arc::new(Field::new("element", element, true)))
    }

    #[test]
    fn check_conversion_when_values_are_of_another_kind_then_it_is_refused() {
        let timestamp = DataType::Timestamp(TimeUnit::Millisecond, None);
        let row = |inner| DataType::Struct(vec![Field::new("a", inner, true)].into());
        for (given, to) in [
            (DataType::Int64, DataType::Boolean),
            (DataType::Boolean, DataType::Int32),
            (DataType::Int64, timestamp.clone()),
            (timestamp.clone(), DataType::Int64),
            (DataType::Date32, DataType::Int32),
            (DataType::Int32, DataType::Time32(TimeUnit::Millisecond)),
            (DataType::Int32, DataType::BinaryView),
            (list(DataType::Int32), DataType::Utf8View),
            (DataType::Int32, list(DataType::Int32)),
            (list(DataType::Int64), list(DataType::Boolean)),
            (row(DataType::Int64), row(DataType::Date32)),
            (
                DataType::Struct(
                    vec![Field::new("a", DataType::Int32, true), Field::new("b", DataType::Int32, true)].into(),
                ),
                row(DataType::Int32),
            ),
        ] {
            let error = check_conversion("c", &given, &to).unwrap_err().to_string();
            assert!(error.contains("column c"), "{error}");
        }
    }

    #[test]
    fn check_conversion_when_values_may_fit_then_it_is_not_refused() {
        let timestamp = DataType::Timestamp(TimeUnit::Nanosecond, None);
        for (given, to) in [
            (DataType::Null, DataType::Boolean),
            (DataType::Int64, DataType::Float32),
            (DataType::Decimal128(10, 2), DataType::Int32),
            (DataType::Utf8, DataType::Date32),
            (DataType::Utf8, DataType::BinaryView),
            (DataType::Int64, DataType::Utf8View),
            (DataType::Date32, timestamp.clone()),
            (timestamp, DataType::Date32),
            (list(DataType::Null), list(DataType::Boolean)),
            (DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)), DataType::Utf8View),
        ] {
            check_conversion("c", &given, &to).unwrap();
        }
    }
}
