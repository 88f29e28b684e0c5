//! Snapshot files (`spec/metadata.md 3`): which there are, which is the latest, and what one says.
//!
//! The hints `LATEST` and `EARLIEST` save a listing and are never believed: a writer that died left a stale one, a rollback
//! may have left none. Ids may have holes, and they come back after a rollback.
//!
//! May import: `error`, `spec`, `store::{cache, documents, files}`.

use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;

use super::cache::Caches;
use super::documents;
use super::files::{TableFiles, numbered};
use crate::error::{Error, Result};
use crate::spec::Snapshot;

/// So many times the snapshots after a hint are asked for before all are listed.
const MOST_STEPS: usize = 4;
/// So many snapshots that are not there are asked for before all are listed.
const MOST_HOLES: usize = 16;
/// From so many ids on all are listed before one is searched.
const MOST_SEARCHED: i64 = 1 << 20;
/// Files that are asked for at once.
const CONCURRENCY: usize = 16;

/// Where snapshots begin to be what a search looks for.
#[derive(Debug, Default)]
struct Border {
    /// The last one that is not.
    before: Option<Arc<Snapshot>>,
    /// The first one that is.
    from: Option<Arc<Snapshot>>,
}

/// The snapshots of a branch, or its long-lived changelogs (`spec/metadata.md 9.4`), which look alike.
#[derive(Clone, Debug)]
pub struct Snapshots {
    files: Arc<TableFiles>,
    caches: Arc<Caches>,
    folder: Path,
    prefix: &'static str,
}

impl Snapshots {
    /// The snapshots of the branch of `files`.
    pub fn new(files: Arc<TableFiles>, caches: Arc<Caches>) -> Self {
        let folder = files.snapshot_dir();
        Self { files, caches, folder, prefix: "snapshot-" }
    }

    /// The long-lived changelogs of the branch of `files`: snapshots that have expired but whose changelog is kept.
    pub fn changelogs(files: Arc<TableFiles>, caches: Arc<Caches>) -> Self {
        let folder = files.changelog_dir();
        Self { files, caches, folder, prefix: "changelog-" }
    }

    /// The file of snapshot `id`.
    pub fn path(&self, id: i64) -> Path {
        self.folder.clone().join(format!("{}{id}", self.prefix))
    }

    /// Snapshot `id`; `None` when there is none.
    ///
    /// # Errors
    /// Corrupt when the file is not a snapshot or is another one than its name says, Io when the store failed.
    pub async fn find(&self, id: i64) -> Result<Option<Arc<Snapshot>>> {
        if id < 1 {
            return Ok(None);
        }
        let parse = |bytes: &[u8]| {
            let snapshot = Snapshot::from_json(bytes)?;
            if snapshot.id != id {
                return Err(Error::corrupt(format!("the file holds snapshot {}", snapshot.id)));
            }
            Ok(snapshot)
        };
        documents::load(&self.files, &self.caches, &self.path(id), parse).await
    }

    /// Snapshot `id`.
    ///
    /// # Errors
    /// Not found when there is none, else as [`Self::find`].
    pub async fn snapshot(&self, id: i64) -> Result<Arc<Snapshot>> {
        self.find(id).await?.ok_or_else(|| {
            Error::not_found(format!("snapshot {id} does not exist"))
                .with("file", self.files.location_of(&self.path(id)))
        })
    }

    /// The ids there are, ascending. Other files in the folder (hints, temporary and stray files) are passed over.
    ///
    /// # Errors
    /// Io when the store failed.
    pub async fn ids(&self) -> Result<Vec<i64>> {
        let listed = self.files.list(&self.folder).await?;
        let number = |path: &Path| numbered(path.filename()?, self.prefix).filter(|id| *id > 0);
        let mut ids: Vec<i64> = listed.iter().filter_map(|file| number(&file.location)).collect();
        ids.sort_unstable();
        Ok(ids)
    }

