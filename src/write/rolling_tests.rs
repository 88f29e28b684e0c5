//! Rolling files written to stores in memory, on disk and to failing ones.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int8Array, Int32Array, Int64Array, RecordBatch, StringViewArray};
use arrow::compute::concat_batches;
use arrow::datatypes::{Int32Type, Int64Type};
use datafusion::execution::memory_pool::UnboundedMemoryPool;
use futures::TryStreamExt;
use object_store::ObjectStore;
use serde_json::json;

use super::{DataFileContext, FileKind, OwnFiles, RollingWriter};
use crate::error::ErrorKind;
use crate::format::FileRead;
use crate::options::{TableOptions, WriteOptions};
use crate::spec::binary_row::BinaryRow;
use crate::spec::datum::Datum;
use crate::spec::file_index::{FileIndex, FileIndexDefinition};
use crate::spec::types::{SEQUENCE_NUMBER, VALUE_KIND, row_id_fields};
use crate::spec::{DataField, DataFileMeta, DataType, EMPTY_ROW, FileSource, SimpleStats, TableSchema, TypeKind};
use crate::store::testing::{FullStore, memory};
use crate::store::{StoreLocation, TableFiles, open_store};

/// A table `k INT NOT NULL, v STRING`, with the key `k` or none.
fn schema(keys: &[&str], options: &[(&str, &str)]) -> TableSchema {
    let options: BTreeMap<_, _> = options.iter().copied().collect();
    let document = json!({
        "version": 3, "id": 7, "highestFieldId": 1, "partitionKeys": [], "primaryKeys": keys, "options": options,
        "fields": [{"id": 0, "name": "k", "type": "INT NOT NULL"}, {"id": 1, "name": "v", "type": "STRING"}],
    });
    TableSchema::from_json(document.to_string().as_bytes()).unwrap()
}

fn context(root: StoreLocation, keys: &[&str], options: &[(&str, &str)]) -> DataFileContext {
    let schema = schema(keys, options);
    let table = TableOptions::new(&schema.options, &BTreeMap::new()).unwrap();
    let files = Arc::new(TableFiles::new(root, None).unwrap());
    DataFileContext {
        own_files: OwnFiles::new(Arc::clone(&files)),
        files,
        options: Arc::new(WriteOptions::new(&table, !keys.is_empty()).unwrap()),
        indexes: FileIndexDefinition::all(&schema.fields, &table).unwrap().into(),
        schema: Arc::new(schema),
        partition: EMPTY_ROW.as_slice().into(),
        partition_path: "".into(),
        bucket: 0,
        names: Arc::default(),
        pool: Arc::new(UnboundedMemoryPool::default()),
        writer: None,
    }
}

fn rows(range: std::ops::Range<i32>) -> RecordBatch {
    let fields =
        [DataField::new(0, "k", DataType::not_null(TypeKind::Int)), DataField::new(1, "v", DataType::string())];
    let text: Vec<Option<String>> =
        range.clone().map(|k| (k % 10 != 3).then(|| format!("value {}", k * 7919 % 10_007))).collect();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from_iter_values(range)),
        Arc::new(text.iter().map(Option::as_deref).collect::<StringViewArray>()),
    ];
    RecordBatch::try_new(crate::spec::types::arrow_schema(&fields), columns).unwrap()
}

fn changes(rows: usize, first: i64) -> (Int64Array, Int8Array) {
    let kinds = (0..rows).map(|row| [0_i8, 3, 2, 1][row % 4]);
    (Int64Array::from_iter_values(first..first + rows as i64), Int8Array::from_iter_values(kinds))
}

async fn read(context: &DataFileContext, file: &DataFileMeta, fields: &[DataField]) -> RecordBatch {
    let path = context.files.data_path("", context.bucket, &file.file_name, file.external_path.as_deref()).unwrap();
    let store = Arc::clone(context.files.store()) as Arc<dyn ObjectStore>;
    let read = FileRead::new(store, path, file.file_size as u64, fields.to_vec()).unwrap();
    let batches: Vec<RecordBatch> = read.open().await.unwrap().try_collect().await.unwrap();
    concat_batches(&batches[0].schema(), &batches).unwrap()
}

fn append(first_sequence: i64) -> FileKind {
    FileKind::Append { source: FileSource::Append, first_sequence, columns: None }
}

