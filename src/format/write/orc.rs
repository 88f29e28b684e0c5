//! ORC files (`spec/data.md 1.5`), encoded with orc-rust for the types that it has ([`super::types`]).
//!
//! TIME is an integer of milliseconds. TIMESTAMP_LTZ is an instant with `orc.timestamp-ltz.legacy.type` false; by default it is
//! the wall clock of the writer's zone, which is UTC here.

use std::io::Write;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions};
use arrow::compute::cast;
use arrow::datatypes::{DataType as ArrowType, Field, Int32Type, Schema, SchemaRef, Time32MillisecondType};
use bytes::Bytes;
use orc_rust::arrow_writer::ArrowWriterBuilder;
use orc_rust::compression::CompressionType;
use orc_rust::error::OrcError;
use orc_rust::reader::metadata::read_metadata;

use super::orc_footer::{CHUNK, MAGIC, StripeEntry, tail};
use super::sink::Sink;
use super::types::REMEDY;
use super::{Encoder, FileWrite};
use crate::error::{Error, Result};
use crate::format::conform::{timestamp_ticks, timestamps_from};
use crate::options::{OptionValue, WriteOptions};
use crate::spec::DataField;
use crate::spec::types::arrow_schema;

/// Bytes of a stripe, unless told; Java's default.
const STRIPE_BYTES: u64 = 64 << 20;
/// What encoding makes of the bytes in memory, before there is a stripe to tell by: one in so many.
const GUESSED_RATIO: u64 = 3;

fn failed(error: OrcError) -> Error {
    Error::internal("rows can't be encoded as ORC").with_source(error)
}

/// Gathers the rows of a stripe and encodes it at once: the writer of orc-rust stays in its thread, and what it makes of one stripe
/// is a stripe of this file.
pub(super) struct OrcEncoder {
    sink: Sink,
    fields: Arc<[DataField]>,
    schema: SchemaRef,
    compression: Option<CompressionType>,
    is_legacy: bool,
    /// Bytes of a stripe, as they are in memory.
    limit: u64,
    /// The rows of the stripe in the making, and their bytes.
    batches: Vec<RecordBatch>,
    held: u64,
    /// Bytes of finished stripes as they were in memory.
    seen: u64,
    stripes: Vec<StripeEntry>,
    /// Where the next stripe starts.
    offset: u64,
}

impl OrcEncoder {
    pub fn new(write: &FileWrite, sink: Sink) -> Result<Self> {
        let options = &write.options;
        let is_legacy = match options.all.get("orc.timestamp-ltz.legacy.type") {
            Some(text) => bool::from_text(text.trim()).ok_or_else(|| {
                Error::invalid(format!("option orc.timestamp-ltz.legacy.type = '{text}' must be true or false"))
            })?,
            None => true,
        };
        let fields: Vec<Field> = arrow_schema(&write.fields)
            .fields()
            .iter()
            .map(|field| {
                let data_type = match field.data_type() {
                    ArrowType::Utf8View => ArrowType::Utf8,
                    ArrowType::BinaryView => ArrowType::Binary,
                    ArrowType::Time32(_) => ArrowType::Int32,
                    ArrowType::Timestamp(unit, Some(_)) if is_legacy => ArrowType::Timestamp(*unit, None),
                    other => other.clone(),
                };
                Field::new(field.name(), data_type, true)
            })
            .collect();
        let compression = compression(write, options)?;
        let encoder = Self {
            sink,
            fields: Arc::clone(&write.fields),
            schema: Arc::new(Schema::new(fields)),
            compression,
            is_legacy,
            limit: stripe_size(options)?,
            batches: Vec::new(),
            held: 0,
            seen: 0,
            stripes: Vec::new(),
            offset: MAGIC.len() as u64,
        };
        encoder.send(MAGIC)?;
        Ok(encoder)
    }

    fn send(&self, bytes: &[u8]) -> Result<()> {
        self.sink
            .clone()
            .write_all(bytes)
            .map_err(|error| Error::internal("bytes could not be kept").with_source(error))
    }

    /// A whole file of the rows that were gathered.
    fn encode(&self, batches: &[RecordBatch]) -> Result<Vec<u8>> {
        let mut file = Vec::new();
        let mut builder = ArrowWriterBuilder::new(&mut file, Arc::clone(&self.schema))
            .with_stripe_byte_size(usize::MAX)
            .with_compression_block_size(CHUNK);
        if let Some(compression) = self.compression {
            builder = builder.with_compression(compression);
        }
        let mut writer = builder.try_build().map_err(failed)?;
        for batch in batches {
            writer.write(batch).map_err(failed)?;
        }
        writer.close().map_err(failed)?;
        Ok(file)
    }
}

