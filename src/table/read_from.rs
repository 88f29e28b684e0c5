//! What a read is of: a state of the table, or the changes between two (`spec/data.md` 7.6, 7.7 and 8).
//!
//! ```text
//! ScanOptions --Table::read_from--> ReadFrom::State    one snapshot, perhaps only its files made since a time
//!                                   ReadFrom::Changes  Made     what the snapshots of a range changed, as files tell it
//!                                                      Between  what tells one state from another
//! ```
//!
//! May import: `error`, `options`, `spec`, `store`.

use std::sync::Arc;

use super::{Table, VersionSpec, auto_tags, travel};
use crate::error::{Error, Result};
use crate::options::{ChangelogProducer, IncrementalScanMode, ScanMode, ScanOptions};
use crate::spec::{CommitKind, Snapshot};

/// What a read is of.
#[derive(Clone, Debug)]
pub enum ReadFrom {
    /// A state of the table.
    State {
        /// The snapshot; `None` for a table without any.
        snapshot: Option<Arc<Snapshot>>,
        /// Only files that were made at this time or later, epoch milliseconds.
        created_since: Option<i64>,
    },
    /// What changed.
    Changes(Changes),
}

/// What changed between two states.
#[derive(Clone, Debug)]
pub enum Changes {
    /// Nothing.
    Nothing,
    /// What the snapshots `after + 1 ..= until` changed, one after another.
    Made {
        /// The last snapshot that is not told of any more.
        after: i64,
        /// The last snapshot that is told of.
        until: i64,
        /// Which files tell it.
        by: ChangeFiles,
    },
    /// The difference between two states, whatever happened in between.
    Between {
        /// The earlier state; `None` for an empty one.
        before: Option<Arc<Snapshot>>,
        /// The later state.
        after: Arc<Snapshot>,
    },
}

/// Which files tell what a snapshot changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeFiles {
    /// The data files that APPEND snapshots added.
    Delta,
    /// The data files that the snapshots added, whatever made them.
    AnyDelta,
    /// The changelog files.
    Changelog,
}

impl ReadFrom {
    /// All of a state.
    pub fn state(snapshot: Option<Arc<Snapshot>>) -> Self {
        Self::State { snapshot, created_since: None }
    }

    /// The one snapshot that is read.
    ///
    /// # Errors
    /// Invalid when changes or a part of a state are read.
    pub fn snapshot(self) -> Result<Option<Arc<Snapshot>>> {
        match self {
            Self::State { snapshot, created_since: None } => Ok(snapshot),
            Self::State { created_since: Some(_), .. } => Err(Error::invalid(
                "a part of the files of a snapshot is asked for, which only the rows of a table can be read by",
            )),
            Self::Changes(_) => Err(Error::invalid(
                "changes between snapshots are asked for, which only a table and its $audit_log and $binlog have",
            )),
        }
    }
}

impl Table {
    /// What `scan` asks to be read. `local` reads a text as a time in the session's zone, epoch milliseconds.
    ///
    /// # Errors
    /// Not found when a snapshot or tag does not exist or has expired, with what there is; invalid when a range ends before
    /// it begins; else as [`Self::snapshot`].
    pub async fn read_from(
        &self,
        scan: &ScanOptions,
        local: &(dyn Fn(&str) -> Result<i64> + Sync),
    ) -> Result<ReadFrom> {
        self.find(scan, local).await.map_err(|error| self.at(error))
    }

    async fn find(&self, scan: &ScanOptions, local: &(dyn Fn(&str) -> Result<i64> + Sync)) -> Result<ReadFrom> {
        let snapshots = self.snapshots();
        let state = |snapshot: Arc<Snapshot>| ReadFrom::state(Some(snapshot));
        Ok(match scan.mode() {
            ScanMode::Default | ScanMode::Full | ScanMode::LatestFull | ScanMode::Latest => {
                ReadFrom::state(snapshots.latest().await?)
            }
            ScanMode::LatestDelta => match snapshots.latest().await? {
                None => ReadFrom::state(None),
                Some(latest) => ReadFrom::Changes(Changes::Made {
                    after: latest.id - 1,
                    until: latest.id,
                    by: ChangeFiles::AnyDelta,
                }),
            },
            ScanMode::CompactedFull => ReadFrom::state(self.latest_compacted().await?),
            ScanMode::FromTimestamp => {
                let millis = match (scan.timestamp_millis, &scan.timestamp) {
                    (Some(millis), _) => millis,
                    (None, Some(text)) => local(text)?,
                    (None, None) => return Err(Error::internal("a read from a time that is not given")),
                };
                state(travel::at_or_before(&snapshots, millis).await?)
            }
            ScanMode::FromSnapshot | ScanMode::FromSnapshotFull => state(self.chosen(scan).await?),
            ScanMode::FromFileCreationTime => {
                ReadFrom::State { snapshot: snapshots.latest().await?, created_since: scan.file_creation_time_millis }
            }
            ScanMode::FromCreationTimestamp => {
                let Some(millis) = scan.creation_time_millis else {
                    return Err(Error::internal("a read from a time that is not given"));
                };
                self.created_since(millis).await?
            }
            ScanMode::Incremental => ReadFrom::Changes(self.changes(scan, local).await?),
        })
    }

