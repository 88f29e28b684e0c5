//! Values to text and text to values: for the text formats, and for the casts of `spec/metadata.md 2.6` on reading.
//!
//! Text is strict: no blanks around it (but for FLOAT and DOUBLE), no leftovers; what does not parse is an error that shows the
//! text. May import: `error`, `spec`, `conform` beside it.

use std::fmt::Write as _;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType as ArrowType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, Time32MillisecondType,
};
use chrono::{Datelike, NaiveDate, NaiveTime, Timelike};

use super::conform::{float_text, timestamp_ticks};
use crate::error::{Error, Result};
use crate::spec::{DataType, TypeKind};

/// Days from 0001-01-01 to 1970-01-01, chrono's count of them.
const EPOCH_DAYS_FROM_CE: i32 = 719_163;
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

fn bad(text: &str, target: &str) -> Error {
    Error::invalid(format!("'{text}' can't be read as {target}"))
}

/// `t true y yes 1` and `f false n no 0`, in any case.
pub(crate) fn parse_boolean(text: &str) -> Result<bool> {
    match text.to_lowercase().as_str() {
        "t" | "true" | "y" | "yes" | "1" => Ok(true),
        "f" | "false" | "n" | "no" | "0" => Ok(false),
        _ => Err(bad(text, "BOOLEAN")),
    }
}

/// An integer between `min` and `max`; a fraction of digits is cut.
pub(crate) fn parse_integer(text: &str, min: i64, max: i64, target: &str) -> Result<i64> {
    let (negative, digits) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let numeric = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if digits.is_empty() || !numeric(whole) || !numeric(fraction) {
        return Err(bad(text, target));
    }
    let mut value = 0_i64;
    for digit in whole.bytes().map(|byte| i64::from(byte - b'0')) {
        value = value
            .checked_mul(10)
            .and_then(|value| if negative { value.checked_sub(digit) } else { value.checked_add(digit) })
            .filter(|value| (min..=max).contains(value))
            .ok_or_else(|| bad(text, target))?;
    }
    Ok(value)
}

/// A DOUBLE as Java parses it: blanks around it and a suffix `d` or `f` are taken.
pub(crate) fn parse_double(text: &str) -> Result<f64> {
    let trimmed = float_body(text);
    match trimmed {
        "NaN" | "+NaN" | "-NaN" => return Ok(f64::NAN),
        "Infinity" | "+Infinity" => return Ok(f64::INFINITY),
        "-Infinity" => return Ok(f64::NEG_INFINITY),
        _ => {}
    }
    plain_float(trimmed).and_then(|body| body.parse().ok()).ok_or_else(|| bad(text, "DOUBLE"))
}

/// A FLOAT, as [`parse_double`].
pub(crate) fn parse_float(text: &str) -> Result<f32> {
    let trimmed = float_body(text);
    match trimmed {
        "NaN" | "+NaN" | "-NaN" => return Ok(f32::NAN),
        "Infinity" | "+Infinity" => return Ok(f32::INFINITY),
        "-Infinity" => return Ok(f32::NEG_INFINITY),
        _ => {}
    }
    plain_float(trimmed).and_then(|body| body.parse().ok()).ok_or_else(|| bad(text, "FLOAT"))
}

fn float_body(text: &str) -> &str {
    text.trim_matches(|c: char| c <= ' ')
}

/// Digits, point and exponent only: Rust would also take `inf` and `nan`.
fn plain_float(text: &str) -> Option<&str> {
    let body = text.strip_suffix(['d', 'D', 'f', 'F']).unwrap_or(text);
    let plain = body.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.' | b'e' | b'E'));
    (plain && body.bytes().any(|byte| byte.is_ascii_digit())).then_some(body)
}

