//! A column out of many rows. Planning reads statistics and partitions this way, so slots go straight into arrow
//! buffers.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, ArrowPrimitiveType, BinaryBuilder, BinaryViewBuilder, BooleanArray, BooleanBufferBuilder,
    NullBufferBuilder, PrimitiveArray, StringBuilder, StringViewBuilder,
};
use arrow::datatypes::{
    ArrowTimestampType, DataType as ArrowType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, Time32MillisecondType, TimeUnit, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType,
};

use super::nested::decode_nested;
use super::{BinaryRow, Cell};
use crate::error::{Error, Result};
use crate::spec::datum::timestamp_in;
use crate::spec::types::{DataType, TypeKind};

/// Field `index` of serialized rows as an array of type [`DataType::to_arrow`]. NULL where the row is `None`, has fewer
/// fields or has the null bit set (whatever its slot says, `spec/metadata.md 5.2`).
///
/// Errors: `Corrupt` when a row is malformed or text is not UTF-8, `Unsupported` when a timestamp does not fit 64 bits
/// of the arrow unit.
pub fn decode_column<'a>(
    rows: impl IntoIterator<Item = Option<&'a [u8]>>,
    index: usize,
    data_type: &DataType,
) -> Result<ArrayRef> {
    let cells = rows.into_iter().map(|row| match row {
        Some(bytes) => Ok(BinaryRow::from_serialized(bytes)?.cell(index)),
        None => Ok(None),
    });
    decode(cells, data_type, How { views: true, lenient: false, limit: usize::MAX })
}

/// A row of statistics and the field in it; `None` for an unknown bound.
pub(crate) type BoundsOf<'a> = Option<(&'a [u8], usize)>;

/// As [`decode_column`] with a field of its own for each row, and with NULL for what arrow can't hold: a bound may be
/// dropped, a value may not.
pub(crate) fn decode_bounds<'a>(
    rows: impl IntoIterator<Item = BoundsOf<'a>>,
    data_type: &DataType,
) -> Result<ArrayRef> {
    let cells = rows.into_iter().map(|row| match row {
        Some((bytes, index)) => Ok(BinaryRow::from_serialized(bytes)?.cell(index)),
        None => Ok(None),
    });
    decode(cells, data_type, How { views: true, lenient: true, limit: usize::MAX })
}

/// How cells become an array.
#[derive(Clone, Copy)]
pub(super) struct How {
    /// Text and bytes as views: so at the top, not inside containers.
    pub views: bool,
    /// NULL instead of an error where arrow can't hold a value.
    pub lenient: bool,
    /// Bytes that text, bytes and containers may have together: those of what they lie in. Keeps a forged row, whose
    /// parts overlap, from growing without bound.
    pub limit: usize,
}

impl How {
    /// The error for, or acceptance of, a value that arrow can't hold.
    fn unreadable(self, data_type: &DataType) -> Result<()> {
        if self.lenient {
            return Ok(());
        }
        Err(match data_type.kind {
            TypeKind::Char(_) | TypeKind::VarChar(_) => Error::corrupt("text in a row is not UTF-8"),
            _ => Error::unsupported(format!("a value does not fit the 64 bits that {data_type} is read as")),
        })
    }

    /// Accounts for `len` more bytes.
    pub fn spend(&mut self, len: usize) -> Result<()> {
        match self.limit.checked_sub(len) {
            Some(left) => {
                self.limit = left;
                Ok(())
            }
            None => Err(Error::corrupt("the parts of a nested value are longer than the value")),
        }
    }
}

