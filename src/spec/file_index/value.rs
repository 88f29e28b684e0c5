//! Values as indexes hold them: a column's type decides the form, an arrow value becomes a [`Key`] of that form.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use arrow::array::{Array, ArrowPrimitiveType, AsArray};
use arrow::datatypes::{
    DataType as ArrowType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, Time32MillisecondType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType,
};

use super::input::Input;
use super::output::put_length;
use crate::error::{Error, Result};
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
        if array.is_empty() {
            return None;
        }
        let mut first = None;
        let found = self.for_each(array.slice(0, 1).as_ref(), |key| {
            first = key.map(Key::into_owned);
            Ok(())
        });
        found.ok().and(first)
    }

    /// Calls `each` with the key of every value of `array`, in order; `None` is NULL.
    ///
    /// # Errors
    /// Those of `each`, internal for an array of another type, invalid for a number that no key holds.
    pub(super) fn for_each<'a>(
        self,
        array: &'a dyn Array,
        mut each: impl FnMut(Option<Key<'a>>) -> Result<()>,
    ) -> Result<()> {
        fn numbers<'a, T: ArrowPrimitiveType>(
            array: &'a dyn Array,
            key: impl Fn(T::Native) -> Result<Key<'a>>,
            mut each: impl FnMut(Option<Key<'a>>) -> Result<()>,
        ) -> Result<()> {
            array.as_primitive::<T>().iter().try_for_each(|value| each(value.map(&key).transpose()?))
        }
        let key = |bytes: &'a [u8]| Key::Bytes(Cow::Borrowed(bytes));
        let integer = |value: i64| Ok(Key::Integer(value));
        match (self, array.data_type()) {
            (Self::Boolean, ArrowType::Boolean) => {
                array.as_boolean().iter().try_for_each(|value| each(value.map(|value| Key::Integer(value.into()))))
            }
            (Self::Int8, ArrowType::Int8) => numbers::<Int8Type>(array, |value| integer(value.into()), each),
            (Self::Int16, ArrowType::Int16) => numbers::<Int16Type>(array, |value| integer(value.into()), each),
            (Self::Int32, ArrowType::Int32) => numbers::<Int32Type>(array, |value| integer(value.into()), each),
            (Self::Int32, ArrowType::Date32) => numbers::<Date32Type>(array, |value| integer(value.into()), each),
            (Self::Int32, ArrowType::Time32(TimeUnit::Millisecond)) => {
                numbers::<Time32MillisecondType>(array, |value| integer(value.into()), each)
            }
            (Self::Int64, ArrowType::Int64) => numbers::<Int64Type>(array, integer, each),
            (Self::Decimal { scale }, ArrowType::Decimal128(_, of)) if scale == *of => {
                let key = |value: i128| {
                    i64::try_from(value).map(Key::Integer).map_err(|_| {
                        Error::invalid(format!(
                            "the digits {value} of a decimal have over 64 bits, an index has no more"
                        ))
                    })
                };
                numbers::<Decimal128Type>(array, key, each)
            }
            (Self::Millis, ArrowType::Timestamp(TimeUnit::Millisecond, _)) => {
                numbers::<TimestampMillisecondType>(array, integer, each)
            }
            (Self::Micros, ArrowType::Timestamp(TimeUnit::Microsecond, _)) => {
                numbers::<TimestampMicrosecondType>(array, integer, each)
            }
            (Self::CutMicros, ArrowType::Timestamp(TimeUnit::Nanosecond, _)) => {
                numbers::<TimestampNanosecondType>(array, |value| integer(value.div_euclid(1000)), each)
            }
            (Self::Float32, ArrowType::Float32) => numbers::<Float32Type>(array, |value| Ok(Key::Float32(value)), each),
            (Self::Float64, ArrowType::Float64) => numbers::<Float64Type>(array, |value| Ok(Key::Float64(value)), each),
            (Self::Text, ArrowType::Utf8) => {
                array.as_string::<i32>().iter().try_for_each(|text| each(text.map(str::as_bytes).map(key)))
            }
            (Self::Text, ArrowType::LargeUtf8) => {
                array.as_string::<i64>().iter().try_for_each(|text| each(text.map(str::as_bytes).map(key)))
            }
            (Self::Text, ArrowType::Utf8View) => {
                array.as_string_view().iter().try_for_each(|text| each(text.map(str::as_bytes).map(key)))
            }
            (Self::Bytes, ArrowType::Binary) => {
                array.as_binary::<i32>().iter().try_for_each(|bytes| each(bytes.map(key)))
            }
            (Self::Bytes, ArrowType::LargeBinary) => {
                array.as_binary::<i64>().iter().try_for_each(|bytes| each(bytes.map(key)))
            }
            (Self::Bytes, ArrowType::BinaryView) => {
                array.as_binary_view().iter().try_for_each(|bytes| each(bytes.map(key)))
            }
            (_, other) => Err(Error::internal(format!("an index of {self:?} over values of {other}"))),
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

    /// Writes a key of this type as [`Self::read`] reads it.
    pub(super) fn write(self, key: &Key<'_>, out: &mut Vec<u8>) -> Result<()> {
        match (key, self.width()) {
            // The lowest bytes of a number: it came from a value of that many.
            (Key::Integer(number), Some(width)) => {
                out.extend(number.to_be_bytes().get(8 - width..).unwrap_or_default());
            }
            (Key::Float32(_) | Key::Float64(_), _) => match key.bits() {
                bits if self == Self::Float32 => out.extend((bits as u32).to_be_bytes()),
                bits => out.extend(bits.to_be_bytes()),
            },
            (Key::Bytes(bytes), _) => {
                put_length(bytes.len(), out)?;
                out.extend_from_slice(bytes);
            }
            (Key::Integer(_), None) => {
                return Err(Error::internal(format!("the number {key:?} in an index of {self:?}")));
            }
        }
        Ok(())
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
    /// The key with bytes of its own.
    pub(super) fn into_owned(self) -> Key<'static> {
        match self {
            Self::Integer(value) => Key::Integer(value),
            Self::Float32(value) => Key::Float32(value),
            Self::Float64(value) => Key::Float64(value),
            Self::Bytes(bytes) => Key::Bytes(Cow::Owned(bytes.into_owned())),
        }
    }

    /// The bits of a number, those of a FLOAT as its sign says. Java's `floatToIntBits` and `doubleToLongBits` know one
    /// NaN.
    pub(super) fn bits(&self) -> i64 {
        match self {
            Self::Integer(value) => *value,
            Self::Float32(value) => i64::from(if value.is_nan() { 0x7fc0_0000 } else { value.to_bits() as i32 }),
            Self::Float64(value) if value.is_nan() => 0x7ff8_0000_0000_0000,
            Self::Float64(value) => value.to_bits() as i64,
            Self::Bytes(_) => 0,
        }
    }

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

impl Hash for Key<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Self::Bytes(bytes) => bytes.hash(state),
            number => number.bits().hash(state),
        }
    }
}
