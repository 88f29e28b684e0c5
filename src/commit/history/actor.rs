//! Who commits, and through which store.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use object_store::path::Path;

use super::model::{Asked, Log, Told};
use super::{Faults, Kind, Luck};
use crate::commit::base::Base;
use crate::commit::changes::DELETION_VECTORS;
use crate::commit::scope::Scope;
use crate::commit::tests::{added_to, file, int_row, open};
use crate::commit::{Committable, OverwriteScope, PartitionSpec, TableCommit, outcome_is_unknown};
use crate::error::{ErrorKind, Result};
use crate::house::Random;
use crate::spec::{DataFile, DataFileMeta, DvRange, IndexEntry, Snapshot};
use crate::store::StoreLocation;
use crate::store::chaos::{ChaosStore, Decide, Fate, Gate, Operation};
use crate::table::Table;
use crate::write::{CommitMessage, OwnFiles};

/// One committer: a process with caches and a store of its own.
pub(super) struct Actor {
    number: usize,
    /// Which life it is in.
    life: usize,
    kind: Kind,
    store: StoreLocation,
    gate: Gate,
    luck: Arc<Luck>,
    log: Arc<Log>,
    left: Arc<AtomicUsize>,
    faults: Faults,
    busy: AtomicBool,
    names: AtomicUsize,
    /// What was being committed in its last life.
    inherited: Option<Asked>,
    current: parking_lot::Mutex<Option<Asked>>,
}

/// What an actor sees of the table before it does something.
struct View {
    live: Vec<DataFile>,
    indexes: Arc<Vec<IndexEntry>>,
    snapshot: Option<Arc<Snapshot>>,
}

impl Actor {
    #[expect(clippy::too_many_arguments, reason = "a test's")]
    pub(super) fn new(
        number: usize,
        kind: Kind,
        root: &StoreLocation,
        gate: Gate,
        random: Random,
        log: &Arc<Log>,
        left: &Arc<AtomicUsize>,
        faults: Faults,
    ) -> Arc<Self> {
        let luck = Arc::new(Luck::default());
        *luck.random.lock() = Some(random);
        let store = ChaosStore::gated(root, decide(&luck, faults), Some(Arc::clone(&gate)));
        Arc::new(Self {
            number,
            life: 0,
            kind,
            store,
            gate,
            luck,
            log: Arc::clone(log),
            left: Arc::clone(left),
            faults,
            busy: AtomicBool::new(false),
            names: AtomicUsize::new(0),
            inherited: None,
            current: parking_lot::Mutex::default(),
        })
    }

    /// The same one after a restart; it may go on with what was being committed.
    pub(super) fn successor(&self, root: &StoreLocation, goes_on: bool) -> Self {
        let luck = Arc::new(Luck::default());
        let random = self.luck.random.lock().clone();
        *luck.random.lock() = random.map(|mut random| random.split());
        Self {
            number: self.number,
            life: self.life + 1,
            kind: self.kind,
            store: ChaosStore::gated(root, decide(&luck, self.faults), Some(Arc::clone(&self.gate))),
            gate: Arc::clone(&self.gate),
            luck,
            log: Arc::clone(&self.log),
            left: Arc::clone(&self.left),
            faults: self.faults,
            busy: AtomicBool::new(false),
            names: AtomicUsize::new(0),
            inherited: self.inherit(goes_on),
            current: parking_lot::Mutex::default(),
        }
    }

    fn inherit(&self, goes_on: bool) -> Option<Asked> {
        let asked = self.current.lock().take();
        if let Some(asked) = &asked {
            self.log.tell(asked, Told::Unknown);
        }
        asked.filter(|_| goes_on)
    }

