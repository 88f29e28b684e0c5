//! Text to values, as Java's casts from text do it (`spec/metadata.md 2.6`): for text formats, casts on reading and default
//! values of columns.
//!
//! Text is strict: no blanks around it (but for FLOAT and DOUBLE), no leftovers; what does not parse is an error that shows the
//! text. Imports `types` beside it.

use chrono::{Datelike, NaiveDate, NaiveTime, Timelike};

use super::types::{DataType, TypeKind};
use crate::error::{Error, Result};

/// Days from 0001-01-01 to 1970-01-01, chrono's count of them.
pub(crate) const EPOCH_DAYS_FROM_CE: i32 = 719_163;

/// Whether a column of `data_type` can have `text` as a value, for instance as its default.
///
/// # Errors
/// Invalid, with the text and the type, when it does not parse or is longer than the type takes; unsupported for a type
/// whose values are not written as text.
pub fn check_text(text: &str, data_type: &DataType) -> Result<()> {
    let target = data_type.to_string();
    let integer = |min: i64, max: i64| parse_integer(text, min, max, &target).map(|_| ());
    let at_most = |found: usize, length: u32, unit: &str| {
        if found <= length as usize {
            return Ok(());
        }
        Err(Error::invalid(format!("'{text}' has {found} {unit}, more than {target} takes")))
    };
    match &data_type.kind {
        TypeKind::Boolean => parse_boolean(text).map(|_| ()),
        TypeKind::TinyInt => integer(i8::MIN.into(), i8::MAX.into()),
        TypeKind::SmallInt => integer(i16::MIN.into(), i16::MAX.into()),
        TypeKind::Int => integer(i32::MIN.into(), i32::MAX.into()),
        TypeKind::BigInt => integer(i64::MIN, i64::MAX),
        TypeKind::Float => parse_float(text).map(|_| ()),
        TypeKind::Double => parse_double(text).map(|_| ()),
        TypeKind::Decimal(precision, scale) => parse_decimal(text, *precision, *scale).map(|_| ()),
        TypeKind::Char(length) | TypeKind::VarChar(length) => at_most(text.chars().count(), *length, "characters"),
        TypeKind::Binary(length) | TypeKind::VarBinary(length) => at_most(text.len(), *length, "bytes"),
        TypeKind::Date => parse_date(text).map(|_| ()),
        TypeKind::Time(_) => parse_time(text).map(|_| ()),
        TypeKind::Timestamp(_) | TypeKind::TimestampLtz(_) => parse_timestamp(text, &target).map(|_| ()),
        _ => Err(Error::unsupported(format!("values of type {target} are not written as text"))),
    }
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

    #[test]
    fn check_text_when_value_fits_or_not_then_ok_or_error_with_both() {
        let check = |text: &str, data_type: &str| check_text(text, &DataType::parse(data_type).unwrap());
        for (text, data_type) in [
            ("5", "INT"),
            ("-128", "TINYINT"),
            ("yes", "BOOLEAN"),
            ("1.5", "DECIMAL(3, 1)"),
            ("é😀", "VARCHAR(2)"),
            ("", "STRING"),
            ("ab", "BINARY(2)"),
            ("2024-02-29", "DATE"),
            ("12:00:00", "TIME(0)"),
            ("2024-02-29 12:00:00.5", "TIMESTAMP(3) WITH LOCAL TIME ZONE"),
            ("NaN", "DOUBLE"),
        ] {
            check(text, data_type).unwrap();
        }
        for (text, data_type) in [
            ("abc", "INT"),
            ("", "INT"),
            ("NULL", "INT"),
            ("99999999999", "INT"),
            ("100", "DECIMAL(3, 1)"),
            ("abc", "VARCHAR(2)"),
            ("é😀", "BINARY(2)"),
            ("2023-02-29", "DATE"),
        ] {
            let error = check(text, data_type).unwrap_err().to_string();
            assert!(error.contains(&format!("'{text}'")), "{error}");
        }
        assert!(check("1", "VARIANT").is_err());
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
