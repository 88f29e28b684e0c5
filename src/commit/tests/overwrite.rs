//! Overwrites, dropped partitions and going back.

use std::collections::BTreeMap;

use datafusion::common::ScalarValue;

use super::*;
use crate::spec::IndexEntry;

const BY_A: Shape<'static> = Shape { partition: &["a"], keys: &[], options: &[] };
const BY_A_B: Shape<'static> = Shape { partition: &["a", "b"], keys: &[], options: &[] };

fn spec(table: &Table, values: &[(&str, ScalarValue)]) -> PartitionSpec {
    let values: BTreeMap<_, _> = values.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    PartitionSpec::new(table.schema(), &values).unwrap()
}

fn int(value: i64) -> ScalarValue {
    ScalarValue::Int64(Some(value))
}

#[tokio::test]
async fn overwrite_when_dynamic_then_partitions_of_new_files_only() {
    let table = table(&BY_A).await;
    let messages =
        vec![added_to(&[1], &[file("a1", 1)]), added_to(&[2], &[file("a2", 2)]), added_to(&[3], &[file("a3", 3)])];
    committer(&table).commit(Committable::batch(messages)).await.unwrap();
    let new = Committable::batch(vec![added_to(&[2], &[file("b2", 5)]), added_to(&[4], &[file("b4", 4)])]);
    let outcome = committer(&table).overwrite(&OverwriteScope::Dynamic, new).await.unwrap();
    let snapshot = outcome.snapshot().unwrap();
    assert_eq!(
        (snapshot.commit_kind, snapshot.delta_record_count, snapshot.total_record_count),
        (CommitKind::Overwrite, 7, 13)
    );
    assert_eq!(live(&table).await, ["a1", "a3", "b2", "b4"]);
    let outcome = committer(&table).overwrite(&OverwriteScope::Dynamic, Committable::batch(Vec::new())).await.unwrap();
    assert!(outcome.snapshots.is_empty(), "nothing comes, nothing goes");
}

#[tokio::test]
async fn overwrite_when_static_then_partitions_that_match() {
    let table = table(&BY_A_B).await;
    for (a, b) in [(1, 1), (1, 2), (2, 1)] {
        commit(&table, added_to(&[a, b], &[file(&format!("f{a}{b}"), 1)])).await.unwrap();
    }
    let one = OverwriteScope::Partitions(spec(&table, &[("a", int(1))]));
    let outside = Committable::batch(vec![added_to(&[2, 1], &[file("x", 1)])]);
    assert_eq!(committer(&table).overwrite(&one, outside).await.unwrap_err().kind(), ErrorKind::Invalid);
    let new = Committable::batch(vec![added_to(&[1, 2], &[file("g12", 1)])]);
    committer(&table).overwrite(&one, new).await.unwrap();
    assert_eq!(live(&table).await, ["f21", "g12"]);
    let outcome = committer(&table).overwrite(&one, Committable::batch(Vec::new())).await.unwrap();
    assert_eq!(outcome.snapshots.len(), 1);
    assert_eq!(live(&table).await, ["f21"], "no rows in their place is what was asked for");
    committer(&table).overwrite(&OverwriteScope::Table, Committable::batch(Vec::new())).await.unwrap();
    assert!(live(&table).await.is_empty());
    assert_eq!(orphans(&table).await, [""; 0]);
}

#[tokio::test]
async fn overwrite_when_without_partitions_then_dynamic_is_the_whole_table() {
    let table = table(&APPEND).await;
    commit(&table, added(&[file("f", 1)])).await.unwrap();
    let new = Committable::batch(vec![added(&[file("g", 1)])]);
    committer(&table).overwrite(&OverwriteScope::Dynamic, new).await.unwrap();
    assert_eq!(live(&table).await, ["g"]);
    committer(&table).overwrite(&OverwriteScope::Dynamic, Committable::batch(Vec::new())).await.unwrap();
    assert!(live(&table).await.is_empty());
}

