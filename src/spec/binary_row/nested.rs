//! Containers inside rows (`spec/metadata.md 5.2`): arrays, maps, rows, vectors and variants, read into arrow columns.

use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryBuilder, ListArray, MapArray, NullBufferBuilder, StructArray};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType as ArrowType, FieldRef, Fields};
use arrow::error::ArrowError;

use super::column::{How, check_offset, decode};
use super::{BinaryRow, Cell, short};
use crate::error::{Error, Result};
use crate::spec::types::{DataType, TypeKind};

/// Bytes that an element of the type takes inside an array.
pub(super) fn element_width(data_type: &DataType) -> usize {
    match data_type.kind {
        TypeKind::Boolean | TypeKind::TinyInt => 1,
        TypeKind::SmallInt => 2,
        TypeKind::Int | TypeKind::Float | TypeKind::Date | TypeKind::Time(_) => 4,
        _ => 8,
    }
}

/// Bytes before the elements of an array of `len`: its length and its null bits.
pub(super) fn array_header(len: usize) -> usize {
    4 + len.div_ceil(32) * 4
}

fn misfit(error: ArrowError) -> Error {
    Error::corrupt("a nested value does not fit its type").with_source(error)
}

fn length(bytes: &[u8]) -> Result<(usize, &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>().ok_or_else(|| short(bytes.len()))?;
    let length = usize::try_from(i32::from_le_bytes(*length)).map_err(|_| short(bytes.len()))?;
    Ok((length, rest))
}

/// Elements of lists: where each list ends, and the cells of all of them.
struct Elements<'a> {
    offsets: Vec<i32>,
    cells: Vec<Option<Cell<'a>>>,
}

impl<'a> Elements<'a> {
    fn new(lists: usize) -> Self {
        let mut offsets = Vec::with_capacity(lists + 1);
        offsets.push(0);
        Self { offsets, cells: Vec::new() }
    }

    /// Adds the elements of a BinaryArray.
    fn array(&mut self, bytes: &'a [u8], width: usize) -> Result<()> {
        let (len, _) = length(bytes)?;
        let header = array_header(len);
        if len > bytes.len() || header + len * width > bytes.len() {
            return Err(short(bytes.len()));
        }
        check_offset(self.cells.len(), len)?;
        self.cells.extend((0..len).map(|i| {
            let null = bytes[4 + i / 8] & (1 << (i % 8)) != 0;
            (!null).then_some(Cell { base: bytes, at: header + i * width })
        }));
        Ok(())
    }

    /// Adds the elements of a vector, which has no null bits.
    fn vector(&mut self, bytes: &'a [u8], width: usize) -> Result<()> {
        let (len, rest) = length(bytes)?;
        if len > rest.len() || len * width > rest.len() {
            return Err(short(bytes.len()));
        }
        check_offset(self.cells.len(), len)?;
        self.cells.extend((0..len).map(|i| Some(Cell { base: bytes, at: 4 + i * width })));
        Ok(())
    }

    /// Ends a list.
    fn end(&mut self) {
        // `check_offset` has kept the number of cells within 31 bits.
        self.offsets.push(self.cells.len() as i32);
    }
}

fn values<'a>(cells: Vec<Option<Cell<'a>>>, data_type: &DataType, how: How) -> Result<ArrayRef> {
    decode(cells.into_iter().map(Ok), data_type, how)
}

