//! The files that expiry is about to delete, and what spares them.
//!
//! ```text
//! deltas of what expires --add_deltas--> files that no snapshot from then on has
//!   spare_tagged   files that a tag has
//!   spare_returned files that a later snapshot took back
//!   spare_branches files that other branches have
//! ```
//! What cannot be read makes less go: files that stay although nothing refers to them are orphans, which can be cleaned at any
//! time. Files that are told apart by their names only are taken for the same, as orphan cleaning does.
//!
//! May import: `error`, `options`, `spec`, `store`, `table`, `plan`.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use futures::StreamExt;
use object_store::path::Path;

use super::references::{
    Branch, CONCURRENCY, DELETE, Locator, all_entries, changelog_manifests, delta_manifests, manifest_entries,
    state_manifests,
};
use crate::error::Result;
use crate::plan::read_index_manifest;
use crate::spec::manifest::ManifestEntries;
use crate::spec::{CommitKind, ManifestMeta, Snapshot};
use crate::store::FileKey;
use crate::table::Table;

/// The source of files that a compaction wrote.
const COMPACTED: i8 = 1;

/// File times are wall clocks of their writers: two may lie so far apart and still be the same moment.
const CLOCKS_APART: i64 = 26 * 60 * 60 * 1000;

/// Snapshots whose kind is looked at together.
const LOOKAHEAD: usize = 16;

/// A file that may go.
#[derive(Debug)]
struct Doom {
    /// The file and those that belong to it.
    paths: Vec<Path>,
    bytes: u64,
    /// When it was made, `i64::MIN` where that is not recorded.
    created: i64,
    is_changelog: bool,
}

/// What a manifest adds and removes of the files here, 1 and -1.
type Changes = Vec<(Box<[u8]>, i64)>;

/// Which removed files may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Removed {
    All,
    /// Those that a compaction wrote: the others are the changelog of a table without changelog files.
    Compacted,
}

/// Files that may go, by name.
#[derive(Debug, Default)]
pub(super) struct Doomed {
    files: HashMap<Box<[u8]>, Vec<Doom>>,
    /// Snapshots, tags and branches of which something could not be read, so that their files stay.
    pub(super) unread: usize,
}

impl Doomed {
    /// Whether nothing is to go.
    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Nothing goes.
    pub(super) fn clear(&mut self) {
        self.files.clear();
    }

    /// The files that are left, and their bytes.
    pub(super) fn into_paths(self) -> (Vec<Path>, u64) {
        let mut bytes = 0u64;
        let mut paths = Vec::new();
        for doom in self.files.into_values().flatten() {
            bytes = bytes.saturating_add(doom.bytes);
            paths.extend(doom.paths);
        }
        (paths, bytes)
    }

    /// The folders of the files.
    pub(super) fn folders(&self) -> BTreeSet<Path> {
        self.files.values().flatten().filter_map(|doom| doom.paths.first()?.parent()).collect()
    }

    /// Adds what `snapshots`, in ascending order, removed and none of them took back.
    pub(super) async fn add_deltas(
        &mut self,
        table: &Table,
        locator: &mut Locator<'_>,
        snapshots: &[Arc<Snapshot>],
        removed: Removed,
    ) {
        let reads = snapshots.iter().map(|snapshot| async move {
            let metas = delta_manifests(table, snapshot).await?;
            all_entries(table, &metas).await
        });
        let reads: Vec<_> = reads.collect();
        let mut reads = futures::stream::iter(reads).buffered(CONCURRENCY);
        let mut position = 0;
        while let Some(read) = reads.next().await {
            let added = match read {
                Ok(manifests) => self.add_delta(locator, &manifests, removed),
                Err(error) => Err(error),
            };
            if added.is_err() {
                self.unread += 1;
                // Nobody knows what it took back.
                if snapshots[position].commit_kind == CommitKind::Overwrite {
                    self.clear();
                }
            }
            position += 1;
        }
    }

