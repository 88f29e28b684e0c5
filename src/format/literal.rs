//! Values to text: for the text formats, and for the casts of `spec/metadata.md 2.6` on reading. The way back is
//! [`crate::spec::literal`], whose functions are named here too.
//!
//! May import: `error`, `spec`, `conform` beside it.

use std::fmt::Write as _;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType as ArrowType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, Time32MillisecondType,
};
use chrono::{Datelike, NaiveDate};

use super::conform::{float_text, timestamp_ticks};
use crate::error::{Error, Result};
use crate::spec::literal::EPOCH_DAYS_FROM_CE;
pub(crate) use crate::spec::literal::{
    parse_boolean, parse_date, parse_decimal, parse_double, parse_float, parse_integer, parse_time, parse_timestamp,
};
use crate::spec::{DataType, TypeKind};

pub(crate) const MILLIS_PER_DAY: i64 = 86_400_000;

/// Writes the value of a row to a text.
type Writer<'a> = Box<dyn Fn(usize, &mut String) -> Result<()> + 'a>;

/// How the values of `array`, of type `data_type`, become text. Only for rows that are not NULL.
///
/// # Errors
/// Unsupported for a type without a text (`spec/metadata.md 2.6`).
pub(crate) fn writer<'a>(array: &'a ArrayRef, data_type: &'a DataType) -> Result<Writer<'a>> {
    let unsupported = || Error::unsupported(format!("{data_type} can't be read as text"));
    Ok(match &data_type.kind {
        TypeKind::Boolean => {
            let values: &BooleanArray = array.as_boolean();
            Box::new(move |row, out| {
                out.push_str(if values.value(row) { "true" } else { "false" });
                Ok(())
            })
        }
        TypeKind::TinyInt => integers::<Int8Type>(array),
        TypeKind::SmallInt => integers::<Int16Type>(array),
        TypeKind::Int => integers::<Int32Type>(array),
        TypeKind::BigInt => integers::<Int64Type>(array),
        TypeKind::Float => {
            let values = array.as_primitive::<Float32Type>();
            Box::new(move |row, out| {
                float_text(f64::from(values.value(row)), &format!("{:e}", values.value(row)), out);
                Ok(())
            })
        }
        TypeKind::Double => {
            let values = array.as_primitive::<Float64Type>();
            Box::new(move |row, out| {
                float_text(values.value(row), &format!("{:e}", values.value(row)), out);
                Ok(())
            })
        }
        TypeKind::Decimal(_, scale) => {
            let values = array.as_primitive::<Decimal128Type>();
            let scale = *scale;
            Box::new(move |row, out| {
                decimal_text(values.value(row), scale, out);
                Ok(())
            })
        }
        TypeKind::Char(_) | TypeKind::VarChar(_) => match array.data_type() {
            ArrowType::Utf8View => {
                let values = array.as_string_view();
                Box::new(move |row, out| {
                    out.push_str(values.value(row));
                    Ok(())
                })
            }
            _ => {
                let values = array.as_string::<i32>();
                Box::new(move |row, out| {
                    out.push_str(values.value(row));
                    Ok(())
                })
            }
        },
        TypeKind::Binary(_) | TypeKind::VarBinary(_) => match array.data_type() {
            ArrowType::BinaryView => {
                let values = array.as_binary_view();
                Box::new(move |row, out| {
                    out.push_str(&String::from_utf8_lossy(values.value(row)));
                    Ok(())
                })
            }
            _ => {
                let values = array.as_binary::<i32>();
                Box::new(move |row, out| {
                    out.push_str(&String::from_utf8_lossy(values.value(row)));
                    Ok(())
                })
            }
        },
        TypeKind::Date => {
            let values = array.as_primitive::<Date32Type>();
            Box::new(move |row, out| date_text(values.value(row), out))
        }
        TypeKind::Time(precision) => {
            let values = array.as_primitive::<Time32MillisecondType>();
            let precision = *precision;
            Box::new(move |row, out| {
                time_text(i64::from(values.value(row)), precision, out);
                Ok(())
            })
        }
        TypeKind::Timestamp(precision) | TypeKind::TimestampLtz(precision) => {
            let (ticks, per_second) = timestamp_ticks(array).ok_or_else(unsupported)?;
            let precision = usize::from(*precision);
            Box::new(move |row, out| timestamp_text(ticks.value(row), per_second, precision, out))
        }
        TypeKind::Array(element) => {
            let list = array.as_list::<i32>();
            let inner = writer(list.values(), element)?;
            Box::new(move |row, out| {
                let offsets = list.value_offsets();
                out.push('[');
                for i in offsets[row]..offsets[row + 1] {
                    if i > offsets[row] {
                        out.push_str(", ");
                    }
                    part(list.values(), &inner, i as usize, out)?;
                }
                out.push(']');
                Ok(())
            })
        }
        TypeKind::Map(key, value) => {
            let map = array.as_map();
            let (keys, values) = (writer(map.keys(), key)?, writer(map.values(), value)?);
            Box::new(move |row, out| {
                let offsets = map.value_offsets();
                out.push('{');
                for i in offsets[row]..offsets[row + 1] {
                    if i > offsets[row] {
                        out.push_str(", ");
                    }
                    part(map.keys(), &keys, i as usize, out)?;
                    out.push_str(" -> ");
                    part(map.values(), &values, i as usize, out)?;
                }
                out.push('}');
                Ok(())
            })
        }
        TypeKind::Row(fields) => {
            let row_array = array.as_struct();
            let inner = fields
                .iter()
                .zip(row_array.columns())
                .map(|(field, column)| Ok((column, writer(column, &field.data_type)?)))
                .collect::<Result<Vec<_>>>()?;
            Box::new(move |row, out| {
                out.push('{');
                for (i, (column, write)) in inner.iter().enumerate() {
                    if i > 0 {
                        out.push_str(", ");
                    }
                    part(column, write, row, out)?;
                }
                out.push('}');
                Ok(())
            })
        }
        _ => return Err(unsupported()),
    })
}

