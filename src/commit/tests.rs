//! Commits to small tables in memory and on disk.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::*;
use crate::spec::{CommitKind, DataFileMeta, EMPTY_ROW, FileSource, SimpleStats};
use crate::store::StoreLocation;
use crate::store::testing::{memory, put};
use crate::table::{Identifier, Table};
use crate::write::CommitMessage;

/// A table with columns `a INT, b INT`, partitioned or with keys.
pub(super) struct Shape {
    pub partition: &'static [&'static str],
    pub keys: &'static [&'static str],
    pub options: &'static [(&'static str, &'static str)],
}

pub(super) const APPEND: Shape = Shape { partition: &[], keys: &[], options: &[] };

pub(super) async fn create(root: &StoreLocation, shape: &Shape) {
    let options: BTreeMap<_, _> = shape.options.iter().copied().collect();
    let schema = serde_json::json!({
        "version": 3, "id": 0,
        "fields": [{"id": 0, "name": "a", "type": "INT"}, {"id": 1, "name": "b", "type": "INT"}],
        "highestFieldId": 1, "partitionKeys": shape.partition, "primaryKeys": shape.keys, "options": options,
        "timeMillis": 5
    });
    put(root, "schema/schema-0", schema.to_string()).await;
}

pub(super) async fn open(root: &StoreLocation) -> Arc<Table> {
    Table::open(root.clone(), Identifier::new("db", "t"), Arc::default(), BTreeMap::new()).await.unwrap()
}

pub(super) async fn table(shape: &Shape) -> Arc<Table> {
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

/// What a writer of an unpartitioned table did.
pub(super) fn added(files: &[DataFileMeta]) -> CommitMessage {
    CommitMessage { partition: EMPTY_ROW.to_vec(), new_files: files.to_vec(), ..CommitMessage::default() }
}

/// Names and levels of the live files, in order.
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
}
