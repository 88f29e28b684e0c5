//! What a statement that changes rows notes beside the rows that it writes: how many it changed, which it changed already, and
//! where the rows of append tables lie that go.
//!
//! May import: `error`, `spec`.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use parking_lot::Mutex;
use roaring::RoaringTreemap;

use crate::error::{Error, ErrorKind, Result};

/// About what a key in a hash set takes beside its bytes.
const KEY_OVERHEAD: usize = 40;

/// The notes of one run.
#[derive(Debug)]
pub(crate) struct RowChanges {
    rows: AtomicU64,
    beside: AtomicU64,
    marks: Mutex<BTreeMap<String, RoaringTreemap>>,
    keys: Mutex<HashSet<Box<[u8]>>>,
    memory: MemoryReservation,
}

impl RowChanges {
    /// No notes yet; what they take is taken from `pool`.
    pub(crate) fn new(pool: &Arc<dyn MemoryPool>) -> Self {
        let memory = MemoryConsumer::new("LakeRowChanges").register(pool);
        Self {
            rows: AtomicU64::new(0),
            beside: AtomicU64::new(0),
            marks: Mutex::default(),
            keys: Mutex::default(),
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

    /// Notes the keys of rows that are changed; for each whether it is the first time.
    ///
    /// # Errors
    /// Exhausted when the memory pool is.
    pub(crate) fn first_time<'a>(&self, keys: impl Iterator<Item = &'a [u8]>) -> Result<Vec<bool>> {
        let mut known = self.keys.lock();
        let mut bytes = 0;
        let first = keys
            .map(|key| {
                let first = !known.contains(key);
                if first {
                    known.insert(Box::from(key));
                    bytes += key.len() + KEY_OVERHEAD;
                }
                first
            })
            .collect();
        drop(known);
        self.reserve(bytes)?;
        Ok(first)
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
        self.memory.try_grow(bytes).map_err(|error| {
            Error::new(ErrorKind::Exhausted, "no memory is left to remember which rows the statement changed")
                .with_source(error)
        })
    }
}

#[cfg(test)]
mod tests {
    use datafusion::execution::memory_pool::{GreedyMemoryPool, UnboundedMemoryPool};

    use super::*;

    #[test]
    fn first_time_when_a_key_comes_again_then_it_is_told() {
        let pool: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
        let changes = RowChanges::new(&pool);
        assert_eq!(changes.first_time([&b"a"[..], b"b", b"a"].into_iter()).unwrap(), [true, true, false]);
        assert_eq!(changes.mark("f", &[7, 3, 7]).unwrap(), [true, true, false]);
        assert_eq!(changes.mark("g", &[7]).unwrap(), [true]);
        assert_eq!(changes.take_marks()["f"].iter().collect::<Vec<_>>(), [3, 7]);
        assert!(changes.take_marks().is_empty());
    }

    #[test]
    fn mark_when_no_memory_is_left_then_exhausted() {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(10));
        let error = RowChanges::new(&pool).mark("f", &[0; 100]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Exhausted);
    }
}
