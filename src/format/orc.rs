//! ORC files (`spec/data.md 1.5`): stripes are read one by one, those without a selected row are not read at all.
//!
//! CHAR values come without trailing blanks, as from a Java reader; TIME is an integer of milliseconds. Timestamps are decoded
//! exactly, as nanoseconds in DECIMAL(38, 9), since ORC's range is wider than arrow's.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, StringArray};
use arrow::datatypes::{DataType as ArrowType, Field, Schema, SchemaRef};
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use orc_rust::array_decoder::{ArrayBatchDecoder, array_decoder_factory};
use orc_rust::error::OrcError;
use orc_rust::projection::ProjectionMask;
use orc_rust::reader::AsyncChunkReader;
use orc_rust::reader::metadata::{FileMetadata, read_metadata_async};
use orc_rust::schema::{DataType as OrcType, RootDataType};
use orc_rust::stripe::Stripe;

use super::conform::{conform_batch, list_of, map_of, struct_of};
use super::parquet::nullable_fields;
use super::{BatchStream, FileRead, rows};
use crate::error::{Error, Result};
use crate::spec::DataField;
use crate::spec::types::arrow_schema;

/// Streams of a stripe are small and lie side by side: a request reads at least this much.
const READ_AHEAD: u64 = 1 << 20;
/// Fewer rows than this between two selected ones are decoded and dropped.
const WORTH_SKIPPING: u64 = 1024;

fn failed(error: OrcError) -> Error {
    if let OrcError::IoError { source, .. } = &error
        && let Some(store) = source.get_ref().and_then(|inner| inner.downcast_ref::<object_store::Error>())
        && matches!(store, object_store::Error::NotFound { .. })
    {
        return Error::not_found("the file does not exist").with_source(error);
    }
    Error::corrupt("the ORC file can't be decoded").with_source(error)
}

/// Reads ranges of the file, a little ahead.
struct Chunks {
    store: Arc<dyn ObjectStore>,
    path: Path,
    size: u64,
    start: u64,
    bytes: Bytes,
}

impl Chunks {
    async fn read(&mut self, offset: u64, length: u64) -> std::io::Result<Bytes> {
        let end = offset.checked_add(length).filter(|end| *end <= self.size).ok_or_else(|| {
            std::io::Error::new(
                std::io::ErrorKind::UnexpectedEof,
                format!("{length} bytes at {offset} are beyond the file's {} bytes", self.size),
            )
        })?;
        let held = self.start..self.start + self.bytes.len() as u64;
        if offset < held.start || end > held.end {
            let ahead = end.max(offset.saturating_add(READ_AHEAD)).min(self.size);
            self.bytes = self.store.get_range(&self.path, offset..ahead).await.map_err(std::io::Error::other)?;
            self.start = offset;
            if (self.bytes.len() as u64) < length {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
        }
        let from = (offset - self.start) as usize;
        Ok(self.bytes.slice(from..from + length as usize))
    }
}

impl AsyncChunkReader for Chunks {
    fn len(&mut self) -> BoxFuture<'_, std::io::Result<u64>> {
        std::future::ready(Ok(self.size)).boxed()
    }

    fn get_bytes(&mut self, offset_from_start: u64, length: u64) -> BoxFuture<'_, std::io::Result<Bytes>> {
        self.read(offset_from_start, length).boxed()
    }
}

/// A stripe that is being decoded. Its columns are driven here and not by the crate's own stripe decoder, which loses count in a
/// selected run that is longer than a batch.
struct Decoding {
    decoders: Vec<Box<dyn ArrayBatchDecoder>>,
    /// Positions in the file: where the decoders are, and what is worth decoding.
    row: u64,
    window: Range<u64>,
    windows: std::vec::IntoIter<Range<u64>>,
}

impl Decoding {
    /// At most `batch_size` rows and the position of the first one; `None` at the end of the last window.
    fn next(&mut self, batch_size: usize, layout: &SchemaRef) -> Result<Option<(u64, RecordBatch)>> {
        if self.window.is_empty() {
            let Some(window) = self.windows.next() else { return Ok(None) };
            self.window = window;
        }
        if self.window.start > self.row {
            let skipped = (self.window.start - self.row) as usize;
            for decoder in &mut self.decoders {
                decoder.skip_values(skipped, None).map_err(failed)?;
            }
        }
        let start = self.window.start;
        let rows = (self.window.end - start).min(batch_size as u64);
        let mut columns = Vec::with_capacity(self.decoders.len());
        for decoder in &mut self.decoders {
            let column = decoder.next_batch(rows as usize, None).map_err(failed)?;
            if column.len() as u64 != rows {
                return Err(Error::corrupt("a stripe of the ORC file has fewer rows than its footer says"));
            }
            columns.push(column);
        }
        self.window.start += rows;
        self.row = self.window.start;
        let options = RecordBatchOptions::new().with_row_count(Some(rows as usize));
        let batch = RecordBatch::try_new_with_options(Arc::clone(layout), columns, &options)
            .map_err(|error| Error::corrupt("an ORC column was decoded as something else").with_source(error))?;
        Ok(Some((start, batch)))
    }
}

