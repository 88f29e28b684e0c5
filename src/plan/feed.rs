//! Following a table: what to read first, and then the changes of one snapshot after another (`spec/data.md` 7.5 and 7.6).
//!
//! ```text
//! ChangeFeed::open   where it starts: scan.mode and its options, or where its consumer left off
//!   poll             FeedStep::State    what is there, once, where the start asks for it
//!                    FeedStep::Changes  what a snapshot changed; None while there is no new one
//!   record           how far the consumer has read, so that expiration keeps what comes next
//! ```
//! A feed is a position and nothing more: it holds no files open and can be given up at any time. One that names a consumer
//! goes on where [`ChangeFeed::record`] was last called, so that after a crash the steps since then come again: a step is
//! recorded once its rows are safe.

use std::sync::Arc;
use std::time::Duration;

use super::Levels;
use crate::error::{Error, Result};
use crate::options::{ChangelogProducer, ScanMode};
use crate::spec::{CommitKind, Snapshot};
use crate::table::{ChangeFiles, Changes, ReadFrom, Table};

/// The next thing to read.
#[derive(Clone, Debug)]
pub struct FeedStep {
    /// The snapshot that is read; the feed goes on with the next one.
    pub snapshot: Arc<Snapshot>,
    /// What to read of it.
    pub read: ReadFrom,
    /// Of a state, the levels that are read: rows of the others are told by the changelogs to come.
    pub levels: Levels,
}

/// A position in the history of a table.
#[derive(Debug)]
pub struct ChangeFeed {
    table: Arc<Table>,
    /// What is read before any changes.
    first: Option<ReadFrom>,
    /// The snapshot whose changes come next; `None` until the table has one.
    next: Option<i64>,
    consumer: Option<String>,
}

impl ChangeFeed {
    /// A feed of `table`, from where its options say: `scan.mode` and what belongs to it, `consumer-id`. `local` reads a text
    /// as a time in the session's zone, epoch milliseconds.
    ///
    /// # Errors
    /// Invalid for a start that a feed can't have, or a consumer of a table without `consumer.expiration-time`; not found when
    /// the snapshot to start from does not exist.
    pub async fn open(table: Arc<Table>, local: &(dyn Fn(&str) -> Result<i64> + Sync)) -> Result<Self> {
        let opened = async {
            let settings = table.settings();
            let consumer = settings.value::<String>("consumer-id")?.filter(|id| !id.is_empty());
            if let Some(id) = &consumer {
                if !settings.is_set("consumer.expiration-time") {
                    return Err(Error::invalid(
                        "a table that consumers read needs the option consumer.expiration-time, so that one that never comes \
                         back does not keep its snapshots for ever",
                    ));
                }
                let ignored = settings.value::<bool>("consumer.ignore-progress")?.unwrap_or(false);
                if let Some(next) = table.consumers().next_snapshot(id).await?.filter(|_| !ignored) {
                    return Ok((None, Some(next), consumer));
                }
            }
            let (first, next) = start(&table, local).await?;
            Ok((first, next, consumer))
        };
        let (first, next, consumer) = opened.await.map_err(|error| table.at(error))?;
        Ok(Self { table, first, next, consumer })
    }

    /// A feed of the changes from snapshot `next` on.
    pub fn from_snapshot(table: Arc<Table>, next: i64) -> Self {
        Self { table, first: None, next: Some(next), consumer: None }
    }

    /// The table.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// The snapshot whose changes come next; `None` while the table has none.
    pub fn next_snapshot(&self) -> Option<i64> {
        self.next
    }

    /// How long to wait after [`Self::poll`] found nothing: option `continuous.discovery-interval`.
    ///
    /// # Errors
    /// Invalid when the option is no duration.
    pub fn interval(&self) -> Result<Duration> {
        let interval = self.table.settings().value::<Duration>("continuous.discovery-interval");
        Ok(interval.map_err(|error| self.table.at(error))?.unwrap_or(Duration::from_secs(10)))
    }

    /// The next step; `None` when the table has nothing new. Snapshots that changed no rows are passed over.
    ///
    /// # Errors
    /// Not found when the next snapshot has expired: the feed was too slow. Errors of the store leave the feed where it was.
    pub async fn poll(&mut self) -> Result<Option<FeedStep>> {
        let step = self.find().await;
        step.map_err(|error| self.table.at(error))
    }

    /// Writes down for the feed's consumer that everything up to here is done. Without a consumer it does nothing.
    ///
    /// # Errors
    /// Io when the store failed.
    pub async fn record(&self) -> Result<()> {
        match (&self.consumer, self.next) {
            (Some(id), Some(next)) => {
                self.table.consumers().record(id, next).await.map_err(|error| self.table.at(error))
            }
            _ => Ok(()),
        }
    }

    async fn find(&mut self) -> Result<Option<FeedStep>> {
        if let Some(read) = self.first.take() {
            return Ok(self.first_step(read));
        }
        loop {
            let next = match self.next {
                Some(next) => next,
                // The table was empty: it begins with its first snapshot.
                None => match self.table.snapshots().earliest_id().await? {
                    Some(id) => *self.next.insert(id),
                    None => return Ok(None),
                },
            };
            let Some(snapshot) = self.snapshot(next).await? else { return Ok(None) };
            self.next = Some(next + 1);
            if let Some(read) = changes_of(&self.table, &snapshot).await? {
                return Ok(Some(FeedStep { snapshot, read: ReadFrom::Changes(read), levels: Levels::All }));
            }
        }
    }

