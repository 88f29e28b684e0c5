//! The files of one bucket that is being written, and the message about them.
//!
//! May import: `error`, `options`, `spec`, `store`, rest of this room.

use std::sync::Arc;

use arrow::array::{AsArray, Int8Array, Int64Array, RecordBatch};
use arrow::compute::{filter, filter_record_batch, is_not_null, not};
use arrow::datatypes::{Int8Type, SchemaRef};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use uuid::Uuid;

use super::ahead::WriteAhead;
use super::assign::read_hashes;
use super::existing::HASH_INDEX;
use super::merge::{KeyMerger, KeyRows, Merged};
use super::mode::{BucketMode, POSTPONE_BUCKET};
use super::target::{WriteRun, WriteTarget};
use super::{CommitMessage, RollingWriter};
use crate::error::Result;
use crate::spec::IndexEntry;
use crate::spec::hash_index::encode_hash_index;

/// A bucket of a key table, written in key order.
pub(super) struct KeyBucket {
    run: Arc<WriteRun>,
    partition: Arc<[u8]>,
    bucket: i32,
    /// The sequence number of the row with ordinal 0.
    base: i64,
    merger: KeyMerger,
    layers: Vec<WriteAhead>,
    changelog: Option<WriteAhead>,
    /// For rows that wait for more of their key.
    memory: MemoryReservation,
    rows: u64,
}

impl KeyBucket {
    pub(super) async fn open(run: &Arc<WriteRun>, partition: Arc<[u8]>, bucket: i32) -> Result<Self> {
        let target = run.target();
        let base = Box::pin(next_sequence(run, &partition, bucket)).await?;
        let merger = KeyMerger::try_new(target)?;
        let changelog = match target.writes_changelog() {
            true => Some(WriteAhead::new(run.changelog_writer(&partition, bucket)?)),
            false => None,
        };
        let memory = MemoryConsumer::new("LakeWriteMerge").register(run.context().memory_pool());
        let (run, layers) = (Arc::clone(run), Vec::new());
        Ok(Self { run, partition, bucket, base, merger, layers, changelog, memory, rows: 0 })
    }

    /// Whether this is the bucket.
    pub(super) fn is(&self, partition: &[u8], bucket: i32) -> bool {
        self.bucket == bucket && *self.partition == *partition
    }

    pub(super) async fn write(&mut self, rows: KeyRows) -> Result<()> {
        self.rows += rows.len() as u64;
        let mut merged = Vec::new();
        self.merger.push(rows, &mut merged)?;
        self.memory.try_resize(self.merger.memory())?;
        self.emit(merged).await
    }

    async fn emit(&mut self, merged: Vec<Merged>) -> Result<()> {
        for part in merged {
            match part {
                Merged::Rows { layer, rows } => {
                    while self.layers.len() <= layer {
                        self.layers.push(WriteAhead::new(self.run.key_writer(&self.partition, self.bucket)?));
                    }
                    let (batch, sequence) = self.numbered(&rows)?;
                    self.layers[layer].write(batch, sequence, rows.kinds).await?;
                }
                Merged::Raw(rows) => {
                    let (batch, sequence) = self.numbered(&rows)?;
                    if let Some(changelog) = &mut self.changelog {
                        changelog.write(batch, sequence, rows.kinds).await?;
                    }
                }
            }
        }
        Ok(())
    }

    fn numbered(&self, rows: &KeyRows) -> Result<(RecordBatch, Int64Array)> {
        let batch = RecordBatch::try_new(file_schema(self.run.target()), rows.columns.clone())?;
        let sequence = rows.ordinals.unary::<_, arrow::datatypes::Int64Type>(|ordinal| self.base + ordinal);
        Ok((batch, sequence))
    }

    pub(super) async fn finish(mut self, run: &WriteRun) -> Result<Option<(CommitMessage, u64)>> {
        let mut merged = Vec::new();
        self.merger.finish(&mut merged)?;
        self.emit(merged).await?;
        let mut message = message(run, &self.partition, self.bucket);
        for layer in self.layers {
            message.new_files.extend(layer.finish().await?);
        }
        if let Some(changelog) = self.changelog {
            message.changelog_files = changelog.finish().await?;
        }
        Box::pin(add_hash_index(run, &mut message, &self.partition, self.bucket)).await?;
        Ok((self.rows > 0).then_some((message, self.rows)))
    }
}

/// A bucket of an append table, or the postpone bucket: rows in the order they come.
pub(super) struct AppendBucket {
    run: Arc<WriteRun>,
    partition: Arc<[u8]>,
    bucket: i32,
    writer: RollingWriter,
    /// For rows that have an id already.
    id_writer: Option<RollingWriter>,
    first: i64,
    rows: u64,
}

impl AppendBucket {
    pub(super) async fn open(run: &Arc<WriteRun>, partition: Arc<[u8]>, bucket: i32) -> Result<Self> {
        let first = match run.target().mode() {
            BucketMode::Postpone | BucketMode::Unaware => 0,
            _ => Box::pin(next_sequence(run, &partition, bucket)).await?,
        };
        let writer = match run.target().mode() {
            BucketMode::Postpone => run.key_writer(&partition, bucket)?,
            _ => run.append_writer(&partition, bucket, first)?,
        };
        Ok(Self { run: Arc::clone(run), partition, bucket, writer, id_writer: None, first, rows: 0 })
    }

