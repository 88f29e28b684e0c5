//! Expiry of snapshots (`spec/metadata.md 10.1`): which go, and which files go with them.
//!
//! ```text
//! span: earliest .. end            by count, time, limit, consumers
//!   what would be left over        data files (doomed.rs), changelogs, manifests, indexes, statistics
//!   changelog-<id> written         where changelogs outlive snapshots
//!   snapshot files deleted         from now on nobody finds them
//!   EARLIEST
//!   tags and branches asked        which spare files
//!   files deleted
//! ```
//! The snapshot files go first, so that no reader finds a snapshot whose files are going. A process that dies between the two
//! leaves orphans, which cleaning removes; what can't be read makes less go.
//!
//! May import: `error`, `options`, `spec`, `store`, `table`, `plan`, `commit`.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;

use super::doomed::{Doomed, DoomedMetadata, Parts, Removed, overwrites_after};
use super::references::{Branch, Locator, MetadataNames, tagged};
use crate::commit::fault;
use crate::error::{Error, ErrorKind, Result};
use crate::options::{ChangelogProducer, Keep, UpkeepOptions};
use crate::spec::Snapshot;
use crate::store::Snapshots;
use crate::table::Table;

/// Snapshots read at once.
const LOADS: usize = 16;

/// What expiry did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expired {
    /// Snapshots, or changelogs, that are gone.
    pub snapshots: u64,
    /// Files that were deleted with them.
    pub files: u64,
    /// Their bytes, as far as metadata tells.
    pub bytes: u64,
    /// Files that should have gone and are still there because the store failed; orphan cleaning finds them.
    pub left: u64,
    /// Snapshots, tags and branches of which something could not be read, so that files stay that nobody may need.
    pub unread: u64,
}

/// Lets the snapshots expire that `options` no longer keep at `now`, epoch milliseconds.
///
/// # Errors
/// Errors of the store and of the snapshots' files, before anything is deleted; afterwards only those of deleting snapshot
/// files and of the hint.
pub async fn expire_snapshots(table: &Table, options: &UpkeepOptions, now: i64) -> Result<Expired> {
    let expired = async {
        match span(table, options, now).await? {
            Some(span) => Box::pin(expire(table, options, &span)).await,
            None => Ok(Expired::default()),
        }
    };
    expired.await.map_err(|error| table.at(error))
}

/// The snapshots that go, and those that stay after them.
struct Span {
    /// Those that go, in ascending order.
    gone: Vec<Arc<Snapshot>>,
    /// The first one that stays.
    first: Arc<Snapshot>,
    latest: i64,
}

/// What expires; `None` for nothing.
async fn span(table: &Table, options: &UpkeepOptions, now: i64) -> Result<Option<Span>> {
    let snapshots = table.snapshots();
    let Some(latest) = snapshots.latest_id().await? else { return Ok(None) };
    let Some(mut begin) = snapshots.earliest_id().await? else { return Ok(None) };
    let mut end = latest.saturating_sub(options.snapshots.least).saturating_add(1);
    if end <= begin {
        return Ok(None);
    }
    // A list may lack the first ones, which must not outlive those after them.
    while begin > 1 && snapshots.find(begin - 1).await?.is_some() {
        begin -= 1;
    }
    end = end.min(begin.saturating_add(options.limit));
    let forced = latest.saturating_sub(options.snapshots.most).saturating_add(1).max(begin);
    end = first_young(&snapshots, options.snapshots, now, forced, end).await?;
    if end > begin && !options.consumers_hold_changelogs_only {
        end = end.min(next_of_consumers(table).await?);
    }
    if end <= begin {
        return Ok(None);
    }
    let gone = existing(&snapshots, begin..end).await?;
    if gone.is_empty() {
        return Ok(None);
    }
    // A hole at the end: the first one behind it stays.
    for id in end..=latest {
        if let Some(first) = snapshots.find(id).await? {
            return Ok(Some(Span { gone, first, latest }));
        }
    }
    Ok(None)
}

/// The first snapshot from `forced` to `end` whose successor is younger than what is kept, `end` without one. Ids may have
/// holes.
async fn first_young(snapshots: &Snapshots, keep: Keep, now: i64, forced: i64, end: i64) -> Result<i64> {
    let oldest_kept = now.saturating_sub(i64::try_from(keep.time.as_millis()).unwrap_or(i64::MAX));
    let mut last = forced;
    let mut next = forced.saturating_add(1);
    // Most often the first one decides.
    let mut together = 1;
    while next <= end {
        let chunk = next..end.saturating_add(1).min(next.saturating_add(together));
        together = LOADS as i64;
        next = chunk.end;
        for successor in existing(snapshots, chunk).await? {
            if successor.time_millis >= oldest_kept {
                return Ok(last);
            }
            last = successor.id;
        }
    }
    Ok(end)
}

