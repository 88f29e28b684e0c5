//! Files one after the other, each up to the target size (`spec/data.md 1.9`).
//!
//! ```text
//! write_key_values(rows, sequence, kinds) | write_rows(rows) -> DataFileWriter -> .. -> finish() -> Vec<DataFileMeta>
//!                                                               full? the next one
//! ```
//!
//! Every file is noted in [`OwnFiles`](super::OwnFiles) before it is opened. After an error the writer is of no use: the file that
//! was being written is given up here, those that were completed are removed with the rest of the write.

use std::sync::Arc;

use arrow::array::{Array, Int8Array, Int64Array, RecordBatch};
use arrow::datatypes::SchemaRef;

use super::context::DataFileContext;
use super::data_file::{Changes, DataFileWriter, FileKind, FileLayout};
use crate::error::{Error, Result};
use crate::spec::DataFileMeta;

/// The size of a file is looked at every so many rows, at least.
const CHECK_ROWS: u64 = 1000;

/// Writes rows of one bucket to as many files as their size asks for.
pub struct RollingWriter {
    context: DataFileContext,
    layout: Arc<FileLayout>,
    /// The file that rows go to.
    current: Option<Box<DataFileWriter>>,
    done: Vec<DataFileMeta>,
    /// Most rows of a file.
    max_rows: u64,
    /// Number of the next row of an append table.
    next_sequence: i64,
    has_failed: bool,
}

impl RollingWriter {
    /// A writer of files of this kind. No file is there before rows are.
    ///
    /// # Errors
    /// Unsupported when the table's format is not known.
    pub fn new(context: DataFileContext, kind: FileKind) -> Result<Self> {
        let next_sequence = match &kind {
            FileKind::Append { first_sequence, .. } => *first_sequence,
            _ => 0,
        };
        let max_rows = match context.options.target_file_rows {
            Some(rows) if !kind.is_compaction() => rows,
            _ => u64::MAX,
        };
        let layout = Arc::new(FileLayout::new(&context, kind)?);
        Ok(Self { context, layout, current: None, done: Vec::new(), max_rows, next_sequence, has_failed: false })
    }

    /// The arrow schema that rows are taken in.
    pub fn schema(&self) -> &SchemaRef {
        self.layout.value_schema()
    }

    /// Number of the next row of an append table.
    pub fn next_sequence(&self) -> i64 {
        self.next_sequence
    }

    /// Takes rows of a key table: its columns in order and, for each row, its sequence number and its kind (`spec/data.md
    /// 1.2`). Rows come sorted by key; in data files each key comes once.
    ///
    /// # Errors
    /// Invalid for NULL in a column that is NOT NULL, Io when the store failed, exhausted when the memory pool is.
    pub async fn write_key_values(
        &mut self,
        rows: &RecordBatch,
        sequence: &Int64Array,
        kinds: &Int8Array,
    ) -> Result<()> {
        if matches!(self.layout.kind, FileKind::Append { .. }) {
            return Err(Error::internal("rows with kinds were given to a writer of append files"));
        }
        if sequence.len() != rows.num_rows() || kinds.len() != rows.num_rows() {
            return Err(Error::internal("rows, sequence numbers and kinds differ in number"));
        }
        if sequence.null_count() + kinds.null_count() > 0 {
            return Err(Error::internal("a sequence number or a row kind is NULL"));
        }
        self.write(rows, Some((sequence, kinds))).await
    }

    /// Takes rows of an append table: the columns of its files in order.
    ///
    /// # Errors
    /// As [`Self::write_key_values`].
    pub async fn write_rows(&mut self, rows: &RecordBatch) -> Result<()> {
        if !matches!(self.layout.kind, FileKind::Append { .. }) {
            return Err(Error::internal("rows without kinds were given to a writer of key-value files"));
        }
        self.write(rows, None).await
    }

    async fn write(&mut self, rows: &RecordBatch, changes: Option<(&Int64Array, &Int8Array)>) -> Result<()> {
        if self.has_failed {
            return Err(Error::internal("a writer of data files is used after it failed"));
        }
        let result = Box::pin(self.write_parts(rows, changes)).await;
        if let Err(error) = result {
            self.has_failed = true;
            if let Some(current) = self.current.take() {
                current.abort().await;
            }
            return Err(self.context.at(error));
        }
        Ok(())
    }

    async fn write_parts(&mut self, rows: &RecordBatch, changes: Option<(&Int64Array, &Int8Array)>) -> Result<()> {
        let mut start = 0;
        while start < rows.num_rows() {
            let current = match &mut self.current {
                Some(current) => current,
                empty => empty.insert(Box::new(DataFileWriter::open(&self.context, &self.layout)?)),
            };
            let left = (rows.num_rows() - start) as u64;
            let to_check = CHECK_ROWS - current.rows() % CHECK_ROWS;
            let count = part(current, rows, left, self.context.options.target_file_size, self.max_rows) as usize;
            let changed = changes.map(|(sequence, kinds)| (sequence.slice(start, count), kinds.slice(start, count)));
            let changed = changed.as_ref().map(|(sequence, kinds)| Changes { sequence, kinds });
            current.write(&rows.slice(start, count), changed).await?;
            start += count;
            // Between two looks a file may pass its target, however few rows a batch has.
            let is_full = count as u64 >= to_check && current.size() >= self.context.options.target_file_size;
            if is_full || current.rows() >= self.max_rows {
                self.close_current().await?;
            }
        }
        Ok(())
    }

    async fn close_current(&mut self) -> Result<()> {
        let Some(current) = self.current.take() else { return Ok(()) };
        let path = current.path().clone();
        match Box::pin(current.finish(self.next_sequence)).await {
            Ok(meta) => {
                if let FileKind::Append { .. } = &self.layout.kind
                    && !self.layout.kind.is_compaction()
                {
                    self.next_sequence = self.next_sequence.saturating_add(meta.row_count);
                }
                self.done.push(meta);
                Ok(())
            }
            Err(error) => {
                // Whether the store has it or not: nobody will refer to it.
                self.context.own_files.discard(&path).await;
                Err(error)
            }
        }
    }

    /// Completes the last file; all files, in the order of their rows. They belong to [`DataFileContext::own_files`] until
    /// those are kept.
    ///
    /// # Errors
    /// Io when the store failed.
    pub async fn finish(mut self) -> Result<Vec<DataFileMeta>> {
        if self.has_failed {
            return Err(Error::internal("a writer of data files is finished after it failed"));
        }
        match self.close_current().await {
            Ok(()) => Ok(std::mem::take(&mut self.done)),
            Err(error) => Err(self.context.at(error)),
        }
    }
}

/// How many of the rows that are left go to the file before its size is looked at.
fn part(current: &DataFileWriter, batch: &RecordBatch, left: u64, target: u64, max_rows: u64) -> u64 {
    let room = max_rows.saturating_sub(current.rows()).max(1);
    let free = target.saturating_sub(current.size());
    // Bytes of a row: as in the file so far, else as in memory.
    let (bytes, rows) = match current.rows() {
        0 => (batch.get_array_memory_size() as u64, batch.num_rows() as u64),
        rows => (current.size(), rows),
    };
    let fitting = (u128::from(free) * u128::from(rows) / u128::from(bytes.max(1))).min(u128::from(u64::MAX)) as u64;
    let to_check = CHECK_ROWS - current.rows() % CHECK_ROWS;
    left.min(room).min(fitting.max(to_check))
}
