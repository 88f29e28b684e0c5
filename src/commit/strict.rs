//! What may not have happened since: strict mode (`spec/metadata.md 7.6`), and statements that depend on what they read.

use std::collections::HashSet;
use std::sync::Arc;

use super::TableCommit;
use super::base::{Base, DELETE};
use super::changes::HASH;
use super::conflicts::conflict;
use super::scope::Scope;
use super::source::{Draft, Plan, Source};
use crate::error::{Error, Result};
use crate::plan::{read_index_manifest, read_manifest_list};
use crate::spec::{CommitKind, IndexEntry, ManifestEntries, ManifestMeta, Snapshot};

impl TableCommit {
    /// Strict mode: no other user compacted or overwrote our partitions since the safe snapshot, nor added to what we
    /// overwrite.
    pub(super) async fn check_strict(&self, plan: &Plan, base: &Base) -> Result<()> {
        let Some(safe) = *self.safe_snapshot.lock() else { return Ok(()) };
        let scope = plan.changes.scope(self.table.schema())?;
        for snapshot in self.snapshots_after(safe, base).await? {
            if snapshot.commit_user == self.user {
                continue;
            }
            let touches = match snapshot.commit_kind {
                CommitKind::Compact | CommitKind::Overwrite => self.touches(&snapshot, &scope, i32::MIN).await?,
                CommitKind::Append if plan.kind == CommitKind::Overwrite => self.touches(&snapshot, &scope, 0).await?,
                CommitKind::Append | CommitKind::Analyze => false,
            };
            if touches {
                return Err(conflict(format!(
                    "user {} committed snapshot {} ({}) to the same partitions, which commit.strict-mode.last-safe-snapshot = \
                     {safe} forbids",
                    snapshot.commit_user,
                    snapshot.id,
                    snapshot.commit_kind.name()
                )));
            }
        }
        // These need no second look.
        *self.safe_snapshot.lock() = Some(safe.max(base.id()));
        Ok(())
    }

    /// A statement that depends on what it read: an overwrite must know all rows that it replaces, and a hash index all keys
    /// of its partition.
    pub(super) async fn check_read(&self, draft: &Draft<'_>, plan: &Plan, base: &Base) -> Result<()> {
        let Some(read) = self.read_snapshot else { return Ok(()) };
        // A compaction builds on its files alone, and what was committed before it is of the same statement.
        if plan.kind == CommitKind::Compact {
            return Ok(());
        }
        if let Source::Replace { scope, .. } = &draft.source {
            for snapshot in self.snapshots_after(read, base).await? {
                if matches!(snapshot.commit_kind, CommitKind::Append | CommitKind::Overwrite)
                    && self.touches(&snapshot, scope, 0).await?
                {
                    return Err(conflict(format!(
                        "snapshot {} changed what is overwritten after it was read in snapshot {read}; run the statement \
                         again",
                        snapshot.id
                    )));
                }
            }
        } else if plan.changes.new_indexes.iter().any(|index| index.index_type == HASH) {
            self.check_hash_indexes(read, plan, base).await?;
        }
        Box::pin(self.check_changed_rows(read, plan, base)).await
    }

