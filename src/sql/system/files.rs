//! `$files` and `$file_key_ranges`: the live data files of a snapshot.
//!
//! Manifests stay decoded as columns; arrays are built straight from them, a batch at a time. Conditions on the partition
//! choose the manifest entries that are decoded, those on other plain columns the files whose texts are made.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use arrow::array::{
    ArrayRef, Int32Array, Int64Array, ListBuilder, RecordBatch, StringBuilder, StringViewArray, StringViewBuilder,
    TimestampMillisecondArray,
};
use arrow::datatypes::{DataType, Field, SchemaRef};
use futures::{StreamExt, TryStreamExt};

use super::table::{RowSource, RowStream, Wanted, unknown_column};
use super::text::{Shows, StatsText, write_key};
use super::{NOT_NULL, NULLABLE, columns, int, long, text, time};
use crate::error::{Error, Result};
use crate::plan::PlannedFile;
use crate::plan::live::{LiveRequest, PartitionPredicate, live_files};
use crate::spec::manifest::UNKNOWN;
use crate::spec::partition::partition_tuple;
use crate::spec::{DataField, Snapshot, TableSchema};
use crate::table::Table;

/// The columns of `$files`.
pub(super) const FILES: fn() -> Vec<Field> = || {
    let item = Arc::new(Field::new("element", DataType::Utf8, true));
    let mut fields = shared_columns();
    fields.extend([
        text("null_value_counts", NOT_NULL),
        text("min_value_stats", NOT_NULL),
        text("max_value_stats", NOT_NULL),
        long("min_sequence_number", NULLABLE),
        long("max_sequence_number", NULLABLE),
        time("creation_time", NULLABLE),
        long("deleteRowCount", NULLABLE),
        text("file_source", NULLABLE),
        long("first_row_id", NULLABLE),
        Field::new("write_cols", DataType::List(item), true),
    ]);
    fields
};

/// The columns of `$file_key_ranges`.
pub(super) const KEY_RANGES: fn() -> Vec<Field> = || {
    let mut fields = shared_columns();
    fields.push(long("first_row_id", NULLABLE));
    fields
};

fn shared_columns() -> Vec<Field> {
    vec![
        text("partition", NULLABLE),
        int("bucket", NOT_NULL),
        text("file_path", NOT_NULL),
        text("file_format", NOT_NULL),
        long("schema_id", NOT_NULL),
        int("level", NOT_NULL),
        long("record_count", NOT_NULL),
        long("file_size_in_bytes", NOT_NULL),
        text("min_key", NULLABLE),
        text("max_key", NULLABLE),
    ]
}

/// `t$files`, `t$file_key_ranges`
#[derive(Debug)]
pub(super) struct FileRows {
    table: Arc<Table>,
    snapshot: Option<Arc<Snapshot>>,
    columns: fn() -> Vec<Field>,
}

impl FileRows {
    pub(super) fn new(table: Arc<Table>, snapshot: Option<Arc<Snapshot>>, columns: fn() -> Vec<Field>) -> Self {
        Self { table, snapshot, columns }
    }
}

impl RowSource for FileRows {
    fn schema(&self) -> SchemaRef {
        columns((self.columns)())
    }

    fn rows(self: Arc<Self>, wanted: Wanted) -> RowStream {
        futures::stream::once(async move {
            let files = match &self.snapshot {
                None => Vec::new(),
                Some(snapshot) => {
                    let request =
                        LiveRequest { partitions: partition_filter(&self.table, &wanted), ..LiveRequest::default() };
                    let files = Box::pin(live_files(&self.table, snapshot, request)).await;
                    files.map_err(|error| self.table.at(error))?
                }
            };
            let schemas = Arc::new(schemas_of(&self.table, &files).await?);
            let size = wanted.batch_size.max(1);
            let starts: Vec<usize> = (0..files.len()).step_by(size).collect();
            let files = Arc::new(files);
            Ok::<_, Error>(futures::stream::iter(starts).map(move |start| {
                let end = (start + size).min(files.len());
                batch(&self.table, &files[start..end], &schemas, &wanted).map_err(|error| self.table.at(error))
            }))
        })
        .try_flatten()
        .boxed()
    }
}

