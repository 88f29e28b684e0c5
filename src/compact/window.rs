//! A window of keys: of each run the rows at hand up to a key that no later row of any run comes before, put into merge order
//! (`spec/data.md 4.2`).
//!
//! ```text
//! run 0  [ 1  3  5 | 7 .. ]          bound = the smallest last key at hand
//! run 1  [ 2  3  4  5 ]     bound 5  order: 1 2 3 3 4 5 5, each as (part, row)
//! run 2  [ 9 .. ]                    starts of keys: 0 1 2 4 5
//! ```
//!
//! May import: `read`, rest of this room.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use super::source::{Chunk, Cursor, is_retract};
use crate::read::keys::Keys;

/// A row: the part of the window, and the row of the part's chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub part: u32,
    pub row: u32,
}

/// The rows of a run in a window.
#[derive(Debug)]
pub(super) struct Part {
    pub chunk: Arc<Chunk>,
    pub rows: Range<usize>,
}

/// Rows of a stretch of keys, all versions of each.
#[derive(Debug)]
pub(super) struct Window {
    pub parts: Vec<Part>,
    /// All rows in merge order.
    pub order: Vec<Place>,
    /// Where in `order` the rows of each key begin.
    starts: Vec<u32>,
}

impl Window {
    /// Takes the next window off the cursors, whose chunks are at hand. `None` when all are read.
    pub(super) fn take(cursors: &mut [Cursor]) -> Option<Self> {
        let mut bound: Option<Arc<Chunk>> = None;
        for chunk in cursors.iter().filter_map(|cursor| cursor.chunk.as_ref()) {
            let is_less = bound
                .as_ref()
                .is_none_or(|bound| chunk.keys.compare(chunk.len() - 1, &bound.keys, bound.len() - 1).is_lt());
            if is_less {
                bound = Some(Arc::clone(chunk));
            }
        }
        let bound = bound?;
        let mut parts = Vec::new();
        for cursor in cursors {
            let Some(chunk) = &cursor.chunk else { continue };
            let end = chunk.keys.after(cursor.at, &bound.keys, bound.len() - 1);
            if end > cursor.at {
                parts.push(Part { chunk: Arc::clone(chunk), rows: cursor.at..end });
                cursor.at = end;
            }
        }
        Some(Self::of(parts))
    }

    fn of(parts: Vec<Part>) -> Self {
        let (order, starts) = match parts.first().map(|part| &part.chunk.keys) {
            Some(Keys::U64(_)) => merged(&parts, |keys, row| match keys {
                Keys::U64(values) => values[row],
                _ => 0,
            }),
            Some(Keys::U128(_)) => merged(&parts, |keys, row| match keys {
                Keys::U128(values) => values[row],
                _ => 0,
            }),
            Some(Keys::Rows(_)) => merged(&parts, |keys, row| match keys {
                Keys::Rows(rows) => rows.row(row).data(),
                _ => &[],
            }),
            None => (Vec::new(), Vec::new()),
        };
        let mut window = Self { parts, order, starts };
        window.sort_versions();
        window
    }

    /// How many keys there are.
    pub(super) fn keys(&self) -> usize {
        self.starts.len()
    }

    /// Where in the order the rows of a key are.
    pub(super) fn rows_of(&self, key: usize) -> Range<usize> {
        let end = self.starts.get(key + 1).map_or(self.order.len(), |end| *end as usize);
        self.starts[key] as usize..end
    }

    /// The chunk of a row.
    pub(super) fn chunk(&self, place: Place) -> &Chunk {
        &self.parts[place.part as usize].chunk
    }

    /// The file that a row is in.
    pub(super) fn file(&self, place: Place) -> usize {
        self.chunk(place).file
    }

    /// The kind of a row.
    pub(super) fn kind(&self, place: Place) -> i8 {
        self.chunk(place).kinds.get(place.row as usize).copied().unwrap_or(0)
    }

    /// The sequence number of a row.
    pub(super) fn sequence(&self, place: Place) -> i64 {
        self.chunk(place).sequence.get(place.row as usize).copied().unwrap_or(i64::MIN)
    }

    /// Puts the versions of each key into their order: by the sequence fields, the sequence number, and what takes back before
    /// what adds.
    fn sort_versions(&mut self) {
        let mut order = std::mem::take(&mut self.order);
        for key in 0..self.starts.len() {
            let end = self.starts.get(key + 1).map_or(order.len(), |end| *end as usize);
            let versions = &mut order[self.starts[key] as usize..end];
            if versions.len() > 1 {
                versions.sort_by(|a, b| self.compare(*a, *b));
            }
        }
        self.order = order;
    }

