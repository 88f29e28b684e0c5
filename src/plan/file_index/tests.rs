use std::collections::BTreeMap;

use datafusion::common::DFSchema;
use datafusion::functions::core::expr_fn::get_field;
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Expr, col, lit, not};
use datafusion::physical_expr::create_physical_expr;
use serde_json::json;

use super::*;
use crate::plan::Partition;
use crate::spec::manifest::{DataFile, Dictionary, ManifestEntries};
use crate::spec::types::arrow_schema;
use crate::store::testing::{memory, put};
use crate::store::{Caches, StoreLocation};
use crate::table::Identifier;

/// Rows 1 to 40: a bloom filter on `w`, bitmaps on `s` and `b`, a range bitmap on `n`.
const MIXED: &[u8] = include_bytes!("../../spec/testdata/file_index/mixed.index");
/// Four rows: a bloom filter on `mp[x]` and others.
const JAVA14: &[u8] = include_bytes!("../../spec/testdata/file_index/java14.index");

fn schema_text(id: i64, n: (&str, &str), keys: &[&str], options: &[(&str, &str)]) -> String {
    let options: BTreeMap<&str, &str> = options.iter().copied().collect();
    json!({
        "version": 3, "id": id, "highestFieldId": 9, "partitionKeys": ["p"], "primaryKeys": keys, "options": options,
        "fields": [
            {"id": 0, "name": "p", "type": "INT NOT NULL"}, {"id": 1, "name": "w", "type": "STRING"},
            {"id": 2, "name": n.0, "type": n.1}, {"id": 3, "name": "b", "type": "BOOLEAN"},
            {"id": 4, "name": "s", "type": "SMALLINT"}, {"id": 5, "name": "dt", "type": "DATE"},
            {"id": 6, "name": "mp", "type": {"type": "MAP", "key": "STRING NOT NULL", "value": "STRING"}}
        ],
        "timeMillis": 1
    })
    .to_string()
}

/// A table whose column `n` was called `n` and had another type before.
async fn open(root: &StoreLocation, keys: &[&str], options: &[(&str, &str)]) -> Arc<Table> {
    put(root, "schema/schema-0", schema_text(0, ("n", "INT"), keys, options)).await;
    put(root, "schema/schema-1", schema_text(1, ("n", "BIGINT"), keys, options)).await;
    put(root, "schema/schema-2", schema_text(2, ("number", "BIGINT"), keys, options)).await;
    Table::open(root.clone(), Identifier::new("db", "t"), Arc::new(Caches::default()), BTreeMap::new()).await.unwrap()
}

fn filter(table: &Table, filters: &[Expr]) -> Option<IndexFilter> {
    let schema = DFSchema::try_from(arrow_schema(&table.schema().fields).as_ref().clone()).unwrap();
    let filters: Vec<_> = filters
        .iter()
        .map(|filter| {
            create_physical_expr(filter, &schema, &ExecutionProps::new(), &PhysicalPlanningContext::default()).unwrap()
        })
        .collect();
    IndexFilter::try_new(table.schema(), table.settings(), &filters)
}