    /// Whether it is in the middle of a commit.
    pub(super) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::SeqCst)
    }

    /// What still happens on its behalf meets no faults any more.
    pub(super) fn die(&self) {
        self.luck.calm.store(true, Ordering::SeqCst);
        self.log.untidy();
    }

    fn below(&self, n: usize) -> usize {
        self.luck.random.lock().as_mut().map_or(0, |random| random.below(n))
    }

    fn once_in(&self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn calm(&self, calm: bool) {
        self.luck.calm.store(calm, Ordering::SeqCst);
    }

    fn name(&self) -> String {
        format!("data-{}-{}-{}", self.number, self.life, self.names.fetch_add(1, Ordering::SeqCst))
    }

    /// Commits until enough was committed.
    pub(super) async fn live(self: Arc<Self>) {
        self.calm(true);
        let table = open(&self.store).await;
        if let Some(asked) = &self.inherited {
            self.replay(&table, asked).await;
        }
        while self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok() {
            self.calm(true);
            let view = View::of(&table).await;
            let own = OwnFiles::new(Arc::clone(table.files()));
            let asked = self.choose(&table, &view, &own).await;
            self.log.ask(&asked);
            *self.current.lock() = Some(asked.clone());
            self.busy.store(true, Ordering::SeqCst);
            self.calm(false);
            let told = self.commit(&table, &asked, &view, &own).await;
            self.calm(true);
            self.busy.store(false, Ordering::SeqCst);
            *self.current.lock() = None;
            if self.luck.untidy.swap(false, Ordering::SeqCst) || told == Told::Unknown {
                self.log.untidy();
            }
            if told == Told::Failed {
                own.remove().await;
            }
            own.keep();
            self.log.tell(&asked, told);
            if told == Told::Unknown {
                // As an application would: see what is there, commit the rest.
                self.replay(&table, &asked).await;
            }
        }
    }

    async fn replay(&self, table: &Arc<Table>, asked: &Asked) {
        if asked.scope.is_some() || asked.committable.messages.is_empty() {
            return;
        }
        let job = TableCommit::new(Arc::clone(table), &asked.user).unwrap();
        match job.filter_committed(vec![asked.committable.clone()]).await {
            Ok(left) => {
                for committable in left {
                    let told = match job.commit(committable).await {
                        Ok(outcome) if outcome.compaction_failed.is_some() => Told::Half,
                        Ok(_) => Told::Done,
                        Err(error) if error.kind() == ErrorKind::Conflict => Told::Failed,
                        // Nothing fails any more, but others may make it wait for too long.
                        Err(error) if self.faults.hangs && outcome_is_unknown(&error) => Told::Unknown,
                        Err(error) if self.faults.hangs && error.kind() == ErrorKind::Io => Told::Failed,
                        Err(error) => panic!("nothing fails any more: {error}"),
                    };
                    self.log.tell(asked, told);
                }
            }
            // It died, but its files did not survive it either.
            Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound, "{error}"),
        }
    }

    async fn commit(&self, table: &Arc<Table>, asked: &Asked, view: &View, own: &Arc<OwnFiles>) -> Told {
        let job = TableCommit::new(Arc::clone(table), &asked.user).unwrap().owning(Arc::clone(own));
        let job = if asked.depends { job.read_snapshot(Some(view.id())) } else { job };
        let result = match &asked.scope {
            None if asked.committable.messages.is_empty() => job.compact_manifests().await,
            None => job.commit(asked.committable.clone()).await,
            Some(Some(partition)) => {
                let values = std::collections::BTreeMap::from([("a".to_owned(), (*partition).into())]);
                job.drop_partitions(&[PartitionSpec::new(table.schema(), &values).unwrap()]).await
            }
            Some(None) => job.overwrite(&OverwriteScope::Dynamic, asked.committable.clone()).await,
        };
        match result {
            Ok(outcome) => {
                // One without files may have had nothing to do.
                assert!(!outcome.snapshots.is_empty() || asked.committable.messages.is_empty());
                if outcome.compaction_failed.is_some() { Told::Half } else { Told::Done }
            }
            Err(error) if outcome_is_unknown(&error) => Told::Unknown,
            Err(error) => {
                assert!(matches!(error.kind(), ErrorKind::Conflict | ErrorKind::Io), "{error}");
                Told::Failed
            }
        }
    }

    /// What to do next, with its files written.
    async fn choose(&self, table: &Arc<Table>, view: &View, own: &OwnFiles) -> Asked {
        let partition = 1 + self.below(2) as i32;
        let bucket = if self.kind == Kind::Keyed { self.below(2) as i32 } else { 0 };
        let mut asked = Asked {
            user: format!("user-{}-{}-{}", self.number, self.life, self.names.fetch_add(1, Ordering::SeqCst)),
            committable: if self.once_in(2) { Committable::batch(Vec::new()) } else { Committable::new(7, Vec::new()) },
            scope: None,
            depends: false,
            vectors: Vec::new(),
        };
        let here: Vec<&DataFile> =
            view.live.iter().filter(|file| *file.partition().as_ref() == *int_row(&[partition])).collect();
        let here: Vec<&DataFile> = here.into_iter().filter(|file| file.bucket() == bucket).collect();
        let mut message = CommitMessage { bucket, ..added_to(&[partition], &[]) };
        if self.kind == Kind::Keyed {
            message.total_buckets = Some(2);
        }
        match self.below(20) {
            0 => return asked,
            1 => {
                asked.scope = Some(Some(partition));
                return asked;
            }
            2 | 3 => {
                asked.scope = Some(None);
                asked.depends = self.once_in(3);
                message.new_files = vec![self.new_file(table, partition, bucket, 0, None, own).await];
            }
            4..=6 if here.len() > 1 => self.compact(table, &here, &mut message, view, &mut asked, own).await,
            7 if here.len() > 1 => {
                message.new_files = vec![self.new_file(table, partition, bucket, 0, None, own).await];
                self.compact(table, &here, &mut message, view, &mut asked, own).await;
            }
            8 | 9 if self.kind == Kind::Vectors && !here.is_empty() => {
                self.mark(table, here[self.below(here.len())], &mut message, view, own).await;
            }
            10 if matches!(self.kind, Kind::Append | Kind::Tracked) && !here.is_empty() => {
                let gone = here[self.below(here.len())];
                message.deleted_files = vec![DataFileMeta::from(gone)];
                if self.once_in(2) {
                    message.new_files = vec![self.new_file(table, partition, bucket, 0, None, own).await];
                }
            }
            _ => {
                for _ in 0..=self.below(2) {
                    message.new_files.push(self.new_file(table, partition, bucket, 0, None, own).await);
                }
            }
        }
        asked.committable.messages = vec![message];
        asked
    }

    /// Rewrites some files into one; of a table with keys all of a bucket into its top level, or the lowest into the next.
    async fn compact(
        &self,
        table: &Arc<Table>,
        here: &[&DataFile],
        message: &mut CommitMessage,
        view: &View,
        asked: &mut Asked,
        own: &OwnFiles,
    ) {
        let partition = i32::from_le_bytes(here[0].partition()[12..16].try_into().unwrap());
        let level = if self.once_in(3) { 4 } else { 5 };
        let chosen: Vec<&DataFile> = here
            .iter()
            .copied()
            .filter(|file| if self.kind == Kind::Keyed { file.level() <= level } else { self.once_in(2) })
            .collect();
        let Some(first) = chosen.first() else {
            message.new_files.push(self.new_file(table, partition, message.bucket, 0, None, own).await);
            return;
        };
        let keys = (self.kind == Kind::Keyed).then(|| {
            let min = chosen.iter().map(|file| key(file.min_key())).min().unwrap();
            (min, chosen.iter().map(|file| key(file.max_key())).max().unwrap())
        });
        let level = if self.kind == Kind::Keyed { level } else { 0 };
        let rows: i64 = chosen.iter().map(|file| file.rows() as i64).sum();
        let mut after = self.new_file(table, partition, first.bucket(), level, keys, own).await;
        after.row_count = rows;
        after.file_source = Some(crate::spec::FileSource::Compact);
        message.compact_before = chosen.iter().map(|file| DataFileMeta::from(*file)).collect();
        message.compact_after = vec![after];
        // The vectors of what is rewritten go, those of its neighbours are written again.
        let names: Vec<&str> = chosen.iter().map(|file| file.name()).collect();
        for index in view.vectors() {
            let ranges = index.dv_ranges.iter().flatten();
            if ranges.clone().any(|range| names.contains(&range.data_file.as_str())) {
                let rest: Vec<DvRange> =
                    ranges.filter(|range| !names.contains(&range.data_file.as_str())).cloned().collect();
                message.compact_deleted_index_files.push(index.clone());
                if !rest.is_empty() {
                    let again = self.new_index(table, &int_row(&[partition]), rest, own).await;
                    message.compact_new_index_files.push(again);
                }
            }
        }
        for name in names {
            asked.vectors.push((name.to_owned(), view.vector_of(name)));
        }
    }

    /// Marks rows of a file, together with what was marked before.
    async fn mark(
        &self,
        table: &Arc<Table>,
        file: &DataFile,
        message: &mut CommitMessage,
        view: &View,
        own: &OwnFiles,
    ) {
        let range =
            |name: &str, length| DvRange { data_file: name.to_owned(), offset: 1, length, cardinality: Some(1) };
        let mut ranges = vec![range(file.name(), self.below(100) as i32)];
        for index in
            view.vectors().filter(|index| index.dv_ranges.iter().flatten().any(|range| range.data_file == file.name()))
        {
            message.deleted_index_files.push(index.clone());
            ranges.extend(index.dv_ranges.iter().flatten().filter(|range| range.data_file != file.name()).cloned());
        }
        message.new_index_files = vec![self.new_index(table, file.partition(), ranges, own).await];
    }

    async fn new_index(&self, table: &Table, partition: &[u8], ranges: Vec<DvRange>, own: &OwnFiles) -> IndexEntry {
        let entry = IndexEntry {
            kind: 0,
            partition: partition.into(),
            bucket: 0,
            index_type: DELETION_VECTORS.to_owned(),
            file_name: self.name(),
            file_size: 1,
            row_count: ranges.len() as i64,
            dv_ranges: Some(ranges),
            external_path: None,
            global_index: None,
        };
        let path = table.files().index_path("", 0, &entry.file_name, None).unwrap();
        own.add(path.clone());
        table.files().overwrite(&path, "x").await.unwrap();
        entry
    }

    async fn new_file(
        &self,
        table: &Table,
        partition: i32,
        bucket: i32,
        level: i32,
        keys: Option<(i32, i32)>,
        own: &OwnFiles,
    ) -> DataFileMeta {
        let (low, high) = keys.unwrap_or_else(|| {
            let low = self.below(1000) as i32;
            (low, low + self.below(100) as i32)
        });
        let (min_key, max_key) =
            if self.kind == Kind::Keyed { (int_row(&[low]), int_row(&[high])) } else { (int_row(&[]), int_row(&[])) };
        let meta = DataFileMeta { level, min_key, max_key, ..file(&self.name(), 1 + self.below(9) as i64) };
        let path = table.files().data_path(&format!("a={partition}/"), bucket, &meta.file_name, None).unwrap();
        own.add(path.clone());
        table.files().overwrite(&path, "x").await.unwrap();
        meta
    }
}

