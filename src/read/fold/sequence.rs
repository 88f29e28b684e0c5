//! The order of a sequence group: the greatest sequence tuple of every key so far (`spec/data.md 5.2`).

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use arrow_row::{RowConverter, Rows, SortField};

use super::steps::Place;
use crate::error::Result;

/// Compares the rows of a block with what each key has: NULLs first, ascending, column by column.
#[derive(Debug)]
pub(super) enum SequenceOrder {
    /// One column of whole numbers, dates or times.
    Number { current: Vec<Option<i64>>, block: Option<ArrayRef> },
    /// Anything else, as comparable bytes.
    Bytes(Box<ByteOrder>),
}

#[derive(Debug)]
pub(super) struct ByteOrder {
    converter: RowConverter,
    /// The tuples of every block, and the rows of the last one whose tuple is all NULL.
    blocks: Vec<Rows>,
    empty: Vec<bool>,
    /// Block and row of each key's tuple; [`NONE`] stands for all NULL.
    current: Vec<(u32, u32)>,
}

const NONE: (u32, u32) = (u32::MAX, u32::MAX);

impl SequenceOrder {
    pub(super) fn try_new(types: Vec<DataType>, groups: usize) -> Result<Self> {
        use DataType as D;
        let number = |data_type: &DataType| {
            matches!(data_type, D::Int8 | D::Int16 | D::Int32 | D::Int64 | D::Date32 | D::Time32(_) | D::Timestamp(..))
        };
        Ok(match types.as_slice() {
            [one] if number(one) => Self::Number { current: vec![None; groups], block: None },
            _ => Self::Bytes(Box::new(ByteOrder {
                converter: RowConverter::new(types.into_iter().map(SortField::new).collect())?,
                blocks: Vec::new(),
                empty: Vec::new(),
                current: vec![NONE; groups],
            })),
        })
    }

    pub(super) fn memory(&self) -> usize {
        match self {
            Self::Number { current, .. } => current.capacity() * size_of::<Option<i64>>(),
            Self::Bytes(order) => order.current.capacity() * 8 + order.blocks.iter().map(Rows::size).sum::<usize>(),
        }
    }

    /// Takes the sequence columns of the next block.
    pub(super) fn push(&mut self, columns: &[ArrayRef]) -> Result<()> {
        match self {
            Self::Number { block, .. } => {
                // Time32 only casts to the number of its own width.
                let narrow = match columns[0].data_type() {
                    DataType::Time32(_) => cast(&columns[0], &DataType::Int32)?,
                    _ => ArrayRef::clone(&columns[0]),
                };
                *block = Some(cast(&narrow, &DataType::Int64)?);
            }
            Self::Bytes(order) => {
                order.blocks.push(order.converter.convert_columns(columns)?);
                let rows = columns[0].len();
                order.empty.clear();
                order.empty.extend((0..rows).map(|row| columns.iter().all(|column| column.is_null(row))));
            }
        }
        Ok(())
    }

    /// Where a row of the last block stands.
    pub(super) fn place(&self, row: usize, group: u32) -> Place {
        let newer = match self {
            Self::Number { current, .. } => match self.number(row) {
                None => return Place::Outside,
                value => value >= current[group as usize],
            },
            Self::Bytes(order) => {
                let (Some(last), false) = (order.blocks.last(), order.empty[row]) else { return Place::Outside };
                match order.current[group as usize] {
                    NONE => true,
                    (block, at) => last.row(row) >= order.blocks[block as usize].row(at as usize),
                }
            }
        };
        if newer { Place::Newer } else { Place::Late }
    }

    /// Makes the row's tuple the key's, all NULL too.
    pub(super) fn set(&mut self, row: usize, group: u32) {
        let number = self.number(row);
        match self {
            Self::Number { current, .. } => current[group as usize] = number,
            Self::Bytes(order) => {
                let empty = order.empty[row];
                order.current[group as usize] = if empty { NONE } else { (order.blocks.len() as u32 - 1, row as u32) };
            }
        }
    }

    /// Places an added row and keeps its tuple when it is the newest.
    pub(super) fn add(&mut self, row: usize, group: u32) -> Place {
        let place = self.place(row, group);
        if place == Place::Newer {
            self.set(row, group);
        }
        place
    }

    /// [`Self::add`] of every row of the last block.
    pub(super) fn add_all(&mut self, group_of: &[u32], places: &mut Vec<Place>) {
        if let Self::Number { current, block: Some(block) } = self {
            let block = block.as_primitive::<Int64Type>();
            let nulls = block.nulls().filter(|nulls| nulls.null_count() > 0);
            places.extend(group_of.iter().zip(block.values()).enumerate().map(|(row, (&group, &value))| {
                if nulls.is_some_and(|nulls| nulls.is_null(row)) {
                    return Place::Outside;
                }
                let current = &mut current[group as usize];
                if current.is_some_and(|current| value < current) {
                    return Place::Late;
                }
                *current = Some(value);
                Place::Newer
            }));
        } else {
            places.extend(group_of.iter().enumerate().map(|(row, &group)| self.add(row, group)));
        }
    }

    fn number(&self, row: usize) -> Option<i64> {
        let Self::Number { block: Some(block), .. } = self else { return None };
        let block = block.as_primitive::<Int64Type>();
        block.is_valid(row).then(|| block.value(row))
    }
}
