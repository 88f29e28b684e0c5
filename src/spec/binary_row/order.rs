//! The order of keys (`spec/data.md 4.2`) on rows as they lie: NULL first, text and bytes by unsigned bytes, -0.0 < 0.0
//! < NaN with every NaN equal, decimals and timestamps by value.

use std::cmp::Ordering;

use super::{BinaryRow, Cell};
use crate::error::{Error, Result};
use crate::spec::datum::{compare_f32, compare_f64};
use crate::spec::types::{DataType, TypeKind};

/// Compares serialized rows of the same types. Errors as [`KeyComparator`].
pub fn compare_rows(a: &[u8], b: &[u8], types: &[DataType]) -> Result<Ordering> {
    KeyComparator::new(types)?.compare(a, b)
}

/// Appends bytes that order, compared as plain bytes, as the serialized row does among rows of the same types.
/// Errors as [`KeyComparator`].
pub fn sort_key(row: &[u8], types: &[DataType], out: &mut Vec<u8>) -> Result<()> {
    KeyComparator::new(types)?.sort_key(row, out)
}

/// How a field of a key is compared.
#[derive(Clone, Copy, Debug)]
enum KeyField {
    Boolean,
    Int8,
    Int16,
    Int32,
    Int64,
    Float32,
    Float64,
    Decimal(u8),
    Bytes,
    Timestamp(u8),
}

/// Compares rows of the given types.
///
/// Errors: `Unsupported` for nested types, which are no keys; `Corrupt` when a row is malformed or has fewer fields.
#[derive(Clone, Debug)]
pub struct KeyComparator {
    fields: Vec<KeyField>,
}

impl KeyComparator {
    /// A comparator for rows with fields of these types.
    pub fn new(types: &[DataType]) -> Result<Self> {
        let field = |data_type: &DataType| {
            Ok(match data_type.kind {
                TypeKind::Boolean => KeyField::Boolean,
                TypeKind::TinyInt => KeyField::Int8,
                TypeKind::SmallInt => KeyField::Int16,
                TypeKind::Int | TypeKind::Date | TypeKind::Time(_) => KeyField::Int32,
                TypeKind::BigInt => KeyField::Int64,
                TypeKind::Float => KeyField::Float32,
                TypeKind::Double => KeyField::Float64,
                TypeKind::Decimal(precision, _) => KeyField::Decimal(precision),
                TypeKind::Char(_)
                | TypeKind::VarChar(_)
                | TypeKind::Binary(_)
                | TypeKind::VarBinary(_)
                | TypeKind::Blob
                | TypeKind::Geometry(_)
                | TypeKind::Geography(_) => KeyField::Bytes,
                TypeKind::Timestamp(precision) | TypeKind::TimestampLtz(precision) => KeyField::Timestamp(precision),
                TypeKind::Variant
                | TypeKind::Array(_)
                | TypeKind::Multiset(_)
                | TypeKind::Map(..)
                | TypeKind::Row(_)
                | TypeKind::Vector(..) => {
                    return Err(Error::unsupported(format!("values of type {data_type} have no order")));
                }
            })
        };
        Ok(Self { fields: types.iter().map(field).collect::<Result<_>>()? })
    }

    fn row<'a>(&self, bytes: &'a [u8]) -> Result<BinaryRow<'a>> {
        let row = BinaryRow::from_serialized(bytes)?;
        if row.arity() < self.fields.len() {
            let (arity, fields) = (row.arity(), self.fields.len());
            return Err(Error::corrupt(format!("a key has {arity} fields instead of {fields}")));
        }
        Ok(row)
    }

    /// The order of two serialized rows.
    pub fn compare(&self, a: &[u8], b: &[u8]) -> Result<Ordering> {
        let (a, b) = (self.row(a)?, self.row(b)?);
        for (index, field) in self.fields.iter().enumerate() {
            let order = match (a.cell(index), b.cell(index)) {
                (Some(a), Some(b)) => field.compare(a, b)?,
                (a, b) => a.is_some().cmp(&b.is_some()),
            };
            if order != Ordering::Equal {
                return Ok(order);
            }
        }
        Ok(Ordering::Equal)
    }

    /// Appends bytes that order, compared as plain bytes, as the serialized row does. Equal rows give equal bytes.
    pub fn sort_key(&self, row: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let row = self.row(row)?;
        for (index, field) in self.fields.iter().enumerate() {
            match row.cell(index) {
                Some(cell) => {
                    out.push(1);
                    field.append(cell, out)?;
                }
                None => out.push(0),
            }
        }
        Ok(())
    }
}

