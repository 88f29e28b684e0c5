//! Commits to small tables in memory and on disk.

mod conflicts;
mod faults;
mod figures;
mod merging;
mod overwrite;
mod recovery;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::*;
use crate::error::ErrorKind;
use crate::spec::{CommitKind, DataFileMeta, EMPTY_ROW, FileSource, SimpleStats};
use crate::store::StoreLocation;
use crate::store::testing::{memory, put};
use crate::table::{Identifier, Table};
use crate::write::CommitMessage;

/// A table with columns `a INT, b INT, c STRING`, partitioned or with keys.
#[derive(Clone, Copy)]
pub(super) struct Shape<'a> {
    pub partition: &'a [&'a str],
    pub keys: &'a [&'a str],
    pub options: &'a [(&'a str, &'a str)],
}

pub(super) const APPEND: Shape<'static> = Shape { partition: &[], keys: &[], options: &[] };

pub(super) async fn create(root: &StoreLocation, shape: &Shape<'_>) {
    let options: BTreeMap<_, _> = shape.options.iter().copied().collect();
    let schema = serde_json::json!({
        "version": 3, "id": 0,
        "fields": [{"id": 0, "name": "a", "type": "INT"}, {"id": 1, "name": "b", "type": "INT"},
            {"id": 2, "name": "c", "type": "STRING"}],
        "highestFieldId": 2, "partitionKeys": shape.partition, "primaryKeys": shape.keys, "options": options,
        "timeMillis": 5
    });
    put(root, "schema/schema-0", schema.to_string()).await;
}

pub(super) async fn open(root: &StoreLocation) -> Arc<Table> {
    Table::open(root.clone(), Identifier::new("db", "t"), Arc::default(), BTreeMap::new()).await.unwrap()
}

pub(super) async fn table(shape: &Shape<'_>) -> Arc<Table> {
    let root = memory("wh/db.db/t");
    create(&root, shape).await;
    open(&root).await
}

/// The serialized row of INT values.
pub(super) fn int_row(values: &[i32]) -> Vec<u8> {
    let mut row = (values.len() as u32).to_be_bytes().to_vec();
    row.extend([0; 8]);
    for value in values {
        row.extend(value.to_le_bytes());
        row.extend([0; 4]);
    }
    row
}

/// A data file of an append table.
pub(super) fn file(name: &str, rows: i64) -> DataFileMeta {
    DataFileMeta {
        file_name: name.to_owned(),
        file_size: 100,
        row_count: rows,
        min_key: EMPTY_ROW.to_vec(),
        max_key: EMPTY_ROW.to_vec(),
        key_stats: SimpleStats::empty(),
        value_stats: SimpleStats::empty(),
        min_sequence_number: 0,
        max_sequence_number: rows - 1,
        schema_id: 0,
        level: 0,
        extra_files: Vec::new(),
        creation_time: Some(1),
        delete_row_count: Some(0),
        embedded_index: None,
        file_source: Some(FileSource::Append),
        value_stats_cols: Some(Vec::new()),
        external_path: None,
        first_row_id: None,
        write_cols: None,
    }
}

/// A file of a table with one INT as its key.
pub(super) fn keyed(name: &str, level: i32, keys: (i32, i32)) -> DataFileMeta {
    DataFileMeta { level, min_key: int_row(&[keys.0]), max_key: int_row(&[keys.1]), ..file(name, 2) }
}

/// What a writer of an unpartitioned table did.
pub(super) fn added(files: &[DataFileMeta]) -> CommitMessage {
    CommitMessage { partition: EMPTY_ROW.to_vec(), new_files: files.to_vec(), ..CommitMessage::default() }
}

/// The same in a partition of INT columns.
pub(super) fn added_to(partition: &[i32], files: &[DataFileMeta]) -> CommitMessage {
    CommitMessage { partition: int_row(partition), ..added(files) }
}

/// What a compaction of an unpartitioned table did.
pub(super) fn compacted(before: &[DataFileMeta], after: &[DataFileMeta]) -> CommitMessage {
    CommitMessage {
        partition: EMPTY_ROW.to_vec(),
        compact_before: before.to_vec(),
        compact_after: after.to_vec(),
        ..CommitMessage::default()
    }
}