/// The snapshots of these ids that there are.
pub(super) async fn existing(snapshots: &Snapshots, ids: std::ops::Range<i64>) -> Result<Vec<Arc<Snapshot>>> {
    let loads: Vec<_> = ids.map(|id| snapshots.find(id)).collect();
    let found: Vec<Option<Arc<Snapshot>>> = futures::stream::iter(loads).buffered(LOADS).try_collect().await?;
    Ok(found.into_iter().flatten().collect())
}

/// The first snapshot that a consumer still reads; `i64::MAX` without consumers. The folder is listed twice, because a store
/// that leaves one out for a moment would have its snapshots deleted.
pub(super) async fn next_of_consumers(table: &Table) -> Result<i64> {
    let consumers = table.consumers();
    let mut all = consumers.list().await?;
    all.extend(consumers.list().await?);
    Ok(all.iter().map(|consumer| consumer.next_snapshot).min().unwrap_or(i64::MAX))
}

async fn expire(table: &Table, options: &UpkeepOptions, span: &Span) -> Result<Expired> {
    let mut locator = Locator::new(table);
    let outlived = options.keeps_changelogs();
    let has_no_changelogs = table.settings().changelog_producer == ChangelogProducer::None;
    let mut doomed = Doomed::default();
    let removals: Vec<Arc<Snapshot>> = span.gone[1..].iter().chain([&span.first]).map(Arc::clone).collect();
    let removed = if outlived && has_no_changelogs { Removed::Compacted } else { Removed::All };
    doomed.add_deltas(table, &mut locator, &removals, removed).await;
    if !outlived {
        doomed.add_changelogs(table, &mut locator, &span.gone).await;
    }
    let mut protection = Protection::new(table, &span.first, span.latest).await;
    if !outlived {
        protection.add_changelogs(table).await;
    }
    let parts = Parts { state: !(outlived && has_no_changelogs), changelog: !outlived, rest: true };

    if outlived {
        keep_changelogs(table, &span.gone).await?;
    }
    fault::point("expiry-start");
    let snapshots = table.snapshots();
    for snapshot in &span.gone {
        snapshots.delete(snapshot.id).await?;
    }
    fault::point("snapshots-expired");
    snapshots.hint_earliest(Some(span.first.id)).await?;
    fault::point("earliest-hinted");

    let folders = if options.clean_folders { doomed.folders() } else { BTreeSet::new() };
    let mut expired = finish(table, doomed, protection, &mut locator, &span.gone, parts).await;
    expired.snapshots = span.gone.len() as u64;
    clean_folders(table, folders).await;
    Ok(expired)
}

