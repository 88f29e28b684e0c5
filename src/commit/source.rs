//! What one snapshot is to bring, and what that is on top of a given base.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::base::Base;
use super::changes::{Change, Changes};
use super::index::in_partitions;
use super::scope::Scope;
use super::{Operation, TableCommit};
use crate::error::Result;
use crate::spec::{CommitKind, DataFile, FileIdentityRef, Snapshot};

/// What one snapshot is to bring.
pub(super) struct Draft<'a> {
    /// The kind; APPEND becomes OVERWRITE where it removes something.
    pub kind: CommitKind,
    pub identifier: i64,
    pub watermark: Option<i64>,
    pub properties: &'a BTreeMap<String, String>,
    pub operation: Option<Operation>,
    pub source: Source,
    /// Whether what others did is checked even where nothing is removed.
    pub check: bool,
    /// Whether there is a snapshot when nothing changes.
    pub allow_empty: bool,
}

/// Where the changes of a snapshot come from.
pub(super) enum Source {
    /// They are known.
    Fixed(Changes),
    /// Everything in `scope` goes and `changes` comes.
    Replace { scope: Scope, changes: Changes },
    /// Nothing changes but the statistics, which this file holds.
    Statistics(String),
    /// Nothing changes but how manifests are laid out.
    Manifests,
    /// These manifests are gone, and what they say with them.
    Without(HashSet<String>),
    /// The table is again what it was in an older snapshot.
    Restore(Arc<Snapshot>),
}

/// The changes of a snapshot on top of a base.
pub(super) struct Plan {
    pub kind: CommitKind,
    pub changes: Changes,
    /// Whether files were left out because the base has them.
    pub is_reduced: bool,
}

impl TableCommit {
    /// What `draft` is on top of `base`; `None` when that is nothing and makes no snapshot.
    pub(super) async fn plan(&self, draft: &Draft<'_>, base: &Base) -> Result<Option<Plan>> {
        let mut plan = Plan { kind: draft.kind, changes: Changes::default(), is_reduced: false };
        match &draft.source {
            Source::Fixed(changes) => {
                plan.changes = changes.clone();
                if draft.kind == CommitKind::Append && changes.removes() {
                    plan.kind = CommitKind::Overwrite;
                }
                if plan.kind == CommitKind::Append && self.options.discard_duplicate_files {
                    plan.is_reduced = self.discard_duplicates(&mut plan.changes, base).await?;
                }
            }
            Source::Replace { scope, changes } => {
                plan.changes = self.removal(scope, base).await?;
                plan.changes.entries.extend(changes.entries.iter().cloned());
                plan.changes.new_indexes.extend(changes.new_indexes.iter().cloned());
            }
            Source::Statistics(_) | Source::Manifests | Source::Without(_) => return Ok(Some(plan)),
            Source::Restore(target) => {
                plan.changes.entries = self.difference(base, target).await?;
                return Ok(Some(plan));
            }
        }
        let skipped = plan.changes.is_empty() && !draft.allow_empty;
        Ok((!skipped).then_some(plan))
    }

    /// Leaves out added files that the base has. Whether there were any.
    async fn discard_duplicates(&self, changes: &mut Changes, base: &Base) -> Result<bool> {
        let scope = changes.scope(self.table.schema())?;
        let live = base.live(&self.table, &scope).await?;
        let live: HashSet<_> = live.iter().map(FileIdentityRef::of).collect();
        let before = changes.entries.len();
        changes.entries.retain(|entry| entry.deleted() || !live.contains(&entry.identity()));
        Ok(changes.entries.len() < before)
    }

    /// The removal of all files and index files of `scope`.
    async fn removal(&self, scope: &Scope, base: &Base) -> Result<Changes> {
        // What was postponed has no place in the table yet, unless that is how the table is.
        let postponed = self.table.settings().bucket == POSTPONE && !self.spares_postponed;
        let live = base.live(&self.table, scope).await?;
        let removed = live.into_iter().filter(|file| postponed || file.bucket() >= 0);
        let entries = removed.map(|file| Change::Known { deleted: true, file }).collect();
        let dropped_indexes = in_partitions(&base.indexes, |rows| scope.allows(rows))?;
        Ok(Changes { entries, dropped_indexes, ..Changes::default() })
    }

    /// What turns the files of `base` into those of `target`.
    async fn difference(&self, base: &Base, target: &Arc<Snapshot>) -> Result<Vec<Change>> {
        let all = Scope::all(self.table.schema())?;
        let target = Base::read(&self.table, Some(Arc::clone(target))).await?;
        let (now, then) = futures::try_join!(base.live(&self.table, &all), target.live(&self.table, &all))?;
        let missing = |files: &[DataFile], from: &[DataFile]| -> Vec<bool> {
            let there: HashSet<_> = from.iter().map(FileIdentityRef::of).collect();
            files.iter().map(|file| !there.contains(&FileIdentityRef::of(file))).collect()
        };
        let (gone, back) = (missing(&now, &then), missing(&then, &now));
        let chosen = |files: Vec<DataFile>, chosen: Vec<bool>, deleted: bool| {
            let files = files.into_iter().zip(chosen).filter(|(_, chosen)| *chosen);
            files.map(move |(file, _)| Change::Known { deleted, file })
        };
        let entries = chosen(now, gone, true).chain(chosen(then, back, false)).collect();
        Ok(entries)
    }
}

/// The number that stands for the postpone bucket, as the option `bucket` and as a bucket.
pub(super) const POSTPONE: i32 = -2;