/// A committer of its own user.
pub(super) fn committer(table: &Arc<Table>) -> TableCommit {
    TableCommit::new(Arc::clone(table), TableCommit::new_user(table).unwrap()).unwrap()
}

/// Commits as a batch job of its own.
pub(super) async fn commit(table: &Arc<Table>, message: CommitMessage) -> crate::Result<CommitOutcome> {
    committer(table).commit(Committable::batch(vec![message])).await
}

/// The kind of the error of a commit that has to fail, which must leave no snapshot.
pub(super) async fn refused(table: &Arc<Table>, message: CommitMessage) -> String {
    let before = table.snapshot(None).await.unwrap().map(|snapshot| snapshot.id);
    let error = commit(table, message).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert_eq!(table.snapshot(None).await.unwrap().map(|snapshot| snapshot.id), before);
    error.to_string()
}

/// All metadata files that no snapshot refers to.
pub(super) async fn orphans(table: &Arc<Table>) -> Vec<String> {
    let files = table.files();
    let mut used = std::collections::HashSet::new();
    for id in table.snapshots().ids().await.unwrap() {
        let snapshot = table.snapshots().snapshot(id).await.unwrap();
        let lists = [
            Some(snapshot.base_manifest_list.clone()),
            Some(snapshot.delta_manifest_list.clone()),
            snapshot.changelog_manifest_list.clone(),
        ];
        for list in lists.into_iter().flatten() {
            let metas = crate::plan::read_manifest_list(table, &list, None).await.unwrap();
            used.extend(metas.iter().map(|meta| meta.file_name.clone()));
            used.insert(list);
        }
        used.extend(snapshot.index_manifest.clone());
        used.extend(snapshot.statistics.clone());
    }
    let mut listed = files.list_all(&files.root().prefix().clone().join("manifest")).await.unwrap();
    listed.extend(files.list_all(&files.root().prefix().clone().join("statistics")).await.unwrap());
    let names = listed.iter().map(|file| file.location.filename().unwrap().to_owned());
    names.filter(|name| !used.contains(name)).collect()
}

/// Names of the live files, in order.
pub(super) async fn live(table: &Arc<Table>) -> Vec<String> {
    let snapshot = table.snapshot(None).await.unwrap();
    let base = base::Base::read(table, snapshot).await.unwrap();
    let all = scope::Scope::all(table.schema()).unwrap();
    base.live(table, &all).await.unwrap().iter().map(|file| file.name().to_owned()).collect()
}

#[tokio::test]
async fn commit_when_appending_then_snapshots_like_those_of_java() {
    let table = table(&APPEND).await;
    let commit = TableCommit::new(Arc::clone(&table), "me").unwrap();
    let outcome = commit.commit(Committable::batch(vec![added(&[file("f1", 3), file("f2", 4)])])).await.unwrap();
    assert_eq!((outcome.snapshots.len(), outcome.attempts, outcome.manifests_written), (1, 1, 1));
    let first = outcome.snapshot().unwrap();
    assert_eq!((first.version, first.id, first.schema_id, first.commit_kind), (3, 1, 0, CommitKind::Append));
    assert_eq!((first.total_record_count, first.delta_record_count, first.next_row_id), (7, 7, Some(0)));
    assert_eq!((first.commit_user.as_str(), first.commit_identifier), ("me", i64::MAX));
    assert!(first.base_manifest_list.ends_with("-0") && first.delta_manifest_list.ends_with("-1"));

    let streamed = Committable { watermark: Some(5), ..Committable::new(7, vec![added(&[file("f3", 1)])]) };
    let second = Arc::clone(commit.commit(streamed).await.unwrap().snapshot().unwrap());
    assert_eq!((second.id, second.commit_identifier, second.watermark), (2, 7, Some(5)));
    assert_eq!((second.total_record_count, second.delta_record_count), (8, 1));
    assert!(second.time_millis >= first.time_millis);
    let late = Committable { watermark: Some(3), ..Committable::new(8, Vec::new()) };
    let third = Arc::clone(commit.commit(late).await.unwrap().snapshot().unwrap());
    assert_eq!((third.id, third.watermark, third.delta_record_count), (3, Some(5), 0));

    assert_eq!(live(&table).await, ["f1", "f2", "f3"]);
    assert_eq!(live(&open(table.files().root()).await).await, ["f1", "f2", "f3"], "and without what is cached");
    let files = table.files();
    for (hint, id) in [("LATEST", "3"), ("EARLIEST", "1")] {
        assert_eq!(files.read(&files.snapshot_dir().join(hint)).await.unwrap(), id);
    }
    assert_eq!(*table.snapshot(None).await.unwrap().unwrap(), *third);
    assert!(commit.commit(Committable::batch(Vec::new())).await.unwrap().snapshots.is_empty());
    assert_eq!(orphans(&table).await, [""; 0]);
}

