//! Row ids of tables with data evolution: several files hold columns of the same rows, and what they hold must fit together
//! (`spec/metadata.md 7.4` 6).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::TableCommit;
use super::base::{Base, DELETE, live_files};
use super::changes::Change;
use super::conflicts::conflict;
use super::scope::Scope;
use super::source::{Draft, Plan};
use super::stamps::is_dedicated;
use crate::error::{Error, Result};
use crate::plan::read_manifest_list;
use crate::spec::{CommitKind, DataFile, FileIdentityRef, IndexEntry, ManifestEntries};

/// The rows of a file, by their ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rows {
    first: i64,
    /// The id after the last one.
    end: i64,
}

impl Rows {
    fn new(first: i64, count: i64) -> Self {
        Self { first, end: first.saturating_add(count.max(0)) }
    }

    fn overlaps(self, other: Self) -> bool {
        self.first < other.end && other.first < self.end
    }

    fn is_within(self, other: Self) -> bool {
        other.first <= self.first && self.end <= other.end
    }
}

/// Rows of a bucket, each range once, in order.
#[derive(Default)]
struct Ranges(Vec<Rows>);

impl Ranges {
    fn of(rows: impl Iterator<Item = Rows>) -> Self {
        let mut ranges: Vec<Rows> = rows.collect();
        ranges.sort_unstable();
        ranges.dedup();
        Self(ranges)
    }

    fn has(&self, rows: Rows) -> bool {
        self.0.binary_search(&rows).is_ok()
    }

    /// Whether one range has all of `rows`; ranges do not overlap.
    fn contain(&self, rows: Rows) -> bool {
        let next = self.0.partition_point(|range| range.first <= rows.first);
        next > 0 && rows.is_within(self.0[next - 1])
    }

    /// Whether the ranges together have all of `rows`.
    fn cover(&self, rows: Rows) -> bool {
        let mut from = rows.first;
        let start = self.0.partition_point(|range| range.end <= rows.first);
        for range in &self.0[start..] {
            if from >= rows.end || range.first > from {
                break;
            }
            from = from.max(range.end);
        }
        from >= rows.end
    }

    fn overlap(&self) -> Option<Rows> {
        self.0.windows(2).find(|pair| pair[0].overlaps(pair[1])).map(|pair| pair[1])
    }
}

impl Change {
    /// Whether the rows have ids before they are committed.
    pub(super) fn has_row_ids(&self) -> bool {
        self.rows_of().is_some()
    }

    fn rows_of(&self) -> Option<Rows> {
        let (first, count) = match self {
            Self::Made(entry) => (entry.file.first_row_id, entry.file.row_count),
            Self::Known { file, .. } => (file.first_row_id(), self.rows()),
        };
        first.map(|first| Rows::new(first, count))
    }
}

fn rows_of(file: &DataFile) -> Option<Rows> {
    file.first_row_id().map(|first| Rows::new(first, i64::try_from(file.rows()).unwrap_or(i64::MAX)))
}

/// A partition, by [`Scope::key`], and a bucket.
type Bucket = (Vec<u8>, i32);

impl TableCommit {
    /// Checks the row ids of a plan against those of the base.
    pub(super) async fn check_row_ranges(
        &self,
        draft: &Draft<'_>,
        plan: &Plan,
        base: &Base,
        manifests: &[Arc<ManifestEntries>],
        scope: &Scope,
    ) -> Result<()> {
        let next_row_id = base.snapshot.as_ref().and_then(|snapshot| snapshot.next_row_id).unwrap_or(0);
        let live = live_files(manifests, scope)?;
        let by_identity: HashMap<FileIdentityRef<'_>, &DataFile> =
            live.iter().map(|file| (FileIdentityRef::of(file), file)).collect();
        let mut removed = HashSet::new();
        for entry in plan.changes.entries.iter().filter(|entry| entry.deleted()) {
            if let Some(file) = by_identity.get(&entry.identity())
                && rows_of(file) != entry.rows_of()
            {
                return Err(
                    conflict("the rows of a file have other ids than when it was read").with("file", entry.name())
                );
            }
            removed.insert(entry.identity());
        }
        let mut before: HashMap<Bucket, Vec<Rows>> = HashMap::new();
        let mut after: HashMap<Bucket, Vec<Rows>> = HashMap::new();
        for file in live.iter().filter(|file| !is_dedicated(file.name())) {
            let Some(rows) = rows_of(file) else { continue };
            let bucket = (scope.key(file.partition())?, file.bucket());
            if !removed.contains(&FileIdentityRef::of(file)) {
                after.entry(bucket.clone()).or_default().push(rows);
            }
            before.entry(bucket).or_default().push(rows);
        }
        let before: HashMap<Bucket, Ranges> =
            before.into_iter().map(|(bucket, rows)| (bucket, Ranges::of(rows.into_iter()))).collect();
        let nothing = Ranges::default();
        let mut old_rows = Vec::new();
        for entry in plan.changes.entries.iter().filter(|entry| !entry.deleted()) {
            let Some(rows) = entry.rows_of() else { continue };
            let bucket = (scope.key(entry.partition())?, entry.bucket());
            let known = before.get(&bucket).unwrap_or(&nothing);
            let dedicated = is_dedicated(entry.name());
            let fits = if plan.kind == CommitKind::Compact {
                known.cover(rows)
            } else if rows.first >= next_row_id {
                true
            } else if dedicated {
                known.contain(rows)
            } else {
                known.has(rows)
            };
            if !fits {
                return Err(conflict(format!(
                    "another commit removed or rewrote the rows {} to {} that this one has columns of; run the statement \
                     again",
                    rows.first,
                    rows.end - 1
                ))
                .with("file", entry.name()));
            }
            if !dedicated {
                after.entry(bucket).or_default().push(rows);
            }
            if rows.first < next_row_id {
                old_rows.push((rows, entry));
            }
        }
        for rows in after.into_values() {
            if let Some(rows) = Ranges::of(rows.into_iter()).overlap() {
                return Err(conflict(format!(
                    "files with other rows would hold the rows {} to {} as well; run the statement again",
                    rows.first,
                    rows.end - 1
                )));
            }
        }
        check_global_indexes(&plan.changes.new_indexes, &live, &plan.changes.entries)?;
        if plan.kind != CommitKind::Compact
            && draft.kind != CommitKind::Compact
            && let Some(read) = self.read_snapshot
        {
            Box::pin(self.check_written_columns(read, base, &old_rows, scope)).await?;
        }
        Ok(())
    }