    fn add_delta(
        &mut self,
        locator: &mut Locator<'_>,
        manifests: &[Arc<ManifestEntries>],
        removed: Removed,
    ) -> Result<()> {
        let mut found = Vec::new();
        let mut kept: HashSet<&[u8]> = HashSet::new();
        for entries in manifests {
            for row in 0..entries.len() {
                if entries.kind[row] != DELETE {
                    // A file that moves to another level is removed and added at once.
                    kept.insert(entries.file_name.get(row));
                } else if removed == Removed::All || entries.file_source[row] == COMPACTED {
                    found.push((entries, row));
                }
            }
        }
        let mut dooms = Vec::with_capacity(found.len());
        for (entries, row) in found {
            let name = entries.file_name.get(row);
            if !kept.contains(name) {
                dooms.push((name, doom(locator, entries, row, false)?));
            }
        }
        for (name, doom) in dooms {
            self.insert(name, doom);
        }
        for name in kept {
            self.files.remove(name);
        }
        Ok(())
    }

    /// Adds the changelog files of `snapshots`.
    pub(super) async fn add_changelogs(
        &mut self,
        table: &Table,
        locator: &mut Locator<'_>,
        snapshots: &[Arc<Snapshot>],
    ) {
        for snapshot in snapshots.iter().filter(|snapshot| snapshot.changelog_manifest_list.is_some()) {
            let read = async {
                let metas = changelog_manifests(table, snapshot).await?;
                all_entries(table, &metas).await
            };
            let added = match read.await {
                Ok(manifests) => self.add_changelog(locator, &manifests),
                Err(error) => Err(error),
            };
            self.unread += usize::from(added.is_err());
        }
    }

    fn add_changelog(&mut self, locator: &mut Locator<'_>, manifests: &[Arc<ManifestEntries>]) -> Result<()> {
        for entries in manifests {
            for row in (0..entries.len()).filter(|row| entries.kind[*row] != DELETE) {
                let doom = doom(locator, entries, row, true)?;
                self.insert(entries.file_name.get(row), doom);
            }
        }
        Ok(())
    }

    fn insert(&mut self, name: &[u8], doom: Doom) {
        let dooms = self.files.entry(name.into()).or_default();
        if dooms.iter().all(|other| other.paths != doom.paths) {
            dooms.push(doom);
        }
    }

    /// Spares the data files that a tag keeps. A file that was taken back was away for a while, so that any tag may have it
    /// whose state is not older than the file: the latest ones are asked first, because they most often tell.
    pub(super) async fn spare_tagged(&mut self, table: &Table, tags: &[Snapshot]) {
        let mut known = HashMap::new();
        let mut latest_first: Vec<&Snapshot> = tags.iter().collect();
        latest_first.sort_by_key(|tag| std::cmp::Reverse(tag.id));
        for tag in latest_first {
            let may_be_in =
                |doom: &Doom| !doom.is_changelog && doom.created <= tag.time_millis.saturating_add(CLOCKS_APART);
            if !self.files.values().flatten().any(may_be_in) {
                continue;
            }
            let live = self.live_of(table, tag, &mut known).await;
            self.unread += usize::from(live.is_err());
            let live = live.ok();
            self.files.retain(|name, dooms| {
                dooms.retain(|doom| !may_be_in(doom) || live.as_ref().is_some_and(|live| !live.contains(name)));
                !dooms.is_empty()
            });
        }
    }

    /// Spares the data files that `state` has.
    pub(super) async fn spare_live(&mut self, table: &Table, state: &Snapshot) -> Result<()> {
        for name in self.live_of(table, state, &mut HashMap::new()).await? {
            self.files.remove(&name);
        }
        Ok(())
    }

    /// Names of the files here that `state` has. `known` has what manifests that states share say of them.
    async fn live_of(
        &self,
        table: &Table,
        state: &Snapshot,
        known: &mut HashMap<String, Changes>,
    ) -> Result<HashSet<Box<[u8]>>> {
        let mut counts: HashMap<Box<[u8]>, i64> = HashMap::new();
        for meta in state_manifests(table, state).await? {
            if !known.contains_key(&meta.file_name) {
                let entries = manifest_entries(table, &meta).await?;
                let mut changes = Changes::new();
                for row in 0..entries.len() {
                    let name = entries.file_name.get(row);
                    if self.files.contains_key(name) {
                        changes.push((name.into(), if entries.kind[row] == DELETE { -1 } else { 1 }));
                    }
                }
                known.insert(meta.file_name.clone(), changes);
            }
            for (name, change) in known.get(&meta.file_name).into_iter().flatten() {
                *counts.entry(name.clone()).or_default() += change;
            }
        }
        Ok(counts.into_iter().filter(|(_, count)| *count > 0).map(|(name, _)| name).collect())
    }