    /// The snapshot of `scan.snapshot-id`, `scan.tag-name`, `scan.watermark` or `scan.version`.
    async fn chosen(&self, scan: &ScanOptions) -> Result<Arc<Snapshot>> {
        let (snapshots, tags) = (self.snapshots(), self.tags());
        let version = |version| async move { travel::resolve(&self.snapshots(), &self.tags(), &version).await };
        if let Some(id) = scan.snapshot_id {
            return version(VersionSpec::Snapshot(id)).await;
        }
        if let Some(tag) = &scan.tag_name {
            return version(VersionSpec::Tag(tag.clone())).await;
        }
        if let Some(watermark) = scan.watermark {
            return travel::at_watermark(&snapshots, watermark).await;
        }
        let Some(text) = &scan.version else {
            return Err(Error::internal("a read from a snapshot that is not given"));
        };
        travel::resolve_text(&snapshots, &tags, text).await
    }

    /// The latest compacted snapshot, or the latest one when none is (`spec/data.md 7.6`). A table that compacts fully only
    /// every n commits asks for such a compaction.
    async fn latest_compacted(&self) -> Result<Option<Arc<Snapshot>>> {
        let settings = self.settings();
        let every = settings.full_compaction_delta_commits;
        let full = settings.changelog_producer == ChangelogProducer::FullCompaction || every.is_some();
        let every = i64::from(every.unwrap_or(1)).max(1);
        let compacted = |snapshot: &Snapshot| {
            snapshot.commit_kind == CommitKind::Compact
                && (!full || snapshot.commit_identifier == i64::MAX || snapshot.commit_identifier % every == 0)
        };
        let snapshots = self.snapshots();
        let mut latest = None;
        for id in snapshots.ids().await?.into_iter().rev() {
            let Some(snapshot) = snapshots.find(id).await? else { continue };
            if compacted(&snapshot) {
                return Ok(Some(snapshot));
            }
            latest.get_or_insert(snapshot);
        }
        Ok(latest)
    }

    /// The snapshot after the last one that is earlier than `millis`, or of the latest one the files that were made since
    /// (`spec/data.md 7.6`).
    async fn created_since(&self, millis: i64) -> Result<ReadFrom> {
        let snapshots = self.snapshots();
        if let Some(before) = snapshots.at_or_before(millis.saturating_sub(1)).await?
            && let Some(next) = snapshots.find(before.id + 1).await?
        {
            return Ok(ReadFrom::state(Some(next)));
        }
        Ok(ReadFrom::State { snapshot: snapshots.latest().await?, created_since: Some(millis) })
    }

    /// The changes that the `incremental-*` options ask for.
    async fn changes(&self, scan: &ScanOptions, local: &(dyn Fn(&str) -> Result<i64> + Sync)) -> Result<Changes> {
        if let Some((start, end)) = &scan.incremental_between {
            return self.changes_between(start, end, scan).await;
        }
        if let Some((start, end)) = &scan.incremental_between_timestamp {
            return self.changes_in_time(local(start)?, local(end)?, scan.incremental_mode).await;
        }
        match &scan.incremental_to_auto_tag {
            Some(tag) => self.changes_to_auto_tag(tag).await,
            None => Err(Error::internal("an incremental read without a range")),
        }
    }

    async fn changes_between(&self, start: &str, end: &str, scan: &ScanOptions) -> Result<Changes> {
        let tags = self.tags();
        // A tag's name may be a number: two tags are tags.
        let (first, last) = futures::future::try_join(tags.find(start), tags.find(end)).await?;
        if let (Some(first), Some(last)) = (&first, &last) {
            let by_state = matches!(scan.incremental_mode, IncrementalScanMode::Auto | IncrementalScanMode::Diff);
            if by_state && !scan.incremental_tag_to_snapshot {
                if first.snapshot.id > last.snapshot.id {
                    return Err(Error::invalid(format!(
                        "tag {start} (snapshot {}) is later than tag {end} (snapshot {}); the earlier one comes first",
                        first.snapshot.id, last.snapshot.id
                    )));
                }
                return Ok(difference(Some(&first.snapshot), &last.snapshot));
            }
            return self.changes_of_ids(first.snapshot.id, last.snapshot.id, scan.incremental_mode).await;
        }
        let id = |text: &str| text.trim().parse::<i64>().ok();
        if let (Some(start), Some(end)) = (id(start), id(end)) {
            return self.changes_of_ids(start, end, scan.incremental_mode).await;
        }
        let (missing, found) = match (&first, &last) {
            (None, Some(_)) => (start, Some(end)),
            (Some(_), None) => (end, Some(start)),
            _ => (if id(start).is_none() { start } else { end }, None),
        };
        if id(missing).is_some()
            && let Some(found) = found
        {
            return Err(Error::invalid(format!(
                "incremental-between takes two snapshot ids or two tags: {found} is a tag, {missing} is none"
            )));
        }
        Err(travel::missing_tag(&tags, missing).await)
    }

