//! What a statement that changes rows notes beside the rows that it writes: how many it changed, which it changed already, and
//! where the rows of append tables lie that go.
//!
//! May import: `error`, `spec`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{DataType, Field, Float32Type, Float64Type, Int32Type, Int64Type, Schema};
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion::physical_plan::aggregates::group_values::{GroupValues, new_group_values};
use datafusion::physical_plan::aggregates::order::GroupOrdering;
use parking_lot::Mutex;
use roaring::RoaringTreemap;

use crate::error::{Error, ErrorKind, Result};

/// The notes of one run.
#[derive(Debug)]
pub(crate) struct RowChanges {
    rows: AtomicU64,
    beside: AtomicU64,
    marks: Mutex<BTreeMap<String, RoaringTreemap>>,
    keys: Mutex<Keys>,
    memory: MemoryReservation,
}

/// Keys that were met.
struct Keys {
    /// Made with the first ones.
    values: Option<Box<dyn GroupValues>>,
    memory: MemoryReservation,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys")
            .field("len", &self.values.as_ref().map_or(0, |values| values.len()))
            .finish_non_exhaustive()
    }
}

impl RowChanges {
    /// No notes yet; what they take is taken from `pool`.
    pub(crate) fn new(pool: &Arc<dyn MemoryPool>) -> Self {
        let memory = MemoryConsumer::new("LakeRowChanges").register(pool);
        Self {
            rows: AtomicU64::new(0),
            beside: AtomicU64::new(0),
            marks: Mutex::default(),
            keys: Mutex::new(Keys { values: None, memory: memory.new_empty() }),
            memory,
        }
    }

    /// Counts rows that the statement changed.
    pub(crate) fn count(&self, rows: u64) {
        self.rows.fetch_add(rows, Ordering::Relaxed);
    }

    /// How many rows the statement changed.
    pub(crate) fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    /// Counts rows that are written beside those that were given: what takes a key out of the partition that it leaves.
    pub(crate) fn count_beside(&self, rows: u64) {
        self.beside.fetch_add(rows, Ordering::Relaxed);
    }

    /// How many rows are written beside those that were given.
    pub(crate) fn beside(&self) -> u64 {
        self.beside.load(Ordering::Relaxed)
    }

    /// Notes the keys of rows that are changed, a column for each part of the key; for each whether it is the first time.
    ///
    /// # Errors
    /// Exhausted when the memory pool is.
    pub(crate) fn first_time(&self, keys: &[ArrayRef]) -> Result<Vec<bool>> {
        let keys: Vec<ArrayRef> = keys.iter().map(bits).collect();
        let mut known = self.keys.lock();
        let Keys { values, memory } = &mut *known;
        let values = match values {
            Some(values) => values,
            empty => {
                let field = |(at, key): (usize, &ArrayRef)| Field::new(at.to_string(), key.data_type().clone(), true);
                let schema = Schema::new(keys.iter().enumerate().map(field).collect::<Vec<_>>());
                empty.insert(new_group_values(Arc::new(schema), &GroupOrdering::None)?)
            }
        };
        let mut next = values.len();
        let mut groups = Vec::new();
        values.intern(&keys, &mut groups)?;
        memory.try_resize(values.size()).map_err(exhausted)?;
        // New keys are numbered as they come.
        let is_next = |group: usize| {
            let first = group == next;
            next += usize::from(first);
            first
        };
        Ok(groups.into_iter().map(is_next).collect())
    }

    /// Marks rows of a data file as those that go; for each whether it is the first time.
    ///
    /// # Errors
    /// Exhausted when the memory pool is.
    pub(crate) fn mark(&self, file: &str, positions: &[u64]) -> Result<Vec<bool>> {
        let mut marks = self.marks.lock();
        if !marks.contains_key(file) {
            marks.insert(file.to_owned(), RoaringTreemap::new());
        }
        let Some(rows) = marks.get_mut(file) else {
            return Err(Error::internal("marks that were made are gone"));
        };
        let first: Vec<bool> = positions.iter().map(|position| rows.insert(*position)).collect();
        drop(marks);
        // Two bytes a row, and less where rows lie close together.
        self.reserve(positions.len() * 2)?;
        Ok(first)
    }

    /// The marked rows of each data file.
    pub(crate) fn take_marks(&self) -> BTreeMap<String, RoaringTreemap> {
        std::mem::take(&mut self.marks.lock())
    }

    fn reserve(&self, bytes: usize) -> Result<()> {
        self.memory.try_grow(bytes).map_err(exhausted)
    }
}

fn exhausted(error: DataFusionError) -> Error {
    Error::new(ErrorKind::Exhausted, "no memory is left to remember which rows the statement changed")
        .with_source(error)
}

/// A column whose values are the same where they are the same key: floating-point keys are told apart by their bits, and every NaN
/// is one.
fn bits(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Float32 => Arc::new(
            column
                .as_primitive::<Float32Type>()
                .unary::<_, Int32Type>(|value| if value.is_nan() { f32::NAN } else { value }.to_bits() as i32),
        ),
        DataType::Float64 => Arc::new(
            column
                .as_primitive::<Float64Type>()
                .unary::<_, Int64Type>(|value| if value.is_nan() { f64::NAN } else { value }.to_bits() as i64),
        ),
        _ => Arc::clone(column),
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Float64Array, Int64Array, StringViewArray};
    use datafusion::execution::memory_pool::{GreedyMemoryPool, UnboundedMemoryPool};

    use super::*;

    #[test]
    fn first_time_when_a_key_comes_again_then_it_is_told() {
        let pool: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
        let changes = RowChanges::new(&pool);
        let keys = |texts: [&str; 3], numbers: [i64; 3]| -> [ArrayRef; 2] {
            [Arc::new(StringViewArray::from_iter_values(texts)), Arc::new(Int64Array::from_iter_values(numbers))]
        };
        assert_eq!(changes.first_time(&keys(["a", "b", "a"], [1, 1, 1])).unwrap(), [true, true, false]);
        assert_eq!(changes.first_time(&keys(["c", "a", "a"], [1, 2, 1])).unwrap(), [true, true, false]);
        assert_eq!(changes.mark("f", &[7, 3, 7]).unwrap(), [true, true, false]);
        assert_eq!(changes.mark("g", &[7]).unwrap(), [true]);
        assert_eq!(changes.take_marks()["f"].iter().collect::<Vec<_>>(), [3, 7]);
        assert!(changes.take_marks().is_empty());
    }

    #[test]
    fn first_time_when_keys_are_zeros_of_both_signs_then_they_are_two() {
        let pool: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
        let keys: ArrayRef = Arc::new(Float64Array::from(vec![0.0, -0.0, f64::NAN, 0.0, -f64::NAN]));
        assert_eq!(RowChanges::new(&pool).first_time(&[keys]).unwrap(), [true, true, true, false, false]);
    }

    #[test]
    fn first_time_when_no_memory_is_left_then_exhausted() {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(10));
        let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100));
        assert_eq!(RowChanges::new(&pool).first_time(&[keys]).unwrap_err().kind(), ErrorKind::Exhausted);
    }

    #[test]
    fn mark_when_no_memory_is_left_then_exhausted() {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(10));
        let error = RowChanges::new(&pool).mark("f", &[0; 100]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Exhausted);
    }
}
