//! Values as text: as Java casts them to STRING, and as partitions with `partition.legacy-name` show them.

use std::fmt::Write;

use super::float_text::{Decimal, double_digits, float_digits};
use crate::error::{Error, Result};
use crate::spec::datum::Datum;
use crate::spec::types::{DataType, TypeKind};

const MILLIS_PER_DAY: i64 = 86_400_000;

/// The value cast to STRING as Java does it; `None` for NULL. TIMESTAMP_LTZ is shown in UTC.
///
/// Errors: `Internal` when the value is not of the type.
pub fn cast_text(value: &Datum, data_type: &DataType) -> Result<Option<String>> {
    Ok(Some(match (value, &data_type.kind) {
        (Datum::Bytes(value), _) => String::from_utf8_lossy(value).into_owned(),
        (Datum::Date(days), _) => {
            let mut text = String::new();
            iso_date(i64::from(*days), &mut text);
            text
        }
        (Datum::Time(millis), TypeKind::Time(precision)) => time(*millis, *precision),
        (Datum::Timestamp { millis, nanos }, TypeKind::Timestamp(precision) | TypeKind::TimestampLtz(precision)) => {
            timestamp(*millis, *nanos, *precision)
        }
        _ => return legacy_text(value, data_type),
    }))
}

/// The value as system tables show statistics: Java's `toString` of the value in memory, bytes as `0x` and hex digits;
/// `None` for NULL.
///
/// Errors: `Internal` when the value is not of the type.
pub fn raw_text(value: &Datum, data_type: &DataType) -> Result<Option<String>> {
    let Datum::Bytes(bytes) = value else { return legacy_text(value, data_type) };
    let mut text = String::with_capacity(2 + 2 * bytes.len());
    text.push_str("0x");
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    Ok(Some(text))
}

/// The value as folders show it with `partition.legacy-name`: Java's `toString` of the value in memory; `None` for
/// NULL.
pub(super) fn legacy_text(value: &Datum, data_type: &DataType) -> Result<Option<String>> {
    Ok(Some(match value {
        Datum::Null => return Ok(None),
        Datum::Boolean(value) => value.to_string(),
        Datum::TinyInt(value) => value.to_string(),
        Datum::SmallInt(value) => value.to_string(),
        Datum::Int(value) | Datum::Date(value) | Datum::Time(value) => value.to_string(),
        Datum::BigInt(value) => value.to_string(),
        Datum::Float(value) => float_text(*value),
        Datum::Double(value) => double_text(*value),
        Datum::Decimal { unscaled, scale, .. } => decimal(*unscaled, *scale),
        Datum::Text(value) => value.clone(),
        Datum::Timestamp { millis, nanos } => local_date_time(*millis, *nanos),
        Datum::Bytes(_) => {
            return Err(Error::unsupported(format!(
                "a partition column of type {data_type} has no folder with partition.legacy-name = true; \
                 create the table with partition.legacy-name = false"
            )));
        }
    }))
}

/// A FLOAT as Java (before version 19) shows it: `1.0`, `1.0E10`, `NaN`, `-Infinity`.
pub fn float_text(value: f32) -> String {
    number(f64::from(value), || float_digits(value.abs()))
}

/// A DOUBLE as Java (before version 19) shows it: `1.0`, `1.0E10`, `NaN`, `-Infinity`.
pub fn double_text(value: f64) -> String {
    number(value, || double_digits(value.abs()))
}

fn number(value: f64, digits: impl FnOnce() -> Decimal) -> String {
    let sign = if value.is_sign_negative() { "-" } else { "" };
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return format!("{sign}Infinity");
    }
    if value == 0.0 {
        return format!("{sign}0.0");
    }
    let Decimal { digits, point } = digits();
    let some = |digits: &str| if digits.is_empty() { "0".to_owned() } else { digits.to_owned() };
    match usize::try_from(point) {
        Ok(point @ 1..=7) => {
            let (before, after) = digits.split_at(point.min(digits.len()));
            format!("{sign}{before:0<point$}.{}", some(after))
        }
        _ if (-2..=0).contains(&point) => format!("{sign}0.{}{digits}", "0".repeat(point.unsigned_abs() as usize)),
        _ => {
            let (first, after) = digits.split_at(1.min(digits.len()));
            format!("{sign}{first}.{}E{}", some(after), point - 1)
        }
    }
}

