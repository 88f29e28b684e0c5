//! One data file and what the manifest will say of it (`spec/data.md 1.1`, `1.9`, `spec/metadata.md 4.3`).

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int8Array, Int64Array, RecordBatch};
use arrow::compute::{max, min};
use arrow::datatypes::SchemaRef;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use object_store::path::Path;

use super::context::{DataFileContext, NewFile, file_format};
use super::mode::POSTPONE_BUCKET;
use crate::error::{Error, ErrorKind, Result};
use crate::format::stats::{ColumnSummary, StatsCollector, simple_stats, value_stats};
use crate::format::write::{check_nulls, check_types};
use crate::format::{FileFormat, FileWrite, FileWriter};
use crate::options::{ChangelogProducer, FileRole, StatsMode, WriteOptions};
use crate::spec::binary_row::encode_rows;
use crate::spec::datum::Datum;
use crate::spec::file_index::{FILE_SUFFIX, FileIndexDefinition, FileIndexesWriter};
use crate::spec::types::{
    KEY_PREFIX, ROW_ID, SEQUENCE_NUMBER, SEQUENCE_NUMBER_ID, SYSTEM_FIELD_ID_START, VALUE_KIND, VALUE_KIND_ID,
    arrow_schema,
};
use crate::spec::{DataField, DataFileMeta, DataType, EMPTY_ROW, FileSource, SimpleStats, TypeKind};
use crate::table::Table;

/// Statistics of keys and of the format's own columns are cut to this, whatever the table's options say.
const KEY_STATS: StatsMode = StatsMode::Truncate(128);

/// What the files of a rolling writer are.
#[derive(Clone, Debug)]
pub enum FileKind {
    /// Data files of a key table.
    KeyValue {
        /// Level of the files.
        level: i32,
        /// Who writes them.
        source: FileSource,
    },
    /// Changelog files of a key table.
    Changelog {
        /// Level of the data files that they come with.
        level: i32,
    },
    /// Data files of an append table.
    Append {
        /// Who writes them.
        source: FileSource,
        /// Sequence number of the first row. A writer counts on from file to file, a compaction starts anew in each.
        first_sequence: i64,
        /// Columns of the files, where those are not the table's: row tracking and data evolution. They are named in the
        /// manifest then.
        columns: Option<Arc<[DataField]>>,
    },
}

impl FileKind {
    fn role(&self) -> FileRole {
        match self {
            Self::KeyValue { level, .. } => FileRole::Data(*level),
            Self::Changelog { level } => FileRole::Changelog(*level),
            Self::Append { .. } => FileRole::Data(0),
        }
    }

    fn source(&self) -> FileSource {
        match self {
            Self::KeyValue { source, .. } | Self::Append { source, .. } => *source,
            // Even where a compaction makes it.
            Self::Changelog { .. } => FileSource::Append,
        }
    }

    fn level(&self) -> i32 {
        match self {
            Self::KeyValue { level, .. } | Self::Changelog { level } => *level,
            Self::Append { .. } => 0,
        }
    }

    pub(super) fn is_compaction(&self) -> bool {
        self.source() == FileSource::Compact
    }
}

/// Refuses a table whose data files could not be written, before there are rows: for its formats, its column types, its file
/// indexes.
///
/// # Errors
/// Unsupported or invalid, with the column or option and the remedy.
pub(super) fn check_files(table: &Table, options: &WriteOptions) -> Result<()> {
    let (fields, settings) = (&table.schema().fields, table.settings());
    // They lie in files of their own (`spec/data.md 1.8`).
    if let Some(blob) = fields.iter().find(|field| field.data_type.kind == TypeKind::Blob) {
        return Err(Error::unsupported(format!(
            "the BLOB column {} can't be written; write the table with Java, or store the bytes as BYTES",
            blob.name
        )));
    }
    let format = match settings.bucket {
        POSTPONE_BUCKET => FileFormat::Avro,
        _ => file_format(options, FileRole::Data(0))?,
    };
    check_types(format, fields)?;
    if settings.changelog_producer != ChangelogProducer::None {
        check_types(file_format(options, FileRole::Changelog(0))?, fields)?;
    }
    FileIndexDefinition::all(fields, settings).map(|_| ())
}

/// How the rows of a kind of files are laid out: made once for all files of a rolling writer.
#[derive(Debug)]
pub(super) struct FileLayout {
    pub kind: FileKind,
    role: FileRole,
    /// All columns of the files, in order.
    physical: Arc<[DataField]>,
    physical_schema: SchemaRef,
    /// The columns that rows come with.
    values: Arc<[DataField]>,
    value_schema: SchemaRef,
    modes: Vec<StatsMode>,
    /// Positions of the trimmed primary key among the values, and their types.
    keys: Vec<usize>,
    key_types: Vec<DataType>,
    /// Whether keys stand before the values, too.
    has_key_columns: bool,
    /// File indexes, by the values.
    indexes: Vec<FileIndexDefinition>,
}

