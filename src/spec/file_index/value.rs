//! Values as indexes hold them: a column's type decides the form, an arrow value becomes a [`Key`] of that form.

use std::borrow::Cow;
use std::cmp::Ordering;

use arrow::array::{Array, AsArray};
use arrow::datatypes::{
    DataType as ArrowType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, Time32MillisecondType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType,
};

use super::input::Input;
use crate::error::Result;
use crate::spec::types::TypeKind;

/// The form in which indexes hold the values of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueType {
    /// BOOLEAN: 0 or 1 in one byte
    Boolean,
    /// TINYINT
    Int8,
    /// SMALLINT
    Int16,
    /// INT; DATE as days, TIME as milliseconds
    Int32,
    /// BIGINT
    Int64,
    /// DECIMAL up to precision 18 by its digits as one number
    Decimal {
        /// Digits behind the point.
        scale: i8,
    },
    /// TIMESTAMP of precision 0 to 3, in milliseconds
    Millis,
    /// TIMESTAMP of precision 4 to 6, in microseconds
    Micros,
    /// TIMESTAMP of precision 7 to 9, cut to microseconds
    CutMicros,
    /// FLOAT
    Float32,
    /// DOUBLE
    Float64,
    /// VARCHAR
    Text,
    /// VARBINARY
    Bytes,
}

impl ValueType {
    /// The form of a column; `None` when no index can be used for it.
    ///
    /// Values of CHAR and BINARY may be padded in the index and not in the file, or the other way round
    /// (`spec/observed.md`), so that an index says nothing about them.
    pub fn of(kind: &TypeKind) -> Option<Self> {
        Some(match kind {
            TypeKind::Boolean => Self::Boolean,
            TypeKind::TinyInt => Self::Int8,
            TypeKind::SmallInt => Self::Int16,
            TypeKind::Int | TypeKind::Date | TypeKind::Time(_) => Self::Int32,
            TypeKind::BigInt => Self::Int64,
            TypeKind::Float => Self::Float32,
            TypeKind::Double => Self::Float64,
            TypeKind::Decimal(0..=18, scale) => Self::Decimal { scale: i8::try_from(*scale).ok()? },
            TypeKind::Timestamp(precision) | TypeKind::TimestampLtz(precision) => match precision {
                0..=3 => Self::Millis,
                4..=6 => Self::Micros,
                _ => Self::CutMicros,
            },
            TypeKind::VarChar(_) => Self::Text,
            TypeKind::VarBinary(_) => Self::Bytes,
            _ => return None,
        })
    }

    /// Whether distinct values may have one key, so that a key says "perhaps this value".
    pub fn is_cut(self) -> bool {
        self == Self::CutMicros
    }

