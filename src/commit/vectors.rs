//! Deletion vectors: which rows of a file are deleted is part of what the file is (`spec/metadata.md 7.4` 1), in tables with
//! buckets too: a compaction that does not know of a vector would bring deleted rows back.

use std::collections::{HashMap, HashSet};

use super::base::Base;
use super::changes::{Changes, DELETION_VECTORS};
use super::conflicts::{Found, conflict};
use crate::error::Result;
use crate::spec::IndexEntry;

impl Found<'_> {
    /// A file that is removed or gets a vector must have the vector that the commit knows of: one that it replaces, or none.
    /// A file that gets a vector must be there.
    pub(super) fn check_vectors(&self, changes: &Changes, base: &Base) -> Result<()> {
        let is_vectors = |entry: &&IndexEntry| entry.index_type == DELETION_VECTORS;
        let mut vectors: HashMap<&str, &str> = HashMap::new();
        for entry in base.indexes.iter().filter(is_vectors) {
            for range in entry.dv_ranges.iter().flatten() {
                vectors.insert(&range.data_file, &entry.file_name);
            }
        }
        let dropped: HashSet<&str> =
            changes.dropped_indexes.iter().filter(is_vectors).map(|entry| entry.file_name.as_str()).collect();
        let check_known = |file: &str| match vectors.get(file) {
            Some(index) if !dropped.contains(index) => {
                Err(conflict("another commit deleted rows of a file that this one builds on; run the statement again")
                    .with("file", file))
            }
            _ => Ok(()),
        };
        let names = |deleted: bool| -> HashSet<&str> {
            changes.entries.iter().filter(|entry| entry.deleted() == deleted).map(|entry| entry.name()).collect()
        };
        let (removed, added) = (names(true), names(false));
        // A file that is only described anew keeps its rows, and its vector.
        for entry in changes.entries.iter().filter(|entry| entry.deleted() && !added.contains(entry.name())) {
            check_known(entry.name())?;
        }
        for range in changes.new_indexes.iter().filter(is_vectors).flat_map(|entry| entry.dv_ranges.iter().flatten()) {
            check_known(&range.data_file)?;
            let file = range.data_file.as_str();
            let is_there = added.contains(file) || (!removed.contains(file) && self.is_live_name(file));
            if !is_there {
                return Err(conflict(
                    "another commit removed or rewrote a file whose rows this one deletes; run the statement again",
                )
                .with("file", file));
            }
        }
        Ok(())
    }
}
