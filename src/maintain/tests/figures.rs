//! How long upkeep of large tables takes: `TIDELAKE_UPKEEP=500000 cargo test --release --features cli --lib maintain::tests::figures
//! -- --nocapture`, with the number of objects of which half are orphans; without it, a thousandth of that.

use std::time::Instant;

use super::*;
use crate::maintain::expire_snapshots::expire_snapshots;
use crate::maintain::orphan_files::{OrphanRequest, remove_orphan_files};
use crate::options::Keep;

/// Half as many objects, and fifty times as many as snapshots.
fn size() -> u64 {
    std::env::var("TIDELAKE_UPKEEP").ok().and_then(|text| text.parse().ok()).unwrap_or(5000)
}

#[tokio::test]
async fn orphans_when_a_million_objects_then_a_dry_run_counts_them() {
    let table = table(&[("bucket", "-1")]).await;
    let half = size() / 50 * 50;
    for chunk in 0..50 {
        let names: Vec<String> = (0..half / 50).map(|number| format!("data-{chunk}-{number}.parquet")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        add(&table, &names).await.unwrap();
    }
    for number in 0..half {
        let path = table.files().data_path("", 0, &format!("data-lost-{number}.parquet"), None).unwrap();
        table.files().overwrite(&path, "x").await.unwrap();
    }
    let table = open(table.files().root()).await;
    let request = OrphanRequest { older_than: LATER - 1, dry_run: true, parallelism: 0 };
    let begun = Instant::now();
    let found = remove_orphan_files(&table, request, LATER).await.unwrap();
    eprintln!("dry run over {} objects: {:.1} s", 2 * half, begun.elapsed().as_secs_f64());
    assert_eq!(found.files, half);
}

#[tokio::test]
async fn expire_when_a_tenth_of_ten_thousand_snapshots_goes_then_time_is_that_of_the_tenth() {
    let table = table(&[]).await;
    let count = (size() / 50).max(100);
    let mut last = "f".to_owned();
    add(&table, &[&last]).await.unwrap();
    for number in 1..count {
        let next = format!("c{number}");
        compact(&table, &[&last], &next).await.unwrap();
        last = next;
    }
    let table = open(table.files().root()).await;
    let mut options = options(&table);
    options.snapshots = Keep { least: (count * 9 / 10) as i64, ..options.snapshots };
    options.limit = 100_000;
    let begun = Instant::now();
    let expired = expire_snapshots(&table, &options, LATER).await.unwrap();
    eprintln!("{} of {count} snapshots: {:.2} s, {expired:?}", expired.snapshots, begun.elapsed().as_secs_f64());
    assert_eq!(expired.snapshots, count / 10);
}