    /// Spares the files that `manifests` add.
    async fn spare_added(&mut self, table: &Table, manifests: &[ManifestMeta]) -> Result<()> {
        for meta in manifests {
            if self.files.is_empty() {
                break;
            }
            let entries = manifest_entries(table, meta).await?;
            for row in (0..entries.len()).filter(|row| entries.kind[*row] != DELETE) {
                self.files.remove(entries.file_name.get(row));
            }
        }
        Ok(())
    }

    /// Spares the files that snapshots which stay took back after their removal: `overwrites` are those that may have.
    pub(super) async fn spare_returned(&mut self, table: &Table, overwrites: &[Arc<Snapshot>]) -> Result<()> {
        for snapshot in overwrites {
            self.spare_added(table, &delta_manifests(table, snapshot).await?).await?;
        }
        Ok(())
    }

    /// Spares the files that long-lived changelogs which stay refer to: those that were taken back and removed again belong to
    /// two of them.
    pub(super) async fn spare_changelogs(&mut self, table: &Table, kept: &[Arc<Snapshot>]) -> Result<()> {
        if kept.iter().all(|changelog| changelog.commit_kind != CommitKind::Overwrite) {
            return Ok(());
        }
        for changelog in kept.iter().filter(|changelog| changelog.changelog_manifest_list.is_none()) {
            for meta in delta_manifests(table, changelog).await?.iter() {
                let entries = manifest_entries(table, meta).await?;
                for row in 0..entries.len() {
                    self.files.remove(entries.file_name.get(row));
                }
            }
        }
        Ok(())
    }

    /// Spares the files that other branches have.
    pub(super) async fn spare_branches(&mut self, table: &Table, branches: &[Branch]) -> Result<()> {
        for branch in branches {
            for state in branch.tagged().await? {
                self.spare_added(table, &state_manifests(table, &state).await?).await?;
            }
            let mut ids = branch.snapshots.ids().await?;
            ids.extend(branch.snapshots.latest_id().await?);
            ids.sort_unstable();
            ids.dedup();
            let mut is_first = true;
            for id in ids {
                if self.files.is_empty() {
                    return Ok(());
                }
                let Some(snapshot) = branch.snapshots.find(id).await? else { continue };
                let manifests = match std::mem::take(&mut is_first) {
                    true => state_manifests(table, &snapshot).await?,
                    false => delta_manifests(table, &snapshot).await?.to_vec(),
                };
                self.spare_added(table, &manifests).await?;
                self.spare_added(table, &changelog_manifests(table, &snapshot).await?).await?;
            }
        }
        Ok(())
    }
}

fn doom(locator: &mut Locator<'_>, entries: &ManifestEntries, row: usize, is_changelog: bool) -> Result<Doom> {
    Ok(Doom {
        paths: locator.files(entries, row)?,
        bytes: entries.file_size[row].max(0) as u64,
        created: entries.creation_time[row],
        is_changelog,
    })
}

