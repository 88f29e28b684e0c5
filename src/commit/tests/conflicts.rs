//! Commits that build on what others took away.

use super::*;
use crate::spec::{DvRange, IndexEntry};

const KEYED: Shape<'static> = Shape { partition: &[], keys: &["a"], options: &[("bucket", "2")] };
const VECTORS: Shape<'static> = Shape { options: &[("deletion-vectors.enabled", "true")], ..APPEND };

fn index(index_type: &str, name: &str, files: &[&str]) -> IndexEntry {
    let range = |file: &&str| DvRange { data_file: (*file).to_owned(), offset: 1, length: 22, cardinality: Some(1) };
    IndexEntry {
        kind: 0,
        partition: EMPTY_ROW.into(),
        bucket: 0,
        index_type: index_type.to_owned(),
        file_name: name.to_owned(),
        file_size: 30,
        row_count: 1,
        dv_ranges: (index_type == "DELETION_VECTORS").then(|| files.iter().map(range).collect()),
        external_path: None,
        global_index: None,
    }
}

fn vectors(name: &str, files: &[&str]) -> IndexEntry {
    index("DELETION_VECTORS", name, files)
}

/// Rows of append files were deleted.
fn marked(new: &[IndexEntry], old: &[IndexEntry]) -> CommitMessage {
    CommitMessage { new_index_files: new.to_vec(), deleted_index_files: old.to_vec(), ..added(&[]) }
}

#[tokio::test]
async fn compaction_when_its_files_are_gone_then_conflict() {
    let table = table(&KEYED).await;
    let (f, g) = (keyed("f", 0, (1, 5)), keyed("g", 0, (3, 9)));
    commit(&table, added(&[f.clone(), g.clone()])).await.unwrap();
    commit(&table, compacted(&[f.clone(), g.clone()], &[keyed("h", 5, (1, 9))])).await.unwrap();
    let text = refused(&table, compacted(std::slice::from_ref(&g), &[keyed("i", 5, (10, 12))])).await;
    assert!(text.contains("file g") && text.contains("run the statement again"), "{text}");
    refused(&table, compacted(&[keyed("f", 1, (1, 5))], &[])).await;
    refused(&table, CommitMessage { deleted_files: vec![f], ..added(&[]) }).await;
    assert_eq!(orphans(&table).await, [""; 0]);
    assert_eq!(live(&table).await, ["h"]);
}

#[tokio::test]
async fn compaction_when_keys_of_a_level_overlap_then_conflict() {
    let table = table(&KEYED).await;
    commit(&table, compacted(&[], &[keyed("f", 5, (1, 5)), keyed("g", 5, (10, 12))])).await.unwrap();
    refused(&table, compacted(&[], &[keyed("h", 5, (5, 7))])).await;
    refused(&table, compacted(&[], &[keyed("h", 5, (6, 20))])).await;
    refused(&table, compacted(&[], &[keyed("h", 4, (1, 3)), keyed("i", 4, (3, 4))])).await;
    commit(&table, compacted(&[keyed("f", 5, (1, 5))], &[keyed("h", 5, (1, 9))])).await.unwrap();
    commit(&table, compacted(&[], &[keyed("i", 4, (1, 9))])).await.unwrap();
    let other = CommitMessage { bucket: 1, ..compacted(&[], &[keyed("j", 5, (1, 9))]) };
    commit(&table, other).await.unwrap();
    // Moved to another level, the file is the same and its entry another.
    commit(&table, compacted(&[keyed("i", 4, (1, 9))], &[keyed("i", 3, (1, 9))])).await.unwrap();
    assert_eq!(live(&table).await, ["g", "h", "j", "i"]);
}