fn key(row: &[u8]) -> i32 {
    i32::from_le_bytes(row[12..16].try_into().unwrap())
}

impl View {
    async fn of(table: &Arc<Table>) -> Self {
        let read = async || -> Result<Self> {
            let snapshot = table.snapshot(None).await?;
            let base = Base::read(table, snapshot.clone()).await?;
            let live = base.live(table, &Scope::all(table.schema())?).await?;
            Ok(Self { live, indexes: base.indexes, snapshot })
        };
        read().await.unwrap()
    }

    fn id(&self) -> i64 {
        self.snapshot.as_ref().map_or(0, |snapshot| snapshot.id)
    }

    fn vectors(&self) -> impl Iterator<Item = &IndexEntry> {
        self.indexes.iter().filter(|index| index.index_type == DELETION_VECTORS)
    }

    fn vector_of(&self, name: &str) -> Option<String> {
        let has = |index: &&IndexEntry| index.dv_ranges.iter().flatten().any(|range| range.data_file == name);
        self.vectors().find(has).map(|index| index.file_name.clone())
    }
}

/// What happens to the operations of an actor.
fn decide(luck: &Arc<Luck>, faults: Faults) -> Decide {
    let luck = Arc::clone(luck);
    Box::new(move |operation: Operation, path: &Path| {
        if faults.one_in == 0 || luck.calm.load(Ordering::SeqCst) {
            return Fate::Works;
        }
        let mut random = luck.random.lock();
        let Some(random) = random.as_mut() else { return Fate::Works };
        if operation == Operation::List && random.once_in(3) {
            return Fate::Stale;
        }
        // The moment that counts gets more of it.
        let is_snapshot = path.filename().is_some_and(|name| name.starts_with("snapshot-"));
        let one_in = if is_snapshot && operation == Operation::Create { faults.one_in / 4 } else { faults.one_in };
        if !random.once_in(one_in) {
            return Fate::Works;
        }
        if operation == Operation::Delete {
            luck.untidy.store(true, Ordering::SeqCst);
        }
        match random.below(100) {
            0 if faults.hangs => {
                luck.untidy.store(true, Ordering::SeqCst);
                Fate::Hangs
            }
            1 if faults.hangs => {
                luck.untidy.store(true, Ordering::SeqCst);
                Fate::HangsAfter
            }
            n if n % 2 == 0 => Fate::Fails,
            _ => Fate::FailsAfter,
        }
    })
}