enum Place {
    Embedded(Vec<u8>),
    Beside(&'static str),
    Nowhere,
}

fn file(schema_id: i64, rows: i64, place: Place) -> PlannedFile {
    let mut entries = ManifestEntries {
        kind: vec![0],
        bucket: vec![0],
        row_count: vec![rows],
        schema_id: vec![schema_id],
        ..ManifestEntries::default()
    };
    assert!(entries.file_name.push(b"data-1-0.parquet"));
    let mut extra: Vec<String> = vec!["data-1-0.parquet.1.value.v1.lookup".to_owned()];
    match place {
        Place::Embedded(bytes) => entries.embedded_index = Some(vec![Some(bytes.into())]),
        Place::Beside(name) => extra.push(name.to_owned()),
        Place::Nowhere => {}
    }
    entries.extra_files = Dictionary { values: vec![extra.into()], keys: vec![0] };
    let partition = Partition { row: Arc::from([]), values: Vec::new(), path: "p=1/".to_owned() };
    PlannedFile {
        file: DataFile { entries: Arc::new(entries), row: 0 },
        partition: Arc::new(partition),
        deletion: None,
        scan: true,
        candidates: None,
    }
}

fn mixed() -> PlannedFile {
    file(2, 40, Place::Embedded(MIXED.to_vec()))
}

/// What one file's index says; `None` when indexes have nothing to say about the filters.
async fn ask(table: &Table, file: &PlannedFile, filters: &[Expr]) -> Option<IndexAnswer> {
    let filter = filter(table, filters)?;
    let mut pruning = filter.prune(table, std::slice::from_ref(file)).await.unwrap();
    assert_eq!(pruning.broken_indexes, 0);
    pruning.answers.pop()
}

fn rows(rows: &[u32]) -> Option<IndexAnswer> {
    Some(IndexAnswer::Rows(rows.iter().copied().collect()))
}

/// The container, with the name of column `n` as it was when a file of schema 2 was written.
fn renamed() -> PlannedFile {
    let at = MIXED.windows(3).position(|bytes| bytes == b"\0\x01n").unwrap();
    let mut bytes = MIXED.to_vec();
    bytes[at + 2] = b'q';
    file(2, 40, Place::Embedded(bytes))
}

#[tokio::test]
async fn prune_when_conditions_are_known_then_rows_or_skip() {
    let root = memory("wh/db.db/t");
    let table = open(&root, &[], &[]).await;
    let file = file(1, 40, Place::Embedded(MIXED.to_vec()));
    let n = || col("number");
    let skip = Some(IndexAnswer::Skip);
    let remain = Some(IndexAnswer::Remain);
    for (filters, expected) in [
        // n of the first rows: 27, 14, 1, 38.
        (vec![n().eq(lit(27_i64))], rows(&[0])),
        (vec![lit(37_i64).lt(n())], rows(&[3])),
        (vec![n().gt(lit(1_000_i64))], skip.clone()),
        (vec![n().gt_eq(lit(1_000_i64)).and(col("w").eq(lit("x")))], skip.clone()),
        (vec![n().is_null()], rows(&[8, 17, 26, 35])),
        (vec![n().between(lit(26_i64), lit(28_i64))], rows(&[0, 23, 27])),
        (vec![n().gt(lit(26_i64)), n().lt(lit(28_i64))], rows(&[0])),
        (vec![n().in_list(vec![lit(27_i64), lit(14_i64), lit(-99_i64)], false)], rows(&[0, 1])),
        (vec![n().eq(lit(27_i64)).or(n().eq(lit(1_i64)))], rows(&[0, 2])),
        (vec![n().eq(lit(27_i64)).or(col("w").eq(lit("heath")))], remain.clone()),
        (vec![n().eq(lit(27_i64)).or(col("w").eq(lit("certainly not there")))], rows(&[0])),
        (vec![col("b"), n().gt(lit(13_i64)), n().lt(lit(16_i64))], rows(&[1])),
        (vec![not(col("b")), n().gt(lit(13_i64)), n().lt(lit(15_i64))], skip.clone()),
        (vec![col("s").eq(lit(-2_i16)), n().eq(lit(27_i64))], rows(&[0])),
        (vec![col("s").is_not_null()], remain.clone()),
        (vec![col("dt").is_null(), n().eq(lit(27_i64))], rows(&[0])),
        // What no index answers does not stand in the way of what one answers.
        (vec![(n() + lit(1_i64)).eq(lit(2_i64)), n().eq(lit(27_i64))], rows(&[0])),
    ] {
        assert_eq!(ask(&table, &file, &filters).await, expected, "{filters:?}");
    }
}

#[tokio::test]
async fn try_new_when_no_index_can_tell_then_none() {
    let root = memory("wh/db.db/t");
    let table = open(&root, &[], &[]).await;
    for unknown in [
        (col("number") + lit(1_i64)).eq(lit(2_i64)),
        col("number").eq(lit(27_i64)).or((col("number") + lit(1_i64)).eq(lit(2_i64))),
        col("number").eq(lit(ScalarValue::Int64(None))),
        col("number").in_list(vec![lit(1_i64), lit(ScalarValue::Int64(None))], true),
        col("p").eq(lit(1_i32)),
        col("number").eq(lit(27_i32)),
        not(col("number").eq(lit(27_i64))),
    ] {
        assert!(filter(&table, std::slice::from_ref(&unknown)).is_none(), "{unknown}");
    }
    let known = [col("number").eq(lit(27_i64))];
    assert!(filter(&table, &known).is_some());
    for (keys, options, expected) in [
        (&[][..], &[("file-index.read.enabled", "false")][..], false),
        (&[], &[("data-evolution.enabled", "true"), ("row-tracking.enabled", "true")], false),
        (&["p", "w"], &[("bucket", "1")], false),
        (&["p", "w"], &[("bucket", "1"), ("deletion-vectors.enabled", "true")], true),
    ] {
        let table = open(&memory("wh/db.db/t"), keys, options).await;
        assert_eq!(filter(&table, &known).is_some(), expected, "{options:?}");
    }
}

#[tokio::test]
async fn prune_when_schema_evolved_then_by_field_id_and_only_with_the_same_type() {
    let root = memory("wh/db.db/t");
    let table = open(&root, &[], &[]).await;
    let filters = [col("number").eq(lit(27_i64))];
    // The file of schema 1 calls the column `n`, that of schema 2 does not; that of schema 0 has another type.
    let old = file(1, 40, Place::Embedded(MIXED.to_vec()));
    assert_eq!(ask(&table, &old, &filters).await, rows(&[0]));
    assert_eq!(ask(&table, &mixed(), &filters).await, Some(IndexAnswer::Remain));
    assert_eq!(ask(&table, &renamed(), &filters).await, Some(IndexAnswer::Remain));
    let other_type = file(0, 40, Place::Embedded(MIXED.to_vec()));
    assert_eq!(ask(&table, &other_type, &filters).await, Some(IndexAnswer::Remain));
}

#[tokio::test]
async fn prune_when_key_of_a_map_then_its_index() {
    let root = memory("wh/db.db/t");
    let table = open(&root, &[], &[]).await;
    let file = file(2, 4, Place::Embedded(JAVA14.to_vec()));
    let value = |key: &str, value: &str| [get_field(col("mp"), key).eq(lit(value))];
    assert_eq!(ask(&table, &file, &value("x", "1")).await, Some(IndexAnswer::Remain));
    assert_eq!(ask(&table, &file, &value("x", "2")).await, Some(IndexAnswer::Skip));
    assert_eq!(ask(&table, &file, &value("y", "2")).await, Some(IndexAnswer::Remain));
}

#[tokio::test]
async fn prune_when_index_lies_beside_the_file_then_read_once() {
    let root = memory("wh/db.db/t");
    let table = open(&root, &[], &[]).await;
    let path = root.child("p=1/bucket-0/data-7-3.index").unwrap();
    let bytes = bytes::Bytes::from_static(MIXED);
    object_store::ObjectStoreExt::put(root.store().as_ref(), path.prefix(), bytes.into()).await.unwrap();
    let files = [file(1, 40, Place::Beside("data-7-3.index")), file(1, 40, Place::Nowhere)];
    let filter = filter(&table, &[col("number").gt(lit(1_000_i64))]).unwrap();
    for round in 0..2 {
        let pruning = filter.prune(&table, &files).await.unwrap();
        assert_eq!(pruning.answers, [IndexAnswer::Skip, IndexAnswer::Remain]);
        assert_eq!((pruning.asked, pruning.skipped, pruning.broken_indexes), (1, 1, 0));
        assert_eq!(table.caches().decoded_counts().hits, round);
    }
    let mut unscanned = files[0].clone();
    unscanned.scan = false;
    assert_eq!(filter.prune(&table, &[unscanned]).await.unwrap().asked, 0);
}

#[tokio::test]
async fn prune_when_index_is_broken_then_counted_and_nothing_pruned() {
    let root = memory("wh/db.db/t");
    let table = open(&root, &[], &[]).await;
    put(&root, "p=1/bucket-0/text.index", "no index".to_owned()).await;
    let filter = filter(&table, &[col("number").gt(lit(1_000_i64))]).unwrap();
    let mut newer = MIXED.to_vec();
    newer[11] = 9;
    let mut cut = MIXED.to_vec();
    cut.truncate(MIXED.len() - 700);
    for (broken, what) in [
        (file(1, 40, Place::Embedded(vec![1, 2, 3])), "no container"),
        (file(1, 40, Place::Embedded(Vec::new())), "empty"),
        (file(1, 40, Place::Embedded(newer)), "newer"),
        (file(1, 40, Place::Embedded(cut)), "cut"),
        (file(1, 41, Place::Embedded(MIXED.to_vec())), "of another file"),
        (file(1, 40, Place::Beside("missing.index")), "missing"),
        (file(1, 40, Place::Beside("text.index")), "text"),
        (file(1, 40, Place::Beside("../text.index")), "elsewhere"),
    ] {
        let pruning = filter.prune(&table, &[broken]).await.unwrap();
        assert_eq!(pruning.answers, [IndexAnswer::Remain], "{what}");
        assert_eq!((pruning.asked, pruning.broken_indexes), (1, 1), "{what}");
    }
}

#[test]
fn same_values_when_types_differ_then_only_wider_text_is_the_same() {
    let same =
        |written: &str, read: &str| same_values(&DataType::parse(written).unwrap(), &DataType::parse(read).unwrap());
    assert!(same("VARCHAR(3) NOT NULL", "STRING") && same("INT", "INT NOT NULL"));
    assert!(!same("STRING", "VARCHAR(3)") && !same("INT", "BIGINT") && !same("TIMESTAMP(3)", "TIMESTAMP(6)"));
}
