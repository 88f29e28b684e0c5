//! One value of an answer and one value of a result, brought to the same form: equal values are equal, texts are what
//! `java.time` and the fixtures' README say, floats are told apart to the last bit.

use std::fmt::{self, Display, Formatter};

use chrono::{DateTime, Datelike, NaiveDateTime, NaiveTime, Timelike, Utc};
use datafusion::arrow::array::types::{Decimal128Type, Decimal256Type, DecimalType};
use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Float32Type, Float64Type, Int64Type, Time64NanosecondType, TimeUnit,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt64Type,
};

use crate::json::Json;

/// A value in the form in which answers are compared. Floats are kept as the text that reads back to the same bits, with one
/// text for every NaN; maps are sorted; a JSON text is kept with its keys in order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Value {
    Null,
    Bool(bool),
    Int(i128),
    Float(String),
    /// Decimals, bytes, dates, times, instants and strings, each in its own text.
    Text(String),
    List(Vec<Value>),
    Map(Vec<(Value, Value)>),
    /// A value of an answer that a column of this type cannot hold, or a type that answers do not have.
    Unfit(String),
}

impl Value {
    /// The value with the order of a list's elements taken away.
    pub fn into_set(self) -> Self {
        match self {
            Self::List(mut values) => {
                values.sort();
                Self::List(values)
            }
            other => other,
        }
    }

    fn map(mut entries: Vec<(Value, Value)>) -> Self {
        entries.sort();
        Self::Map(entries)
    }

    /// A string; one that is a JSON object or list is written anew, so that neither blanks nor the order of keys matter.
    fn text(text: &str) -> Self {
        if text.starts_with(['{', '['])
            && let Ok(json) = serde_json::from_str::<serde_json::Value>(text)
        {
            return Self::Text(json.to_string());
        }
        Self::Text(text.to_string())
    }
}

impl Display for Value {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Float(value) => f.write_str(value),
            Self::Text(value) => write!(f, "{value:?}"),
            Self::List(values) => {
                f.write_str("[")?;
                for (i, value) in values.iter().enumerate() {
                    write!(f, "{}{value}", if i == 0 { "" } else { ", " })?;
                }
                f.write_str("]")
            }
            Self::Map(entries) => {
                f.write_str("{")?;
                for (i, (key, value)) in entries.iter().enumerate() {
                    write!(f, "{}{key}: {value}", if i == 0 { "" } else { ", " })?;
                }
                f.write_str("}")
            }
            Self::Unfit(what) => write!(f, "<{what}>"),
        }
    }
}

/// The value of an answer for a column of type `wanted`.
pub fn from_json(json: &Json, wanted: &DataType) -> Value {
    let unfit = || Value::Unfit(format!("{json:?} in a column of {wanted}"));
    match (json, wanted) {
        (Json::Null, _) => Value::Null,
        (_, DataType::Dictionary(_, values)) => from_json(json, values),
        (Json::Bool(value), DataType::Boolean) => Value::Bool(*value),
        (Json::Number(digits), t) if t.is_integer() => digits.parse().map_or_else(|_| unfit(), Value::Int),
        (Json::Number(digits), DataType::Float32) => digits.parse().map_or_else(|_| unfit(), float32),
        (Json::Number(digits), DataType::Float64) => digits.parse().map_or_else(|_| unfit(), float64),
        (Json::Text(text), DataType::Float32 | DataType::Float64) => match text.as_str() {
            "NaN" | "Infinity" | "-Infinity" => Value::Float(text.clone()),
            _ => unfit(),
        },
        (Json::Text(text), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) => Value::text(text),
        (Json::Text(text), t) if has_text_of_its_own(t) => Value::Text(text.clone()),
        (Json::List(items), DataType::List(f) | DataType::LargeList(f) | DataType::FixedSizeList(f, _)) => {
            Value::List(items.iter().map(|item| from_json(item, f.data_type())).collect())
        }
        (Json::List(items), DataType::Struct(fields)) if items.len() == fields.len() => {
            Value::List(items.iter().zip(fields).map(|(item, field)| from_json(item, field.data_type())).collect())
        }
        (Json::Object(fields), DataType::Map(entries, _)) => match (fields.as_slice(), entries.data_type()) {
            ([(name, Json::List(pairs))], DataType::Struct(types)) if name == "map" && types.len() == 2 => {
                let entry = |pair: &Json| match pair {
                    Json::List(pair) if pair.len() == 2 => {
                        Some((from_json(&pair[0], types[0].data_type()), from_json(&pair[1], types[1].data_type())))
                    }
                    _ => None,
                };
                pairs.iter().map(entry).collect::<Option<Vec<_>>>().map_or_else(unfit, Value::map)
            }
            _ => unfit(),
        },
        _ => unfit(),
    }
}