#[tokio::test]
async fn commit_when_partition_has_other_buckets_then_conflict() {
    let table = table(&Shape { partition: &["a"], keys: &["a", "b"], options: &[("bucket", "2")] }).await;
    commit(&table, added_to(&[1], &[keyed("f", 0, (1, 2))])).await.unwrap();
    let of = |partition: i32, buckets: i32, name: &str| CommitMessage {
        total_buckets: Some(buckets),
        ..added_to(&[partition], &[keyed(name, 0, (1, 2))])
    };
    let text = refused(&table, of(1, 4, "g")).await;
    assert!(text.contains("has 2 buckets") && text.contains("for 4"), "{text}");
    commit(&table, of(2, 4, "h")).await.unwrap();
    refused(&table, of(2, 2, "i")).await;
    committer(&table).overwrite(&OverwriteScope::Dynamic, Committable::batch(vec![of(1, 4, "j")])).await.unwrap();
    refused(&table, of(1, 2, "k")).await;
    commit(&table, of(1, 4, "l")).await.unwrap();
    let both = Committable::batch(vec![of(5, 1, "m"), of(5, 2, "n")]);
    assert_eq!(committer(&table).commit(both).await.unwrap_err().kind(), ErrorKind::Conflict);
    let spec = PartitionSpec::new(table.schema(), &BTreeMap::from([("a".to_owned(), 1i32.into())])).unwrap();
    committer(&table).drop_partitions(&[spec]).await.unwrap();
    commit(&table, of(1, 3, "o")).await.unwrap();
}

