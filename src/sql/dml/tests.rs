//! Statements against a model, in sessions of both kinds and on every kind of table; commits that meet each other.

use std::collections::BTreeMap;

use arrow::util::display::array_value_to_string;
use datafusion::prelude::{SessionContext, col, lit};
use tempfile::TempDir;

use super::{When, merge};
use crate::error::Result;
use crate::sql::{LakeSession, register};

/// Tables of the same rows.
const TABLES: [(&str, &str); 4] = [
    ("keyed", "k INT, g STRING, v INT, PRIMARY KEY (k) NOT ENFORCED) WITH ('bucket' = '2'"),
    ("vectors", "k INT, g STRING, v INT) WITH ('deletion-vectors.enabled' = 'true'"),
    ("copied", "k INT, g STRING, v INT) WITH ('file.format' = 'parquet'"),
    ("tracked", "k INT, g STRING, v INT) WITH ('row-tracking.enabled' = 'true'"),
];

const ROWS: &str =
    "(1, 'a', 10), (2, 'a', NULL), (3, 'b', 30), (4, 'b', 5), (5, NULL, 50), (6, 'c', 60), (7, NULL, NULL)";

struct Lake {
    folder: TempDir,
    session: LakeSession,
}

impl Lake {
    async fn open() -> Self {
        let folder = TempDir::new().unwrap();
        let warehouse = folder.path().to_str().unwrap();
        let session = LakeSession::builder().warehouse(warehouse).build().await.unwrap();
        let lake = Self { folder, session };
        lake.run("CREATE TABLE s (id INT, n INT)").await.unwrap();
        lake.run("INSERT INTO s VALUES (1, 1), (4, 40), (4, 41), (NULL, 9)").await.unwrap();
        lake
    }

    async fn stock(&self) -> SessionContext {
        let context = SessionContext::new();
        let warehouse = self.folder.path().to_str().unwrap().to_owned();
        register(&context, "lake", &BTreeMap::from([("warehouse".to_owned(), warehouse)])).await.unwrap();
        context.sql("SET datafusion.catalog.default_catalog = lake").await.unwrap();
        context.sql("SET datafusion.catalog.default_schema = default").await.unwrap();
        context
    }

    async fn fill(&self, name: &str, columns: &str) {
        self.run(&format!("DROP TABLE IF EXISTS {name}")).await.unwrap();
        self.run(&format!("CREATE TABLE {name} ({columns})")).await.unwrap();
        let (first, second) = ROWS.split_at(ROWS.find(", (4").unwrap());
        self.run(&format!("INSERT INTO {name} VALUES {first}")).await.unwrap();
        self.run(&format!("INSERT INTO {name} VALUES {}", &second[2..])).await.unwrap();
    }

    async fn run(&self, sql: &str) -> Result<Vec<String>> {
        Ok(lines(&self.session.sql(sql).await?.collect().await?))
    }
}

pub(super) fn lines(batches: &[arrow::array::RecordBatch]) -> Vec<String> {
    let line = |batch: &arrow::array::RecordBatch, row: usize| {
        let cells = batch.columns().iter().map(|column| array_value_to_string(column, row).unwrap());
        cells.collect::<Vec<_>>().join("|")
    };
    let mut lines: Vec<String> =
        batches.iter().flat_map(|batch| (0..batch.num_rows()).map(move |row| line(batch, row))).collect();
    lines.sort();
    lines
}

