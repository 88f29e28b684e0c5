//! What others committed since, held against what is about to be committed (`spec/metadata.md 7.4`).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::TableCommit;
use super::base::{Base, DELETE};
use super::changes::{Change, Changes};
use super::scope::Scope;
use super::source::{Draft, Plan, Source};
use crate::error::{Error, ErrorKind, Result};
use crate::spec::binary_row::KeyComparator;
use crate::spec::{CommitKind, DataType, FileIdentityRef, ManifestEntries};

/// Another commit was there first, in a way that this one can't follow.
pub(super) fn conflict(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Conflict, message)
}

impl TableCommit {
    /// Checks a plan against its base.
    ///
    /// # Errors
    /// Conflict when they do not go together.
    pub(super) async fn check(&self, draft: &Draft<'_>, plan: &Plan, base: &Base) -> Result<()> {
        if !matches!(draft.source, Source::Fixed(_) | Source::Replace { .. }) {
            return Ok(());
        }
        Box::pin(self.check_strict(plan, base)).await?;
        self.check_read(draft, plan, base).await?;
        if let Some(known) = self.known_keys
            && plan.kind != CommitKind::Compact
        {
            self.check_known_keys(known, plan, base).await?;
        }
        if let Some(known) = plan.changes.looked_up {
            self.check_lookups(known, plan, base).await?;
        }
        check_delta(&plan.changes)?;
        if !matches!(draft.source, Source::Replace { .. }) {
            self.check_bucket_counts(&plan.changes, base).await?;
        }
        let is_checked = draft.check
            || plan.kind != CommitKind::Append
            || plan.changes.new_indexes.iter().any(|index| index.global_index.is_some())
            || (self.table.settings().data_evolution
                && (self.read_snapshot.is_some() || plan.changes.entries.iter().any(Change::has_row_ids)));
        if !is_checked || plan.changes.is_empty() {
            return Ok(());
        }
        let scope = plan.changes.scope(self.table.schema())?;
        let entries = base.entries(&self.table, &scope).await?;
        let found = Found::new(self, &plan.changes, &entries, &scope)?;
        found.check_entries(&plan.changes)?;
        found.check_vectors(&plan.changes, base)?;
        if self.table.schema().has_primary_key() && !self.table.settings().pk_clustering_override {
            found.check_key_ranges(&plan.changes, &scope, &self.key_types())?;
        }
        if self.table.settings().data_evolution {
            self.check_row_ranges(draft, plan, base, &entries, &scope).await?;
        }
        Ok(())
    }

    pub(super) fn key_types(&self) -> Vec<DataType> {
        self.table.schema().trimmed_primary_keys().iter().map(|field| field.data_type.clone()).collect()
    }

    /// All files of a partition have to be of the same number of buckets, or a key could be in two of them. The newest
    /// entries tell: manifests are read from the end until each partition has shown its number.
    async fn check_bucket_counts(&self, changes: &Changes, base: &Base) -> Result<()> {
        let added = changes.entries.iter().filter(|entry| !entry.deleted() && entry.total_buckets() > 0);
        let added: Vec<&Change> = added.collect();
        if added.is_empty() {
            return Ok(());
        }
        let scope = Scope::rows(self.table.schema(), added.iter().map(|entry| &**entry.partition()))?;
        let mut wanted: HashMap<Vec<u8>, &Change> = HashMap::new();
        for &entry in &added {
            let first = *wanted.entry(scope.key(entry.partition())?).or_insert(entry);
            if first.total_buckets() != entry.total_buckets() {
                return Err(bucket_conflict(first.total_buckets(), entry));
            }
        }
        let kept = scope.manifests(&base.manifests)?;
        let metas: Vec<_> = base.manifests.iter().zip(kept).filter(|(_, kept)| *kept).map(|(meta, _)| meta).collect();
        let mut newest: Vec<Arc<ManifestEntries>> = Vec::new();
        while !wanted.is_empty() && newest.len() < metas.len() {
            for _ in 0..newest.len().max(1).min(metas.len() - newest.len()) {
                newest.push(base.manifest(&self.table, metas[metas.len() - 1 - newest.len()], &scope).await?);
            }
            for (partition, buckets) in newest_bucket_counts(&newest, &scope)? {
                if let Some(entry) = wanted.remove(&partition)
                    && entry.total_buckets() != buckets
                {
                    return Err(bucket_conflict(buckets, entry));
                }
            }
        }
        Ok(())
    }

    /// Moves the new files of an overwrite to the top level where that is right: nothing else is in their buckets then, and
    /// they do not overlap (`spec/metadata.md 7.2`).
    pub(super) fn upgrade(&self, changes: &mut Changes) -> Result<()> {
        let settings = self.table.settings();
        let schema = self.table.schema();
        if !schema.has_primary_key() || !self.options.overwrite_upgrade || settings.pk_clustering_override {
            return Ok(());
        }
        if changes.entries.iter().any(|entry| entry.level() != 0 || entry.bucket() < 0) {
            return Ok(());
        }
        let keys = KeyComparator::new(&self.key_types())?;
        let mut buckets: HashMap<(&Arc<[u8]>, i32), Vec<Ranged<'_>>> = HashMap::new();
        for entry in &changes.entries {
            buckets.entry((entry.partition(), entry.bucket())).or_default().push(Ranged::of(entry));
        }
        for files in buckets.values() {
            if first_overlap(files, &keys)?.is_some() {
                return Ok(());
            }
        }
        for entry in &mut changes.entries {
            entry.file_mut().level = settings.num_levels - 1;
        }
        Ok(())
    }
}

