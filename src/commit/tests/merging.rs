//! Manifests of many commits.

use super::*;

async fn manifests(table: &Arc<Table>) -> Vec<crate::spec::ManifestMeta> {
    let snapshot = table.snapshot(None).await.unwrap();
    base::Base::read(table, snapshot).await.unwrap().manifests
}

fn names(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|i| format!("f{i}")).collect()
}

#[tokio::test]
async fn merge_when_many_small_commits_then_few_manifests() {
    let table = table(&APPEND).await;
    let (mut merged, mut most) = (0, 0);
    for i in 0..400 {
        let outcome = commit(&table, added(&[file(&format!("f{i}"), 1)])).await.unwrap();
        merged += outcome.manifests_merged;
        most = most.max(manifests(&table).await.len());
    }
    assert!(most <= 31, "{most}");
    assert!((300..1200).contains(&merged), "{merged} manifests were read again");
    assert_eq!(live(&table).await, names(0..400));
    assert_eq!(live(&open(table.files().root()).await).await, names(0..400));
    assert_eq!(table.snapshot(None).await.unwrap().unwrap().total_record_count, 400);
    assert_eq!(orphans(&table).await, [""; 0]);
}

#[tokio::test]
async fn merge_when_files_come_and_go_then_entries_cancel() {
    let table = table(&Shape { options: &[("manifest.merge-min-count", "4")], ..APPEND }).await;
    commit(&table, added(&[file("f0", 1)])).await.unwrap();
    for i in 1..30 {
        let (before, after) = (file(&format!("f{}", i - 1), 1), file(&format!("f{i}"), 1));
        commit(&table, compacted(&[before], &[after])).await.unwrap();
    }
    assert_eq!(live(&table).await, ["f29"]);
    let metas = manifests(&table).await;
    assert!(metas.len() <= 5, "{}", metas.len());
    let entries: i64 = metas.iter().map(|meta| meta.num_added_files + meta.num_deleted_files).sum();
    assert!(entries < 15, "{entries}");
}

#[tokio::test]
async fn merge_when_threshold_is_passed_then_nothing_deleted_is_left() {
    let options = [("manifest.full-compaction-threshold-size", "20 kb"), ("manifest.merge-min-count", "1000")];
    let table = table(&Shape { options: &[options[0], options[1]], ..APPEND }).await;
    commit(&table, added(&[file("f0", 1), file("g", 1)])).await.unwrap();
    for i in 1..20 {
        let (before, after) = (file(&format!("f{}", i - 1), 1), file(&format!("f{i}"), 1));
        commit(&table, compacted(&[before], &[after])).await.unwrap();
    }
    let metas = manifests(&table).await;
    assert!(metas.len() < 12 && metas[0].num_deleted_files == 0, "{metas:?}");
    assert_eq!(live(&table).await, ["g", "f19"]);
}

#[tokio::test]
async fn merge_when_threshold_is_below_target_then_not_all_at_every_commit() {
    let options = [("manifest.full-compaction-threshold-size", "1 b"), ("manifest.merge-min-count", "5")];
    let table = table(&Shape { options: &[options[0], options[1]], ..APPEND }).await;
    let mut merges = 0;
    for i in 0..200 {
        let many: Vec<_> = (0..20).map(|j| file(&format!("file-{}-{i}-{j}", uuid::Uuid::new_v4()), 1)).collect();
        merges += usize::from(commit(&table, added(&many)).await.unwrap().manifests_merged > 0);
    }
    assert!(merges < 100, "{merges}");
    assert_eq!(live(&table).await.len(), 4000);
}

#[tokio::test]
async fn merge_when_manifests_are_full_then_rolled_and_left_alone() {
    let options = [("manifest.target-file-size", "10 kb"), ("manifest.compression", "null")];
    let table = table(&Shape { options: &[options[0], options[1]], ..APPEND }).await;
    let many: Vec<_> = names(0..5000).iter().map(|name| file(name, 1)).collect();
    let outcome = commit(&table, added(&many)).await.unwrap();
    assert_eq!(outcome.manifests_written, 5, "every thousand entries the size is looked at");
    let full = manifests(&table).await;
    for i in 5000..5100 {
        commit(&table, added(&[file(&format!("f{i}"), 1)])).await.unwrap();
    }
    assert_eq!(manifests(&table).await[..5], full, "they are where they were");
    assert_eq!(live(&table).await, names(0..5100));
}

