//! What the README's performance table says of writing, each beside the engine's own way of writing files: one run measures both.
//!
//! ```sh
//! cargo bench --bench writes
//! ```
//!
//! `TIDELAKE_BENCH_ROWS` is the number of rows (5,000,000). Everything lies in a temporary folder.

#![expect(clippy::expect_used, reason = "a bench that cannot run has nothing to measure")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use datafusion::prelude::SessionContext;
use tidelake::LakeSession;
use tokio::runtime::Runtime;

/// The rows: those of the README's table m5, in no order of their key.
fn source(rows: usize) -> String {
    format!(
        "SELECT value * 7919 % 5000011 AS id, CAST(random() * 1000000 AS BIGINT) AS user_id, \
         CAST(random() * 1000 AS DECIMAL(12, 2)) AS amount, CAST(random() * 98 AS INT) + 1 AS qty, random() * 1000 AS price, \
         CASE CAST(random() * 4 AS INT) WHEN 0 THEN 'NEW' WHEN 1 THEN 'PAID' WHEN 2 THEN 'SHIPPED' WHEN 3 THEN 'DONE' \
         ELSE 'CANCELLED' END AS status, concat('city_', CAST(CAST(random() * 199 AS INT) AS VARCHAR)) AS city, \
         concat('v0-', CAST(CAST(random() * 4294967296 AS BIGINT) AS VARCHAR)) AS note, \
         to_timestamp_millis(1700000000000 + CAST(random() * 60000000000 AS BIGINT)) AS ts, random() < 0.5 AS flag \
         FROM generate_series(1, {rows})"
    )
}

const COLUMNS: &str = "user_id BIGINT, amount DECIMAL(12, 2), qty INT, price DOUBLE, status STRING, city STRING, note STRING, \
                       ts TIMESTAMP(3), flag BOOLEAN";

const TEN_ROWS: &str =
    "VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd'), (5, 'e'), (6, 'f'), (7, 'g'), (8, 'h'), (9, 'i'), (10, 'j')";

struct Bench {
    runtime: Runtime,
    session: LakeSession,
    /// The engine alone, over the files of `source`.
    engine: SessionContext,
    folder: tempfile::TempDir,
    names: AtomicUsize,
}

impl Bench {
    fn new(rows: usize) -> Self {
        let runtime = Runtime::new().expect("a runtime starts");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
        let (session, engine) = runtime.block_on(async {
            let session = LakeSession::builder().warehouse(path("lake")).build().await.expect("a session");
            let engine = SessionContext::new();
            let copy = format!("COPY ({}) TO '{}' STORED AS PARQUET", source(rows), path("source/"));
            engine.sql(&copy).await.expect("the rows plan").collect().await.expect("the rows are made");
            let external = format!("CREATE EXTERNAL TABLE source STORED AS PARQUET LOCATION '{}'", path("source/"));
            for sql in [external.clone(), "SET datafusion.execution.target_partitions = 2".to_owned()] {
                engine.sql(&sql).await.expect("the source opens").collect().await.expect("the source opens");
            }
            let external = external.replace("TABLE source", "TABLE source_rows");
            session.sql(&external).await.expect("the source opens").collect().await.expect("the source opens");
            (session, engine)
        });
        Self { runtime, session, engine, folder, names: AtomicUsize::new(0) }
    }

    fn lake(&self, sql: &str) {
        self.runtime.block_on(async {
            self.session.sql(sql).await.expect("a statement plans").collect().await.expect("a statement runs");
        });
    }

    fn name(&self) -> String {
        format!("t{}", self.names.fetch_add(1, Ordering::Relaxed))
    }

    /// The time of an INSERT into a new table each time.
    fn inserts(&self, times: u64, columns: &str, select: &str) -> Duration {
        (0..times).fold(Duration::ZERO, |sum, _| {
            let name = self.name();
            self.lake(&format!("CREATE TABLE {name} {columns}"));
            let started = Instant::now();
            self.lake(&format!("INSERT INTO {name} {select}"));
            let taken = started.elapsed();
            self.lake(&format!("DROP TABLE {name}"));
            sum + taken
        })
    }

    /// The time of the engine's COPY of the same.
    fn copies(&self, times: u64, select: &str, options: &str) -> Duration {
        (0..times).fold(Duration::ZERO, |sum, _| {
            let target = self.folder.path().join(self.name());
            let started = Instant::now();
            self.runtime.block_on(async {
                let sql = format!("COPY ({select}) TO '{}/' STORED AS PARQUET {options}", target.display());
                self.engine.sql(&sql).await.expect("a copy plans").collect().await.expect("a copy runs");
            });
            let taken = started.elapsed();
            std::fs::remove_dir_all(target).expect("a copy goes");
            sum + taken
        })
    }
}

fn large(criterion: &mut Criterion) {
    let rows = std::env::var("TIDELAKE_BENCH_ROWS").ok().and_then(|rows| rows.parse().ok()).unwrap_or(5_000_000);
    let bench = Bench::new(rows);
    let mut group = criterion.benchmark_group("write");
    group.sample_size(10);
    let key =
        format!("(id BIGINT, {COLUMNS}, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1', 'write-only' = 'true')");
    group.bench_function("key table, one bucket", |bencher| {
        bencher.iter_custom(|times| bench.inserts(times, &key, "SELECT * FROM source_rows"));
    });
    group.bench_function("COPY .. ORDER BY", |bencher| {
        bencher.iter_custom(|times| bench.copies(times, "SELECT * FROM source ORDER BY id", ""));
    });
    let append = format!("(id BIGINT, {COLUMNS}, p INT) PARTITIONED BY (p)");
    let select = "SELECT *, CAST(id % 8 AS INT) AS p FROM source";
    group.bench_function("append table, 8 partitions", |bencher| {
        bencher.iter_custom(|times| bench.inserts(times, &append, &select.replace("source", "source_rows")));
    });
    group.bench_function("COPY .. PARTITIONED BY", |bencher| {
        bencher.iter_custom(|times| bench.copies(times, select, "PARTITIONED BY (p)"));
    });
    group.finish();
}

fn small(criterion: &mut Criterion) {
    let bench = Bench::new(10);
    let mut group = criterion.benchmark_group("ten rows");
    for (kind, columns) in [
        ("append", "(id INT, v STRING)"),
        ("key", "(id INT, v STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1', 'write-only' = 'true')"),
    ] {
        let (table, mut commits) = (format!("{kind}_rows"), 0);
        bench.lake(&format!("CREATE TABLE {table} {columns}"));
        let insert = format!("INSERT INTO {table} {TEN_ROWS}");
        for at in [100, 10_000] {
            while commits < at {
                bench.lake(&insert);
                commits += 1;
            }
            group.bench_function(format!("{kind} table, {at} snapshots"), |bencher| {
                bencher.iter(|| bench.lake(&insert))
            });
        }
    }
    group.finish();
}

criterion_group!(benches, large, small);
criterion_main!(benches);
