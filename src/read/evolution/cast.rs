//! The casts a read applies when a column's type was altered (`spec/metadata.md 2.6`).
//!
//! They are Java's, to the bit: integers narrow by wrapping, floating point numbers saturate on the way to INT and BIGINT and wrap
//! below, `VARCHAR(n)` cuts and `CHAR(n)` pads, numbers and timestamps meet as seconds, cut towards zero. A text that does not
//! parse and a decimal that overflows are errors that show the value. The session zone of LTZ conversions is UTC.
//!
//! May import: `error`, `spec`, `format`.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BinaryBuilder, BinaryViewBuilder, BooleanArray, Date32Array,
    Decimal128Array, Float32Array, Float64Array, Int64Array, PrimitiveArray, StringBuilder, StringViewBuilder,
    Time32MillisecondArray,
};
use arrow::compute::cast as arrow_cast;
use arrow::datatypes::{
    ArrowPrimitiveType, DataType as ArrowType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int64Type,
    Time32MillisecondType,
};

use crate::error::{Error, Result};
use crate::format::conform::{Place, beyond_arrow, ticks_per_second, timestamp_ticks, timestamps_from};
use crate::format::literal::{self as text, MILLIS_PER_DAY};
use crate::spec::types::MAX_LENGTH;
use crate::spec::{DataType, TypeKind};

/// What of a type decides how it is cast.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Boolean,
    Integer,
    Floating,
    Decimal,
    Text,
    Bytes,
    Date,
    Time,
    Timestamp,
    Container,
    Other,
}

fn class(kind: &TypeKind) -> Class {
    match kind {
        TypeKind::Boolean => Class::Boolean,
        TypeKind::TinyInt | TypeKind::SmallInt | TypeKind::Int | TypeKind::BigInt => Class::Integer,
        TypeKind::Float | TypeKind::Double => Class::Floating,
        TypeKind::Decimal(..) => Class::Decimal,
        TypeKind::Char(_) | TypeKind::VarChar(_) => Class::Text,
        TypeKind::Binary(_) | TypeKind::VarBinary(_) => Class::Bytes,
        TypeKind::Date => Class::Date,
        TypeKind::Time(_) => Class::Time,
        TypeKind::Timestamp(_) | TypeKind::TimestampLtz(_) => Class::Timestamp,
        TypeKind::Array(_) | TypeKind::Map(..) | TypeKind::Row(_) => Class::Container,
        _ => Class::Other,
    }
}

/// Whether values of `from` can be read as `to` (the matrix of `spec/metadata.md 2.6`).
pub(crate) fn supported(from: &DataType, to: &DataType) -> bool {
    use Class::{Boolean, Bytes, Container, Date, Decimal, Floating, Integer, Text, Time, Timestamp};
    match (class(&from.kind), class(&to.kind)) {
        (Boolean | Integer | Floating | Decimal | Text, Integer | Floating | Decimal) => true,
        (Timestamp, Integer) => matches!(to.kind, TypeKind::Int | TypeKind::BigInt),
        (Boolean | Integer | Floating | Decimal | Text | Bytes | Date | Time | Timestamp | Container, Text) => true,
        (Text | Bytes, Bytes) => true,
        (Boolean | Text | Integer, Boolean) => true,
        (Date | Text | Timestamp, Date) => true,
        (Time | Text | Timestamp, Time) => true,
        (Timestamp | Date | Time | Text, Timestamp) => true,
        (Integer, Timestamp) => matches!(from.kind, TypeKind::Int | TypeKind::BigInt),
        _ => false,
    }
}

