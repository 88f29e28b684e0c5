//! What cleaning removes, and what it must not.

use std::sync::atomic::{AtomicBool, Ordering};

use chrono::DateTime;

use super::*;
use crate::error::ErrorKind;
use crate::maintain::branches::create_branch;
use crate::maintain::expire_snapshots::expire_snapshots;
use crate::maintain::orphan_files::{OrphanRequest, remove_orphan_files};
use crate::maintain::tags::{Retention, TagTarget, create_tag};
use crate::store::chaos::{ChaosStore, Fate, Operation};

fn request(dry_run: bool) -> OrphanRequest {
    OrphanRequest { older_than: LATER - 1, dry_run, parallelism: 0 }
}

async fn put_all(table: &Table, paths: &[&str]) {
    for path in paths {
        put(table.files().root(), path, "four".to_owned()).await;
    }
}

#[tokio::test]
async fn remove_when_files_are_of_nobody_then_only_those_that_can_be_the_tables() {
    let table = open(&create(&[], &["dt"]).await).await;
    let message = CommitMessage {
        new_files: vec![DataFileMeta { extra_files: vec!["f1.index".to_owned()], ..meta("f1", FileSource::Append) }],
        ..CommitMessage::default()
    };
    // The row of partition dt = 'x'.
    let mut partition = vec![0, 0, 0, 1];
    partition.extend([0; 8]);
    partition.extend([b'x', 0, 0, 0, 0, 0, 0, 0x81]);
    let message = CommitMessage { partition, ..message };
    let commit = TableCommit::new(Arc::clone(&table), "me").unwrap();
    Box::pin(commit.commit(Committable::batch(vec![message]))).await.unwrap();
    let kept = [
        "dt=x/bucket-0/f1",
        "dt=x/bucket-0/f1.index",
        "dt=x/_SUCCESS",
        "dt=x/other/f",
        "bucket-0/f",
        "other/bucket-0/f",
        "dt=x/y=z/bucket-0/f",
        "tag/tag-success-file/x_SUCCESS",
        "service/service-1",
        "snapshot/snapshot-1x",
        "README",
    ];
    let gone = [
        "dt=x/bucket-0/data-9.parquet",
        "dt=x/bucket-0/.tmp",
        "dt=y/bucket-postpone/z",
        "manifest/manifest-9",
        "index/index-9",
        "statistics/stat-9",
        "snapshot/.snapshot-2.a.tmp",
    ];
    put_all(&table, &kept).await;
    put_all(&table, &gone).await;
    let found = remove_orphan_files(&table, request(true), LATER).await.unwrap();
    assert_eq!((found.files, found.bytes), (7, 28));
    let found = remove_orphan_files(&table, request(false), LATER).await.unwrap();
    assert_eq!((found.files, found.bytes, found.left), (7, 28, 0));
    let root = table.files().root().prefix().clone();
    let listed = table.files().list_all(&root).await.unwrap();
    let is_there = |path: &str| listed.iter().any(|file| file.location.as_ref().ends_with(&format!("/t/{path}")));
    for path in kept {
        assert!(is_there(path), "{path}");
    }
    for path in gone {
        assert!(!is_there(path), "{path}");
    }
    assert_eq!(remove_orphan_files(&table, request(false), LATER).await.unwrap().files, 0);
}

#[tokio::test]
async fn remove_when_files_are_young_then_they_stay() {
    let table = table(&[]).await;
    put_all(&table, &["bucket-0/f"]).await;
    let young = OrphanRequest { older_than: 1000, ..request(false) };
    assert_eq!(remove_orphan_files(&table, young, LATER).await.unwrap().files, 0);
    let error = remove_orphan_files(&table, OrphanRequest { older_than: LATER, ..young }, LATER).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

#[tokio::test]
async fn remove_when_branches_and_changelogs_have_files_then_they_stay() {
    let table = table(&[("changelog.num-retained.max", "9"), ("snapshot.num-retained.max", "2")]).await;
    add(&table, &["f1"]).await.unwrap();
    create_branch(&table, "b", None, false).await.unwrap();
    let root = table.files().root().clone();
    let branch = Identifier::new("db", "t").with_branch(Some("b"));
    let branch = Table::open(root, branch, Arc::default(), BTreeMap::new()).await.unwrap();
    add(&branch, &["b1"]).await.unwrap();
    compact(&table, &["f1"], "c1").await.unwrap();
    expire_snapshots(&table, &options(&table), LATER).await.unwrap();
    put_all(&table, &["bucket-0/x"]).await;
    assert_eq!(remove_orphan_files(&table, request(false), LATER).await.unwrap().files, 1);
    assert_eq!(names(&table, "bucket-0").await, ["b1", "c1", "f1"].map(str::to_owned).into());
}

#[tokio::test]
async fn remove_when_a_list_lacks_snapshots_once_then_their_files_stay() {
    let table = table(&[]).await;
    let armed = Arc::new(AtomicBool::new(false));
    let is_armed = Arc::clone(&armed);
    let decide = move |operation, path: &object_store::path::Path| {
        let is_stale = operation == Operation::List
            && path.as_ref().ends_with("/snapshot")
            && is_armed.swap(false, Ordering::SeqCst);
        if is_stale { Fate::Stale } else { Fate::Works }
    };
    let store = ChaosStore::over(table.files().root(), Box::new(decide));
    let writer = open(&store).await;
    for name in ["f1", "f2", "f3", "f4"] {
        add(&writer, &[name]).await.unwrap();
    }
    compact(&writer, &["f1", "f2", "f3", "f4"], "c1").await.unwrap();
    armed.store(true, Ordering::SeqCst);
    let stale = open(&store).await;
    assert_eq!(remove_orphan_files(&stale, request(false), LATER).await.unwrap().files, 0);
    assert!(!armed.load(Ordering::SeqCst));
    assert_eq!(leaked(&table).await, BTreeSet::new());
}

#[tokio::test]
async fn remove_when_metadata_is_broken_then_nothing_is_deleted() {
    let table = table(&[]).await;
    add(&table, &["f1"]).await.unwrap();
    put_all(&table, &["bucket-0/x"]).await;
    let snapshot = table.snapshots().latest().await.unwrap().unwrap();
    let path = table.files().manifest_path(&snapshot.delta_manifest_list).unwrap();
    table.files().overwrite(&path, "no list").await.unwrap();
    let fresh = open(table.files().root()).await;
    let error = remove_orphan_files(&fresh, request(false), LATER).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert!(names(&table, "bucket-0").await.contains("x"));
}

#[tokio::test]
async fn remove_when_a_tags_metadata_is_gone_then_nothing_is_deleted() {
    let table = table(&[]).await;
    add(&table, &["f1"]).await.unwrap();
    let retention = Retention { created: DateTime::UNIX_EPOCH.naive_utc(), retained: None };
    create_tag(&table, "one", TagTarget::Latest, retention).await.unwrap();
    add(&table, &["f2"]).await.unwrap();
    expire_snapshots(&table, &options(&table), LATER).await.unwrap();
    put_all(&table, &["bucket-0/x"]).await;
    let tag = table.tags().find("one").await.unwrap().unwrap();
    table.files().delete(&table.files().manifest_path(&tag.snapshot.base_manifest_list).unwrap()).await.unwrap();
    let fresh = open(table.files().root()).await;
    let error = remove_orphan_files(&fresh, request(false), LATER).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    assert!(error.to_string().contains("tag-one"), "{error}");
    assert!(names(&table, "bucket-0").await.contains("x"));
}
