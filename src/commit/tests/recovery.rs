//! Restarts and aborts.

use super::*;

#[tokio::test]
async fn filter_committed_when_some_are_there_then_the_rest_in_order() {
    let table = table(&APPEND).await;
    let data = |name: &str| table.files().data_path("", 0, name, None).unwrap();
    for name in ["f1", "f2", "f3", "f4"] {
        table.files().create(&data(name), "x").await.unwrap();
    }
    let all = || {
        let one = |id: i64| Committable::new(id, vec![added(&[file(&format!("f{id}"), 1)])]);
        vec![one(3), one(1), one(4), one(2)]
    };
    let job = || TableCommit::new(Arc::clone(&table), "job").unwrap();
    let ids = |left: &[Committable]| left.iter().map(|committable| committable.identifier).collect::<Vec<_>>();
    assert_eq!(ids(&job().filter_committed(all()).await.unwrap()), [1, 2, 3, 4]);
    for id in [1, 2] {
        job().commit(Committable::new(id, vec![added(&[file(&format!("f{id}"), 1)])])).await.unwrap();
        commit(&table, added(&[file(&format!("other{id}"), 1)])).await.unwrap();
    }
    let left = job().filter_committed(all()).await.unwrap();
    assert_eq!(ids(&left), [3, 4]);
    table.files().delete(&data("f4")).await.unwrap();
    let error = job().filter_committed(all()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("bucket-0/f4"), "{error}");
    let other = TableCommit::new(Arc::clone(&table), "another").unwrap();
    assert_eq!(other.filter_committed(all()).await.unwrap_err().kind(), ErrorKind::NotFound);
    assert!(other.filter_committed(Vec::new()).await.unwrap().is_empty());
}

#[tokio::test]
async fn abort_when_called_then_only_what_nobody_refers_to() {
    let table = table(&Shape { keys: &["a"], options: &[("bucket", "1")], ..APPEND }).await;
    let path = |name: &str| table.files().data_path("", 0, name, None).unwrap();
    let names = ["old", "new", "new.index", "moved", "top", "changelog-1", "committed"];
    for name in names {
        table.files().create(&path(name), "x").await.unwrap();
    }
    let moved = |level| keyed("moved", level, (1, 2));
    let committed = keyed("committed", 0, (1, 2));
    commit(&table, added(&[keyed("old", 0, (1, 2)), moved(0), committed.clone()])).await.unwrap();
    let new = DataFileMeta { extra_files: vec!["new.index".to_owned()], ..keyed("new", 0, (1, 2)) };
    let message = CommitMessage {
        new_files: vec![new.clone(), committed],
        changelog_files: vec![file("changelog-1", 1)],
        ..compacted(&[keyed("old", 0, (1, 2)), moved(0), new], &[keyed("top", 5, (1, 2)), moved(5)])
    };
    committer(&table).abort(&[message]).await.unwrap();
    let mut left = Vec::new();
    for name in names {
        if table.files().exists(&path(name)).await.unwrap() {
            left.push(name);
        }
    }
    assert_eq!(left, ["old", "moved", "committed"]);
}

#[tokio::test]
async fn commit_when_a_successor_did_it_meanwhile_then_done_once() {
    let table = table(&APPEND).await;
    let message = |name: &str| vec![added(&[file(name, 1)])];
    let job = || TableCommit::new(Arc::clone(&table), "job").unwrap();
    let data = |name: &str| table.files().data_path("", 0, name, None).unwrap();
    table.files().create(&data("old"), "x").await.unwrap();
    let zombie = job();
    assert_eq!(zombie.filter_committed(vec![Committable::new(1, message("old"))]).await.unwrap().len(), 1);
    let successor = job();
    successor.commit(Committable::new(1, message("new"))).await.unwrap();
    successor.commit(Committable::new(2, message("next"))).await.unwrap();
    let outcome = zombie.commit(Committable::new(1, message("old"))).await.unwrap();
    assert_eq!(outcome.snapshot().unwrap().id, 1, "that of the successor");
    assert_eq!(live(&table).await, ["new", "next"]);
}

#[tokio::test]
async fn commit_when_snapshots_were_rolled_back_then_their_ids_come_again() {
    let table = table(&APPEND).await;
    let reader = open(table.files().root()).await;
    let job = committer(&table);
    for name in ["f1", "f2", "f3"] {
        job.commit(Committable::batch(vec![added(&[file(name, 1)])])).await.unwrap();
    }
    assert_eq!(live(&reader).await, ["f1", "f2", "f3"]);
    let files = table.files();
    files.overwrite(&files.snapshot_dir().join("LATEST"), "1").await.unwrap();
    for id in [3, 2] {
        files.delete(&files.snapshot_path(id)).await.unwrap();
    }
    let outcome = job.commit(Committable::batch(vec![added(&[file("g2", 1)])])).await.unwrap();
    assert_eq!((outcome.snapshot().unwrap().id, outcome.snapshot().unwrap().total_record_count), (2, 2));
    assert_eq!(live(&reader).await, ["f1", "g2"]);
    assert_eq!(live(&table).await, ["f1", "g2"]);
}