/// Whether every value of `from` stands unchanged, in the same arrow type, for a value of `to`.
pub(crate) fn is_free(from: &DataType, to: &DataType) -> bool {
    match (&from.kind, &to.kind) {
        (TypeKind::Char(found) | TypeKind::VarChar(found), TypeKind::VarChar(wanted)) => wanted >= found,
        (TypeKind::Char(found), TypeKind::Char(wanted)) => wanted == found,
        (TypeKind::Binary(found) | TypeKind::VarBinary(found), TypeKind::VarBinary(wanted)) => wanted >= found,
        (TypeKind::Time(_), TypeKind::Time(_)) => true,
        (TypeKind::Timestamp(found), TypeKind::Timestamp(wanted))
        | (TypeKind::TimestampLtz(found), TypeKind::TimestampLtz(wanted)) => {
            wanted >= found && ticks_per_second(*wanted) == ticks_per_second(*found)
        }
        (found, wanted) => class(found) != Class::Container && found == wanted,
    }
}

/// Whether the cast keeps every value and their order, so that the engine's own cast, and pruning through it, are right.
pub(crate) fn is_lossless(from: &DataType, to: &DataType) -> bool {
    let digits = |kind: &TypeKind| match kind {
        TypeKind::TinyInt => Some(1),
        TypeKind::SmallInt => Some(2),
        TypeKind::Int => Some(3),
        TypeKind::BigInt => Some(4),
        _ => None,
    };
    match (&from.kind, &to.kind) {
        (TypeKind::Float | TypeKind::TinyInt | TypeKind::SmallInt | TypeKind::Int, TypeKind::Double) => true,
        (TypeKind::Decimal(p, s), TypeKind::Decimal(wanted_p, wanted_s)) => {
            wanted_s >= s && i16::from(*wanted_p) - i16::from(*wanted_s) >= i16::from(*p) - i16::from(*s)
        }
        (found, wanted) => digits(found).zip(digits(wanted)).is_some_and(|(found, wanted)| found <= wanted),
    }
}

/// The values of `array`, which is of type `from` in its arrow representation, as values of `to`.
///
/// # Errors
/// Unsupported where the matrix has no such cast, invalid with the value where one can't be cast.
pub(crate) fn cast(array: &ArrayRef, from: &DataType, to: &DataType, place: Place) -> Result<ArrayRef> {
    if !supported(from, to) {
        return Err(Error::unsupported(format!("{from} can't be read as {to}")));
    }
    match &to.kind {
        TypeKind::Boolean => to_boolean(array, from),
        TypeKind::TinyInt => {
            to_integer::<arrow::datatypes::Int8Type>(array, from, to, i8::MIN.into(), i8::MAX.into(), {
                |value| value as i8
            })
        }
        TypeKind::SmallInt => {
            to_integer::<arrow::datatypes::Int16Type>(array, from, to, i16::MIN.into(), i16::MAX.into(), |value| {
                value as i16
            })
        }
        TypeKind::Int => {
            to_integer::<arrow::datatypes::Int32Type>(array, from, to, i32::MIN.into(), i32::MAX.into(), |value| {
                value as i32
            })
        }
        TypeKind::BigInt => to_integer::<Int64Type>(array, from, to, i64::MIN, i64::MAX, |value| value),
        TypeKind::Float => to_float(array, from),
        TypeKind::Double => to_double(array, from),
        TypeKind::Decimal(precision, scale) => to_decimal(array, from, *precision, *scale),
        TypeKind::Char(_) | TypeKind::VarChar(_) => to_text(array, from, to, place),
        TypeKind::Binary(_) | TypeKind::VarBinary(_) => to_bytes(array, to, place),
        TypeKind::Date => to_date(array, from),
        TypeKind::Time(_) => to_time(array, from),
        TypeKind::Timestamp(precision) | TypeKind::TimestampLtz(precision) => {
            to_timestamp(array, from, to, *precision, &place.arrow_type(to))
        }
        _ => Err(Error::unsupported(format!("{from} can't be read as {to}"))),
    }
}

/// The texts of an array of either layout.
fn texts(array: &ArrayRef) -> Box<dyn Iterator<Item = Option<&str>> + '_> {
    match array.data_type() {
        ArrowType::Utf8View => Box::new(array.as_string_view().iter()),
        _ => Box::new(array.as_string::<i32>().iter()),
    }
}

fn from_texts<T: ArrowPrimitiveType>(
    array: &ArrayRef,
    parse: impl Fn(&str) -> Result<T::Native>,
) -> Result<PrimitiveArray<T>> {
    texts(array).map(|value| value.map(&parse).transpose()).collect()
}