/// The partitions that can pass; `None` when no condition is on them alone.
pub(super) fn partition_filter(table: &Table, wanted: &Wanted) -> Option<PartitionPredicate> {
    if !wanted.filters_on("partition") {
        return None;
    }
    let fields: Vec<DataField> = table.schema().partition_fields().into_iter().cloned().collect();
    let wanted = wanted.clone();
    Some(Arc::new(move |rows: &[Arc<[u8]>]| {
        let fields: Vec<&DataField> = fields.iter().collect();
        let tuples = rows.iter().map(|row| partition_tuple(row, &fields).map(Some));
        wanted.keep(&[("partition", Arc::new(tuples.collect::<Result<StringViewArray>>()?))])
    }))
}

/// The schemas that the files were written with.
async fn schemas_of(table: &Table, files: &[PlannedFile]) -> Result<HashMap<i64, Arc<TableSchema>>> {
    let ids: HashSet<i64> = files.iter().map(|file| file.file.schema_id()).collect();
    let mut schemas = HashMap::with_capacity(ids.len());
    for id in ids {
        schemas.insert(id, table.schema_at(id).await?);
    }
    Ok(schemas)
}

/// The columns of numbers that a file's entry holds as such.
fn numbers(name: &str, files: &[&PlannedFile]) -> Option<ArrayRef> {
    let longs = |value: fn(&PlannedFile) -> i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(files.iter().map(|file| value(file))))
    };
    let known = |value: fn(&PlannedFile) -> i64| -> ArrayRef {
        Arc::new(files.iter().map(|file| Some(value(file)).filter(|value| *value != UNKNOWN)).collect::<Int64Array>())
    };
    let ints = |value: fn(&PlannedFile) -> i32| -> ArrayRef {
        Arc::new(Int32Array::from_iter_values(files.iter().map(|file| value(file))))
    };
    Some(match name {
        "bucket" => ints(|file| file.file.bucket()),
        "level" => ints(|file| file.file.level()),
        "schema_id" => longs(|file| file.file.schema_id()),
        "record_count" => longs(|file| file.file.entries.row_count[file.file.row as usize]),
        "file_size_in_bytes" => longs(|file| file.file.entries.file_size[file.file.row as usize]),
        "min_sequence_number" => longs(|file| file.file.sequence_numbers().0),
        "max_sequence_number" => longs(|file| file.file.sequence_numbers().1),
        "deleteRowCount" => known(|file| file.file.entries.delete_row_count[file.file.row as usize]),
        "first_row_id" => known(|file| file.file.entries.first_row_id[file.file.row as usize]),
        "creation_time" => {
            Arc::new(files.iter().map(|file| creation_time(file)).collect::<TimestampMillisecondArray>())
        }
        _ => return None,
    })
}

/// When the file was made, by the wall clock of its writer.
pub(super) fn creation_time(file: &PlannedFile) -> Option<i64> {
    Some(file.file.entries.creation_time[file.file.row as usize]).filter(|time| *time != i64::MIN)
}

/// What can be asked of a file before its texts are made.
const CHEAP: [&str; 10] = [
    "bucket",
    "level",
    "schema_id",
    "record_count",
    "file_size_in_bytes",
    "min_sequence_number",
    "max_sequence_number",
    "deleteRowCount",
    "first_row_id",
    "creation_time",
];

fn batch(
    table: &Table,
    files: &[PlannedFile],
    schemas: &HashMap<i64, Arc<TableSchema>>,
    wanted: &Wanted,
) -> Result<RecordBatch> {
    let all: Vec<&PlannedFile> = files.iter().collect();
    let cheap: Vec<(&str, ArrayRef)> = CHEAP
        .into_iter()
        .filter(|name| wanted.filters_on(name))
        .filter_map(|name| Some((name, numbers(name, &all)?)))
        .collect();
    let files: Vec<&PlannedFile> = if cheap.is_empty() {
        all
    } else {
        all.into_iter().zip(wanted.keep(&cheap)?).filter_map(|(file, kept)| kept.then_some(file)).collect()
    };
    let mut stats = StatsText::new(table.schema(), schemas);
    wanted.batch(files.len(), |column| {
        if let Some(numbers) = numbers(column, &files) {
            return Ok(numbers);
        }
        Ok(match column {
            "partition" => partitions(table, &files)?,
            "file_path" => paths(table, &files)?,
            "file_format" => {
                Arc::new(StringViewArray::from_iter_values(files.iter().map(|file| file.file.format()))) as ArrayRef
            }
            "min_key" => keys(table, &files, |file| file.file.min_key())?,
            "max_key" => keys(table, &files, |file| file.file.max_key())?,
            "null_value_counts" => stats_texts(&mut stats, &files, Shows::NullCounts)?,
            "min_value_stats" => stats_texts(&mut stats, &files, Shows::Minima)?,
            "max_value_stats" => stats_texts(&mut stats, &files, Shows::Maxima)?,
            "file_source" => Arc::new(files.iter().map(|file| source(file)).collect::<StringViewArray>()),
            "write_cols" => write_cols(&files),
            other => return Err(unknown_column(other)),
        })
    })
}

