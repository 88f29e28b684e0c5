//! Key columns of a file, as the kernels want them: integers where the key fits, comparable bytes where it does not.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType as ArrowType, Date32Type, Decimal128Type, Int8Type, Int16Type, Int32Type, Int64Type,
    Time32MillisecondType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
};
use arrow_row::{RowConverter, Rows, SortField};

use crate::error::{Error, Result};
use crate::spec::{DataField, DataType, TypeKind};

/// Keys of consecutive rows, ascending.
#[derive(Debug)]
pub enum Keys {
    /// Keys of up to 64 bits, mapped so that unsigned order is key order.
    U64(Vec<u64>),
    /// Keys of up to 128 bits, likewise.
    U128(Vec<u128>),
    /// Any keys, as comparable bytes.
    Rows(Rows),
}

impl Keys {
    /// The number of keys.
    pub fn len(&self) -> usize {
        match self {
            Self::U64(values) => values.len(),
            Self::U128(values) => values.len(),
            Self::Rows(rows) => rows.num_rows(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes held in memory.
    pub fn memory(&self) -> usize {
        match self {
            Self::U64(values) => values.capacity() * 8,
            Self::U128(values) => values.capacity() * 16,
            Self::Rows(rows) => rows.size(),
        }
    }

    /// Compares key `row` with key `other_row` of `other`.
    pub fn compare(&self, row: usize, other: &Self, other_row: usize) -> std::cmp::Ordering {
        match (self, other) {
            (Self::U64(a), Self::U64(b)) => a[row].cmp(&b[other_row]),
            (Self::U128(a), Self::U128(b)) => a[row].cmp(&b[other_row]),
            (Self::Rows(a), Self::Rows(b)) => a.row(row).cmp(&b.row(other_row)),
            // One coder makes all keys of a section, so that they are of one kind.
            _ => std::cmp::Ordering::Equal,
        }
    }

    /// Whether no key is greater than the next one.
    pub fn is_ascending(&self) -> bool {
        match self {
            Self::U64(keys) => keys.is_sorted(),
            Self::U128(keys) => keys.is_sorted(),
            Self::Rows(_) => (1..self.len()).all(|row| self.compare(row - 1, self, row).is_le()),
        }
    }

    /// The first row at or after `from` whose key is greater than key `bound_row` of `bound`.
    pub fn after(&self, from: usize, bound: &Self, bound_row: usize) -> usize {
        let (mut low, mut high) = (from, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.compare(middle, bound, bound_row).is_le() {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}

/// Bits of a key column that fits into an integer; `None` for others.
fn width(data_type: &DataType) -> Option<u32> {
    if data_type.nullable {
        return None;
    }
    match data_type.kind {
        TypeKind::Boolean | TypeKind::TinyInt => Some(8),
        TypeKind::SmallInt => Some(16),
        TypeKind::Int | TypeKind::Date | TypeKind::Time(_) => Some(32),
        TypeKind::BigInt | TypeKind::Timestamp(_) | TypeKind::TimestampLtz(_) => Some(64),
        TypeKind::Decimal(precision, _) if precision <= 18 => Some(64),
        _ => None,
    }
}

/// Turns key columns into [`Keys`]; one for all files of a section.
#[derive(Debug)]
pub struct KeyCoder {
    widths: Option<Vec<u32>>,
    converter: Option<RowConverter>,
    types: Vec<ArrowType>,
}

impl KeyCoder {
    /// A coder for the key columns `keys`, in key order.
    pub fn try_new(keys: &[&DataField]) -> Result<Self> {
        let widths: Option<Vec<u32>> = keys.iter().map(|key| width(&key.data_type)).collect();
        let widths = widths.filter(|widths| widths.iter().sum::<u32>() <= 128);
        let types: Vec<ArrowType> = keys.iter().map(|key| key.data_type.to_arrow()).collect();
        let converter = match widths {
            Some(_) => None,
            None => Some(RowConverter::new(types.iter().cloned().map(SortField::new).collect())?),
        };
        Ok(Self { widths, converter, types })
    }

    /// The keys of `columns`, which are the key columns in key order.
    pub fn encode(&self, columns: &[ArrayRef]) -> Result<Keys> {
        let columns: Vec<ArrayRef> =
            columns
                .iter()
                .zip(&self.types)
                .map(|(column, data_type)| {
                    if column.data_type() == data_type { Ok(Arc::clone(column)) } else { Ok(cast(column, data_type)?) }
                })
                .collect::<Result<_>>()?;
        if let Some(converter) = &self.converter {
            return Ok(Keys::Rows(converter.convert_columns(&columns)?));
        }
        let widths = self.widths.as_deref().unwrap_or_default();
        if let Some(column) = columns.iter().find(|column| column.null_count() > 0) {
            return Err(Error::corrupt(format!("{} NULLs in a key column that takes none", column.null_count())));
        }
        match columns.as_slice() {
            [column] => Ok(Keys::U64(ordered(column, widths[0])?)),
            _ if widths.iter().sum::<u32>() <= 64 => {
                let mut keys = vec![0u64; columns.first().map_or(0, |column| column.len())];
                for (column, width) in columns.iter().zip(widths) {
                    for (key, part) in keys.iter_mut().zip(ordered(column, *width)?) {
                        *key = if *width == 64 { part } else { *key << width | part };
                    }
                }
                Ok(Keys::U64(keys))
            }
            _ => {
                let mut keys = vec![0u128; columns.first().map_or(0, |column| column.len())];
                for (column, width) in columns.iter().zip(widths) {
                    for (key, part) in keys.iter_mut().zip(ordered(column, *width)?) {
                        *key = *key << width | u128::from(part);
                    }
                }
                Ok(Keys::U128(keys))
            }
        }
    }
}

/// Values of `width` bits whose unsigned order is the order of the column.
fn ordered(column: &ArrayRef, width: u32) -> Result<Vec<u64>> {
    let flip = 1u64 << (width - 1);
    let mask = if width == 64 { u64::MAX } else { (1 << width) - 1 };
    let signed = |value: i64| (value as u64 & mask) ^ flip;
    Ok(match column.data_type() {
        ArrowType::Boolean => column.as_boolean().values().iter().map(u64::from).collect(),
        ArrowType::Int8 => column.as_primitive::<Int8Type>().values().iter().map(|v| signed(i64::from(*v))).collect(),
        ArrowType::Int16 => column.as_primitive::<Int16Type>().values().iter().map(|v| signed(i64::from(*v))).collect(),
        ArrowType::Int32 => column.as_primitive::<Int32Type>().values().iter().map(|v| signed(i64::from(*v))).collect(),
        ArrowType::Int64 => column.as_primitive::<Int64Type>().values().iter().map(|v| signed(*v)).collect(),
        ArrowType::Date32 => {
            column.as_primitive::<Date32Type>().values().iter().map(|v| signed(i64::from(*v))).collect()
        }
        ArrowType::Time32(TimeUnit::Millisecond) => {
            column.as_primitive::<Time32MillisecondType>().values().iter().map(|v| signed(i64::from(*v))).collect()
        }
        ArrowType::Timestamp(TimeUnit::Millisecond, _) => {
            column.as_primitive::<TimestampMillisecondType>().values().iter().map(|v| signed(*v)).collect()
        }
        ArrowType::Timestamp(TimeUnit::Microsecond, _) => {
            column.as_primitive::<TimestampMicrosecondType>().values().iter().map(|v| signed(*v)).collect()
        }
        ArrowType::Timestamp(TimeUnit::Nanosecond, _) => {
            column.as_primitive::<TimestampNanosecondType>().values().iter().map(|v| signed(*v)).collect()
        }
        ArrowType::Decimal128(..) => {
            column.as_primitive::<Decimal128Type>().values().iter().map(|v| signed(*v as i64)).collect()
        }
        other => return Err(Error::internal(format!("a key of type {other} does not fit into an integer"))),
    })
}

/// Versions of consecutive rows, compared before anything else when the order of files does not tell (`spec/data.md 4.2`).
#[derive(Debug)]
pub struct Versions {
    /// `sequence.field` columns as comparable bytes, NULL lowest.
    pub fields: Option<Rows>,
    /// `_SEQUENCE_NUMBER`.
    pub sequence: Vec<i64>,
}

/// Consecutive rows of a file.
#[derive(Debug)]
pub struct KeyChunk {
    /// Position of the file in its section.
    pub file: usize,
    /// Position of each row in the file.
    pub rows: RowPositions,
    /// Keys.
    pub keys: Keys,
    /// Whether each row retracts; `None` when none does.
    pub retracts: Option<Vec<bool>>,
    /// Versions; `None` when the order of files tells.
    pub versions: Option<Versions>,
}

/// Where the rows of a chunk are in their file.
#[derive(Debug)]
pub enum RowPositions {
    /// One after another from here.
    From(u64),
    /// Anywhere, ascending.
    At(Vec<u64>),
}

impl RowPositions {
    /// The position of row `row` of the chunk.
    pub fn at(&self, row: usize) -> u64 {
        match self {
            Self::From(first) => first + row as u64,
            Self::At(positions) => positions[row],
        }
    }
}

/// The row kinds of `batch`, true where the row retracts (`spec/data.md 1.2`).
pub fn retracts(batch: &RecordBatch, column: usize) -> Result<Vec<bool>> {
    let kinds = cast(batch.column(column), &ArrowType::Int8)?;
    kinds
        .as_primitive::<Int8Type>()
        .iter()
        .map(|kind| match kind {
            Some(0 | 2) => Ok(false),
            Some(1 | 3) => Ok(true),
            other => Err(Error::corrupt(format!("row kind {other:?} is none of 0 to 3"))),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int32Array, Int64Array, StringViewArray};

    use super::*;

    #[test]
    fn encode_when_integers_then_unsigned_order_is_key_order() {
        let a = DataField::new(0, "a", DataType::not_null(TypeKind::Int));
        let b = DataField::new(1, "b", DataType::not_null(TypeKind::BigInt));
        let coder = KeyCoder::try_new(&[&a, &b]).unwrap();
        let keys = coder
            .encode(&[
                Arc::new(Int32Array::from(vec![i32::MIN, -1, -1, 0, i32::MAX])),
                Arc::new(Int64Array::from(vec![5, i64::MIN, i64::MAX, 0, -7])),
            ])
            .unwrap();
        let Keys::U128(values) = keys else { panic!("96 bits fit into 128") };
        assert!(values.is_sorted());
        let coder = KeyCoder::try_new(&[&b]).unwrap();
        let Keys::U64(values) = coder.encode(&[Arc::new(Int64Array::from(vec![i64::MIN, -1, 0, i64::MAX]))]).unwrap()
        else {
            panic!("64 bits fit into 64")
        };
        assert!(values.is_sorted());
    }

    #[test]
    fn after_when_bound_is_between_then_first_greater_row() {
        let field = DataField::new(0, "s", DataType::not_null(TypeKind::VarChar(10)));
        let coder = KeyCoder::try_new(&[&field]).unwrap();
        let keys = coder.encode(&[Arc::new(StringViewArray::from(vec!["a", "b", "d", "é"]))]).unwrap();
        let bound = coder.encode(&[Arc::new(StringViewArray::from(vec!["c", "é"]))]).unwrap();
        assert_eq!(keys.after(0, &bound, 0), 2);
        assert_eq!(keys.after(0, &bound, 1), 4);
    }
}