impl FileLayout {
    pub fn new(context: &DataFileContext, kind: FileKind) -> Result<Self> {
        let (schema, options, role) = (&context.schema, &context.options, kind.role());
        let (values, is_keyed): (Arc<[DataField]>, bool) = match &kind {
            FileKind::Append { columns: Some(columns), .. } => (Arc::clone(columns), false),
            FileKind::Append { columns: None, .. } => (schema.fields.as_slice().into(), false),
            FileKind::KeyValue { .. } | FileKind::Changelog { .. } => (schema.fields.as_slice().into(), true),
        };
        let key_fields = if is_keyed { schema.trimmed_primary_keys() } else { Vec::new() };
        let has_key_columns = is_keyed && !options.thin_mode;
        let mut physical = Vec::new();
        if has_key_columns {
            physical.extend(key_fields.iter().map(|key| {
                let id = SYSTEM_FIELD_ID_START.saturating_add(key.id);
                DataField::new(id, format!("{KEY_PREFIX}{}", key.name), key.data_type.clone())
            }));
        }
        if is_keyed {
            let number = DataType::not_null(TypeKind::BigInt);
            physical.push(DataField::new(SEQUENCE_NUMBER_ID, SEQUENCE_NUMBER, number));
            physical.push(DataField::new(VALUE_KIND_ID, VALUE_KIND, DataType::not_null(TypeKind::TinyInt)));
        }
        physical.extend(values.iter().cloned());

        check_types(context.format(role)?, &physical)?;

        let default_mode = options.stats_mode(role);
        let mut own_columns = 0;
        let mut mode_of = |field: &DataField| -> StatsMode {
            let is_system = !is_keyed && matches!(field.name.as_str(), ROW_ID | SEQUENCE_NUMBER);
            let index = own_columns;
            own_columns += usize::from(!is_system);
            if context.bucket == POSTPONE_BUCKET {
                StatsMode::None
            } else if let Some(mode) = options.stats_mode_of(&field.name) {
                mode
            } else if is_system || (options.thin_mode && key_fields.iter().any(|key| key.id == field.id)) {
                KEY_STATS
            } else if options.stats_first_columns.is_some_and(|first| index >= first) {
                StatsMode::None
            } else {
                default_mode
            }
        };
        let modes = values.iter().map(&mut mode_of).collect();
        let keys = key_fields
            .iter()
            .map(|key| {
                let position = values.iter().position(|field| field.id == key.id);
                position.ok_or_else(|| Error::internal(format!("the key column {} is not written", key.name)))
            })
            .collect::<Result<_>>()?;
        // Nobody looks for rows in changelog files and those of the postpone bucket by their values.
        let is_indexed = matches!(role, FileRole::Data(_)) && context.bucket != POSTPONE_BUCKET;
        let indexes = context.indexes.iter().filter(|_| is_indexed).filter_map(|definition| {
            let id = schema.fields.get(definition.column)?.id;
            let column = values.iter().position(|field| field.id == id)?;
            Some(FileIndexDefinition { column, ..definition.clone() })
        });
        Ok(Self {
            indexes: indexes.collect(),
            kind,
            role,
            physical_schema: arrow_schema(&physical),
            physical: physical.into(),
            value_schema: arrow_schema(&values),
            modes,
            keys,
            key_types: key_fields.iter().map(|key| key.data_type.clone()).collect(),
            has_key_columns,
            values,
        })
    }

    /// The arrow schema that rows come with.
    pub fn value_schema(&self) -> &SchemaRef {
        &self.value_schema
    }

    /// The columns of the keys among the values, and where they stand before them.
    fn repeated(&self) -> Vec<(usize, usize)> {
        let before = self.physical.len() - self.values.len();
        let keys = self.keys.iter().enumerate().filter(|_| self.has_key_columns);
        keys.map(|(position, key)| (before + key, position)).collect()
    }

    /// The columns of a key that is alone, and of sequence numbers.
    fn distinct(&self) -> Vec<usize> {
        let before = self.physical.len() - self.values.len();
        let [key] = self.keys.as_slice() else {
            return (0..before).filter(|column| self.physical[*column].id == SEQUENCE_NUMBER_ID).collect();
        };
        let is_kind = |column: &usize| self.physical[*column].id == VALUE_KIND_ID;
        (0..before).filter(|column| !is_kind(column)).chain([before + key]).collect()
    }