/// The snapshots after `end` that may have taken back what was removed before: only those of kind OVERWRITE do, which going
/// back to an earlier state as the latest one makes. Which there are is remembered, so that a writer that expires after each
/// commit looks at each snapshot once.
///
/// # Errors
/// Corrupt when a snapshot can't be read, Io when the store failed.
pub(super) async fn overwrites_after(table: &Table, end: i64, latest: i64) -> Result<Vec<Arc<Snapshot>>> {
    #[derive(Debug)]
    struct Known {
        from: i64,
        to: i64,
        /// Tells the snapshot `to` from another one that got its id after a rollback.
        last: String,
        overwrites: Vec<i64>,
    }
    let snapshots = table.snapshots();
    let files = table.files();
    let key = FileKey::new(format!("{}#overwrites", files.location_of(&files.snapshot_dir())), 0);
    let mut next = end + 1;
    let mut ids = Vec::new();
    if let Some(known) = table.caches().cached::<Known>(&key)
        && (known.from..=known.to).contains(&end)
        && snapshots.find(known.to).await?.is_some_and(|snapshot| snapshot.delta_manifest_list == known.last)
    {
        ids.extend(known.overwrites.iter().copied().filter(|id| *id > end));
        next = known.to + 1;
    }
    let mut last = None;
    let mut reads =
        futures::stream::iter((next..=latest).map(|id| snapshots.find(id)).collect::<Vec<_>>()).buffered(LOOKAHEAD);
    while let Some(read) = reads.next().await {
        let Some(snapshot) = read? else { continue };
        if snapshot.commit_kind == CommitKind::Overwrite {
            ids.push(snapshot.id);
        }
        last = Some(snapshot);
    }
    drop(reads);
    if let Some(last) = last {
        let known = Known { from: end, to: last.id, last: last.delta_manifest_list.clone(), overwrites: ids.clone() };
        let weight = 200 + ids.len() * 8;
        table.caches().keep(key, Arc::new(known), weight);
    }
    let mut found = Vec::with_capacity(ids.len());
    for id in ids {
        found.extend(snapshots.find(id).await?);
    }
    Ok(found)
}

/// Manifests, lists, indexes and statistics of snapshots that go.
#[derive(Debug, Default)]
pub(super) struct DoomedMetadata {
    pub(super) paths: Vec<Path>,
    pub(super) bytes: u64,
}

/// Which metadata of a snapshot goes with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parts {
    /// The lists of what was there before and of what changed, with their manifests.
    pub(super) state: bool,
    /// The list of the changelog, with its manifests.
    pub(super) changelog: bool,
    /// Index manifest, index files and statistics.
    pub(super) rest: bool,
}

impl DoomedMetadata {
    /// Adds the metadata of a snapshot that is not in `used`, which then names it too, so that nothing is added twice.
    ///
    /// # Errors
    /// As reading its lists: nothing of it is added then.
    pub(super) async fn add(
        &mut self,
        table: &Table,
        locator: &mut Locator<'_>,
        snapshot: &Snapshot,
        parts: Parts,
        used: &mut super::references::MetadataNames,
    ) -> Result<()> {
        let files = table.files();
        let mut found: Vec<(String, u64, Option<Path>)> = Vec::new();
        let size = |size: Option<i64>| size.and_then(|size| u64::try_from(size).ok()).unwrap_or(0);
        let mut add_manifests = |metas: &[ManifestMeta]| {
            found.extend(metas.iter().map(|meta| (meta.file_name.clone(), size(Some(meta.file_size)), None)));
        };
        if parts.state {
            add_manifests(&state_manifests(table, snapshot).await?);
        }
        if parts.changelog {
            add_manifests(&changelog_manifests(table, snapshot).await?);
        }
        if parts.state {
            found.push((snapshot.base_manifest_list.clone(), size(snapshot.base_manifest_list_size), None));
            found.push((snapshot.delta_manifest_list.clone(), size(snapshot.delta_manifest_list_size), None));
        }
        if parts.changelog
            && let Some(name) = &snapshot.changelog_manifest_list
        {
            found.push((name.clone(), size(snapshot.changelog_manifest_list_size), None));
        }
        if parts.rest {
            if let Some(name) = &snapshot.index_manifest {
                for entry in read_index_manifest(table, name).await?.iter() {
                    let path = locator.index(entry)?;
                    found.push((entry.file_name.clone(), size(Some(entry.file_size)), Some(path)));
                }
                found.push((name.clone(), 0, None));
            }
            if let Some(name) = &snapshot.statistics {
                found.push((name.clone(), 0, Some(files.statistics_path(name)?)));
            }
        }
        for (name, bytes, path) in found {
            if used.insert(&name) {
                self.bytes = self.bytes.saturating_add(bytes);
                self.paths.push(match path {
                    Some(path) => path,
                    None => files.manifest_path(&name)?,
                });
            }
        }
        Ok(())
    }
}
