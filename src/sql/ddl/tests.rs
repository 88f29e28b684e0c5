//! Reading the statements in the words of Flink and Spark, and running them to no end.

use std::time::Duration;

use super::statement::{
    Alteration, AnalyzedColumns, ColumnChange, ColumnDefinition, CreateTable, Ddl, Insert, TableSource,
};
use super::{read, read::shown};
use crate::error::{ErrorKind, Result};
use crate::sql::LakeSession;
use crate::sql::tokens::tokenize;
use crate::table::ColumnPosition;

/// Waits until a statement that was given up has cleaned behind it.
async fn tables_in_the_end(session: &LakeSession, wanted: &[&str]) -> Vec<String> {
    let schema = session.context().catalog("lake").unwrap().schema("default").unwrap();
    for _ in 0..200 {
        if schema.table_names() == wanted {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    schema.table_names()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn create_table_as_when_the_statement_is_given_up_then_nothing_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let session = LakeSession::builder().warehouse(folder.path().to_str().unwrap()).build().await.unwrap();
    session.sql("CREATE TABLE old (a BIGINT)").await.unwrap();
    session.sql("INSERT INTO old VALUES (7)").await.unwrap().collect().await.unwrap();
    for sql in [
        "CREATE TABLE new AS SELECT * FROM generate_series(1, 1000000000000) t(a)",
        "CREATE OR REPLACE TABLE old AS SELECT * FROM generate_series(1, 1000000000000) t(a)",
    ] {
        let given_up = tokio::time::timeout(Duration::from_millis(300), session.sql(sql)).await;
        assert!(given_up.is_err(), "{sql}");
        assert_eq!(tables_in_the_end(&session, &["old"]).await, ["old"], "{sql}");
    }
    let rows = session.sql("SELECT a FROM old").await.unwrap().collect().await.unwrap();
    assert_eq!(rows.iter().map(|batch| batch.num_rows()).sum::<usize>(), 1);
}

fn ddl(sql: &str) -> Result<Option<Ddl>> {
    read(&tokenize(sql)?)
}

fn table(sql: &str) -> CreateTable {
    match ddl(sql) {
        Ok(Some(Ddl::CreateTable(table))) => *table,
        other => panic!("{sql}: {other:?}"),
    }
}

fn alteration(sql: &str) -> Alteration {
    match ddl(sql) {
        Ok(Some(Ddl::AlterTable { alteration, .. })) => alteration,
        other => panic!("{sql}: {other:?}"),
    }
}

fn insert(sql: &str) -> Insert {
    match ddl(sql) {
        Ok(Some(Ddl::Insert(insert))) => *insert,
        other => panic!("{sql}: {other:?}"),
    }
}

fn text(tokens: &[datafusion::sql::sqlparser::tokenizer::TokenWithSpan]) -> String {
    tokens.iter().map(|token| token.token.to_string()).collect::<Vec<_>>().join(" ")
}

/// A column on one line: path, type, comment, default, position.
fn told(column: &ColumnDefinition) -> String {
    let mut told = format!("{} {}", shown(&column.path), column.data_type);
    if let Some(comment) = &column.comment {
        told.push_str(&format!(" '{comment}'"));
    }
    match &column.default {
        None => {}
        Some(None) => told.push_str(" = NULL"),
        Some(Some(default)) => told.push_str(&format!(" = {default}")),
    }
    match &column.position {
        None => {}
        Some(ColumnPosition::First) => told.push_str(" first"),
        Some(ColumnPosition::Last) => told.push_str(" last"),
        Some(ColumnPosition::After(other)) => told.push_str(&format!(" after {other}")),
        Some(ColumnPosition::Before(other)) => told.push_str(&format!(" before {other}")),
    }
    told
}

fn columns(columns: &[ColumnDefinition]) -> String {
    columns.iter().map(told).collect::<Vec<_>>().join("; ")
}

#[test]
fn read_when_a_table_is_created_then_clauses_stand_in_any_order() {
    for sql in [
        "CREATE TABLE IF NOT EXISTS lake.db.`T` (id BIGINT COMMENT 'the key', `v w` VARCHAR(10) DEFAULT 'x' NOT NULL, dt STRING NOT NULL, \
         CONSTRAINT k PRIMARY KEY (id, dt) NOT ENFORCED) COMMENT 'a table' PARTITIONED BY (dt) WITH ('bucket' = '2', 'a.b-c'='d')",
        "CREATE TABLE IF NOT EXISTS lake.db.`T` (PRIMARY KEY (id, dt), id LONG COMMENT 'the key', `v w` VARCHAR(10) NOT NULL DEFAULT 'x') \
         USING paimon TBLPROPERTIES (bucket = 2) PARTITIONED BY (dt STRING NOT NULL) OPTIONS (a.b-c 'd') COMMENT = 'a table'",
    ] {
        let table = table(sql);
        assert_eq!(shown(&table.name), "lake.db.`T`");
        assert!(table.if_not_exists && !table.or_replace);
        assert_eq!(
            columns(&table.columns),
            "id BIGINT 'the key'; `v w` VARCHAR(10) NOT NULL = x; dt STRING NOT NULL",
            "{sql}"
        );
        let names = |idents: &[datafusion::sql::sqlparser::ast::Ident]| {
            idents.iter().map(|ident| ident.value.clone()).collect::<Vec<_>>()
        };
        assert_eq!(names(&table.primary_key), ["id", "dt"]);
        assert_eq!(names(&table.partition_keys), ["dt"]);
        assert_eq!(table.comment.as_deref(), Some("a table"));
        let option = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(table.options, [option("bucket", "2"), option("a.b-c", "d")]);
    }
}

#[test]
fn read_when_types_are_nested_then_they_keep_comments_and_nullability() {
    let table = table(
        "CREATE TABLE t (a ROW<`x` INT NOT NULL COMMENT 'in x', y ARRAY<ROW<z STRING>>> NOT NULL COMMENT 'row', m MAP<STRING NOT \
         NULL, STRUCT<k: TIMESTAMP_LTZ(3)>>, ts TIMESTAMP(3) WITH LOCAL TIME ZONE, s MULTISET<INT>, id INT PRIMARY KEY NOT ENFORCED, \
         n INT DEFAULT -5, d DATE DEFAULT DATE '2024-01-31', b BOOLEAN DEFAULT TRUE, e INT DEFAULT NULL)",
    );
    assert_eq!(
        columns(&table.columns),
        "a ROW<`x` INT NOT NULL 'in x', `y` ARRAY<ROW<`z` STRING>>> NOT NULL 'row'; \
         m MAP<STRING NOT NULL, ROW<`k` TIMESTAMP(3) WITH LOCAL TIME ZONE>>; ts TIMESTAMP(3) WITH LOCAL TIME ZONE; \
         s MULTISET<INT>; id INT; n INT = -5; d DATE = 2024-01-31; b BOOLEAN = true; e INT = NULL"
    );
    assert_eq!(table.primary_key[0].value, "id");
}

#[test]
fn read_when_a_table_comes_from_another_or_a_query_then_both_parts_are_kept() {
    let of_query = table(
        "CREATE OR REPLACE TABLE t (PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket'='1') AS WITH x AS (SELECT 1 id) SELECT * FROM x",
    );
    assert!(of_query.or_replace && of_query.columns.is_empty());
    let TableSource::Query(query) = &of_query.source else { panic!("{:?}", of_query.source) };
    assert_eq!(text(query), "WITH x AS ( SELECT 1 id ) SELECT * FROM x");
    let like =
        table("CREATE TABLE t (extra INT) WITH ('bucket' = '3') LIKE db.s (EXCLUDING CONSTRAINTS OVERWRITING OPTIONS)");
    let TableSource::Like(source) = &like.source else { panic!("{:?}", like.source) };
    assert_eq!(shown(&source.table), "db.s");
    assert!(!source.constraints && source.partitions && source.options);
    assert!(matches!(
        table("CREATE TABLE t LIKE s USING paimon TBLPROPERTIES ('a' = 'b')").source,
        TableSource::Like(_)
    ));
    let buckets = table("CREATE TABLE t (a INT, b INT) CLUSTERED BY (a, b) INTO 4 BUCKETS");
    assert_eq!(buckets.options[0], ("bucket-key".to_owned(), "a,b".to_owned()));
    assert_eq!(buckets.options[1], ("bucket".to_owned(), "4".to_owned()));
}

#[test]
fn read_when_a_statement_asks_for_what_tables_do_not_have_then_it_is_refused() {
    for (sql, kind, part) in [
        ("CREATE TABLE t", ErrorKind::Invalid, "a table needs columns"),
        ("CREATE TABLE t (a INT) AS", ErrorKind::Invalid, "a query is expected"),
        ("CREATE TABLE t (a NONSENSE)", ErrorKind::Invalid, "'NONSENSE' is not a data type"),
        ("CREATE TABLE t (a INT,)", ErrorKind::Invalid, "a name is expected"),
        ("CREATE TABLE t (a INT) nonsense", ErrorKind::Invalid, "the end of the statement is expected"),
        ("CREATE TABLE t (a INT PRIMARY KEY, PRIMARY KEY (a))", ErrorKind::Invalid, "one PRIMARY KEY"),
        ("CREATE TABLE t (a INT, b AS a + 1)", ErrorKind::Unsupported, "computed"),
        ("CREATE TABLE t (ts TIMESTAMP(3), WATERMARK FOR ts AS ts)", ErrorKind::Unsupported, "WATERMARK"),
        ("CREATE TABLE t (a INT, UNIQUE (a))", ErrorKind::Unsupported, "no constraints"),
        ("CREATE TABLE t (a INT DEFAULT now())", ErrorKind::Unsupported, "a default is a constant"),
        ("CREATE TABLE t (a INT) USING parquet", ErrorKind::Invalid, "file.format"),
        ("CREATE TABLE t (a INT) LOCATION '/x'", ErrorKind::Unsupported, "CREATE EXTERNAL TABLE"),
        ("CREATE TABLE t (a INT) PARTITIONED BY (bucket(4, a))", ErrorKind::Unsupported, "not expressions"),
        ("CREATE TABLE t (a INT) WITH ('a' = '1', 'a' = '2')", ErrorKind::Invalid, "given twice"),
        ("CREATE OR REPLACE TABLE IF NOT EXISTS t (a INT)", ErrorKind::Invalid, "exclude each other"),
        ("CREATE TEMPORARY TABLE t (a INT)", ErrorKind::Unsupported, "CREATE TEMPORARY VIEW"),
        ("CREATE DATABASE d COMMENT 'x'", ErrorKind::Unsupported, "a comment"),
        ("ALTER TABLE t REPLACE COLUMNS (a INT)", ErrorKind::Unsupported, "REPLACE COLUMNS"),
        ("ALTER TABLE t ADD PRIMARY KEY (a)", ErrorKind::Unsupported, "when the table is created"),
        ("ALTER TABLE t ADD PARTITION (a = 1)", ErrorKind::Unsupported, "when it has rows"),
        ("ALTER TABLE t ALTER COLUMN a", ErrorKind::Invalid, "TYPE, SET NOT NULL"),
        ("ALTER TABLE t NONSENSE", ErrorKind::Invalid, "SET, RESET"),
        ("INSERT t SELECT 1", ErrorKind::Invalid, "INTO or OVERWRITE"),
        ("INSERT INTO t PARTITION (a = 1, A = 2) SELECT 1", ErrorKind::Invalid, "twice"),
        ("INSERT INTO t PARTITION (a = b) SELECT 1", ErrorKind::Invalid, "a constant is expected"),
        ("INSERT INTO t", ErrorKind::Invalid, "a query is expected"),
        ("DROP TABLE a, b", ErrorKind::Invalid, "the end of the statement"),
    ] {
        let error = ddl(sql).map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), kind, "{sql}: {error}");
        assert!(error.to_string().contains(part), "{sql}: {error}");
    }
    for other in [
        "SELECT 1",
        "CREATE EXTERNAL TABLE t STORED AS PAIMON LOCATION 'x'",
        "CREATE FUNCTION f() RETURN 1",
        "EXPLAIN SELECT 1",
    ] {
        assert!(ddl(other).unwrap().is_none(), "{other}");
    }
}