    fn key_of(&self, rows: &[ArrayRef], row: usize) -> Result<Vec<u8>> {
        let keys: Vec<ArrayRef> = self.keys.iter().map(|key| rows[*key].slice(row, 1)).collect();
        Ok(encode_rows(&keys, &self.key_types)?.serialized(0).to_vec())
    }
}

/// Takes the statistics of ids away that are not all there: a NULL stands for the one that the file gives the row, which lies within
/// no bounds and is not NULL.
fn forget_filled_in(fields: &[DataField], summaries: &mut [ColumnSummary]) {
    for (field, summary) in fields.iter().zip(summaries) {
        if matches!(field.name.as_str(), ROW_ID | SEQUENCE_NUMBER) && summary.null_count.is_some_and(|nulls| nulls > 0)
        {
            *summary = ColumnSummary { min: Datum::Null, max: Datum::Null, null_count: None };
        }
    }
}

/// Puts the container of a file's indexes where its size asks for: the names of the files beside the data file, or the bytes for
/// the manifest (`spec/data.md 10.1`).
async fn store_indexes(
    context: &DataFileContext,
    file: &NewFile,
    container: Vec<u8>,
) -> Result<(Vec<String>, Option<Vec<u8>>)> {
    if container.len() as u64 <= context.options.index_in_manifest_threshold {
        return Ok((Vec::new(), Some(container)));
    }
    let name = format!("{}{FILE_SUFFIX}", file.name);
    let path = context.files.sibling_path(&file.path, &name)?;
    context.own_files.add(path.clone());
    if !context.files.create(&path, container).await? {
        return Err(Error::internal("a new file index is there already").with("file", name));
    }
    Ok((vec![name], None))
}

/// Batches of fewer rows are not worth another thread.
const ROWS_OF_A_THREAD: usize = 2048;

/// The sequence numbers and kinds of rows of a key table.
#[derive(Clone, Copy)]
pub(super) struct Changes<'a> {
    pub sequence: &'a Int64Array,
    pub kinds: &'a Int8Array,
}

/// A data file in the making.
pub(super) struct DataFileWriter {
    layout: Arc<FileLayout>,
    context: DataFileContext,
    file: NewFile,
    writer: FileWriter,
    stats: StatsCollector,
    rows: u64,
    /// The first and the last key.
    keys: Option<(Vec<u8>, Vec<u8>)>,
    /// The least and the greatest sequence number.
    sequence: Option<(i64, i64)>,
    retracted: i64,
    indexes: Option<FileIndexesWriter>,
    /// What the indexes hold.
    index_memory: MemoryReservation,
}

impl DataFileWriter {
    /// Names a new file and makes it ready; nothing is sent to the store yet.
    pub fn open(context: &DataFileContext, layout: &Arc<FileLayout>) -> Result<Self> {
        let file = context.new_file(layout.role)?;
        let reservation = MemoryConsumer::new(format!("DataFileWriter[{}]", file.name)).register(&context.pool);
        let index_memory = reservation.new_empty();
        let write = FileWrite {
            store: Arc::clone(context.files.store()),
            path: file.path.clone(),
            format: file.format,
            compression: file.compression.clone(),
            fields: Arc::clone(&layout.physical),
            repeated: layout.repeated(),
            distinct: layout.distinct(),
            options: Arc::clone(&context.options),
            reservation,
            memory_limit: context.pool.memory_limit(),
        };
        Ok(Self {
            writer: write.open()?,
            stats: StatsCollector::new(&layout.values, &layout.modes, &layout.keys, file.format),
            context: context.clone(),
            layout: Arc::clone(layout),
            file,
            rows: 0,
            keys: None,
            sequence: None,
            retracted: 0,
            indexes: match layout.indexes.as_slice() {
                [] => None,
                definitions => Some(FileIndexesWriter::new(definitions)?),
            },
            index_memory,
        })
    }

    pub fn path(&self) -> &Path {
        &self.file.path
    }

    /// Rows so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Bytes that the file has or will have, about.
    pub fn size(&self) -> u64 {
        self.writer.size()
    }

