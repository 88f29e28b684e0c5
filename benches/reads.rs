//! The promises of the README's performance table, measured inside one process: warm reads and warm plans.
//!
//! The tables are made as the README says, in a warehouse that `TIDELAKE_BENCH_WAREHOUSE` names. Without it there is nothing to
//! measure and the bench says so.

#![expect(clippy::expect_used, reason = "a bench that cannot run has nothing to measure")]

use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use datafusion::prelude::{SessionConfig, SessionContext};
use tidelake::catalog::FileSystemCatalog;
use tidelake::sql::LakeCatalog;
use tidelake::store::Caches;
use tokio::runtime::Runtime;

/// Name of the bench, database, statement.
const STATEMENTS: [(&str, &str, &str); 9] = [
    ("m5/aggregate", "bench", "SELECT count(*), sum(qty), sum(price) FROM m5"),
    ("m5/value filter", "bench", "SELECT count(*) FROM m5 WHERE price > 999.9"),
    ("m5/point", "bench", "SELECT * FROM m5 WHERE id = 1234567"),
    ("pu/aggregate", "bench", "SELECT count(*), sum(a), sum(d), max(b) FROM pu"),
    ("agg/aggregate", "bench", "SELECT count(*), sum(a), max(b), max(c), sum(d) FROM agg"),
    ("p200k/no filter", "plan", "EXPLAIN SELECT * FROM p200k"),
    ("p200k/statistics", "plan", "EXPLAIN SELECT * FROM p200k WHERE s = '0123456'"),
    ("p200k/partition", "plan", "EXPLAIN SELECT * FROM p200k WHERE dt = 100"),
    ("p1m/statistics", "plan", "EXPLAIN SELECT * FROM p1m WHERE s = '0123456'"),
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

criterion_group!(benches, reads);
criterion_main!(benches);