#[tokio::test]
async fn commit_when_a_file_comes_twice_then_refused_or_left_out() {
    let table = table(&APPEND).await;
    commit(&table, added(&[file("f", 1)])).await.unwrap();
    refused(&table, added(&[file("g", 1), file("g", 1)])).await;
    let again = || Committable::batch(vec![added(&[file("f", 1), file("g", 1)])]);
    let error = committer(&table).check_conflicts(true).commit(again()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    let root = table.files().root();
    create(root, &Shape { options: &[("commit.discard-duplicate-files", "true")], ..APPEND }).await;
    let table = open(root).await;
    let outcome = committer(&table).commit(again()).await.unwrap();
    assert_eq!(outcome.snapshot().unwrap().delta_record_count, 1);
    assert_eq!(live(&table).await, ["f", "g"]);
    assert!(committer(&table).commit(again()).await.unwrap().snapshots.is_empty());
}

#[tokio::test]
async fn commit_when_rows_of_a_file_were_deleted_meanwhile_then_conflict() {
    let table = table(&VECTORS).await;
    let (f, g) = (file("f", 9), file("g", 9));
    commit(&table, added(&[f.clone(), g.clone()])).await.unwrap();
    let outcome = commit(&table, marked(&[vectors("v1", &["f"])], &[])).await.unwrap();
    assert_eq!(outcome.snapshot().unwrap().commit_kind, CommitKind::Overwrite, "readers of streams must not take it");
    // Nobody who does not know of v1 may replace f or mark rows of it.
    refused(&table, compacted(std::slice::from_ref(&f), &[file("h", 9)])).await;
    refused(&table, CommitMessage { deleted_files: vec![f.clone()], ..added(&[file("h", 8)]) }).await;
    refused(&table, marked(&[vectors("v2", &["f"])], &[])).await;
    commit(&table, marked(&[vectors("v3", &["f", "g"])], &[vectors("v1", &["f"])])).await.unwrap();
    refused(&table, marked(&[vectors("v4", &["f"])], &[vectors("v1", &["f"])])).await;
    let known = CommitMessage {
        compact_deleted_index_files: vec![vectors("v3", &["f", "g"])],
        compact_new_index_files: vec![vectors("v5", &["g"])],
        ..compacted(&[f], &[file("h", 8)])
    };
    commit(&table, known).await.unwrap();
    refused(&table, marked(&[vectors("v6", &["f"])], &[])).await;
    commit(&table, marked(&[vectors("v7", &["h"])], &[])).await.unwrap();
    let base = base::Base::read(&table, table.snapshot(None).await.unwrap()).await.unwrap();
    let names: Vec<&str> = base.indexes.iter().map(|index| index.file_name.as_str()).collect();
    assert_eq!(names, ["v5", "v7"]);
    assert_eq!(orphans(&table).await, [""; 0]);
}

#[tokio::test]
async fn compaction_of_a_bucket_when_rows_of_its_files_were_marked_meanwhile_then_conflict() {
    let options = &[("bucket", "2"), ("deletion-vectors.enabled", "true")];
    let table = table(&Shape { options, ..KEYED }).await;
    let (f, g) = (keyed("f", 5, (1, 5)), keyed("g", 0, (3, 9)));
    commit(&table, compacted(&[], std::slice::from_ref(&f))).await.unwrap();
    commit(&table, added(std::slice::from_ref(&g))).await.unwrap();
    let marks = CommitMessage {
        compact_new_index_files: vec![vectors("v1", &["f"])],
        ..compacted(&[g], &[keyed("g2", 4, (3, 9))])
    };
    commit(&table, marks).await.unwrap();
    // It does not know of v1.
    let text = refused(&table, compacted(std::slice::from_ref(&f), &[keyed("h", 5, (1, 5))])).await;
    assert!(text.contains("file f"), "{text}");
    // Moved to another level, it keeps its vector.
    commit(&table, compacted(std::slice::from_ref(&f), &[keyed("f", 3, (1, 5))])).await.unwrap();
    let known = CommitMessage {
        compact_deleted_index_files: vec![vectors("v1", &["f"])],
        ..compacted(&[keyed("f", 3, (1, 5))], &[keyed("h", 5, (1, 5))])
    };
    commit(&table, known).await.unwrap();
    assert_eq!(live(&table).await, ["g2", "h"]);
}

#[tokio::test]
async fn compaction_that_looked_keys_up_when_others_moved_keys_then_conflict() {
    let options = &[("bucket", "2"), ("deletion-vectors.enabled", "true")];
    let table = table(&Shape { options, ..KEYED }).await;
    let (f, g) = (keyed("f", 0, (1, 5)), keyed("g", 0, (3, 9)));
    commit(&table, added(&[f.clone(), g.clone()])).await.unwrap();
    let looked_up = |message: CommitMessage| CommitMessage { compact_looked_up: Some(1), ..message };
    commit(&table, looked_up(compacted(&[f], &[keyed("f2", 5, (1, 5))]))).await.unwrap();
    // The level is another one, so that nothing else shows that the key may be in both.
    let text = refused(&table, looked_up(compacted(std::slice::from_ref(&g), &[keyed("g2", 4, (3, 9))]))).await;
    assert!(text.contains("snapshot 2 compacted the bucket"), "{text}");
    let elsewhere = CommitMessage { bucket: 1, ..looked_up(compacted(&[], &[keyed("i", 4, (3, 9))])) };
    commit(&table, elsewhere).await.unwrap();
    let again = CommitMessage { compact_looked_up: Some(3), ..compacted(&[g], &[keyed("g2", 4, (3, 9))]) };
    commit(&table, again).await.unwrap();
    assert_eq!(live(&table).await, ["f2", "i", "g2"]);
}

#[tokio::test]
async fn hash_index_when_another_came_then_conflict() {
    let table = table(&Shape { keys: &["a"], ..APPEND }).await;
    let with = |name: &str, new: IndexEntry, old: &[IndexEntry]| CommitMessage {
        new_index_files: vec![new],
        deleted_index_files: old.to_vec(),
        ..added(&[keyed(name, 0, (1, 2))])
    };
    let hash = |name: &str| index("HASH", name, &[]);
    commit(&table, with("f", hash("i1"), &[])).await.unwrap();
    refused(&table, with("g", hash("i2"), &[])).await;
    commit(&table, with("g", hash("i2"), &[hash("i1")])).await.unwrap();
    refused(&table, with("h", hash("i3"), &[hash("i1")])).await;
    // Another bucket got keys since: they may be the same.
    let other = CommitMessage { bucket: 1, ..with("h", IndexEntry { bucket: 1, ..hash("i3") }, &[]) };
    let reader = committer(&table).read_snapshot(Some(1));
    let error = reader.commit(Committable::batch(vec![other.clone()])).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    committer(&table).read_snapshot(Some(2)).commit(Committable::batch(vec![other])).await.unwrap();
}

#[tokio::test]
async fn strict_mode_when_others_rewrote_the_partition_then_refused() {
    let options = [("commit.strict-mode.last-safe-snapshot", "0")];
    let table = table(&Shape { partition: &["a"], options: &options, ..APPEND }).await;
    let job = TableCommit::new(Arc::clone(&table), "job").unwrap();
    let batch = |message| Committable::batch(vec![message]);
    job.commit(batch(added_to(&[1], &[file("f", 1)]))).await.unwrap();
    commit(&table, added_to(&[1], &[file("g", 1)])).await.unwrap();
    job.commit(batch(added_to(&[1], &[file("h", 1)]))).await.unwrap();
    let rewritten = CommitMessage { partition: int_row(&[1]), ..compacted(&[file("f", 1)], &[file("i", 1)]) };
    TableCommit::new(Arc::clone(&table), "job").unwrap().commit(batch(rewritten)).await.unwrap();
    let others = TableCommit::new(Arc::clone(&table), "other").unwrap();
    let error = others.commit(batch(added_to(&[1], &[file("j", 1)]))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert!(error.to_string().contains("user job committed snapshot 4 (COMPACT)"), "{error}");
    others.commit(batch(added_to(&[2], &[file("j", 1)]))).await.unwrap();
}

#[tokio::test]
async fn columns_when_rows_are_gone_or_written_by_others_then_conflict() {
    let options = [("row-tracking.enabled", "true"), ("data-evolution.enabled", "true")];
    let table = table(&Shape { options: &[options[0], options[1]], ..APPEND }).await;
    commit(&table, added(&[file("f", 10), file("g", 10)])).await.unwrap();
    let column = |name: &str, first: i64, rows: i64, column: &str| DataFileMeta {
        first_row_id: Some(first),
        write_cols: Some(vec![column.to_owned()]),
        ..file(name, rows)
    };
    for wrong in [column("x", 0, 9, "b"), column("x", 5, 10, "b"), column("x", 10, 11, "b")] {
        refused(&table, added(&[wrong])).await;
    }
    let from_first = |file: DataFileMeta| {
        let commit = committer(&table).read_snapshot(Some(1));
        async move { commit.commit(Committable::batch(vec![added(&[file])])).await }
    };
    from_first(column("b1", 0, 10, "b")).await.unwrap();
    from_first(column("c1", 0, 10, "c")).await.unwrap();
    from_first(column("b2", 10, 10, "b")).await.unwrap();
    let error = from_first(column("b3", 0, 10, "b")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    let merged = DataFileMeta { first_row_id: Some(0), ..file("m", 20) };
    let gone = |name: &str, first| DataFileMeta { first_row_id: Some(first), ..file(name, 10) };
    refused(&table, compacted(&[gone("f", 0), gone("g", 10)], std::slice::from_ref(&merged))).await;
    let before =
        [gone("f", 0), gone("g", 10), column("b1", 0, 10, "b"), column("c1", 0, 10, "c"), column("b2", 10, 10, "b")];
    refused(&table, compacted(&[gone("f", 3)], &[])).await;
    commit(&table, compacted(&before, &[merged])).await.unwrap();
    assert_eq!(live(&table).await, ["m"]);
    refused(&table, added(&[column("x", 0, 10, "b")])).await;
}

#[tokio::test]
async fn compaction_when_it_conflicts_after_rows_were_added_then_they_stay_and_it_goes() {
    let table = table(&KEYED).await;
    let path = |name: &str| table.files().data_path("", 0, name, None).unwrap();
    let own = crate::write::OwnFiles::new(Arc::clone(table.files()));
    for name in ["new", "top"] {
        own.add(path(name));
        table.files().create(&path(name), "x").await.unwrap();
    }
    let gone = keyed("gone", 0, (1, 2));
    let message =
        CommitMessage { new_files: vec![keyed("new", 0, (1, 2))], ..compacted(&[gone], &[keyed("top", 5, (1, 2))]) };
    let commit = committer(&table).owning(Arc::clone(&own));
    let outcome = commit.commit(Committable::batch(vec![message.clone()])).await.unwrap();
    assert_eq!(outcome.snapshots.len(), 1);
    assert!(outcome.compaction_failed.unwrap().contains("file gone"));
    assert_eq!(live(&table).await, ["new"]);
    own.remove().await;
    assert!(table.files().exists(&path("new")).await.unwrap());
    assert!(!table.files().exists(&path("top")).await.unwrap());
    // Alone, it fails.
    let message = CommitMessage { new_files: Vec::new(), ..message };
    assert_eq!(commit.commit(Committable::batch(vec![message])).await.unwrap_err().kind(), ErrorKind::Conflict);
}
