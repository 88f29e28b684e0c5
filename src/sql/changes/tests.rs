//! Changes against a model: what is read of a state, with the changes to a later one applied, is that later state.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int32Type;
use proptest::prelude::*;

use crate::plan::ChangeFeed;
use crate::sql::{LakeChanges, LakeSession};
use crate::store::Caches;
use crate::table::{ObjectName, ReadFrom, Table, timestamp_millis};

/// A statement of a history, with the keys that it writes, their values, and whether it deletes them.
#[derive(Clone, Debug)]
enum Change {
    Insert(BTreeMap<i32, (i32, bool)>),
    Overwrite(BTreeMap<i32, i32>),
}

fn change() -> impl Strategy<Value = Change> {
    let rows = prop::collection::btree_map(0..8_i32, (0..3_i32, prop::bool::weighted(0.3)), 1..5);
    let all = prop::collection::btree_map(0..8_i32, 0..3_i32, 1..4);
    prop_oneof![5 => rows.prop_map(Change::Insert), 1 => all.prop_map(Change::Overwrite)]
}

impl Change {
    fn sql(&self) -> String {
        let values = |rows: Vec<String>| rows.join(", ");
        match self {
            Self::Insert(rows) => {
                let row = |(id, (v, deletes)): (&i32, &(i32, bool))| {
                    format!("({id}, {v}, '{}')", if *deletes { "-D" } else { "+I" })
                };
                format!("INSERT INTO t VALUES {}", values(rows.iter().map(row).collect()))
            }
            Self::Overwrite(rows) => {
                let row = |(id, v): (&i32, &i32)| format!("({id}, {v}, '+I')");
                format!("INSERT OVERWRITE t VALUES {}", values(rows.iter().map(row).collect()))
            }
        }
    }

    fn apply(&self, model: &mut BTreeMap<i32, i32>) {
        match self {
            Self::Insert(rows) => {
                for (id, (v, deletes)) in rows {
                    if *deletes {
                        model.remove(id);
                    } else {
                        model.insert(*id, *v);
                    }
                }
            }
            Self::Overwrite(rows) => model.clone_from(rows),
        }
    }
}

struct Lake {
    session: LakeSession,
    _folder: tempfile::TempDir,
}

impl Lake {
    async fn new(producer: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let session = LakeSession::builder().warehouse(folder.path().to_str().unwrap()).build().await.unwrap();
        let lake = Self { session, _folder: folder };
        lake.run(&format!(
            "CREATE TABLE t (id INT NOT NULL, v INT, k STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '2', \
             'rowkind.field' = 'k', 'changelog-producer' = '{producer}', 'streaming-read-overwrite' = 'true')"
        ))
        .await;
        lake
    }

    async fn run(&self, sql: &str) -> Vec<RecordBatch> {
        self.session.sql(sql).await.unwrap().collect().await.unwrap()
    }

    async fn state(&self, table: &str) -> BTreeMap<i32, i32> {
        let batches = self.run(&format!("SELECT '+I' AS rowkind, id, v FROM {table}")).await;
        let mut rows = BTreeMap::new();
        apply(&batches, &mut rows, &|_, _| {});
        rows
    }

    async fn table(&self) -> Arc<Table> {
        let catalog = self.session.context().catalog("lake").unwrap();
        let catalog = catalog.downcast_ref::<crate::sql::LakeCatalog>().unwrap().catalog();
        let name: ObjectName = "t".parse().unwrap();
        catalog.open_table("default", &name, &Arc::new(Caches::default()), BTreeMap::new()).await.unwrap()
    }
}

/// Sees the kind of a row, what was there, and its value.
type Check<'a> = &'a dyn Fn(&str, (Option<i32>, i32));

/// Applies rows of a kind, a key and a value to `rows`; `check` sees each with what was there.
fn apply(batches: &[RecordBatch], rows: &mut BTreeMap<i32, i32>, check: Check<'_>) {
    let mut adds = Vec::new();
    for batch in batches {
        let column = |name: &str| batch.column_by_name(name).unwrap();
        let kinds = arrow::compute::cast(column("rowkind"), &arrow::datatypes::DataType::Utf8).unwrap();
        let (ids, values) = (column("id").as_primitive::<Int32Type>(), column("v").as_primitive::<Int32Type>());
        for row in 0..batch.num_rows() {
            let (kind, id, v) = (kinds.as_string::<i32>().value(row).to_owned(), ids.value(row), values.value(row));
            check(&kind, (rows.get(&id).copied(), v));
            match kind.as_str() {
                "-D" | "-U" => _ = rows.remove(&id),
                _ => adds.push((id, v)),
            }
        }
    }
    // The rows of a step come in no order; each key is told of once, or taken away and put in.
    rows.extend(adds);
}

async fn check_history(producer: &str, changes: &[Change]) {
    let lake = Lake::new(producer).await;
    let table = lake.table().await;
    let mut feed = ChangeFeed::open(Arc::clone(&table), &|text| timestamp_millis(text, &chrono::Utc)).await.unwrap();
    let (mut model, mut followed) = (BTreeMap::new(), BTreeMap::new());
    let mut ids = vec![0];
    for change in changes {
        lake.run(&change.sql()).await;
        change.apply(&mut model);
        assert_eq!(lake.state("t").await, model, "{producer}: after {change:?}");
        ids.extend(table.snapshots().latest_id().await.unwrap());
        while let Some(step) = feed.poll().await.unwrap() {
            if matches!(step.read, ReadFrom::State { .. }) {
                followed.clear();
            }
            let changes = Arc::new(LakeChanges::new(Arc::clone(&table), step));
            let batches = lake.session.context().read_table(changes).unwrap().collect().await.unwrap();
            apply(&batches, &mut followed, &|_, _| {});
        }
        assert_eq!(followed, model, "{producer}: the feed after {change:?}");
    }
    let last = ids.len() - 1;
    for start in [0, 1, ids.len() / 2] {
        let (after, until) = (ids[start.min(last)], ids[last]);
        let mut rows = if after == 0 { BTreeMap::new() } else { lake.state(&format!("\"t@{after}\"")).await };
        let sql = format!(
            "SELECT rowkind, id, v FROM t$audit_log /*+ OPTIONS('incremental-between' = '{after},{until}', \
             'incremental-between-scan-mode' = 'diff') */"
        );
        apply(&lake.run(&sql).await, &mut rows, &|kind, (was, is)| match kind {
            "-D" => assert_eq!(was, Some(is), "only what is there goes"),
            _ => assert_ne!(was, Some(is), "a row that is what it was has not changed"),
        });
        assert_eq!(rows, lake.state(&format!("\"t@{until}\"")).await, "{producer}: {after} to {until}");
        assert_eq!(rows, model);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, max_shrink_iters: 20, ..ProptestConfig::default() })]

    #[test]
    fn changes_when_applied_to_the_state_before_then_the_state_after(
        changes in prop::collection::vec(change(), 2..7),
        producer in prop::sample::select(vec!["none", "input"]),
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(check_history(producer, &changes));
    }
}
