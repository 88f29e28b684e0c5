//! Reads key columns of data files for resolving: Parquet through the engine's footer cache, others through `format`.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion_datasource::PartitionedFile;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, TryFutureExt, TryStreamExt};
use object_store::ObjectMeta;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::arrow::async_reader::ParquetRecordBatchStreamBuilder;
use parquet::errors::ParquetError;

use super::deletion::{self, DeletedRows};
use super::evolution::FileMapping;
use super::parquet_reader::CheckedReaderFactory;
use super::resolve::{KeyReader, MergeRules};
use crate::error::{Error, ErrorKind, Result};
use crate::format::{FileRead, as_view, holds_nanoseconds};
use crate::options::MergeEngine;
use crate::plan::{PlannedFile, Section};
use crate::spec::DataField;
use crate::spec::types::SYSTEM_FIELD_ID_START;
use crate::table::Table;

/// Reads the files of one table.
#[derive(Debug)]
pub struct FileKeyReader {
    table: Arc<Table>,
    parquet: Arc<CheckedReaderFactory>,
}

impl FileKeyReader {
    /// A reader of `table`'s files that takes footers of Parquet files from `parquet`.
    pub fn new(table: Arc<Table>, parquet: Arc<CheckedReaderFactory>) -> Self {
        Self { table, parquet }
    }
}

impl KeyReader for FileKeyReader {
    fn open(
        &self,
        file: &PlannedFile,
        wanted: &[DataField],
        batch_size: usize,
    ) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let table = Arc::clone(&self.table);
        let parquet = Arc::clone(&self.parquet);
        let file = file.clone();
        let wanted = wanted.to_vec();
        Ok(open(table, parquet, file, wanted, batch_size).try_flatten_stream().boxed())
    }

    fn deleted(&self, file: &PlannedFile) -> BoxFuture<'static, Result<Option<Arc<DeletedRows>>>> {
        let table = Arc::clone(&self.table);
        let file = file.clone();
        async move { deletion::load(&table, &file).await }.boxed()
    }
}

async fn open(
    table: Arc<Table>,
    parquet: Arc<CheckedReaderFactory>,
    file: PlannedFile,
    wanted: Vec<DataField>,
    batch_size: usize,
) -> Result<BoxStream<'static, Result<RecordBatch>>> {
    let schema = table.schema_at(file.file.schema_id()).await?;
    let system = |field: &&DataField| field.id >= SYSTEM_FIELD_ID_START;
    let mut fields = schema.fields.clone();
    fields.extend(wanted.iter().filter(system).cloned());
    let mapping = FileMapping::new(&wanted, &fields)?;
    let physical = mapping.physical_fields();
    let path = file.path(table.files())?;
    let nanoseconds = physical.iter().any(|field| holds_nanoseconds(&field.data_type));
    if file.file.format() != "parquet" || nanoseconds {
        let read = FileRead::new(Arc::clone(table.files().store()), path, file.file.size(), physical)?;
        let batches = FileRead { batch_size, ..read }.open().await?;
        return Ok(batches.map(move |batch| mapping.apply(&batch?)).boxed());
    }
    let described = PartitionedFile::new_from_meta(ObjectMeta {
        location: path,
        last_modified: chrono::DateTime::UNIX_EPOCH,
        size: file.file.size(),
        e_tag: None,
        version: None,
    });
    let mut reader = parquet.reader(described, &ExecutionPlanMetricsSet::new())?;
    let plain = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let found = ArrowReaderMetadata::load_async(&mut reader, plain.clone()).await.map_err(read_error)?;
    // Text as it is wanted in the end is copied once less.
    let views = Arc::new(Schema::new(found.schema().fields().iter().map(as_view).collect::<Vec<_>>()));
    let found = ArrowReaderMetadata::try_new(Arc::clone(found.metadata()), plain.with_schema(views));
    let builder = ParquetRecordBatchStreamBuilder::new_with_metadata(reader, found.map_err(read_error)?);
    let mut roots = Vec::with_capacity(physical.len());
    for field in &physical {
        let root = builder
            .parquet_schema()
            .root_schema()
            .get_fields()
            .iter()
            .position(|column| column.name() == field.name)
            .ok_or_else(|| Error::corrupt(format!("the file lacks the column {}", field.name)))?;
        roots.push(root);
    }
    let mask = ProjectionMask::roots(builder.parquet_schema(), roots);
    let batches = builder.with_projection(mask).with_batch_size(batch_size).build().map_err(read_error)?;
    Ok(batches
        .map_err(read_error)
        .map(move |batch| {
            let batch = batch?;
            // The reader gives columns in file order.
            let columns = physical
                .iter()
                .map(|field| batch.schema().index_of(&field.name).map_err(Error::from))
                .collect::<Result<Vec<_>>>()?;
            mapping.apply(&batch.project(&columns)?)
        })
        .boxed())
}

/// A store that failed is told from a file that is broken: the first may work when it is asked again.
fn read_error(error: ParquetError) -> Error {
    const BROKEN: &str = "the Parquet file cannot be read";
    match error {
        ParquetError::External(inner) => match inner.downcast::<object_store::Error>() {
            Ok(failed) => Error::from(*failed),
            Err(other) => Error::corrupt(BROKEN).with_source(other),
        },
        // The engine's cache of footers leaves nothing of a failed store but its text.
        ParquetError::General(text) if text.contains("Object Store error") && !text.contains("not found") => {
            Error::new(ErrorKind::Io, "the store failed while a footer was read")
                .with_source(ParquetError::General(text))
                .retryable()
        }
        other => Error::corrupt(BROKEN).with_source(other),
    }
}

impl MergeRules {
    /// The rules of `table`.
    pub fn of(table: &Table) -> Self {
        let options = table.settings();
        let schema = table.schema();
        let engine = options.merge_engine;
        Self {
            keys: schema.trimmed_primary_keys().into_iter().cloned().collect(),
            sequence_fields: options.sequence_fields.iter().filter_map(|name| schema.field(name)).cloned().collect(),
            sequence_descending: options.sequence_descending,
            snapshot_ordering: options.sequence_snapshot_ordering,
            ignore_retracts: options.ignore_delete
                && matches!(engine, MergeEngine::Deduplicate | MergeEngine::FirstRow),
            lookup_merge: options.needs_lookup() && engine != MergeEngine::FirstRow,
            keep_retracts: false,
        }
    }

    /// What the live rows of `section` are known by: its files, their levels and deletion vectors, and these rules.
    pub fn cache_key(&self, table: &Table, section: &Section) -> String {
        use std::fmt::Write;
        let mut key = format!(
            "live:{}:{:?}:{:?}:{:?}:{}:{}:{}:{}:{}",
            table.files().root().as_str(),
            section.kind,
            self.keys.iter().map(|field| field.id).collect::<Vec<_>>(),
            self.sequence_fields.iter().map(|field| field.id).collect::<Vec<_>>(),
            self.sequence_descending,
            self.snapshot_ordering,
            self.ignore_retracts,
            self.lookup_merge,
            self.keep_retracts
        );
        for file in &section.files {
            // Writing to a String does not fail.
            let _ = write!(key, "|{}/{}/{}", file.partition.path, file.file.name(), file.file.level());
            if let Some(deletion) = &file.deletion {
                let _ = write!(key, "@{}+{}", deletion.path, deletion.range.offset);
            }
        }
        key
    }
}
