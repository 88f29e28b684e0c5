//! Merging of manifests, so that a table of many small commits has few of them (`spec/metadata.md 6`).
//!
//! *Full*: when small manifests and those with DELETE entries weigh enough, all of them are rewritten without what was
//! deleted. *Minor*: when many small ones have come together, the last ones are merged into one. An older one is merged with
//! them only if it is not much bigger than they are together, so that an entry is rewritten a logarithmic number of times.
//! Entries go from columns to bytes one by one; of a full merge only DELETE entries are in memory together.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use futures::{Stream, StreamExt, TryStreamExt};

use super::TableCommit;
use super::base::{Base, DELETE};
use super::new_files::{ManifestWriter, NewFiles};
use super::scope::Scope;
use crate::error::{Error, Result};
use crate::options::CommitOptions;
use crate::plan::{manifest_key, read_manifest_file};
use crate::spec::{FileIdentityRef, ManifestEntries, ManifestFile, ManifestMeta};
use crate::table::Table;

/// Manifests read ahead.
const CONCURRENCY: usize = 4;

/// A manifest of so few entries is merged with fewer.
const FEW_ENTRIES: i64 = 100;

/// Manifests, merged.
pub(super) struct Merged<'a> {
    /// Names of the manifests that were there.
    inputs: Vec<String>,
    /// What takes their place.
    pub manifests: Vec<ManifestMeta>,
    /// The files that were written for it.
    pub files: NewFiles<'a>,
    /// Manifests that are gone.
    pub merged: usize,
    /// Manifests that came.
    pub written: usize,
}

impl Merged<'_> {
    /// The manifests of a later base with the merged ones in their place; `None` when those are no longer in it.
    pub(super) fn apply(&self, base: &Base) -> Option<Vec<ManifestMeta>> {
        let names: Vec<&str> = base.manifests.iter().map(|meta| meta.file_name.as_str()).collect();
        let at = names.windows(self.inputs.len()).position(|window| window.iter().eq(self.inputs.iter()))?;
        let (before, after) = (&base.manifests[..at], &base.manifests[at + self.inputs.len()..]);
        Some(before.iter().chain(&self.manifests).chain(after).cloned().collect())
    }
}

/// Merges the manifests of `base` if it is time to, or if there is anything to gain at all with `force`. `None` when they
/// stay as they are.
pub(super) async fn merge<'a>(commit: &'a TableCommit, base: &Base, force: bool) -> Result<Option<Merged<'a>>> {
    let metas = &base.manifests;
    let files = NewFiles::new(commit);
    let result =
        if force || full_is_due(metas, &commit.options) { full(commit, metas, &files).await } else { Ok(None) };
    let result = match result {
        Ok(None) if !force => minor(commit, metas, &files).await,
        other => other,
    };
    let manifests = match result {
        Ok(Some(manifests)) => manifests,
        other => {
            files.own.remove().await;
            return other.map(|_| None);
        }
    };
    let inputs: Vec<String> = metas.iter().map(|meta| meta.file_name.clone()).collect();
    let before: HashSet<&String> = inputs.iter().collect();
    let written = manifests.iter().filter(|meta| !before.contains(&meta.file_name)).count();
    let merged = inputs.len() - (manifests.len() - written);
    Ok(Some(Merged { inputs, manifests, files, merged, written }))
}

/// How many manifests would be written anew if all of them were merged now, besides those of files that were deleted since.
pub(super) fn mergeable(metas: &[ManifestMeta], options: &CommitOptions) -> usize {
    let rest: Vec<&ManifestMeta> = metas.iter().filter(|meta| must_change(meta, options)).collect();
    if rest.len() <= 1 && rest.iter().all(|meta| meta.num_deleted_files == 0) { 0 } else { rest.len() }
}

/// Whether a manifest is to be rewritten when there is a reason.
fn must_change(meta: &ManifestMeta, options: &CommitOptions) -> bool {
    meta.num_deleted_files > 0 || size(meta) < options.manifest_target_size
}

