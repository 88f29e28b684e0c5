//! One value of a column: a partition value, a key, a bound of the statistics. Whole columns are arrow arrays.
//!
//! May import: `error`, `spec::types`.

use std::cmp::Ordering;
use std::iter::repeat_n;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryViewArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int8Array,
    Int16Array, Int32Array, Int64Array, PrimitiveArray, StringViewArray, Time32MillisecondArray, new_null_array,
};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{
    ArrowTimestampType, DataType as ArrowType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, i256,
};

use crate::error::{Error, Result};
use crate::spec::types::{DataType, TypeKind};

/// A value. Which arrow type it becomes depends on the column's [`DataType`].
#[derive(Clone, Debug)]
pub enum Datum {
    /// NULL of any type
    Null,
    /// BOOLEAN
    Boolean(bool),
    /// TINYINT
    TinyInt(i8),
    /// SMALLINT
    SmallInt(i16),
    /// INT
    Int(i32),
    /// BIGINT
    BigInt(i64),
    /// FLOAT
    Float(f32),
    /// DOUBLE
    Double(f64),
    /// DECIMAL
    Decimal {
        /// The digits as one number.
        unscaled: i128,
        /// Precision of the type.
        precision: u8,
        /// Digits behind the point.
        scale: u8,
    },
    /// CHAR, VARCHAR, STRING
    Text(String),
    /// BINARY, VARBINARY, BYTES, BLOB, GEOMETRY, GEOGRAPHY
    Bytes(Vec<u8>),
    /// DATE: days since 1970-01-01
    Date(i32),
    /// TIME: milliseconds of the day
    Time(i32),
    /// TIMESTAMP, with or without local time zone
    Timestamp {
        /// Milliseconds since 1970-01-01 00:00 (of the wall clock, or of UTC).
        millis: i64,
        /// Nanoseconds within the millisecond, 0 to 999,999.
        nanos: i32,
    },
}

impl Datum {
    /// Whether the value is NULL.
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// An array of `len` times the value, of type [`DataType::to_arrow`].
    ///
    /// Errors: `Invalid` when the value is not of the type, `Unsupported` when a timestamp does not fit the arrow unit.
    pub fn to_array(&self, data_type: &DataType, len: usize) -> Result<ArrayRef> {
        let target = data_type.to_arrow();
        let wrong = || Error::invalid(format!("the value {self:?} is not of type {data_type}"));
        Ok(match (self, &data_type.kind) {
            (Self::Null, _) => new_null_array(&target, len),
            (Self::Boolean(value), TypeKind::Boolean) => {
                let bits = if *value { BooleanBuffer::new_set(len) } else { BooleanBuffer::new_unset(len) };
                Arc::new(BooleanArray::new(bits, None))
            }
            (Self::TinyInt(value), TypeKind::TinyInt) => Arc::new(Int8Array::from_value(*value, len)),
            (Self::SmallInt(value), TypeKind::SmallInt) => Arc::new(Int16Array::from_value(*value, len)),
            (Self::Int(value), TypeKind::Int) => Arc::new(Int32Array::from_value(*value, len)),
            (Self::BigInt(value), TypeKind::BigInt) => Arc::new(Int64Array::from_value(*value, len)),
            (Self::Float(value), TypeKind::Float) => Arc::new(Float32Array::from_value(*value, len)),
            (Self::Double(value), TypeKind::Double) => Arc::new(Float64Array::from_value(*value, len)),
            (Self::Decimal { unscaled, scale, .. }, TypeKind::Decimal(precision, to)) if scale == to => Arc::new(
                Decimal128Array::from_value(*unscaled, len).with_precision_and_scale(*precision, *scale as i8)?,
            ),
            (Self::Text(value), TypeKind::Char(_) | TypeKind::VarChar(_)) => {
                Arc::new(StringViewArray::from_iter_values(repeat_n(value, len)))
            }
            (Self::Bytes(value), _) if target == ArrowType::BinaryView => {
                Arc::new(BinaryViewArray::from_iter_values(repeat_n(value, len)))
            }
            (Self::Date(value), TypeKind::Date) => Arc::new(Date32Array::from_value(*value, len)),
            (Self::Time(value), TypeKind::Time(_)) => Arc::new(Time32MillisecondArray::from_value(*value, len)),
            (Self::Timestamp { millis, nanos }, TypeKind::Timestamp(_) | TypeKind::TimestampLtz(_)) => {
                let ArrowType::Timestamp(unit, zone) = target else { return Err(wrong()) };
                let value = timestamp_in(unit, *millis, *nanos).ok_or_else(|| {
                    Error::unsupported(format!("the timestamp {self:?} does not fit the 64 bits of {data_type}"))
                })?;
                match unit {
                    TimeUnit::Millisecond => timestamps::<TimestampMillisecondType>(value, len, zone),
                    TimeUnit::Microsecond => timestamps::<TimestampMicrosecondType>(value, len, zone),
                    TimeUnit::Nanosecond => timestamps::<TimestampNanosecondType>(value, len, zone),
                    TimeUnit::Second => return Err(wrong()),
                }
            }
            _ => return Err(wrong()),
        })
    }

