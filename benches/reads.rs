//! The promises of the README's performance table, measured inside one process: warm reads and warm plans.
//!
//! The tables are made as the README says, in a warehouse that `TIDELAKE_BENCH_WAREHOUSE` names. Without it there is nothing to
//! measure and the bench says so. A table with a long history is made by the bench itself.

#![expect(clippy::expect_used, reason = "a bench that cannot run has nothing to measure")]

use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use datafusion::prelude::{SessionConfig, SessionContext};
use tidelake::catalog::FileSystemCatalog;
use tidelake::sql::LakeCatalog;
use tidelake::store::Caches;
use tokio::runtime::Runtime;

/// Name of the bench, database, statement.
const STATEMENTS: [(&str, &str, &str); 11] = [
    ("m5/aggregate", "bench", "SELECT count(*), sum(qty), sum(price) FROM m5"),
    ("m5/value filter", "bench", "SELECT count(*) FROM m5 WHERE price > 999.9"),
    ("m5/point", "bench", "SELECT * FROM m5 WHERE id = 1234567"),
    (
        "m5/difference of its last two states",
        "bench",
        "SELECT count(*) FROM \"m5$audit_log@opts:incremental-between=5,6&incremental-between-scan-mode=diff\"",
    ),
    ("pu/aggregate", "bench", "SELECT count(*), sum(a), sum(d), max(b) FROM pu"),
    ("agg/aggregate", "bench", "SELECT count(*), sum(a), max(b), max(c), sum(d) FROM agg"),
    ("p200k/no filter", "plan", "EXPLAIN SELECT * FROM p200k"),
    ("p200k/statistics", "plan", "EXPLAIN SELECT * FROM p200k WHERE s = '0123456'"),
    ("p200k/partition", "plan", "EXPLAIN SELECT * FROM p200k WHERE dt = 100"),
    ("p1m/statistics", "plan", "EXPLAIN SELECT * FROM p1m WHERE s = '0123456'"),
    ("p200k/$files", "plan", "SELECT count(*), sum(record_count), max(file_path) FROM \"p200k$files\""),
];

fn context(warehouse: &str, database: &str) -> SessionContext {
    let config = SessionConfig::new()
        .with_default_catalog_and_schema("lake", database)
        .with_create_default_catalog_and_schema(false);
    let context = SessionContext::new_with_config(config);
    let catalog = FileSystemCatalog::open(warehouse).expect("the warehouse opens");
    context.register_catalog("lake", Arc::new(LakeCatalog::new(Arc::new(catalog), Arc::new(Caches::default()))));
    context
}

async fn run(context: &SessionContext, statement: &str) {
    let frame = context.sql(statement).await.expect("the statement plans");
    frame.collect().await.expect("the statement runs");
}

fn reads(criterion: &mut Criterion) {
    let Ok(warehouse) = std::env::var("TIDELAKE_BENCH_WAREHOUSE") else {
        eprintln!("set TIDELAKE_BENCH_WAREHOUSE to the warehouse of the tables that the README tells how to make");
        return;
    };
    let runtime = Runtime::new().expect("a runtime starts");
    let mut group = criterion.benchmark_group("warm");
    group.sample_size(10);
    for (name, database, statement) in STATEMENTS {
        let context = context(&warehouse, database);
        // The first run is cold: it decodes manifests and resolves live rows.
        runtime.block_on(run(&context, statement));
        group.bench_function(name, |bencher| bencher.to_async(&runtime).iter(|| run(&context, statement)));
    }
    group.finish();
}

/// Snapshots of the table with a long history.
const SNAPSHOTS: i64 = 10_000;

/// What is asked of it, each time by a session that has read nothing yet.
const OF_HISTORY: [(&str, &str); 6] = [
    ("by snapshot", "SELECT count(*) FROM \"t@5000\""),
    ("by time", "SELECT count(*) FROM \"t@ts:1700004321500\""),
    ("by tag", "SELECT count(*) FROM \"t@tag:early\""),
    ("$snapshots", "SELECT count(*), max(commit_time) FROM \"t$snapshots\""),
    ("$snapshots limit 10", "SELECT * FROM \"t$snapshots\" LIMIT 10"),
    ("$snapshots by id", "SELECT * FROM \"t$snapshots\" WHERE snapshot_id = 77"),
];

/// A warehouse whose table `default.t` has [`SNAPSHOTS`] snapshots, one a second, and the tag `early`.
fn long_history(runtime: &Runtime) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("there is a folder for temporary files");
    let warehouse = folder.path().to_str().expect("its name is text").to_owned();
    runtime.block_on(async {
        let session = tidelake::LakeSession::builder().warehouse(warehouse).build().await.expect("a session opens");
        for statement in ["CREATE TABLE t (id INT)", "INSERT INTO t VALUES (1)", "CALL sys.create_tag('t', 'early', 1)"]
        {
            session.sql(statement).await.expect(statement).collect().await.expect(statement);
        }
    });
    let snapshots = folder.path().join("default.db/t/snapshot");
    let first = std::fs::read_to_string(snapshots.join("snapshot-1")).expect("the first snapshot is there");
    let mut document: serde_json::Value = serde_json::from_str(&first).expect("a snapshot is JSON");
    for id in 1..=SNAPSHOTS {
        document["id"] = id.into();
        document["timeMillis"] = (1_700_000_000_000 + id * 1000).into();
        std::fs::write(snapshots.join(format!("snapshot-{id}")), document.to_string()).expect("a snapshot is written");
    }
    std::fs::write(snapshots.join("EARLIEST"), "1").expect("a hint is written");
    std::fs::write(snapshots.join("LATEST"), SNAPSHOTS.to_string()).expect("a hint is written");
    folder
}

fn history(criterion: &mut Criterion) {
    let runtime = Runtime::new().expect("a runtime starts");
    let folder = long_history(&runtime);
    let warehouse = folder.path().to_str().expect("its name is text");
    let mut group = criterion.benchmark_group("10000 snapshots");
    group.sample_size(10);
    for (name, statement) in OF_HISTORY {
        group.bench_function(name, |bencher| {
            bencher.to_async(&runtime).iter_batched(
                || context(warehouse, "default"),
                |context| async move { run(&context, statement).await },
                criterion::BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, history, reads);
criterion_main!(benches);