struct OrcFile {
    chunks: Chunks,
    metadata: FileMetadata,
    root: RootDataType,
    layout: SchemaRef,
    fields: Vec<DataField>,
    target: SchemaRef,
    selection: Option<Vec<Range<u64>>>,
    batch_size: usize,
    stripe: usize,
    next_row: u64,
    decoding: Option<Decoding>,
}

pub(super) async fn open(read: FileRead) -> Result<BatchStream> {
    let mut chunks = Chunks {
        store: Arc::clone(&read.store),
        path: read.path.clone(),
        size: read.size,
        start: 0,
        bytes: Bytes::new(),
    };
    let metadata = read_metadata_async(&mut chunks).await.map_err(failed)?;
    let total = metadata
        .stripe_metadatas()
        .iter()
        .try_fold(0_u64, |sum, stripe| sum.checked_add(stripe.number_of_rows()))
        .filter(|sum| *sum == metadata.number_of_rows())
        .ok_or_else(|| Error::corrupt("the ORC footer and its stripes differ in the number of rows"))?;
    rows::check_within(read.selection.as_deref(), total)?;
    let names: Vec<&str> = read.fields.iter().map(|field| field.name.as_str()).collect();
    let mask = ProjectionMask::named_roots(metadata.root_data_type(), &names);
    let root = metadata.root_data_type().project(&mask);
    let layout = root
        .children()
        .iter()
        .map(|column| Ok(Field::new(column.name(), layout(column.data_type())?, true)))
        .collect::<Result<Vec<_>>>()?;
    let file = OrcFile {
        chunks,
        metadata,
        root,
        layout: Arc::new(Schema::new(layout)),
        target: arrow_schema(&nullable_fields(&read.fields)),
        fields: read.fields,
        selection: read.selection,
        batch_size: read.batch_size.max(1),
        stripe: 0,
        next_row: 0,
        decoding: None,
    };
    Ok(stream::try_unfold(file, |mut file| async move { Ok(file.next().await?.map(|batch| (batch, file))) }).boxed())
}

impl OrcFile {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if self.decoding.is_none() && !self.open_stripe().await? {
                return Ok(None);
            }
            if let Some(batch) = self.decode()? {
                return Ok(Some(batch));
            }
        }
    }

    /// Opens the next stripe with selected rows; false at the end of the file.
    async fn open_stripe(&mut self) -> Result<bool> {
        while let Some(info) = self.metadata.stripe_metadatas().get(self.stripe) {
            let rows = self.next_row..self.next_row + info.number_of_rows();
            self.stripe += 1;
            self.next_row = rows.end;
            let windows = match &self.selection {
                _ if rows.is_empty() => continue,
                None => vec![rows.clone()],
                Some(ranges) => rows::coarse(ranges, &rows, WORTH_SKIPPING),
            };
            if windows.is_empty() {
                continue;
            }
            let stripe = Stripe::new_async(&mut self.chunks, &self.metadata, &self.root, info).await.map_err(failed)?;
            let decoders = stripe
                .columns()
                .iter()
                .zip(self.layout.fields())
                .map(|(column, field)| array_decoder_factory(column, field.data_type(), &stripe).map_err(failed))
                .collect::<Result<Vec<_>>>()?;
            self.decoding = Some(Decoding { decoders, row: rows.start, window: 0..0, windows: windows.into_iter() });
            return Ok(true);
        }
        Ok(false)
    }

    /// The next batch of the stripe, `None` when it is over or the batch has no selected row.
    fn decode(&mut self) -> Result<Option<RecordBatch>> {
        let Some(decoding) = &mut self.decoding else { return Ok(None) };
        let Some((start, batch)) = decoding.next(self.batch_size, &self.layout)? else {
            self.decoding = None;
            return Ok(None);
        };
        let Some(batch) = rows::keep(batch, start, self.selection.as_deref())? else { return Ok(None) };
        let batch = trimmed(batch, &self.root)?;
        conform_batch(&batch, &self.fields, &self.target).map(Some)
    }
}