    /// The first `count` ids. Where the hints tell the ends and there are no holes among these, nothing is listed.
    ///
    /// # Errors
    /// Io when the store failed.
    pub async fn first_ids(&self, count: usize) -> Result<Vec<i64>> {
        if let Some((earliest, latest)) = self.hinted_ends().await? {
            let end = i64::try_from(count).map_or(latest, |count| earliest.saturating_add(count - 1).min(latest));
            let there = (earliest..=end).map(|id| async move { self.exists(id).await });
            let there: Vec<bool> = futures::stream::iter(there).buffered(CONCURRENCY).try_collect().await?;
            if there.iter().all(|there| *there) {
                return Ok((earliest..=end).collect());
            }
        }
        let mut ids = self.ids().await?;
        ids.truncate(count);
        Ok(ids)
    }

    /// The greatest id; `None` without snapshots.
    ///
    /// # Errors
    /// Io when the store failed.
    pub async fn latest_id(&self) -> Result<Option<i64>> {
        match self.hinted_latest().await? {
            Some(latest) => Ok(Some(latest)),
            None => Ok(self.ids().await?.last().copied()),
        }
    }

    async fn hinted_latest(&self) -> Result<Option<i64>> {
        match self.hint("LATEST").await {
            Some(hint) if self.exists(hint).await? => self.last_from(hint).await,
            _ => Ok(None),
        }
    }

    /// The snapshot with the greatest id; `None` without snapshots.
    ///
    /// # Errors
    /// As [`Self::find`].
    pub async fn latest(&self) -> Result<Option<Arc<Snapshot>>> {
        if let Some(hint) = self.hint("LATEST").await {
            // One round trip for both questions.
            let (snapshot, latest) = futures::future::join(self.find(hint), self.last_from(hint)).await;
            if let (Some(snapshot), Some(latest)) = (snapshot?, latest?) {
                if latest == hint {
                    return Ok(Some(snapshot));
                }
                if let Some(snapshot) = self.find(latest).await? {
                    return Ok(Some(snapshot));
                }
            }
        }
        // A rollback may remove the last ones between listing and reading.
        for id in self.ids().await?.into_iter().rev() {
            if let Some(snapshot) = self.find(id).await? {
                return Ok(Some(snapshot));
            }
        }
        Ok(None)
    }

    /// The smallest id; `None` without snapshots.
    ///
    /// # Errors
    /// Io when the store failed.
    pub async fn earliest_id(&self) -> Result<Option<i64>> {
        match self.hinted_earliest().await? {
            Some(earliest) => Ok(Some(earliest)),
            None => Ok(self.ids().await?.first().copied()),
        }
    }

    async fn hinted_earliest(&self) -> Result<Option<i64>> {
        match self.hint("EARLIEST").await {
            Some(hint) if self.exists(hint).await? && !self.exists(hint - 1).await? => Ok(Some(hint)),
            _ => Ok(None),
        }
    }

    /// The first and the last id, where the hints tell both.
    async fn hinted_ends(&self) -> Result<Option<(i64, i64)>> {
        let (earliest, latest) = futures::future::try_join(self.hinted_earliest(), self.hinted_latest()).await?;
        Ok(earliest.zip(latest).filter(|(earliest, latest)| earliest <= latest))
    }

    /// The snapshot with the smallest id; `None` without snapshots.
    ///
    /// # Errors
    /// As [`Self::find`].
    pub async fn earliest(&self) -> Result<Option<Arc<Snapshot>>> {
        if let Some(id) = self.earliest_id().await?
            && let Some(snapshot) = self.find(id).await?
        {
            return Ok(Some(snapshot));
        }
        // Another process may be expiring the first ones.
        for id in self.ids().await? {
            if let Some(snapshot) = self.find(id).await? {
                return Ok(Some(snapshot));
            }
        }
        Ok(None)
    }

    /// The latest snapshot that was committed at `millis` or before, by binary search: times grow with ids. `None` when all
    /// are later, or there are none.
    ///
    /// # Errors
    /// As [`Self::find`].
    pub async fn at_or_before(&self, millis: i64) -> Result<Option<Arc<Snapshot>>> {
        Ok(self.search(|snapshot| Some(snapshot.time_millis > millis)).await?.before)
    }