fn physical() -> Vec<DataField> {
    vec![
        DataField::new(0, "_KEY_k", DataType::not_null(TypeKind::Int)),
        DataField::new(0, SEQUENCE_NUMBER, DataType::not_null(TypeKind::BigInt)),
        DataField::new(0, VALUE_KIND, DataType::not_null(TypeKind::TinyInt)),
        DataField::new(0, "k", DataType::not_null(TypeKind::Int)),
        DataField::new(1, "v", DataType::string()),
    ]
}

fn int(row: &[u8], index: usize) -> Datum {
    BinaryRow::from_serialized(row).unwrap().datum(index, &DataType::nullable(TypeKind::Int)).unwrap()
}

fn text(row: &[u8], index: usize) -> Datum {
    BinaryRow::from_serialized(row).unwrap().datum(index, &DataType::string()).unwrap()
}

#[tokio::test]
async fn key_values_when_written_then_columns_and_metadata() {
    let context = context(memory("t"), &["k"], &[]);
    let mut writer =
        RollingWriter::new(context.clone(), FileKind::KeyValue { level: 5, source: FileSource::Compact }).unwrap();
    for start in [0, 100] {
        let (sequence, kinds) = changes(100, i64::from(start) + 1000);
        writer.write_key_values(&rows(start..start + 100), &sequence, &kinds).await.unwrap();
    }
    let files = writer.finish().await.unwrap();
    let [file] = &files[..] else { panic!("{files:?}") };
    assert!(file.file_name.starts_with("data-") && file.file_name.ends_with("-0.parquet"), "{}", file.file_name);
    assert_eq!((file.row_count, file.delete_row_count, file.level, file.schema_id), (200, Some(100), 5, 7));
    assert_eq!((file.min_sequence_number, file.max_sequence_number), (1000, 1199));
    assert_eq!((int(&file.min_key, 0), int(&file.max_key, 0)), (Datum::Int(0), Datum::Int(199)));
    assert_eq!((int(&file.key_stats.min, 0), int(&file.key_stats.max, 0)), (Datum::Int(0), Datum::Int(199)));
    assert_eq!(
        (&file.key_stats.null_counts, &file.value_stats.null_counts),
        (&vec![Some(0)], &vec![Some(0), Some(20)])
    );
    assert_eq!(text(&file.value_stats.min, 1), Datum::Text("value 0".to_owned()));
    assert_eq!((file.file_source, file.value_stats_cols.as_ref()), (Some(FileSource::Compact), None));
    assert_eq!((&file.extra_files, &file.embedded_index, &file.write_cols), (&vec![], &None, &None));
    let found = read(&context, file, &physical()).await;
    assert_eq!(found.column(0), found.column(3));
    assert_eq!(found.column(1).as_primitive::<Int64Type>().value(199), 1199);
    assert_eq!(found.columns()[3..], *concat_batches(&rows(0..1).schema(), &[rows(0..200)]).unwrap().columns());
}

#[tokio::test]
async fn key_values_when_thin_then_no_key_columns_but_the_same_metadata() {
    let context = context(memory("t"), &["k"], &[("data-file.thin-mode", "true"), ("metadata.stats-mode", "none")]);
    let mut writer = RollingWriter::new(context.clone(), FileKind::Changelog { level: 0 }).unwrap();
    let (sequence, kinds) = changes(4, 5);
    writer.write_key_values(&rows(0..4), &sequence, &kinds).await.unwrap();
    let file = writer.finish().await.unwrap().remove(0);
    assert!(file.file_name.starts_with("changelog-"), "{}", file.file_name);
    assert_eq!(int(&file.key_stats.max, 0), Datum::Int(3));
    // The key keeps its statistics, the other column has none.
    assert_eq!(file.value_stats_cols, Some(vec!["k".to_owned()]));
    assert_eq!(file.file_source, Some(FileSource::Append));
    let path = context.files.data_path("", 0, &file.file_name, None).unwrap();
    let store = Arc::clone(context.files.store()) as Arc<dyn ObjectStore>;
    let key = physical().remove(0);
    let read_key = FileRead::new(store, path, file.file_size as u64, vec![key]).unwrap();
    assert!(read_key.open().await.unwrap().try_collect::<Vec<_>>().await.is_err(), "there is no _KEY_k");
    let found = read(&context, &file, &physical()[1..]).await;
    assert_eq!(found.column(2).as_primitive::<Int32Type>().values(), &[0, 1, 2, 3]);
}