/// What to decode a column into.
fn layout(orc: &OrcType) -> Result<ArrowType> {
    Ok(match orc {
        OrcType::Boolean { .. } => ArrowType::Boolean,
        OrcType::Byte { .. } => ArrowType::Int8,
        OrcType::Short { .. } => ArrowType::Int16,
        OrcType::Int { .. } => ArrowType::Int32,
        OrcType::Long { .. } => ArrowType::Int64,
        OrcType::Float { .. } => ArrowType::Float32,
        OrcType::Double { .. } => ArrowType::Float64,
        OrcType::String { .. } | OrcType::Varchar { .. } | OrcType::Char { .. } => ArrowType::Utf8,
        OrcType::Binary { .. } => ArrowType::Binary,
        OrcType::Decimal { precision, scale, .. } => match (u8::try_from(*precision), i8::try_from(*scale)) {
            (Ok(precision @ 1..=38), Ok(scale @ 0..=38)) => ArrowType::Decimal128(precision, scale),
            _ => return Err(Error::corrupt(format!("ORC has no DECIMAL({precision}, {scale})"))),
        },
        OrcType::Timestamp { .. } | OrcType::TimestampWithLocalTimezone { .. } => ArrowType::Decimal128(38, 9),
        OrcType::Date { .. } => ArrowType::Date32,
        OrcType::Struct { children, .. } => ArrowType::Struct(
            children
                .iter()
                .map(|child| Ok(Field::new(child.name(), layout(child.data_type())?, true)))
                .collect::<Result<_>>()?,
        ),
        OrcType::List { child, .. } => ArrowType::List(Arc::new(Field::new("element", layout(child)?, true))),
        OrcType::Map { key, value, .. } => {
            let key = Field::new("key", layout(key)?, false);
            let value = Field::new("value", layout(value)?, true);
            let entries = Field::new("entries", ArrowType::Struct(vec![key, value].into()), false);
            ArrowType::Map(Arc::new(entries), false)
        }
        OrcType::Union { .. } => return Err(Error::unsupported("ORC unions can't be read")),
    })
}

fn holds_char(orc: &OrcType) -> bool {
    match orc {
        OrcType::Char { .. } => true,
        OrcType::Struct { children, .. } => children.iter().any(|child| holds_char(child.data_type())),
        OrcType::List { child, .. } => holds_char(child),
        OrcType::Map { key, value, .. } => holds_char(key) || holds_char(value),
        _ => false,
    }
}

/// CHAR columns without trailing blanks.
fn trimmed(batch: RecordBatch, root: &RootDataType) -> Result<RecordBatch> {
    if !root.children().iter().any(|column| holds_char(column.data_type())) {
        return Ok(batch);
    }
    let columns = root
        .children()
        .iter()
        .zip(batch.columns())
        .map(|(column, array)| trimmed_array(array, column.data_type()))
        .collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(batch.schema(), columns, &options)?)
}

fn trimmed_array(array: &ArrayRef, orc: &OrcType) -> Result<ArrayRef> {
    if !holds_char(orc) {
        return Ok(Arc::clone(array));
    }
    Ok(match (orc, array.data_type()) {
        (OrcType::Char { .. }, ArrowType::Utf8) => Arc::new(
            array
                .as_string::<i32>()
                .iter()
                .map(|value| value.map(|value| value.trim_end_matches(' ')))
                .collect::<StringArray>(),
        ),
        (OrcType::List { child, .. }, ArrowType::List(field)) => {
            let list = array.as_list::<i32>();
            Arc::new(list_of(field, list, trimmed_array(list.values(), child)?)?)
        }
        (OrcType::Map { key, value, .. }, target @ ArrowType::Map(..)) => {
            let map = array.as_map();
            let (keys, values) = (trimmed_array(map.keys(), key)?, trimmed_array(map.values(), value)?);
            Arc::new(map_of(target, map, keys, values)?)
        }
        (OrcType::Struct { children, .. }, ArrowType::Struct(fields)) => {
            let row = array.as_struct();
            let columns = children
                .iter()
                .zip(row.columns())
                .map(|(child, column)| trimmed_array(column, child.data_type()))
                .collect::<Result<Vec<_>>>()?;
            Arc::new(struct_of(fields, columns, row.nulls().cloned(), row.len())?)
        }
        (_, found) => return Err(Error::corrupt(format!("an ORC column was decoded as {found}"))),
    })
}
