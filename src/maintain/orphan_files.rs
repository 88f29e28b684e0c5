//! Cleaning of files that nothing refers to (`spec/metadata.md 10.3`): what failed writes, killed expiries and dropped branches
//! left.
//!
//! ```text
//! all branches: snapshots, tags, changelogs --manifests--> names in use, as hashes         used()
//! manifest/ index/ statistics/ <partition>/bucket-*/ .. --list--> old files of other names  deleted, a thousand at a time
//! ```
//! Only hashes of the names in use are held, and the folders are listed as a stream: a table of a million files is cleaned in
//! some ten megabytes. Two names of one hash make a file stay. What cannot be read ends the cleaning before anything is
//! deleted. Folders outside of the table's are never looked at, and a folder is only removed when nothing is in it.
//!
//! May import: `error`, `options`, `spec`, `store`, `table`, `plan`.

use std::collections::{BTreeSet, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};
use object_store::ObjectStore;
use object_store::path::Path;

use super::references::{Branch, CONCURRENCY, changelog_manifests, manifest_entries};
use crate::error::{Error, ErrorKind, Result};
use crate::plan::{read_index_manifest, read_manifest_list};
use crate::spec::partition::escape;
use crate::spec::{ManifestMeta, Snapshot};
use crate::store::{Schemas, Snapshots, TableFiles, Tag, Unfinished};
use crate::table::Table;

/// Folders that are listed at once unless told otherwise.
const PARALLELISM: usize = 8;

/// Files that are deleted together.
const BATCH: usize = 1000;

/// Attempts to read metadata before the cleaning is given up.
const ATTEMPTS: usize = 3;

/// Files younger than this may belong to a write that is under way.
pub const DEFAULT_AGE_MILLIS: i64 = 24 * 60 * 60 * 1000;

/// What is to be cleaned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrphanRequest {
    /// Files that were written at this time or later stay, epoch milliseconds.
    pub older_than: i64,
    /// Whether files are only counted.
    pub dry_run: bool,
    /// Folders that are listed at once; 0 for as many as is usual.
    pub parallelism: usize,
}

/// What was cleaned, or would be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Orphans {
    /// Files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files that are still there because the store failed.
    pub left: u64,
}

impl Orphans {
    /// Adds those of another table.
    pub fn add(&mut self, other: Self) {
        self.files += other.files;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.left += other.left;
    }
}

/// Deletes the old files of a table that no snapshot, tag, changelog or branch refers to.
///
/// # Errors
/// Invalid for a time that is not in the past: files that are being written would go; corrupt or Io when metadata can't be read,
/// and nothing is deleted then; Io when a folder can't be listed.
pub async fn remove_orphan_files(table: &Table, request: OrphanRequest, now: i64) -> Result<Orphans> {
    let removed = async {
        if request.older_than >= now {
            return Err(Error::invalid(
                "older_than has to be in the past: files that are being written at this moment are in no snapshot yet",
            ));
        }
        let used = Box::pin(used(table)).await?;
        Box::pin(sweep(table, &request, &used)).await
    };
    removed.await.map_err(|error| table.at(error))
}

/// The names of files in use.
struct Used {
    hasher: RandomState,
    hashes: HashSet<u64>,
    branches: Vec<Branch>,
}

impl Used {
    fn add(&mut self, name: &[u8]) {
        self.hashes.insert(self.hasher.hash_one(name));
        if let Some(real) = holder_of(name) {
            self.hashes.insert(self.hasher.hash_one(real.as_bytes()));
        }
    }

    fn has(&self, name: &[u8]) -> bool {
        self.hashes.contains(&self.hasher.hash_one(name))
    }
}

/// The file that holds a changelog whose name only stands for a part of it (`spec/data.md 1.8`).
fn holder_of(name: &[u8]) -> Option<String> {
    let name = std::str::from_utf8(name).ok()?;
    let (base, rest) = name.strip_prefix("compacted-changelog-")?.split_once('$')?;
    let (place, extension) = rest.split_once('.')?;
    let parts: Vec<&str> = place.split('-').collect();
    match parts.as_slice() {
        [bucket, length, _, _] => Some(format!("compacted-changelog-{base}${bucket}-{length}.{extension}")),
        _ => None,
    }
}