    fn compare(&self, a: Place, b: Place) -> Ordering {
        let by_fields = match (&self.chunk(a).fields, &self.chunk(b).fields) {
            (Some(x), Some(y)) => x.row(a.row as usize).cmp(&y.row(b.row as usize)),
            _ => Ordering::Equal,
        };
        by_fields
            .then_with(|| self.sequence(a).cmp(&self.sequence(b)))
            .then_with(|| is_retract(self.kind(b)).cmp(&is_retract(self.kind(a))))
    }
}

/// The rows of all parts by key, and where each key begins.
fn merged<'a, K: Ord + Copy>(parts: &'a [Part], key: impl Fn(&'a Keys, usize) -> K) -> (Vec<Place>, Vec<u32>) {
    let place = |part: usize, row: usize| Place { part: part as u32, row: row as u32 };
    if let [only] = parts {
        let order: Vec<Place> = only.rows.clone().map(|row| place(0, row)).collect();
        let mut starts = Vec::with_capacity(order.len());
        let mut last = None;
        for (at, row) in only.rows.clone().enumerate() {
            let key = key(&only.chunk.keys, row);
            if last != Some(key) {
                starts.push(at as u32);
                last = Some(key);
            }
        }
        return (order, starts);
    }
    let mut lists: Vec<Vec<(K, Place)>> = parts
        .iter()
        .enumerate()
        .map(|(part, rows)| {
            rows.rows.clone().map(|row| (key(&rows.chunk.keys, row), place(part, row))).collect::<Vec<_>>()
        })
        .collect();
    // Always the two shortest: each row is moved about as often as there are doublings.
    while lists.len() > 1 {
        lists.sort_by_key(|list| std::cmp::Reverse(list.len()));
        if let (Some(a), Some(b)) = (lists.pop(), lists.pop()) {
            lists.push(merge_two(&a, &b));
        }
    }
    let list = lists.pop().unwrap_or_default();
    let mut starts = Vec::with_capacity(list.len());
    let mut last = None;
    for (at, (key, _)) in list.iter().enumerate() {
        if last != Some(*key) {
            starts.push(at as u32);
            last = Some(*key);
        }
    }
    (list.into_iter().map(|(_, place)| place).collect(), starts)
}

fn merge_two<K: Ord + Copy>(a: &[(K, Place)], b: &[(K, Place)]) -> Vec<(K, Place)> {
    let mut merged = Vec::with_capacity(a.len() + b.len());
    let (mut x, mut y) = (0, 0);
    while x < a.len() && y < b.len() {
        // Without a branch, which nothing could foretell.
        let is_first = a[x].0 <= b[y].0;
        merged.push(if is_first { a[x] } else { b[y] });
        x += usize::from(is_first);
        y += usize::from(!is_first);
    }
    merged.extend_from_slice(&a[x..]);
    merged.extend_from_slice(&b[y..]);
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::keys::RowPositions;

    fn part(file: usize, rows: &[(u64, i64, i8)]) -> Part {
        let chunk = Chunk {
            file,
            keys: Keys::U64(rows.iter().map(|row| row.0).collect()),
            columns: Vec::new(),
            kinds: rows.iter().map(|row| row.2).collect(),
            sequence: rows.iter().map(|row| row.1).collect(),
            fields: None,
            positions: RowPositions::From(0),
        };
        Part { chunk: Arc::new(chunk), rows: 0..rows.len() }
    }

    #[test]
    fn of_when_runs_hold_the_same_keys_then_by_key_and_number() {
        let window = Window::of(vec![
            part(0, &[(1, 9, 0), (3, 5, 0), (5, 7, 3)]),
            part(1, &[(2, 1, 0), (3, 8, 0)]),
            part(2, &[(3, 2, 0), (5, 7, 0)]),
        ]);
        let rows =
            |key| window.order[window.rows_of(key)].iter().map(|place| window.sequence(*place)).collect::<Vec<_>>();
        assert_eq!(window.keys(), 4);
        assert_eq!((rows(0), rows(1), rows(2)), (vec![9], vec![1], vec![2, 5, 8]));
        // Of equal numbers what adds comes last.
        let kinds: Vec<i8> = window.order[window.rows_of(3)].iter().map(|place| window.kind(*place)).collect();
        assert_eq!(kinds, [3, 0]);
    }

    #[test]
    fn of_when_one_run_is_there_then_its_rows() {
        let window = Window::of(vec![part(0, &[(1, 1, 0), (2, 1, 0)])]);
        assert_eq!((window.keys(), window.rows_of(1)), (2, 1..2));
    }
}