/// Writes the long-lived changelogs of snapshots that go: copies of their files (`spec/metadata.md 9.4`).
async fn keep_changelogs(table: &Table, gone: &[Arc<Snapshot>]) -> Result<()> {
    let (files, changelogs) = (table.files(), table.changelogs());
    for snapshot in gone {
        let document = match files.read(&files.snapshot_path(snapshot.id)).await {
            Ok(document) => document,
            // Another expiry at the same time let it go, and wrote its changelog before.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        let path = changelogs.path(snapshot.id);
        // One that an earlier attempt left, or a rollback, is another one's.
        if !files.create(&path, document.clone()).await? && files.read(&path).await? != document {
            files.overwrite(&path, document).await?;
        }
    }
    changelogs.hint_latest(gone.last().map(|snapshot| snapshot.id)).await
}

/// What spares files of snapshots that are gone.
pub(super) struct Protection {
    /// Names of metadata that stays; `None` when not all of it could be read.
    used: Option<MetadataNames>,
    overwrites: Option<Vec<Arc<Snapshot>>>,
    tags: Vec<Snapshot>,
    unread: usize,
}

impl Protection {
    /// What the snapshots from `first` to `latest` need.
    pub(super) async fn new(table: &Table, first: &Snapshot, latest: i64) -> Self {
        let mut protection =
            Self { used: Some(MetadataNames::default()), overwrites: None, tags: Vec::new(), unread: 0 };
        protection.add_state(table, first).await;
        protection.overwrites = overwrites_after(table, first.id, latest).await.ok();
        match &protection.overwrites {
            Some(overwrites) => {
                let overwrites = overwrites.clone();
                for snapshot in overwrites {
                    let Some(used) = &mut protection.used else { break };
                    if used.add_indexes(table, &snapshot).await.is_err() {
                        protection.give_up();
                    }
                }
            }
            None => protection.give_up(),
        }
        protection.add_tags(table).await;
        protection
    }

    fn give_up(&mut self) {
        self.used = None;
        self.unread += 1;
    }

    /// Adds all that a state names.
    async fn add_state(&mut self, table: &Table, snapshot: &Snapshot) {
        let Some(used) = &mut self.used else { return };
        if used.add(table, snapshot).await.is_err() {
            self.give_up();
        }
    }

    /// Adds what tags keep that are known by now.
    async fn add_tags(&mut self, table: &Table) {
        let Ok(tags) = tagged(&table.tags()).await else {
            self.give_up();
            self.overwrites = None;
            return;
        };
        for tag in tags {
            if self
                .tags
                .iter()
                .any(|known| (known.id, &known.delta_manifest_list) == (tag.id, &tag.delta_manifest_list))
            {
                continue;
            }
            self.add_state(table, &tag).await;
            self.tags.push(tag);
        }
        self.tags.sort_by_key(|tag| tag.id);
    }

    /// Adds what the long-lived changelogs of a table need that does not keep them any more: their manifests may be those of
    /// snapshots.
    async fn add_changelogs(&mut self, table: &Table) {
        let changelogs = table.changelogs();
        let kept = async {
            let mut kept = Vec::new();
            for id in changelogs.ids().await? {
                kept.extend(changelogs.find(id).await?);
            }
            Ok::<_, Error>(kept)
        };
        match kept.await {
            Ok(kept) => {
                for changelog in kept.iter().filter(|changelog| changelog.changelog_manifest_list.is_none()) {
                    self.add_changelog(table, changelog).await;
                }
            }
            Err(_) => self.give_up(),
        }
    }

    /// Adds what there still is of a long-lived changelog.
    pub(super) async fn add_changelog(&mut self, table: &Table, changelog: &Snapshot) {
        let Some(used) = &mut self.used else { return };
        if used.add_changelog(table, changelog).await.is_err() {
            self.give_up();
        }
    }

    /// The other branches of the table, whose metadata stays.
    async fn add_branches(&mut self, table: &Table) -> Result<Vec<Branch>> {
        let mut others = Branch::all(table).await?;
        others.retain(|branch| branch.name.as_deref() != table.files().branch());
        for branch in &others {
            let mut states = branch.tagged().await?;
            for id in branch.snapshots.ids().await? {
                states.extend(branch.snapshots.find(id).await?.map(|snapshot| snapshot.as_ref().clone()));
            }
            for state in states {
                self.add_state(table, &state).await;
            }
        }
        Ok(others)
    }
}

/// Deletes what snapshots (or changelogs) left that are gone, as far as nothing spares it.
pub(super) async fn finish(
    table: &Table,
    mut doomed: Doomed,
    mut protection: Protection,
    locator: &mut Locator<'_>,
    gone: &[Arc<Snapshot>],
    parts: Parts,
) -> Expired {
    // Tags that were made while snapshots went spare their files too.
    protection.add_tags(table).await;
    let spared = async {
        let branches = protection.add_branches(table).await?;
        doomed.spare_tagged(table, &protection.tags).await;
        let Some(overwrites) = &protection.overwrites else {
            return Err(Error::internal("it is not known what later snapshots took back"));
        };
        doomed.spare_returned(table, overwrites).await?;
        doomed.spare_branches(table, &branches).await
    };
    if Box::pin(spared).await.is_err() {
        protection.unread += 1;
        doomed.clear();
        protection.used = None;
    }
    let mut unread = doomed.unread + protection.unread;
    let (mut paths, mut bytes) = doomed.into_paths();
    let mut metadata = DoomedMetadata::default();
    if let Some(used) = &mut protection.used {
        for snapshot in gone {
            unread += usize::from(metadata.add(table, locator, snapshot, parts, used).await.is_err());
        }
    }
    // Data files first: what is left of them after a crash is found through the manifests.
    let data = paths.len();
    paths.append(&mut metadata.paths);
    bytes = bytes.saturating_add(metadata.bytes);
    let asked = paths.len();
    let metadata = paths.split_off(data);
    let left = table.files().delete_many(paths).await + table.files().delete_many(metadata).await;
    Expired { snapshots: 0, files: (asked - left) as u64, bytes, left: left as u64, unread: unread as u64 }
}

/// Removes the folders of buckets and partitions that nothing is in any more.
async fn clean_folders(table: &Table, folders: BTreeSet<Path>) {
    let files = table.files();
    let mut above = BTreeSet::new();
    for folder in folders {
        if files.remove_if_empty(&folder).await
            && let Some(parent) = folder.parent()
        {
            above.insert((table.schema().partition_keys.len(), parent));
        }
    }
    // Partitions, the innermost first.
    while let Some((levels, folder)) = above.pop_last() {
        if levels > 0
            && files.remove_if_empty(&folder).await
            && let Some(parent) = folder.parent()
        {
            above.insert((levels - 1, parent));
        }
    }
}