/// A decimal with all digits of its scale.
fn decimal(unscaled: i128, scale: u8) -> String {
    let (sign, scale) = (if unscaled < 0 { "-" } else { "" }, usize::from(scale));
    if scale == 0 {
        return unscaled.to_string();
    }
    let digits = format!("{:0>width$}", unscaled.unsigned_abs(), width = scale + 1);
    let (before, after) = digits.split_at(digits.len() - scale);
    format!("{sign}{before}.{after}")
}

/// Year, month and day of a day counted from 1970-01-01, in the proleptic Gregorian calendar.
fn civil(days: i64) -> (i64, u32, u32) {
    // Eras of 400 years that begin on a 1st of March, so that the leap day is the last of its year.
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * month_from_march + 2) / 5 + 1) as u32;
    let month = (if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 }) as u32;
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// `yyyy-MM-dd` with a year of four characters, whatever the year: Java shows the last four digits of a greater one,
/// and characters before `0` for the digits of a negative one.
fn iso_date(days: i64, out: &mut String) {
    let (year, month, day) = civil(days);
    for unit in [1_000, 100, 10, 1] {
        out.push(char::from((i64::from(b'0') + year / unit % 10) as u8));
    }
    let _ = write!(out, "-{month:02}-{day:02}");
}

fn clock(millis_of_day: i64, out: &mut String) {
    let seconds = millis_of_day / 1_000;
    let _ = write!(out, "{:02}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60);
}

/// `HH:mm:ss`, and a fraction of 1 to 3 digits where the precision is not 0: cut to the precision, without the zeros at
/// the end of the whole fraction.
fn time(millis: i32, precision: u8) -> String {
    let millis = i64::from(millis).rem_euclid(MILLIS_PER_DAY);
    let mut text = String::new();
    clock(millis, &mut text);
    if precision > 0 {
        let fraction = format!("{:03}", millis % 1_000);
        let digits = fraction.trim_end_matches('0').len().max(1).min(precision.into());
        text.push('.');
        text.push_str(&fraction[..digits]);
    }
    text
}

/// `yyyy-MM-dd HH:mm:ss`, and a fraction of as many digits as the precision tells, or more where the value has more.
fn timestamp(millis: i64, nanos: i32, precision: u8) -> String {
    let mut text = String::new();
    iso_date(millis.div_euclid(MILLIS_PER_DAY), &mut text);
    text.push(' ');
    let of_day = millis.rem_euclid(MILLIS_PER_DAY);
    clock(of_day, &mut text);
    let fraction = format!("{:09}", of_day % 1_000 * 1_000_000 + i64::from(nanos));
    let digits = fraction.trim_end_matches('0').len().max(usize::from(precision).min(9));
    if digits > 0 {
        text.push('.');
        text.push_str(&fraction[..digits]);
    }
    text
}

/// Java's `LocalDateTime.toString`: seconds left out where they and the fraction are 0, a fraction of 3, 6 or 9 digits.
fn local_date_time(millis: i64, nanos: i32) -> String {
    let (year, month, day) = civil(millis.div_euclid(MILLIS_PER_DAY));
    let (sign, absolute) = match year {
        10_000.. => ("+", year),
        0.. => ("", year),
        _ => ("-", -year),
    };
    let of_day = millis.rem_euclid(MILLIS_PER_DAY);
    let (minutes, seconds) = (of_day / 60_000, of_day / 1_000 % 60);
    let mut text = format!("{sign}{absolute:04}-{month:02}-{day:02}T{:02}:{:02}", minutes / 60, minutes % 60);
    let fraction = of_day % 1_000 * 1_000_000 + i64::from(nanos);
    if seconds != 0 || fraction != 0 {
        let _ = write!(text, ":{seconds:02}");
    }
    let _ = match fraction {
        0 => Ok(()),
        fraction if fraction % 1_000_000 == 0 => write!(text, ".{:03}", fraction / 1_000_000),
        fraction if fraction % 1_000 == 0 => write!(text, ".{:06}", fraction / 1_000),
        fraction => write!(text, ".{fraction:09}"),
    };
    text
}