fn integers(array: &ArrayRef) -> Result<Int64Array> {
    Ok(arrow_cast(array, &ArrowType::Int64)?.as_primitive::<Int64Type>().clone())
}

fn booleans_as<T: ArrowPrimitiveType>(array: &ArrayRef, one: T::Native, zero: T::Native) -> PrimitiveArray<T> {
    array.as_boolean().iter().map(|value| value.map(|value| if value { one } else { zero })).collect()
}

/// Milliseconds since 1970-01-01, towards the past.
fn millis(array: &ArrayRef) -> Result<Int64Array> {
    let (ticks, per_second) = timestamp_ticks(array).ok_or_else(|| wrong_array(array))?;
    Ok(if per_second < 1_000 {
        ticks.unary(|value: i64| value.wrapping_mul(1_000 / per_second))
    } else {
        let divisor = per_second / 1_000;
        ticks.unary(|value: i64| value.div_euclid(divisor))
    })
}

fn wrong_array(array: &ArrayRef) -> Error {
    Error::internal(format!("a cast met {}", array.data_type()))
}

fn to_boolean(array: &ArrayRef, from: &DataType) -> Result<ArrayRef> {
    let values: BooleanArray = match class(&from.kind) {
        Class::Text => texts(array).map(|value| value.map(text::parse_boolean).transpose()).collect::<Result<_>>()?,
        Class::Integer => integers(array)?.iter().map(|value| value.map(|value| value != 0)).collect(),
        _ => array.as_boolean().clone(),
    };
    Ok(Arc::new(values))
}

fn to_integer<T: ArrowPrimitiveType>(
    array: &ArrayRef,
    from: &DataType,
    to: &DataType,
    min: i64,
    max: i64,
    narrow: impl Fn(i64) -> T::Native,
) -> Result<ArrayRef> {
    let is_long = matches!(to.kind, TypeKind::BigInt);
    let values: PrimitiveArray<T> = match class(&from.kind) {
        Class::Boolean => booleans_as::<T>(array, narrow(1), narrow(0)),
        Class::Integer => integers(array)?.unary(narrow),
        // Java goes through INT for the narrower types: it saturates there and wraps below.
        Class::Floating => {
            doubles(array)?.unary(|value: f64| narrow(if is_long { value as i64 } else { i64::from(value as i32) }))
        }
        Class::Decimal => {
            let TypeKind::Decimal(_, scale) = from.kind else { return Err(wrong_array(array)) };
            let divisor = 10_i128.pow(u32::from(scale));
            array.as_primitive::<Decimal128Type>().unary(|value: i128| narrow((value / divisor) as i64))
        }
        Class::Timestamp => millis(array)?.unary(|value: i64| narrow(value / 1_000)),
        Class::Text => {
            let target = to.to_string();
            from_texts::<T>(array, |value| text::parse_integer(value, min, max, &target).map(&narrow))?
        }
        _ => return Err(wrong_array(array)),
    };
    Ok(Arc::new(values))
}

fn doubles(array: &ArrayRef) -> Result<Float64Array> {
    Ok(arrow_cast(array, &ArrowType::Float64)?.as_primitive::<Float64Type>().clone())
}

fn to_float(array: &ArrayRef, from: &DataType) -> Result<ArrayRef> {
    let values: Float32Array = match class(&from.kind) {
        Class::Boolean => booleans_as::<Float32Type>(array, 1.0, 0.0),
        Class::Integer => integers(array)?.unary(|value: i64| value as f32),
        Class::Floating => doubles(array)?.unary(|value: f64| value as f32),
        Class::Decimal => decimals_as_double(array, from)?.unary(|value: f64| value as f32),
        Class::Text => from_texts::<Float32Type>(array, text::parse_float)?,
        _ => return Err(wrong_array(array)),
    };
    Ok(Arc::new(values))
}