/// The unscaled value of a decimal text at `scale`, rounded half up.
///
/// # Errors
/// Invalid when the text is no decimal, or one of more than `precision` digits.
pub(crate) fn parse_decimal(text: &str, precision: u8, scale: u8) -> Result<i128> {
    let target = || format!("DECIMAL({precision}, {scale})");
    let wrong = || bad(text, &target());
    let (negative, rest) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let (mantissa, exponent) = match rest.find(['e', 'E']) {
        Some(at) => (&rest[..at], rest[at + 1..].parse::<i64>().map_err(|_| wrong())?),
        None => (rest, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.len() + fraction.len() == 0 || !whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    let digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).map(|byte| byte - b'0').collect();
    // The position of the decimal point among the digits, then of the last digit that is kept.
    let point = (whole.len() as i64).checked_add(exponent).ok_or_else(wrong)?;
    let kept = point.checked_add(i64::from(scale)).ok_or_else(wrong)?;
    let mut unscaled = 0_i128;
    let limit = 10_i128.pow(u32::from(precision));
    for position in 0..kept.max(0) {
        let digit = digits.get(position as usize).copied().unwrap_or(0);
        unscaled = unscaled * 10 + i128::from(digit);
        if unscaled >= limit {
            return Err(wrong());
        }
        // Zero stays zero however far the exponent shifts it.
        if unscaled == 0 && position as usize >= digits.len() {
            break;
        }
    }
    if kept >= 0 && digits.get(kept as usize).is_some_and(|digit| *digit >= 5) {
        unscaled += 1;
    }
    if unscaled >= limit {
        return Err(wrong());
    }
    Ok(if negative { -unscaled } else { unscaled })
}

/// Days since 1970-01-01 of `yyyy`, `yyyy-M` or `yyyy-M-d`; a time behind a blank is left out.
pub(crate) fn parse_date(text: &str) -> Result<i32> {
    let wrong = || bad(text, "DATE");
    let body = match text.find(' ') {
        Some(at) if at > 0 => &text[..at],
        _ => text,
    };
    let mut parts = body.splitn(3, '-').map(|part| number(part.trim()));
    let year = parts.next().flatten().ok_or_else(wrong)?;
    let month = parts.next().map_or(Some(1), |part| part).ok_or_else(wrong)?;
    let day = parts.next().map_or(Some(1), |part| part).ok_or_else(wrong)?;
    days_of(year, month, day).ok_or_else(wrong)
}

/// Milliseconds of the day of `H`, `H:m`, `H:m:s` or `H:m:s.fraction`.
pub(crate) fn parse_time(text: &str) -> Result<i32> {
    let wrong = || bad(text, "TIME");
    let nanos = time_nanos(text, 1).ok_or_else(wrong)?;
    i32::try_from(nanos / 1_000_000).map_err(|_| wrong())
}

/// Seconds since 1970-01-01 and nanoseconds of the second of `yyyy-M-d`, alone or with ` H:m:s` and a fraction.
pub(crate) fn parse_timestamp(text: &str, target: &str) -> Result<(i64, i64)> {
    let wrong = || bad(text, target);
    let (date, time) = match text.split_once(' ') {
        Some((date, time)) => (date, Some(time)),
        None => (text, None),
    };
    let parts: Vec<&str> = date.split('-').collect();
    let [year, month, day] = parts.as_slice() else { return Err(wrong()) };
    if year.len() != 4 {
        return Err(wrong());
    }
    let days = match (number(year), number(month), number(day)) {
        (Some(year), Some(month), Some(day)) => days_of(year, month, day),
        _ => None,
    }
    .ok_or_else(wrong)?;
    let nanos = time.map_or(Some(0), |time| time_nanos(time, 3)).ok_or_else(wrong)?;
    Ok((i64::from(days) * 86_400 + nanos / 1_000_000_000, nanos % 1_000_000_000))
}

fn days_of(year: u32, month: u32, day: u32) -> Option<i32> {
    if year > 9999 {
        return None;
    }
    NaiveDate::from_ymd_opt(year as i32, month, day).map(|date| date.num_days_from_ce() - EPOCH_DAYS_FROM_CE)
}

fn number(text: &str) -> Option<u32> {
    (!text.is_empty() && text.len() <= 9 && text.bytes().all(|byte| byte.is_ascii_digit()))
        .then(|| text.parse().ok())
        .flatten()
}

/// Nanoseconds of the day of at least `least` parts hour, minute and second.
fn time_nanos(text: &str, least: usize) -> Option<i64> {
    let parts: Vec<&str> = text.split(':').collect();
    if parts.len() < least || parts.len() > 3 {
        return None;
    }
    let (second, fraction) = match parts.get(2).map(|second| second.split_once('.').unwrap_or((second, "0"))) {
        Some((second, fraction)) => (number(second.trim())?, fraction.trim()),
        None => (0, "0"),
    };
    if fraction.is_empty() || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let fraction = &fraction[..fraction.len().min(9)];
    let nanos: u32 = format!("{fraction:0<9}").parse().ok()?;
    let hour = number(parts.first()?.trim())?;
    let minute = parts.get(1).map_or(Some(0), |minute| number(minute.trim()))?;
    let time = NaiveTime::from_hms_nano_opt(hour, minute, second, nanos)?;
    Some(i64::from(time.num_seconds_from_midnight()) * 1_000_000_000 + i64::from(time.nanosecond()))
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

    #[test]
    fn parse_integer_when_blank_overflow_or_fraction_then_strict() {
        assert_eq!(parse_integer("-7", -128, 127, "TINYINT").unwrap(), -7);
        assert_eq!(parse_integer("12.9", -128, 127, "TINYINT").unwrap(), 12);
        assert_eq!(parse_integer("-9223372036854775808", i64::MIN, i64::MAX, "BIGINT").unwrap(), i64::MIN);
        for text in [" 5 ", "", "-", "x", "1.x", "300", "é", "-129"] {
            assert!(parse_integer(text, -128, 127, "TINYINT").is_err(), "{text}");
        }
    }

    #[test]
    fn parse_decimal_when_digits_are_lost_then_half_up() {
        assert_eq!(parse_decimal("1.005", 10, 2).unwrap(), 101);
        assert_eq!(parse_decimal("-1.005", 10, 2).unwrap(), -101);
        assert_eq!(parse_decimal("1e20", 30, 5).unwrap(), 10_i128.pow(25));
        assert_eq!(parse_decimal("-1e-1", 30, 5).unwrap(), -10_000);
        assert_eq!(parse_decimal("0e999999999999", 5, 1).unwrap(), 0);
        assert_eq!(parse_decimal("5e-9", 5, 1).unwrap(), 0);
        assert_eq!(parse_decimal("1.23456789987e8", 30, 5).unwrap(), 12_345_678_998_700);
        for text in ["1000", "999.95", "", ".", "x", " 5 ", "1e400"] {
            assert!(parse_decimal(text, 4, 1).is_err(), "{text}");
        }
    }

    #[test]
    fn parse_dates_and_times_when_parts_are_left_out_then_as_java() {
        assert_eq!(parse_date("1970-01-02").unwrap(), 1);
        assert_eq!(parse_date("1969-12-31 23:59:59.999999").unwrap(), -1);
        assert_eq!(parse_date("1970").unwrap(), 0);
        assert!(parse_date("2023-02-29").is_err());
        assert_eq!(parse_time("00:00:00.5").unwrap(), 500);
        assert_eq!(parse_time("12:34:56").unwrap(), 45_296_000);
        assert!(parse_time("24:00:00").is_err());
        assert_eq!(parse_timestamp("1969-12-31 23:59:59.999999", "TIMESTAMP").unwrap(), (-1, 999_999_000));
        assert_eq!(parse_timestamp("1970-01-01", "TIMESTAMP").unwrap(), (0, 0));
        assert!(parse_timestamp("2024-01-01 00:00", "TIMESTAMP").is_err());
    }
}
