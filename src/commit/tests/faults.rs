//! Stores that fail, hang and lie.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use object_store::path::Path;

use super::*;
use crate::store::chaos::{ChaosStore, Fate, Operation};
use crate::store::testing::OverwritingStore;
use crate::write::OwnFiles;

/// A table whose commits do not wait long.
const QUICK: Shape<'static> =
    Shape { options: &[("commit.min-retry-wait", "1 ms"), ("commit.max-retry-wait", "3 ms")], ..APPEND };

/// The table through a store that does as `decide` says with the n-th (from 0) of all operations of its kind on snapshots.
async fn through(
    table: &Arc<Table>,
    decide: impl Fn(Operation, &Path, usize) -> Fate + Send + Sync + 'static,
) -> Arc<Table> {
    let counts: [AtomicUsize; 6] = Default::default();
    let decide = move |operation: Operation, path: &Path| {
        let counted = path.filename().is_some_and(|name| name.starts_with("snapshot-"));
        let count = &counts[operation as usize];
        let n = if counted { count.fetch_add(1, Ordering::SeqCst) } else { usize::MAX };
        decide(operation, path, n)
    };
    open(&ChaosStore::over(table.files().root(), Box::new(decide))).await
}

fn is_snapshot(path: &Path) -> bool {
    path.filename().is_some_and(|name| name.starts_with("snapshot-"))
}

#[tokio::test]
async fn commit_when_answers_are_lost_then_done_once() {
    let table = table(&QUICK).await;
    commit(&table, added(&[file("f", 1)])).await.unwrap();
    for lost in 1..4 {
        let faulty = through(&table, move |operation, path, n| {
            if operation == Operation::Create && is_snapshot(path) && n < lost { Fate::FailsAfter } else { Fate::Works }
        })
        .await;
        let outcome = commit(&faulty, added(&[file(&format!("f{lost}"), 1)])).await.unwrap();
        assert_eq!((outcome.snapshots.len(), outcome.attempts), (1, 1));
        let faulty = through(&table, move |operation, path, n| {
            if operation == Operation::Create && is_snapshot(path) && n < lost { Fate::Fails } else { Fate::Works }
        })
        .await;
        commit(&faulty, added(&[file(&format!("g{lost}"), 1)])).await.unwrap();
    }
    assert_eq!(live(&table).await, ["f", "f1", "g1", "f2", "g2", "f3", "g3"]);
    assert_eq!(orphans(&table).await, [""; 0]);
}

#[tokio::test]
async fn commit_when_nobody_says_what_became_of_it_then_unknown_and_all_files_stay() {
    for (fate, expected) in [(Fate::FailsAfter, 1), (Fate::Fails, 0)] {
        let table = table(&QUICK).await;
        let faulty = through(&table, move |operation, path, _| {
            let about = is_snapshot(path);
            match operation {
                Operation::Create if about => fate,
                Operation::Get if about => Fate::Fails,
                _ => Fate::Works,
            }
        })
        .await;
        let path = table.files().data_path("", 0, "f", None).unwrap();
        table.files().create(&path, "x").await.unwrap();
        let own = OwnFiles::new(Arc::clone(table.files()));
        own.add(path.clone());
        let job = TableCommit::new(Arc::clone(&faulty), "job").unwrap().owning(Arc::clone(&own));
        let message = added(&[file("f", 1)]);
        let error = job.commit(Committable::new(1, vec![message.clone()])).await.unwrap_err();
        assert!(outcome_is_unknown(&error), "{error}");
        assert!(error.to_string().contains("outcome unknown of snapshot 1"), "{error}");
        own.remove().await;
        assert!(table.files().exists(&path).await.unwrap());
        assert!(job.abort(std::slice::from_ref(&message)).await.is_err());
        assert_eq!(table.snapshots().ids().await.unwrap().len(), expected);
        // Another process asks, and commits what is not there yet.
        let job = TableCommit::new(Arc::clone(&table), "job").unwrap();
        for committable in job.filter_committed(vec![Committable::new(1, vec![message])]).await.unwrap() {
            job.commit(committable).await.unwrap();
        }
        assert_eq!(live(&table).await, ["f"]);
    }
}

#[tokio::test]
async fn commit_when_store_hangs_then_ends_at_its_timeout() {
    for (operation, unknown) in [(Operation::Put, false), (Operation::Create, true)] {
        let table = table(&Shape { options: &[("commit.timeout", "200 ms")], ..APPEND }).await;
        let faulty = through(&table, move |asked, path, _| {
            let about =
                if operation == Operation::Create { is_snapshot(path) } else { path.as_ref().contains("/manifest/") };
            if asked == operation && about { Fate::Hangs } else { Fate::Works }
        })
        .await;
        let started = tokio::time::Instant::now();
        let error = commit(&faulty, added(&[file("f", 1)])).await.unwrap_err();
        assert_eq!(outcome_is_unknown(&error), unknown, "{error}");
        assert!(started.elapsed() < Duration::from_secs(2));
        assert!(table.snapshot(None).await.unwrap().is_none());
    }
}