fn to_double(array: &ArrayRef, from: &DataType) -> Result<ArrayRef> {
    let values: Float64Array = match class(&from.kind) {
        Class::Boolean => booleans_as::<Float64Type>(array, 1.0, 0.0),
        Class::Integer => integers(array)?.unary(|value: i64| value as f64),
        Class::Floating => doubles(array)?,
        Class::Decimal => decimals_as_double(array, from)?,
        Class::Text => from_texts::<Float64Type>(array, text::parse_double)?,
        _ => return Err(wrong_array(array)),
    };
    Ok(Arc::new(values))
}

/// As Java does it: a decimal that fits a long is divided, a wider one is the double nearest to its digits.
fn decimals_as_double(array: &ArrayRef, from: &DataType) -> Result<Float64Array> {
    let TypeKind::Decimal(precision, scale) = from.kind else { return Err(wrong_array(array)) };
    let values = array.as_primitive::<Decimal128Type>();
    let power = 10_f64.powi(i32::from(scale));
    if precision <= 18 {
        return Ok(values.unary(|value: i128| value as f64 / power));
    }
    values.try_unary::<_, Float64Type, Error>(|value| {
        let mut digits = String::new();
        text::decimal_text(value, scale, &mut digits);
        digits.parse().map_err(|_| Error::internal(format!("the decimal {digits} is no number")))
    })
}

fn to_decimal(array: &ArrayRef, from: &DataType, precision: u8, scale: u8) -> Result<ArrayRef> {
    let limit = 10_i128.pow(u32::from(precision));
    let overflow =
        |value: &dyn std::fmt::Display| Error::invalid(format!("{value} overflows DECIMAL({precision}, {scale})"));
    let fits = |value: i128| (-limit < value && value < limit).then_some(value);
    let one = 10_i128.pow(u32::from(scale));
    let values: Decimal128Array = match class(&from.kind) {
        Class::Boolean => {
            let values = booleans_as::<Decimal128Type>(array, one, 0);
            values.try_unary::<_, Decimal128Type, Error>(|value| fits(value).ok_or_else(|| overflow(&"true")))?
        }
        Class::Integer => integers(array)?.try_unary::<_, Decimal128Type, Error>(|value| {
            i128::from(value).checked_mul(one).and_then(fits).ok_or_else(|| overflow(&value))
        })?,
        Class::Floating if from.kind == TypeKind::Double => {
            array.as_primitive::<Float64Type>().try_unary::<_, Decimal128Type, Error>(|value| {
                text::parse_decimal(&format!("{value:e}"), precision, scale).map_err(|_| overflow(&value))
            })?
        }
        // Java widens a FLOAT first: its digits are those of the double.
        Class::Floating => doubles(array)?.try_unary::<_, Decimal128Type, Error>(|value| {
            text::parse_decimal(&format!("{value:e}"), precision, scale).map_err(|_| overflow(&value))
        })?,
        Class::Decimal => {
            let TypeKind::Decimal(_, found) = from.kind else { return Err(wrong_array(array)) };
            array.as_primitive::<Decimal128Type>().try_unary::<_, Decimal128Type, Error>(|value| {
                rescale(value, found, scale).and_then(fits).ok_or_else(|| {
                    let mut digits = String::new();
                    text::decimal_text(value, found, &mut digits);
                    overflow(&digits)
                })
            })?
        }
        Class::Text => from_texts::<Decimal128Type>(array, |value| text::parse_decimal(value, precision, scale))?,
        _ => return Err(wrong_array(array)),
    };
    Ok(Arc::new(values.with_precision_and_scale(precision, scale as i8)?))
}

/// The unscaled value at another scale, rounded half up; `None` when it does not fit 128 bits.
fn rescale(value: i128, found: u8, wanted: u8) -> Option<i128> {
    if wanted >= found {
        return value.checked_mul(10_i128.pow(u32::from(wanted - found)));
    }
    let divisor = 10_i128.pow(u32::from(found - wanted));
    let (quotient, rest) = (value / divisor, value % divisor);
    Some(if rest.unsigned_abs() * 2 >= divisor.unsigned_abs() { quotient + value.signum() } else { quotient })
}