impl Encoder for OrcEncoder {
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let columns = batch
            .columns()
            .iter()
            .zip(self.schema.fields())
            .map(|(array, field)| {
                converted(array, field.data_type()).map_err(|error| error.with("column", field.name().clone()))
            })
            .collect::<Result<Vec<ArrayRef>>>()?;
        let bytes = columns
            .iter()
            .try_fold(0_u64, |sum, column| Ok::<_, Error>(sum + column.to_data().get_slice_memory_size()? as u64))?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        self.batches.push(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?);
        self.held += bytes;
        if self.held >= self.limit { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        let batches = std::mem::take(&mut self.batches);
        if batches.is_empty() {
            return Ok(());
        }
        let mut file = Bytes::from(self.encode(&batches)?);
        let metadata = read_metadata(&mut file).map_err(failed)?;
        for stripe in metadata.stripe_metadatas() {
            let entry = StripeEntry {
                offset: self.offset,
                index_length: stripe.index_length(),
                data_length: stripe.data_length(),
                footer_length: stripe.footer_length(),
                rows: stripe.number_of_rows(),
            };
            let (start, length) = (stripe.offset() as usize, entry.length() as usize);
            let bytes = start.checked_add(length).and_then(|end| file.get(start..end));
            self.send(bytes.ok_or_else(|| Error::internal("a stripe lies outside of its file"))?)?;
            self.offset += entry.length();
            self.stripes.push(entry);
        }
        self.seen += std::mem::take(&mut self.held);
        Ok(())
    }

    fn pending(&self) -> u64 {
        let written = self.offset - MAGIC.len() as u64;
        match self.seen {
            0 => self.held / GUESSED_RATIO,
            seen => (u128::from(self.held) * u128::from(written) / u128::from(seen)) as u64,
        }
    }

    fn memory(&self) -> usize {
        self.held as usize
    }

    fn finish(&mut self) -> Result<()> {
        self.flush()?;
        let codec = match self.compression {
            None => 0,
            Some(CompressionType::Zlib) => 1,
            Some(CompressionType::Snappy) => 2,
            Some(CompressionType::Lzo) => 3,
            Some(CompressionType::Lz4) => 4,
            Some(CompressionType::Zstd) => 5,
        };
        self.send(&tail(&self.fields, &self.stripes, codec, self.is_legacy))
    }
}

fn converted(array: &ArrayRef, target: &ArrowType) -> Result<ArrayRef> {
    Ok(match (array.data_type(), target) {
        (ArrowType::Time32(_), ArrowType::Int32) => {
            let times = array.as_primitive_opt::<Time32MillisecondType>();
            let times = times.ok_or_else(|| Error::internal("a TIME is not in milliseconds"))?;
            Arc::new(times.reinterpret_cast::<Int32Type>())
        }
        (ArrowType::Timestamp(..), ArrowType::Timestamp(..)) => {
            let (ticks, per_second) = timestamp_ticks(array).ok_or_else(|| Error::internal("a timestamp is none"))?;
            // The format has no value for these: Java's writer makes them a second late.
            if ticks.iter().flatten().any(|tick| tick < 0 && tick >= per_second / 1000 - per_second) {
                return Err(Error::unsupported(format!(
                    "ORC files can't hold timestamps within the second before 1970; {REMEDY}"
                )));
            }
            if array.data_type() == target { Arc::clone(array) } else { timestamps_from(&ticks, target)? }
        }
        (found, target) if found == target => Arc::clone(array),
        _ => cast(array, target)?,
    })
}

fn stripe_size(options: &WriteOptions) -> Result<u64> {
    let own = match options.all.get("orc.stripe.size") {
        Some(text) => match crate::options::parse_size(text) {
            Some(size) => Some(size),
            None => return Err(Error::invalid(format!("option orc.stripe.size = '{text}' must be a memory size"))),
        },
        None => None,
    };
    Ok(own.or(options.block_size).unwrap_or(STRIPE_BYTES).max(1))
}

fn compression(write: &FileWrite, options: &WriteOptions) -> Result<Option<CompressionType>> {
    let name = options.all.get("orc.compress").map_or(write.compression.as_str(), String::as_str).to_ascii_lowercase();
    Ok(Some(match name.as_str() {
        "none" | "uncompressed" | "" => return Ok(None),
        "zlib" | "deflate" | "gzip" => CompressionType::Zlib,
        "snappy" => CompressionType::Snappy,
        "lz4" => CompressionType::Lz4,
        "zstd" => CompressionType::Zstd,
        other => {
            return Err(Error::unsupported(format!(
                "ORC files can't be compressed with '{other}'; set file.compression to one of none, zlib, snappy, lz4 and zstd"
            )));
        }
    }))
}