    /// The first snapshot that was committed at `millis` or later, by binary search; `None` when all are earlier, or there are
    /// none.
    ///
    /// # Errors
    /// As [`Self::find`].
    pub async fn at_or_after(&self, millis: i64) -> Result<Option<Arc<Snapshot>>> {
        Ok(self.search(|snapshot| Some(snapshot.time_millis >= millis)).await?.from)
    }

    /// The first snapshot whose watermark is `watermark` or later, by binary search: watermarks grow with ids, and snapshots
    /// without one say nothing. `None` when all are earlier.
    ///
    /// # Errors
    /// As [`Self::find`].
    pub async fn at_watermark(&self, watermark: i64) -> Result<Option<Arc<Snapshot>>> {
        Ok(self.search(|snapshot| snapshot.watermark().map(|reached| reached >= watermark)).await?.from)
    }

    /// The latest snapshot with a watermark that is `watermark` or earlier, by binary search; `None` when all are later.
    ///
    /// # Errors
    /// As [`Self::find`].
    pub async fn below_watermark(&self, watermark: i64) -> Result<Option<Arc<Snapshot>>> {
        Ok(self.search(|snapshot| snapshot.watermark().map(|reached| reached > watermark)).await?.before)
    }

    /// Where snapshots begin to be `reached`, by binary search; those that say nothing (`None`) are passed over. The hints tell
    /// the ends, so that a long history is not listed; it is where they do not, and where many ids between them are holes.
    async fn search(&self, reached: impl Fn(&Snapshot) -> Option<bool> + Sync) -> Result<Border> {
        if let Some((earliest, latest)) = self.hinted_ends().await?
            && latest - earliest < MOST_SEARCHED
            && let Some(border) = self.search_in((earliest..=latest).collect(), &reached, MOST_HOLES).await?
        {
            return Ok(border);
        }
        let found = self.search_in(self.ids().await?, &reached, usize::MAX).await?;
        Ok(found.unwrap_or_default())
    }

    /// The same among `ids`; `None` when more than `most` of those that were looked at are not there.
    async fn search_in(
        &self,
        ids: Vec<i64>,
        reached: &(impl Fn(&Snapshot) -> Option<bool> + Sync),
        most: usize,
    ) -> Result<Option<Border>> {
        let (mut border, mut holes) = (Border::default(), 0);
        // Snapshots below `low` are not reached, those from `high` on are, or say nothing.
        let (mut low, mut high) = (0, ids.len());
        while low < high {
            let middle = low + (high - low) / 2;
            let mut at = middle;
            // The next one that says something decides for those that do not.
            let decides = loop {
                if at >= high {
                    break None;
                }
                match self.find(ids[at]).await? {
                    Some(snapshot) => {
                        if let Some(reached) = reached(&snapshot) {
                            break Some((snapshot, reached));
                        }
                    }
                    None if holes == most => return Ok(None),
                    None => holes += 1,
                }
                at += 1;
            };
            match decides {
                Some((snapshot, false)) => {
                    border.before = Some(snapshot);
                    low = at + 1;
                }
                Some((snapshot, true)) => {
                    border.from = Some(snapshot);
                    high = middle;
                }
                None => high = middle,
            }
        }
        Ok(Some(border))
    }

    /// Writes a snapshot that is not there yet; false, and nothing is written, when there is one of its id.
    ///
    /// # Errors
    /// Io when the store failed.
    pub async fn create(&self, snapshot: &Snapshot) -> Result<bool> {
        self.files.create(&self.path(snapshot.id), snapshot.to_json()?).await
    }

    /// Deletes the file of snapshot `id`. One that is not there is as good as deleted.
    ///
    /// # Errors
    /// Io when the store failed.
    pub async fn delete(&self, id: i64) -> Result<()> {
        self.files.delete(&self.path(id)).await
    }

    /// Writes the hint `LATEST`; without an id the hint is taken away, and listing finds the end.
    ///
    /// # Errors
    /// Io when the store failed.
    pub async fn hint_latest(&self, id: Option<i64>) -> Result<()> {
        self.write_hint("LATEST", id).await
    }