/// The array of nested values; `None` is NULL.
pub(super) fn decode_nested<'a>(cells: &[Option<Cell<'a>>], data_type: &DataType, mut how: How) -> Result<ArrayRef> {
    let mut payloads = Vec::with_capacity(cells.len());
    let mut nulls = NullBufferBuilder::new(cells.len());
    let mut total = 0_usize;
    for cell in cells {
        let payload = cell.map(Cell::payload).transpose()?;
        let len = payload.map_or(0, <[u8]>::len);
        how.spend(len)?;
        total = total.saturating_add(len);
        nulls.append(payload.is_some());
        payloads.push(payload);
    }
    let nulls = nulls.finish();
    let how = How { views: false, lenient: how.lenient, limit: total };
    match (&data_type.kind, data_type.to_arrow_nested()) {
        (TypeKind::Array(inner), ArrowType::List(field)) => {
            list(&payloads, nulls, field, inner, how, |elements, bytes| elements.array(bytes, element_width(inner)))
        }
        (TypeKind::Vector(inner, _), ArrowType::List(field)) => {
            list(&payloads, nulls, field, inner, how, |elements, bytes| elements.vector(bytes, element_width(inner)))
        }
        (TypeKind::Map(key, value), ArrowType::Map(field, _)) => map(&payloads, nulls, field, (key, value), how),
        (TypeKind::Multiset(key), ArrowType::Map(field, _)) => {
            map(&payloads, nulls, field, (key, &DataType::not_null(TypeKind::Int)), how)
        }
        (TypeKind::Row(types), ArrowType::Struct(fields)) => {
            let mut columns = vec![Vec::with_capacity(payloads.len()); types.len()];
            for payload in &payloads {
                let row = payload.map(|bytes| BinaryRow::from_image(bytes, types.len())).transpose()?;
                for (index, column) in columns.iter_mut().enumerate() {
                    column.push(row.and_then(|row| row.cell(index)));
                }
            }
            let arrays = columns
                .into_iter()
                .zip(types)
                .map(|(cells, field)| values(cells, &field.data_type, how))
                .collect::<Result<Vec<_>>>()?;
            structure(fields, arrays, payloads.len(), nulls)
        }
        (TypeKind::Variant, ArrowType::Struct(fields)) => {
            let (mut value, mut metadata) = (BinaryBuilder::new(), BinaryBuilder::new());
            for payload in &payloads {
                let (first, second) = match payload {
                    Some(bytes) => {
                        let (len, rest) = length(bytes)?;
                        rest.split_at_checked(len).ok_or_else(|| short(bytes.len()))?
                    }
                    None => (&[][..], &[][..]),
                };
                check_offset(value.values_slice().len(), first.len())?;
                check_offset(metadata.values_slice().len(), second.len())?;
                value.append_value(first);
                metadata.append_value(second);
            }
            structure(fields, vec![Arc::new(value.finish()), Arc::new(metadata.finish())], payloads.len(), nulls)
        }
        _ => Err(Error::internal(format!("{data_type} is not nested"))),
    }
}

fn list<'a>(
    payloads: &[Option<&'a [u8]>],
    nulls: Option<NullBuffer>,
    field: FieldRef,
    inner: &DataType,
    how: How,
    add: impl Fn(&mut Elements<'a>, &'a [u8]) -> Result<()>,
) -> Result<ArrayRef> {
    let mut elements = Elements::new(payloads.len());
    for payload in payloads {
        if let Some(bytes) = payload {
            add(&mut elements, bytes)?;
        }
        elements.end();
    }
    let array = values(elements.cells, inner, how)?;
    let offsets = OffsetBuffer::new(elements.offsets.into());
    Ok(Arc::new(ListArray::try_new(field, offsets, array, nulls).map_err(misfit)?))
}

fn map(
    payloads: &[Option<&[u8]>],
    nulls: Option<NullBuffer>,
    field: FieldRef,
    (key, value): (&DataType, &DataType),
    how: How,
) -> Result<ArrayRef> {
    let (mut keys, mut items) = (Elements::new(payloads.len()), Elements::new(payloads.len()));
    for payload in payloads {
        if let Some(bytes) = payload {
            let (len, rest) = length(bytes)?;
            let (first, second) = rest.split_at_checked(len).ok_or_else(|| short(bytes.len()))?;
            keys.array(first, element_width(key))?;
            items.array(second, element_width(value))?;
        }
        keys.end();
        items.end();
    }
    if keys.offsets != items.offsets {
        return Err(Error::corrupt("a map has not as many values as keys"));
    }
    let ArrowType::Struct(fields) = field.data_type() else {
        return Err(Error::internal("the entries of a map are no struct"));
    };
    let (rows, fields) = (keys.cells.len(), fields.clone());
    let entries = vec![values(keys.cells, key, how)?, values(items.cells, value, how)?];
    let entries = StructArray::try_new_with_length(fields, entries, None, rows).map_err(misfit)?;
    let offsets = OffsetBuffer::new(keys.offsets.into());
    Ok(Arc::new(MapArray::try_new(field, offsets, entries, nulls, false).map_err(misfit)?))
}

fn structure(fields: Fields, arrays: Vec<ArrayRef>, rows: usize, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    Ok(Arc::new(StructArray::try_new_with_length(fields, arrays, nulls, rows).map_err(misfit)?))
}