#[tokio::test]
async fn overwrite_when_keys_do_not_overlap_then_files_go_to_the_top_level() {
    let levels = async |table: &Arc<Table>| -> Vec<i32> {
        let base = base::Base::read(table, table.snapshot(None).await.unwrap()).await.unwrap();
        let live = base.live(table, &scope::Scope::all(table.schema()).unwrap()).await.unwrap();
        live.iter().map(|file| file.level()).collect()
    };
    let table = table(&Shape { keys: &["a"], options: &[("bucket", "1")], ..APPEND }).await;
    commit(&table, added(&[keyed("f", 0, (1, 9))])).await.unwrap();
    let disjoint = Committable::batch(vec![added(&[keyed("g", 0, (6, 9)), keyed("h", 0, (1, 5))])]);
    committer(&table).overwrite(&OverwriteScope::Table, disjoint).await.unwrap();
    assert_eq!(levels(&table).await, [5, 5]);
    let overlapping = Committable::batch(vec![added(&[keyed("i", 0, (5, 9)), keyed("j", 0, (1, 5))])]);
    committer(&table).overwrite(&OverwriteScope::Table, overlapping).await.unwrap();
    assert_eq!(levels(&table).await, [0, 0]);
}

#[tokio::test]
async fn overwrite_when_others_changed_what_was_read_then_conflict() {
    let table = table(&BY_A).await;
    commit(&table, added_to(&[1], &[file("f1", 1)])).await.unwrap();
    let reader = || committer(&table).read_snapshot(Some(1));
    commit(&table, added_to(&[2], &[file("f2", 1)])).await.unwrap();
    let new = |name: &str| Committable::batch(vec![added_to(&[1], &[file(name, 1)])]);
    reader().overwrite(&OverwriteScope::Dynamic, new("g1")).await.unwrap();
    let error = reader().overwrite(&OverwriteScope::Dynamic, new("h1")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert!(error.to_string().contains("snapshot 3"), "{error}");
    committer(&table).overwrite(&OverwriteScope::Dynamic, new("i1")).await.unwrap();
    assert_eq!(live(&table).await, ["f2", "i1"]);
}

#[tokio::test]
async fn drop_partitions_when_null_and_blank_then_told_apart() {
    let table = table(&Shape { partition: &["c"], ..APPEND }).await;
    let text = |text: &str| {
        let mut row = 1u32.to_be_bytes().to_vec();
        row.extend([0; 8]);
        let mut slot = [0u8; 8];
        slot[..text.len()].copy_from_slice(text.as_bytes());
        slot[7] = 0x80 | text.len() as u8;
        row.extend(slot);
        row
    };
    let null = {
        let mut row = 1u32.to_be_bytes().to_vec();
        row.extend([0, 1, 0, 0, 0, 0, 0, 0]);
        row.extend([0; 8]);
        row
    };
    for (name, partition) in [("null", null), ("blank", text("")), ("x", text("x"))] {
        commit(&table, CommitMessage { partition, ..added(&[file(name, 1)]) }).await.unwrap();
    }
    let blank = spec(&table, &[("c", ScalarValue::from(""))]);
    committer(&table).drop_partitions(&[blank]).await.unwrap();
    assert_eq!(live(&table).await, ["null", "x"]);
    let null = spec(&table, &[("c", ScalarValue::Utf8(None))]);
    committer(&table).drop_partitions(&[null, spec(&table, &[("c", ScalarValue::from("y"))])]).await.unwrap();
    assert_eq!(live(&table).await, ["x"]);
    assert_eq!(committer(&table).drop_partitions(&[]).await.unwrap_err().kind(), ErrorKind::Invalid);
    committer(&table).truncate().await.unwrap();
    assert!(live(&table).await.is_empty());
    assert_eq!(table.snapshot(None).await.unwrap().unwrap().total_record_count, 0);
}

#[test]
fn partition_spec_when_no_such_column_or_value_then_invalid() {
    let schema = {
        let json = serde_json::json!({"version": 3, "id": 0, "fields": [{"id": 0, "name": "a", "type": "INT"}],
            "highestFieldId": 0, "partitionKeys": ["a"], "primaryKeys": [], "options": {}});
        crate::spec::TableSchema::from_json(json.to_string().as_bytes()).unwrap()
    };
    for (name, value) in [("b", int(1)), ("a", ScalarValue::from("x"))] {
        let error = PartitionSpec::new(&schema, &BTreeMap::from([(name.to_owned(), value)])).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
    let text = BTreeMap::from([("a".to_owned(), ScalarValue::from("12"))]);
    assert_eq!(PartitionSpec::new(&schema, &text).unwrap(), {
        PartitionSpec::new(&schema, &BTreeMap::from([("a".to_owned(), int(12))])).unwrap()
    });
}

#[tokio::test]
async fn overwrite_when_indexes_in_scope_then_gone() {
    let table = table(&Shape { partition: &["a"], keys: &["a", "b"], options: &[] }).await;
    let hash = |partition: i32, name: &str| IndexEntry {
        kind: 0,
        partition: int_row(&[partition]).into(),
        bucket: 0,
        index_type: "HASH".to_owned(),
        file_name: name.to_owned(),
        file_size: 4,
        row_count: 1,
        dv_ranges: None,
        external_path: None,
        global_index: None,
    };
    for a in [1, 2] {
        let message = CommitMessage {
            new_index_files: vec![hash(a, &format!("i{a}"))],
            ..added_to(&[a], &[keyed(&format!("f{a}"), 0, (1, 2))])
        };
        commit(&table, message).await.unwrap();
    }
    let message = CommitMessage { new_index_files: vec![hash(1, "j1")], ..added_to(&[1], &[keyed("g1", 0, (1, 2))]) };
    committer(&table).overwrite(&OverwriteScope::Dynamic, Committable::batch(vec![message])).await.unwrap();
    let base = base::Base::read(&table, table.snapshot(None).await.unwrap()).await.unwrap();
    let names: Vec<&str> = base.indexes.iter().map(|index| index.file_name.as_str()).collect();
    assert_eq!(names, ["i2", "j1"]);
}

#[tokio::test]
async fn restore_when_files_came_and_went_then_as_it_was() {
    let table = table(&APPEND).await;
    commit(&table, added(&[file("f1", 1), file("f2", 2)])).await.unwrap();
    let target = Arc::clone(commit(&table, added(&[file("f3", 3)])).await.unwrap().snapshot().unwrap());
    commit(&table, compacted(&[file("f1", 1), file("f2", 2)], &[file("f12", 3)])).await.unwrap();
    commit(&table, added(&[file("f4", 4)])).await.unwrap();
    let restored = Arc::clone(committer(&table).restore(Arc::clone(&target)).await.unwrap().snapshot().unwrap());
    assert_eq!((restored.id, restored.commit_kind, restored.total_record_count), (5, CommitKind::Overwrite, 6));
    let sorted = async || {
        let mut names = live(&table).await;
        names.sort();
        names
    };
    assert_eq!(sorted().await, ["f1", "f2", "f3"]);
    commit(&table, compacted(&[file("f1", 1)], &[file("g1", 1)])).await.unwrap();
    committer(&table).compact_manifests().await.unwrap();
    assert_eq!(sorted().await, ["f2", "f3", "g1"]);
    assert_eq!(orphans(&table).await, [""; 0]);
}

#[tokio::test]
async fn overwrite_when_a_key_came_to_another_partition_meanwhile_then_conflict() {
    let table = table(&Shape { partition: &["a"], keys: &["b"], options: &[] }).await;
    commit(&table, added_to(&[1], &[keyed("f1", 0, (1, 2))])).await.unwrap();
    commit(&table, added_to(&[2], &[keyed("f2", 0, (5, 6))])).await.unwrap();
    let overwrite = async |keys, known| {
        let file = keyed(&format!("g{known}"), 0, keys);
        let new = Committable::batch(vec![added_to(&[3], &[file])]);
        committer(&table).known_keys(Some(known)).overwrite(&OverwriteScope::Dynamic, new).await
    };
    let error = overwrite((6, 7), 1).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert!(error.to_string().contains("may have moved keys"), "{error}");
    assert_eq!(live(&table).await, ["f1", "f2"]);
    assert_eq!(orphans(&table).await, [""; 0]);
    overwrite((7, 8), 1).await.unwrap();
    overwrite((6, 7), 3).await.unwrap();
}
