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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::store::StoreLocation;
    use crate::store::testing::{memory, put, schema_json, snapshot_json};
    use crate::table::{Identifier, timestamp_millis};

    /// Snapshots 3 to 6, the changelogs of 1 and 2, and tags of 2, 4 and 6.
    async fn history() -> StoreLocation {
        let root = memory("wh/db.db/t");
        put(&root, "schema/schema-0", schema_json(0, &["a"])).await;
        for id in 1..=6 {
            let folder = if id < 3 { "changelog/changelog" } else { "snapshot/snapshot" };
            put(&root, &format!("{folder}-{id}"), snapshot_json(id, id * 1000)).await;
        }
        for (name, id) in [("two", 2), ("2024-01-01", 4), ("2024-01-02", 6), ("5", 5)] {
            put(&root, &format!("tag/tag-{name}"), snapshot_json(id, id * 1000)).await;
        }
        root
    }

    /// What a read with `options` is of, as text.
    async fn read(root: &StoreLocation, options: &[(&str, &str)]) -> String {
        let options: BTreeMap<String, String> =
            options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let table = match Table::open(root.clone(), Identifier::new("db", "t"), Arc::default(), options).await {
            Ok(table) => table,
            Err(error) => return error.message().to_owned(),
        };
        let id = |snapshot: &Option<Arc<Snapshot>>| snapshot.as_ref().map_or(0, |snapshot| snapshot.id);
        match table.read_from(&table.settings().scan, &|text| timestamp_millis(text, &chrono::Utc)).await {
            Err(error) => error.message().to_owned(),
            Ok(ReadFrom::State { snapshot, created_since: None }) => format!("state {}", id(&snapshot)),
            Ok(ReadFrom::State { snapshot, created_since: Some(time) }) => {
                format!("state {} since {time}", id(&snapshot))
            }
            Ok(ReadFrom::Changes(Changes::Nothing)) => "nothing".to_owned(),
            Ok(ReadFrom::Changes(Changes::Made { after, until, by })) => format!("{by:?} {after}..{until}"),
            Ok(ReadFrom::Changes(Changes::Between { before, after })) => format!("{} -> {}", id(&before), after.id),
        }
    }

    #[tokio::test]
    async fn read_from_when_a_state_is_asked_for_then_its_snapshot() {
        let root = history().await;
        for (options, expected) in [
            (&[][..], "state 6"),
            (&[("scan.snapshot-id", "4")], "state 4"),
            (&[("scan.tag-name", "two")], "state 2"),
            (&[("scan.version", "5")], "state 5"),
            (&[("scan.version", "3")], "state 3"),
            (&[("scan.timestamp-millis", "4999")], "state 4"),
            (&[("scan.timestamp", "1970-01-01 00:00:05")], "state 5"),
            (&[("scan.creation-time-millis", "4000")], "state 4"),
            (&[("scan.creation-time-millis", "9000")], "state 6 since 9000"),
            (&[("scan.creation-time-millis", "1000")], "state 6 since 1000"),
            (&[("scan.file-creation-time-millis", "7")], "state 6 since 7"),
            (&[("scan.mode", "latest")], "state 6"),
            (&[("scan.mode", "latest-delta")], "AnyDelta 5..6"),
            (&[("scan.mode", "compacted-full")], "state 6"),
        ] {
            assert_eq!(read(&root, options).await, expected, "{options:?}");
        }
        let error = read(&root, &[("scan.snapshot-id", "2")]).await;
        assert!(error.starts_with("snapshot 2 has expired") && error.ends_with("; tag two keeps it"), "{error}");
    }

    #[tokio::test]
    async fn read_from_when_changes_are_asked_for_then_their_range() {
        let root = history().await;
        let between = |range: &'static str| [("incremental-between", range)];
        for (range, expected) in [
            ("3,6", "Delta 3..6"),
            ("0,6", "Delta 0..6"),
            ("2,2", "nothing"),
            ("two,2024-01-01", "2 -> 4"),
            ("two,two", "nothing"),
            ("2,5", "Delta 2..5"),
        ] {
            assert_eq!(read(&root, &between(range)).await, expected, "{range}");
        }
        for (range, error) in [
            ("6,3", "snapshot 6 is later than snapshot 3"),
            ("3,7", "snapshot 7 does not exist"),
            ("2024-01-01,two", "tag 2024-01-01 (snapshot 4) is later than tag two (snapshot 2)"),
            ("two,six", "tag six does not exist"),
            ("two,6", "incremental-between takes two snapshot ids or two tags: two is a tag, 6 is none"),
        ] {
            let found = read(&root, &between(range)).await;
            assert!(found.starts_with(error), "{range}: {found}");
        }
        let mode = |range, mode| [("incremental-between", range), ("incremental-between-scan-mode", mode)];
        assert_eq!(read(&root, &mode("3,6", "diff")).await, "3 -> 6");
        assert_eq!(read(&root, &mode("0,6", "diff")).await, "0 -> 6");
        assert_eq!(read(&root, &mode("2,6", "diff")).await, "2 -> 6");
        assert_eq!(read(&root, &mode("3,6", "changelog")).await, "Changelog 3..6");
        assert_eq!(read(&root, &mode("two,2024-01-01", "delta")).await, "Delta 2..4");
        assert!(read(&root, &mode("1,6", "diff")).await.starts_with("snapshot 1 has expired"));
        let to_ids = [("incremental-between", "two,2024-01-01"), ("incremental-between-tag-to-snapshot", "true")];
        assert_eq!(read(&root, &to_ids).await, "Delta 2..4");
    }

    #[tokio::test]
    async fn read_from_when_the_range_is_of_times_then_snapshots_that_were_there() {
        let root = history().await;
        let times = |range: &'static str| [("incremental-between-timestamp", range)];
        for (range, expected) in [
            ("3000,5999", "Delta 3..5"),
            ("0,6000", "Delta 2..6"),
            ("0,2999", "nothing"),
            ("6001,9000", "nothing"),
            ("4000,4500", "nothing"),
            ("1970-01-01 00:00:04,1970-01-01 00:00:06", "Delta 4..6"),
            ("5,4", "the range of incremental-between-timestamp ends before it begins"),
        ] {
            assert_eq!(read(&root, &times(range)).await, expected, "{range}");
        }
        let diff = [("incremental-between-timestamp", "0,6000"), ("incremental-between-scan-mode", "diff")];
        assert!(read(&root, &diff).await.starts_with("the state at the start of the range has expired"));
    }

    #[tokio::test]
    async fn read_from_when_an_automatic_tag_is_asked_for_then_since_the_one_before() {
        let root = history().await;
        let to = |tag: &'static str| [("incremental-to-auto-tag", tag)];
        assert_eq!(read(&root, &to("2024-01-02")).await, "4 -> 6");
        assert_eq!(read(&root, &to("2024-01-01")).await, "nothing");
        assert_eq!(read(&root, &to("2024-01-03")).await, "nothing");
        assert_eq!(
            read(&root, &to("two")).await,
            "tag two is not an automatic tag of this table: these are like 9999-99-99"
        );
    }
}