#[tokio::test]
async fn rows_when_target_is_small_then_files_of_consecutive_sequence_numbers() {
    let context = context(memory("t"), &[], &[("target-file-size", "8 kb"), ("parquet.enable.dictionary", "false")]);
    let mut writer = RollingWriter::new(context.clone(), append(40)).unwrap();
    for start in (0..30_000).step_by(5000) {
        writer.write_rows(&rows(start..start + 5000)).await.unwrap();
    }
    let files = writer.finish().await.unwrap();
    assert!(files.len() > 5, "{}", files.len());
    let mut next = 40;
    let mut found = Vec::new();
    for (index, file) in files.iter().enumerate() {
        assert!(file.file_name.ends_with(&format!("-{index}.parquet")), "{}", file.file_name);
        assert_eq!((file.min_sequence_number, file.max_sequence_number), (next, next + file.row_count - 1));
        next += file.row_count;
        assert!(file.file_size < 64 << 10, "{}", file.file_size);
        assert_eq!((&file.min_key[..], &file.max_key[..]), (&EMPTY_ROW[..], &EMPTY_ROW[..]));
        assert_eq!((file.level, file.delete_row_count, &file.key_stats), (0, Some(0), &SimpleStats::empty()));
        found.push(read(&context, file, &context.schema.fields).await);
    }
    let found = concat_batches(&found[0].schema(), &found).unwrap();
    assert_eq!(found.columns(), rows(0..30_000).columns());
}

#[tokio::test]
async fn rows_when_row_number_is_bounded_then_files_of_so_many_rows() {
    let options = [("target-file-row-num", "700")];
    let mut writer = RollingWriter::new(context(memory("t"), &[], &options), append(0)).unwrap();
    writer.write_rows(&rows(0..2000)).await.unwrap();
    let counts: Vec<i64> = writer.finish().await.unwrap().iter().map(|file| file.row_count).collect();
    assert_eq!(counts, [700, 700, 600]);
    // A compaction is not bounded, and starts anew with each file.
    let kind = FileKind::Append { source: FileSource::Compact, first_sequence: 9, columns: None };
    let mut writer = RollingWriter::new(context(memory("t"), &[], &options), kind).unwrap();
    writer.write_rows(&rows(0..2000)).await.unwrap();
    let files = writer.finish().await.unwrap();
    assert_eq!((files.len(), files[0].min_sequence_number, files[0].max_sequence_number), (1, 9, 2008));
}

#[tokio::test]
async fn rows_when_row_ids_are_columns_then_named_in_the_metadata() {
    let context = context(memory("t"), &[], &[]);
    let columns: Vec<DataField> = context.schema.fields.iter().cloned().chain(row_id_fields()).collect();
    let kind =
        FileKind::Append { source: FileSource::Compact, first_sequence: 2, columns: Some(columns.as_slice().into()) };
    let mut writer = RollingWriter::new(context.clone(), kind).unwrap();
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![Some(5), None]));
    let batch = rows(0..2);
    let all = [batch.columns(), &[Arc::clone(&ids), Arc::new(Int64Array::from(vec![1, 1]))]].concat();
    writer.write_rows(&RecordBatch::try_new(Arc::clone(writer.schema()), all).unwrap()).await.unwrap();
    let file = writer.finish().await.unwrap().remove(0);
    let names = ["k", "v", "_ROW_ID", "_SEQUENCE_NUMBER"].map(str::to_owned).to_vec();
    // Where an id is missing the file gives it: there are no statistics of such a column.
    let covered = ["k", "v", "_SEQUENCE_NUMBER"].map(str::to_owned).to_vec();
    assert_eq!((file.write_cols.clone(), file.value_stats_cols.clone()), (Some(names), Some(covered)));
    assert_eq!(file.value_stats.null_counts, [Some(0), Some(0), Some(0)]);
    assert_eq!(read(&context, &file, &columns).await.column(2), &ids);
}

#[tokio::test]
async fn names_when_options_say_so_then_other_folders_and_names() {
    let roots = [
        ("data-file.external-paths", "memory://ext/a,memory://ext/b"),
        ("data-file.external-paths.strategy", "round-robin"),
        ("data-file.prefix", "d-"),
        ("file.suffix.include.compression", "true"),
        ("file.compression", "snappy"),
    ];
    let context = context(open_store("memory://ext/wh/t").unwrap(), &[], &roots);
    let mut seen = Vec::new();
    for _ in 0..2 {
        let mut writer = RollingWriter::new(context.clone(), append(0)).unwrap();
        writer.write_rows(&rows(0..3)).await.unwrap();
        let file = writer.finish().await.unwrap().remove(0);
        let external = file.external_path.clone().unwrap();
        assert!(file.file_name.starts_with("d-") && file.file_name.ends_with(".snappy.parquet"), "{}", file.file_name);
        assert!(external.ends_with(&format!("/bucket-0/{}", file.file_name)), "{external}");
        assert_eq!(read(&context, &file, &context.schema.fields).await.columns(), rows(0..3).columns());
        seen.push(external.split("/bucket-0").next().unwrap().to_owned());
    }
    seen.sort();
    assert_eq!(seen, ["memory://ext/a", "memory://ext/b"]);
}

