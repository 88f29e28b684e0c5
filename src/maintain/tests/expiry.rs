//! Which snapshots go, and which files with them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use chrono::DateTime;

use super::*;
use crate::maintain::branches::{create_branch, fast_forward};
use crate::maintain::expire_changelogs::{expire_changelogs, remove_changelogs};
use crate::maintain::expire_snapshots::{Expired, expire_snapshots};
use crate::maintain::rollback::{RollbackTarget, restore};
use crate::maintain::tags::{Retention, TagTarget, create_tag, delete_tag};
use crate::options::Keep;
use crate::store::chaos::{ChaosStore, Fate, Operation};

async fn expire(table: &Table) -> Expired {
    expire_snapshots(table, &options(table), LATER).await.unwrap()
}

async fn tag(table: &Table, name: &str, id: i64) {
    let retention = Retention { created: DateTime::UNIX_EPOCH.naive_utc(), retained: None };
    create_tag(table, name, TagTarget::Snapshot(id), retention).await.unwrap();
}

/// Snapshots 1 to 4: two files, compacted to one, and one more.
async fn compacted(options: &[(&str, &str)]) -> Arc<Table> {
    let table = table(options).await;
    add(&table, &["f1"]).await.unwrap();
    add(&table, &["f2"]).await.unwrap();
    compact(&table, &["f1", "f2"], "c1").await.unwrap();
    add(&table, &["f3"]).await.unwrap();
    table
}

#[tokio::test]
async fn expire_when_files_were_compacted_then_they_go_and_nothing_is_left_over() {
    let table = compacted(&[]).await;
    let expired = expire(&table).await;
    assert_eq!((expired.snapshots, expired.left, expired.unread), (3, 0, 0));
    assert_eq!(ids(&table).await, [4]);
    assert_eq!(leaked(&table).await, BTreeSet::new());
    assert_eq!(names(&table, "bucket-0").await, ["c1", "f3"].map(str::to_owned).into());
    assert_eq!(table.files().read(&table.files().snapshot_dir().join("EARLIEST")).await.unwrap(), "4");
    assert_eq!(expire(&table).await, Expired::default());
}

#[tokio::test]
async fn expire_when_limits_say_so_then_fewer() {
    for (least, most, time, limit, now, left) in [
        (1, 100, 1, 50, LATER, vec![4]),
        (3, 100, 1, 50, LATER, vec![2, 3, 4]),
        (1, 100, 1, 2, LATER, vec![3, 4]),
        // Young ones go only where there are more than the most.
        (1, 100, u64::MAX, 50, LATER, vec![1, 2, 3, 4]),
        (1, 2, u64::MAX, 50, LATER, vec![3, 4]),
        (1, 100, 1, 50, 0, vec![1, 2, 3, 4]),
    ] {
        let table = compacted(&[]).await;
        let mut options = options(&table);
        let time = std::time::Duration::from_millis(time);
        options.snapshots = Keep { least, most, time };
        options.changelogs = options.snapshots;
        options.limit = limit;
        expire_snapshots(&table, &options, now).await.unwrap();
        assert_eq!(ids(&table).await, left, "{least} {most} {limit}");
        assert_eq!(leaked(&table).await, BTreeSet::new());
    }
}

#[tokio::test]
async fn expire_when_a_consumer_reads_then_its_snapshots_stay() {
    let table = compacted(&[]).await;
    table.consumers().record("c", 3).await.unwrap();
    expire(&table).await;
    assert_eq!(ids(&table).await, [3, 4]);
    let table = compacted(&[("consumer.changelog-only", "true")]).await;
    table.consumers().record("c", 3).await.unwrap();
    expire(&table).await;
    assert_eq!(ids(&table).await, [4]);
}

#[tokio::test]
async fn expire_when_tagged_then_the_tags_files_stay_until_it_goes() {
    let table = compacted(&[]).await;
    tag(&table, "one", 1).await;
    expire(&table).await;
    assert_eq!(ids(&table).await, [4]);
    assert_eq!(leaked(&table).await, BTreeSet::new());
    assert_eq!(names(&table, "bucket-0").await, ["c1", "f1", "f3"].map(str::to_owned).into());
    delete_tag(&table, "one").await.unwrap();
    assert!(leaked(&table).await.contains("bucket-0/f1"));
}

#[tokio::test]
async fn expire_when_another_branch_has_files_then_they_stay_though_its_tag_is_gone() {
    let table = compacted(&[]).await;
    tag(&table, "one", 1).await;
    create_branch(&table, "b", Some("one"), false).await.unwrap();
    delete_tag(&table, "one").await.unwrap();
    expire(&table).await;
    assert_eq!(leaked(&table).await, BTreeSet::new());
    assert!(names(&table, "bucket-0").await.contains("f1"));
}