/// The byte at which a text is cut to `length` code points, and how many blanks fill it up to them.
fn fit(value: &str, length: u32) -> (usize, usize) {
    let mut count = 0;
    for (at, _) in value.char_indices() {
        if count == length {
            return (at, 0);
        }
        count += 1;
    }
    (value.len(), (length - count) as usize)
}

fn to_text(array: &ArrayRef, from: &DataType, to: &DataType, place: Place) -> Result<ArrayRef> {
    let (length, pads) = match to.kind {
        TypeKind::Char(length) => (length, true),
        TypeKind::VarChar(length) => (length, false),
        _ => return Err(wrong_array(array)),
    };
    let write = text::writer(array, from)?;
    let fill = |row: usize, value: &mut String| -> Result<bool> {
        value.clear();
        if array.is_null(row) {
            return Ok(false);
        }
        write(row, value)?;
        if length != MAX_LENGTH {
            let (end, blanks) = fit(value, length);
            value.truncate(end);
            if pads {
                value.extend(std::iter::repeat_n(' ', blanks));
            }
        }
        Ok(true)
    };
    let mut value = String::new();
    match place {
        Place::Column => {
            let mut builder = StringViewBuilder::with_capacity(array.len());
            for row in 0..array.len() {
                let is_value = fill(row, &mut value)?;
                builder.append_option(is_value.then_some(&value));
            }
            Ok(Arc::new(builder.finish()))
        }
        Place::Nested => {
            let mut builder = StringBuilder::with_capacity(array.len(), 0);
            for row in 0..array.len() {
                let is_value = fill(row, &mut value)?;
                builder.append_option(is_value.then_some(&value));
            }
            Ok(Arc::new(builder.finish()))
        }
    }
}

fn to_bytes(array: &ArrayRef, to: &DataType, place: Place) -> Result<ArrayRef> {
    let (length, pads) = match to.kind {
        TypeKind::Binary(length) => (length, true),
        TypeKind::VarBinary(length) => (length, false),
        _ => return Err(wrong_array(array)),
    };
    let plain = arrow_cast(array, &ArrowType::Binary)?;
    let values: &BinaryArray = plain.as_binary();
    let length = length as usize;
    let mut padded = Vec::new();
    let mut next = |row: usize, put: &mut dyn FnMut(Option<&[u8]>)| {
        if values.is_null(row) {
            return put(None);
        }
        let value = values.value(row);
        let cut = &value[..value.len().min(length)];
        if pads && cut.len() < length {
            padded.clear();
            padded.extend_from_slice(cut);
            padded.resize(length, 0);
            return put(Some(&padded));
        }
        put(Some(cut));
    };
    match place {
        Place::Column => {
            let mut builder = BinaryViewBuilder::with_capacity(array.len());
            for row in 0..array.len() {
                next(row, &mut |value| builder.append_option(value));
            }
            Ok(Arc::new(builder.finish()))
        }
        Place::Nested => {
            let mut builder = BinaryBuilder::with_capacity(array.len(), 0);
            for row in 0..array.len() {
                next(row, &mut |value| builder.append_option(value));
            }
            Ok(Arc::new(builder.finish()))
        }
    }
}

fn to_date(array: &ArrayRef, from: &DataType) -> Result<ArrayRef> {
    let values: Date32Array = match class(&from.kind) {
        Class::Timestamp => millis(array)?.unary(|value: i64| value.div_euclid(MILLIS_PER_DAY) as i32),
        Class::Text => from_texts::<Date32Type>(array, text::parse_date)?,
        _ => array.as_primitive::<Date32Type>().clone(),
    };
    Ok(Arc::new(values))
}

fn to_time(array: &ArrayRef, from: &DataType) -> Result<ArrayRef> {
    let values: Time32MillisecondArray = match class(&from.kind) {
        Class::Timestamp => millis(array)?.unary(|value: i64| value.rem_euclid(MILLIS_PER_DAY) as i32),
        Class::Text => from_texts::<Time32MillisecondType>(array, text::parse_time)?,
        _ => array.as_primitive::<Time32MillisecondType>().clone(),
    };
    Ok(Arc::new(values))
}

