//! Writing one data file, whatever its format.
//!
//! ```text
//! FileWrite {store, path, format, fields} --open--> FileWriter --write(batch)*, finish--> size of the file
//!     batches -> Encoder (parquet, avro, orc, text) -> Sink -> upload in parts
//! ```
//!
//! Encoding is done where the caller runs, a batch at a time, as the engine does it; what is encoded goes to the store as soon
//! as it fills a part. What waits in memory is told to the memory pool; where the pool has no more, what was gathered is
//! written out early.
//!
//! A file is there when [`FileWriter::finish`] has returned. A writer that is dropped before leaves nothing behind that a
//! reader could see, and tells the store to forget the parts it has.
//!
//! May import: `error`, `options`, `spec`.

mod avro;
mod copied_columns;
mod int96;
mod orc;
mod orc_footer;
mod parquet;
mod parquet_schema;
mod sink;
#[cfg(test)]
mod tests;
mod types;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::datatypes::{Schema, SchemaRef};
use bytes::Bytes;
use datafusion::execution::memory_pool::{MemoryLimit, MemoryReservation};
use object_store::ObjectStore;
use object_store::buffered::BufWriter;
use object_store::path::Path;
use tokio::io::AsyncWriteExt;

use self::sink::Sink;
pub(crate) use self::types::check_types;
use super::FileFormat;
use crate::error::{Error, ErrorKind, Result};
use crate::options::WriteOptions;
use crate::spec::DataField;
use crate::spec::types::arrow_schema;

/// Bytes that are gathered before they are sent.
const PART: usize = 8 << 20;
/// Parts that are on their way at once.
const PARTS_AT_ONCE: usize = 4;
/// The part of a limited memory pool that is left free for others.
const PART_LEFT_FREE: usize = 16;
/// Most of it, in bytes.
const MOST_LEFT_FREE: usize = 16 << 20;

/// What turns batches into the bytes of a file. The bytes go to the [`Sink`] it was made with.
trait Encoder: Send {
    /// Takes rows.
    fn write(&mut self, batch: &RecordBatch) -> Result<()>;

    /// Gives what was gathered to the sink, to free memory: the file has more row groups then.
    fn flush(&mut self) -> Result<()>;

    /// Bytes that what was gathered will have in the file, about.
    fn pending(&self) -> u64;

    /// Bytes of memory in use.
    fn memory(&self) -> usize;

    /// Gives the rest to the sink, with the end of the file.
    fn finish(&mut self) -> Result<()>;
}

/// A file to write.
pub struct FileWrite {
    /// The store to write to.
    pub store: Arc<dyn ObjectStore>,
    /// The file in the store.
    pub path: Path,
    /// Its format.
    pub format: FileFormat,
    /// Its codec, as the option `file.compression` names it.
    pub compression: String,
    /// Its columns in order, with their field ids.
    pub fields: Arc<[DataField]>,
    /// Columns that have the values of an earlier one in every row, each with the position of that one.
    pub repeated: Vec<(usize, usize)>,
    /// Columns whose values hardly repeat from row to row, so that a dictionary of them is in vain.
    pub distinct: Vec<usize>,
    /// The options of its table.
    pub options: Arc<WriteOptions>,
    /// Where memory is accounted.
    pub reservation: MemoryReservation,
    /// How much memory there is for all.
    pub memory_limit: MemoryLimit,
}

impl FileWrite {
    /// A writer of the file. Nothing is sent to the store yet.
    ///
    /// # Errors
    /// Unsupported when the format or its codec can't be written, or can't hold a column's type; the error names the column.
    pub fn open(self) -> Result<FileWriter> {
        let path = self.path.to_string();
        let sink = Sink::default();
        check_types(self.format, &self.fields)?;
        let encoder: Box<dyn Encoder> = match self.format {
            FileFormat::Avro => Box::new(avro::AvroEncoder::new(&self, sink.clone())?),
            FileFormat::Orc => Box::new(orc::OrcEncoder::new(&self, sink.clone())?),
            _ => Box::new(parquet::ParquetEncoder::new(&self, sink.clone())?),
        };
        let upload = BufWriter::with_capacity(self.store, self.path, PART).with_max_concurrency(PARTS_AT_ONCE);
        Ok(FileWriter {
            path,
            schema: arrow_schema(&self.fields),
            encoder,
            sink,
            upload: Some(upload),
            sent: 0,
            is_sound: true,
            reservation: self.reservation,
            left_free: match self.memory_limit {
                MemoryLimit::Finite(limit) => (limit / PART_LEFT_FREE).min(MOST_LEFT_FREE),
                _ => 0,
            },
        })
    }
}

/// Writes one file.
pub struct FileWriter {
    path: String,
    schema: SchemaRef,
    encoder: Box<dyn Encoder>,
    sink: Sink,
    /// None once the file is whole, or given up.
    upload: Option<BufWriter>,
    /// Bytes given to the upload.
    sent: u64,
    /// Whether nothing failed so far: an encoder that failed is in no state to go on.
    is_sound: bool,
    reservation: MemoryReservation,
    /// Bytes of a limited pool that are not taken to make row groups larger.
    left_free: usize,
}