#[tokio::test]
async fn expire_when_a_later_snapshot_took_files_back_then_they_stay() {
    let table = compacted(&[("snapshot.num-retained.min", "3")]).await;
    restore(&table, &RollbackTarget::Snapshot(2)).await.unwrap();
    add(&table, &["f4"]).await.unwrap();
    // 1 to 3 go, of which 3 removed f1 and f2; 5 has them again.
    expire(&table).await;
    assert_eq!(ids(&table).await, [4, 5, 6]);
    assert_eq!(leaked(&table).await, BTreeSet::new());
    assert!(names(&table, "bucket-0").await.contains("f1"));
    // And again by a process that knows nothing of before.
    let table = open(table.files().root()).await;
    for name in ["f5", "f6"] {
        add(&table, &[name]).await.unwrap();
    }
    expire(&table).await;
    assert_eq!(leaked(&table).await, BTreeSet::new());
}

#[tokio::test]
async fn expire_when_ids_have_holes_then_goes_on_behind_them() {
    for hole in 1..=3 {
        let table = compacted(&[]).await;
        table.snapshots().delete(hole).await.unwrap();
        expire(&table).await;
        assert_eq!(ids(&table).await, [4], "{hole}");
        let _ = leaked(&table).await;
    }
}

#[tokio::test]
async fn expire_when_metadata_is_gone_then_less_goes_and_nothing_that_is_needed() {
    let table = compacted(&[]).await;
    let third = table.snapshots().snapshot(3).await.unwrap();
    let path = table.files().manifest_path(&third.delta_manifest_list).unwrap();
    table.files().delete(&path).await.unwrap();
    let fresh = open(table.files().root()).await;
    let expired = expire(&fresh).await;
    assert!(expired.unread > 0);
    assert_eq!(ids(&fresh).await, [4]);
    // The files that snapshot 3 removed are left for cleaning.
    assert!(leaked(&fresh).await.contains("bucket-0/f1"));
}

#[tokio::test]
async fn expire_when_vectors_were_replaced_then_old_index_files_go() {
    let table = table(&[("deletion-vectors.enabled", "true")]).await;
    add(&table, &["f1"]).await.unwrap();
    let first = index_file(&table, "index-1", "f1").await;
    let message = CommitMessage { new_index_files: vec![first.clone()], ..CommitMessage::default() };
    commit(&table, message).await.unwrap();
    let second = index_file(&table, "index-2", "f1").await;
    let message =
        CommitMessage { new_index_files: vec![second], deleted_index_files: vec![first], ..CommitMessage::default() };
    commit(&table, message).await.unwrap();
    expire(&table).await;
    assert_eq!(names(&table, "index").await, ["index-2".to_owned()].into());
    assert_eq!(leaked(&table).await, BTreeSet::new());
}

#[tokio::test]
async fn expire_when_every_step_fails_once_then_nothing_needed_is_gone_and_cleaning_finds_the_rest() {
    for fate in [Fate::Fails, Fate::FailsAfter] {
        for step in 0.. {
            let table = compacted(&[]).await;
            tag(&table, "two", 2).await;
            let (failed, calm) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(true)));
            let (seen, counter, is_calm) = (AtomicUsize::new(0), Arc::clone(&failed), Arc::clone(&calm));
            let decide = move |_: Operation, _: &object_store::path::Path| {
                if !is_calm.load(Ordering::SeqCst) && seen.fetch_add(1, Ordering::SeqCst) == step {
                    counter.fetch_add(1, Ordering::SeqCst);
                    return fate;
                }
                Fate::Works
            };
            let faulty = open(&ChaosStore::over(table.files().root(), Box::new(decide))).await;
            calm.store(false, Ordering::SeqCst);
            let _ = expire_snapshots(&faulty, &options(&faulty), LATER).await;
            let _ = leaked(&table).await;
            if failed.load(Ordering::SeqCst) == 0 {
                assert!(step > 10);
                break;
            }
            // Another attempt ends it.
            expire(&table).await;
            assert_eq!(ids(&table).await, [4], "{step}");
            let _ = leaked(&table).await;
        }
    }
}

/// A changelog of each commit that outlives its snapshot.
const LONG: [(&str, &str); 3] =
    [("changelog.num-retained.min", "1"), ("changelog.num-retained.max", "3"), ("snapshot.num-retained.max", "2")];