#[test]
fn read_when_columns_are_altered_in_flinks_or_sparks_words_then_the_same_changes() {
    let added = |sql: &str| match alteration(sql) {
        Alteration::AddColumns { columns: added, if_not_exists } => format!("{} {if_not_exists}", columns(&added)),
        other => panic!("{sql}: {other:?}"),
    };
    assert_eq!(added("ALTER TABLE t ADD (a INT FIRST, b DATE AFTER c)"), "a INT first; b DATE after c false");
    assert_eq!(added("ALTER TABLE t ADD COLUMNS (r.a.b INT COMMENT 'x')"), "r.a.b INT 'x' false");
    assert_eq!(added("ALTER TABLE t ADD COLUMN IF NOT EXISTS a INT DEFAULT 5"), "a INT = 5 true");
    let modified = |sql: &str| match alteration(sql) {
        Alteration::ModifyColumns(modified) => columns(&modified),
        other => panic!("{sql}: {other:?}"),
    };
    assert_eq!(modified("ALTER TABLE t MODIFY a BIGINT NOT NULL COMMENT 'x' AFTER b"), "a BIGINT NOT NULL 'x' after b");
    assert_eq!(modified("ALTER TABLE t MODIFY (a INT, b ROW<c INT>)"), "a INT; b ROW<`c` INT>");
    let changed = |sql: &str| match alteration(sql) {
        Alteration::AlterColumn { column, changes } => (shown(&column), changes),
        other => panic!("{sql}: {other:?}"),
    };
    let bigint = || changed("ALTER TABLE t ALTER COLUMN x TYPE BIGINT").1.remove(0);
    for (sql, column, expected) in [
        ("ALTER TABLE t ALTER a.b TYPE BIGINT", "a.b", bigint()),
        ("ALTER TABLE t ALTER COLUMN a SET DATA TYPE BIGINT", "a", bigint()),
        ("ALTER TABLE t CHANGE COLUMN a TYPE BIGINT", "a", bigint()),
        ("ALTER TABLE t ALTER COLUMN a SET NOT NULL", "a", ColumnChange::Nullable(false)),
        ("ALTER TABLE t ALTER COLUMN a DROP NOT NULL", "a", ColumnChange::Nullable(true)),
        ("ALTER TABLE t ALTER COLUMN a COMMENT 'x'", "a", ColumnChange::Comment("x".to_owned())),
        ("ALTER TABLE t ALTER COLUMN a SET DEFAULT 'x'", "a", ColumnChange::Default(Some("x".to_owned()))),
        ("ALTER TABLE t ALTER COLUMN a DROP DEFAULT", "a", ColumnChange::Default(None)),
        ("ALTER TABLE t ALTER COLUMN a FIRST", "a", ColumnChange::Position(ColumnPosition::First)),
        ("ALTER TABLE t CHANGE a AFTER b", "a", ColumnChange::Position(ColumnPosition::After("b".to_owned()))),
    ] {
        assert_eq!(changed(sql), (column.to_owned(), vec![expected]), "{sql}");
    }
    match alteration("ALTER TABLE t CHANGE COLUMN a b INT COMMENT 'x' FIRST") {
        Alteration::ChangeColumn { column, definition } => {
            assert_eq!((shown(&column), told(&definition)), ("a".to_owned(), "b INT 'x' first".to_owned()));
        }
        other => panic!("{other:?}"),
    }
    let renamed = |sql: &str| match alteration(sql) {
        Alteration::RenameColumn { column, name, spelled_out } => format!("{} {name} {spelled_out}", shown(&column)),
        other => panic!("{sql}: {other:?}"),
    };
    assert_eq!(renamed("ALTER TABLE t RENAME a.b TO c"), "a.b c false");
    assert_eq!(renamed("ALTER TABLE t RENAME COLUMN a TO `C d`"), "a `C d` true");
    let dropped = |sql: &str| match alteration(sql) {
        Alteration::DropColumns { columns, if_exists } => {
            format!("{} {if_exists}", columns.iter().map(shown).collect::<Vec<_>>().join(" "))
        }
        other => panic!("{sql}: {other:?}"),
    };
    assert_eq!(dropped("ALTER TABLE t DROP a"), "a false");
    assert_eq!(dropped("ALTER TABLE t DROP (a, b.c)"), "a b.c false");
    assert_eq!(dropped("ALTER TABLE t DROP COLUMNS IF EXISTS a, b"), "a b true");
    assert_eq!(alteration("ALTER TABLE t DROP PRIMARY KEY"), Alteration::DropPrimaryKey);
    assert_eq!(
        alteration("ALTER TABLE t UNSET TBLPROPERTIES IF EXISTS ('a.b', c.d)"),
        Alteration::ResetOptions { keys: vec!["a.b".to_owned(), "c.d".to_owned()], if_exists: true }
    );
    assert_eq!(alteration("COMMENT ON TABLE t IS NULL"), Alteration::Comment(None));
    assert!(
        matches!(alteration("ALTER TABLE t RENAME TO db.u"), Alteration::RenameTable(name) if shown(&name) == "db.u")
    );
}

