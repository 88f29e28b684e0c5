//! Rows of key tables that a statement changes as it read them: nobody may have written the same keys since, or the newer row
//! would be lost under the statement's. And rows that a statement adds because it did not find them.

use std::collections::HashMap;

use super::base::Base;
use super::changes::Change;
use super::conflicts::conflict;
use super::source::Plan;
use super::{Operation, TableCommit};
use crate::error::Result;
use crate::spec::CommitKind;
use crate::spec::binary_row::KeyComparator;

/// A partition, by what tells it apart, and a bucket.
type Place = (Vec<u8>, i32);
/// The first and the last key of a file, comparable as bytes.
type Range = (Vec<u8>, Vec<u8>);

impl TableCommit {
    /// Whether other commits since `read` brought or took away rows between the keys that `plan` changes. Compactions do
    /// neither.
    ///
    /// # Errors
    /// Conflict when one did.
    pub(super) async fn check_changed_rows(&self, read: i64, plan: &Plan, base: &Base) -> Result<()> {
        if !self.changes_rows || read == base.id() {
            return Ok(());
        }
        if !self.table.schema().has_primary_key() {
            return self.check_absent(read, plan, base).await;
        }
        let scope = plan.changes.scope(self.table.schema())?;
        let keys = KeyComparator::new(&self.key_types())?;
        let range = |min: &[u8], max: &[u8]| -> Result<Range> {
            let (mut from, mut to) = (Vec::new(), Vec::new());
            keys.sort_key(min, &mut from)?;
            keys.sort_key(max, &mut to)?;
            Ok((from, to))
        };
        let mut ours: HashMap<Place, Vec<Range>> = HashMap::new();
        for entry in &plan.changes.entries {
            if let Change::Made(made) = entry
                && !made.deleted
                // What waits for a bucket is seen by nobody.
                && made.bucket >= 0
            {
                let place = (scope.key(&made.partition)?, made.bucket);
                ours.entry(place).or_default().push(range(&made.file.min_key, &made.file.max_key)?);
            }
        }
        for snapshot in self.snapshots_after(read, base).await? {
            if !matches!(snapshot.commit_kind, CommitKind::Append | CommitKind::Overwrite) {
                continue;
            }
            for entries in self.delta_entries(&snapshot, &scope).await? {
                let allowed = scope.allows(&entries.partition.values)?;
                let places = entries.partition.values.iter().map(|row| scope.key(row)).collect::<Result<Vec<_>>>()?;
                for row in 0..entries.len() {
                    let partition = entries.partition.keys[row] as usize;
                    if !allowed[partition] || entries.bucket[row] < 0 {
                        continue;
                    }
                    let Some(ranges) = ours.get(&(places[partition].clone(), entries.bucket[row])) else { continue };
                    let (from, to) = range(entries.min_key.get(row), entries.max_key.get(row))?;
                    if ranges.iter().any(|(first, last)| *first <= to && from <= *last) {
                        return Err(conflict(format!(
                            "snapshot {} wrote keys among those that this statement changes as they were in snapshot \
                             {read}; run the statement again",
                            snapshot.id
                        ))
                        .with("file", String::from_utf8_lossy(entries.file_name.get(row)).into_owned()));
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether another MERGE since `read` may have added what this one adds because it is not there. A plain INSERT does not ask
    /// what is there: it is as good as one that comes after this statement.
    async fn check_absent(&self, read: i64, plan: &Plan, base: &Base) -> Result<()> {
        if !self.adds_absent || plan.changes.entries.iter().all(Change::deleted) {
            return Ok(());
        }
        for snapshot in self.snapshots_after(read, base).await? {
            if snapshot.operation.as_deref() == Some(Operation::Merge.name())
                && snapshot.commit_kind != CommitKind::Compact
            {
                return Err(conflict(format!(
                    "snapshot {} merged rows into the table, and this statement adds those that were not there in snapshot \
                     {read}; run the statement again",
                    snapshot.id
                )));
            }
        }
        Ok(())
    }
}
