//! The mapping inside the engine's own scans: files of an old schema, written here, read as the columns of a newer one.

use std::slice::from_ref;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, Decimal128Array, Int32Array, Int32Builder, ListArray, RecordBatch, StringArray, StructArray,
};
use arrow::datatypes::{DataType as ArrowType, Field, Fields, Int32Type, Schema};
use arrow::util::pretty::pretty_format_batches;
use bytes::Bytes;
use datafusion::common::config::ConfigOptions;
use datafusion::config::TableParquetOptions;
use datafusion::execution::TaskContext;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::logical_expr::{Expr, col, lit};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::planner::logical2physical;
use datafusion::physical_plan::collect;
use datafusion::physical_plan::filter_pushdown::PushedDown;
use datafusion::prelude::get_field;
use datafusion::scalar::ScalarValue;
use datafusion_datasource::PartitionedFile;
use datafusion_datasource::file::FileSource;
use datafusion_datasource::file_groups::FileGroup;
use datafusion_datasource::file_scan_config::FileScanConfigBuilder;
use datafusion_datasource::source::DataSourceExec;
use datafusion_datasource_parquet::ParquetRowSelection;
use datafusion_datasource_parquet::source::ParquetSource;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::RowSelection;
use parquet::file::properties::WriterProperties;

use super::FieldIdAdapterFactory;
use crate::format::{FileFormat, FileScan};
use crate::spec::{DataField, DataType, TypeKind};

fn nullable(kind: TypeKind) -> DataType {
    DataType::nullable(kind)
}

fn row(fields: Vec<DataField>) -> DataType {
    nullable(TypeKind::Row(fields))
}

/// id, a STRING, b INT, d DECIMAL, r ROW<x INT, y STRING>, l ARRAY<INT>
fn old_fields() -> Vec<DataField> {
    vec![
        DataField::new(0, "id", nullable(TypeKind::Int)),
        DataField::new(1, "a", DataType::string()),
        DataField::new(2, "b", nullable(TypeKind::Int)),
        DataField::new(3, "d", nullable(TypeKind::Decimal(5, 2))),
        DataField::new(
            4,
            "r",
            row(vec![DataField::new(5, "x", nullable(TypeKind::Int)), DataField::new(6, "y", DataType::string())]),
        ),
        DataField::new(7, "l", nullable(TypeKind::Array(Box::new(nullable(TypeKind::Int))))),
    ]
}

/// a and b exchanged their names; `a` (once b) became TINYINT; d is wider; a field of r is new, another has a new type and
/// name; `n` is new and NOT NULL by now; elements of l are wider.
fn new_fields() -> Vec<DataField> {
    vec![
        DataField::new(2, "a", nullable(TypeKind::TinyInt)),
        DataField::new(0, "id", nullable(TypeKind::BigInt)),
        DataField::new(1, "b", DataType::string()),
        DataField::new(3, "d", nullable(TypeKind::Decimal(12, 3))),
        DataField::new(
            4,
            "r",
            row(vec![DataField::new(9, "z", DataType::string()), DataField::new(5, "xx", nullable(TypeKind::BigInt))]),
        ),
        DataField::new(8, "n", DataType::not_null(TypeKind::Int)),
        DataField::new(7, "l", nullable(TypeKind::Array(Box::new(nullable(TypeKind::BigInt))))),
    ]
}