    fn first_step(&mut self, read: ReadFrom) -> Option<FeedStep> {
        let ReadFrom::State { snapshot: Some(snapshot), .. } = &read else { return None };
        let snapshot = Arc::clone(snapshot);
        self.next = Some(snapshot.id + 1);
        let levels = match self.table.settings().changelog_producer {
            _ if !self.table.schema().has_primary_key() => Levels::All,
            ChangelogProducer::Lookup => Levels::AboveZero,
            ChangelogProducer::FullCompaction => Levels::Highest,
            ChangelogProducer::None | ChangelogProducer::Input => Levels::All,
        };
        Some(FeedStep { snapshot, read, levels })
    }

    /// Snapshot `id`; `None` while it does not exist yet.
    async fn snapshot(&self, id: i64) -> Result<Option<Arc<Snapshot>>> {
        if let Some(snapshot) = self.table.snapshots().find(id).await? {
            return Ok(Some(snapshot));
        }
        match self.table.snapshots().latest_id().await? {
            Some(latest) if latest < id - 1 => Err(Error::not_found(format!(
                "snapshot {} was read and the latest is {latest} now: the table was rolled back; start the feed anew",
                id - 1
            ))),
            Some(latest) if latest >= id => self.table.snapshot_or_changelog(id).await.map(Some),
            _ => Ok(None),
        }
    }
}

/// Where a feed starts: what is read first, and the snapshot whose changes come after it.
async fn start(table: &Table, local: &(dyn Fn(&str) -> Result<i64> + Sync)) -> Result<(Option<ReadFrom>, Option<i64>)> {
    let scan = &table.settings().scan;
    let snapshots = table.snapshots();
    let refused = |why: &str| Err(Error::invalid(format!("a table can't be followed {why}")));
    match scan.mode() {
        ScanMode::Latest => Ok((None, snapshots.latest_id().await?.map(|id| id + 1))),
        ScanMode::LatestDelta => refused("with scan.mode = latest-delta; use latest"),
        ScanMode::Incremental => refused("between two states; leave the incremental options out"),
        ScanMode::FromSnapshot => {
            let Some(id) = scan.snapshot_id else {
                return refused("from a tag, version or watermark; give scan.snapshot-id");
            };
            let earliest = match (table.changelogs().earliest_id().await?, snapshots.earliest_id().await?) {
                (Some(changelog), Some(snapshot)) => changelog.min(snapshot),
                (earliest, other) => earliest.or(other).unwrap_or(1),
            };
            Ok((None, Some(id.max(earliest))))
        }
        ScanMode::FromTimestamp => {
            let millis = match (scan.timestamp_millis, &scan.timestamp) {
                (Some(millis), _) => millis,
                (None, Some(text)) => local(text)?,
                (None, None) => return Err(Error::internal("a start at a time that is not given")),
            };
            let next = match snapshots.at_or_after(millis).await? {
                Some(snapshot) => Some(snapshot.id),
                None => snapshots.latest_id().await?.map(|id| id + 1),
            };
            Ok((None, next))
        }
        _ => {
            let read = table.read_from(scan, local).await?;
            Ok(match &read {
                ReadFrom::State { snapshot: None, .. } => (None, None),
                ReadFrom::State { snapshot: Some(snapshot), .. } => {
                    let next = Some(snapshot.id + 1);
                    (Some(read), next)
                }
                ReadFrom::Changes(_) => return refused("from changes"),
            })
        }
    }
}

/// What a snapshot changed, as a feed tells it; `None` when it tells nothing (`spec/data.md 7.5`).
async fn changes_of(table: &Table, snapshot: &Snapshot) -> Result<Option<Changes>> {
    let settings = table.settings();
    let (after, until) = (snapshot.id - 1, snapshot.id);
    if snapshot.commit_kind == CommitKind::Overwrite {
        let asked = |key| settings.value::<bool>(key).map(|value| value.unwrap_or(false));
        let told_elsewhere =
            matches!(settings.changelog_producer, ChangelogProducer::Lookup | ChangelogProducer::FullCompaction);
        if table.schema().has_primary_key() {
            if !asked("streaming-read-overwrite")? || told_elsewhere {
                return Ok(None);
            }
            // What was there before goes, what is there now comes.
            let before = match after {
                0 => None,
                id => Some(table.snapshot_or_tagged(id).await?),
            };
            return Ok(Some(Changes::Between { before, after: Arc::new(snapshot.clone()) }));
        }
        if !asked("streaming-read-append-overwrite")? {
            return Ok(None);
        }
        return Ok(Some(Changes::Made { after, until, by: ChangeFiles::AnyDelta }));
    }
    Ok(match settings.changelog_producer {
        ChangelogProducer::None => (snapshot.commit_kind == CommitKind::Append).then_some(Changes::Made {
            after,
            until,
            by: ChangeFiles::Delta,
        }),
        _ => snapshot.changelog_manifest_list.is_some().then_some(Changes::Made {
            after,
            until,
            by: ChangeFiles::Changelog,
        }),
    })
}
