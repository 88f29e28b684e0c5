//! BinaryRow (`spec/metadata.md 5`): the bytes of partition values, keys and statistics, and what bucket hashes are
//! made of.
//!
//! ```text
//! serialized: [arity: i32 BE] [image]
//! image:      [row kind, null bits] [slot of 8 bytes LE] x arity [variable part, items padded to 8 bytes]
//! ```
//!
//! Offsets count from the start of the image. [`BinaryRow`] reads one row, `decode_column` a column out of many rows,
//! `encode_rows` rows out of columns, and `KeyComparator` compares rows without reading them into values.
//!
//! May import: `error`, `spec::{types, datum}`.

mod column;
mod encode;
mod nested;
mod order;
mod write;

pub use column::decode_column;
pub(crate) use column::{BoundsOf, decode_bounds};
pub use encode::{RowBuffer, RowEncoder, encode_rows};
pub use order::{KeyComparator, compare_rows, sort_key};
pub use write::BinaryRowWriter;

use crate::error::{Error, Result};
use crate::spec::datum::Datum;
use crate::spec::types::{DataType, TypeKind};

/// The serialized row without fields: the partition of tables without partitions, the key of tables without one.
pub const EMPTY_ROW: [u8; 12] = [0; 12];

/// Bytes of the arity before the image of a serialized row.
pub(crate) const ARITY_PREFIX: usize = 4;

/// Bytes of the row kind and the null bits.
const fn bitset_size(arity: usize) -> usize {
    (arity + 63 + 8) / 64 * 8
}

/// Bytes before the variable part.
const fn fixed_size(arity: usize) -> usize {
    bitset_size(arity) + 8 * arity
}

/// A DECIMAL that fits the slot.
const fn is_compact_decimal(precision: u8) -> bool {
    precision <= 18
}

/// A TIMESTAMP that fits the slot.
const fn is_compact_timestamp(precision: u8) -> bool {
    precision <= 3
}

/// A row, checked to hold its null bits and slots; what slots point at is checked when it is read.
#[derive(Clone, Copy, Debug)]
pub struct BinaryRow<'a> {
    image: &'a [u8],
    arity: usize,
}

impl<'a> BinaryRow<'a> {
    /// A row as manifests hold it, behind its arity. Errors: `Corrupt` when it is too short for its arity.
    #[inline]
    pub fn from_serialized(bytes: &'a [u8]) -> Result<Self> {
        let Some((arity, image)) = bytes.split_first_chunk::<ARITY_PREFIX>() else { return Err(short(bytes.len())) };
        match usize::try_from(i32::from_be_bytes(*arity)) {
            Ok(arity) => Self::from_image(image, arity),
            Err(_) => Err(short(bytes.len())),
        }
    }

    /// A row without its arity. Errors: `Corrupt` when it is too short for the arity.
    #[inline]
    pub fn from_image(image: &'a [u8], arity: usize) -> Result<Self> {
        if arity > image.len() / 8 || image.len() < fixed_size(arity) {
            return Err(short(image.len()));
        }
        Ok(Self { image, arity })
    }

    /// The number of fields.
    pub fn arity(&self) -> usize {
        self.arity
    }

    /// The bytes without the arity, which bucket hashes are made of.
    pub fn image(&self) -> &'a [u8] {
        self.image
    }

    /// Whether field `index` is NULL, told by the null bit alone: some writers reserve bytes for a NULL and some do not
    /// (`spec/metadata.md 5.2`). A field beyond the arity is NULL.
    #[inline]
    pub fn is_null(&self, index: usize) -> bool {
        index >= self.arity || self.image[(8 + index) / 8] & (1 << ((8 + index) % 8)) != 0
    }

    /// Field `index`, unless it is NULL.
    #[inline]
    fn cell(&self, index: usize) -> Option<Cell<'a>> {
        (!self.is_null(index)).then(|| Cell { base: self.image, at: bitset_size(self.arity) + 8 * index })
    }

    /// The value of field `index`; NULL when the arity is smaller.
    ///
    /// Errors: `Corrupt` when the bytes are no value of the type, `Unsupported` for nested types, which only
    /// [`decode_column`] reads.
    pub fn datum(&self, index: usize, data_type: &DataType) -> Result<Datum> {
        let Some(cell) = self.cell(index) else { return Ok(Datum::Null) };
        Ok(match &data_type.kind {
            TypeKind::Boolean => Datum::Boolean(cell.boolean()?),
            TypeKind::TinyInt => Datum::TinyInt(i8::from_le_bytes(cell.read()?)),
            TypeKind::SmallInt => Datum::SmallInt(i16::from_le_bytes(cell.read()?)),
            TypeKind::Int => Datum::Int(i32::from_le_bytes(cell.read()?)),
            TypeKind::BigInt => Datum::BigInt(i64::from_le_bytes(cell.read()?)),
            TypeKind::Float => Datum::Float(f32::from_le_bytes(cell.read()?)),
            TypeKind::Double => Datum::Double(f64::from_le_bytes(cell.read()?)),
            TypeKind::Decimal(precision, scale) => {
                Datum::Decimal { unscaled: cell.decimal(*precision)?, precision: *precision, scale: *scale }
            }
            TypeKind::Char(_) | TypeKind::VarChar(_) => match std::str::from_utf8(cell.bytes()?) {
                Ok(text) => Datum::Text(text.to_owned()),
                Err(source) => return Err(Error::corrupt("text in a row is not UTF-8").with_source(source)),
            },
            TypeKind::Binary(_)
            | TypeKind::VarBinary(_)
            | TypeKind::Blob
            | TypeKind::Geometry(_)
            | TypeKind::Geography(_) => Datum::Bytes(cell.bytes()?.to_vec()),
            TypeKind::Date => Datum::Date(i32::from_le_bytes(cell.read()?)),
            TypeKind::Time(_) => Datum::Time(i32::from_le_bytes(cell.read()?)),
            TypeKind::Timestamp(precision) | TypeKind::TimestampLtz(precision) => {
                let (millis, nanos) = cell.timestamp(*precision)?;
                Datum::Timestamp { millis, nanos }
            }
            TypeKind::Variant
            | TypeKind::Array(_)
            | TypeKind::Multiset(_)
            | TypeKind::Map(..)
            | TypeKind::Row(_)
            | TypeKind::Vector(..) => {
                return Err(Error::unsupported(format!(
                    "a single value of type {data_type} can't be taken from a row"
                )));
            }
        })
    }
}

