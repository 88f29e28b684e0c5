//! The front end from text to rows, over a catalog that answers with the name it was asked for.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, Int32Array, ListArray, RecordBatch, StringArray, StructArray, TimestampMillisecondArray,
};
use arrow::array::{BinaryViewArray, Time32MillisecondArray};
use arrow::datatypes::{DataType, Field, Fields, Int32Type, Schema};
use arrow::util::pretty::pretty_format_batches;
use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, SchemaProvider, TableProvider};
use datafusion::datasource::MemTable;
use datafusion::error::Result as EngineResult;

use super::{LakeSession, split_statements};
use crate::error::{ErrorKind, Result};

/// A database with the tables `t` and `Orders`.
#[derive(Debug)]
struct Database;

fn batch(asked: &str, upper_case: bool) -> RecordBatch {
    let inner = StructArray::from(vec![(
        Arc::new(Field::new("z", DataType::Int32, true)),
        Arc::new(Int32Array::from(vec![7, 8])) as ArrayRef,
    )]);
    let items = Arc::new(Field::new("element", inner.data_type().clone(), true));
    let rows = ListArray::new(items, arrow::buffer::OffsetBuffer::from_lengths([1, 1]), Arc::new(inner.clone()), None);
    let nested = ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1), Some(2)]), None]);
    let instant = TimestampMillisecondArray::from(vec![0, 1_704_164_645_000]).with_timezone("UTC");
    let columns: Vec<(&str, ArrayRef)> = vec![
        (if upper_case { "orderId" } else { "id" }, Arc::new(Int32Array::from(vec![1, 2]))),
        ("asked", Arc::new(StringArray::from(vec![asked, asked]))),
        ("at", Arc::new(instant)),
        ("ts", Arc::new(TimestampMillisecondArray::from(vec![-62_135_596_800_000, 0]))),
        ("tm", Arc::new(Time32MillisecondArray::from(vec![45_296_000, 0]))),
        ("b", Arc::new(BinaryViewArray::from_iter_values([&[0_u8][..], &[255, 0, 0, 0]]))),
        ("r", Arc::new(inner)),
        ("ar", Arc::new(rows)),
        ("nums", Arc::new(nested)),
    ];
    let fields: Fields =
        columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true)).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns.into_iter().map(|(_, array)| array).collect()).unwrap()
}

#[async_trait]
impl SchemaProvider for Database {
    fn table_names(&self) -> Vec<String> {
        vec!["t".to_owned(), "Orders".to_owned()]
    }

    async fn table(&self, name: &str) -> EngineResult<Option<Arc<dyn TableProvider>>> {
        let table = name.split(['$', '@']).next().unwrap_or_default();
        if !self.table_exist(table) {
            return Ok(None);
        }
        let batch = batch(name, table == "Orders");
        Ok(Some(Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch]])?)))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.table_names().iter().any(|table| table == name)
    }
}

async fn session() -> LakeSession {
    let session = LakeSession::builder()
        .warehouse("nowhere")
        .with_catalog("other", BTreeMap::from([("warehouse".into(), "x".into())]));
    let session = session.build().await.unwrap();
    // A catalog that answers with the names it is asked for takes the place of the one on disk.
    let catalog = datafusion::catalog::MemoryCatalogProvider::new();
    catalog.register_schema("default", Arc::new(Database)).unwrap();
    catalog.register_schema("db", Arc::new(Database)).unwrap();
    session.context().register_catalog("lake", Arc::new(catalog));
    let memory = Arc::new(datafusion::catalog::MemoryCatalogProvider::new());
    memory.register_schema("public", Arc::new(Database)).unwrap();
    session.context().register_catalog("memory", memory);
    session
}

/// The rows of a query, one a line, values joined by `|`.
async fn rows_in(session: &LakeSession, sql: &str) -> Result<Vec<String>> {
    let batches = session.sql(sql).await?.collect().await?;
    let text = pretty_format_batches(&batches)?.to_string();
    let lines = text.lines().filter(|line| line.starts_with('|')).skip(1);
    Ok(lines.map(|line| line.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>().join("|")).collect())
}

async fn rows(sql: &str) -> Result<Vec<String>> {
    rows_in(&session().await, sql).await
}

