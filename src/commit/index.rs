//! The index manifest of the next snapshot: the last one's entries and the changes, put together (`spec/metadata.md 8.1`).

use std::collections::HashSet;
use std::sync::Arc;

use super::changes::{Changes, DELETION_VECTORS, HASH};
use crate::error::{Error, ErrorKind, Result};
use crate::spec::IndexEntry;

/// The entries after `changes`; `None` when they are the same. In a table without buckets every data file has a vector of
/// its own; elsewhere a bucket has one file of each kind.
///
/// # Errors
/// Conflict when something is not there that is to go or to be replaced, or is there that is not known of.
pub(super) fn combine(old: &[IndexEntry], changes: &Changes, without_buckets: bool) -> Result<Option<Vec<IndexEntry>>> {
    if changes.new_indexes.is_empty() && changes.dropped_indexes.is_empty() {
        return Ok(None);
    }
    let mut dropped: HashSet<(&str, &str)> = HashSet::new();
    for entry in &changes.dropped_indexes {
        let is_there = old.iter().any(|old| same_file(old, entry));
        if !is_there || !dropped.insert((&entry.index_type, &entry.file_name)) {
            return Err(conflict(entry, "was replaced or removed by another commit"));
        }
    }
    let mut entries: Vec<IndexEntry> = old
        .iter()
        .filter(|entry| !dropped.contains(&(entry.index_type.as_str(), entry.file_name.as_str())))
        .cloned()
        .collect();
    for new in &changes.new_indexes {
        if entries.iter().any(|entry| same_file(entry, new)) {
            return Err(conflict(new, "is there already"));
        }
        if new.index_type == HASH || (new.index_type == DELETION_VECTORS && !without_buckets) {
            let other = entries.iter().find(|entry| {
                entry.index_type == new.index_type && entry.bucket == new.bucket && entry.partition == new.partition
            });
            if let Some(other) = other {
                return Err(conflict(other, "came from another commit, and what was to replace it does not know it"));
            }
        } else if new.index_type == DELETION_VECTORS {
            check_vectors(&entries, new)?;
        } else if let Some(other) = entries.iter().find(|entry| overlap(entry, new)) {
            return Err(conflict(other, "covers rows that a new index covers as well"));
        }
        entries.push(IndexEntry { kind: 0, ..new.clone() });
    }
    Ok(Some(entries))
}

fn same_file(left: &IndexEntry, right: &IndexEntry) -> bool {
    left.file_name == right.file_name && left.index_type == right.index_type
}

/// A data file has one vector.
fn check_vectors(entries: &[IndexEntry], new: &IndexEntry) -> Result<()> {
    let names: HashSet<&str> = new.dv_ranges.iter().flatten().map(|range| range.data_file.as_str()).collect();
    let count = new.dv_ranges.as_ref().map_or(0, Vec::len);
    if names.len() != count {
        return Err(Error::invalid("a data file has two deletion vectors").with("index file", new.file_name.clone()));
    }
    for entry in entries.iter().filter(|entry| entry.index_type == DELETION_VECTORS) {
        if let Some(range) = entry.dv_ranges.iter().flatten().find(|range| names.contains(range.data_file.as_str())) {
            return Err(
                conflict(entry, "has a deletion vector of another commit").with("data file", range.data_file.clone())
            );
        }
    }
    Ok(())
}

/// Whether two global indexes of the same fields cover the same rows.
fn overlap(left: &IndexEntry, right: &IndexEntry) -> bool {
    let (Some(a), Some(b)) = (&left.global_index, &right.global_index) else { return false };
    left.index_type == right.index_type
        && (a.index_field_id, &a.extra_field_ids) == (b.index_field_id, &b.extra_field_ids)
        && a.row_range_start <= b.row_range_end
        && b.row_range_start <= a.row_range_end
}

fn conflict(entry: &IndexEntry, what: &str) -> Error {
    Error::new(ErrorKind::Conflict, format!("index file {} {what}; run the statement again", entry.file_name))
}

/// The index files of `entries` that lie in the partitions that `allowed` tells, as those to go.
pub(super) fn in_partitions(
    entries: &[IndexEntry],
    allowed: impl Fn(&[Arc<[u8]>]) -> Result<Vec<bool>>,
) -> Result<Vec<IndexEntry>> {
    let partitions: Vec<Arc<[u8]>> = entries.iter().map(|entry| Arc::clone(&entry.partition)).collect();
    let kept = allowed(&partitions)?;
    Ok(entries.iter().zip(kept).filter(|(_, kept)| *kept).map(|(entry, _)| entry.clone()).collect())
}