/// What anything of the table refers to.
async fn used(table: &Table) -> Result<Used> {
    let branches = steadily(|| Branch::all(table)).await?;
    let mut used = Used { hasher: RandomState::new(), hashes: HashSet::new(), branches: Vec::new() };
    // Names in full: of two with one hash the second would not be read.
    let mut manifests: HashSet<String> = HashSet::new();
    for branch in branches {
        let schemas = Schemas::new(Arc::clone(&branch.files), Arc::clone(table.caches()));
        if steadily(|| schemas.latest_id()).await?.is_none() {
            let name = branch.name.as_deref().unwrap_or("main");
            return Err(Error::corrupt(format!(
                "branch {name} has no schema, so that nobody knows what belongs to it"
            )));
        }
        for tag in steadily(|| tags_of(&branch)).await? {
            let path = branch.files.tag_path(&tag.name)?;
            let holder = Holder { table: &branch.files, path: &path, shows: Shows::State };
            add_state(table, &tag.snapshot, &holder, &mut used, &mut manifests).await?;
        }
        for (history, shows) in [(&branch.snapshots, Shows::State), (&branch.changelogs, Shows::Changelog)] {
            let ids = all_ids(history).await?;
            let loads: Vec<_> = ids.into_iter().map(|id| steadily(move || history.find(id))).collect();
            let mut loads = futures::stream::iter(loads).buffered(CONCURRENCY);
            while let Some(state) = loads.try_next().await? {
                if let Some(state) = state {
                    let path = history.path(state.id);
                    let holder = Holder { table: &branch.files, path: &path, shows };
                    add_state(table, &state, &holder, &mut used, &mut manifests).await?;
                }
            }
        }
        used.branches.push(branch);
    }
    Ok(used)
}

/// The tags of a branch. Listed twice, as branches are.
async fn tags_of(branch: &Branch) -> Result<Vec<Arc<Tag>>> {
    let mut found = branch.tags.list().await?;
    for tag in branch.tags.list().await? {
        if !found.contains(&tag) {
            found.push(tag);
        }
    }
    Ok(found)
}

/// All ids of a history: what is listed, twice, and whatever a list may have left out: ids in between, before and after.
async fn all_ids(history: &Snapshots) -> Result<Vec<i64>> {
    let mut ids: BTreeSet<i64> = steadily(|| history.ids()).await?.into_iter().collect();
    ids.extend(steadily(|| history.ids()).await?);
    ids.extend(steadily(|| history.latest_id()).await?);
    ids.extend(steadily(|| history.earliest_id()).await?);
    let (Some(first), Some(last)) = (ids.first().copied(), ids.last().copied()) else { return Ok(Vec::new()) };
    let mut first = first;
    while first > 1 && steadily(|| history.find(first - 1)).await?.is_some() {
        first -= 1;
    }
    // Where ids are far apart the ones between were never there.
    if last - first < 4 * ids.len() as i64 + 1000 {
        return Ok((first..=last).collect());
    }
    ids.extend(first..=ids.first().copied().unwrap_or(first));
    Ok(ids.into_iter().collect())
}

/// Asks again when the store fails.
async fn steadily<T, F: Future<Output = Result<T>>>(ask: impl Fn() -> F) -> Result<T> {
    let mut attempt = 1;
    loop {
        match ask().await {
            Err(error) if error.kind() == ErrorKind::Io && attempt < ATTEMPTS => {
                tokio::time::sleep(std::time::Duration::from_millis(100 * attempt as u64)).await;
                attempt += 1;
            }
            answer => return answer,
        }
    }
}

/// The file that refers to what is read.
struct Holder<'a> {
    table: &'a TableFiles,
    path: &'a Path,
    shows: Shows,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shows {
    /// A state of the table: all of it is there as long as the file is.
    State,
    /// A long-lived changelog, whose snapshot took some of it away.
    Changelog,
}

impl Holder<'_> {
    /// What is read, or nothing when it is gone because whoever expires at the same time took it away: then its holder went
    /// first.
    ///
    /// # Errors
    /// Not found when it is gone and its holder is not: nobody knows what belongs to that one.
    async fn unless_gone<T: Default, F: Future<Output = Result<T>>>(&self, ask: impl Fn() -> F) -> Result<T> {
        match steadily(&ask).await {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            answer => return answer,
        }
        // An answer that is wrong for a moment would have needed files deleted.
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        match steadily(&ask).await {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                if self.shows == Shows::State && steadily(|| self.table.exists(self.path)).await? {
                    let holder = self.path.filename().unwrap_or_default().to_owned();
                    return Err(error.with("needed by", holder));
                }
                Ok(T::default())
            }
            answer => answer,
        }
    }
}

