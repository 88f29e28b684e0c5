//! Rows of the postpone bucket get their buckets (`spec/data.md 3.7`).
//!
//! ```text
//! bucket-postpone files, oldest first --rows as they were written--> LakeWriteExec with the buckets of the partition
//!   -> files of level 0, compacted as after any write -> one COMPACT snapshot that removes the postponed files
//! ```
//!
//! May import: `error`, `options`, `plan`, `read`, `spec`, `table`, `write`, rest of this room.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType as ArrowType, Field, Schema, SchemaRef};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use futures::{StreamExt, TryStreamExt};

use super::rules::Rules;
use crate::commit::TableCommit;
use crate::error::{Error, Result};
use crate::options::MemorySize;
use crate::plan::PlannedFile;
use crate::plan::live::{LiveRequest, PartitionPredicate, live_files};
use crate::read::resolve::KeyReader;
use crate::spec::types::{VALUE_KIND, VALUE_KIND_ID};
use crate::spec::{DataField, DataFileMeta, DataType, FileSource, Snapshot, TableSchema, TypeKind};
use crate::table::Table;
use crate::write::{CommitMessage, LakeWriteExec, POSTPONE_BUCKET, RunSlot, WriteRun, WriteTarget};

/// Bytes of a bucket of a partition that is compacted for the first time, unless told.
const BUCKET_BYTES: u64 = 1 << 30;

/// Gives the postponed rows of the wanted partitions their buckets: messages that can be committed together.
///
/// # Errors
/// Errors of reading and writing files.
pub(super) async fn place(
    rules: &Rules,
    snapshot: &Snapshot,
    partitions: Option<PartitionPredicate>,
) -> Result<Vec<CommitMessage>> {
    let table = &rules.table;
    let request = |postponed| LiveRequest { partitions: partitions.clone(), deletions: false, postponed };
    let mut waiting: BTreeMap<Vec<u8>, Vec<PlannedFile>> = BTreeMap::new();
    for file in Box::pin(live_files(table, snapshot, request(true))).await? {
        waiting.entry(file.file.partition().to_vec()).or_default().push(file);
    }
    let mut totals: HashMap<Vec<u8>, i32> = HashMap::new();
    for file in Box::pin(live_files(table, snapshot, request(false))).await? {
        if file.file.total_buckets() > 0 {
            totals.insert(file.file.partition().to_vec(), file.file.total_buckets());
        }
    }
    // Partitions of the same number of buckets are written together.
    let mut groups: BTreeMap<i32, Vec<PlannedFile>> = BTreeMap::new();
    let mut messages = Vec::new();
    for (partition, mut files) in waiting {
        // In the order in which they were written; of one moment, in the order in which they were committed.
        files.sort_by_key(|file| file.file.entries.creation_time[file.file.row as usize]);
        let buckets = match totals.get(&partition) {
            Some(buckets) => *buckets,
            None => new_buckets(table, &files)?,
        };
        messages.push(CommitMessage {
            partition,
            bucket: POSTPONE_BUCKET,
            total_buckets: Some(POSTPONE_BUCKET),
            compact_before: files.iter().map(|file| DataFileMeta::from(&file.file)).collect(),
            ..CommitMessage::default()
        });
        groups.entry(buckets).or_default().extend(files);
    }
    for (buckets, files) in groups {
        let mut written = Box::pin(write(rules, buckets, files)).await?;
        Box::pin(super::after_write(table, &mut written, false, &rules.context, &rules.own)).await?;
        for message in written {
            messages.push(Box::pin(as_compaction(rules, message)).await?);
        }
    }
    Ok(messages)
}

/// How many buckets a partition gets that has none.
fn new_buckets(table: &Table, files: &[PlannedFile]) -> Result<i32> {
    let options = table.settings();
    let parts = |whole: u64, part: u64| i32::try_from(whole.div_ceil(part.max(1))).unwrap_or(i32::MAX).max(1);
    if let Some(buckets) = options.value::<i32>("postpone.default-bucket-num")? {
        return Ok(buckets.max(1));
    }
    if let Some(rows) =
        options.value::<i64>("postpone.target-row-num-per-bucket")?.and_then(|rows| u64::try_from(rows).ok())
    {
        return Ok(parts(files.iter().map(|file| file.file.rows()).sum(), rows));
    }
    let bytes = options.value::<MemorySize>("postpone.target-size-per-bucket")?.map_or(BUCKET_BYTES, |size| size.0);
    Ok(parts(files.iter().map(|file| file.file.size()).sum(), bytes))
}

