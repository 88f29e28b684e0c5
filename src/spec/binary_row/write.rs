//! Rows written byte for byte as Java writes them: rows are hashed, and compared as bytes, so every unused byte is
//! zero.

use super::{ARITY_PREFIX, bitset_size, fixed_size, is_compact_decimal, is_compact_timestamp};
use crate::error::{Error, Result};
use crate::spec::datum::Datum;
use crate::spec::types::{DataType, TypeKind};

/// Where a value is written: a buffer, and in it the row or array and the slot.
pub(super) struct Slot<'a> {
    /// The buffer; the variable part is appended to it.
    pub out: &'a mut Vec<u8>,
    /// Start of the row or array, which offsets count from.
    pub base: usize,
    /// Position of the slot in the buffer; the slot is zero.
    pub at: usize,
}

impl Slot<'_> {
    /// A value that fits the slot.
    pub fn put<const N: usize>(&mut self, bytes: [u8; N]) {
        self.out[self.at..self.at + N].copy_from_slice(&bytes);
    }

    /// Points the slot at the end of the buffer, where the value follows.
    pub fn point(&mut self, low: u32) -> Result<()> {
        let offset = self.out.len() - self.base;
        match (u32::try_from(offset), i32::try_from(offset)) {
            (Ok(offset), Ok(_)) => {
                self.put((u64::from(offset) << 32 | u64::from(low)).to_le_bytes());
                Ok(())
            }
            _ => Err(too_long()),
        }
    }

    /// Text or bytes: up to 7 in the slot, more in the variable part.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        if bytes.len() <= 7 {
            let mut slot = [0; 8];
            slot[..bytes.len()].copy_from_slice(bytes);
            slot[7] = 0x80 | bytes.len() as u8;
            self.put(slot);
            return Ok(());
        }
        self.point(i32::try_from(bytes.len()).map_err(|_| too_long())? as u32)?;
        self.out.extend_from_slice(bytes);
        pad(self.out, self.base);
        Ok(())
    }

    /// A decimal; over 18 digits, its shortest big-endian bytes in an area of 16.
    pub fn decimal(&mut self, unscaled: i128, precision: u8) -> Result<()> {
        if is_compact_decimal(precision) {
            let value = i64::try_from(unscaled)
                .map_err(|_| Error::invalid(format!("the decimal {unscaled} has more than {precision} digits")))?;
            self.put(value.to_le_bytes());
            return Ok(());
        }
        let (wide, fill) = (unscaled.to_be_bytes(), if unscaled < 0 { 0xff } else { 0 });
        // A leading byte is left out where the next one tells the same sign.
        let skip = (0..15).take_while(|i| wide[*i] == fill && (wide[*i + 1] ^ fill) & 0x80 == 0).count();
        self.point(16 - skip as u32)?;
        self.out.extend_from_slice(&wide[skip..]);
        self.out.resize(self.out.len() + skip, 0);
        Ok(())
    }

    /// A timestamp; over 3 digits, its milliseconds in the variable part.
    pub fn timestamp(&mut self, millis: i64, nanos: i32, precision: u8) -> Result<()> {
        if is_compact_timestamp(precision) {
            self.put(millis.to_le_bytes());
            return Ok(());
        }
        self.point(nanos as u32)?;
        self.out.extend_from_slice(&millis.to_le_bytes());
        Ok(())
    }

    /// The bytes that a NULL of a wide decimal or timestamp reserves in a row (`spec/metadata.md 5.2`); not in an
    /// array.
    pub fn reserve_for_null(&mut self, data_type: &DataType) -> Result<()> {
        let len = match data_type.kind {
            TypeKind::Decimal(precision, _) if !is_compact_decimal(precision) => 16,
            TypeKind::Timestamp(precision) | TypeKind::TimestampLtz(precision) if !is_compact_timestamp(precision) => 8,
            _ => return Ok(()),
        };
        self.point(0)?;
        self.out.resize(self.out.len() + len, 0);
        Ok(())
    }
}

pub(super) fn too_long() -> Error {
    Error::invalid("a row of 2 GB or more can't be written")
}

/// Pads the buffer with zeros so that what follows starts at a multiple of 8 from `base`.
pub(super) fn pad(out: &mut Vec<u8>, base: usize) {
    let len = (out.len() - base).next_multiple_of(8);
    out.resize(base + len, 0);
}