async fn add_state(
    table: &Table,
    state: &Snapshot,
    holder: &Holder<'_>,
    used: &mut Used,
    manifests: &mut HashSet<String>,
) -> Result<()> {
    let mut unseen: Vec<ManifestMeta> = Vec::new();
    let (base, base_size) = (&state.base_manifest_list, state.base_manifest_list_size);
    let (delta, delta_size) = (&state.delta_manifest_list, state.delta_manifest_list_size);
    let base = holder.unless_gone(|| read_manifest_list(table, base, base_size)).await?;
    let delta = holder.unless_gone(|| read_manifest_list(table, delta, delta_size)).await?;
    let changelog = holder.unless_gone(|| changelog_manifests(table, state)).await?;
    for meta in base.iter().chain(delta.iter()).chain(changelog.iter()) {
        if manifests.insert(meta.file_name.clone()) {
            used.add(meta.file_name.as_bytes());
            unseen.push(meta.clone());
        }
    }
    let names =
        [Some(&state.base_manifest_list), Some(&state.delta_manifest_list), state.changelog_manifest_list.as_ref()];
    for name in names.into_iter().chain([state.index_manifest.as_ref(), state.statistics.as_ref()]).flatten() {
        used.add(name.as_bytes());
    }
    if let Some(name) = &state.index_manifest
        && manifests.insert(name.clone())
    {
        for entry in holder.unless_gone(|| read_index_manifest(table, name)).await?.iter() {
            used.add(entry.file_name.as_bytes());
        }
    }
    let reads: Vec<_> = unseen
        .iter()
        .map(|meta| holder.unless_gone(move || async move { manifest_entries(table, meta).await }))
        .collect();
    let mut reads = futures::stream::iter(reads).buffered(CONCURRENCY);
    while let Some(entries) = reads.try_next().await? {
        for row in 0..entries.len() {
            used.add(entries.file_name.get(row));
        }
        for extras in &entries.extra_files.values {
            for extra in extras.iter() {
                used.add(extra.as_bytes());
            }
        }
    }
    Ok(())
}

/// A folder that is listed.
struct Place {
    folder: Path,
    kind: PlaceKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PlaceKind {
    /// All files right in it are the table's.
    Flat,
    /// Buckets are below it, or it is one.
    Data,
    /// Snapshots or changelogs: they and their hints stay, whatever else is there was never finished.
    History,
}

async fn sweep(table: &Table, request: &OrphanRequest, used: &Used) -> Result<Orphans> {
    let files = table.files();
    let mut places = vec![
        Place { folder: files.manifest_dir(), kind: PlaceKind::Flat },
        Place { folder: files.index_dir(), kind: PlaceKind::Flat },
        Place { folder: files.statistics_dir(), kind: PlaceKind::Flat },
    ];
    for branch in &used.branches {
        places.push(Place { folder: branch.files.snapshot_dir(), kind: PlaceKind::History });
        places.push(Place { folder: branch.files.changelog_dir(), kind: PlaceKind::History });
    }
    let shape = DataShape::of(table);
    for name in files.list_folders(files.data_dir()).await? {
        if shape.fits_at(0, &name) {
            places.push(Place { folder: files.data_dir().clone().join(name), kind: PlaceKind::Data });
        }
    }
    let parallelism = if request.parallelism == 0 { PARALLELISM } else { request.parallelism };
    let sweeps: Vec<_> = places.iter().map(|place| sweep_place(table, request, used, &shape, place)).collect();
    let mut sweeps = futures::stream::iter(sweeps).buffer_unordered(parallelism);
    let mut found = Orphans::default();
    while let Some(swept) = sweeps.try_next().await? {
        found.add(swept);
    }
    Ok(found)
}

/// Where the data files of a table lie: a folder `key=value` for each partition column, then one of a bucket.
struct DataShape {
    depth: usize,
    partitions: Vec<String>,
}

impl DataShape {
    fn of(table: &Table) -> Self {
        let partitions = table.schema().partition_keys.iter().map(|key| {
            let mut prefix = String::new();
            escape(key, &mut prefix);
            prefix.push('=');
            prefix
        });
        let parts = |path: &Path| path.parts().count();
        Self { depth: parts(table.files().data_dir()), partitions: partitions.collect() }
    }

