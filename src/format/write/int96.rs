//! Timestamps of more than 6 digits in Parquet (`spec/data.md 1.4`): INT96, which the arrow writer does not write.
//!
//! Values and levels of such a column are gathered until their row group is written.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::TimestampNanosecondType;
use parquet::data_type::Int96;

use crate::error::{Error, Result};
use crate::spec::{DataType, TypeKind};

const NANOS_OF_MILLI: i64 = 1_000_000;
const MILLIS_OF_DAY: i64 = 86_400_000;
/// The Julian day of 1970-01-01.
const EPOCH: i64 = 2_440_588;

/// An instant in nanoseconds as Java stores it: the day is cut towards 1970, so that the nanoseconds of a day before may be
/// negative.
fn int96(nanos: i64) -> Int96 {
    let (millis, within) = (nanos.div_euclid(NANOS_OF_MILLI), nanos.rem_euclid(NANOS_OF_MILLI));
    let (day, of_day) = (millis / MILLIS_OF_DAY, (millis % MILLIS_OF_DAY) * NANOS_OF_MILLI + within);
    let mut value = Int96::new();
    value.set_data(of_day as u32, (of_day >> 32) as u32, (day + EPOCH) as u32);
    value
}

/// Which leaves of a column are INT96, in the order of leaves.
pub(super) fn leaves(data_type: &DataType, out: &mut Vec<bool>) {
    match &data_type.kind {
        TypeKind::Timestamp(precision) | TypeKind::TimestampLtz(precision) => out.push(*precision > 6),
        TypeKind::Array(element) | TypeKind::Vector(element, _) => leaves(element, out),
        TypeKind::Multiset(element) => {
            leaves(element, out);
            out.push(false);
        }
        TypeKind::Map(key, value) => {
            leaves(key, out);
            leaves(value, out);
        }
        TypeKind::Row(fields) => fields.iter().for_each(|field| leaves(&field.data_type, out)),
        TypeKind::Variant => out.extend([false; 2]),
        _ => out.push(false),
    }
}

/// The values of an INT96 leaf, with their levels.
#[derive(Debug, Default)]
pub(super) struct Int96Column {
    pub values: Vec<Int96>,
    pub definition: Vec<i16>,
    pub repetition: Vec<i16>,
}

/// What stands between a column and its leaf.
#[derive(Clone)]
enum Node {
    Row { nulls: Option<NullBuffer>, nullable: bool },
    Repeated { nulls: Option<NullBuffer>, nullable: bool, offsets: OffsetBuffer<i32> },
}

impl Int96Column {
    /// Bytes of memory.
    pub fn memory(&self) -> usize {
        self.values.capacity() * size_of::<Int96>()
            + (self.definition.capacity() + self.repetition.capacity()) * size_of::<i16>()
    }

    /// Bytes in the file, about.
    pub fn pending(&self) -> u64 {
        self.values.len() as u64 * 12
    }

    fn append(&mut self, path: &[Node], leaf: &Leaf, index: usize, repetition: i16, definition: i16, depth: i16) {
        let Some((node, rest)) = path.split_first() else {
            let is_null = leaf.nulls.as_ref().is_some_and(|nulls| nulls.is_null(index));
            self.repetition.push(repetition);
            if is_null {
                return self.definition.push(definition);
            }
            self.definition.push(definition + i16::from(leaf.nullable));
            return self.values.push(int96(leaf.values[index]));
        };
        let (Node::Row { nulls, nullable } | Node::Repeated { nulls, nullable, .. }) = node;
        if nulls.as_ref().is_some_and(|nulls| nulls.is_null(index)) {
            self.repetition.push(repetition);
            return self.definition.push(definition);
        }
        let definition = definition + i16::from(*nullable);
        let Node::Repeated { offsets, .. } = node else {
            return self.append(rest, leaf, index, repetition, definition, depth);
        };
        let (start, end) = (offsets[index] as usize, offsets[index + 1] as usize);
        if start == end {
            self.repetition.push(repetition);
            return self.definition.push(definition);
        }
        for element in start..end {
            let repetition = if element == start { repetition } else { depth + 1 };
            self.append(rest, leaf, element, repetition, definition + 1, depth + 1);
        }
    }
}