#[tokio::test]
async fn compact_manifests_when_done_then_one_without_deletes_and_nothing_more_to_do() {
    let table = table(&Shape { partition: &["a"], ..APPEND }).await;
    assert!(committer(&table).compact_manifests().await.unwrap().snapshots.is_empty());
    for i in 0..5 {
        commit(&table, added_to(&[i], &[file(&format!("f{i}"), 1)])).await.unwrap();
    }
    let message = CommitMessage { partition: int_row(&[2]), ..compacted(&[file("f2", 1)], &[file("g2", 1)]) };
    let last = Arc::clone(commit(&table, message).await.unwrap().snapshot().unwrap());
    let outcome = committer(&table).compact_manifests().await.unwrap();
    let snapshot = outcome.snapshot().unwrap();
    assert_eq!((snapshot.commit_kind, snapshot.delta_record_count), (CommitKind::Compact, 0));
    assert_eq!(snapshot.total_record_count, last.total_record_count);
    assert_eq!((outcome.manifests_merged, outcome.manifests_written), (6, 1));
    let metas = manifests(&table).await;
    assert_eq!((metas.len(), metas[0].num_added_files, metas[0].num_deleted_files), (1, 5, 0));
    assert_eq!(live(&table).await, ["f0", "f1", "f3", "f4", "g2"]);
    assert!(committer(&table).compact_manifests().await.unwrap().snapshots.is_empty());
    assert_eq!(orphans(&table).await, [""; 0]);
}

#[tokio::test]
async fn remove_missing_manifests_when_one_is_gone_then_the_rest_can_be_read() {
    let table = table(&APPEND).await;
    for i in 0..3 {
        commit(&table, added(&[file(&format!("f{i}"), 4)])).await.unwrap();
    }
    assert_eq!(committer(&table).mergeable_manifests().await.unwrap(), (3, 3));
    assert!(committer(&table).remove_missing_manifests(false).await.unwrap().is_empty());
    let gone = manifests(&table).await[1].file_name.clone();
    let path = table.files().manifest_path(&gone).unwrap();
    assert_eq!(table.files().delete_many(vec![path]).await, 0);
    // Nothing of it is known by heart.
    let table = open(table.files().root()).await;
    assert_eq!(committer(&table).remove_missing_manifests(true).await.unwrap(), std::slice::from_ref(&gone));
    assert_eq!(table.snapshot(None).await.unwrap().unwrap().id, 3);
    assert_eq!(committer(&table).remove_missing_manifests(false).await.unwrap(), [gone]);
    assert_eq!(live(&table).await, ["f0", "f2"]);
    let snapshot = table.snapshot(None).await.unwrap().unwrap();
    assert_eq!((snapshot.id, snapshot.total_record_count, snapshot.delta_record_count), (4, 8, -4));
    assert_eq!(snapshot.commit_kind, CommitKind::Overwrite);
}

#[tokio::test]
async fn merge_when_older_manifests_can_not_match_then_kept() {
    let options = [("manifest.target-file-size", "1 b"), ("manifest.full-compaction-threshold-size", "1 b")];
    let table = table(&Shape { partition: &["a"], options: &[options[0], options[1]], ..APPEND }).await;
    for i in 0..5 {
        commit(&table, added_to(&[i], &[file(&format!("f{i}"), 1)])).await.unwrap();
    }
    let before = manifests(&table).await;
    let message = CommitMessage { partition: int_row(&[2]), ..compacted(&[file("f2", 1)], &[file("g2", 1)]) };
    commit(&table, message).await.unwrap();
    commit(&table, added_to(&[9], &[file("f9", 1)])).await.unwrap();
    let after = manifests(&table).await;
    let kept = before.iter().filter(|meta| after.contains(meta)).count();
    assert_eq!((kept, after.len()), (4, 6), "only the manifest of partition 2 was rewritten");
    assert_eq!(live(&table).await, ["f0", "f1", "f3", "f4", "g2", "f9"]);
}