fn part(array: &ArrayRef, write: &Writer<'_>, row: usize, out: &mut String) -> Result<()> {
    if array.is_null(row) {
        out.push_str("null");
        return Ok(());
    }
    write(row, out)
}

fn integers<T: ArrowPrimitiveType>(array: &ArrayRef) -> Writer<'_>
where
    T::Native: std::fmt::Display,
{
    let values = array.as_primitive::<T>();
    Box::new(move |row, out| {
        let _ = write!(out, "{}", values.value(row));
        Ok(())
    })
}

/// The plain digits of a decimal, its scale kept.
pub(crate) fn decimal_text(unscaled: i128, scale: u8, out: &mut String) {
    if unscaled < 0 {
        out.push('-');
    }
    let scale = usize::from(scale);
    let digits = format!("{:0>width$}", unscaled.unsigned_abs(), width = scale + 1);
    let (before, after) = digits.split_at(digits.len() - scale);
    out.push_str(before);
    if scale > 0 {
        out.push('.');
        out.push_str(after);
    }
}

fn date_text(days: i32, out: &mut String) -> Result<()> {
    let date = EPOCH_DAYS_FROM_CE
        .checked_add(days)
        .and_then(NaiveDate::from_num_days_from_ce_opt)
        .ok_or_else(|| Error::corrupt(format!("the date {days} days from 1970-01-01 is out of range")))?;
    let _ = write!(out, "{:04}-{:02}-{:02}", date.year(), date.month(), date.day());
    Ok(())
}

/// `HH:mm:ss`, then a fraction of at most `precision` digits that ends with its last digit but zero.
fn time_text(millis: i64, precision: u8, out: &mut String) {
    let seconds = millis.div_euclid(1000);
    let _ = write!(out, "{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    if precision == 0 {
        return;
    }
    out.push('.');
    let mut fraction = millis.rem_euclid(1000);
    for _ in 0..precision {
        let _ = write!(out, "{}", fraction / 100);
        fraction = fraction % 100 * 10;
        if fraction == 0 {
            break;
        }
    }
}

/// `yyyy-MM-dd HH:mm:ss`, then a fraction of at least `precision` digits.
fn timestamp_text(ticks: i64, per_second: i64, precision: usize, out: &mut String) -> Result<()> {
    let seconds = ticks.div_euclid(per_second);
    let nanos = ticks.rem_euclid(per_second) * (1_000_000_000 / per_second);
    let days = i32::try_from(seconds.div_euclid(86_400))
        .map_err(|_| Error::corrupt(format!("the timestamp {seconds} seconds from 1970-01-01 is out of range")))?;
    date_text(days, out)?;
    out.push(' ');
    time_text(seconds.rem_euclid(86_400) * 1000, 0, out);
    let fraction = format!("{nanos:09}");
    let shown = fraction.trim_end_matches('0').len().max(precision);
    if shown > 0 {
        out.push('.');
        out.push_str(&fraction[..shown.min(9)]);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn double(value: f64) -> String {
        let mut out = String::new();
        float_text(value, &format!("{value:e}"), &mut out);
        out
    }

    #[test]
    fn float_text_when_small_or_large_then_as_java() {
        for (value, text) in [
            (1.5, "1.5"),
            (-0.1, "-0.1"),
            (1e20, "1.0E20"),
            (123_456_789.987, "1.23456789987E8"),
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (100.0, "100.0"),
            (0.001, "0.001"),
            (0.000_999, "9.99E-4"),
            (9_999_999.0, "9999999.0"),
            (1e7, "1.0E7"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(double(value), text);
        }
    }
}