/// Sets the null bit of field `index` of the row at `base`.
pub(super) fn set_null(out: &mut [u8], base: usize, index: usize) {
    out[base + (8 + index) / 8] |= 1 << ((8 + index) % 8);
}

/// Appends the row kind, null bits and slots of a row, all zero, and gives the position of its first slot.
pub(super) fn begin_row(out: &mut Vec<u8>, arity: usize) -> usize {
    let base = out.len();
    out.resize(base + fixed_size(arity), 0);
    base + bitset_size(arity)
}

/// Writes one row field by field.
#[derive(Clone, Debug)]
pub struct BinaryRowWriter {
    /// The serialized row.
    out: Vec<u8>,
    arity: usize,
}

impl BinaryRowWriter {
    /// A row of `arity` fields, all zero. Errors: `Invalid` when the arity passes 31 bits.
    pub fn new(arity: usize) -> Result<Self> {
        let prefix = i32::try_from(arity).map_err(|_| too_long())?;
        let mut out = prefix.to_be_bytes().to_vec();
        begin_row(&mut out, arity);
        Ok(Self { out, arity })
    }

    /// Starts over with a row of the same arity.
    pub fn reset(&mut self) {
        self.out.truncate(ARITY_PREFIX);
        begin_row(&mut self.out, self.arity);
    }

    /// Writes field `index`, once, and in ascending order: the variable part lies in the order of writing.
    ///
    /// Errors: `Invalid` when the value is not of the type, `Unsupported` for nested types (see `encode_rows`).
    pub fn write(&mut self, index: usize, value: &Datum, data_type: &DataType) -> Result<()> {
        if index >= self.arity {
            return Err(Error::internal(format!("field {index} of a row of {}", self.arity)));
        }
        let at = ARITY_PREFIX + bitset_size(self.arity) + 8 * index;
        let mut slot = Slot { out: &mut self.out, base: ARITY_PREFIX, at };
        match (value, &data_type.kind) {
            (Datum::Null, _) => {
                slot.reserve_for_null(data_type)?;
                set_null(&mut self.out, ARITY_PREFIX, index);
            }
            (Datum::Boolean(value), TypeKind::Boolean) => slot.put([u8::from(*value)]),
            (Datum::TinyInt(value), TypeKind::TinyInt) => slot.put(value.to_le_bytes()),
            (Datum::SmallInt(value), TypeKind::SmallInt) => slot.put(value.to_le_bytes()),
            (Datum::Int(value), TypeKind::Int)
            | (Datum::Date(value), TypeKind::Date)
            | (Datum::Time(value), TypeKind::Time(_)) => slot.put(value.to_le_bytes()),
            (Datum::BigInt(value), TypeKind::BigInt) => slot.put(value.to_le_bytes()),
            (Datum::Float(value), TypeKind::Float) => slot.put(value.to_le_bytes()),
            (Datum::Double(value), TypeKind::Double) => slot.put(value.to_le_bytes()),
            (Datum::Decimal { unscaled, scale, .. }, TypeKind::Decimal(precision, to)) if scale == to => {
                slot.decimal(*unscaled, *precision)?;
            }
            (Datum::Text(value), TypeKind::Char(_) | TypeKind::VarChar(_)) => slot.bytes(value.as_bytes())?,
            (
                Datum::Bytes(value),
                TypeKind::Binary(_)
                | TypeKind::VarBinary(_)
                | TypeKind::Blob
                | TypeKind::Geometry(_)
                | TypeKind::Geography(_),
            ) => slot.bytes(value)?,
            (
                Datum::Timestamp { millis, nanos },
                TypeKind::Timestamp(precision) | TypeKind::TimestampLtz(precision),
            ) => slot.timestamp(*millis, *nanos, *precision)?,
            _ if data_type.is_nested() || data_type.kind == TypeKind::Variant => {
                return Err(Error::unsupported(format!(
                    "a single value of type {data_type} can't be written to a row"
                )));
            }
            _ => return Err(Error::invalid(format!("the value {value:?} is not of type {data_type}"))),
        }
        Ok(())
    }

    /// The row behind its arity, as manifests hold it.
    pub fn serialized(&self) -> &[u8] {
        &self.out
    }

    /// The row without its arity, which bucket hashes are made of.
    pub fn image(&self) -> &[u8] {
        &self.out[ARITY_PREFIX..]
    }
}
