//! Statements that change rows, over a store that fails, hangs and says "error" after it did what it was asked: a statement is
//! there whole or not at all, and what it answers is true.
//!
//! `TIDELAKE_SEED=<seed>` plays a failure again, `TIDELAKE_DML_STEPS` says how many statements are played on each kind of table
//! (60, of the same seeds; others each time when it is given).

use std::collections::BTreeMap;
use std::error::Error as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use object_store::ObjectStore;
use object_store::memory::InMemory;
use object_store::path::Path;
use parking_lot::Mutex;
use url::Url;

use crate::commit::outcome_is_unknown;
use crate::error::{Error, ErrorKind, Result};
use crate::house::Random;
use crate::sql::LakeSession;
use crate::store::chaos::{ChaosStore, Fate, Operation};
use crate::store::{StoreLocation, register_store};

/// What still runs after this was killed.
const PATIENCE: Duration = Duration::from_secs(2);

const QUICK: &str = "'commit.min-retry-wait' = '0 ms', 'commit.max-retry-wait' = '0 ms', 'commit.timeout' = '300 ms'";

/// Kinds of tables: what follows the columns, and whether rows have keys.
const KINDS: [(&str, bool); 6] = [
    (", PRIMARY KEY (k) NOT ENFORCED) WITH ('bucket' = '2', 'num-sorted-run.compaction-trigger' = '3'", true),
    (", PRIMARY KEY (k) NOT ENFORCED) WITH ('bucket' = '1', 'deletion-vectors.enabled' = 'true'", true),
    (", PRIMARY KEY (k) NOT ENFORCED) WITH ('bucket' = '-1', 'changelog-producer' = 'lookup'", true),
    (") WITH ('deletion-vectors.enabled' = 'true'", false),
    (") WITH ('file.format' = 'avro'", false),
    (") WITH ('row-tracking.enabled' = 'true'", false),
];

/// What the store does.
struct Luck {
    random: Random,
    trouble: usize,
}

/// The same files in two stores: one that works, and one that does as luck has it.
struct Stores {
    calm: String,
    troubled: String,
    luck: Arc<Mutex<Luck>>,
}

impl Stores {
    fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let (calm, troubled) = (format!("calm-dml-{number}"), format!("troubled-dml-{number}"));
        let files: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let url = Url::parse(&format!("{troubled}:///")).unwrap();
        let root = StoreLocation::new(Arc::clone(&files), url, Path::default()).unwrap();
        let luck = Arc::new(Mutex::new(Luck { random: Random(0), trouble: 0 }));
        let shared = Arc::clone(&luck);
        let decide = move |_: Operation, _: &Path| {
            let luck = &mut *shared.lock();
            match luck.trouble {
                1 if luck.random.below(60) == 0 => Fate::Fails,
                2 if luck.random.below(60) == 0 => Fate::FailsAfter,
                3 if luck.random.below(150) == 0 => [Fate::Hangs, Fate::HangsAfter][luck.random.below(2)],
                _ => Fate::Works,
            }
        };
        let chaos = Arc::clone(ChaosStore::over(&root, Box::new(decide)).store());
        let register = |scheme: &str, store: Arc<dyn ObjectStore>| {
            register_store(scheme, move |_: &str, _: &BTreeMap<String, String>| Ok(Arc::clone(&store)));
        };
        register(&calm, files);
        register(&troubled, chaos);
        Self { calm, troubled, luck }
    }

    async fn run(scheme: &str, sql: &str) -> Result<Vec<String>> {
        let session = LakeSession::builder().warehouse(format!("{scheme}:///wh")).build().await?;
        Ok(super::tests::lines(&session.sql(sql).await?.collect().await?))
    }

    /// The rows, as nobody disturbed sees them.
    async fn rows(&self) -> BTreeMap<i64, i64> {
        let lines = Self::run(&self.calm, "SELECT k, v FROM t").await.unwrap();
        let rows: BTreeMap<i64, i64> = lines
            .iter()
            .map(|line| line.split_once('|').map(|(k, v)| (k.parse().unwrap(), v.parse().unwrap())).unwrap())
            .collect();
        assert_eq!(rows.len(), lines.len(), "{lines:?}");
        rows
    }
}

