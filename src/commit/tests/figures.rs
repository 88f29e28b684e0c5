//! What a commit costs, and that it stays so. For figures: `TIDELAKE_COMMITS=10000 cargo test --release --features cli --lib
//! figures -- --nocapture`.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use object_store::path::Path;

use super::*;
use crate::store::chaos::{ChaosStore, Fate, Operation};

#[tokio::test]
async fn commit_when_warm_then_few_operations_and_no_list() {
    let plain = table(&APPEND).await;
    let counts: Arc<[AtomicUsize; 6]> = Arc::default();
    let seen = Arc::clone(&counts);
    let decide = move |operation: Operation, _: &Path| {
        seen[operation as usize].fetch_add(1, Ordering::SeqCst);
        Fate::Works
    };
    let table = open(&ChaosStore::over(plain.files().root(), Box::new(decide))).await;
    for i in 0..3 {
        commit(&table, added(&[file(&format!("f{i}"), 1)])).await.unwrap();
        let taken: Vec<usize> = counts.iter().map(|count| count.swap(0, Ordering::SeqCst)).collect();
        if i > 0 {
            // One manifest, two lists and the hint; the snapshot; hint, snapshot and schema read; what follows these two.
            assert_eq!(taken, [4, 1, 3, 3, 0, 0]);
        }
    }
}

fn median(times: &[Duration]) -> Duration {
    let mut times = times.to_vec();
    times.sort();
    times[times.len() / 2]
}

#[tokio::test]
async fn figures_when_many_commits_then_manifests_stay_merged() {
    let folder = tempfile::tempdir().unwrap();
    let root = crate::store::open_store(folder.path().to_str().unwrap()).unwrap();
    create(&root, &Shape { keys: &["a"], options: &[("bucket", "1"), ("write-only", "true")], ..APPEND }).await;
    let table = open(&root).await;
    let commits = std::env::var("TIDELAKE_COMMITS").ok().and_then(|text| text.parse().ok()).unwrap_or(120_usize);
    let mut times = Vec::with_capacity(commits);
    for i in 0..commits {
        let name = format!("data-{}-0.parquet", uuid::Uuid::new_v4());
        let message = added(&[keyed(&name, 0, (i as i32, i as i32 + 5))]);
        let started = Instant::now();
        commit(&table, message).await.unwrap();
        times.push(started.elapsed());
    }
    for (from, to) in [(5, 15), (50, 150), (450, 500), (1000, 1100), (4900, 5000), (9900, 10_000)] {
        if let Some(times) = times.get(from..to) {
            let mean = times.iter().sum::<Duration>() / times.len() as u32;
            println!("{from}..{to}: median {:?}, mean {mean:?}, most {:?}", median(times), times.iter().max().unwrap());
        }
    }
    let latest = table.snapshot(None).await.unwrap().unwrap();
    assert_eq!(latest.id as usize, commits);
    // `manifest.merge-min-count` of them are merged into one.
    let manifests = Box::pin(crate::plan::live::all_manifests(&table, &latest)).await.unwrap();
    assert!(manifests.len() <= 31);
    let cold = open(&root).await;
    let started = Instant::now();
    commit(&cold, added(&[keyed("last", 0, (1, 2))])).await.unwrap();
    println!("with cold caches: {:?}", started.elapsed());
}