/// Types whose values answers hold as a text that is the same for equal values.
fn has_text_of_its_own(t: &DataType) -> bool {
    t.is_decimal()
        || t.is_temporal()
        || matches!(t, DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_))
}

/// The value in a row of a result.
pub fn from_array(array: &ArrayRef, row: usize) -> Value {
    if array.is_null(row) {
        return Value::Null;
    }
    match array.data_type() {
        DataType::Null => Value::Null,
        DataType::Boolean => Value::Bool(array.as_boolean().value(row)),
        t if t.is_unsigned_integer() => {
            widened(array, row, &DataType::UInt64, |a| Value::Int(a.as_primitive::<UInt64Type>().value(0).into()))
        }
        t if t.is_integer() => {
            widened(array, row, &DataType::Int64, |a| Value::Int(a.as_primitive::<Int64Type>().value(0).into()))
        }
        DataType::Float32 => float32(array.as_primitive::<Float32Type>().value(row)),
        DataType::Float64 => float64(array.as_primitive::<Float64Type>().value(row)),
        DataType::Decimal128(precision, scale) => {
            let unscaled = array.as_primitive::<Decimal128Type>().value(row);
            Value::Text(Decimal128Type::format_decimal(unscaled, *precision, *scale))
        }
        DataType::Decimal256(precision, scale) => {
            let unscaled = array.as_primitive::<Decimal256Type>().value(row);
            Value::Text(Decimal256Type::format_decimal(unscaled, *precision, *scale))
        }
        DataType::Utf8 => Value::text(array.as_string::<i32>().value(row)),
        DataType::LargeUtf8 => Value::text(array.as_string::<i64>().value(row)),
        DataType::Utf8View => Value::text(array.as_string_view().value(row)),
        DataType::Binary => bytes(array.as_binary::<i32>().value(row)),
        DataType::LargeBinary => bytes(array.as_binary::<i64>().value(row)),
        DataType::BinaryView => bytes(array.as_binary_view().value(row)),
        DataType::FixedSizeBinary(_) => bytes(array.as_fixed_size_binary().value(row)),
        DataType::Date32 => {
            let days = array.as_primitive::<Date32Type>().value(row);
            let midnight = DateTime::from_timestamp(i64::from(days) * 86_400, 0);
            midnight.map_or_else(|| Value::Unfit(format!("day {days}")), |t| Value::Text(date_text(t.naive_utc())))
        }
        DataType::Time32(_) | DataType::Time64(_) => {
            widened(array, row, &DataType::Time64(TimeUnit::Nanosecond), |a| {
                let nanos = a.as_primitive::<Time64NanosecondType>().value(0);
                let time = u32::try_from(nanos / 1_000_000_000)
                    .ok()
                    .and_then(|s| NaiveTime::from_num_seconds_from_midnight_opt(s, (nanos % 1_000_000_000) as u32));
                time.map_or_else(|| Value::Unfit(format!("{nanos} ns of a day")), |t| Value::Text(time_text(t)))
            })
        }
        DataType::Timestamp(unit, zone) => match instant(array, row, *unit) {
            Some(instant) if zone.is_some() => Value::Text(instant_text(instant)),
            Some(instant) => {
                let local = instant.naive_utc();
                Value::Text(format!("{}T{}", date_text(local), time_text(local.time())))
            }
            None => Value::Unfit("a time out of range".to_string()),
        },
        DataType::List(_) => list(&array.as_list::<i32>().value(row)),
        DataType::LargeList(_) => list(&array.as_list::<i64>().value(row)),
        DataType::FixedSizeList(..) => list(&array.as_fixed_size_list().value(row)),
        DataType::Struct(_) => {
            Value::List(array.as_struct().columns().iter().map(|column| from_array(column, row)).collect())
        }
        DataType::Map(..) => {
            let entries = array.as_map().value(row);
            let (keys, values) = (entries.column(0), entries.column(1));
            Value::map((0..entries.len()).map(|i| (from_array(keys, i), from_array(values, i))).collect())
        }
        DataType::Dictionary(_, values) => widened(array, row, values, |a| from_array(a, 0)),
        other => Value::Unfit(format!("a value of {other}")),
    }
}