fn to_timestamp(
    array: &ArrayRef,
    from: &DataType,
    to: &DataType,
    precision: u8,
    target: &ArrowType,
) -> Result<ArrayRef> {
    let per_second = ticks_per_second(precision);
    let from_millis = |value: i64| {
        let ticks = i128::from(value) * i128::from(per_second / 1_000);
        i64::try_from(ticks).map_err(|_| beyond_arrow(format!("{value} ms since 1970-01-01")))
    };
    let ticks: Int64Array = match class(&from.kind) {
        Class::Timestamp => {
            let (ticks, found) = timestamp_ticks(array).ok_or_else(|| wrong_array(array))?;
            let cut = match &from.kind {
                TypeKind::Timestamp(had) | TypeKind::TimestampLtz(had) => precision < *had,
                _ => false,
            };
            ticks.try_unary::<_, Int64Type, Error>(|value| precision_cut(value, found, precision, cut))?
        }
        Class::Date => array
            .as_primitive::<Date32Type>()
            .try_unary::<_, Int64Type, Error>(|days| from_millis(i64::from(days) * MILLIS_PER_DAY))?,
        Class::Time => array
            .as_primitive::<Time32MillisecondType>()
            .try_unary::<_, Int64Type, Error>(|value| from_millis(i64::from(value)))?,
        // Seconds; Java multiplies without looking at the overflow.
        Class::Integer => {
            integers(array)?.try_unary::<_, Int64Type, Error>(|seconds| from_millis(seconds.wrapping_mul(1_000)))?
        }
        Class::Text => {
            let name = to.to_string();
            from_texts::<Int64Type>(array, |value| {
                let (seconds, nanos) = text::parse_timestamp(value, &name)?;
                let unit = 10_i64.pow(9 - u32::from(precision.min(9)));
                let nanos = nanos / unit * unit;
                let ticks =
                    i128::from(seconds) * i128::from(per_second) + i128::from(nanos / (1_000_000_000 / per_second));
                i64::try_from(ticks).map_err(|_| beyond_arrow(value))
            })?
        }
        _ => return Err(wrong_array(array)),
    };
    timestamps_from(&ticks, target)
}

/// Ticks of another precision. Java splits an instant into milliseconds, towards the past, and nanoseconds of those; digits
/// are then cut from either part, towards zero: `1969-12-31T23:59:59.999` is `1970-01-01T00:00:00` at precision 0.
fn precision_cut(ticks: i64, found: i64, precision: u8, cut: bool) -> Result<i64> {
    let (mut millis, mut nanos) = if found < 1_000 {
        (i128::from(ticks) * i128::from(1_000 / found), 0)
    } else {
        let per_milli = found / 1_000;
        (i128::from(ticks.div_euclid(per_milli)), ticks.rem_euclid(per_milli) * (1_000_000 / per_milli))
    };
    if cut {
        if precision <= 3 {
            let unit = 10_i128.pow(3 - u32::from(precision));
            millis = millis / unit * unit;
            nanos = 0;
        } else {
            let unit = 10_i64.pow(9 - u32::from(precision.min(9)));
            nanos = nanos / unit * unit;
        }
    }
    let per_second = ticks_per_second(precision);
    let per_milli = per_second / 1_000;
    let result = millis * i128::from(per_milli) + i128::from(nanos / (1_000_000 / per_milli));
    i64::try_from(result).map_err(|_| beyond_arrow(format!("{millis} ms since 1970-01-01")))
}

// What Java gives (Flink 1.20 with 1.3.1): the fixtures' group `evolution_casts`.
#[cfg(test)]
mod tests {
    use arrow::array::{BinaryViewArray, StringViewArray, TimestampMillisecondArray, TimestampNanosecondArray};
    use arrow::util::display::array_value_to_string;

    use super::*;

    fn kind(text: &str) -> DataType {
        DataType::parse(text).unwrap()
    }