#[test]
fn read_when_rows_are_inserted_then_target_and_query_come_apart() {
    let flink = insert("INSERT OVERWRITE a.b /*+ OPTIONS('x' = 'y') */ PARTITION (dt = 'p', hh) SELECT 1, 2");
    assert!(flink.overwrite && flink.columns.is_empty());
    assert_eq!(flink.options, [("x".to_owned(), "y".to_owned())]);
    assert_eq!((shown(&flink.table).as_str(), text(&flink.query).as_str()), ("a.b", "SELECT 1 , 2"));
    assert_eq!(flink.partition[0].1.as_ref().unwrap().text.as_deref(), Some("p"));
    assert!(flink.partition[1].1.is_none());
    let spark = insert("INSERT OVERWRITE TABLE t (a, b) VALUES (1, 2)");
    assert!(spark.overwrite && spark.columns.len() == 2);
    let by_name = insert("INSERT INTO t BY NAME SELECT 1 AS a");
    assert!(by_name.by_name && !by_name.overwrite);
    assert_eq!(text(&insert("INSERT INTO t (SELECT a FROM s)").query), "( SELECT a FROM s )");
    assert_eq!(text(&insert("INSERT INTO t TABLE s").query), "SELECT * FROM s");
    assert_eq!(text(&insert("EXPLAIN ANALYZE VERBOSE INSERT INTO t SELECT 1").explain), "EXPLAIN ANALYZE VERBOSE");
    let constants =
        insert("INSERT INTO t PARTITION (a = NULL, b = -1L, c = DATE '2024-01-31', d = FALSE) SELECT 1").partition;
    let texts: Vec<Option<&str>> = constants.iter().map(|(_, value)| value.as_ref().unwrap().text.as_deref()).collect();
    assert_eq!(texts, [None, Some("-1"), Some("2024-01-31"), Some("false")]);
}