/// One value cast to a type that holds it whole.
fn widened(array: &ArrayRef, row: usize, to: &DataType, value: impl FnOnce(&ArrayRef) -> Value) -> Value {
    match cast(&array.slice(row, 1), to) {
        Ok(array) if array.is_null(0) => Value::Null,
        Ok(array) => value(&array),
        Err(error) => Value::Unfit(error.to_string()),
    }
}

fn list(array: &ArrayRef) -> Value {
    Value::List((0..array.len()).map(|i| from_array(array, i)).collect())
}

fn bytes(bytes: &[u8]) -> Value {
    Value::Text(bytes.iter().fold("0x".to_string(), |text, byte| format!("{text}{byte:02x}")))
}

fn float32(value: f32) -> Value {
    float(f64::from(value), || format!("{value:?}"))
}

fn float64(value: f64) -> Value {
    float(value, || format!("{value:?}"))
}

fn float(value: f64, shortest: impl FnOnce() -> String) -> Value {
    Value::Float(match value {
        v if v.is_nan() => "NaN".to_string(),
        f64::INFINITY => "Infinity".to_string(),
        f64::NEG_INFINITY => "-Infinity".to_string(),
        _ => shortest(),
    })
}

fn instant(array: &ArrayRef, row: usize, unit: TimeUnit) -> Option<DateTime<Utc>> {
    match unit {
        TimeUnit::Second => DateTime::from_timestamp(array.as_primitive::<TimestampSecondType>().value(row), 0),
        TimeUnit::Millisecond => {
            DateTime::from_timestamp_millis(array.as_primitive::<TimestampMillisecondType>().value(row))
        }
        TimeUnit::Microsecond => {
            DateTime::from_timestamp_micros(array.as_primitive::<TimestampMicrosecondType>().value(row))
        }
        TimeUnit::Nanosecond => {
            Some(DateTime::from_timestamp_nanos(array.as_primitive::<TimestampNanosecondType>().value(row)))
        }
    }
}

/// As `LocalDate.toString`: four digits of the year, a sign where there are more.
fn date_text(date: NaiveDateTime) -> String {
    let (year, month, day) = (date.year(), date.month(), date.day());
    match year {
        10_000.. => format!("+{year}-{month:02}-{day:02}"),
        0.. => format!("{year:04}-{month:02}-{day:02}"),
        _ => format!("-{:04}-{month:02}-{day:02}", -year),
    }
}

/// As `LocalTime.toString`: seconds left out where they and the fraction are zero, the fraction in groups of three digits.
fn time_text(time: NaiveTime) -> String {
    let seconds = if time.second() == 0 && time.nanosecond() == 0 {
        String::new()
    } else {
        format!(":{:02}{}", time.second(), fraction_text(time.nanosecond()))
    };
    format!("{:02}:{:02}{seconds}", time.hour(), time.minute())
}

/// As `Instant.toString`: the seconds always, and `Z`.
fn instant_text(instant: DateTime<Utc>) -> String {
    let local = instant.naive_utc();
    let (hour, minute, second) = (local.hour(), local.minute(), local.second());
    format!("{}T{hour:02}:{minute:02}:{second:02}{}Z", date_text(local), fraction_text(local.nanosecond()))
}

fn fraction_text(nanos: u32) -> String {
    match nanos {
        0 => String::new(),
        n if n % 1_000_000 == 0 => format!(".{:03}", n / 1_000_000),
        n if n % 1_000 == 0 => format!(".{:06}", n / 1_000),
        n => format!(".{n:09}"),
    }
}