fn size(meta: &ManifestMeta) -> u64 {
    u64::try_from(meta.file_size).unwrap_or(0)
}

fn entries(meta: &ManifestMeta) -> i64 {
    meta.num_added_files.saturating_add(meta.num_deleted_files)
}

/// Whether what can be rewritten weighs enough. One manifest that outweighs the rest, which a small threshold could choose
/// at every commit, has to wait for more.
fn full_is_due(metas: &[ManifestMeta], options: &CommitOptions) -> bool {
    let dirty = || metas.iter().filter(|meta| must_change(meta, options));
    let total: u64 = dirty().map(size).sum();
    let biggest = dirty().filter(|meta| meta.num_deleted_files == 0).map(size).max().unwrap_or(0);
    total >= options.manifest_full_size && (total - biggest) >= total / 8
}

/// Rewrites all that is small or has DELETE entries, without what was deleted. `None` when there is nothing to gain.
async fn full(commit: &TableCommit, metas: &[ManifestMeta], files: &NewFiles<'_>) -> Result<Option<Vec<ManifestMeta>>> {
    let (table, options) = (&*commit.table, &commit.options);
    let with_deletes = metas.iter().filter(|meta| meta.num_deleted_files > 0);
    let deletes: Vec<_> = read_all(table, with_deletes, Some(DELETE)).try_collect().await?;
    let partitions = deletes.iter().flat_map(|entries| entries.partition.values.iter().map(|row| &**row));
    let may_match = if deletes.is_empty() {
        vec![false; metas.len()]
    } else {
        Scope::rows(table.schema(), partitions)?.manifests(metas)?
    };
    let deleted: HashSet<FileIdentityRef<'_>> = deletes
        .iter()
        .flat_map(|entries| {
            let rows = (0..entries.len()).filter(|row| entries.kind[*row] == DELETE);
            rows.map(|row| FileIdentityRef::of_row(entries, row))
        })
        .collect();
    let (mut kept, mut rest) = (Vec::new(), Vec::new());
    for (meta, may_match) in metas.iter().zip(may_match) {
        if must_change(meta, options) || may_match { rest.push(meta) } else { kept.push(meta.clone()) }
    }
    if rest.len() <= 1 && rest.iter().all(|meta| meta.num_deleted_files == 0) {
        return Ok(None);
    }
    let mut writer = ManifestWriter::new(files)?;
    let mut reads = read_all(table, rest.iter().copied(), None);
    for meta in &rest {
        let Some(entries) = reads.try_next().await? else { break };
        let is_live =
            |row: &usize| entries.kind[*row] != DELETE && !deleted.contains(&FileIdentityRef::of_row(&entries, *row));
        if !must_change(meta, options) && (0..entries.len()).all(|row| is_live(&row)) {
            kept.push((*meta).clone());
            continue;
        }
        for row in 0..entries.len() {
            if is_live(&row) {
                writer.encoder.push_row(&entries, row, false)?;
                writer.roll().await?;
            } else if entries.kind[row] == DELETE && meta.num_deleted_files == 0 {
                // The list lies about this manifest; what it deletes must not come back.
                return Ok(None);
            }
        }
    }
    kept.append(&mut writer.finish().await?);
    Ok(Some(kept))
}

/// Merges the last ones of many small manifests. `None` when there are not many.
async fn minor(
    commit: &TableCommit,
    metas: &[ManifestMeta],
    files: &NewFiles<'_>,
) -> Result<Option<Vec<ManifestMeta>>> {
    let groups = groups(metas, &commit.options);
    if groups.is_empty() {
        return Ok(None);
    }
    let (mut merged, mut next) = (Vec::with_capacity(metas.len()), 0);
    for group in groups {
        merged.extend_from_slice(&metas[next..group.start]);
        merged.append(&mut merge_group(commit, &metas[group.clone()], files).await?);
        next = group.end;
    }
    merged.extend_from_slice(&metas[next..]);
    Ok(Some(merged))
}