#[test]
fn read_when_data_or_databases_are_dropped_then_what_and_how() {
    assert!(matches!(
        ddl("DROP SCHEMA IF EXISTS a.b CASCADE").unwrap(),
        Some(Ddl::DropDatabase { if_exists: true, cascade: true, .. })
    ));
    assert!(matches!(ddl("DROP DATABASE d RESTRICT").unwrap(), Some(Ddl::DropDatabase { cascade: false, .. })));
    assert!(
        matches!(ddl("TRUNCATE TABLE t PARTITION (a = 1)").unwrap(), Some(Ddl::Truncate { partition, .. }) if partition.len() == 1)
    );
    let dropped = ddl("ALTER TABLE t DROP IF EXISTS PARTITION (a = 1, b = 'x'), PARTITION (a = 2)").unwrap();
    assert!(matches!(dropped, Some(Ddl::DropPartitions { if_exists: true, partitions, .. }) if partitions.len() == 2));
    for (sql, expected) in [
        ("ANALYZE TABLE t COMPUTE STATISTICS", 0),
        ("ANALYZE TABLE t COMPUTE STATISTICS NOSCAN", 0),
        ("ANALYZE TABLE t COMPUTE STATISTICS FOR COLUMNS a, b", 2),
        ("ANALYZE TABLE t COMPUTE STATISTICS FOR ALL COLUMNS", 9),
    ] {
        let Some(Ddl::Analyze { columns, .. }) = ddl(sql).unwrap() else { panic!("{sql}") };
        let count = match columns {
            AnalyzedColumns::None => 0,
            AnalyzedColumns::Named(columns) => columns.len(),
            AnalyzedColumns::All => 9,
        };
        assert_eq!(count, expected, "{sql}");
    }
    let Some(Ddl::CreateView(view)) =
        ddl("CREATE OR REPLACE TEMPORARY VIEW v (a, b) COMMENT 'x' AS SELECT 1, 2").unwrap()
    else {
        panic!("no view")
    };
    assert!(view.or_replace && view.columns.len() == 2 && text(&view.query) == "SELECT 1 , 2");
    assert!(matches!(ddl("DROP TEMPORARY VIEW IF EXISTS v").unwrap(), Some(Ddl::DropView { if_exists: true, .. })));
}