/// The array of the cells; `None` is NULL.
pub(super) fn decode<'a, I>(cells: I, data_type: &DataType, mut how: How) -> Result<ArrayRef>
where
    I: Iterator<Item = Result<Option<Cell<'a>>>>,
{
    let timestamp = |unit: TimeUnit, precision: u8| {
        move |cell: Cell<'a>| {
            let (millis, nanos) = cell.timestamp(precision)?;
            Ok(timestamp_in(unit, millis, nanos))
        }
    };
    fn zoned<T: ArrowTimestampType>(array: PrimitiveArray<T>, zone: Option<Arc<str>>) -> ArrayRef {
        Arc::new(array.with_timezone_opt(zone))
    }
    Ok(match &data_type.kind {
        TypeKind::Boolean => {
            let mut values = BooleanBufferBuilder::new(cells.size_hint().0);
            let mut nulls = NullBufferBuilder::new(cells.size_hint().0);
            for cell in cells {
                let value = cell?.map(Cell::boolean).transpose()?;
                values.append(value.unwrap_or_default());
                nulls.append(value.is_some());
            }
            Arc::new(BooleanArray::new(values.finish(), nulls.finish()))
        }
        TypeKind::TinyInt => {
            Arc::new(primitive::<Int8Type, _>(cells, data_type, how, |cell| Ok(Some(i8::from_le_bytes(cell.read()?))))?)
        }
        TypeKind::SmallInt => Arc::new(primitive::<Int16Type, _>(cells, data_type, how, |cell| {
            Ok(Some(i16::from_le_bytes(cell.read()?)))
        })?),
        TypeKind::Int => Arc::new(primitive::<Int32Type, _>(cells, data_type, how, |cell| {
            Ok(Some(i32::from_le_bytes(cell.read()?)))
        })?),
        TypeKind::BigInt => Arc::new(primitive::<Int64Type, _>(cells, data_type, how, |cell| {
            Ok(Some(i64::from_le_bytes(cell.read()?)))
        })?),
        TypeKind::Float => Arc::new(primitive::<Float32Type, _>(cells, data_type, how, |cell| {
            Ok(Some(f32::from_le_bytes(cell.read()?)))
        })?),
        TypeKind::Double => Arc::new(primitive::<Float64Type, _>(cells, data_type, how, |cell| {
            Ok(Some(f64::from_le_bytes(cell.read()?)))
        })?),
        TypeKind::Date => Arc::new(primitive::<Date32Type, _>(cells, data_type, how, |cell| {
            Ok(Some(i32::from_le_bytes(cell.read()?)))
        })?),
        TypeKind::Time(_) => Arc::new(primitive::<Time32MillisecondType, _>(cells, data_type, how, |cell| {
            Ok(Some(i32::from_le_bytes(cell.read()?)))
        })?),
        TypeKind::Decimal(precision, scale) => Arc::new(
            primitive::<Decimal128Type, _>(cells, data_type, how, |cell| cell.decimal(*precision).map(Some))?
                .with_precision_and_scale(*precision, *scale as i8)?,
        ),
        TypeKind::Timestamp(precision) | TypeKind::TimestampLtz(precision) => {
            let ArrowType::Timestamp(unit, zone) = data_type.to_arrow() else {
                return Err(Error::internal(format!("{data_type} is not read as a timestamp")));
            };
            let read = timestamp(unit, *precision);
            match unit {
                TimeUnit::Millisecond => {
                    zoned(primitive::<TimestampMillisecondType, _>(cells, data_type, how, read)?, zone)
                }
                TimeUnit::Microsecond => {
                    zoned(primitive::<TimestampMicrosecondType, _>(cells, data_type, how, read)?, zone)
                }
                TimeUnit::Nanosecond => {
                    zoned(primitive::<TimestampNanosecondType, _>(cells, data_type, how, read)?, zone)
                }
                TimeUnit::Second => return Err(Error::internal(format!("{data_type} is not read in seconds"))),
            }
        }
        TypeKind::Char(_) | TypeKind::VarChar(_) => {
            let views = how.views;
            let mut next = |cell: Result<Option<Cell<'a>>>| -> Result<Option<&'a str>> {
                let Some(cell) = cell? else { return Ok(None) };
                let bytes = cell.bytes()?;
                how.spend(bytes.len())?;
                match std::str::from_utf8(bytes) {
                    Ok(text) => Ok(Some(text)),
                    Err(_) => how.unreadable(data_type).map(|()| None),
                }
            };
            if views {
                let mut values = StringViewBuilder::with_capacity(cells.size_hint().0);
                for cell in cells {
                    values.append_option(next(cell)?);
                }
                Arc::new(values.finish())
            } else {
                let mut values = StringBuilder::with_capacity(cells.size_hint().0, 0);
                for cell in cells {
                    let value = next(cell)?;
                    check_offset(values.values_slice().len(), value.map_or(0, str::len))?;
                    values.append_option(value);
                }
                Arc::new(values.finish())
            }
        }
        TypeKind::Binary(_)
        | TypeKind::VarBinary(_)
        | TypeKind::Blob
        | TypeKind::Geometry(_)
        | TypeKind::Geography(_) => {
            let views = how.views;
            let mut next = |cell: Result<Option<Cell<'a>>>| -> Result<Option<&'a [u8]>> {
                let Some(cell) = cell? else { return Ok(None) };
                let bytes = cell.bytes()?;
                how.spend(bytes.len())?;
                Ok(Some(bytes))
            };
            if views {
                let mut values = BinaryViewBuilder::with_capacity(cells.size_hint().0);
                for cell in cells {
                    values.append_option(next(cell)?);
                }
                Arc::new(values.finish())
            } else {
                let mut values = BinaryBuilder::with_capacity(cells.size_hint().0, 0);
                for cell in cells {
                    let value = next(cell)?;
                    check_offset(values.values_slice().len(), value.map_or(0, <[u8]>::len))?;
                    values.append_option(value);
                }
                Arc::new(values.finish())
            }
        }
        TypeKind::Variant
        | TypeKind::Array(_)
        | TypeKind::Multiset(_)
        | TypeKind::Map(..)
        | TypeKind::Row(_)
        | TypeKind::Vector(..) => decode_nested(&cells.collect::<Result<Vec<_>>>()?, data_type, how)?,
    })
}

/// Errors when `more` bytes or elements would pass what 32-bit offsets of an array can tell.
pub(super) fn check_offset(len: usize, more: usize) -> Result<()> {
    match len.checked_add(more).map(i32::try_from) {
        Some(Ok(_)) => Ok(()),
        _ => Err(Error::unsupported("nested values of more than 2 GB can't be read at once")),
    }
}

/// An array of fixed-width values; `read` gives `None` for a value that the arrow type can't hold.
fn primitive<'a, T: ArrowPrimitiveType, I>(
    cells: I,
    data_type: &DataType,
    how: How,
    read: impl Fn(Cell<'a>) -> Result<Option<T::Native>>,
) -> Result<PrimitiveArray<T>>
where
    I: Iterator<Item = Result<Option<Cell<'a>>>>,
{
    let capacity = cells.size_hint().0;
    let mut values = Vec::with_capacity(capacity);
    let mut nulls = NullBufferBuilder::new(capacity);
    for cell in cells {
        let value = match cell? {
            Some(cell) => match read(cell)? {
                None => {
                    how.unreadable(data_type)?;
                    None
                }
                value => value,
            },
            None => None,
        };
        nulls.append(value.is_some());
        values.push(value.unwrap_or_default());
    }
    Ok(PrimitiveArray::new(values.into(), nulls.finish()))
}