/// The next statement, the rows after it and the number that it answers.
fn statement(rows: &BTreeMap<i64, i64>, has_key: bool, random: &mut Random) -> (String, BTreeMap<i64, i64>, usize) {
    let mut after = rows.clone();
    let value = random.below(1_000_000) as i64;
    match random.below(5) {
        0 => {
            let rest = random.below(5) as i64;
            after.retain(|k, _| k % 5 != rest);
            let count = rows.len() - after.len();
            (format!("DELETE FROM t WHERE k % 5 = {rest}"), after, count)
        }
        1 | 2 => {
            let first = random.below(12) as i64;
            after.range_mut(first..).for_each(|(_, v)| *v += 1);
            let count = rows.range(first..).count();
            (format!("UPDATE t SET v = v + 1 WHERE k >= {first}"), after, count)
        }
        3 => {
            let first = random.below(12) as i64;
            for k in first..first + 4 {
                match after.get_mut(&k) {
                    Some(_) if k % 3 == 0 => {
                        after.remove(&k);
                    }
                    Some(v) => *v += value,
                    None => {
                        after.insert(k, value);
                    }
                }
            }
            let source: Vec<String> = (first..first + 4).map(|k| format!("({k}, {value})")).collect();
            let sql = format!(
                "MERGE INTO t USING (SELECT * FROM (VALUES {}) AS y(k, v)) AS s ON t.k = s.k WHEN MATCHED AND t.k % 3 = 0 THEN \
                 DELETE WHEN MATCHED THEN UPDATE SET v = t.v + s.v WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.k, s.v)",
                source.join(", ")
            );
            (sql, after, 4)
        }
        _ => {
            let keys: Vec<i64> =
                (0..16).filter(|k| random.below(4) == 0 && (has_key || !rows.contains_key(k))).collect();
            let keys = if keys.is_empty() { vec![100 + value] } else { keys };
            after.extend(keys.iter().map(|k| (*k, value)));
            let values: Vec<String> = keys.iter().map(|k| format!("({k}, {value})")).collect();
            (format!("INSERT INTO t VALUES {}", values.join(", ")), after, keys.len())
        }
    }
}

/// Whether an error leaves open what was done; one that is no error of ours tells nothing.
fn is_unknown(error: &Error) -> bool {
    let mut cause = error.source();
    let mut unknown = outcome_is_unknown(error);
    while let Some(inner) = cause {
        unknown |= inner.downcast_ref::<Error>().is_some_and(outcome_is_unknown);
        cause = inner.source();
    }
    unknown
}

async fn play(seed: u64, kind: usize, steps: usize) {
    let (definition, has_key) = KINDS[kind];
    let mut random = Random(seed);
    let stores = Stores::new();
    let create = format!("CREATE TABLE t (k BIGINT, v BIGINT{definition}, {QUICK})");
    Stores::run(&stores.calm, &create).await.unwrap();
    Stores::run(&stores.calm, "INSERT INTO t VALUES (1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6)").await.unwrap();
    let mut rows = stores.rows().await;
    let mut told = [0; 3];
    for step in 0..steps {
        let (sql, after, count) = statement(&rows, has_key, &mut random);
        *stores.luck.lock() = Luck { random: Random(random.below(usize::MAX) as u64), trouble: random.below(4) };
        // A process that hangs is killed.
        let answer = tokio::time::timeout(PATIENCE, Box::pin(Stores::run(&stores.troubled, &sql))).await;
        stores.luck.lock().trouble = 0;
        let at = format!("seed {seed}, kind {kind}, step {step}: {sql} on {rows:?} gives {answer:?}");
        let now = stores.rows().await;
        match &answer {
            Ok(Ok(answer)) => {
                assert_eq!(*answer, [count.to_string()], "{at}");
                assert_eq!(now, after, "{at}");
                told[0] += 1;
            }
            Ok(Err(error)) if !is_unknown(error) => {
                assert!(matches!(error.kind(), ErrorKind::Io | ErrorKind::Conflict), "{at}");
                assert_eq!(now, rows, "{at}");
                told[1] += 1;
            }
            _ => {
                assert!(now == rows || now == after, "{now:?} after {at}");
                told[2] += 1;
            }
        }
        rows = now;
    }
    eprintln!("kind {kind}: {} done, {} failed, {} without answer", told[0], told[1], told[2]);
    let snapshots = Stores::run(&stores.calm, "SELECT snapshot_id FROM `t$snapshots`").await.unwrap();
    for id in snapshots {
        let sql = format!("SELECT count(*) - count(DISTINCT k) FROM `t@{id}`");
        assert_eq!(Stores::run(&stores.calm, &sql).await.unwrap(), ["0"], "seed {seed}, kind {kind}: snapshot {id}");
    }
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

async fn play_kind(kind: usize) {
    let steps = setting("TIDELAKE_DML_STEPS");
    let fresh = || if steps.is_some() { uuid::Uuid::new_v4().as_u128() as u64 >> 16 } else { kind as u64 + 1 };
    let seed = setting("TIDELAKE_SEED").unwrap_or_else(fresh);
    eprintln!("play again: TIDELAKE_SEED={seed} (kind {kind})");
    Box::pin(play(seed, kind, steps.unwrap_or(60) as usize)).await;
}

#[tokio::test]
async fn statements_when_the_store_of_a_key_table_fails_then_whole_or_not_at_all() {
    for kind in 0..3 {
        play_kind(kind).await;
    }
}

#[tokio::test]
async fn statements_when_the_store_of_an_append_table_fails_then_whole_or_not_at_all() {
    for kind in 3..6 {
        play_kind(kind).await;
    }
}