    /// The changes of the snapshots `start + 1 ..= end`.
    async fn changes_of_ids(&self, start: i64, end: i64, mode: IncrementalScanMode) -> Result<Changes> {
        if start > end {
            return Err(Error::invalid(format!(
                "snapshot {start} is later than snapshot {end}; the earlier one comes first, and is left out itself"
            )));
        }
        let (snapshots, tags) = (self.snapshots(), self.tags());
        let by = match mode {
            IncrementalScanMode::Diff => {
                let after = travel::resolve_or_tagged(&snapshots, &tags, end).await?;
                if start == end {
                    return Ok(Changes::Nothing);
                }
                let before = match start {
                    0 => None,
                    _ => Some(travel::resolve_or_tagged(&snapshots, &tags, start).await?),
                };
                return Ok(Changes::Between { before, after });
            }
            IncrementalScanMode::Delta => ChangeFiles::Delta,
            IncrementalScanMode::Changelog => ChangeFiles::Changelog,
            IncrementalScanMode::Auto if self.settings().changelog_producer == ChangelogProducer::None => {
                ChangeFiles::Delta
            }
            IncrementalScanMode::Auto => ChangeFiles::Changelog,
        };
        // A range that ends nowhere would be cut short without a word.
        self.snapshot_or_changelog(end).await?;
        if start == end {
            return Ok(Changes::Nothing);
        }
        self.snapshot_or_changelog(start + 1).await?;
        Ok(Changes::Made { after: start, until: end, by })
    }

    /// The changes from the state at `start` to that at `end`, epoch milliseconds.
    async fn changes_in_time(&self, start: i64, end: i64, mode: IncrementalScanMode) -> Result<Changes> {
        if start > end {
            return Err(Error::invalid("the range of incremental-between-timestamp ends before it begins"));
        }
        let snapshots = self.snapshots();
        let (Some(earliest), Some(latest)) =
            futures::future::try_join(snapshots.earliest(), snapshots.latest()).await?
        else {
            return Ok(Changes::Nothing);
        };
        if end < earliest.time_millis || start > latest.time_millis {
            return Ok(Changes::Nothing);
        }
        let last = snapshots.at_or_before(end).await?.map_or(latest.id, |snapshot| snapshot.id);
        match snapshots.at_or_before(start).await? {
            Some(first) => self.changes_of_ids(first.id, last, mode).await,
            // All that there is came after the start.
            None if mode == IncrementalScanMode::Diff && earliest.id > 1 => Err(Error::not_found(format!(
                "the state at the start of the range has expired: the earliest snapshot is {}; use scan mode delta or \
                 changelog, or a later start",
                earliest.id
            ))),
            None => self.changes_of_ids(earliest.id - 1, last, mode).await,
        }
    }

    /// The difference from the automatic tag before `name` to it; none when either is missing (`spec/data.md 7.7`).
    async fn changes_to_auto_tag(&self, name: &str) -> Result<Changes> {
        let tags = self.tags();
        let pattern = auto_tags::Pattern::of(self.settings())?;
        let Some(end) = tags.find(name).await? else { return Ok(Changes::Nothing) };
        if !pattern.fits(name) {
            return Err(Error::invalid(format!(
                "tag {name} is not an automatic tag of this table: these are like {pattern}"
            )));
        }
        let names = tags.names().await?;
        let Some(previous) = names.iter().rfind(|tag| pattern.fits(tag) && tag.as_str() < name) else {
            return Ok(Changes::Nothing);
        };
        match tags.find(previous).await? {
            Some(start) => Ok(difference(Some(&start.snapshot), &end.snapshot)),
            None => Ok(Changes::Nothing),
        }
    }

    /// Snapshot `id`, from its file or from the changelog that outlives it (`spec/metadata.md 9.4`).
    ///
    /// # Errors
    /// Not found when both have expired or the snapshot never was.
    pub async fn snapshot_or_changelog(&self, id: i64) -> Result<Arc<Snapshot>> {
        let snapshots = self.snapshots();
        if let Some(snapshot) = snapshots.find(id).await? {
            return Ok(snapshot);
        }
        if let Some(changelog) = self.changelogs().find(id).await? {
            return Ok(changelog);
        }
        Err(travel::missing_snapshot(&snapshots, &self.tags(), id).await)
    }
}

fn difference(before: Option<&Snapshot>, after: &Snapshot) -> Changes {
    if before.is_some_and(|before| before.id == after.id) {
        return Changes::Nothing;
    }
    Changes::Between { before: before.map(|snapshot| Arc::new(snapshot.clone())), after: Arc::new(after.clone()) }
}