    /// Where the kind of value stands among others; only values of different kinds are ordered by it.
    fn rank(&self) -> u8 {
        match self {
            Self::Null => 0,
            Self::Boolean(_) => 1,
            Self::TinyInt(_) => 2,
            Self::SmallInt(_) => 3,
            Self::Int(_) => 4,
            Self::BigInt(_) => 5,
            Self::Float(_) => 6,
            Self::Double(_) => 7,
            Self::Decimal { .. } => 8,
            Self::Text(_) => 9,
            Self::Bytes(_) => 10,
            Self::Date(_) => 11,
            Self::Time(_) => 12,
            Self::Timestamp { .. } => 13,
        }
    }
}

fn timestamps<T: ArrowTimestampType>(value: i64, len: usize, zone: Option<Arc<str>>) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::from_value(value, len).with_timezone_opt(zone))
}

/// The order of keys (`spec/data.md 4.2`): NULL first, text and bytes by unsigned bytes, -0.0 < 0.0 < NaN and every NaN
/// equal (`spec/observed.md`, keys of FLOAT), decimals and timestamps by value. Values of different types are ordered
/// by type.
impl Ord for Datum {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Boolean(a), Self::Boolean(b)) => a.cmp(b),
            (Self::TinyInt(a), Self::TinyInt(b)) => a.cmp(b),
            (Self::SmallInt(a), Self::SmallInt(b)) => a.cmp(b),
            (Self::Int(a), Self::Int(b)) | (Self::Date(a), Self::Date(b)) | (Self::Time(a), Self::Time(b)) => a.cmp(b),
            (Self::BigInt(a), Self::BigInt(b)) => a.cmp(b),
            (Self::Float(a), Self::Float(b)) => compare_f32(*a, *b),
            (Self::Double(a), Self::Double(b)) => compare_f64(*a, *b),
            (Self::Decimal { unscaled: a, scale: s, .. }, Self::Decimal { unscaled: b, scale: t, .. }) => {
                compare_decimals(*a, *s, *b, *t)
            }
            (Self::Text(a), Self::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
            (Self::Bytes(a), Self::Bytes(b)) => a.cmp(b),
            (Self::Timestamp { millis: a, nanos: m }, Self::Timestamp { millis: b, nanos: n }) => (a, m).cmp(&(b, n)),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Datum {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Datum {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Datum {}

/// -0.0 < 0.0 < NaN, every NaN equal.
pub(crate) fn compare_f32(a: f32, b: f32) -> Ordering {
    match (a.is_nan(), b.is_nan()) {
        (false, false) => a.total_cmp(&b),
        (a, b) => a.cmp(&b),
    }
}

/// -0.0 < 0.0 < NaN, every NaN equal.
pub(crate) fn compare_f64(a: f64, b: f64) -> Ordering {
    match (a.is_nan(), b.is_nan()) {
        (false, false) => a.total_cmp(&b),
        (a, b) => a.cmp(&b),
    }
}

fn compare_decimals(a: i128, a_scale: u8, b: i128, b_scale: u8) -> Ordering {
    let scaled = |unscaled: i128, by: u8| {
        let ten = i256::from_i128(10);
        // 128 bits and 38 digits fit 256 bits.
        ten.checked_pow(u32::from(by.min(38))).and_then(|factor| i256::from_i128(unscaled).checked_mul(factor))
    };
    match a_scale.cmp(&b_scale) {
        Ordering::Equal => a.cmp(&b),
        Ordering::Less => scaled(a, b_scale - a_scale).cmp(&Some(i256::from_i128(b))),
        Ordering::Greater => Some(i256::from_i128(a)).cmp(&scaled(b, a_scale - b_scale)),
    }
}

/// A timestamp counted in `unit`, cut to it; `None` when it does not fit 64 bits.
pub(crate) fn timestamp_in(unit: TimeUnit, millis: i64, nanos: i32) -> Option<i64> {
    match unit {
        TimeUnit::Second => Some(millis.div_euclid(1_000)),
        TimeUnit::Millisecond => Some(millis),
        TimeUnit::Microsecond => millis.checked_mul(1_000)?.checked_add(i64::from(nanos / 1_000)),
        // The sum may fit although the product does not, so the earliest millisecond is computed wide.
        TimeUnit::Nanosecond => i64::try_from(i128::from(millis) * 1_000_000 + i128::from(nanos)).ok(),
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;
    use arrow::datatypes::TimestampMicrosecondType;

    use super::*;

    #[test]
    fn cmp_when_floats_then_total_order_with_one_nan() {
        let order = [f64::NEG_INFINITY, -1.0, -0.0, 0.0, 1.0, f64::INFINITY, f64::NAN];
        for pair in order.windows(2) {
            assert!(Datum::Double(pair[0]) < Datum::Double(pair[1]), "{pair:?}");
        }
        assert_eq!(Datum::Float(f32::NAN), Datum::Float(-f32::NAN));
        assert!(Datum::Null < Datum::Double(f64::NEG_INFINITY));
    }

    #[test]
    fn cmp_when_decimals_of_other_scale_then_by_value() {
        let decimal = |unscaled, scale| Datum::Decimal { unscaled, precision: 38, scale };
        assert_eq!(decimal(150, 2), decimal(15, 1));
        assert!(decimal(-150, 2) < decimal(15, 1));
        assert!(decimal(i128::MAX, 0) > decimal(i128::MAX, 38));
    }

    #[test]
    fn cmp_when_text_then_unsigned_bytes() {
        // UTF-16 would put the supplementary character before the private use one.
        assert!(Datum::Text("\u{ff00}".into()) < Datum::Text("\u{1f600}".into()));
        assert!(Datum::Bytes(vec![0x7f]) < Datum::Bytes(vec![0x80]));
    }

    #[test]
    fn to_array_when_timestamp_then_unit_of_the_type() {
        let value = Datum::Timestamp { millis: -1, nanos: 999_000 };
        let array = value.to_array(&DataType::parse("TIMESTAMP(6)").unwrap(), 2).unwrap();
        assert_eq!(array.as_primitive::<TimestampMicrosecondType>().values(), &[-1, -1]);
        let early = Datum::Timestamp { millis: -62_135_596_800_000, nanos: 0 };
        assert!(early.to_array(&DataType::parse("TIMESTAMP(9)").unwrap(), 1).is_err());
        assert!(early.to_array(&DataType::parse("INT").unwrap(), 1).is_err());
    }

    #[test]
    fn to_array_when_type_then_arrow_type_of_the_column() {
        for (text, value) in [
            ("BOOLEAN", Datum::Boolean(true)),
            ("TINYINT", Datum::TinyInt(1)),
            ("SMALLINT", Datum::SmallInt(1)),
            ("INT", Datum::Int(1)),
            ("BIGINT", Datum::BigInt(1)),
            ("FLOAT", Datum::Float(1.0)),
            ("DOUBLE", Datum::Double(1.0)),
            ("DECIMAL(10, 2)", Datum::Decimal { unscaled: 100, precision: 10, scale: 2 }),
            ("CHAR(3)", Datum::Text("abc".into())),
            ("BYTES", Datum::Bytes(vec![1])),
            ("DATE", Datum::Date(1)),
            ("TIME(3)", Datum::Time(1)),
            ("TIMESTAMP(3)", Datum::Timestamp { millis: 1, nanos: 0 }),
            ("TIMESTAMP(9) WITH LOCAL TIME ZONE", Datum::Timestamp { millis: 1, nanos: 0 }),
        ] {
            let data_type = DataType::parse(text).unwrap();
            for value in [&value, &Datum::Null] {
                let array = value.to_array(&data_type, 3).unwrap();
                assert_eq!((array.len(), array.data_type()), (3, &data_type.to_arrow()));
            }
        }
    }
}
