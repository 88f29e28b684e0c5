//! Upkeep of small tables in memory, whose files hold nothing and whose metadata is real.

mod branches;
mod expiry;
mod figures;
mod orphans;
mod partitions;
mod simulation;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::references::{Branch, all_entries, changelog_manifests, state_manifests};
use crate::commit::{CommitOutcome, Committable, TableCommit};
use crate::error::Result;
use crate::options::UpkeepOptions;
use crate::plan::live::{LiveRequest, index_entries, live_files};
use crate::spec::{DataFileMeta, EMPTY_ROW, FileSource, IndexEntry, SimpleStats, Snapshot};
use crate::store::StoreLocation;
use crate::store::testing::{memory, put};
use crate::table::{Identifier, Table};
use crate::write::CommitMessage;

/// A moment long after every commit.
pub(super) const LATER: i64 = 4_102_444_800_000;

/// Keeps one snapshot, and forgets the others at once.
pub(super) const SHORT: [(&str, &str); 2] = [("snapshot.num-retained.min", "1"), ("snapshot.time-retained", "1 ms")];

pub(super) async fn create(options: &[(&str, &str)], partition: &[&str]) -> StoreLocation {
    let root = memory("wh/db.db/t");
    let options: BTreeMap<_, _> = SHORT.iter().chain(options).copied().collect();
    let schema = serde_json::json!({
        "version": 3, "id": 0,
        "fields": [{"id": 0, "name": "a", "type": "INT"}, {"id": 1, "name": "dt", "type": "STRING"}],
        "highestFieldId": 1, "partitionKeys": partition, "primaryKeys": [], "options": options, "timeMillis": 5
    });
    put(&root, "schema/schema-0", schema.to_string()).await;
    root
}

pub(super) async fn open(root: &StoreLocation) -> Arc<Table> {
    Table::open(root.clone(), Identifier::new("db", "t"), Arc::default(), BTreeMap::new()).await.unwrap()
}

pub(super) async fn table(options: &[(&str, &str)]) -> Arc<Table> {
    open(&create(options, &[]).await).await
}

pub(super) fn meta(name: &str, source: FileSource) -> DataFileMeta {
    DataFileMeta {
        file_name: name.to_owned(),
        file_size: 1,
        row_count: 1,
        min_key: EMPTY_ROW.to_vec(),
        max_key: EMPTY_ROW.to_vec(),
        key_stats: SimpleStats::empty(),
        value_stats: SimpleStats::empty(),
        min_sequence_number: 0,
        max_sequence_number: 0,
        schema_id: 0,
        level: 0,
        extra_files: Vec::new(),
        creation_time: None,
        delete_row_count: Some(0),
        embedded_index: None,
        file_source: Some(source),
        value_stats_cols: Some(Vec::new()),
        external_path: None,
        first_row_id: None,
        write_cols: None,
    }
}

/// Writes data files and gives what the metadata says of them.
pub(super) async fn written(table: &Table, names: &[&str], source: FileSource) -> Result<Vec<DataFileMeta>> {
    let mut metas = Vec::new();
    for name in names {
        table.files().overwrite(&table.files().data_path("", 0, name, None)?, "x").await?;
        metas.push(meta(name, source));
    }
    Ok(metas)
}

pub(super) async fn commit(table: &Arc<Table>, message: CommitMessage) -> Result<CommitOutcome> {
    let message = CommitMessage { partition: EMPTY_ROW.to_vec(), ..message };
    Box::pin(
        TableCommit::new(Arc::clone(table), TableCommit::new_user(table)?)?.commit(Committable::batch(vec![message])),
    )
    .await
}

/// Adds files.
pub(super) async fn add(table: &Arc<Table>, names: &[&str]) -> Result<CommitOutcome> {
    let new_files = written(table, names, FileSource::Append).await?;
    commit(table, CommitMessage { new_files, ..CommitMessage::default() }).await
}

/// Writes some files anew as one.
pub(super) async fn compact(table: &Arc<Table>, before: &[&str], after: &str) -> Result<CommitOutcome> {
    let live = live(table).await?;
    let compact_before = live.into_iter().filter(|file| before.contains(&file.file_name.as_str())).collect();
    let compact_after = written(table, &[after], FileSource::Compact).await?;
    commit(table, CommitMessage { compact_before, compact_after, ..CommitMessage::default() }).await
}

/// The live files of the latest snapshot.
pub(super) async fn live(table: &Arc<Table>) -> Result<Vec<DataFileMeta>> {
    let Some(snapshot) = table.snapshots().latest().await? else { return Ok(Vec::new()) };
    let files = live_files(table, &snapshot, LiveRequest::default()).await?;
    Ok(files.iter().map(|file| DataFileMeta::from(&file.file)).collect())
}