    /// No commit after `read` may have written a column of rows that this one writes too.
    async fn check_written_columns(
        &self,
        read: i64,
        base: &Base,
        written: &[(Rows, &Change)],
        scope: &Scope,
    ) -> Result<()> {
        if written.is_empty() {
            return Ok(());
        }
        let mut ours = Vec::with_capacity(written.len());
        for (rows, entry) in written {
            let (schema_id, columns) = match entry.parts() {
                Ok(entry) => (entry.file.schema_id, entry.file.write_cols.as_deref()),
                Err((entries, row)) => (entries.schema_id[row], entries.write_cols.get(row).as_deref()),
            };
            ours.push((*rows, self.field_ids(schema_id, columns).await?, entry.name()));
        }
        for snapshot in self.snapshots_after(read, base).await? {
            if snapshot.commit_kind == CommitKind::Compact {
                continue;
            }
            let size = snapshot.delta_manifest_list_size;
            let list = read_manifest_list(&self.table, &snapshot.delta_manifest_list, size).await?;
            let delta = Base::of_manifests(list.to_vec());
            for entries in delta.entries(&self.table, scope).await? {
                for row in
                    (0..entries.len()).filter(|row| entries.kind[*row] != DELETE && entries.first_row_id[*row] >= 0)
                {
                    let rows = Rows::new(entries.first_row_id[row], entries.row_count[row]);
                    if !ours.iter().any(|(written, ..)| written.overlaps(rows)) {
                        continue;
                    }
                    let columns = entries.write_cols.get(row).as_deref();
                    let fields = self.field_ids(entries.schema_id[row], columns).await?;
                    let clash = ours
                        .iter()
                        .find(|(written, columns, _)| written.overlaps(rows) && !columns.is_disjoint(&fields));
                    if let Some((_, _, name)) = clash {
                        return Err(conflict(format!(
                            "snapshot {} wrote the same columns of the same rows; run the statement again",
                            snapshot.id
                        ))
                        .with("file", *name));
                    }
                }
            }
        }
        Ok(())
    }

    /// The ids of the columns that a file holds.
    async fn field_ids(&self, schema_id: i64, columns: Option<&[String]>) -> Result<HashSet<i32>> {
        let schema = self.table.schema_at(schema_id).await?;
        let fields = schema.fields.iter();
        Ok(match columns {
            None => fields.map(|field| field.id).collect(),
            Some(names) => fields.filter(|field| names.contains(&field.name)).map(|field| field.id).collect(),
        })
    }
}

/// A global index may only speak of rows that are there.
fn check_global_indexes(indexes: &[IndexEntry], live: &[DataFile], entries: &[Change]) -> Result<()> {
    let mut ranges = None;
    for index in indexes {
        let Some(global) = &index.global_index else { continue };
        let ranges = ranges.get_or_insert_with(|| {
            let removed: HashSet<_> = entries.iter().filter(|entry| entry.deleted()).map(Change::identity).collect();
            let kept = live.iter().filter(|file| !removed.contains(&FileIdentityRef::of(file))).filter_map(rows_of);
            Ranges::of(kept.chain(entries.iter().filter(|entry| !entry.deleted()).filter_map(Change::rows_of)))
        });
        let rows = Rows { first: global.row_range_start, end: global.row_range_end.saturating_add(1) };
        if rows.first > rows.end {
            return Err(Error::invalid("a global index of no rows").with("index file", index.file_name.clone()));
        }
        if !ranges.cover(rows) {
            return Err(conflict("another commit removed rows that a new index speaks of; build it again")
                .with("index file", index.file_name.clone()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_when_asked_then_had_contained_or_covered() {
        let rows = |first, end| Rows { first, end };
        let ranges = Ranges::of([rows(10, 20), rows(0, 10), rows(30, 40), rows(0, 10)].into_iter());
        assert_eq!(ranges.0.len(), 3);
        assert!(ranges.has(rows(10, 20)) && !ranges.has(rows(10, 19)));
        assert!(ranges.contain(rows(12, 20)) && !ranges.contain(rows(5, 15)) && !ranges.contain(rows(25, 26)));
        assert!(ranges.cover(rows(5, 15)) && ranges.cover(rows(0, 20)) && ranges.cover(rows(3, 3)));
        assert!(!ranges.cover(rows(15, 31)) && !ranges.cover(rows(20, 30)) && !ranges.cover(rows(39, 41)));
        assert_eq!(ranges.overlap(), None);
        assert_eq!(Ranges::of([rows(0, 10), rows(9, 12)].into_iter()).overlap(), Some(rows(9, 12)));
    }
}
