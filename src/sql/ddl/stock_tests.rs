//! The statements of a stock session, which reach a lake through the engine's hooks.

use std::collections::BTreeMap;

use arrow::util::pretty::pretty_format_batches;
use datafusion::prelude::{SessionConfig, SessionContext};

use crate::sql::register;

struct Stock {
    context: SessionContext,
    _folder: tempfile::TempDir,
}

impl Stock {
    async fn open() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = SessionConfig::new().with_information_schema(true).with_default_catalog_and_schema("lake", "db");
        let context = SessionContext::new_with_config(config);
        let warehouse = folder.path().join("wh").to_str().unwrap().to_owned();
        register(&context, "lake", &BTreeMap::from([("warehouse".to_owned(), warehouse)])).await.unwrap();
        Self { context, _folder: folder }
    }

    async fn run(&self, sql: &str) -> Result<String, String> {
        let frame = self.context.sql(sql).await.map_err(|error| error.to_string())?;
        let batches = frame.collect().await.map_err(|error| error.to_string())?;
        let text = pretty_format_batches(&batches).unwrap().to_string();
        let lines = text.lines().filter(|line| line.starts_with('|')).skip(1);
        Ok(lines.map(|line| line.trim_matches('|').trim().to_owned()).collect::<Vec<_>>().join("; "))
    }

    async fn ok(&self, sql: &str) -> String {
        self.run(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    async fn fails(&self, sql: &str, part: &str) {
        match self.run(sql).await {
            Ok(rows) => panic!("{sql} gives {rows}"),
            Err(error) => assert!(error.contains(part), "{sql}: {error}"),
        }
    }

    /// A table `lake.db.<name>` with one column, made by a statement of the engine.
    async fn table(&self, name: &str) {
        let folder = self._folder.path().join("wh/db.db").join(name);
        self.ok(&format!(
            "CREATE EXTERNAL TABLE made_{name} (a INT) STORED AS PAIMON LOCATION '{}'",
            folder.to_str().unwrap()
        ))
        .await;
    }
}

#[tokio::test]
async fn schemas_when_created_and_dropped_by_the_engine_then_databases_are() {
    let stock = Stock::open().await;
    stock.ok("CREATE SCHEMA db").await;
    stock.fails("CREATE SCHEMA db", "already exists").await;
    stock.ok("CREATE SCHEMA IF NOT EXISTS db").await;
    stock.ok("CREATE SCHEMA IF NOT EXISTS lake.other").await;
    stock.table("t").await;
    let listed =
        stock.ok("SELECT schema_name FROM information_schema.schemata WHERE catalog_name = 'lake' ORDER BY 1").await;
    assert_eq!(listed, "db; other");
    stock.fails("DROP SCHEMA db", "CASCADE").await;
    stock.ok("DROP SCHEMA db CASCADE").await;
    stock.fails("DROP SCHEMA db", "db").await;
    stock.ok("DROP SCHEMA IF EXISTS db").await;
    stock.fails("SELECT * FROM db.t", "db").await;
}

#[tokio::test]
async fn tables_when_dropped_by_the_engine_then_gone_and_by_nothing_else() {
    let stock = Stock::open().await;
    stock.ok("CREATE SCHEMA db").await;
    stock.table("t").await;
    assert_eq!(stock.ok("SELECT count(*) FROM t").await, "0");
    let tables = stock
        .ok("SELECT table_name, table_type FROM information_schema.tables WHERE table_schema = 'db' ORDER BY 1")
        .await;
    assert_eq!(tables.replace(' ', ""), "made_t|BASETABLE;t|BASETABLE");
    // None of these may take the table away and then fail to make the new one.
    stock.fails("CREATE OR REPLACE TABLE t AS SELECT 1 AS a", "not replaced").await;
    stock.fails("CREATE OR REPLACE VIEW t AS SELECT 1 AS a", "not replaced").await;
    assert!(stock.context.deregister_table("t").is_err());
    let place = stock._folder.path().join("nowhere").to_str().unwrap().to_owned();
    stock
        .fails(&format!("CREATE OR REPLACE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{place}'"), "not replaced")
        .await;
    assert_eq!(stock.ok("SELECT count(*) FROM t").await, "0");
    stock.fails("DROP TABLE \"t@1\"", "").await;
    stock.fails("CREATE TABLE t (a INT)", "already exists").await;
    assert_eq!(stock.ok("SELECT count(*) FROM t").await, "0");
    stock.fails("CREATE TABLE new (a INT)", "CREATE EXTERNAL TABLE new").await;
    stock.fails("CREATE TABLE new AS SELECT 1 AS a", "LakeSession").await;
    stock.ok("DROP TABLE t").await;
    stock.fails("SELECT count(*) FROM t", "t").await;
    stock.fails("DROP TABLE t", "doesn't exist").await;
    stock.ok("DROP TABLE IF EXISTS t").await;
    // A view is the session's own.
    stock.table("u").await;
    stock.ok("CREATE VIEW v AS SELECT a FROM u").await;
    assert_eq!(stock.ok("SELECT count(*) FROM v").await, "0");
    stock.ok("DROP VIEW v").await;
    assert_eq!(stock.ok("SELECT count(*) FROM u").await, "0");
}

#[tokio::test]
async fn constants_when_they_do_not_fit_then_table_column_and_value_are_told() {
    let stock = Stock::open().await;
    stock.ok("CREATE SCHEMA db").await;
    stock.table("t").await;
    assert_eq!(stock.ok("INSERT INTO t VALUES (1), ('2')").await, "2");
    for sql in [
        "INSERT INTO t VALUES (1), ('one')",
        "INSERT INTO t VALUES (1), ('on' || 'e')",
        "INSERT INTO t SELECT 'one'",
        "INSERT INTO t SELECT x || 'e' FROM (SELECT 'on' AS x)",
        "UPDATE t SET a = 'one'",
    ] {
        stock.fails(sql, "column a: 'one' is no INT").await;
        stock.fails(sql, "db.t").await;
    }
    assert_eq!(stock.ok("SELECT sum(a) FROM t").await, "3");
}

#[tokio::test]
async fn external_tables_when_defined_by_the_engine_then_created_as_written() {
    let stock = Stock::open().await;
    stock.ok("CREATE SCHEMA db").await;
    let place = stock._folder.path().join("e").to_str().unwrap().to_owned();
    let sql = format!(
        "CREATE EXTERNAL TABLE e (id BIGINT NOT NULL, dt DATE NOT NULL, v VARCHAR DEFAULT 'x', PRIMARY KEY (id, dt)) STORED AS PAIMON \
         PARTITIONED BY (dt) LOCATION '{place}' OPTIONS ('paimon.bucket' '2', 'paimon.file.format' 'orc')"
    );
    stock.ok(&sql).await;
    let schema = std::fs::read(format!("{place}/schema/schema-0")).unwrap();
    let schema = crate::spec::TableSchema::from_json(&schema).unwrap();
    assert_eq!(
        (schema.primary_keys, schema.partition_keys),
        (vec!["id".to_owned(), "dt".to_owned()], vec!["dt".to_owned()])
    );
    assert_eq!((schema.options["bucket"].as_str(), schema.options["file.format"].as_str()), ("2", "orc"));
    assert_eq!(schema.fields[2].default_value.as_deref(), Some("x"));
    assert_eq!(stock.ok("SELECT count(*) FROM e").await, "0");
    stock.ok("DROP TABLE e").await;
    stock.ok(&sql).await;
    stock.ok("DROP TABLE e").await;
    stock.fails(&sql.replace("'2'", "'3'"), "other columns, keys or options").await;
    stock.fails(&sql.replace("paimon.bucket", "paimon.bukcet"), "bukcet").await;
}

#[tokio::test]
async fn versions_when_named_in_a_stock_session_then_read_and_never_ignored() {
    let stock = Stock::open().await;
    stock.ok("CREATE SCHEMA db").await;
    stock.table("t").await;
    stock.ok("INSERT INTO t VALUES (1)").await;
    stock.ok("INSERT INTO t VALUES (2), (3)").await;
    for (sql, rows) in [
        ("SELECT count(*) FROM t", "3"),
        ("SELECT count(*) FROM \"t@1\"", "1"),
        ("SELECT count(*) FROM lake.db.\"t@1\" AS old JOIN t ON old.a = t.a", "1"),
        ("SELECT count(*) FROM \"t@ts:2999-01-02 03:04:05\"", "3"),
        ("SELECT count(*) FROM \"t@ts:32503680000000\"", "3"),
        ("SELECT count(*) FROM \"t$snapshots\"", "2"),
        ("SELECT sum(record_count) FROM \"t$files@1\"", "1"),
        ("SELECT count(*) FROM paimon_incremental_query('t', 1, 2)", "2"),
        ("SELECT count(*) FROM \"t@opts:incremental-between=0,1\"", "1"),
        ("SELECT rowkind, a FROM \"t$audit_log@opts:incremental-between=0,1\"", "+I      | 1"),
    ] {
        assert_eq!(stock.ok(sql).await, rows, "{sql}");
    }
    for (name, part) in [
        ("t@9", "snapshot 9 does not exist (the earliest is 1 of"),
        ("t@tag:x", "tag x does not exist; the table has no tag"),
        ("t@ts:1999-01-01", "there was no snapshot at 1999-01-01 00:00:00.000Z yet: the earliest is 1 of"),
        ("t@ts:noon", "is not a time"),
        ("t@", "a version is written t@5"),
        ("t$snapshots@1", "has no versions"),
        ("t$branch_b", "branch b does not exist"),
    ] {
        stock.fails(&format!("SELECT * FROM \"{name}\""), part).await;
    }
    stock.ok("SET datafusion.sql_parser.dialect = 'databricks'").await;
    stock.fails("SELECT * FROM t VERSION AS OF 1", "is not resolved by this session").await;
    stock.fails("SELECT * FROM t TIMESTAMP AS OF '2999-01-01'", "is not resolved by this session").await;
}