fn bucket_conflict(buckets: i32, entry: &Change) -> Error {
    conflict(format!(
        "the partition has {buckets} buckets, but rows were written to it for {}; write them again, or overwrite the \
         partition to give it another number of buckets",
        entry.total_buckets()
    ))
    .with("file", entry.name())
}

/// The number of buckets that each partition of `scope` has by its newest live file. `manifests` from the newest on.
fn newest_bucket_counts(manifests: &[Arc<ManifestEntries>], scope: &Scope) -> Result<Vec<(Vec<u8>, i32)>> {
    let mut deleted: HashSet<FileIdentityRef<'_>> = HashSet::new();
    let mut counts: HashMap<Vec<u8>, i32> = HashMap::new();
    for entries in manifests {
        let allowed = scope.allows(&entries.partition.values)?;
        let mut seen = vec![false; allowed.len()];
        for row in (0..entries.len()).rev() {
            let partition = entries.partition.keys[row] as usize;
            if !allowed[partition] || seen[partition] {
                continue;
            }
            if entries.kind[row] == DELETE {
                deleted.insert(FileIdentityRef::of_row(entries, row));
            } else if entries.total_buckets[row] > 0 && !deleted.contains(&FileIdentityRef::of_row(entries, row)) {
                let key = scope.key(&entries.partition.values[partition])?;
                counts.entry(key).or_insert(entries.total_buckets[row]);
                seen[partition] = true;
            }
        }
    }
    Ok(counts.into_iter().collect())
}

/// A delta may name a file once, but for one that it adds and then removes.
fn check_delta(changes: &Changes) -> Result<()> {
    let mut seen: HashMap<FileIdentityRef<'_>, bool> = HashMap::with_capacity(changes.entries.len());
    for entry in &changes.entries {
        let deleted = entry.deleted();
        match seen.insert(entry.identity(), deleted) {
            None => {}
            Some(false) if deleted => {}
            Some(_) => {
                let what = if deleted { "removed" } else { "added" };
                return Err(conflict(format!("a file is {what} twice by one commit")).with("file", entry.name()));
            }
        }
    }
    Ok(())
}

/// A partition, by its number, a bucket and a level.
type Level = (usize, i32, i32);

/// What the base has of the files, buckets and levels that a delta touches.
pub(super) struct Found<'a> {
    /// How often a file was added, less how often it was removed.
    counts: HashMap<FileIdentityRef<'a>, i64>,
    /// Names of live files among those that the delta names.
    live_names: HashSet<&'a [u8]>,
    /// Live files of levels above 0 that get files.
    levels: HashMap<Level, Vec<(&'a ManifestEntries, usize)>>,
    /// Partitions by [`Scope::key`], numbered.
    partitions: HashMap<Vec<u8>, usize>,
}