/// Writes the rows of postponed files into the buckets of their partitions.
async fn write(rules: &Rules, buckets: i32, files: Vec<PlannedFile>) -> Result<Vec<CommitMessage>> {
    let user = TableCommit::new_user(&rules.table)?;
    let target = WriteTarget::of_postponed(Arc::clone(&rules.table), buckets, &user)?;
    let mut fields: Vec<Arc<Field>> = target.table_schema().fields().iter().map(Arc::clone).collect();
    fields.iter_mut().for_each(|field| *field = Arc::new(field.as_ref().clone().with_nullable(true)));
    fields.push(Arc::new(Field::new(VALUE_KIND, ArrowType::Int8, false)));
    let schema = Arc::new(Schema::new(fields));
    let rows = PostponedRows {
        schema: Arc::clone(&schema),
        table: Arc::clone(rules.table.schema()),
        files,
        reader: Arc::clone(&rules.reader),
    };
    let source = StreamingTableExec::try_new(schema, vec![Arc::new(rows)], None, Vec::new(), false, None)?;
    let slot = Arc::new(RunSlot::default());
    let context = Arc::clone(&rules.context);
    let run = WriteRun::start_owning(Arc::clone(&target), Arc::clone(&context), Arc::clone(&rules.own))?;
    slot.set(run);
    let partitions = context.session_config().target_partitions();
    let plan = LakeWriteExec::plan(Arc::new(source), None, &target, &slot, partitions)?;
    LakeWriteExec::run(plan, context, slot).await
}

/// What was written and compacted as one compaction: the rows were in the table before.
async fn as_compaction(rules: &Rules, message: CommitMessage) -> Result<CommitMessage> {
    let new: HashSet<&str> = message.new_files.iter().map(|file| file.file_name.as_str()).collect();
    let gone: HashSet<&str> = message.compact_before.iter().map(|file| file.file_name.as_str()).collect();
    let stays: HashSet<&str> = message.compact_after.iter().map(|file| file.file_name.as_str()).collect();
    let is_new = |file: &&DataFileMeta| new.contains(file.file_name.as_str());
    let before = message.compact_before.iter().filter(|file| !is_new(file)).cloned().collect();
    let unread = message.new_files.iter().filter(|file| !gone.contains(file.file_name.as_str()));
    // What the write made is no file of a writer any more.
    let written = unread.cloned().map(|file| DataFileMeta { file_source: Some(FileSource::Compact), ..file });
    let after = written.chain(message.compact_after.iter().cloned()).collect();
    let files = rules.table.files();
    let target = rules.table.settings();
    let fields = rules.table.schema().partition_fields();
    let folder = crate::spec::partition::partition_path(
        &message.partition,
        &fields,
        target.partition_legacy_name,
        &target.partition_default_name,
    )?;
    for file in message
        .new_files
        .iter()
        .filter(|file| gone.contains(file.file_name.as_str()) && !stays.contains(file.file_name.as_str()))
    {
        let path = files.data_path(&folder, message.bucket, &file.file_name, file.external_path.as_deref())?;
        rules.own.discard(&path).await;
        for extra in &file.extra_files {
            rules.own.discard(&files.sibling_path(&path, extra)?).await;
        }
    }
    let changelog = message.changelog_files.into_iter().chain(message.compact_changelog_files).collect();
    Ok(CommitMessage {
        partition: message.partition.clone(),
        bucket: message.bucket,
        total_buckets: message.total_buckets,
        compact_before: before,
        compact_after: after,
        compact_changelog_files: changelog,
        compact_new_index_files: message.compact_new_index_files,
        compact_deleted_index_files: message.compact_deleted_index_files,
        ..CommitMessage::default()
    })
}

/// The rows of postponed files, with their kinds, file after file.
struct PostponedRows {
    schema: SchemaRef,
    table: Arc<TableSchema>,
    files: Vec<PlannedFile>,
    reader: Arc<dyn KeyReader>,
}

impl fmt::Debug for PostponedRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostponedRows").field("files", &self.files.len()).finish_non_exhaustive()
    }
}

impl PartitionStream for PostponedRows {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let mut wanted = self.table.fields.clone();
        wanted.push(DataField::new(VALUE_KIND_ID, VALUE_KIND, DataType::not_null(TypeKind::TinyInt)));
        let size = context.session_config().batch_size();
        let (reader, schema, table) = (Arc::clone(&self.reader), Arc::clone(&self.schema), Arc::clone(&self.table));
        let rows = futures::stream::iter(self.files.clone())
            .map(move |file| {
                let (schema, table) = (Arc::clone(&schema), Arc::clone(&table));
                let batches = reader.open(&file, &wanted, size)?;
                let batches = batches.map(move |batch| {
                    let name = file.file.name();
                    batch
                        .and_then(|batch| as_rows(&batch, &schema, &table, &file))
                        .map_err(|error| error.with("file", name))
                });
                Ok::<_, Error>(batches)
            })
            .try_flatten()
            .map_err(datafusion::error::DataFusionError::from);
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), rows.boxed()))
    }
}

/// Rows of a file as the write takes them.
fn as_rows(batch: &RecordBatch, schema: &SchemaRef, table: &TableSchema, file: &PlannedFile) -> Result<RecordBatch> {
    let mut columns: Vec<ArrayRef> = batch
        .columns()
        .iter()
        .zip(schema.fields())
        .map(|(column, field)| Ok(cast(column, field.data_type())?))
        .collect::<Result<_>>()?;
    for (key, value) in table.partition_keys.iter().zip(&file.partition.values) {
        if let Some(column) = table.index_of(key) {
            columns[column] = value.to_array_of_size(batch.num_rows())?;
        }
    }
    Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
}