#[tokio::test]
async fn commit_when_message_adds_and_compacts_then_two_snapshots() {
    let table = table(&Shape { keys: &["a"], options: &[("bucket", "1")], ..APPEND }).await;
    let (old, new, top) = (keyed("old", 0, (1, 5)), keyed("new", 0, (3, 9)), keyed("top", 5, (1, 9)));
    commit(&table, added(std::slice::from_ref(&old))).await.unwrap();
    let message = CommitMessage { new_files: vec![new.clone()], ..compacted(&[old, new], &[top]) };
    let committable = Committable {
        properties: BTreeMap::from([("k".to_owned(), "v".to_owned())]),
        ..Committable::new(4, vec![message])
    };
    let outcome = committer(&table).commit(committable).await.unwrap();
    let kinds: Vec<_> = outcome.snapshots.iter().map(|snapshot| (snapshot.id, snapshot.commit_kind)).collect();
    assert_eq!(kinds, [(2, CommitKind::Append), (3, CommitKind::Compact)]);
    for snapshot in &outcome.snapshots {
        assert_eq!((snapshot.commit_identifier, snapshot.properties.as_ref().unwrap().len()), (4, 1));
    }
    assert_eq!((outcome.snapshots[1].total_record_count, outcome.snapshots[1].delta_record_count), (2, -2));
    assert_eq!(live(&table).await, ["top"]);
}

#[tokio::test]
async fn commit_when_changelog_then_its_list_and_count() {
    let table = table(&Shape { keys: &["a"], options: &[("bucket", "1")], ..APPEND }).await;
    let message = CommitMessage { changelog_files: vec![file("changelog-1", 5)], ..added(&[keyed("f", 0, (1, 2))]) };
    let snapshot = Arc::clone(commit(&table, message).await.unwrap().snapshot().unwrap());
    assert_eq!(snapshot.changelog_record_count, Some(5));
    assert!(snapshot.changelog_manifest_list_size.unwrap() > 0);
    let next = Arc::clone(commit(&table, added(&[keyed("g", 0, (1, 2))])).await.unwrap().snapshot().unwrap());
    assert_eq!((next.changelog_manifest_list.as_ref(), next.changelog_record_count), (None, None));
}

#[tokio::test]
async fn commit_when_rows_are_tracked_then_ids_go_on() {
    let tracked = [("row-tracking.enabled", "true"), ("data-evolution.enabled", "true")];
    let table = table(&Shape { partition: &["a"], options: &[tracked[0], tracked[1]], ..APPEND }).await;
    let blob = |name: &str, rows| DataFileMeta { write_cols: Some(vec!["c".to_owned()]), ..file(name, rows) };
    let messages = vec![
        added_to(&[1], &[file("f1", 10), blob("b1.blob", 4), blob("b2.blob", 6)]),
        added_to(&[2], &[file("f2", 5)]),
        added_to(&[1], &[file("f3", 1)]),
    ];
    let outcome = committer(&table).commit(Committable::batch(messages)).await.unwrap();
    assert_eq!(outcome.snapshot().unwrap().next_row_id, Some(16));
    let base = base::Base::read(&table, outcome.snapshot().cloned()).await.unwrap();
    let ids = |files: Vec<crate::spec::DataFile>| -> Vec<_> {
        files.iter().map(|file| (file.name().to_owned(), file.first_row_id(), file.sequence_numbers())).collect()
    };
    let all = scope::Scope::all(table.schema()).unwrap();
    let expected = [("f1", 0), ("b1.blob", 0), ("b2.blob", 4), ("f3", 10), ("f2", 11)];
    let expected = expected.map(|(name, id)| (name.to_owned(), Some(id), (1, 1)));
    assert_eq!(ids(base.live(&table, &all).await.unwrap()), expected);
    let kept = DataFileMeta { first_row_id: Some(0), file_source: Some(FileSource::Compact), ..file("f4", 10) };
    let message = CommitMessage { partition: int_row(&[1]), ..compacted(&[], &[kept]) };
    let next = Arc::clone(commit(&table, message).await.unwrap().snapshot().unwrap());
    assert_eq!(next.next_row_id, Some(16), "what has an id keeps it");
}