impl<'a> Found<'a> {
    fn new(
        commit: &TableCommit,
        changes: &Changes,
        manifests: &'a [Arc<ManifestEntries>],
        scope: &Scope,
    ) -> Result<Self> {
        let vectors = changes.new_indexes.iter().flat_map(|index| index.dv_ranges.iter().flatten());
        let names: HashSet<&[u8]> = changes
            .entries
            .iter()
            .map(|entry| entry.identity().file_name)
            .chain(vectors.map(|range| range.data_file.as_bytes()))
            .collect();
        let mut partitions: HashMap<Vec<u8>, usize> = HashMap::new();
        let mut number = |row: &[u8]| -> Result<usize> {
            let next = partitions.len();
            Ok(*partitions.entry(scope.key(row)?).or_insert(next))
        };
        let mut touched: HashSet<Level> = HashSet::new();
        if commit.table.schema().has_primary_key() {
            for entry in changes.entries.iter().filter(|entry| !entry.deleted() && entry.level() > 0) {
                touched.insert((number(entry.partition())?, entry.bucket(), entry.level()));
            }
        }
        let mut counts: HashMap<FileIdentityRef<'a>, i64> = HashMap::new();
        let mut levels: HashMap<Level, Vec<(&'a ManifestEntries, usize)>> = HashMap::new();
        let mut deleted: HashSet<FileIdentityRef<'a>> = HashSet::new();
        for entries in manifests {
            let allowed = scope.allows(&entries.partition.values)?;
            let numbers = entries
                .partition
                .values
                .iter()
                .zip(allowed)
                .map(|(row, allowed)| if allowed { number(row).map(Some) } else { Ok(None) })
                .collect::<Result<Vec<_>>>()?;
            for row in 0..entries.len() {
                let Some(partition) = numbers[entries.partition.keys[row] as usize] else { continue };
                let is_deleted = entries.kind[row] == DELETE;
                if names.contains(entries.file_name.get(row)) {
                    *counts.entry(FileIdentityRef::of_row(entries, row)).or_default() +=
                        if is_deleted { -1 } else { 1 };
                }
                let level = (partition, entries.bucket[row], entries.level[row]);
                if !touched.is_empty() && touched.contains(&level) {
                    if is_deleted {
                        deleted.insert(FileIdentityRef::of_row(entries, row));
                    } else {
                        levels.entry(level).or_default().push((entries, row));
                    }
                }
            }
        }
        for files in levels.values_mut() {
            files.retain(|(entries, row)| !deleted.contains(&FileIdentityRef::of_row(entries, *row)));
        }
        let live = counts.iter().filter(|(_, count)| **count > 0);
        let live_names = live.map(|(identity, _)| identity.file_name).collect();
        Ok(Self { counts, live_names, levels, partitions })
    }

    fn is_live(&self, file: &FileIdentityRef<'_>) -> bool {
        // The lifetime of a key is that of the manifests; it does not matter for looking one up.
        self.counts.get(file).is_some_and(|count| *count > 0)
    }

    /// What is removed has to be there, what is added must not.
    fn check_entries(&self, changes: &Changes) -> Result<()> {
        let mut added: HashSet<FileIdentityRef<'_>> = HashSet::new();
        for entry in &changes.entries {
            let identity = entry.identity();
            if !entry.deleted() {
                if self.is_live(&identity) {
                    return Err(conflict("a file is in the table already").with("file", entry.name()));
                }
                added.insert(identity);
            } else if !self.is_live(&identity) && !added.contains(&identity) {
                return Err(conflict(
                    "another commit removed or rewrote a file that this one builds on; run the statement again",
                )
                .with("file", entry.name()));
            }
        }
        Ok(())
    }

    /// Files of a level above 0 are in the order of their keys and do not overlap.
    fn check_key_ranges(&self, changes: &Changes, scope: &Scope, types: &[DataType]) -> Result<()> {
        let keys = KeyComparator::new(types)?;
        let removed: HashSet<FileIdentityRef<'_>> =
            changes.entries.iter().filter(|entry| entry.deleted()).map(Change::identity).collect();
        let mut levels: HashMap<Level, Vec<Ranged<'_>>> = HashMap::new();
        for entry in changes.entries.iter().filter(|entry| !entry.deleted() && entry.level() > 0) {
            if removed.contains(&entry.identity()) {
                continue;
            }
            let Some(partition) = self.partitions.get(&scope.key(entry.partition())?) else {
                return Err(Error::internal("a changed partition is not in scope"));
            };
            levels.entry((*partition, entry.bucket(), entry.level())).or_default().push(Ranged::of(entry));
        }
        for (level, files) in &mut levels {
            for (entries, row) in self.levels.get(level).into_iter().flatten() {
                if !removed.contains(&FileIdentityRef::of_row(entries, *row)) {
                    files.push(Ranged::at(entries, *row));
                }
            }
            if let Some((left, right)) = first_overlap(files, &keys)? {
                let (_, bucket, level) = level;
                return Err(conflict(format!(
                    "files {left} and {right} of level {level} in bucket {bucket} hold the same keys: another commit \
                     compacted the bucket"
                )));
            }
        }
        Ok(())
    }

    pub(super) fn is_live_name(&self, name: &str) -> bool {
        self.live_names.contains(name.as_bytes())
    }
}

/// A file with the keys that it spans.
#[derive(Clone, Copy)]
pub(super) struct Ranged<'a> {
    pub(super) name: &'a [u8],
    pub(super) min: &'a [u8],
    pub(super) max: &'a [u8],
}

impl<'a> Ranged<'a> {
    pub(super) fn of(change: &'a Change) -> Self {
        match change.parts() {
            Ok(entry) => {
                Self { name: entry.file.file_name.as_bytes(), min: &entry.file.min_key, max: &entry.file.max_key }
            }
            Err((entries, row)) => Self::at(entries, row),
        }
    }

    pub(super) fn at(entries: &'a ManifestEntries, row: usize) -> Self {
        Self { name: entries.file_name.get(row), min: entries.min_key.get(row), max: entries.max_key.get(row) }
    }
}

/// The names of two files whose keys overlap, if there are such.
fn first_overlap(files: &[Ranged<'_>], keys: &KeyComparator) -> Result<Option<(String, String)>> {
    let mut sorted = Vec::with_capacity(files.len());
    for file in files {
        let (mut min, mut max) = (Vec::new(), Vec::new());
        keys.sort_key(file.min, &mut min)?;
        keys.sort_key(file.max, &mut max)?;
        sorted.push((min, max, file.name));
    }
    sorted.sort_unstable();
    let overlap = sorted.windows(2).find(|pair| pair[0].1 >= pair[1].0);
    let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
    Ok(overlap.map(|pair| (text(pair[0].2), text(pair[1].2))))
}