pub(super) fn options(table: &Table) -> UpkeepOptions {
    UpkeepOptions::new(table.settings()).unwrap()
}

/// The ids of the snapshots.
pub(super) async fn ids(table: &Table) -> Vec<i64> {
    table.snapshots().ids().await.unwrap()
}

/// The names of all files in a folder of the table.
pub(super) async fn names(table: &Table, folder: &str) -> BTreeSet<String> {
    let folder = table.files().root().child(folder).unwrap().prefix().clone();
    let listed = table.files().list_all(&folder).await.unwrap();
    listed.iter().map(|file| file.location.filename().unwrap().to_owned()).collect()
}

/// All that the snapshots, tags and branches of a table refer to; each of it has to be there. Paths below the table's folder.
pub(super) async fn referenced(table: &Table) -> BTreeSet<String> {
    let mut used = BTreeSet::new();
    // A table of its own caches sees what is there and not what was.
    let table = open(table.files().root()).await;
    for branch in Branch::all(&table).await.unwrap() {
        let mut states: Vec<Snapshot> = branch.tagged().await.unwrap();
        for id in branch.snapshots.ids().await.unwrap() {
            states.extend(branch.snapshots.find(id).await.unwrap().map(|snapshot| snapshot.as_ref().clone()));
        }
        for state in states {
            add_state(&table, &state, &mut used).await;
        }
    }
    used
}

async fn add_state(table: &Arc<Table>, state: &Snapshot, used: &mut BTreeSet<String>) {
    let place = |name: &str| format!("manifest/{name}");
    used.insert(place(&state.base_manifest_list));
    used.insert(place(&state.delta_manifest_list));
    used.extend(state.changelog_manifest_list.as_deref().map(place));
    used.extend(state.index_manifest.as_deref().map(place));
    let manifests = state_manifests(table, state).await.unwrap_or_else(|error| panic!("{}: {error}", state.id));
    let changelog = changelog_manifests(table, state).await.unwrap_or_else(|error| panic!("{}: {error}", state.id));
    used.extend(manifests.iter().chain(changelog.iter()).map(|meta| place(&meta.file_name)));
    all_entries(table, &manifests).await.unwrap_or_else(|error| panic!("{}: {error}", state.id));
    for file in live_files(table, state, LiveRequest::default()).await.unwrap() {
        used.insert(format!("{}bucket-{}/{}", file.partition.path, file.file.bucket(), file.file.name()));
    }
    for entry in index_entries(table, state).await.unwrap().iter() {
        used.insert(format!("index/{}", entry.file_name));
    }
}

/// Everything that lies in the folders of data and metadata.
pub(super) async fn stored(table: &Table) -> BTreeSet<String> {
    let prefix = table.files().root().prefix();
    let listed = table.files().list_all(prefix).await.unwrap();
    let paths = listed.iter().map(|file| {
        let parts: Vec<String> =
            file.location.prefix_match(prefix).unwrap().map(|part| part.as_ref().to_owned()).collect();
        parts.join("/")
    });
    let of_metadata = ["schema/", "snapshot/", "changelog/", "tag/", "branch/", "consumer/"];
    paths.filter(|path| !of_metadata.iter().any(|folder| path.starts_with(folder))).collect()
}

/// Nothing that is referred to is missing; gives what nothing refers to.
pub(super) async fn leaked(table: &Table) -> BTreeSet<String> {
    let (used, stored) = (referenced(table).await, stored(table).await);
    let missing: Vec<&String> = used.difference(&stored).collect();
    assert!(missing.is_empty(), "missing: {missing:?}");
    stored.difference(&used).cloned().collect()
}

/// An index file with nothing in it.
pub(super) async fn index_file(table: &Table, name: &str, data_file: &str) -> IndexEntry {
    let path = table.files().index_path("", 0, name, None).unwrap();
    table.files().overwrite(&path, "x").await.unwrap();
    IndexEntry {
        kind: 0,
        partition: Arc::from(EMPTY_ROW.as_slice()),
        bucket: 0,
        index_type: "DELETION_VECTORS".to_owned(),
        file_name: name.to_owned(),
        file_size: 1,
        row_count: 1,
        dv_ranges: Some(vec![crate::spec::DvRange {
            data_file: data_file.to_owned(),
            offset: 1,
            length: 22,
            cardinality: Some(1),
        }]),
        external_path: None,
        global_index: None,
    }
}