    pub(super) async fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        let target = self.run.target();
        let width = target.width();
        let batch = RecordBatch::try_new(file_schema(target), rows.columns()[..width].to_vec())?;
        self.rows += rows.num_rows() as u64;
        if target.with_ids() {
            return Box::pin(self.write_with_ids(rows, batch)).await;
        }
        if target.mode() != BucketMode::Postpone {
            return self.writer.write_rows(&batch).await;
        }
        // Rows get their number from the compaction that gives them a bucket (`spec/observed.md`, Files).
        let kinds: &Int8Array = rows.column(width).as_primitive::<Int8Type>();
        let sequence = Int64Array::from_value(-1, rows.num_rows());
        self.writer.write_key_values(&batch, &sequence, kinds).await
    }

    /// Rows that have an id keep it in a file of their own: where ids are columns, none are given at the commit.
    async fn write_with_ids(&mut self, rows: &RecordBatch, batch: RecordBatch) -> Result<()> {
        let at = self.run.target().width() + 2;
        let has_id = is_not_null(rows.column(at))?;
        if has_id.true_count() == 0 {
            return self.writer.write_rows(&batch).await;
        }
        let without = filter_record_batch(&batch, &not(&has_id)?)?;
        if without.num_rows() > 0 {
            self.writer.write_rows(&without).await?;
        }
        let writer = match &mut self.id_writer {
            Some(writer) => writer,
            empty => empty.insert(self.run.id_writer(&self.partition, self.bucket, self.first)?),
        };
        let mut columns = batch.columns().to_vec();
        columns.extend(rows.columns()[at..at + 2].iter().map(Arc::clone));
        let columns = columns.iter().map(|column| filter(column, &has_id)).collect::<Result<Vec<_>, _>>()?;
        writer.write_rows(&RecordBatch::try_new(Arc::clone(writer.schema()), columns)?).await
    }

    pub(super) async fn finish(self) -> Result<(CommitMessage, u64)> {
        let mut message = message(&self.run, &self.partition, self.bucket);
        message.new_files = self.writer.finish().await?;
        if let Some(writer) = self.id_writer {
            message.new_files.extend(writer.finish().await?);
        }
        Ok((message, self.rows))
    }
}

fn file_schema(target: &WriteTarget) -> SchemaRef {
    Arc::clone(target.check().schema())
}

fn message(run: &WriteRun, partition: &[u8], bucket: i32) -> CommitMessage {
    CommitMessage {
        partition: partition.to_vec(),
        bucket,
        total_buckets: Some(run.target().mode().total_buckets()),
        ..CommitMessage::default()
    }
}

/// The sequence number of the first row. A bucket that is replaced begins anew (`spec/observed.md`, Merge engines).
async fn next_sequence(run: &WriteRun, partition: &[u8], bucket: i32) -> Result<i64> {
    let target = run.target();
    if target.replaces() {
        return Ok(0);
    }
    let existing = Box::pin(run.existing()).await?;
    existing.check_total(partition, &target.describe_partition(partition), target.mode().total_buckets())?;
    debug_assert!(bucket >= 0 || bucket == POSTPONE_BUCKET);
    Ok(existing.next_sequence(partition, bucket))
}

/// Writes the bucket's hash index anew if it has new keys.
async fn add_hash_index(run: &WriteRun, message: &mut CommitMessage, partition: &Arc<[u8]>, bucket: i32) -> Result<()> {
    let (target, Some(assigner)) = (run.target(), run.assigner()) else { return Ok(()) };
    if target.mode() != BucketMode::Dynamic {
        return Ok(());
    }
    let added = assigner.lock().await.take_added(partition, bucket);
    if added.is_empty() {
        return Ok(());
    }
    let files = target.table().files();
    let partition_path = target.partition_path(partition)?;
    let mut hashes = Vec::new();
    if !target.replaces()
        && let Some(old) = Box::pin(run.existing()).await?.hash_index(partition, bucket)
    {
        hashes = read_hashes(target.table(), &partition_path, old).await?;
        message.deleted_index_files.push(old.clone());
    }
    hashes.extend(added);
    let row_count = hashes.len() as i64;
    let bytes = encode_hash_index(hashes);
    let file_name = format!("index-{}-0", Uuid::new_v4());
    let path = files.index_path(&partition_path, bucket, &file_name, None)?;
    run.own_files().add(path.clone());
    let file_size = bytes.len() as i64;
    files.overwrite(&path, bytes).await?;
    message.new_index_files.push(IndexEntry {
        kind: 0,
        partition: Arc::clone(partition),
        bucket,
        index_type: HASH_INDEX.to_owned(),
        file_name,
        file_size,
        row_count,
        dv_ranges: None,
        external_path: None,
        global_index: None,
    });
    Ok(())
}