#[tokio::test]
async fn commit_when_every_step_fails_once_then_done_and_nothing_left() {
    // Every operation in turn fails, before or after it is done.
    for fate in [Fate::Fails, Fate::FailsAfter] {
        for step in 0.. {
            let table = table(&QUICK).await;
            commit(&table, added(&[file("f", 1)])).await.unwrap();
            let (seen, failed) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
            let (counter, root) = (Arc::clone(&failed), table.files().root().clone());
            let decide = move |_: Operation, _: &Path| {
                if seen.fetch_add(1, Ordering::SeqCst) == step {
                    counter.fetch_add(1, Ordering::SeqCst);
                    return fate;
                }
                Fate::Works
            };
            let chaos = ChaosStore::over(&root, Box::new(decide));
            let faulty = Table::open(chaos, Identifier::new("db", "t"), Arc::default(), BTreeMap::new()).await;
            let Ok(faulty) = faulty else { continue };
            commit(&faulty, added(&[file("g", 1)])).await.unwrap();
            assert_eq!(live(&table).await, ["f", "g"], "{fate:?} {step}");
            let left = orphans(&table).await;
            // A file that was written although the store said no is not known to be there.
            assert!(
                left.is_empty() || failed.load(Ordering::SeqCst) == 1 && left.len() <= 2,
                "{fate:?} {step} {left:?}"
            );
            if failed.load(Ordering::SeqCst) == 0 {
                break;
            }
        }
    }
}

#[tokio::test]
async fn commit_when_lists_are_stale_then_no_snapshot_is_overwritten() {
    let table = table(&QUICK).await;
    for i in 0..3 {
        commit(&table, added(&[file(&format!("f{i}"), 1)])).await.unwrap();
    }
    let files = table.files();
    for hint in [None, Some("1"), Some("7")] {
        let path = files.snapshot_dir().join("LATEST");
        match hint {
            Some(hint) => files.overwrite(&path, hint).await.unwrap(),
            None => files.delete(&path).await.unwrap(),
        }
        let stale =
            through(&table, |operation, _, _| if operation == Operation::List { Fate::Stale } else { Fate::Works })
                .await;
        let name = format!("g{}", hint.unwrap_or("0"));
        commit(&stale, added(&[file(&name, 1)])).await.unwrap();
    }
    assert_eq!(live(&table).await, ["f0", "f1", "f2", "g0", "g1", "g7"]);
    assert_eq!(table.snapshots().ids().await.unwrap(), [1, 2, 3, 4, 5, 6]);
}

#[tokio::test]
async fn commit_when_the_list_is_empty_but_a_hint_is_not_then_refused() {
    let table = table(&QUICK).await;
    commit(&table, added(&[file("f", 1)])).await.unwrap();
    table.files().overwrite(&table.files().snapshot_dir().join("LATEST"), "x").await.unwrap();
    // The first list of this store shows nothing of what was written through it.
    let blind = through(&table, |operation, path, _| match operation {
        Operation::List if path.as_ref().ends_with("snapshot") => Fate::Fails,
        _ => Fate::Works,
    })
    .await;
    assert_eq!(commit(&blind, added(&[file("g", 1)])).await.unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(live(&table).await, ["f"]);
}

#[tokio::test]
async fn commit_when_store_overwrites_silently_then_unsupported() {
    let table = table(&QUICK).await;
    let root = OverwritingStore::over(table.files().root());
    let error = commit(&open(&root).await, added(&[file("f", 1)])).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().starts_with("table db.t: "), "{error}");
}

#[tokio::test]
async fn commit_when_dropped_half_way_then_files_go_unless_referred_to() {
    for stop in ["manifest", "snapshot"] {
        let table = table(&QUICK).await;
        let faulty = through(&table, move |operation, path, _| {
            let about = path.as_ref().contains(&format!("/{stop}/"));
            if matches!(operation, Operation::Put | Operation::Create) && about && !path.as_ref().contains("/.") {
                Fate::HangsAfter
            } else {
                Fate::Works
            }
        })
        .await;
        let path = table.files().data_path("", 0, "f", None).unwrap();
        table.files().create(&path, "x").await.unwrap();
        let own = OwnFiles::new(Arc::clone(table.files()));
        own.add(path.clone());
        let job = committer(&faulty).owning(Arc::clone(&own));
        let work = job.commit(Committable::batch(vec![added(&[file("f", 1)])]));
        assert!(tokio::time::timeout(Duration::from_millis(300), work).await.is_err());
        drop((job, own));
        tokio::time::sleep(Duration::from_millis(100)).await;
        let committed = stop == "snapshot";
        assert_eq!(table.files().exists(&path).await.unwrap(), committed, "{stop}");
        assert_eq!(live(&table).await.len(), usize::from(committed));
        assert_eq!(orphans(&table).await, [""; 0]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn commit_when_sixteen_at_once_then_all_there_once() {
    let folder = tempfile::tempdir().unwrap();
    for root in [memory("wh/db.db/t"), crate::store::open_store(folder.path().to_str().unwrap()).unwrap()] {
        create(&root, &Shape { options: &[("commit.max-retries", "100")], ..APPEND }).await;
        let writers = (0..16).map(|writer| {
            let root = root.clone();
            tokio::spawn(async move {
                // Each has caches of its own, as other processes have: they race.
                let table = open(&root).await;
                for i in 0..5 {
                    commit(&table, added(&[file(&format!("f{writer}-{i}"), 1)])).await.unwrap();
                }
            })
        });
        for writer in futures::future::join_all(writers).await {
            writer.unwrap();
        }
        let table = open(&root).await;
        let mut names = live(&table).await;
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 80);
        assert_eq!(table.snapshots().ids().await.unwrap(), (1..=80).collect::<Vec<_>>());
        assert_eq!(table.snapshot(None).await.unwrap().unwrap().total_record_count, 80);
        assert_eq!(orphans(&table).await, [""; 0]);
    }
}