async fn check(cases: &[(&str, &str)]) {
    let mut wrong = Vec::new();
    for (sql, expected) in cases {
        match rows(sql).await.map(|rows| rows.join(" ")) {
            Ok(rows) if rows == *expected => {}
            other => wrong.push(format!("{sql}\n  gives {other:?}\n  not   {expected}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn sql_when_tables_have_versions_or_hints_then_their_names_carry_them() {
    let hint = "/*+ OPTIONS('scan.snapshot-id' = '1') */";
    check(&[
        (&format!("SELECT asked FROM t {hint} WHERE id = 1"), "t@opts:scan.snapshot-id=1"),
        (&format!("SELECT x.asked FROM db.t AS x {hint} WHERE x.id = 1"), "t@opts:scan.snapshot-id=1"),
        (&format!("SELECT db.t.asked FROM db.t {hint} WHERE db.t.id = 1"), "t@opts:scan.snapshot-id=1"),
        (&format!("SELECT t.asked FROM lake.db.t {hint} WHERE lake.db.t.id = 1"), "t@opts:scan.snapshot-id=1"),
        (&format!("SELECT asked FROM `t$files` {hint} WHERE id = 1"), "t$files@opts:scan.snapshot-id=1"),
        (
            &format!("SELECT a.asked, b.asked FROM t {hint} a JOIN t b ON a.id = b.id WHERE a.id = 1"),
            "t@opts:scan.snapshot-id=1|t",
        ),
        (&format!("SELECT (SELECT max(asked) FROM t {hint}) AS x FROM t WHERE id = 1"), "t@opts:scan.snapshot-id=1"),
        (&format!("WITH t AS (SELECT * FROM t {hint}) SELECT asked FROM t WHERE id = 2"), "t@opts:scan.snapshot-id=1"),
        ("SELECT asked FROM t VERSION AS OF 5 WHERE id = 1", "t@5"),
        ("SELECT asked FROM t FOR VERSION AS OF 'a b' WHERE id = 1", "t@tag:a b"),
        ("SELECT asked FROM t TIMESTAMP AS OF '1970-01-01 00:00:01' x WHERE id = 1", "t@ts:1000"),
        ("SELECT asked FROM t FOR SYSTEM_TIME AS OF TIMESTAMP '1970-01-01 00:00:01.5' WHERE id = 1", "t@ts:1500"),
        ("SELECT asked FROM t TIMESTAMP AS OF 1234 WHERE id = 1", "t@ts:1234"),
        ("SELECT asked FROM t@5 WHERE id = 1", "t@5"),
        ("SELECT asked FROM t$branch_b WHERE id = 1", "t$branch_b"),
    ])
    .await;
}

#[tokio::test]
async fn sql_when_a_version_or_hint_cannot_hold_then_error() {
    for sql in [
        "WITH c AS (SELECT 1) SELECT * FROM c VERSION AS OF 5",
        "WITH c AS (SELECT 1), d AS (SELECT * FROM c /*+ OPTIONS('a' = 'b') */) SELECT * FROM d",
        "SELECT * FROM memory.public.t VERSION AS OF 5",
        "SELECT * FROM memory.public.t /*+ OPTIONS('scan.snapshot-id' = '1') */",
        "SELECT * FROM t TIMESTAMP AS OF 'yesterday'",
        "SELECT * FROM t TIMESTAMP AS OF now()",
        "SELECT * FROM t BEFORE(TIMESTAMP => 5)",
        "SELECT * FROM t VERSION AS OF 5 VERSION AS OF 6",
        "SELECT * FROM t TABLESAMPLE (10 PERCENT)",
        "SELECT * FROM t PARTITION (x)",
        "SELECT * FROM t FOR UPDATE",
    ] {
        assert!(rows(sql).await.is_err(), "{sql}");
    }
}

#[tokio::test]
async fn sql_when_a_version_comes_past_the_front_end_then_the_guard_refuses_it() {
    let session = session().await;
    let context = session.context();
    context.sql("SET datafusion.sql_parser.dialect = 'databricks'").await.unwrap();
    let error = context.sql("SELECT * FROM t VERSION AS OF 5").await.err().unwrap();
    assert!(error.to_string().contains("is not resolved by this session"), "{error}");
}

#[tokio::test]
async fn sql_when_it_is_written_for_flink_then_values_are_flinks() {
    check(&[
        ("SELECT MOD(7, 4), MOD(-7, 4), 9 % 4", "3|-3|1"),
        ("SELECT CARDINALITY(nums), CARDINALITY(ARRAY[ARRAY[1, 2], ARRAY[3]]) FROM t WHERE id = 1", "2|2"),
        ("SELECT CARDINALITY(nums) FROM t WHERE id = 2", ""),
        ("SELECT CARDINALITY(MAP['a', 1, 'b', 2]), MAP['a', 1, 'b', 2]['b']", "2|2"),
        ("SELECT ar[1].z, r.z, t.r.z AS x FROM t WHERE id = 2", "8|8|8"),
        ("SELECT id FROM t WHERE tm = TIME '12:34:56' OR tm IN (CAST('12:34:56' AS TIME(0)))", "1"),
        ("SELECT id FROM t WHERE ts = TIMESTAMP '0001-01-01 00:00:00'", "1"),
        ("SELECT id FROM t WHERE ts < TIMESTAMP '9999-12-31 23:59:59.999' AND ts >= TIMESTAMP '1970-01-01 00:00:00.000000'", "2"),
        ("SELECT id FROM t WHERE at = CAST('2024-01-02 03:04:05' AS TIMESTAMP_LTZ(3))", "2"),
        ("SELECT id FROM t WHERE at = CAST(TIMESTAMP '2024-01-02 03:04:05' AS TIMESTAMP(6) WITH LOCAL TIME ZONE)", "2"),
        ("SELECT id FROM t WHERE at > TIMESTAMP_LTZ '1970-01-01 00:00:00.000001'", "2"),
        ("SELECT id FROM t WHERE b = CAST(x'ff' AS BINARY(4)) OR b = CAST(X'00ff' AS VARBINARY(1))", "1 2"),
        ("SELECT CAST('ab' AS CHAR(4)) || '.', CAST('äbc' AS VARCHAR(2)), CAST(12 AS STRING)", "ab  .|äb|12"),
        ("SELECT 1Y, -128Y, 3L, 1.5 + 1.5, -1.5E300", "1|-128|3|3.0|-1.5e300"),
        ("SELECT CAST(1.567 AS DECIMAL(10, 2)), CAST('7' AS DECIMAL)", "1.57|7"),
        ("SELECT LISTAGG(asked), COUNT(*) FROM t", "t,t|2"),
        ("SELECT DATE_FORMAT(TIMESTAMP '2024-01-02 03:04:05.678', 'yyyy/MM/dd HH:mm:ss.SSS')", "2024/01/02 03:04:05.678"),
        ("SELECT TO_TIMESTAMP('02.01.2024 03:04', 'dd.MM.yyyy HH:mm') = TIMESTAMP '2024-01-02 03:04:00'", "true"),
        ("SELECT TO_DATE('02.01.2024', 'dd.MM.yyyy'), IF(1 > 2, 'a', 'b')", "2024-01-02|b"),
        ("SELECT id FROM t WHERE at = TO_TIMESTAMP_LTZ(1704164645, 0) AND at = TO_TIMESTAMP_LTZ(1704164645000, 3)", "2"),
        ("SELECT JSON_VALUE('{\"a\": [1, 2]}', '$.a[1]'), JSON_VALUE(asked, '$.x') FROM t WHERE id = 1", "2|"),
        ("SELECT ROW(1, 'x')", "{c0: 1, c1: x}"),
        ("SELECT CAST(ARRAY[1, 2] AS ARRAY<STRING>), CAST(NAMED_STRUCT('a', 1) AS ROW<a BIGINT>)", "[1, 2]|{a: 1}"),
        ("SELECT `id`, \"asked\" FROM `t` WHERE id = 1 -- a comment", "1|t"),
        ("SELECT /* a comment */ id FROM t at WHERE at.id = 1", "1"),
    ])
    .await;
}

#[tokio::test]
async fn sql_when_names_are_in_capitals_then_they_are_found_without_quotes() {
    check(&[
        ("SELECT orderId FROM Orders WHERE orderid = 1", "1"),
        ("SELECT o.ORDERID, Orders2.orderId FROM orders o, `Orders` Orders2 WHERE o.orderId = 1 AND Orders2.orderId = 2", "1|2"),
        ("SELECT orders.orderId AS orderid FROM ORDERS ORDER BY orderid DESC LIMIT 1", "2"),
        ("SELECT asked, orderId FROM Orders /*+ OPTIONS('scan.snapshot-id' = '1') */ WHERE Orders.orderId = 1", "Orders@opts:scan.snapshot-id=1|1"),
        ("SELECT ID FROM T WHERE Id = 1", "1"),
    ])
    .await;
    assert!(rows("SELECT `orderid` FROM Orders").await.is_err());
    assert!(rows("SELECT nothing FROM Orders").await.is_err());
    assert!(rows("SELECT * FROM `orders`").await.is_err());
}

#[tokio::test]
async fn sql_when_the_zone_is_set_then_instants_are_read_and_shown_in_it() {
    let session = session().await;
    let sql = "SELECT id, at FROM t WHERE at = CAST('2024-01-02 11:04:05' AS TIMESTAMP_LTZ(3))";
    assert!(rows_in(&session, sql).await.unwrap().is_empty());
    session.sql("SET 'table.local-time-zone' = 'Asia/Shanghai'").await.unwrap();
    assert_eq!(rows_in(&session, sql).await.unwrap(), ["2|2024-01-02T11:04:05+08:00"]);
    assert_eq!(
        rows_in(&session, "SELECT asked FROM t TIMESTAMP AS OF '1970-01-01 08:00' LIMIT 1").await.unwrap(),
        ["t@ts:0"]
    );
    session.sql("RESET TIME ZONE").await.unwrap();
    assert_eq!(rows_in(&session, "SELECT at FROM t WHERE id = 1").await.unwrap(), ["1970-01-01T00:00:00Z"]);
    assert!(session.sql("SET TIME ZONE 'Nowhere'").await.is_err());
}

#[tokio::test]
async fn sql_when_databases_are_listed_and_used_then_names_follow() {
    let session = session().await;
    assert_eq!(rows_in(&session, "SHOW DATABASES").await.unwrap(), ["db", "default"]);
    assert_eq!(rows_in(&session, "SHOW DATABASES LIKE 'd_'").await.unwrap(), ["db"]);
    assert_eq!(rows_in(&session, "SHOW TABLES").await.unwrap(), ["Orders", "t"]);
    assert_eq!(rows_in(&session, "SHOW TABLES FROM lake.db NOT LIKE '%d%'").await.unwrap(), ["t"]);
    session.sql("USE DB").await.unwrap();
    assert_eq!(rows_in(&session, "SHOW CURRENT DATABASE").await.unwrap(), ["db"]);
    session.sql("USE memory.public").await.unwrap();
    assert_eq!(rows_in(&session, "SELECT asked FROM t WHERE id = 1").await.unwrap(), ["t"]);
    assert!(session.sql("SELECT * FROM t VERSION AS OF 1").await.is_err());
    session.sql("USE CATALOG lake").await.unwrap();
    assert_eq!(session.current(), ("lake".to_owned(), "default".to_owned()));
    let error = session.sql("USE nothing").await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(rows_in(&session, "DESCRIBE db.t").await.unwrap()[0], "id|INT|true|||");
    assert!(session.sql("DESCRIBE nothing").await.is_err());
}

#[tokio::test]
async fn sql_when_options_are_set_then_the_session_has_them() {
    let session = session().await;
    session.sql("SET paimon.scan.snapshot-id = 5").await.unwrap();
    session.sql("SET datafusion.execution.batch_size = 77").await.unwrap();
    let config = session.context().copied_config();
    assert_eq!(config.options().execution.batch_size.get(), 77);
    let settings = super::PaimonSettings::of(config.options());
    assert_eq!(settings, BTreeMap::from([("scan.snapshot-id".to_owned(), "5".to_owned())]));
    session.sql("RESET paimon.scan.snapshot-id").await.unwrap();
    assert!(super::PaimonSettings::of(session.context().copied_config().options()).is_empty());
    assert!(session.sql("SET whatever = 1").await.is_err());
}

#[tokio::test]
async fn sql_when_a_statement_changes_tables_then_it_is_refused_as_not_built() {
    let session = session().await;
    for sql in [
        "MSCK REPAIR TABLE t",
        "WITH a AS (SELECT * FROM t) INSERT INTO t SELECT * FROM a",
        "PREPARE p AS INSERT INTO t SELECT * FROM t",
    ] {
        let error = session.sql(sql).await.err().unwrap_or_else(|| panic!("{sql}"));
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{sql}: {error}");
        assert!(error.message().ends_with("is not supported in this version"), "{sql}: {error}");
    }
}

#[tokio::test]
async fn sql_when_the_session_only_reads_then_changes_anywhere_are_refused() {
    let session = LakeSession::builder().warehouse("nowhere").read_only(true).build().await.unwrap();
    for sql in [
        "COPY (SELECT 1) TO 'x.csv'",
        "CREATE VIEW v AS SELECT 1",
        "CREATE TABLE t (a INT)",
        "CREATE DATABASE d",
        "DROP TABLE t",
        "ALTER TABLE t ADD (a INT)",
        "TRUNCATE TABLE t",
        "ANALYZE TABLE t COMPUTE STATISTICS",
        "INSERT OVERWRITE t SELECT 1",
        "EXPLAIN ANALYZE INSERT INTO t SELECT 1",
        "COMMENT ON TABLE t IS 'x'",
        "WITH a AS (SELECT 1) DELETE FROM x.y.z",
        "EXPLAIN ANALYZE COPY (SELECT 1) TO 'x.csv'",
    ] {
        let error = session.sql(sql).await.err().unwrap_or_else(|| panic!("{sql}"));
        assert!(error.message().contains("only reads"), "{sql}: {error}");
    }
    // Not by way of the engine either.
    let catalog = session.context().catalog("lake").unwrap();
    assert!(catalog.register_schema("d", Arc::new(Database)).unwrap_err().to_string().contains("to read only"));
    for sql in [
        "SELECT 1",
        "EXPLAIN SELECT 1",
        "SHOW ALL",
        "SET TIME ZONE 'UTC'",
        "VALUES (1)",
        "WITH a AS (SELECT 1) SELECT * FROM a",
    ] {
        session.sql(sql).await.unwrap();
    }
}

#[tokio::test]
async fn sql_statements_when_one_sets_the_session_then_the_next_sees_it() {
    let session = session().await;
    let frames = session.sql_statements("USE db; SELECT ';' AS x; SHOW CURRENT DATABASE;").await.unwrap();
    assert_eq!(frames.len(), 3);
    let last = frames.into_iter().next_back().unwrap().collect().await.unwrap();
    assert!(pretty_format_batches(&last).unwrap().to_string().contains("db"));
    assert!(session.sql("SELECT 1; SELECT 2").await.is_err());
    assert!(session.sql("  -- nothing\n").await.is_err());
}

#[test]
fn split_statements_when_text_has_comments_then_each_statement_keeps_its_own() {
    let text = "SELECT 'ü;' -- one;\n FROM t;\n/* two; */ SELECT 2 /*+ OPTIONS('a' = ';') */ ;; ";
    let statements = split_statements(text).unwrap();
    assert_eq!(statements, ["SELECT 'ü;' -- one;\n FROM t", "SELECT 2 /*+ OPTIONS('a' = ';') */"]);
    assert!(split_statements("SELECT 'open").is_err());
}

#[tokio::test]
async fn build_when_a_catalog_is_wrong_then_error() {
    let open = |key: &str, value: &str| LakeSession::builder().option(key, value).build();
    assert!(open("warehose", "x").await.is_err());
    assert!(open("metastore", "filesystem").await.is_err());
    let builder = LakeSession::builder().warehouse("x");
    assert_eq!(builder.option("metastore", "jdbc").build().await.err().unwrap().kind(), ErrorKind::Unsupported);
    let again = BTreeMap::from([("warehouse".to_owned(), "y".to_owned())]);
    assert!(LakeSession::builder().warehouse("x").with_catalog("lake", again).build().await.is_err());
}