impl FileWriter {
    /// The arrow schema of the batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Bytes that the file has or will have, about.
    pub fn size(&self) -> u64 {
        self.sent + self.sink.len() as u64 + self.encoder.pending()
    }

    /// Takes rows: a batch of the columns in order, in their arrow types.
    ///
    /// # Errors
    /// Invalid for NULL in a column that is NOT NULL, Io when the store failed, exhausted when the memory pool is. The file
    /// can't be finished then.
    pub async fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.take(batch)?;
        self.settle().await
    }

    /// The first half of [`Self::write`], which computes: takes rows. [`Self::settle`] is to follow.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn take(&mut self, batch: &RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        self.check(batch)?;
        self.encode(|encoder| encoder.write(batch))
    }

    /// The second half of [`Self::write`], which waits: accounts for what was taken, and sends what is complete.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub async fn settle(&mut self) -> Result<()> {
        if self.account().is_err() {
            self.encode(|encoder| encoder.flush())?;
            self.send().await?;
            self.account().map_err(|error| {
                self.at(Error::new(ErrorKind::Exhausted, "no memory is left to write a data file").with_source(error))
            })?;
        }
        self.send().await
    }

    /// Writes the end of the file and makes it visible; its size in bytes.
    ///
    /// # Errors
    /// Io when the store failed: the file may or may not be there then.
    pub async fn finish(mut self) -> Result<u64> {
        self.encode(|encoder| encoder.finish())?;
        self.send().await?;
        let Some(mut upload) = self.upload.take() else { return Err(self.at(closed())) };
        upload.shutdown().await.map_err(|error| self.at(failed_upload(error)))?;
        Ok(self.sent)
    }

    /// Gives the file up.
    pub async fn abort(mut self) {
        if let Some(mut upload) = self.upload.take() {
            // Best effort: the parts of an upload that was not completed are no file.
            let _ = upload.abort().await;
        }
    }

    fn at(&self, error: Error) -> Error {
        super::at_file(error, &self.path)
    }

    fn check(&self, batch: &RecordBatch) -> Result<()> {
        let columns = batch.columns();
        let is_as_declared = columns.len() == self.schema.fields().len()
            && columns.iter().zip(self.schema.fields()).all(|(column, field)| column.data_type() == field.data_type());
        if !is_as_declared {
            return Err(self.at(Error::internal(format!(
                "a batch of {} was given to a file of {}",
                batch.schema_ref(),
                self.schema
            ))));
        }
        check_nulls(&self.schema, columns).map_err(|error| self.at(error))
    }

    /// Encoders of other crates may panic on what they did not expect.
    fn encode(&mut self, work: impl FnOnce(&mut dyn Encoder) -> Result<()>) -> Result<()> {
        if !self.is_sound {
            return Err(self.at(closed()));
        }
        self.is_sound = false;
        let encoder = self.encoder.as_mut();
        let done = std::panic::catch_unwind(AssertUnwindSafe(|| work(encoder)))
            .unwrap_or_else(|panic| Err(super::panicked(panic.as_ref(), ErrorKind::Internal, "encoded")));
        done.map_err(|error| self.at(error))?;
        self.is_sound = true;
        Ok(())
    }

    fn account(&self) -> datafusion::error::Result<()> {
        let waiting = (self.sent as usize).min(PART);
        let held = self.encoder.memory() + self.sink.len() + waiting;
        if held > 2 * self.left_free {
            // Who brings the rows needs memory, too.
            self.reservation.try_resize(held + self.left_free)?;
        }
        self.reservation.try_resize(held)
    }

    async fn send(&mut self) -> Result<()> {
        for bytes in self.sink.take() {
            self.send_bytes(bytes).await?;
        }
        Ok(())
    }

    async fn send_bytes(&mut self, bytes: Bytes) -> Result<()> {
        let length = bytes.len() as u64;
        let Some(upload) = &mut self.upload else { return Err(self.at(closed())) };
        if let Err(error) = upload.put(bytes).await {
            self.is_sound = false;
            return Err(self.at(error.into()));
        }
        self.sent += length;
        Ok(())
    }
}

/// Refuses NULL in columns that are NOT NULL.
///
/// # Errors
/// Invalid, with the column.
pub(crate) fn check_nulls(schema: &Schema, columns: &[ArrayRef]) -> Result<()> {
    for (column, field) in columns.iter().zip(schema.fields()) {
        if !field.is_nullable() && column.logical_null_count() > 0 {
            return Err(Error::invalid(format!("NULL in the column {}, which is NOT NULL", field.name())));
        }
    }
    Ok(())
}

fn closed() -> Error {
    Error::internal("a data file is written to after it failed")
}

/// The error underneath, if there is one: uploads wrap the store's.
fn failed_upload(error: std::io::Error) -> Error {
    match error.downcast::<object_store::Error>() {
        Ok(store) => store.into(),
        Err(error) => Error::new(ErrorKind::Io, "the file could not be written").with_source(error),
    }
}

impl Drop for FileWriter {
    fn drop(&mut self) {
        let Some(mut upload) = self.upload.take() else { return };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let _ = upload.abort().await;
            });
        }
    }
}