/// Where a value lies: the slot of a row or the element of an array. Values narrower than a slot lie at its start, so
/// both are read alike.
#[derive(Clone, Copy, Debug)]
struct Cell<'a> {
    /// What offsets count from: the image of the row, or the array.
    base: &'a [u8],
    /// Position of the slot or element in it.
    at: usize,
}

impl<'a> Cell<'a> {
    #[inline]
    fn read<const N: usize>(self) -> Result<[u8; N]> {
        match self.base.get(self.at..).and_then(<[u8]>::first_chunk) {
            Some(bytes) => Ok(*bytes),
            None => Err(short(self.base.len())),
        }
    }

    #[inline]
    fn boolean(self) -> Result<bool> {
        Ok(self.read::<1>()? != [0])
    }

    /// The offset and the length (or other 32 bits) of a value in the variable part.
    #[inline]
    fn offset_and_low(self) -> Result<(usize, u32)> {
        let slot = u64::from_le_bytes(self.read()?);
        Ok(((slot >> 32) as usize, slot as u32))
    }

    #[inline]
    fn region(self, offset: usize, len: usize) -> Result<&'a [u8]> {
        match offset.checked_add(len).and_then(|end| self.base.get(offset..end)) {
            Some(bytes) => Ok(bytes),
            None => Err(outside(offset, len, self.base.len())),
        }
    }

    /// Text or bytes: up to 7 inside the slot, whose last byte is then `0x80 | length`.
    #[inline]
    fn bytes(self) -> Result<&'a [u8]> {
        let (offset, low) = self.offset_and_low()?;
        if offset >> 31 == 0 {
            return self.region(offset, low as usize);
        }
        match (offset >> 24) & 0x7f {
            len @ 0..=7 => self.region(self.at, len),
            len => Err(Error::corrupt(format!("a value of {len} bytes can't lie in a slot"))),
        }
    }

    /// A container or variant, which never lies in the slot.
    fn payload(self) -> Result<&'a [u8]> {
        let (offset, low) = self.offset_and_low()?;
        self.region(offset, low as usize)
    }

    /// The unscaled value: 64 bits in the slot, or up to 16 bytes big-endian elsewhere.
    #[inline]
    fn decimal(self, precision: u8) -> Result<i128> {
        if is_compact_decimal(precision) {
            return Ok(i64::from_le_bytes(self.read()?).into());
        }
        let (offset, len) = self.offset_and_low()?;
        match self.region(offset, len as usize)? {
            [] => Err(Error::corrupt("a decimal has no bytes")),
            bytes if bytes.len() > 16 => Err(Error::corrupt(format!("a decimal has {} bytes", bytes.len()))),
            bytes => {
                let fill = if bytes[0] & 0x80 == 0 { 0 } else { 0xff };
                let mut wide = [fill; 16];
                wide[16 - bytes.len()..].copy_from_slice(bytes);
                Ok(i128::from_be_bytes(wide))
            }
        }
    }

    /// Milliseconds, and nanoseconds within the millisecond.
    #[inline]
    fn timestamp(self, precision: u8) -> Result<(i64, i32)> {
        if is_compact_timestamp(precision) {
            return Ok((i64::from_le_bytes(self.read()?), 0));
        }
        let (offset, nanos) = self.offset_and_low()?;
        let millis = i64::from_le_bytes(Cell { base: self.base, at: offset }.read()?);
        match i32::try_from(nanos) {
            Ok(nanos @ 0..=999_999) => Ok((millis, nanos)),
            _ => Err(Error::corrupt(format!("a timestamp has {nanos} nanoseconds within a millisecond"))),
        }
    }
}

#[cold]
fn short(len: usize) -> Error {
    Error::corrupt(format!("a binary row of {len} bytes is too short for its fields"))
}

#[cold]
fn outside(offset: usize, len: usize, size: usize) -> Error {
    Error::corrupt(format!("a value of {len} bytes at {offset} lies outside of its binary row of {size} bytes"))
}

#[cfg(test)]
mod tests;