/// Six rows in three row groups.
fn old_file() -> Bytes {
    let fields: Fields = vec![Field::new("x", ArrowType::Int32, true), Field::new("y", ArrowType::Utf8, true)].into();
    let x: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None, Some(3), Some(4), Some(5), Some(6)]));
    let y: ArrayRef = Arc::new(StringArray::from(vec![Some("y"); 6]));
    let nulls = vec![true, true, true, false, true, true];
    let r = StructArray::new(fields.clone(), vec![x, y], Some(nulls.into()));
    let l = ListArray::from_iter_primitive::<Int32Type, _, _>(vec![
        Some(vec![Some(1), None]),
        Some(vec![]),
        None,
        Some(vec![Some(4)]),
        Some(vec![Some(5)]),
        Some(vec![Some(6)]),
    ]);
    let mut b = Int32Builder::new();
    b.append_slice(&[7, 300, -1, 128, 5]);
    b.append_null();
    let batch = RecordBatch::try_new(
        Arc::new(Schema::new(vec![
            Field::new("id", ArrowType::Int32, true),
            Field::new("a", ArrowType::Utf8, true),
            Field::new("b", ArrowType::Int32, true),
            Field::new("d", ArrowType::Decimal128(5, 2), true),
            Field::new("r", ArrowType::Struct(fields), true),
            Field::new("l", l.data_type().clone(), true),
        ])),
        vec![
            Arc::new(Int32Array::from_iter_values(1..=6)),
            Arc::new(StringArray::from(vec!["p", "q", "p", "q", "p", "q"])),
            Arc::new(b.finish()),
            Arc::new(Decimal128Array::from_iter_values(100..106).with_precision_and_scale(5, 2).unwrap()),
            Arc::new(r),
            Arc::new(l),
        ],
    )
    .unwrap();
    let mut bytes = Vec::new();
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(2)).build();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    bytes.into()
}

/// How the file is scanned.
#[derive(Clone, Copy, Debug, PartialEq)]
enum By {
    /// The engine's source, its row filter on or off.
    Engine(bool),
    Own,
}

struct Scan {
    by: By,
    filter: Option<Expr>,
    columns: Option<Vec<usize>>,
    selection: Option<RowSelection>,
    parts: usize,
}

impl Scan {
    fn new(by: By) -> Self {
        Self { by, filter: None, columns: None, selection: None, parts: 1 }
    }
}

async fn rows(wanted: &[DataField], file: &[DataField], bytes: Bytes, scan: Scan) -> String {
    let factory = FieldIdAdapterFactory::new(wanted, file).unwrap();
    let store = Arc::new(InMemory::new());
    let path = Path::from("data.parquet");
    let size = bytes.len() as u64;
    store.put(&path, bytes.into()).await.unwrap();
    let runtime = Arc::new(RuntimeEnv::default());
    let url = ObjectStoreUrl::parse("memory://").unwrap();
    runtime.register_object_store(url.as_ref(), Arc::clone(&store) as Arc<dyn ObjectStore>);
    let schema = Arc::clone(factory.file_schema());
    let predicate = scan.filter.map(|filter| logical2physical(&filter, &schema));
    let mut options = TableParquetOptions::new();
    options.global.pushdown_filters = scan.by == By::Engine(true);
    let mut source: Arc<dyn FileSource> = match scan.by {
        By::Engine(pushdown) => Arc::new(
            ParquetSource::new(Arc::clone(&schema)).with_table_parquet_options(options).with_pushdown_filters(pushdown),
        ),
        By::Own => Arc::new(FileScan::new(FileFormat::Parquet, Arc::clone(&schema), file, Arc::default())),
    };
    let mut remaining = predicate.clone();
    if let Some(predicate) = &predicate {
        let mut config = ConfigOptions::new();
        config.execution.parquet.pushdown_filters = scan.by == By::Engine(true);
        let pushed = source.try_pushdown_filters(vec![Arc::clone(predicate)], &config).unwrap();
        if let Some(updated) = pushed.updated_node {
            source = updated;
        }
        if matches!(pushed.filters[0], PushedDown::Yes) {
            remaining = None;
        }
    }
    let mut group = Vec::new();
    for part in 0..scan.parts as i64 {
        let mut one = PartitionedFile::new("data.parquet", size);
        if scan.parts > 1 {
            let (size, parts) = (size as i64, scan.parts as i64);
            one = one.with_range(size * part / parts, size * (part + 1) / parts);
        }
        if let Some(selection) = &scan.selection {
            one = one.with_extension(ParquetRowSelection::new(selection.clone()));
        }
        group.push(one);
    }
    let config = FileScanConfigBuilder::new(url, source)
        .with_file_group(FileGroup::new(group))
        .with_expr_adapter(Some(Arc::new(factory)))
        .build();
    let mut plan: Arc<dyn datafusion::physical_plan::ExecutionPlan> = DataSourceExec::from_data_source(config);
    if let Some(remaining) = remaining {
        plan = Arc::new(datafusion::physical_plan::filter::FilterExec::try_new(remaining, plan).unwrap());
    }
    if let Some(columns) = scan.columns {
        let exprs = columns
            .iter()
            .map(|at| {
                let name = schema.field(*at).name().clone();
                let column: Arc<dyn PhysicalExpr> =
                    Arc::new(datafusion::physical_expr::expressions::Column::new(&name, *at));
                (column, name)
            })
            .collect::<Vec<_>>();
        let projection = datafusion::physical_plan::projection::ProjectionExec::try_new(exprs, plan).unwrap();
        plan = match projection.input().try_swapping_with_projection(&projection).unwrap() {
            Some(swapped) => swapped,
            None => Arc::new(projection),
        };
    }
    let batches = collect(plan, Arc::new(TaskContext::default().with_runtime(runtime))).await.unwrap();
    pretty_format_batches(&batches).unwrap().to_string()
}