    /// Takes rows of the layout's values, sorted and merged; `changes` where the table has a key.
    pub async fn write(&mut self, batch: &RecordBatch, changes: Option<Changes<'_>>) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let rows = batch.columns();
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.layout.physical.len());
        if let Some(Changes { sequence, kinds }) = changes {
            if self.layout.has_key_columns {
                columns.extend(self.layout.keys.iter().map(|key| Arc::clone(&rows[*key])));
            }
            columns.push(Arc::new(sequence.clone()));
            columns.push(Arc::new(kinds.clone()));
            self.note_changes(rows, sequence, kinds)?;
        }
        columns.extend(rows.iter().map(Arc::clone));
        if let Some(indexes) = &mut self.indexes {
            indexes.add(rows)?;
            self.index_memory.try_resize(indexes.memory()).map_err(|error| {
                Error::new(ErrorKind::Exhausted, "no memory is left for the file indexes of a data file")
                    .with_source(error)
            })?;
        }
        self.rows += batch.num_rows() as u64;
        check_nulls(&self.layout.physical_schema, &columns)?;
        let physical = RecordBatch::try_new(Arc::clone(&self.layout.physical_schema), columns)
            .map_err(|error| Error::invalid("the rows do not fit the table's columns").with_source(error))?;
        let (stats, writer) = (&mut self.stats, &mut self.writer);
        if physical.num_rows() < ROWS_OF_A_THREAD {
            stats.update(rows)?;
            writer.take(&physical)?;
        } else {
            // Both read the same rows, and take about as long.
            std::thread::scope(|scope| {
                let collected = scope.spawn(|| stats.update(rows));
                let taken = writer.take(&physical);
                let collected = collected.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                taken.and(collected)
            })?;
        }
        self.writer.settle().await
    }

    fn note_changes(&mut self, rows: &[ArrayRef], sequence: &Int64Array, kinds: &Int8Array) -> Result<()> {
        let last = sequence.len() - 1;
        let last_key = self.layout.key_of(rows, last)?;
        match &mut self.keys {
            Some((_, greatest)) => *greatest = last_key,
            None => self.keys = Some((self.layout.key_of(rows, 0)?, last_key)),
        }
        if let Some((low, high)) = min(sequence).zip(max(sequence)) {
            let (least, greatest) = self.sequence.unwrap_or((low, high));
            self.sequence = Some((least.min(low), greatest.max(high)));
        }
        // -U and -D (`spec/data.md 1.2`).
        self.retracted += kinds.values().iter().filter(|kind| **kind == 1 || **kind == 3).count() as i64;
        Ok(())
    }

    /// Completes the file. `first_sequence` is the number of the first row of an append table.
    pub async fn finish(self, first_sequence: i64) -> Result<DataFileMeta> {
        let Self { layout, context, file, writer, stats, rows, keys, sequence, retracted, indexes, .. } = self;
        let size = writer.finish().await?;
        let (extra_files, embedded_index) = match indexes {
            Some(indexes) => store_indexes(&context, &file, indexes.finish()?).await?,
            None => (Vec::new(), None),
        };
        let mut summaries = stats.finish()?;
        if layout.keys.is_empty() {
            forget_filled_in(&layout.values, &mut summaries);
        }
        let (value_stats, value_stats_cols) =
            value_stats(&layout.values, &summaries, context.options.stats_dense_store)?;
        let key_stats = if layout.keys.is_empty() {
            SimpleStats::empty()
        } else {
            let mode = if context.bucket == POSTPONE_BUCKET { StatsMode::None } else { KEY_STATS };
            let of_keys: Vec<ColumnSummary> =
                layout.keys.iter().map(|key| stats.summary(*key, mode)).collect::<Result<_>>()?;
            simple_stats(layout.key_types.iter().zip(&of_keys))?
        };
        let (min_key, max_key) = keys.unwrap_or_else(|| (EMPTY_ROW.to_vec(), EMPTY_ROW.to_vec()));
        let rows = i64::try_from(rows).map_err(|_| Error::internal("a file of more rows than there can be"))?;
        let (min_sequence_number, max_sequence_number) =
            sequence.unwrap_or_else(|| (first_sequence, first_sequence.saturating_add(rows - 1)));
        let write_cols = match &layout.kind {
            FileKind::Append { columns: Some(columns), .. } => {
                Some(columns.iter().map(|column| column.name.clone()).collect())
            }
            _ => None,
        };
        Ok(DataFileMeta {
            file_name: file.name,
            file_size: i64::try_from(size).map_err(|_| Error::internal("a file of more bytes than there can be"))?,
            row_count: rows,
            min_key,
            max_key,
            key_stats,
            value_stats,
            min_sequence_number,
            max_sequence_number,
            schema_id: context.schema.id,
            level: layout.kind.level(),
            extra_files,
            // A wall clock without zone, kept as if it were UTC.
            creation_time: Some(chrono::Local::now().naive_local().and_utc().timestamp_millis()),
            delete_row_count: Some(retracted),
            embedded_index,
            file_source: Some(layout.kind.source()),
            value_stats_cols,
            external_path: file.external_path,
            first_row_id: None,
            write_cols,
        })
    }

    /// Gives the file up and removes what may be there of it.
    pub async fn abort(self) {
        let Self { context, file, writer, .. } = self;
        writer.abort().await;
        context.own_files.discard(&file.path).await;
    }
}