/// The runs of manifests to merge, each of two or more.
fn groups(metas: &[ManifestMeta], options: &CommitOptions) -> Vec<Range<usize>> {
    let small = |meta: &ManifestMeta| size(meta) < options.manifest_target_size;
    let (mut groups, mut start) = (Vec::new(), 0);
    while start < metas.len() {
        let length = metas[start..].iter().take_while(|meta| small(meta)).count();
        let run = start..start + length;
        start = run.end + 1;
        let total: u64 = metas[run.clone()].iter().map(size).sum();
        if total >= options.manifest_target_size && run.len() > 1 {
            groups.push(run);
        } else if run.len() >= options.manifest_merge_count.max(2) {
            let (mut first, mut sum) = (run.end, 0i64);
            while first > run.start && entries(&metas[first - 1]) <= sum.saturating_mul(2).max(FEW_ENTRIES) {
                first -= 1;
                sum = sum.saturating_add(entries(&metas[first]));
            }
            if run.end - first > 1 {
                groups.push(first..run.end);
            }
        }
    }
    groups
}

/// Merges a run of manifests: files that were added and deleted in it are gone, those deleted in it and added before it
/// stay deleted.
async fn merge_group(commit: &TableCommit, metas: &[ManifestMeta], files: &NewFiles<'_>) -> Result<Vec<ManifestMeta>> {
    let manifests: Vec<_> = read_all(&commit.table, metas.iter(), None).try_collect().await?;
    let rows = |deleted: bool| {
        manifests.iter().flat_map(move |entries| {
            let rows = (0..entries.len()).filter(move |row| (entries.kind[*row] == DELETE) == deleted);
            rows.map(move |row| FileIdentityRef::of_row(entries, row))
        })
    };
    let deleted: HashSet<_> = rows(true).collect();
    let cancelled: HashSet<_> =
        if deleted.is_empty() { HashSet::new() } else { rows(false).filter(|file| deleted.contains(file)).collect() };
    let mut writer = ManifestWriter::new(files)?;
    for entries in &manifests {
        for row in 0..entries.len() {
            if cancelled.is_empty() || !cancelled.contains(&FileIdentityRef::of_row(entries, row)) {
                writer.encoder.push_row(entries, row, entries.kind[row] == DELETE)?;
                writer.roll().await?;
            }
        }
    }
    writer.finish().await
}

/// [`read`], in order, a few ahead.
fn read_all<'a>(
    table: &'a Table,
    metas: impl Iterator<Item = &'a ManifestMeta>,
    kind: Option<u8>,
) -> impl Stream<Item = Result<Arc<ManifestEntries>>> + Unpin {
    let reads: Vec<_> = metas.map(|meta| Box::pin(read(table, meta, kind))).collect();
    futures::stream::iter(reads).buffered(CONCURRENCY)
}

/// The entries of a manifest, or at least those of one kind. Taken from the cache but not put there: they are about to be
/// written anew.
async fn read(table: &Table, meta: &ManifestMeta, kind: Option<u8>) -> Result<Arc<ManifestEntries>> {
    if let Some(entries) = table.caches().cached(&manifest_key(table, meta)?) {
        return Ok(entries);
    }
    let bytes = read_manifest_file(table, &meta.file_name, Some(meta.file_size)).await?;
    let decode = move || match kind {
        None => ManifestEntries::decode_bytes(bytes),
        Some(kind) => {
            let file = ManifestFile::open(bytes)?;
            let heads = file.heads();
            let rows: Vec<u32> = (0..heads.len() as u32).filter(|row| heads.kind[*row as usize] == kind).collect();
            file.entries(Some(&rows))
        }
    };
    let decoded = tokio::task::spawn_blocking(decode).await;
    let decoded = decoded.map_err(|error| Error::internal("decoding a manifest failed").with_source(error))?;
    Ok(Arc::new(decoded.map_err(|error| error.with("manifest", meta.file_name.clone()))?))
}