fn source(file: &PlannedFile) -> Option<&'static str> {
    match file.file.entries.file_source[file.file.row as usize] {
        0 => Some("APPEND"),
        1 => Some("COMPACT"),
        _ => None,
    }
}

fn partitions(table: &Table, files: &[&PlannedFile]) -> Result<ArrayRef> {
    let fields = table.schema().partition_fields();
    let mut known: HashMap<*const u8, String> = HashMap::new();
    let mut texts = StringViewBuilder::with_capacity(files.len());
    for file in files {
        let row = &file.partition.row;
        let text = match known.get(&row.as_ptr()) {
            Some(text) => text,
            None => known.entry(row.as_ptr()).or_insert(partition_tuple(row, &fields)?),
        };
        texts.append_value(text);
    }
    Ok(Arc::new(texts.finish()))
}

fn paths(table: &Table, files: &[&PlannedFile]) -> Result<ArrayRef> {
    let mut folders: BTreeMap<(*const u8, i32), String> = BTreeMap::new();
    let mut texts = StringViewBuilder::with_capacity(files.len());
    let mut path = String::new();
    for file in files {
        if let Some(external) = file.file.external_path() {
            texts.append_value(external.as_ref());
            continue;
        }
        let key = (file.partition.path.as_ptr(), file.file.bucket());
        let folder = match folders.get(&key) {
            Some(folder) => folder,
            None => {
                let folder = table.files().bucket_dir(&file.partition.path, file.file.bucket())?;
                folders.entry(key).or_insert_with(|| table.files().location_of(&folder))
            }
        };
        path.clear();
        path.push_str(folder);
        path.push('/');
        path.push_str(file.file.name());
        texts.append_value(&path);
    }
    Ok(Arc::new(texts.finish()))
}

fn keys(table: &Table, files: &[&PlannedFile], key: fn(&PlannedFile) -> &[u8]) -> Result<ArrayRef> {
    let schema = table.schema();
    // Files of such tables are sorted by other columns than the key (`spec/data.md 6.6`).
    let fields: Vec<&DataField> = if table.settings().pk_clustering_override {
        table.settings().clustering_columns.iter().filter_map(|name| schema.field(name)).collect()
    } else {
        schema.trimmed_primary_keys()
    };
    let mut texts = StringViewBuilder::with_capacity(files.len());
    let mut text = String::new();
    for file in files {
        if fields.is_empty() {
            texts.append_null();
            continue;
        }
        text.clear();
        write_key(key(file), &fields, &mut text).map_err(|error| error.with("file", file.file.name().to_owned()))?;
        texts.append_value(&text);
    }
    Ok(Arc::new(texts.finish()))
}

fn stats_texts(stats: &mut StatsText<'_>, files: &[&PlannedFile], shows: Shows) -> Result<ArrayRef> {
    let mut texts = StringViewBuilder::with_capacity(files.len());
    let mut text = String::new();
    for file in files {
        text.clear();
        stats.write(&file.file, shows, &mut text).map_err(|error| error.with("file", file.file.name().to_owned()))?;
        texts.append_value(&text);
    }
    Ok(Arc::new(texts.finish()))
}

fn write_cols(files: &[&PlannedFile]) -> ArrayRef {
    let item = Field::new("element", DataType::Utf8, true);
    let mut lists = ListBuilder::new(StringBuilder::new()).with_field(item);
    for file in files {
        match file.file.write_cols() {
            Some(names) => {
                names.iter().for_each(|name| lists.values().append_value(name));
                lists.append(true);
            }
            None => lists.append(false),
        }
    }
    Arc::new(lists.finish())
}