    /// Writes the hint `EARLIEST`, or takes it away.
    ///
    /// # Errors
    /// Io when the store failed.
    pub async fn hint_earliest(&self, id: Option<i64>) -> Result<()> {
        self.write_hint("EARLIEST", id).await
    }

    async fn write_hint(&self, name: &str, id: Option<i64>) -> Result<()> {
        let path = self.folder.clone().join(name);
        match id {
            Some(id) => self.files.overwrite(&path, id.to_string().into_bytes()).await,
            None => self.files.delete(&path).await,
        }
    }

    /// A hint; `None` when it is missing, unreadable or can't be right.
    async fn hint(&self, name: &str) -> Option<i64> {
        let bytes = self.files.read(&self.folder.clone().join(name)).await.ok()?;
        let id = std::str::from_utf8(&bytes).ok()?.trim().parse().ok()?;
        (1..i64::MAX - 2).contains(&id).then_some(id)
    }

    async fn exists(&self, id: i64) -> Result<bool> {
        if id < 1 { Ok(false) } else { self.files.exists(&self.path(id)).await }
    }

    /// The last of the ids that follow `id`, if they are a few: whoever commits writes its snapshot before the hint, and a
    /// listing of all snapshots takes long. The next id but one is asked for too: a stale hint may point right before a hole.
    async fn last_from(&self, id: i64) -> Result<Option<i64>> {
        let mut last = id;
        for _ in 0..=MOST_STEPS {
            let (next, next_but_one) = futures::future::join(self.exists(last + 1), self.exists(last + 2)).await;
            match (next?, next_but_one?) {
                (_, true) => last += 2,
                (true, false) => last += 1,
                (false, false) => return Ok(Some(last)),
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::error::ErrorKind;
    use crate::store::chaos::{ChaosStore, Fate, Operation};
    use crate::store::testing::{FailingHints, TornStore, memory, put, snapshot_json};
    use crate::store::{StoreLocation, open_store};

    fn open(root: &StoreLocation) -> Snapshots {
        let files = TableFiles::new(root.clone(), None).unwrap();
        Snapshots::new(Arc::new(files), Arc::default())
    }

    async fn table(ids: &[i64], hints: &[(&str, &str)]) -> StoreLocation {
        let root = memory("t");
        for id in ids {
            put(&root, &format!("snapshot/snapshot-{id}"), snapshot_json(*id, id * 1000)).await;
        }
        for (name, text) in hints {
            put(&root, &format!("snapshot/{name}"), (*text).to_owned()).await;
        }
        root
    }

    #[tokio::test]
    async fn latest_and_earliest_when_hints_lie_then_the_files_decide() {
        let hints = ["", "5", "5\n", "1", "2", "3", "4", "6", "77", "-1", "0", "x", "9223372036854775807", "5 5"];
        for text in hints {
            for ids in [&[2, 3, 4, 5][..], &[2, 3, 5], &[2, 4, 5], &[5]] {
                let root = table(ids, &[("LATEST", text), ("EARLIEST", text)]).await;
                let snapshots = open(&root);
                assert_eq!(snapshots.latest_id().await.unwrap(), Some(5), "{text:?} {ids:?}");
                assert_eq!(snapshots.latest().await.unwrap().unwrap().id, 5, "{text:?} {ids:?}");
                // A hint right behind a hole is taken for the start, as other engines do.
                if numbered(text.trim(), "")
                    .is_none_or(|hint| !ids.contains(&hint) || hint == ids[0] || ids.contains(&(hint - 1)))
                {
                    assert_eq!(snapshots.earliest_id().await.unwrap(), Some(ids[0]), "{text:?} {ids:?}");
                    assert_eq!(snapshots.earliest().await.unwrap().unwrap().id, ids[0], "{text:?} {ids:?}");
                }
            }
        }
    }

    #[tokio::test]
    async fn at_watermark_when_some_have_none_then_the_first_that_reached_it() {
        let root = memory("t");
        let marks = [None, Some(i64::MIN), Some(10), None, Some(20), Some(20), Some(30), None];
        for (id, mark) in (1..).zip(marks) {
            let mut text = snapshot_json(id, id * 1000);
            if let Some(mark) = mark {
                text = text.replacen('{', &format!("{{\"watermark\":{mark},"), 1);
            }
            put(&root, &format!("snapshot/snapshot-{id}"), text).await;
        }
        let snapshots = open(&root);
        for (watermark, id) in [(i64::MIN + 1, 3), (10, 3), (11, 5), (20, 5), (21, 7), (30, 7)] {
            let found = snapshots.at_watermark(watermark).await.unwrap();
            assert_eq!(found.map(|snapshot| snapshot.id), Some(id), "{watermark}");
        }
        assert!(snapshots.at_watermark(31).await.unwrap().is_none());
        for (watermark, id) in [(9, None), (10, Some(3)), (19, Some(3)), (20, Some(6)), (29, Some(6)), (99, Some(7))] {
            let found = snapshots.below_watermark(watermark).await.unwrap();
            assert_eq!(found.map(|snapshot| snapshot.id), id, "{watermark}");
        }
    }

    #[tokio::test]
    async fn at_or_after_when_times_grow_then_the_first_not_earlier() {
        let snapshots = open(&table(&[3, 5, 6], &[]).await);
        for (millis, id) in [(i64::MIN, Some(3)), (3000, Some(3)), (3001, Some(5)), (6000, Some(6)), (6001, None)] {
            let found = snapshots.at_or_after(millis).await.unwrap();
            assert_eq!(found.map(|snapshot| snapshot.id), id, "{millis}");
        }
    }

    #[tokio::test]
    async fn latest_when_hint_is_a_little_behind_then_not_listed() {
        let ids: Vec<i64> = (1..=20).collect();
        for (hint, listed) in [("20", false), ("18", false), ("15", false), ("3", true)] {
            let root = table(&ids, &[("LATEST", hint)]).await;
            let lists = Arc::new(std::sync::atomic::AtomicBool::new(false));
            let seen = Arc::clone(&lists);
            let decide = move |operation, _: &Path| {
                seen.fetch_or(operation == Operation::List, std::sync::atomic::Ordering::SeqCst);
                Fate::Works
            };
            let snapshots = open(&ChaosStore::over(&root, Box::new(decide)));
            assert_eq!(snapshots.latest().await.unwrap().unwrap().id, 20);
            assert_eq!(snapshots.latest_id().await.unwrap(), Some(20));
            assert_eq!(lists.load(std::sync::atomic::Ordering::SeqCst), listed, "{hint}");
        }
    }

    /// The same table through a store that counts how often it reads, and whether it lists.
    fn counted(root: &StoreLocation) -> (Snapshots, Arc<AtomicUsize>, Arc<AtomicUsize>) {
        let (reads, lists) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (seen_reads, seen_lists) = (Arc::clone(&reads), Arc::clone(&lists));
        let decide = move |operation, _: &Path| {
            match operation {
                Operation::List => seen_lists.fetch_add(1, Ordering::SeqCst),
                _ => seen_reads.fetch_add(1, Ordering::SeqCst),
            };
            Fate::Works
        };
        (open(&ChaosStore::over(root, Box::new(decide))), reads, lists)
    }

    #[tokio::test]
    async fn at_or_before_when_there_are_many_snapshots_then_a_few_are_read_and_none_is_listed() {
        const COUNT: i64 = 4096;
        let ids: Vec<i64> = (1..=COUNT).collect();
        let root = table(&ids, &[("EARLIEST", "1"), ("LATEST", "4096")]).await;
        for wanted in [0, 1, 7, 2048, 4095, 4096] {
            let (snapshots, reads, lists) = counted(&root);
            let found = snapshots.at_or_before(wanted * 1000 + 1).await.unwrap();
            assert_eq!(found.map(|snapshot| snapshot.id), Some(wanted).filter(|id| *id > 0), "{wanted}");
            // 13 halvings, and 7 questions to make sure of the ends.
            assert!(reads.load(Ordering::SeqCst) <= 20, "{wanted}: {reads:?}");
            assert_eq!(lists.load(Ordering::SeqCst), 0);
        }
        let (snapshots, reads, lists) = counted(&root);
        assert_eq!(snapshots.first_ids(10).await.unwrap(), (1..=10).collect::<Vec<_>>());
        assert!(reads.load(Ordering::SeqCst) <= 17, "{reads:?}");
        assert_eq!(lists.load(Ordering::SeqCst), 0);
    }

    #[tokio::test]
    async fn search_when_most_ids_are_holes_then_listed_and_found_all_the_same() {
        let ids = [1, 400, 401, 900, 1000];
        let hints = &[("EARLIEST", "1"), ("LATEST", "1000")];
        for hints in [&hints[..], &[]] {
            let (snapshots, reads, lists) = counted(&table(&ids, hints).await);
            for (millis, before, from) in [
                (999, None, Some(1)),
                (1_000, Some(1), Some(1)),
                (500_000, Some(401), Some(900)),
                (900_000, Some(900), Some(900)),
                (2_000_000, Some(1000), None),
            ] {
                let found = snapshots.at_or_before(millis).await.unwrap();
                assert_eq!(found.map(|snapshot| snapshot.id), before, "{millis}");
                let found = snapshots.at_or_after(millis).await.unwrap();
                assert_eq!(found.map(|snapshot| snapshot.id), from, "{millis}");
            }
            assert_eq!(lists.load(Ordering::SeqCst), 10);
            assert!(reads.load(Ordering::SeqCst) < 600, "{reads:?}");
            assert_eq!(snapshots.first_ids(3).await.unwrap(), [1, 400, 401]);
            assert_eq!(snapshots.first_ids(99).await.unwrap(), ids);
        }
        assert!(open(&table(&[], &[]).await).first_ids(3).await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn create_delete_and_hints_when_called_then_the_files_say_so() {
        let root = table(&[1, 2], &[]).await;
        let snapshots = open(&root);
        let first = snapshots.snapshot(1).await.unwrap();
        assert!(!snapshots.create(&first).await.unwrap());
        snapshots.delete(1).await.unwrap();
        snapshots.delete(1).await.unwrap();
        assert_eq!(snapshots.ids().await.unwrap(), [2]);
        assert!(snapshots.create(&first).await.unwrap());
        assert_eq!(*snapshots.snapshot(1).await.unwrap(), *first);
        snapshots.hint_latest(Some(1)).await.unwrap();
        // A hint that something follows is not believed.
        assert_eq!(snapshots.latest_id().await.unwrap(), Some(2));
        snapshots.hint_latest(None).await.unwrap();
        snapshots.hint_earliest(Some(1)).await.unwrap();
        assert_eq!(snapshots.earliest_id().await.unwrap(), Some(1));
    }

    #[tokio::test]
    async fn latest_when_no_hint_or_no_snapshot_then_listed_or_none() {
        let snapshots = open(&table(&[7, 9, 10], &[]).await);
        assert_eq!(snapshots.latest_id().await.unwrap(), Some(10));
        assert_eq!(snapshots.earliest_id().await.unwrap(), Some(7));
        for root in [table(&[], &[]).await, table(&[], &[("LATEST", "3"), ("EARLIEST", "1")]).await] {
            let snapshots = open(&root);
            assert_eq!(snapshots.latest_id().await.unwrap(), None);
            assert_eq!(snapshots.earliest_id().await.unwrap(), None);
            assert!(snapshots.latest().await.unwrap().is_none());
            assert!(snapshots.earliest().await.unwrap().is_none());
            assert!(snapshots.at_or_before(i64::MAX).await.unwrap().is_none());
        }
    }

    #[tokio::test]
    async fn latest_when_the_store_fails_on_hints_then_listed() {
        let root = FailingHints::over(&table(&[1, 2, 3], &[("LATEST", "3")]).await);
        let snapshots = open(&root);
        assert_eq!(snapshots.latest().await.unwrap().unwrap().id, 3);
        assert_eq!(snapshots.earliest_id().await.unwrap(), Some(1));
    }

    #[tokio::test]
    async fn ids_when_stray_files_then_passed_over() {
        let root = table(&[1, 3], &[]).await;
        for name in [
            ".snapshot-3.0b2c8a60.tmp",
            "snapshot-10b2c8a60-5c2e.tmp",
            "snapshot-x",
            "snapshot-",
            "snapshot-0",
            "snapshot-0000009",
            "snapshot--4",
            "snapshot-9/file",
            "other-12",
        ] {
            put(&root, &format!("snapshot/{name}"), "{".to_owned()).await;
        }
        assert_eq!(open(&root).ids().await.unwrap(), [1, 3]);
        assert_eq!(open(&root).latest_id().await.unwrap(), Some(3));
    }

    #[tokio::test]
    async fn snapshot_when_file_is_broken_then_corrupt_with_its_name() {
        let root = table(&[1, 2], &[]).await;
        for text in ["", "{", "nonsense", "[]", r#"{"id":2}"#, &snapshot_json(1, 5)] {
            put(&root, "snapshot/snapshot-2", text.to_owned()).await;
            let error = open(&root).snapshot(2).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{text}");
            assert!(error.to_string().contains("t/snapshot/snapshot-2"), "{error}");
            assert_eq!(open(&root).latest().await.unwrap_err().kind(), ErrorKind::Corrupt, "never an older one");
        }
    }

    #[tokio::test]
    async fn snapshot_when_seen_before_it_is_whole_then_read_again() {
        let root = TornStore::over(&table(&[1], &[]).await, 2);
        assert_eq!(open(&root).snapshot(1).await.unwrap().id, 1);
    }

    #[tokio::test]
    async fn snapshot_when_id_comes_back_after_rollback_then_the_new_one() {
        let folder = tempfile::tempdir().unwrap();
        for root in [memory("t"), open_store(folder.path().to_str().unwrap()).unwrap()] {
            put(&root, "snapshot/snapshot-1", snapshot_json(1, 1000)).await;
            put(&root, "snapshot/snapshot-2", snapshot_json(2, 2000)).await;
            let snapshots = open(&root);
            let first = snapshots.latest().await.unwrap().unwrap();
            assert!(Arc::ptr_eq(&first, &snapshots.latest().await.unwrap().unwrap()), "the parsed one is used again");
            snapshots.files.delete(&snapshots.path(2)).await.unwrap();
            assert_eq!(snapshots.latest().await.unwrap().unwrap().id, 1);
            assert!(snapshots.find(2).await.unwrap().is_none());
            put(&root, "snapshot/snapshot-2", snapshot_json(2, 3000)).await;
            assert_eq!(snapshots.latest().await.unwrap().unwrap().time_millis, 3000);
            put(&root, "snapshot/snapshot-2", snapshot_json(2, 4000)).await;
            assert_eq!(snapshots.snapshot(2).await.unwrap().time_millis, 4000);
        }
    }

    #[tokio::test]
    async fn at_or_before_when_holes_and_equal_times_then_the_last_not_later() {
        let root = table(&[2, 3, 5, 9], &[]).await;
        put(&root, "snapshot/snapshot-3", snapshot_json(3, 2000)).await;
        let snapshots = open(&root);
        for (millis, id) in [
            (1999, None),
            (2000, Some(3)),
            (4999, Some(3)),
            (5000, Some(5)),
            (8999, Some(5)),
            (9000, Some(9)),
            (i64::MAX, Some(9)),
        ] {
            let found = snapshots.at_or_before(millis).await.unwrap().map(|snapshot| snapshot.id);
            assert_eq!(found, id, "{millis}");
        }
    }

    #[tokio::test]
    async fn changelogs_when_kept_longer_then_read_alike() {
        let root = table(&[5], &[]).await;
        put(&root, "changelog/changelog-4", snapshot_json(4, 4000)).await;
        put(&root, "changelog/LATEST", "-1".to_owned()).await;
        let files = Arc::new(TableFiles::new(root, None).unwrap());
        let changelogs = Snapshots::changelogs(files, Arc::default());
        assert_eq!(changelogs.ids().await.unwrap(), [4]);
        assert_eq!(changelogs.latest().await.unwrap().unwrap().time_millis, 4000);
    }
}