    /// The values cast, each as arrow prints it; NULL is empty.
    fn shown(array: impl Array + 'static, from: &str, to: &str) -> Result<Vec<String>> {
        let array: ArrayRef = Arc::new(array);
        let (from, to) = (kind(from), kind(to));
        let cast = super::cast(&array, &from, &to, Place::Column)?;
        assert_eq!(cast.data_type(), &to.to_arrow());
        assert_eq!(super::cast(&array, &from, &to, Place::Nested)?.data_type(), &to.to_arrow_nested());
        Ok((0..cast.len()).map(|row| array_value_to_string(&cast, row).unwrap()).collect())
    }

    #[test]
    fn cast_when_integer_then_wraps_pads_and_counts_seconds() {
        let bigint = |to: &str| {
            let values = vec![Some(7), Some(-9_223_372_036_854_775_807), Some(5_000_000_000), Some(0), None];
            shown(Int64Array::from(values), "BIGINT", to)
        };
        assert_eq!(bigint("TINYINT").unwrap(), ["7", "1", "0", "0", ""]);
        assert_eq!(bigint("SMALLINT").unwrap(), ["7", "1", "-3584", "0", ""]);
        assert_eq!(bigint("INT").unwrap(), ["7", "1", "705032704", "0", ""]);
        assert_eq!(bigint("VARCHAR(3)").unwrap(), ["7", "-92", "500", "0", ""]);
        assert_eq!(bigint("CHAR(6)").unwrap(), ["7     ", "-92233", "500000", "0     ", ""]);
        assert_eq!(bigint("BOOLEAN").unwrap(), ["true", "true", "true", "false", ""]);
        assert_eq!(bigint("DECIMAL(30, 5)").unwrap()[1], "-9223372036854775807.00000");
        let seconds = ["1970-01-01T00:00:07", "1970-01-01T00:00:01", "2128-06-11T08:53:20", "1970-01-01T00:00:00", ""];
        assert_eq!(bigint("TIMESTAMP(6)").unwrap(), seconds);
        let error = bigint("DECIMAL(8, 2)").unwrap_err().to_string();
        assert!(error.contains("-9223372036854775807") && error.contains("DECIMAL(8, 2)"), "{error}");
    }

    #[test]
    fn cast_when_floating_then_saturates_or_wraps() {
        let double = |to: &str| {
            let values = vec![1.5, -0.1, 1e20, 123_456_789.987, f64::NAN];
            shown(Float64Array::from(values), "DOUBLE", to)
        };
        assert_eq!(double("TINYINT").unwrap(), ["1", "0", "-1", "21", "0"]);
        assert_eq!(double("SMALLINT").unwrap(), ["1", "0", "-1", "-13035", "0"]);
        assert_eq!(double("INT").unwrap(), ["1", "0", "2147483647", "123456789", "0"]);
        assert_eq!(double("BIGINT").unwrap()[2], "9223372036854775807");
        assert_eq!(double("STRING").unwrap(), ["1.5", "-0.1", "1.0E20", "1.23456789987E8", "NaN"]);
        assert!(double("DECIMAL(30, 5)").is_err());
        let finite = shown(Float64Array::from(vec![-0.1, 1e20]), "DOUBLE", "DECIMAL(30, 5)").unwrap();
        assert_eq!(finite, ["-0.10000", "100000000000000000000.00000"]);
    }

    #[test]
    fn cast_when_decimal_then_cut_rounded_or_refused() {
        let decimal = |to: &str| {
            let values = Decimal128Array::from_iter_values([1_500, -499, 9_999_999_999, 300_000]);
            shown(values.with_precision_and_scale(10, 3).unwrap(), "DECIMAL(10, 3)", to)
        };
        assert_eq!(decimal("TINYINT").unwrap(), ["1", "0", "127", "44"]);
        assert_eq!(decimal("DOUBLE").unwrap(), ["1.5", "-0.499", "9999999.999", "300.0"]);
        assert_eq!(decimal("STRING").unwrap(), ["1.500", "-0.499", "9999999.999", "300.000"]);
        assert_eq!(decimal("DECIMAL(20, 2)").unwrap(), ["1.50", "-0.50", "10000000.00", "300.00"]);
        assert!(decimal("DECIMAL(5, 1)").unwrap_err().to_string().contains("9999999.999"));
    }

