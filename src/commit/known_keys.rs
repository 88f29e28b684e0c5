//! Keys that may move between partitions (`spec/data.md 3.6`): a writer gives each row the place that its key had in the
//! snapshot it knew. A commit since then that may hold one of these keys has given it another place.

use super::TableCommit;
use super::base::{Base, DELETE};
use super::conflicts::{Ranged, conflict};
use super::scope::Scope;
use super::source::Plan;
use crate::error::Result;
use crate::plan::read_manifest_list;
use crate::spec::binary_row::KeyComparator;
use crate::spec::{CommitKind, Snapshot};

/// The smallest and the greatest key of a file, comparable as bytes.
type KeyRange = (Vec<u8>, Vec<u8>);

impl TableCommit {
    /// No commit after snapshot `known` brought keys in the ranges of the files that are added. Ranges are of the key without
    /// partition columns, over all partitions: a key may have gone to any.
    pub(super) async fn check_known_keys(&self, known: i64, plan: &Plan, base: &Base) -> Result<()> {
        if known == base.id() {
            return Ok(());
        }
        let keys = KeyComparator::new(&self.key_types())?;
        let added = plan.changes.entries.iter().filter(|entry| !entry.deleted());
        let ours: Vec<KeyRange> = added.map(|entry| range(&keys, Ranged::of(entry))).collect::<Result<_>>()?;
        if ours.is_empty() {
            return Ok(());
        }
        for snapshot in self.snapshots_after(known, base).await? {
            if matches!(snapshot.commit_kind, CommitKind::Append | CommitKind::Overwrite)
                && self.brings_keys(&snapshot, &ours, &keys).await?
            {
                return Err(conflict(format!(
                    "snapshot {} may have moved keys that are written, after they were looked up in snapshot {known}; run the \
                     statement again",
                    snapshot.id
                )));
            }
        }
        Ok(())
    }

    /// Whether a snapshot added files whose keys overlap with one of `ours`.
    async fn brings_keys(&self, snapshot: &Snapshot, ours: &[KeyRange], keys: &KeyComparator) -> Result<bool> {
        let list =
            read_manifest_list(&self.table, &snapshot.delta_manifest_list, snapshot.delta_manifest_list_size).await?;
        let scope = Scope::all(self.table.schema())?;
        let delta = Base::of_manifests(list.to_vec());
        for entries in delta.entries(&self.table, &scope).await? {
            for row in (0..entries.len()).filter(|row| entries.kind[*row] != DELETE) {
                let theirs = range(keys, Ranged::at(&entries, row))?;
                if ours.iter().any(|ours| ours.0 <= theirs.1 && theirs.0 <= ours.1) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}

fn range(keys: &KeyComparator, file: Ranged<'_>) -> Result<KeyRange> {
    let (mut min, mut max) = (Vec::new(), Vec::new());
    keys.sort_key(file.min, &mut min)?;
    keys.sort_key(file.max, &mut max)?;
    Ok((min, max))
}