    /// New keys of a partition with dynamic buckets were given their buckets by what its hash indexes said. Other keys since
    /// could be the same ones, in other buckets.
    async fn check_hash_indexes(&self, read: i64, plan: &Plan, base: &Base) -> Result<()> {
        if read == base.id() {
            return Ok(());
        }
        let before = match self.table.snapshots().find(read).await? {
            Some(snapshot) => self.read_indexes(snapshot.index_manifest.as_deref()).await?,
            None if read == 0 => Arc::default(),
            None => return Err(expired(read)),
        };
        let partitions: HashSet<&[u8]> = plan
            .changes
            .new_indexes
            .iter()
            .filter(|index| index.index_type == HASH)
            .map(|index| &*index.partition)
            .collect();
        let files = |indexes: &'_ [IndexEntry]| -> HashSet<String> {
            let ours =
                indexes.iter().filter(|index| index.index_type == HASH && partitions.contains(&*index.partition));
            ours.map(|index| index.file_name.clone()).collect()
        };
        if files(&before) == files(&base.indexes) {
            return Ok(());
        }
        Err(conflict(
            "another commit brought keys to the same partition, whose buckets are given as keys come; run the statement again",
        ))
    }

    /// A compaction that looked keys up in higher levels marked their rows there, or took their old values for those that
    /// changed. Where another compaction brought rows to these levels since, keys may be twice in them, which nobody would see:
    /// tables with deletion vectors are read without merging.
    pub(super) async fn check_lookups(&self, known: i64, plan: &Plan, base: &Base) -> Result<()> {
        if known == base.id() {
            return Ok(());
        }
        let scope = plan.changes.scope(self.table.schema())?;
        let mut ours: HashSet<(Vec<u8>, i32)> = HashSet::new();
        for entry in plan.changes.entries.iter().filter(|entry| !entry.deleted()) {
            ours.insert((scope.key(entry.partition())?, entry.bucket()));
        }
        for snapshot in self.snapshots_after(known, base).await? {
            for entries in self.delta_entries(&snapshot, &scope).await? {
                let places = entries.partition.values.iter().map(|row| scope.key(row)).collect::<Result<Vec<_>>>()?;
                let other = (0..entries.len()).find(|row| {
                    let place = &places[entries.partition.keys[*row] as usize];
                    entries.kind[*row] != DELETE
                        && entries.level[*row] > 0
                        && ours.contains(&(place.clone(), entries.bucket[*row]))
                });
                if let Some(row) = other {
                    return Err(conflict(format!(
                        "snapshot {} compacted the bucket after its keys were looked up in snapshot {known}; compact again",
                        snapshot.id
                    ))
                    .with("file", String::from_utf8_lossy(entries.file_name.get(row)).into_owned()));
                }
            }
        }
        Ok(())
    }

    /// The snapshots after `id` up to the base.
    pub(super) async fn snapshots_after(&self, id: i64, base: &Base) -> Result<Vec<Arc<Snapshot>>> {
        let mut snapshots = Vec::new();
        for next in id.max(0) + 1..=base.id() {
            match self.table.snapshots().find(next).await? {
                Some(snapshot) => snapshots.push(snapshot),
                None => return Err(expired(next)),
            }
        }
        Ok(snapshots)
    }

    /// What a snapshot added and removed, of the manifests that touch `scope`.
    pub(super) async fn delta_entries(&self, snapshot: &Snapshot, scope: &Scope) -> Result<Vec<Arc<ManifestEntries>>> {
        let list =
            read_manifest_list(&self.table, &snapshot.delta_manifest_list, snapshot.delta_manifest_list_size).await?;
        let kept = scope.manifests(&list)?;
        let metas: Vec<ManifestMeta> =
            list.iter().zip(kept).filter(|(_, kept)| *kept).map(|(meta, _)| meta.clone()).collect();
        let delta = Base::of_manifests(metas);
        delta.entries(&self.table, scope).await
    }

    /// Whether a snapshot changed files of `scope` in buckets from `bucket` on, or their indexes.
    async fn touches(&self, snapshot: &Snapshot, scope: &Scope, bucket: i32) -> Result<bool> {
        for entries in self.delta_entries(snapshot, scope).await? {
            let allowed = scope.allows(&entries.partition.values)?;
            let touched = (0..entries.len())
                .any(|row| entries.bucket[row] >= bucket && allowed[entries.partition.keys[row] as usize]);
            if touched {
                return Ok(true);
            }
        }
        // Compactions of the indexes alone change nothing that others read.
        if snapshot.commit_kind == CommitKind::Compact && self.table.settings().data_evolution {
            return Ok(false);
        }
        self.touches_indexes(snapshot, scope).await
    }

    async fn read_indexes(&self, name: Option<&str>) -> Result<Arc<Vec<IndexEntry>>> {
        match name {
            Some(name) => read_index_manifest(&self.table, name).await,
            None => Ok(Arc::default()),
        }
    }

    async fn touches_indexes(&self, snapshot: &Snapshot, scope: &Scope) -> Result<bool> {
        let before = match self.table.snapshots().find(snapshot.id - 1).await? {
            Some(before) => before.index_manifest.clone(),
            None => None,
        };
        if before == snapshot.index_manifest {
            return Ok(false);
        }
        let before = self.read_indexes(before.as_deref()).await?;
        let after = self.read_indexes(snapshot.index_manifest.as_deref()).await?;
        let names = |entries: &[IndexEntry]| -> HashSet<String> {
            entries.iter().map(|entry| entry.file_name.clone()).collect()
        };
        let (old, new) = (names(&before), names(&after));
        let changed = before.iter().filter(|entry| !new.contains(&entry.file_name));
        let changed = changed.chain(after.iter().filter(|entry| !old.contains(&entry.file_name)));
        let partitions: Vec<Arc<[u8]>> = changed.map(|entry| Arc::clone(&entry.partition)).collect();
        Ok(scope.allows(&partitions)?.contains(&true))
    }
}

pub(super) fn expired(snapshot: i64) -> Error {
    conflict(format!(
        "snapshot {snapshot} has expired, so that nobody can tell what changed since the statement began; run it again"
    ))
}