#[tokio::test]
async fn commit_when_ordered_by_snapshot_then_sequence_numbers_are_its_id() {
    let options = [("bucket", "1"), ("sequence.snapshot-ordering", "true"), ("write-only", "true")];
    let table = table(&Shape { keys: &["a"], options: &[options[0], options[1], options[2]], ..APPEND }).await;
    commit(&table, added(&[keyed("f1", 0, (1, 2))])).await.unwrap();
    commit(&table, added(&[keyed("f2", 0, (1, 2))])).await.unwrap();
    let base = base::Base::read(&table, table.snapshot(None).await.unwrap()).await.unwrap();
    let live = base.live(&table, &scope::Scope::all(table.schema()).unwrap()).await.unwrap();
    assert_eq!(live.iter().map(crate::spec::DataFile::sequence_numbers).collect::<Vec<_>>(), [(1, 1), (2, 2)]);
}

#[tokio::test]
async fn commit_when_sequence_numbers_are_in_snapshots_then_the_greatest() {
    let options = [("bucket", "1"), ("write.sequence-number-init-mode", "snapshot")];
    let root = memory("wh/db.db/t");
    create(&root, &Shape { keys: &["a"], options: &options[..1], ..APPEND }).await;
    let numbered = |name: &str, max| DataFileMeta { max_sequence_number: max, ..keyed(name, 0, (1, 2)) };
    commit(&open(&root).await, added(&[numbered("f1", 50)])).await.unwrap();
    create(&root, &Shape { keys: &["a"], options: &[options[0], options[1]], ..APPEND }).await;
    let table = open(&root).await;
    for (file, expected) in [(numbered("f2", 9), "50"), (numbered("f3", 70), "70"), (numbered("f4", 3), "70")] {
        let outcome = commit(&table, added(&[file])).await.unwrap();
        let properties = outcome.snapshot().unwrap().properties.clone().unwrap();
        assert_eq!(properties["sequence.generation.max-sequence-number"], expected);
    }
}

#[tokio::test]
async fn commit_statistics_when_schema_stays_then_inherited() {
    let table = table(&APPEND).await;
    commit(&table, added(&[file("f1", 3)])).await.unwrap();
    let document = r#"{"snapshotId":1,"schemaId":0,"mergedRecordCount":3,"colStats":{}}"#;
    let analyzed = Arc::clone(committer(&table).commit_statistics(document).await.unwrap().snapshot().unwrap());
    assert_eq!((analyzed.commit_kind, analyzed.delta_record_count), (CommitKind::Analyze, 0));
    let name = analyzed.statistics.clone().unwrap();
    assert_eq!(table.files().read(&table.files().statistics_path(&name).unwrap()).await.unwrap(), document);
    let next = Arc::clone(commit(&table, added(&[file("f2", 3)])).await.unwrap().snapshot().unwrap());
    assert_eq!(next.statistics, Some(name));
    put(table.files().root(), "schema/schema-1", {
        let mut schema = table.schema().to_json();
        schema["id"] = 1.into();
        schema.to_string()
    })
    .await;
    let last = Arc::clone(commit(&table, added(&[file("f3", 3)])).await.unwrap().snapshot().unwrap());
    assert_eq!((last.schema_id, last.statistics.as_ref()), (1, None), "they are of another schema");
}

#[tokio::test]
async fn commit_when_table_is_another_by_now_then_refused() {
    let root = memory("wh/db.db/t");
    create(&root, &APPEND).await;
    let table = open(&root).await;
    let writer = committer(&table);
    create(&root, &Shape { keys: &["a"], options: &[("bucket", "1")], ..APPEND }).await;
    let error = writer.commit(Committable::batch(vec![added(&[file("f", 1)])])).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    table.files().delete(&table.files().schema_path(0)).await.unwrap();
    let error = writer.commit(Committable::batch(vec![added(&[file("f", 1)])])).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    let error = writer.commit(Committable::batch(vec![added_to(&[1], &[file("f", 1)])])).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
}