    #[test]
    fn cast_when_timestamp_then_cut_to_seconds_towards_zero_and_to_days_towards_the_past() {
        let ts3 =
            |to: &str| shown(TimestampMillisecondArray::from(vec![1_709_210_096_789, -1]), "TIMESTAMP(3)", to).unwrap();
        assert_eq!(ts3("TIMESTAMP(0)"), ["2024-02-29T12:34:56", "1970-01-01T00:00:00"]);
        assert_eq!(ts3("TIMESTAMP(9)"), ["2024-02-29T12:34:56.789", "1969-12-31T23:59:59.999"]);
        assert_eq!(ts3("TIMESTAMP(6) WITH LOCAL TIME ZONE")[1], "1969-12-31T23:59:59.999Z");
        assert_eq!(ts3("DATE"), ["2024-02-29", "1969-12-31"]);
        assert_eq!(ts3("TIME(0)"), ["12:34:56.789", "23:59:59.999"]);
        assert_eq!(ts3("STRING"), ["2024-02-29 12:34:56.789", "1969-12-31 23:59:59.999"]);
        assert_eq!(ts3("BIGINT"), ["1709210096", "0"]);
        let ts9 = |to: &str| shown(TimestampNanosecondArray::from(vec![-1]), "TIMESTAMP(9)", to).unwrap();
        assert_eq!(ts9("TIMESTAMP(3)"), ["1969-12-31T23:59:59.999"]);
        assert_eq!(ts9("STRING"), ["1969-12-31 23:59:59.999999999"]);
        let far = TimestampMillisecondArray::from(vec![253_402_300_799_999]);
        assert!(shown(far, "TIMESTAMP(3)", "TIMESTAMP(9)").is_err());
    }

    #[test]
    fn cast_when_text_then_strict_and_by_code_points() {
        let text = |values: &[&str], to: &str| shown(StringViewArray::from_iter_values(values), "STRING", to);
        assert_eq!(text(&["long enough", "é😀x", ""], "VARCHAR(4)").unwrap(), ["long", "é😀x", ""]);
        assert_eq!(text(&["long enough", "é😀x", ""], "CHAR(3)").unwrap(), ["lon", "é😀x", "   "]);
        assert_eq!(text(&["é😀x", ""], "BINARY(5)").unwrap(), ["c3a9f09f98", "0000000000"]);
        assert_eq!(text(&["é😀x", ""], "VARBINARY(4)").unwrap(), ["c3a9f09f", ""]);
        assert_eq!(text(&["true", "f", "1", "NO"], "BOOLEAN").unwrap(), ["true", "false", "true", "false"]);
        assert_eq!(text(&["12", " 5 "], "DOUBLE").unwrap(), ["12.0", "5.0"]);
        assert_eq!(text(&["2024-02-29"], "TIMESTAMP(3)").unwrap(), ["2024-02-29T00:00:00"]);
        for (bad, to) in [(" 5 ", "INT"), ("perhaps", "BOOLEAN"), ("no date", "DATE"), ("1234567890", "DECIMAL(5, 1)")]
        {
            assert!(text(&[bad], to).unwrap_err().to_string().contains(bad), "{bad}");
        }
        let bytes = BinaryViewArray::from_iter_values([&b"abc"[..], b"\xff"]);
        assert_eq!(shown(bytes, "VARBINARY(6)", "STRING").unwrap(), ["abc", "\u{fffd}"]);
    }

    #[test]
    fn supported_when_types_do_not_meet_then_not() {
        for (from, to) in [("INT", "DATE"), ("DECIMAL(5, 1)", "BOOLEAN"), ("DOUBLE", "BOOLEAN"), ("DATE", "INT")] {
            assert!(!supported(&kind(from), &kind(to)), "{from} to {to}");
        }
    }
}