struct Leaf {
    nulls: Option<NullBuffer>,
    nullable: bool,
    values: ScalarBuffer<i64>,
}

/// Appends a column to its INT96 leaves. `columns` yields, for each leaf of the column in order, where it goes; `None` for
/// leaves that are not INT96.
///
/// # Errors
/// Internal when the array is not of the type.
pub(super) fn append<'a>(
    array: &ArrayRef,
    data_type: &DataType,
    columns: &mut impl Iterator<Item = Option<&'a mut Int96Column>>,
) -> Result<()> {
    visit(array, data_type, array.len(), &mut Vec::new(), columns)
}

fn visit<'a>(
    array: &ArrayRef,
    data_type: &DataType,
    rows: usize,
    path: &mut Vec<Node>,
    columns: &mut impl Iterator<Item = Option<&'a mut Int96Column>>,
) -> Result<()> {
    let nulls = || array.logical_nulls();
    let wrong = || Error::internal(format!("{} was given for a column of {data_type}", array.data_type()));
    let nullable = data_type.nullable;
    match &data_type.kind {
        TypeKind::Array(element) | TypeKind::Vector(element, _) => {
            let list = array.as_list_opt::<i32>().ok_or_else(wrong)?;
            path.push(Node::Repeated { nulls: nulls(), nullable, offsets: list.offsets().clone() });
            visit(list.values(), element, rows, path, columns)?;
            path.pop();
        }
        TypeKind::Map(..) | TypeKind::Multiset(_) => {
            let map = array.as_map_opt().ok_or_else(wrong)?;
            let count = DataType::not_null(TypeKind::Int);
            let (key, value) = match &data_type.kind {
                TypeKind::Map(key, value) => (key.as_ref(), value.as_ref()),
                TypeKind::Multiset(element) => (element.as_ref(), &count),
                _ => return Err(wrong()),
            };
            path.push(Node::Repeated { nulls: nulls(), nullable, offsets: map.offsets().clone() });
            visit(map.keys(), &DataType::not_null(key.kind.clone()), rows, path, columns)?;
            visit(map.values(), value, rows, path, columns)?;
            path.pop();
        }
        TypeKind::Row(fields) => {
            let row = array.as_struct_opt().filter(|row| row.num_columns() == fields.len()).ok_or_else(wrong)?;
            path.push(Node::Row { nulls: nulls(), nullable });
            for (column, field) in row.columns().iter().zip(fields) {
                visit(column, &field.data_type, rows, path, columns)?;
            }
            path.pop();
        }
        TypeKind::Variant => {
            columns.next();
            columns.next();
        }
        _ => {
            let Some(column) = columns.next().flatten() else { return Ok(()) };
            let values = array.as_primitive_opt::<TimestampNanosecondType>().ok_or_else(wrong)?;
            let leaf = Leaf { nulls: nulls(), nullable, values: values.values().clone() };
            column.definition.reserve(rows);
            column.repetition.reserve(rows);
            for row in 0..rows {
                column.append(path, &leaf, row, 0, 0, 0);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn int96_when_before_1970_then_nanoseconds_of_the_day_are_negative() {
        let parts = |nanos| {
            let value = int96(nanos);
            let data = value.data();
            ((u64::from(data[1]) << 32 | u64::from(data[0])) as i64, data[2] as i32)
        };
        assert_eq!(parts(0), (0, 2_440_588));
        assert_eq!(parts(1), (1, 2_440_588));
        assert_eq!(parts(-1), (-1, 2_440_588));
        assert_eq!(parts(86_400_000_000_000), (0, 2_440_589));
        assert_eq!(parts(-86_400_000_000_001), (-1, 2_440_587));
        for nanos in [i64::MIN, -1_234_567_890_123_456_789, i64::MAX] {
            let (of_day, day) = parts(nanos);
            let whole = i128::from(day - 2_440_588) * 86_400_000_000_000 + i128::from(of_day);
            assert_eq!(whole, i128::from(nanos));
        }
    }
}