    /// The key of the first value of `array`; `None` for NULL and for an array of another type.
    pub fn key(self, array: &dyn Array) -> Option<Key<'static>> {
        if array.is_empty() || array.is_null(0) {
            return None;
        }
        let integer = |value: i64| Some(Key::Integer(value));
        let bytes = |value: &[u8]| Some(Key::Bytes(Cow::Owned(value.to_vec())));
        match (self, array.data_type()) {
            (Self::Boolean, ArrowType::Boolean) => integer(i64::from(array.as_boolean().value(0))),
            (Self::Int8, ArrowType::Int8) => integer(array.as_primitive::<Int8Type>().value(0).into()),
            (Self::Int16, ArrowType::Int16) => integer(array.as_primitive::<Int16Type>().value(0).into()),
            (Self::Int32, ArrowType::Int32) => integer(array.as_primitive::<Int32Type>().value(0).into()),
            (Self::Int32, ArrowType::Date32) => integer(array.as_primitive::<Date32Type>().value(0).into()),
            (Self::Int32, ArrowType::Time32(TimeUnit::Millisecond)) => {
                integer(array.as_primitive::<Time32MillisecondType>().value(0).into())
            }
            (Self::Int64, ArrowType::Int64) => integer(array.as_primitive::<Int64Type>().value(0)),
            (Self::Decimal { scale }, ArrowType::Decimal128(_, of)) if scale == *of => {
                integer(i64::try_from(array.as_primitive::<Decimal128Type>().value(0)).ok()?)
            }
            (Self::Millis, ArrowType::Timestamp(TimeUnit::Millisecond, _)) => {
                integer(array.as_primitive::<TimestampMillisecondType>().value(0))
            }
            (Self::Micros, ArrowType::Timestamp(TimeUnit::Microsecond, _)) => {
                integer(array.as_primitive::<TimestampMicrosecondType>().value(0))
            }
            (Self::CutMicros, ArrowType::Timestamp(TimeUnit::Nanosecond, _)) => {
                integer(array.as_primitive::<TimestampNanosecondType>().value(0).div_euclid(1000))
            }
            (Self::Float32, ArrowType::Float32) => Some(Key::Float32(array.as_primitive::<Float32Type>().value(0))),
            (Self::Float64, ArrowType::Float64) => Some(Key::Float64(array.as_primitive::<Float64Type>().value(0))),
            (Self::Text, ArrowType::Utf8) => bytes(array.as_string::<i32>().value(0).as_bytes()),
            (Self::Text, ArrowType::LargeUtf8) => bytes(array.as_string::<i64>().value(0).as_bytes()),
            (Self::Text, ArrowType::Utf8View) => bytes(array.as_string_view().value(0).as_bytes()),
            (Self::Bytes, ArrowType::Binary) => bytes(array.as_binary::<i32>().value(0)),
            (Self::Bytes, ArrowType::LargeBinary) => bytes(array.as_binary::<i64>().value(0)),
            (Self::Bytes, ArrowType::BinaryView) => bytes(array.as_binary_view().value(0)),
            _ => None,
        }
    }

    /// Bytes of a key, where all keys have the same number.
    pub(super) fn width(self) -> Option<usize> {
        match self {
            Self::Boolean | Self::Int8 => Some(1),
            Self::Int16 => Some(2),
            Self::Int32 | Self::Float32 => Some(4),
            Self::Int64 | Self::Decimal { .. } | Self::Millis | Self::Micros | Self::CutMicros | Self::Float64 => {
                Some(8)
            }
            Self::Text | Self::Bytes => None,
        }
    }

    /// Reads a key of a bitmap or range-bitmap index.
    pub(super) fn read<'a>(self, input: &mut Input<'a>) -> Result<Key<'a>> {
        Ok(match self {
            Self::Boolean | Self::Int8 => Key::Integer(input.i8()?.into()),
            Self::Int16 => Key::Integer(input.i16()?.into()),
            Self::Int32 => Key::Integer(input.i32()?.into()),
            Self::Int64 | Self::Decimal { .. } | Self::Millis | Self::Micros | Self::CutMicros => {
                Key::Integer(input.i64()?)
            }
            Self::Float32 => Key::Float32(f32::from_bits(input.i32()? as u32)),
            Self::Float64 => Key::Float64(f64::from_bits(input.i64()? as u64)),
            Self::Text | Self::Bytes => {
                let length = input.length()?;
                Key::Bytes(Cow::Borrowed(input.take(length)?))
            }
        })
    }
}

/// A value as an index holds it. Keys of one [`ValueType`] are of one variant.
#[derive(Clone, Debug)]
pub enum Key<'a> {
    /// Everything that is a number without a fraction.
    Integer(i64),
    /// FLOAT
    Float32(f32),
    /// DOUBLE
    Float64(f64),
    /// Text as UTF-8, or bytes.
    Bytes(Cow<'a, [u8]>),
}

impl Key<'_> {
    /// Whether the key is NaN.
    pub(super) fn is_nan(&self) -> bool {
        match self {
            Self::Float32(value) => value.is_nan(),
            Self::Float64(value) => value.is_nan(),
            Self::Integer(_) | Self::Bytes(_) => false,
        }
    }

    /// The two zeros of a floating point type, when the key is one of them.
    pub(super) fn zeros(&self) -> Option<[Key<'static>; 2]> {
        match self {
            Self::Float32(value) if *value == 0.0 => Some([Key::Float32(-0.0), Key::Float32(0.0)]),
            Self::Float64(value) if *value == 0.0 => Some([Key::Float64(-0.0), Key::Float64(0.0)]),
            _ => None,
        }
    }
}

/// The order of the writers of indexes: numbers by value with -0.0 < 0.0 < NaN and every NaN equal, text by unsigned
/// bytes. Keys of different types are not compared with each other; they are ordered by variant.
impl Ord for Key<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let rank = |key: &Key<'_>| match key {
            Key::Integer(_) => 0,
            Key::Float32(_) => 1,
            Key::Float64(_) => 2,
            Key::Bytes(_) => 3,
        };
        match (self, other) {
            (Self::Integer(a), Self::Integer(b)) => a.cmp(b),
            (Self::Float32(a), Self::Float32(b)) if !a.is_nan() && !b.is_nan() => a.total_cmp(b),
            (Self::Float64(a), Self::Float64(b)) if !a.is_nan() && !b.is_nan() => a.total_cmp(b),
            (Self::Float32(_), Self::Float32(_)) | (Self::Float64(_), Self::Float64(_)) => {
                self.is_nan().cmp(&other.is_nan())
            }
            (Self::Bytes(a), Self::Bytes(b)) => a.cmp(b),
            _ => rank(self).cmp(&rank(other)),
        }
    }
}

impl PartialOrd for Key<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Key<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Key<'_> {}
