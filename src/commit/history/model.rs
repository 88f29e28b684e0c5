//! What must be so, whatever failed.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::Kind;
use crate::commit::Committable;
use crate::commit::base::{Base, DELETE};
use crate::commit::changes::DELETION_VECTORS;
use crate::commit::scope::Scope;
use crate::commit::tests::{open, orphans};
use crate::spec::{CommitKind, DataFile, Snapshot};
use crate::store::StoreLocation;
use crate::table::Table;

/// What an actor asked for.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub user: String,
    pub committable: Committable,
    /// An overwrite of the partitions of its files, or the removal of one.
    pub scope: Option<Option<i32>>,
    /// Whether an overwrite depends on what it read.
    pub depends: bool,
    /// The deletion vectors of the files that it rewrites, as it knew them.
    pub vectors: Vec<(String, Option<String>)>,
}

impl Asked {
    /// Whether it makes two snapshots.
    pub(super) fn is_two(&self) -> bool {
        self.committable.messages.iter().any(|message| !message.has_no_data() && !message.has_no_compaction())
    }
}

/// What it was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    Done,
    /// What was added is there; what was compacted may be.
    Half,
    Failed,
    Unknown,
}

/// All that was asked and told.
#[derive(Debug, Default)]
pub(super) struct Log {
    asked: Mutex<HashMap<String, (Asked, Option<Told>)>>,
    untidy: AtomicUsize,
}

impl Log {
    pub(super) fn ask(&self, asked: &Asked) {
        self.asked.lock().insert(asked.user.clone(), (asked.clone(), None));
    }

    pub(super) fn tell(&self, asked: &Asked, told: Told) {
        if let Some(entry) = self.asked.lock().get_mut(&asked.user) {
            entry.1 = Some(told);
        }
    }

    /// Some commit may have left files behind, for a reason.
    pub(super) fn untidy(&self) {
        self.untidy.fetch_add(1, Ordering::SeqCst);
    }
}

/// The state of a table as the deltas of its snapshots make it.
#[derive(Default)]
struct State {
    /// Rows of live files, by partition, bucket, level and name.
    live: HashMap<(Vec<u8>, i32, i32, String), i64>,
    rows: i64,
    next_row_id: i64,
}

/// Checks the whole history of a table.
pub(super) async fn check(root: &StoreLocation, kind: Kind, log: &Log) {
    let table = open(root).await;
    let ids = table.snapshots().ids().await.unwrap();
    assert_eq!(ids, (1..=ids.len() as i64).collect::<Vec<_>>(), "snapshots without holes");
    let asked = log.asked.lock().clone();
    let (mut state, mut made): (State, HashMap<String, Vec<CommitKind>>) = Default::default();
    let mut indexes: HashMap<String, String> = HashMap::new();
    let mut time = 0;
    for id in ids {
        let snapshot = table.snapshots().snapshot(id).await.unwrap();
        assert!(snapshot.time_millis >= time);
        time = snapshot.time_millis;
        let asked = &asked.get(&snapshot.commit_user).unwrap_or_else(|| panic!("snapshot {id} of nobody")).0;
        if !asked.committable.messages.is_empty() {
            assert_eq!(snapshot.commit_identifier, asked.committable.identifier);
        }
        made.entry(snapshot.commit_user.clone()).or_default().push(snapshot.commit_kind);
        let before: HashSet<_> = state.live.keys().cloned().collect();
        apply(&table, &snapshot, &mut state, kind).await;
        check_live(&table, &snapshot, &state).await;
        if asked.scope.is_some() && snapshot.commit_kind == CommitKind::Overwrite {
            check_overwrite(&snapshot, &before, &state, asked);
        }
        indexes = check_vectors(&table, &snapshot, &state, &indexes, asked).await;
    }
    check_asked(&asked, &made);
    if kind == Kind::Keyed {
        check_levels(&table).await;
    }
    check_files(&table, &state, log).await;
}

/// The delta of a snapshot on top of the state before it.
async fn apply(table: &Arc<Table>, snapshot: &Snapshot, state: &mut State, kind: Kind) {
    let list = crate::plan::read_manifest_list(table, &snapshot.delta_manifest_list, snapshot.delta_manifest_list_size);
    let delta = Base::of_manifests(list.await.unwrap().to_vec());
    let all = Scope::all(table.schema()).unwrap();
    let mut rows = 0;
    for entries in delta.entries(table, &all).await.unwrap() {
        for row in 0..entries.len() {
            let file = DataFile { entries: Arc::clone(&entries), row: row as u32 };
            let key = key_of(&file);
            if entries.kind[row] == DELETE {
                rows -=
                    state.live.remove(&key).unwrap_or_else(|| panic!("{} removes {key:?}, which is gone", snapshot.id));
            } else {
                rows += file.rows() as i64;
                assert!(
                    state.live.insert(key.clone(), file.rows() as i64).is_none(),
                    "{} doubles {key:?}",
                    snapshot.id
                );
                if kind == Kind::Tracked && entries.file_source[row] == 0 {
                    assert_eq!(file.first_row_id(), Some(state.next_row_id), "row ids go on");
                    state.next_row_id += file.rows() as i64;
                }
            }
        }
    }
    state.rows += rows;
    assert_eq!((snapshot.delta_record_count, snapshot.total_record_count), (rows, state.rows), "{}", snapshot.id);
    assert_eq!(snapshot.next_row_id, Some(state.next_row_id));
    assert_eq!(state.rows, state.live.values().sum::<i64>());
}

fn key_of(file: &DataFile) -> (Vec<u8>, i32, i32, String) {
    (file.partition().to_vec(), file.bucket(), file.level(), file.name().to_owned())
}