#[tokio::test]
async fn expire_when_changelogs_outlive_snapshots_then_their_files_stay_as_long() {
    let table = compacted(&LONG).await;
    expire(&table).await;
    assert_eq!(ids(&table).await, [4]);
    assert_eq!(table.changelogs().ids().await.unwrap(), [1, 2, 3]);
    // What was added is the changelog.
    assert_eq!(names(&table, "bucket-0").await, ["c1", "f1", "f2", "f3"].map(str::to_owned).into());
    let first = table.changelogs().snapshot(1).await.unwrap();
    assert!(names(&table, "manifest").await.contains(&first.delta_manifest_list));
    assert_eq!(table.files().read(&table.files().changelog_dir().join("LATEST")).await.unwrap(), "3");

    add(&table, &["f4"]).await.unwrap();
    expire(&table).await;
    let expired = expire_changelogs(&table, &options(&table), LATER).await.unwrap();
    // 5 is the latest snapshot, so that 3, 4 and 5 stay.
    assert_eq!((expired.snapshots, table.changelogs().ids().await.unwrap()), (3, vec![4]));
    assert_eq!(names(&table, "bucket-0").await, ["c1", "f3", "f4"].map(str::to_owned).into());
    remove_changelogs(&table).await.unwrap();
    assert_eq!(names(&table, "changelog").await, BTreeSet::new());
    assert_eq!(leaked(&table).await, BTreeSet::new());
}

#[tokio::test]
async fn expire_when_a_table_went_back_to_a_tag_then_the_tags_files_stay_whatever_later_tags_have() {
    for options in [&[][..], &LONG] {
        let table = table(options).await;
        add(&table, &["f1"]).await.unwrap();
        tag(&table, "one", 1).await;
        compact(&table, &["f1"], "c1").await.unwrap();
        tag(&table, "two", 2).await;
        restore(&table, &RollbackTarget::Tag("one".to_owned())).await.unwrap();
        compact(&table, &["f1"], "c2").await.unwrap();
        for name in ["f2", "f3", "f4"] {
            add(&table, &[name]).await.unwrap();
        }
        expire(&table).await;
        expire_changelogs(&table, &super::options(&table), LATER).await.unwrap();
        remove_changelogs(&table).await.unwrap();
        assert_eq!(leaked(&table).await, BTreeSet::new());
        assert!(names(&table, "bucket-0").await.is_superset(&["f1", "c1", "c2"].map(str::to_owned).into()));
    }
}

#[tokio::test]
async fn expire_changelogs_when_a_snapshot_that_is_gone_took_files_back_then_they_stay() {
    let table = table(&LONG).await;
    add(&table, &["f1"]).await.unwrap();
    add(&table, &["f2"]).await.unwrap();
    compact(&table, &["f1", "f2"], "c1").await.unwrap();
    restore(&table, &RollbackTarget::Snapshot(2)).await.unwrap();
    for name in ["f3", "f4"] {
        add(&table, &[name]).await.unwrap();
    }
    // Of 1 to 5 only their changelogs are left, then only those of 4 and 5.
    expire(&table).await;
    let mut options = options(&table);
    options.limit = 3;
    expire_changelogs(&table, &options, LATER).await.unwrap();
    assert_eq!((ids(&table).await, table.changelogs().ids().await.unwrap()), (vec![6], vec![4, 5]));
    assert_eq!(names(&table, "bucket-0").await, ["f1", "f2", "f3", "f4"].map(str::to_owned).into());
    let _ = leaked(&table).await;
}

#[tokio::test]
async fn fast_forward_when_main_has_expired_past_the_branch_then_hints_and_changelogs_are_those_of_the_branch() {
    let table = table(&LONG).await;
    add(&table, &["f1"]).await.unwrap();
    tag(&table, "start", 1).await;
    assert!(create_branch(&table, "b", Some("start"), false).await.unwrap());
    for name in ["f2", "f3"] {
        add(&table, &[name]).await.unwrap();
    }
    expire(&table).await;
    assert_eq!((ids(&table).await, table.changelogs().ids().await.unwrap()), (vec![3], vec![1, 2]));
    fast_forward(&table, "b").await.unwrap();
    assert_eq!((ids(&table).await, table.changelogs().ids().await.unwrap()), (vec![1], vec![]));
    for hint in ["EARLIEST", "LATEST"] {
        assert_eq!(table.files().read(&table.files().snapshot_dir().join(hint)).await.unwrap(), "1");
    }
    assert_eq!(table.snapshots().earliest_id().await.unwrap(), Some(1));
}
