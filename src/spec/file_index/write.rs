//! Indexes and containers, written (`spec/data.md 10`): what [`super::FileIndex`] reads.

use std::borrow::Cow;

use arrow::array::Array;

use super::bitmap::{self, Layout};
use super::bloom::BloomWriter;
use super::bsi::BitSlicedWriter;
use super::distinct::Distinct;
use super::output::{length_of, put_java_text, put_length};
use super::value::{Key, ValueType};
use super::{EMPTY, IndexKind, MAGIC, VERSION, range_bitmap};
use crate::error::{Error, Result};
use crate::spec::types::{DataType, TypeKind};

/// How an index is made: the options `file-index.<kind>.<column>.*`.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexOptions {
    /// `items` of a bloom filter: values that it is made for; 1 or more.
    pub items: i64,
    /// `fpp` of a bloom filter: share of false positives.
    pub fpp: f64,
    /// `version` of a bitmap index: 1 or 2.
    pub version: i32,
    /// `index-block-size` of a bitmap index, in bytes.
    pub block_size: u64,
    /// `chunk-size` of a range bitmap, in bytes; `None`: 16 KB, and nothing for values of one or two bytes.
    pub chunk_size: Option<u64>,
}

impl Default for IndexOptions {
    fn default() -> Self {
        Self { items: 1_000_000, fpp: 0.1, version: 2, block_size: 16 << 10, chunk_size: None }
    }
}

/// An index of one column while rows are added to it.
pub struct FileIndexWriter {
    values: ValueType,
    index: Index,
}

enum Index {
    Bloom(BloomWriter),
    Bitmap(Distinct, Layout),
    BitSliced(BitSlicedWriter),
    /// With the size of a chunk.
    Range(Distinct, usize),
}

impl FileIndexWriter {
    /// An index of a kind over values of a type.
    ///
    /// # Errors
    /// Invalid when the kind has no such values, or the options make no index.
    pub fn new(kind: IndexKind, data_type: &DataType, options: &IndexOptions) -> Result<Self> {
        let Some(values) = written_as(kind, &data_type.kind) else {
            return Err(Error::invalid(format!("a {} index can't hold values of {data_type}", kind.name())));
        };
        // No block or chunk can be longer than an index.
        let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        let index = match kind {
            IndexKind::BloomFilter => Index::Bloom(BloomWriter::new(options.items, options.fpp)?),
            IndexKind::Bitmap => {
                let layout = match options.version {
                    1 => Layout::Flat,
                    2 => Layout::Blocks(size(options.block_size)),
                    other => return Err(Error::invalid(format!("a bitmap index has version 1 or 2, not {other}"))),
                };
                Index::Bitmap(Distinct::default(), layout)
            }
            IndexKind::BitSliced => Index::BitSliced(BitSlicedWriter::default()),
            IndexKind::RangeBitmap => {
                let default = if values.width().is_some_and(|width| width <= 2) { 0 } else { 16 << 10 };
                Index::Range(Distinct::default(), size(options.chunk_size.unwrap_or(default)))
            }
        };
        Ok(Self { values, index })
    }

    /// Adds the values of the next rows, an array of the type's [`DataType::to_arrow`], or of text and bytes in any form.
    ///
    /// # Errors
    /// Invalid for a value that the index can't hold, internal for an array of another type.
    pub fn add(&mut self, array: &dyn Array) -> Result<()> {
        let values = self.values;
        match &mut self.index {
            Index::Bloom(filter) => values.for_each(array, |key| {
                if let Some(key) = key {
                    filter.add(&key);
                }
                Ok(())
            }),
            Index::BitSliced(index) => values.for_each(array, |key| match key {
                Some(Key::Integer(number)) => index.add(Some(number)),
                None => index.add(None),
                Some(other) => Err(Error::internal(format!("{other:?} in a bit-sliced index"))),
            }),
            Index::Bitmap(distinct, _) | Index::Range(distinct, _) => values.for_each(array, |key| distinct.add(key)),
        }
    }

    /// Bytes held in memory, roughly.
    pub fn memory(&self) -> usize {
        match &self.index {
            Index::Bloom(filter) => filter.memory(),
            Index::BitSliced(index) => index.memory(),
            Index::Bitmap(distinct, _) | Index::Range(distinct, _) => distinct.memory(),
        }
    }

    /// The payload of the index.
    ///
    /// # Errors
    /// Unsupported when it passes 2 GB.
    pub fn finish(self) -> Result<Vec<u8>> {
        match self.index {
            Index::Bloom(filter) => Ok(filter.finish()),
            Index::BitSliced(index) => index.finish(),
            Index::Bitmap(distinct, layout) => bitmap::write(self.values, &distinct.ranked(), layout),
            Index::Range(distinct, chunk_size) => range_bitmap::write(self.values, &distinct.ranked(), chunk_size),
        }
    }
}

/// The form in which an index holds values of a type. Padded types are written as the file has them, though we do not read
/// their indexes; decimals of any precision go into a bit-sliced index as long as their digits have 64 bits.
fn written_as(kind: IndexKind, data_type: &TypeKind) -> Option<ValueType> {
    let values = match data_type {
        TypeKind::Char(_) => ValueType::Text,
        TypeKind::Binary(_) => ValueType::Bytes,
        TypeKind::Decimal(_, scale) if kind == IndexKind::BitSliced => {
            ValueType::Decimal { scale: i8::try_from(*scale).ok()? }
        }
        other => ValueType::of(other)?,
    };
    kind.holds(values).then_some(values)
}

/// The indexes of a column, or of one key of a map column (`column[key]`): kinds and payloads, `None` for an index into
/// which no row was fed.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnPayloads<'a> {
    /// The name of the column.
    pub name: Cow<'a, str>,
    /// Its indexes.
    pub indexes: Vec<(IndexKind, Option<Vec<u8>>)>,
}

/// A container of indexes, in the order given (`spec/data.md 10.1`). No reader depends on the order; Java's is that of its
/// hash maps.
///
/// # Errors
/// Unsupported when it passes 2 GB, invalid when a name does.
pub fn write_container(columns: &[ColumnPayloads<'_>]) -> Result<Vec<u8>> {
    // Places are known once the length of the head is.
    let (mut head, mut places) = (Vec::new(), Vec::new());
    put_length(columns.len(), &mut head)?;
    for column in columns {
        put_java_text(&column.name, &mut head)?;
        put_length(column.indexes.len(), &mut head)?;
        for (kind, payload) in &column.indexes {
            put_java_text(kind.name(), &mut head)?;
            places.push(head.len());
            head.extend(
                [EMPTY, payload.as_ref().map_or(Ok(0), |payload| length_of(payload.len()))?]
                    .map(i32::to_be_bytes)
                    .concat(),
            );
        }
    }
    // Room for what later versions may have to say.
    put_length(0, &mut head)?;
    let mut out = MAGIC.to_be_bytes().to_vec();
    out.extend(VERSION.to_be_bytes());
    let fixed = out.len() + 4;
    let body = fixed + head.len();
    put_length(body, &mut out)?;
    out.extend(head);
    let payloads = columns.iter().flat_map(|column| &column.indexes).map(|(_, payload)| payload);
    for (place, payload) in places.into_iter().zip(payloads) {
        if let Some(payload) = payload {
            let start = length_of(out.len())?.to_be_bytes();
            if let Some(slot) = out.get_mut(fixed + place..fixed + place + 4) {
                slot.copy_from_slice(&start);
            }
            out.extend_from_slice(payload);
        }
    }
    length_of(out.len())?;
    Ok(out)
}

#[cfg(test)]
mod tests;