async fn stock_run(context: &SessionContext, sql: &str) -> Vec<String> {
    let frame = context.sql(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    lines(&frame.collect().await.unwrap_or_else(|error| panic!("{sql}: {error}")))
}

/// Conditions of every shape; `t` stands for the table.
const CONDITIONS: [&str; 18] = [
    "v > 20",
    "g = 'a' OR v IS NULL",
    "NOT (v > 20)",
    "g <> 'a'",
    "false",
    "v > 20 AND false",
    "v = NULL",
    "k IN (1, 3, NULL)",
    "k NOT IN (1, NULL)",
    "k IN (SELECT id FROM s)",
    "k NOT IN (SELECT id FROM s)",
    "k NOT IN (SELECT id FROM s WHERE id IS NOT NULL)",
    "EXISTS (SELECT 1 FROM s WHERE s.id = t.k)",
    "NOT EXISTS (SELECT 1 FROM s WHERE s.id = t.k AND s.n > 40)",
    "EXISTS (SELECT 1 FROM s WHERE n > 1000)",
    "v > (SELECT avg(v) FROM t)",
    "v = (SELECT max(x.v) FROM t AS x WHERE x.g = t.g)",
    "CASE WHEN abs(v - 30) < 21 THEN length(g) = 1 ELSE k = 5 END",
];

#[tokio::test]
async fn delete_when_conditions_are_of_any_shape_then_the_rows_that_satisfy_them_go() {
    let lake = Lake::open().await;
    for (at, (name, columns)) in TABLES.into_iter().enumerate() {
        lake.fill("model", "k INT, g STRING, v INT").await;
        let stock = lake.stock().await;
        for (number, condition) in CONDITIONS.into_iter().enumerate() {
            lake.fill(name, columns).await;
            // Whether the condition is true tells the model; the engine takes `(k NOT IN (..)) IS NOT TRUE` for false where it is
            // unknown.
            let asked = condition.replace("FROM t", "FROM model").replace("t.", "model.");
            let kept = lake.run(&format!("SELECT * FROM model EXCEPT SELECT * FROM model WHERE {asked}")).await;
            let kept = kept.unwrap_or_else(|error| panic!("{condition}: {error}"));
            let own = condition.replace("FROM t", &format!("FROM {name}")).replace("t.", &format!("{name}."));
            let sql = format!("DELETE FROM {name} WHERE {own}");
            // One session of each kind in turn.
            let answer = match (at + number) % 2 {
                0 => lake.run(&sql).await.unwrap_or_else(|error| panic!("{sql}: {error}")),
                _ => stock_run(&stock, &sql).await,
            };
            assert_eq!(answer, [(7 - kept.len()).to_string()], "{sql}");
            assert_eq!(lake.run(&format!("SELECT * FROM {name}")).await.unwrap(), kept, "{sql}");
        }
    }
}

#[tokio::test]
async fn update_and_merge_when_a_stock_session_runs_them_then_as_in_our_own() {
    let lake = Lake::open().await;
    let stock = lake.stock().await;
    for (name, columns) in TABLES {
        lake.fill(name, columns).await;
        let sql =
            format!("UPDATE {name} SET v = v + (SELECT max(n) FROM s), g = upper(g) WHERE k IN (SELECT id FROM s)");
        assert_eq!(stock_run(&stock, &sql).await, ["2"], "{sql}");
        let sql = format!(
            "MERGE INTO {name} USING (SELECT id, max(n) AS n FROM s WHERE id IS NOT NULL GROUP BY id UNION ALL SELECT 9, 90) AS x \
             ON {name}.k = x.id \
             WHEN MATCHED AND x.n < 10 THEN DELETE \
             WHEN MATCHED THEN UPDATE SET v = x.n \
             WHEN NOT MATCHED THEN INSERT (k, v) VALUES (x.id, x.n) \
             WHEN NOT MATCHED BY SOURCE AND {name}.v IS NULL THEN UPDATE SET g = 'none'"
        );
        assert_eq!(stock_run(&stock, &sql).await, ["5"], "{sql}");
        let expected = ["2|a|", "3|b|30", "4|B|41", "5||50", "6|c|60", "7|none|", "9||90"];
        let expected: Vec<String> = expected.iter().map(|line| line.replace("2|a|", "2|none|")).collect();
        assert_eq!(lake.run(&format!("SELECT * FROM {name}")).await.unwrap(), expected, "{name}");
        let sql = format!("DELETE FROM {name} WHERE k > 2 LIMIT 2");
        assert_eq!(stock_run(&stock, &sql).await, ["2"], "{sql}");
        assert_eq!(lake.run(&format!("SELECT count(*) FROM {name}")).await.unwrap(), ["5"]);
        assert_eq!(stock_run(&stock, &format!("DELETE FROM {name}")).await, ["5"]);
    }
}

#[tokio::test]
async fn merge_when_a_program_builds_it_then_the_rows_are_changed() {
    let lake = Lake::open().await;
    let stock = lake.stock().await;
    for (name, columns) in TABLES {
        lake.fill(name, columns).await;
        let source =
            stock.sql("SELECT * FROM (VALUES (1, 'x', -10), (2, 'y', 2), (9, 'z', 9)) AS v(k, g, v)").await.unwrap();
        let column = |column: &str| col(format!("{name}.{column}"));
        let changed = merge(&stock, format!("lake.default.{name}"))
            .using(source.clone(), "src")
            .on(column("k").eq(col("src.k")))
            .when(When::matched().and((column("v") + col("src.v")).lt_eq(lit(0))).delete())
            .when(When::matched().update_all())
            .when(When::not_matched().insert([("k", col("src.k")), ("v", col("src.v") * lit(2))]))
            .when(When::not_matched_by_source().and(column("v").is_null()).delete())
            .execute()
            .await
            .unwrap();
        assert_eq!(changed, 4);
        let expected = ["2|y|2", "3|b|30", "4|b|5", "5||50", "6|c|60", "9||18"];
        assert_eq!(lake.run(&format!("SELECT * FROM {name}")).await.unwrap(), expected, "{name}");
        let incomplete =
            merge(&stock, format!("lake.default.{name}")).using(source, "src").execute().await.unwrap_err();
        assert!(incomplete.message().contains("condition"), "{incomplete}");
    }
}

#[tokio::test]
async fn statements_when_others_commit_in_between_then_they_are_planned_again() {
    let lake = Lake::open().await;
    for (name, columns) in TABLES {
        lake.fill(name, columns).await;
        // Planned, and not run yet: what it reads is what was there.
        let slow = lake.session.sql(&format!("UPDATE {name} SET v = v + 1 WHERE g = 'b'")).await.unwrap();
        let plan = slow.create_physical_plan().await.unwrap();
        assert_eq!(lake.run(&format!("UPDATE {name} SET v = 100 WHERE k = 3")).await.unwrap(), ["1"]);
        assert_eq!(lake.run(&format!("DELETE FROM {name} WHERE k = 4")).await.unwrap(), ["1"]);
        let task = lake.session.context().task_ctx();
        let answer =
            datafusion::physical_plan::collect(plan, task).await.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(lines(&answer), ["1"], "{name}");
        let now = lake.run(&format!("SELECT k, v FROM {name} WHERE k IN (3, 4)")).await.unwrap();
        assert_eq!(now, ["3|101"], "{name}");
    }
}

/// Runs statements again and again in sessions of their own, all at once; gives how many were done. The others met conflicts.
async fn at_once(lake: &Lake, sessions: usize, times: usize, sql: &str) -> usize {
    let run = |_| async {
        let warehouse = lake.folder.path().to_str().unwrap();
        let session = LakeSession::builder().warehouse(warehouse).build().await.unwrap();
        let mut done = 0;
        for _ in 0..times {
            let answer = async { session.sql(sql).await?.collect().await.map_err(crate::Error::from) };
            match answer.await {
                Ok(_) => done += 1,
                Err(error) => assert_eq!(error.kind(), crate::ErrorKind::Conflict, "{sql}: {error}"),
            }
        }
        done
    };
    let done: usize = futures::future::join_all((0..sessions).map(run)).await.into_iter().sum();
    assert!(done > 0, "{sql}");
    done
}

#[tokio::test]
async fn statements_when_many_run_at_once_then_no_update_is_lost() {
    let lake = Lake::open().await;
    for (name, columns) in TABLES {
        lake.fill(name, columns).await;
        let done = at_once(&lake, 4, 4, &format!("UPDATE {name} SET v = v + 1 WHERE k = 1")).await;
        let expected = format!("{}", 10 + done);
        assert_eq!(lake.run(&format!("SELECT v FROM {name} WHERE k = 1")).await.unwrap(), [expected], "{name}");
        assert_eq!(lake.run(&format!("SELECT count(*) FROM {name}")).await.unwrap(), ["7"], "{name}");
    }
}

#[tokio::test]
async fn merge_when_two_sessions_bring_the_same_keys_then_each_is_there_once() {
    let lake = Lake::open().await;
    for (name, columns) in TABLES {
        lake.fill(name, columns).await;
        let sql = format!(
            "MERGE INTO {name} USING (SELECT * FROM (VALUES (1), (5), (20), (21)) AS y(k)) AS s ON {name}.k = s.k \
             WHEN MATCHED THEN UPDATE SET v = {name}.v + 1 WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.k, 1)"
        );
        let done = at_once(&lake, 2, 4, &sql).await;
        let expected =
            [format!("1|{}", 10 + done), format!("20|{done}"), format!("21|{done}"), format!("5|{}", 50 + done)];
        let found = lake.run(&format!("SELECT k, v FROM {name} WHERE k IN (1, 5, 20, 21)")).await.unwrap();
        assert_eq!(found, expected, "{name}");
    }
}

#[tokio::test]
async fn merge_when_another_added_the_row_in_between_then_it_is_matched() {
    let lake = Lake::open().await;
    for (name, columns) in TABLES {
        lake.fill(name, columns).await;
        let sql = format!(
            "MERGE INTO {name} USING (SELECT 30 AS k) AS s ON {name}.k = s.k \
             WHEN MATCHED THEN UPDATE SET v = {name}.v + 1 WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.k, 1)"
        );
        let slow = lake.session.sql(&sql).await.unwrap().create_physical_plan().await.unwrap();
        assert_eq!(lake.run(&sql).await.unwrap(), ["1"], "{name}");
        let task = lake.session.context().task_ctx();
        let answer = datafusion::physical_plan::collect(slow, task).await;
        assert_eq!(lines(&answer.unwrap_or_else(|error| panic!("{name}: {error}"))), ["1"], "{name}");
        assert_eq!(lake.run(&format!("SELECT v FROM {name} WHERE k = 30")).await.unwrap(), ["2"], "{name}");
    }
}

#[tokio::test]
async fn delete_when_the_table_is_compacted_in_between_then_no_row_comes_back() {
    let lake = Lake::open().await;
    for (name, columns) in TABLES {
        for sql in ["DELETE FROM {t} WHERE v = 30", "UPDATE {t} SET v = 31 WHERE v = 30"] {
            lake.fill(name, columns).await;
            lake.run(&format!("INSERT INTO {name} VALUES (8, 'h', 8)")).await.unwrap();
            lake.run(&format!("DELETE FROM {name} WHERE k = 8")).await.unwrap();
            let sql = sql.replace("{t}", name);
            let slow = lake.session.sql(&sql).await.unwrap().create_physical_plan().await.unwrap();
            let options = "'compaction.min.file-num=2'";
            lake.run(&format!("CALL sys.compact(`table` => '{name}', options => {options})")).await.unwrap();
            let task = lake.session.context().task_ctx();
            let answer = datafusion::physical_plan::collect(slow, task).await;
            assert_eq!(lines(&answer.unwrap_or_else(|error| panic!("{sql}: {error}"))), ["1"], "{sql}");
            let left = usize::from(sql.starts_with("UPDATE"));
            let found = lake.run(&format!("SELECT count(*), count(*) FILTER (WHERE v IN (30, 31)) FROM {name}")).await;
            assert_eq!(found.unwrap(), [format!("{}|{left}", 6 + left)], "{sql}");
        }
    }
}

#[tokio::test]
async fn hooks_when_no_rule_is_there_then_refused() {
    let lake = Lake::open().await;
    let (name, columns) = TABLES[0];
    lake.fill(name, columns).await;
    let provider = lake.session.context().table_provider(name).await.unwrap();
    let plain = SessionContext::new();
    plain.register_table("t", provider).unwrap();
    for sql in ["DELETE FROM t WHERE k IN (SELECT 1)", "DELETE FROM t", "UPDATE t SET v = 1"] {
        let error = match plain.sql(sql).await {
            Ok(frame) => frame.collect().await.unwrap_err(),
            Err(error) => error,
        };
        assert!(error.to_string().contains("needs the analyzer rule"), "{sql}: {error}");
    }
    assert_eq!(lake.run(&format!("SELECT count(*) FROM {name}")).await.unwrap(), ["7"]);
}
