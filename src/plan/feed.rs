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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::store::StoreLocation;
    use crate::store::testing::{memory, put, schema_json, snapshot_json};
    use crate::table::{Identifier, timestamp_millis};

    async fn commit(root: &StoreLocation, id: i64, kind: &str) {
        let text = snapshot_json(id, id * 1000).replace("APPEND", kind);
        put(root, &format!("snapshot/snapshot-{id}"), text).await;
    }

    async fn table(root: &StoreLocation, options: &[(&str, &str)]) -> Arc<Table> {
        let options: BTreeMap<String, String> =
            options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        Table::open(root.clone(), Identifier::new("db", "t"), Arc::default(), options).await.unwrap()
    }

    async fn feed(root: &StoreLocation, options: &[(&str, &str)]) -> Result<ChangeFeed> {
        ChangeFeed::open(table(root, options).await, &|text| timestamp_millis(text, &chrono::Utc)).await
    }

    /// The steps that are there, as text.
    async fn steps(feed: &mut ChangeFeed) -> Vec<String> {
        let mut steps = Vec::new();
        while let Some(step) = feed.poll().await.unwrap() {
            steps.push(match step.read {
                ReadFrom::State { .. } => format!("state {}", step.snapshot.id),
                ReadFrom::Changes(_) => format!("changes {}", step.snapshot.id),
            });
        }
        steps
    }

    async fn history() -> StoreLocation {
        let root = memory("wh/db.db/t");
        put(&root, "schema/schema-0", schema_json(0, &["a"])).await;
        for (id, kind) in
            [(2, "APPEND"), (3, "COMPACT"), (4, "APPEND"), (5, "OVERWRITE"), (6, "ANALYZE"), (7, "APPEND")]
        {
            commit(&root, id, kind).await;
        }
        root
    }

    #[tokio::test]
    async fn poll_when_started_by_every_mode_then_from_there_on() {
        let root = history().await;
        for (options, expected) in [
            (&[][..], &["state 7"][..]),
            (&[("scan.mode", "latest")], &[]),
            (&[("scan.snapshot-id", "1")], &["changes 2", "changes 4", "changes 7"]),
            (&[("scan.snapshot-id", "4")], &["changes 4", "changes 7"]),
            (&[("scan.mode", "from-snapshot-full"), ("scan.snapshot-id", "4")], &["state 4", "changes 7"]),
            (&[("scan.timestamp-millis", "3500")], &["changes 4", "changes 7"]),
            (&[("scan.timestamp-millis", "99999")], &[]),
            (&[("scan.mode", "compacted-full")], &["state 3", "changes 4", "changes 7"]),
            (
                &[("scan.snapshot-id", "4"), ("streaming-read-append-overwrite", "true")],
                &["changes 4", "changes 5", "changes 7"],
            ),
        ] {
            let mut feed = feed(&root, options).await.unwrap();
            assert_eq!(steps(&mut feed).await, expected, "{options:?}");
        }
        for options in [
            &[("scan.mode", "latest-delta")][..],
            &[("incremental-between", "2,4")],
            &[("scan.watermark", "5")],
            &[("consumer-id", "me")],
        ] {
            let error = feed(&root, options).await.unwrap_err();
            assert_eq!(error.kind(), crate::error::ErrorKind::Invalid, "{options:?}: {error}");
        }
    }

    #[tokio::test]
    async fn poll_when_more_is_committed_then_it_comes() {
        let root = history().await;
        let mut feed = feed(&root, &[]).await.unwrap();
        assert_eq!(steps(&mut feed).await, ["state 7"]);
        commit(&root, 8, "APPEND").await;
        commit(&root, 9, "COMPACT").await;
        commit(&root, 10, "APPEND").await;
        assert_eq!(steps(&mut feed).await, ["changes 8", "changes 10"]);
        assert_eq!(feed.next_snapshot(), Some(11));

        let empty = memory("wh/db.db/e");
        put(&empty, "schema/schema-0", schema_json(0, &["a"])).await;
        let mut feed = super::tests::feed(&empty, &[]).await.unwrap();
        assert!(steps(&mut feed).await.is_empty());
        commit(&empty, 1, "APPEND").await;
        assert_eq!(steps(&mut feed).await, ["changes 1"]);
    }

    #[tokio::test]
    async fn record_when_a_consumer_comes_back_then_it_goes_on() {
        let root = history().await;
        let consumer = [("consumer-id", "me"), ("consumer.expiration-time", "1 d"), ("scan.snapshot-id", "2")];
        let mut first = feed(&root, &consumer).await.unwrap();
        assert_eq!(first.poll().await.unwrap().unwrap().snapshot.id, 2);
        first.record().await.unwrap();
        assert_eq!(first.poll().await.unwrap().unwrap().snapshot.id, 4);
        // Not recorded: it comes again.
        let mut second = feed(&root, &consumer).await.unwrap();
        assert_eq!(steps(&mut second).await, ["changes 4", "changes 7"]);
        second.record().await.unwrap();
        assert_eq!(table(&root, &[]).await.consumers().next_snapshot("me").await.unwrap(), Some(8));
        let ignoring: Vec<_> = consumer.into_iter().chain([("consumer.ignore-progress", "true")]).collect();
        assert_eq!(steps(&mut feed(&root, &ignoring).await.unwrap()).await.len(), 3);
    }

    #[tokio::test]
    async fn poll_when_the_next_snapshot_is_gone_then_an_error_says_why() {
        let root = history().await;
        let mut late = ChangeFeed::from_snapshot(table(&root, &[]).await, 1);
        let error = late.poll().await.unwrap_err().to_string();
        assert!(error.contains("snapshot 1 has expired"), "{error}");
        let mut ahead = ChangeFeed::from_snapshot(table(&root, &[]).await, 12);
        let error = ahead.poll().await.unwrap_err().to_string();
        assert!(error.contains("the table was rolled back"), "{error}");
    }
}