fn local() -> (tempfile::TempDir, StoreLocation) {
    let folder = tempfile::tempdir().unwrap();
    let root = open_store(folder.path().to_str().unwrap()).unwrap();
    (folder, root)
}

fn files_below(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files_below(&path)) } else { found.push(path) }
    }
    found
}

/// Text that does not compress, so that a file has many parts.
fn noise(start: u64) -> RecordBatch {
    let mut state = start.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut word = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 11
    };
    let text: Vec<String> = (0..2000).map(|_| (0..64).map(|_| format!("{:013x}", word())).collect()).collect();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from_iter_values(0..2000)),
        Arc::new(text.iter().map(Some).collect::<StringViewArray>()),
    ];
    RecordBatch::try_new(rows(0..1).schema(), columns).unwrap()
}

#[tokio::test]
async fn write_when_store_fails_then_no_file_is_left() {
    let options = [("target-file-size", "12 mb"), ("file.block-size", "1 mb"), ("parquet.enable.dictionary", "false")];
    // With ever more writes that succeed, the failure meets a small file, a part, the end of an upload, a later file.
    let mut failures = 0;
    for writes in 0..6 {
        let (folder, root) = local();
        let context = context(FullStore::over(&root, writes), &[], &options);
        let mut writer = RollingWriter::new(context.clone(), append(0)).unwrap();
        let mut result = Ok(());
        for start in 0..16 {
            result = writer.write_rows(&noise(start)).await;
            if result.is_err() {
                break;
            }
        }
        let result = match result {
            Ok(()) => writer.finish().await.map(|_| ()),
            Err(error) => {
                assert!(writer.write_rows(&rows(0..1)).await.is_err());
                Err(error)
            }
        };
        if let Err(error) = result {
            assert_eq!(error.kind(), ErrorKind::Io, "{error}");
            assert!(error.context().iter().any(|(key, _)| *key == "file"), "{error}");
            failures += 1;
        }
        context.own_files.remove().await;
        assert_eq!(files_below(folder.path()), Vec::<std::path::PathBuf>::new(), "after {writes} writes");
    }
    assert!(failures >= 4, "{failures}");
}

#[tokio::test]
async fn drop_when_write_was_not_finished_then_no_file_is_left() {
    let (folder, root) = local();
    let context = context(root, &[], &[("target-file-size", "12 mb"), ("file.block-size", "1 mb")]);
    let mut writer = RollingWriter::new(context.clone(), append(0)).unwrap();
    for start in 0..16 {
        writer.write_rows(&noise(start)).await.unwrap();
    }
    drop(writer);
    drop(context);
    for _ in 0..100 {
        if files_below(folder.path()).is_empty() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    panic!("{:?}", files_below(folder.path()));
}

#[tokio::test]
async fn indexes_when_small_or_large_then_in_the_manifest_or_beside_the_file() {
    for (threshold, is_embedded) in [("10 mb", true), ("1 b", false)] {
        let (folder, root) = local();
        let options = [
            ("file-index.bitmap.columns", "k"),
            ("file-index.bloom-filter.columns", "v"),
            ("file-index.bloom-filter.v.items", "100"),
            ("file-index.in-manifest-threshold", threshold),
        ];
        let context = context(root, &["k"], &options);
        let mut writer =
            RollingWriter::new(context.clone(), FileKind::KeyValue { level: 0, source: FileSource::Append }).unwrap();
        let (sequence, kinds) = changes(50, 0);
        writer.write_key_values(&rows(0..50), &sequence, &kinds).await.unwrap();
        let file = writer.finish().await.unwrap().remove(0);
        assert_eq!(file.embedded_index.is_some(), is_embedded);
        let container = match &file.embedded_index {
            Some(bytes) => bytes.clone(),
            None => {
                assert_eq!(file.extra_files, [format!("{}.index", file.file_name)]);
                std::fs::read(folder.path().join("bucket-0").join(&file.extra_files[0])).unwrap()
            }
        };
        let index = FileIndex::parse(container.into()).unwrap();
        assert_eq!(index.columns().map(|(name, _)| name).collect::<Vec<_>>(), ["k", "v"]);
        context.own_files.remove().await;
        assert!(files_below(folder.path()).is_empty());
    }
}
