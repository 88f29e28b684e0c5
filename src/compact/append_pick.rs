//! Which files of an append table are packed together (`spec/data.md 6.7`).
//!
//! May import: nothing.

use std::collections::BTreeMap;

/// Small tables of many files are not worth a full compaction below so many.
const LEAST_OF_FULL: usize = 3;

/// What picking looks at of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub bytes: u64,
    pub rows: u64,
    /// Rows that its deletion vector marks; `None` without one.
    pub deleted: Option<u64>,
    /// The index file with its deletion vector.
    pub index: Option<String>,
}

/// What picking goes by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Limits {
    /// `target-file-size`.
    pub target: u64,
    /// `compaction.small-file-ratio`: a file below this share of the target is small.
    pub small: f64,
    /// `source.split.open-file-cost`: what a file weighs beside its bytes.
    pub open_cost: u64,
    /// `compaction.min.file-num`.
    pub least: usize,
    /// `compaction.delete-ratio-threshold`.
    pub deleted: f64,
}

impl Limits {
    fn wants(&self, piece: &Piece) -> bool {
        let is_small = (piece.bytes as f64) < self.target as f64 * self.small;
        let deleted = piece.deleted.unwrap_or(0);
        is_small || deleted as f64 > piece.rows as f64 * self.deleted
    }
}

/// Files of a table without buckets, in groups: the smallest first, until a group is twice the target; the rest when they are
/// as many as `least`. Files whose vectors share an index file go together, so that it goes with them.
pub(super) fn pick_batch(pieces: &[Piece], limits: &Limits) -> Vec<Vec<usize>> {
    let wanted = (0..pieces.len()).filter(|index| limits.wants(&pieces[*index]));
    let mut marked: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    let mut plain = Vec::new();
    for index in wanted {
        match &pieces[index].index {
            Some(name) => marked.entry(name).or_default().push(index),
            None => plain.push(index),
        }
    }
    plain.sort_by_key(|index| (pieces[*index].bytes, *index));
    let mut groups: Vec<Vec<usize>> = marked.into_values().collect();
    let (mut group, mut weight) = (Vec::new(), 0u64);
    for index in plain {
        group.push(index);
        weight = weight.saturating_add(pieces[index].bytes).saturating_add(limits.open_cost);
        if group.len() > 1 && weight >= limits.target.saturating_mul(2) {
            groups.push(std::mem::take(&mut group));
            weight = 0;
        }
    }
    if group.len() > 1 && group.len() >= limits.least {
        groups.push(group);
    }
    // Rows stay in the order in which they were written, as far as that goes.
    groups.iter_mut().for_each(|group| group.sort_unstable());
    groups
}

/// Neighbouring files of a bucket, as a writer picks them: the first `least` of them in the order of their rows; where the
/// window passes twice the target its oldest file is left behind.
pub(super) fn pick_bucketed(pieces: &[Piece], limits: &Limits) -> Option<Vec<usize>> {
    let (mut window, mut weight) = (std::collections::VecDeque::new(), 0u64);
    for (index, piece) in pieces.iter().enumerate() {
        window.push_back(index);
        weight = weight.saturating_add(piece.bytes);
        if window.len() >= limits.least.max(2) {
            return Some(window.into());
        }
        if weight >= limits.target.saturating_mul(2)
            && let Some(first) = window.pop_front()
        {
            weight -= pieces[first].bytes;
        }
    }
    None
}

/// All files of a bucket but the first ones that are large enough and have no deleted rows: when there are more small ones than
/// large ones, or rows to take out.
pub(super) fn pick_full_bucketed(pieces: &[Piece], limits: &Limits) -> Option<Vec<usize>> {
    let is_done = |piece: &Piece| piece.bytes >= limits.target && piece.deleted.is_none();
    let first = pieces.iter().position(|piece| !is_done(piece))?;
    let rest = &pieces[first..];
    if rest.iter().any(|piece| piece.deleted.is_some_and(|deleted| deleted > 0)) {
        return Some((first..pieces.len()).collect());
    }
    let small = rest.iter().filter(|piece| piece.bytes < limits.target).count();
    let is_due = small > rest.len() - small && rest.len() >= LEAST_OF_FULL.min(limits.least.max(2));
    is_due.then(|| (first..pieces.len()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { target: 100, small: 0.7, open_cost: 4, least: 5, deleted: 0.2 };

    fn plain(sizes: &[u64]) -> Vec<Piece> {
        sizes.iter().map(|bytes| Piece { bytes: *bytes, rows: 10, deleted: None, index: None }).collect()
    }

    #[test]
    fn pick_batch_when_files_are_few_or_large_then_left_alone() {
        assert!(pick_batch(&plain(&[1, 1, 1, 1]), &LIMITS).is_empty());
        assert!(pick_batch(&plain(&[70, 80, 100, 200, 90, 71]), &LIMITS).is_empty());
        assert!(pick_batch(&plain(&[5]), &Limits { least: 1, ..LIMITS }).is_empty());
    }

    #[test]
    fn pick_batch_when_many_are_small_then_groups_of_twice_the_target() {
        assert_eq!(pick_batch(&plain(&[1, 2, 100, 3, 4, 5]), &LIMITS), [vec![0, 1, 3, 4, 5]]);
        // 60 + 4 each: the fourth passes 200.
        let groups = pick_batch(&plain(&[60; 6]), &Limits { least: 2, ..LIMITS });
        assert_eq!(groups, [vec![0, 1, 2, 3], vec![4, 5]]);
        assert_eq!(pick_batch(&plain(&[60; 6]), &LIMITS), [vec![0, 1, 2, 3]]);
    }

    #[test]
    fn pick_batch_when_rows_are_deleted_then_files_of_an_index_file_together() {
        let mut pieces = plain(&[500, 500, 500, 500]);
        for (piece, (deleted, index)) in pieces.iter_mut().zip([(3, "a"), (2, "a"), (9, "b"), (3, "a")]) {
            piece.deleted = Some(deleted);
            piece.index = Some(index.to_owned());
        }
        assert_eq!(pick_batch(&pieces, &LIMITS), [vec![0, 3], vec![2]]);
    }

    #[test]
    fn pick_bucketed_when_window_is_full_then_neighbours() {
        let limits = Limits { least: 3, ..LIMITS };
        assert_eq!(pick_bucketed(&plain(&[1, 1, 1, 1]), &limits), Some(vec![0, 1, 2]));
        assert_eq!(pick_bucketed(&plain(&[1, 1]), &limits), None);
        assert_eq!(pick_bucketed(&plain(&[300, 1, 1, 1]), &limits), Some(vec![1, 2, 3]));
        assert_eq!(pick_bucketed(&plain(&[300, 300, 1]), &limits), None);
    }

    #[test]
    fn pick_full_bucketed_when_small_ones_outnumber_then_all_behind_the_large_ones() {
        assert_eq!(pick_full_bucketed(&plain(&[100, 200, 1, 2, 3]), &LIMITS), Some(vec![2, 3, 4]));
        assert_eq!(pick_full_bucketed(&plain(&[1, 100, 100]), &LIMITS), None);
        assert_eq!(pick_full_bucketed(&plain(&[100, 100]), &LIMITS), None);
        let mut deleted = plain(&[100, 100]);
        deleted[1].deleted = Some(1);
        assert_eq!(pick_full_bucketed(&deleted, &LIMITS), Some(vec![1]));
    }
}