impl KeyField {
    fn compare(self, a: Cell<'_>, b: Cell<'_>) -> Result<Ordering> {
        Ok(match self {
            Self::Boolean => a.boolean()?.cmp(&b.boolean()?),
            Self::Int8 => i8::from_le_bytes(a.read()?).cmp(&i8::from_le_bytes(b.read()?)),
            Self::Int16 => i16::from_le_bytes(a.read()?).cmp(&i16::from_le_bytes(b.read()?)),
            Self::Int32 => i32::from_le_bytes(a.read()?).cmp(&i32::from_le_bytes(b.read()?)),
            Self::Int64 => i64::from_le_bytes(a.read()?).cmp(&i64::from_le_bytes(b.read()?)),
            Self::Float32 => compare_f32(f32::from_le_bytes(a.read()?), f32::from_le_bytes(b.read()?)),
            Self::Float64 => compare_f64(f64::from_le_bytes(a.read()?), f64::from_le_bytes(b.read()?)),
            Self::Decimal(precision) => a.decimal(precision)?.cmp(&b.decimal(precision)?),
            Self::Bytes => a.bytes()?.cmp(b.bytes()?),
            Self::Timestamp(precision) => a.timestamp(precision)?.cmp(&b.timestamp(precision)?),
        })
    }

    /// Numbers big-endian with the sign bit turned; floats with negative numbers turned altogether; bytes with `00` as
    /// `00 ff` and `00 00` at the end, so that a prefix comes first.
    fn append(self, cell: Cell<'_>, out: &mut Vec<u8>) -> Result<()> {
        match self {
            Self::Boolean => out.push(u8::from(cell.boolean()?)),
            Self::Int8 => out.push(u8::from_le_bytes(cell.read()?) ^ 0x80),
            Self::Int16 => out.extend((u16::from_le_bytes(cell.read()?) ^ 1 << 15).to_be_bytes()),
            Self::Int32 => out.extend((u32::from_le_bytes(cell.read()?) ^ 1 << 31).to_be_bytes()),
            Self::Int64 => out.extend((u64::from_le_bytes(cell.read()?) ^ 1 << 63).to_be_bytes()),
            Self::Float32 => {
                let value = f32::from_le_bytes(cell.read()?);
                let bits = if value.is_nan() { f32::NAN.to_bits() & !(1 << 31) } else { value.to_bits() };
                out.extend((if bits >> 31 == 0 { bits ^ 1 << 31 } else { !bits }).to_be_bytes());
            }
            Self::Float64 => {
                let value = f64::from_le_bytes(cell.read()?);
                let bits = if value.is_nan() { f64::NAN.to_bits() & !(1 << 63) } else { value.to_bits() };
                out.extend((if bits >> 63 == 0 { bits ^ 1 << 63 } else { !bits }).to_be_bytes());
            }
            Self::Decimal(precision) => out.extend((cell.decimal(precision)? as u128 ^ 1 << 127).to_be_bytes()),
            Self::Bytes => {
                for byte in cell.bytes()? {
                    out.push(*byte);
                    if *byte == 0 {
                        out.push(0xff);
                    }
                }
                out.extend([0, 0]);
            }
            Self::Timestamp(precision) => {
                let (millis, nanos) = cell.timestamp(precision)?;
                out.extend((millis as u64 ^ 1 << 63).to_be_bytes());
                out.extend(nanos.to_be_bytes());
            }
        }
        Ok(())
    }
}