const EVERY: [By; 3] = [By::Engine(false), By::Engine(true), By::Own];

#[tokio::test]
async fn scan_when_schema_evolved_then_rows_of_the_new_schema() {
    for by in EVERY {
        let text = rows(&new_fields(), &old_fields(), old_file(), Scan::new(by)).await;
        let expected = "\
+-----+----+---+-------+-------------+---+------+
| a   | id | b | d     | r           | n | l    |
+-----+----+---+-------+-------------+---+------+
| 7   | 1  | p | 1.000 | {z: , xx: 1} |   | [1, ] |
| 44  | 2  | q | 1.010 | {z: , xx: }  |   | []   |
| -1  | 3  | p | 1.020 | {z: , xx: 3} |   |      |
| -128 | 4  | q | 1.030 |             |   | [4]  |
| 5   | 5  | p | 1.040 | {z: , xx: 5} |   | [5]  |
|     | 6  | q | 1.050 | {z: , xx: 6} |   | [6]  |
+-----+----+---+-------+-------------+---+------+";
        let squeeze = |text: &str| -> Vec<String> {
            text.lines()
                .filter(|line| line.starts_with('|'))
                .map(|line| line.chars().filter(|c| *c != ' ').collect())
                .collect()
        };
        assert_eq!(squeeze(&text), squeeze(expected), "{by:?}\n{text}");
    }
}

async fn ids(filter: Expr, by: By) -> Vec<i64> {
    let scan = Scan { filter: Some(filter), columns: Some(vec![1]), ..Scan::new(by) };
    numbers(&rows(&new_fields(), &old_fields(), old_file(), scan).await)
}

fn numbers(table: &str) -> Vec<i64> {
    table.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect()
}

#[tokio::test]
async fn filter_when_columns_evolved_then_decided_by_the_new_values() {
    for by in EVERY {
        // 300 reads as 44, 128 as -128: statistics of the file say nothing about the cast.
        assert_eq!(ids(col("a").gt(lit(40_i8)), by).await, [2], "{by:?}");
        assert_eq!(ids(col("a").lt(lit(-100_i8)), by).await, [4], "{by:?}");
        assert_eq!(ids(col("b").eq(lit(ScalarValue::Utf8View(Some("q".to_owned())))), by).await, [2, 4, 6], "{by:?}");
        assert_eq!(ids(col("id").gt(lit(4_i64)), by).await, [5, 6], "{by:?}");
        assert_eq!(ids(col("n").is_null().and(col("id").lt(lit(3_i64))), by).await, [1, 2], "{by:?}");
        assert_eq!(ids(col("n").eq(lit(1)), by).await, [0_i64; 0], "{by:?}");
        assert_eq!(ids(get_field(col("r"), "xx").gt(lit(3_i64)), by).await, [5, 6], "{by:?}");
        assert_eq!(ids(get_field(col("r"), "xx").is_null(), by).await, [2, 4], "{by:?}");
        assert_eq!(ids(get_field(col("r"), "z").is_not_null(), by).await, [0_i64; 0], "{by:?}");
        assert_eq!(ids(col("l").is_null(), by).await, [3], "{by:?}");
    }
}