    fn fits_at(&self, level: usize, name: &str) -> bool {
        match self.partitions.get(level) {
            Some(prefix) => name.starts_with(prefix.as_str()),
            None => level == self.partitions.len() && name.starts_with("bucket-"),
        }
    }

    /// Whether a file lies right in a bucket.
    fn is_data_file(&self, path: &Path) -> bool {
        let parts: Vec<_> = path.parts().skip(self.depth).collect();
        parts.len() == self.partitions.len() + 2
            && parts[..parts.len() - 1].iter().enumerate().all(|(level, part)| self.fits_at(level, part.as_ref()))
    }
}

async fn sweep_place(
    table: &Table,
    request: &OrphanRequest,
    used: &Used,
    shape: &DataShape,
    place: &Place,
) -> Result<Orphans> {
    let files = table.files();
    let mut found = Orphans::default();
    let mut batch = Vec::new();
    let mut folders = BTreeSet::new();
    let depth = place.folder.parts().count();
    let mut listed = files.store().list(Some(&place.folder));
    while let Some(file) = listed.next().await {
        let file = match file {
            Ok(file) => file,
            Err(error) => match files.store_failure(&place.folder, error) {
                Some(error) => return Err(error),
                None => continue,
            },
        };
        let Some(name) = file.location.filename() else { continue };
        let is_candidate = match place.kind {
            PlaceKind::Flat => file.location.parts().count() == depth + 1,
            PlaceKind::Data => shape.is_data_file(&file.location),
            PlaceKind::History => file.location.parts().count() == depth + 1 && is_unfinished(name),
        };
        if !is_candidate || file.last_modified.timestamp_millis() >= request.older_than || used.has(name.as_bytes()) {
            continue;
        }
        found.files += 1;
        found.bytes = found.bytes.saturating_add(file.size);
        if !request.dry_run {
            folders.extend(file.location.parent().filter(|_| place.kind == PlaceKind::Data));
            batch.push(file.location);
            if batch.len() == BATCH {
                found.left += files.delete_many(std::mem::take(&mut batch)).await as u64;
            }
        }
    }
    drop(listed);
    found.left += files.delete_many(batch).await as u64;
    for file in Unfinished::below(files.root(), &place.folder, request.older_than).await? {
        let is_candidate = match place.kind {
            PlaceKind::Flat | PlaceKind::History => file.location.parts().count() == depth + 1,
            PlaceKind::Data => shape.is_data_file(&file.location),
        };
        if !is_candidate {
            continue;
        }
        found.files += 1;
        found.bytes = found.bytes.saturating_add(file.bytes);
        if !request.dry_run {
            folders.extend(file.location.parent().filter(|_| place.kind == PlaceKind::Data));
            found.left += u64::from(!file.delete().await);
        }
    }
    found.files -= found.left.min(found.files);
    for folder in folders {
        let mut folder = Some(folder);
        // The bucket, then the partitions above it, as far as they are empty.
        for _ in 0..=shape.partitions.len() {
            let Some(empty) = folder.filter(|folder| folder.parts().count() > shape.depth) else { break };
            if !files.remove_if_empty(&empty).await {
                break;
            }
            folder = empty.parent();
        }
    }
    Ok(found)
}

/// Whether a file among snapshots or changelogs is none of them: a writer that died left it half written.
fn is_unfinished(name: &str) -> bool {
    !name.starts_with("snapshot-") && !name.starts_with("changelog-") && !matches!(name, "LATEST" | "EARLIEST")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holder_of_when_name_stands_for_a_part_then_the_whole_file() {
        let part = "compacted-changelog-0a-b$3-100-20-30.cc-parquet";
        assert_eq!(holder_of(part.as_bytes()).as_deref(), Some("compacted-changelog-0a-b$3-100.cc-parquet"));
        for whole in ["compacted-changelog-0a-b$3-100.cc-parquet", "data-0a-0.parquet", "compacted-changelog-x"] {
            assert_eq!(holder_of(whole.as_bytes()), None, "{whole}");
        }
    }

    #[test]
    fn is_unfinished_when_snapshot_or_hint_then_not() {
        for name in ["snapshot-1", "changelog-7", "LATEST", "EARLIEST", "snapshot-x"] {
            assert!(!is_unfinished(name), "{name}");
        }
        for name in [".snapshot-3.0b2c.tmp", ".tidelake-create-1", "other"] {
            assert!(is_unfinished(name), "{name}");
        }
    }
}