/// What all manifests of a snapshot say is what its deltas say.
async fn check_live(table: &Arc<Table>, snapshot: &Arc<Snapshot>, state: &State) {
    let base = Base::read(table, Some(Arc::clone(snapshot))).await.unwrap();
    assert!(base.manifests.len() < 25, "{} manifests", base.manifests.len());
    let live = base.live(table, &Scope::all(table.schema()).unwrap()).await.unwrap();
    assert_eq!(live.len(), state.live.len(), "snapshot {}", snapshot.id);
    for file in &live {
        assert!(state.live.contains_key(&key_of(file)), "snapshot {} has {:?}", snapshot.id, key_of(file));
    }
}

/// An overwrite leaves only its own files in its partitions.
fn check_overwrite(snapshot: &Snapshot, before: &HashSet<(Vec<u8>, i32, i32, String)>, state: &State, asked: &Asked) {
    let partition = match asked.scope {
        Some(Some(partition)) => crate::commit::tests::int_row(&[partition]),
        _ => asked.committable.messages[0].partition.clone(),
    };
    let ours: HashSet<&str> = asked
        .committable
        .messages
        .iter()
        .flat_map(|message| &message.new_files)
        .map(|file| file.file_name.as_str())
        .collect();
    for (in_partition, _, _, name) in state.live.keys().filter(|key| key.0 == partition) {
        assert!(ours.contains(name.as_str()), "snapshot {}: {name} in {in_partition:?} survived", snapshot.id);
    }
    let others = |key: &&(Vec<u8>, i32, i32, String)| key.0 != partition;
    assert_eq!(before.iter().filter(others).count(), state.live.keys().filter(others).count());
}

/// Each live file has one vector at most, and who rewrote a file knew what was deleted of it.
async fn check_vectors(
    table: &Arc<Table>,
    snapshot: &Arc<Snapshot>,
    state: &State,
    before: &HashMap<String, String>,
    asked: &Asked,
) -> HashMap<String, String> {
    let names: HashSet<&str> = state.live.keys().map(|key| key.3.as_str()).collect();
    let base = Base::read(table, Some(Arc::clone(snapshot))).await.unwrap();
    let mut vectors = HashMap::new();
    for index in base.indexes.iter().filter(|index| index.index_type == DELETION_VECTORS) {
        let path = table.files().index_path("", 0, &index.file_name, None).unwrap();
        assert!(table.files().exists(&path).await.unwrap(), "index file {} is gone", index.file_name);
        for range in index.dv_ranges.iter().flatten() {
            assert!(names.contains(range.data_file.as_str()), "snapshot {} marks rows of nothing", snapshot.id);
            assert!(vectors.insert(range.data_file.clone(), index.file_name.clone()).is_none());
        }
    }
    if snapshot.commit_kind == CommitKind::Compact {
        for (file, known) in &asked.vectors {
            assert_eq!(before.get(file), known.as_ref(), "snapshot {} brings deleted rows of {file} back", snapshot.id);
        }
    }
    vectors
}

/// Everybody got what they were told.
fn check_asked(asked: &HashMap<String, (Asked, Option<Told>)>, made: &HashMap<String, Vec<CommitKind>>) {
    for (user, (asked, told)) in asked {
        let snapshots = made.get(user).map_or(&[][..], Vec::as_slice);
        let most = if asked.is_two() { 2 } else { 1 };
        let distinct: HashSet<_> = snapshots.iter().collect();
        assert!(snapshots.len() <= most && distinct.len() == snapshots.len(), "{user} made {snapshots:?}");
        match told {
            Some(Told::Done) if asked.scope.is_none() && asked.committable.messages.is_empty() => {}
            Some(Told::Done) => assert_eq!(snapshots.len(), most, "{user} was told that it is done: {asked:?}"),
            Some(Told::Half) => assert!(asked.is_two() && !snapshots.is_empty(), "{user} was told of half: {asked:?}"),
            Some(Told::Failed) => assert!(snapshots.is_empty(), "{user} was told that it failed: {asked:?}"),
            Some(Told::Unknown) => {}
            None => panic!("{user} was told nothing"),
        }
    }
}

/// Every file that is referred to is there; what is there and not referred to has a reason.
async fn check_files(table: &Arc<Table>, state: &State, log: &Log) {
    let files = table.files();
    let listed = files.list_all(files.root().prefix()).await.unwrap();
    let there: HashSet<&str> = listed.iter().filter_map(|file| file.location.filename()).collect();
    for (_, _, _, name) in state.live.keys() {
        assert!(there.contains(name.as_str()), "data file {name} is gone");
    }
    let left = orphans(table).await;
    if log.untidy.load(Ordering::SeqCst) == 0 {
        assert!(left.is_empty(), "{left:?} is left without a reason");
    }
}

/// Files of a level above 0 do not overlap.
async fn check_levels(table: &Arc<Table>) {
    let snapshot = table.snapshot(None).await.unwrap();
    let base = Base::read(table, snapshot).await.unwrap();
    let live = base.live(table, &Scope::all(table.schema()).unwrap()).await.unwrap();
    let mut levels: HashMap<_, Vec<(Vec<u8>, Vec<u8>)>> = HashMap::new();
    let types = [crate::spec::DataType::not_null(crate::spec::TypeKind::Int)];
    for file in live.iter().filter(|file| file.level() > 0) {
        let sorted = |row: &[u8]| {
            let mut key = Vec::new();
            crate::spec::binary_row::sort_key(row, &types, &mut key).unwrap();
            key
        };
        let level = levels.entry((file.partition().to_vec(), file.bucket(), file.level())).or_default();
        level.push((sorted(file.min_key()), sorted(file.max_key())));
    }
    for files in levels.values_mut() {
        files.sort();
        assert!(files.windows(2).all(|pair| pair[0].1 < pair[1].0), "files of a level overlap");
    }
}