#[tokio::test]
async fn scan_when_rows_are_selected_or_file_is_split_then_those_rows() {
    for by in EVERY {
        let selection = RowSelection::from_consecutive_ranges([1..2, 3..5].into_iter(), 6);
        let scan = Scan {
            columns: Some(vec![1]),
            selection: Some(selection),
            filter: Some(col("b").eq(lit(ScalarValue::Utf8View(Some("q".to_owned()))))),
            ..Scan::new(by)
        };
        assert_eq!(numbers(&rows(&new_fields(), &old_fields(), old_file(), scan).await), [2, 4], "{by:?}");
    }
    for by in [By::Engine(false), By::Engine(true)] {
        let scan = Scan { columns: Some(vec![1]), filter: Some(col("id").gt(lit(1_i64))), parts: 3, ..Scan::new(by) };
        assert_eq!(numbers(&rows(&new_fields(), &old_fields(), old_file(), scan).await), [2, 3, 4, 5, 6], "{by:?}");
    }
}

#[tokio::test]
async fn scan_when_two_columns_of_one_type_exchanged_names_then_not_mixed_up() {
    let field = |id, name: &str| DataField::new(id, name, nullable(TypeKind::Int));
    let batch = RecordBatch::try_from_iter([
        ("a", Arc::new(Int32Array::from(vec![1])) as ArrayRef),
        ("b", Arc::new(Int32Array::from(vec![2])) as ArrayRef),
    ])
    .unwrap();
    let schema = Schema::new(
        batch.schema().fields().iter().map(|field| field.as_ref().clone().with_nullable(true)).collect::<Vec<_>>(),
    );
    let batch = batch.with_schema(Arc::new(schema)).unwrap();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let old = [field(0, "a"), field(1, "b")];
    let new = [field(1, "a"), field(0, "b")];
    for by in EVERY {
        let text = rows(&new, &old, Bytes::from(bytes.clone()), Scan::new(by)).await;
        assert!(text.contains("| 2 | 1 |"), "{by:?}\n{text}");
    }
}

#[test]
fn fits_parquet_source_when_a_container_is_text_now_then_not() {
    let list = DataField::new(0, "l", nullable(TypeKind::Array(Box::new(nullable(TypeKind::Int)))));
    let text = DataField::new(0, "l", DataType::string());
    assert!(!FieldIdAdapterFactory::new(from_ref(&text), from_ref(&list)).unwrap().fits_parquet_source());
    assert!(FieldIdAdapterFactory::new(from_ref(&list), from_ref(&list)).unwrap().fits_parquet_source());
    let bytes = DataField::new(1, "l", nullable(TypeKind::VarBinary(9)));
    let renamed = DataField { name: "m".to_owned(), ..bytes.clone() };
    let texts = DataField { name: "other".to_owned(), ..text.clone() };
    assert!(!FieldIdAdapterFactory::new(&[text, renamed], &[texts, bytes]).unwrap().fits_parquet_source());
}

#[test]
fn new_when_types_do_not_meet_then_error_names_the_column() {
    let found = DataField::new(0, "v", nullable(TypeKind::Date));
    let wanted = DataField::new(0, "w", nullable(TypeKind::Int));
    let error = FieldIdAdapterFactory::new(&[wanted], &[found]).unwrap_err().to_string();
    assert!(error.contains("column w") && error.contains("DATE"), "{error}");
}
