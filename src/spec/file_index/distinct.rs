//! The values of a column while an index is written: each distinct value once, and which of them each row has.

use std::collections::HashMap;

use super::value::Key;
use crate::error::{Error, Result};

/// In place of a value where there is none.
const NULL: u32 = u32::MAX;

/// Values in the order of rows.
#[derive(Default)]
pub(super) struct Distinct {
    /// The number of each value, in order of appearance.
    known: HashMap<Key<'static>, u32>,
    /// Bytes of text in `known`.
    bytes: usize,
    /// The number of each row's value; [`NULL`] for NULL.
    rows: Vec<u32>,
}

impl Distinct {
    /// Adds the value of the next row.
    ///
    /// # Errors
    /// Unsupported beyond 2^31 rows, which have no place in an index.
    pub(super) fn add(&mut self, key: Option<Key<'_>>) -> Result<()> {
        let Some(key) = key else { return self.push(NULL) };
        let number = match find(&self.known, &key) {
            Some(number) => number,
            None => {
                if let Key::Bytes(bytes) = &key {
                    self.bytes += bytes.len();
                }
                let number = self.known.len() as u32;
                self.known.insert(key.into_owned(), number);
                number
            }
        };
        self.push(number)
    }

    fn push(&mut self, number: u32) -> Result<()> {
        if self.rows.len() >= i32::MAX as usize {
            return Err(Error::unsupported("a file index of more than 2^31 rows"));
        }
        self.rows.push(number);
        Ok(())
    }

    /// Bytes held in memory, roughly.
    pub(super) fn memory(&self) -> usize {
        self.known.capacity() * (size_of::<(Key<'_>, u32)>() + 1) + self.bytes + self.rows.capacity() * 4
    }

    /// The values in order.
    pub(super) fn ranked(self) -> Ranked {
        let mut sorted: Vec<(Key<'static>, u32)> = self.known.into_iter().collect();
        sorted.sort_unstable();
        let mut ranks = vec![0; sorted.len()];
        let keys = (0..).zip(sorted).map(|(rank, (key, number))| {
            ranks[number as usize] = rank;
            key
        });
        let keys = keys.collect();
        let rows = self.rows.into_iter().map(|number| ranks.get(number as usize).copied().unwrap_or(NULL)).collect();
        Ranked { keys, rows }
    }
}

/// A map can be asked for keys that live as long as any: its own live longer.
fn find<'a>(known: &HashMap<Key<'a>, u32>, key: &Key<'a>) -> Option<u32> {
    known.get(key).copied()
}

/// Distinct values in order, and their ranks.
pub(super) struct Ranked {
    /// The values; a value's place is its rank.
    pub(super) keys: Vec<Key<'static>>,
    /// The rank of each row's value; [`NULL`] for NULL.
    rows: Vec<u32>,
}

impl Ranked {
    /// The number of rows.
    pub(super) fn rows(&self) -> usize {
        self.rows.len()
    }

    /// The rank of each row's value; `None` for NULL.
    pub(super) fn ranks(&self) -> impl Iterator<Item = Option<usize>> {
        self.rows.iter().map(|rank| (*rank != NULL).then_some(*rank as usize))
    }
}
