//! What files get only when they are committed: row ids and sequence numbers (`spec/metadata.md 7.3` 8).

use std::collections::HashMap;

use super::changes::{Change, wants_row_ids};
use crate::error::{Error, Result};
use crate::options::TableOptions;
use crate::spec::CommitKind;

/// Whether the files of a table get anything at their commit.
pub(super) fn are_needed(options: &TableOptions) -> bool {
    options.row_tracking || options.sequence_snapshot_ordering
}

/// Gives the added files of snapshot `id` their numbers. Returns the first row id that is not given yet.
///
/// # Errors
/// Invalid when a file of a BLOB column has more rows than the files it belongs to.
pub(super) fn stamp(
    entries: &mut Vec<Change>,
    options: &TableOptions,
    group: bool,
    kind: CommitKind,
    id: i64,
    next_row_id: i64,
) -> Result<i64> {
    if options.sequence_snapshot_ordering && kind != CommitKind::Compact {
        for entry in entries.iter_mut().filter(|entry| !entry.deleted()) {
            let file = entry.file_mut();
            (file.min_sequence_number, file.max_sequence_number) = (id, id);
        }
    }
    if !options.row_tracking {
        return Ok(next_row_id);
    }
    if group {
        *entries = by_partition(std::mem::take(entries));
    }
    for entry in entries.iter_mut().filter(|entry| !entry.deleted()) {
        let file = entry.file_mut();
        if file.min_sequence_number == 0 {
            (file.min_sequence_number, file.max_sequence_number) = (id, id);
        } else if file.max_sequence_number == 0 {
            file.max_sequence_number = id;
        }
    }
    assign_row_ids(entries, next_row_id)
}

fn assign_row_ids(entries: &mut [Change], first: i64) -> Result<i64> {
    let mut next = first;
    // Files of single columns repeat the ids of the file before them, each column from its start.
    let (mut start, mut columns): (i64, HashMap<Option<String>, i64>) = (first, HashMap::new());
    for entry in entries.iter_mut().filter(|entry| !entry.deleted()) {
        let file = entry.file_mut();
        if !wants_row_ids(file) {
            continue;
        }
        if is_dedicated(&file.file_name) {
            let column = file.write_cols.iter().flatten().next().cloned();
            let id = columns.entry(column).or_insert(start);
            if *id + file.row_count > next {
                return Err(Error::invalid("a file of one column has rows that no file before it has")
                    .with("file", file.file_name.clone()));
            }
            file.first_row_id = Some(*id);
            *id += file.row_count;
        } else {
            (start, file.first_row_id) = (next, Some(next));
            columns.clear();
            next += file.row_count;
        }
    }
    Ok(next)
}

/// Whether a file holds one column of rows whose other columns lie elsewhere (`spec/metadata.md 1.4`).
pub(super) fn is_dedicated(name: &str) -> bool {
    name.ends_with(".blob") || name.contains(".vector.")
}

/// Entries partition by partition, in order of appearance.
fn by_partition(entries: Vec<Change>) -> Vec<Change> {
    let mut positions: HashMap<_, usize> = HashMap::new();
    let mut groups: Vec<Vec<Change>> = Vec::new();
    for entry in entries {
        let next = groups.len();
        let position = *positions.entry(std::sync::Arc::clone(entry.partition())).or_insert(next);
        if position == next {
            groups.push(Vec::new());
        }
        groups[position].push(entry);
    }
    groups.into_iter().flatten().collect()
}
