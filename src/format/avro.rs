//! Avro object container files (`spec/data.md 1.5`).
//!
//! The file is read whole and its blocks are walked first: the decoder would take a file that ends in the middle of a block for
//! a shorter one. Positions are counted, selected rows are filtered.

use std::ops::Range;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType as ArrowType, SchemaRef};
use arrow_avro::reader::{Reader, ReaderBuilder};
use bytes::buf::Reader as BytesReader;
use bytes::{Buf, Bytes};
use futures::{StreamExt, stream};
use object_store::ObjectStoreExt;
use serde_json::{Value, json};

use super::conform::conform_batch;
use super::parquet::nullable_fields;
use super::{BatchStream, FileRead, rows};
use crate::error::{Error, Result};
use crate::spec::DataField;
use crate::spec::types::arrow_schema;

const MAGIC: &[u8] = b"Obj\x01";

/// The whole file.
///
/// # Errors
/// Corrupt when the file is not as long as the manifest says.
pub(super) async fn read_whole(read: &FileRead) -> Result<Bytes> {
    let bytes = read.store.get(&read.path).await?.bytes().await?;
    if bytes.len() as u64 != read.size {
        return Err(Error::corrupt(format!("the file has {} bytes, not {}", bytes.len(), read.size)));
    }
    Ok(bytes)
}

struct AvroFile {
    reader: Reader<BytesReader<Bytes>>,
    /// Whether a row is the one column of the reader's batches.
    is_wrapped: bool,
    fields: Vec<DataField>,
    target: SchemaRef,
    selection: Option<Vec<Range<u64>>>,
    rows: u64,
    next_row: u64,
}

pub(super) async fn open(read: FileRead) -> Result<BatchStream> {
    let bytes = read_whole(&read).await?;
    let Survey { columns, rows, wrapped } = survey(&bytes)?;
    let is_wrapped = wrapped.is_some();
    let bytes = wrapped.unwrap_or(bytes);
    rows::check_within(read.selection.as_deref(), rows)?;
    let mut projection: Vec<usize> =
        read.fields.iter().filter_map(|field| columns.iter().position(|column| *column == field.name)).collect();
    projection.sort_unstable();
    projection.dedup();
    if projection.is_empty() && !columns.is_empty() {
        // Rows are only counted by decoding some column.
        projection.push(0);
    }
    let mut builder = ReaderBuilder::new().with_batch_size(read.batch_size.max(1));
    if projection.len() < columns.len() && !is_wrapped {
        builder = builder.with_projection(projection);
    }
    let reader = builder.build(bytes.reader()).map_err(failed)?;
    let file = AvroFile {
        reader,
        is_wrapped,
        target: arrow_schema(&nullable_fields(&read.fields)),
        fields: read.fields,
        selection: read.selection,
        rows,
        next_row: 0,
    };
    Ok(stream::try_unfold(file, |mut file| {
        // Decoding is no I/O: the future is ready at once.
        std::future::ready(file.next().map(|batch| batch.map(|batch| (batch, file))))
    })
    .boxed())
}

fn failed(error: arrow::error::ArrowError) -> Error {
    Error::corrupt("the Avro file can't be decoded").with_source(error)
}

impl AvroFile {
    fn next(&mut self) -> Result<Option<RecordBatch>> {
        for batch in self.reader.by_ref() {
            let mut batch = batch.map_err(failed)?;
            if self.is_wrapped {
                batch = match batch.columns() {
                    [row] if matches!(row.data_type(), ArrowType::Struct(_)) && row.null_count() == 0 => {
                        RecordBatch::from(row.as_struct())
                    }
                    _ => return Err(Error::corrupt("the Avro file holds NULL for a row")),
                };
            }
            let start = self.next_row;
            self.next_row += batch.num_rows() as u64;
            if let Some(batch) = rows::keep(batch, start, self.selection.as_deref())? {
                return conform_batch(&batch, &self.fields, &self.target).map(Some);
            }
        }
        if self.next_row != self.rows {
            return Err(Error::corrupt(format!(
                "the Avro blocks hold {} rows, but {} were decoded",
                self.rows, self.next_row
            )));
        }
        Ok(None)
    }
}

/// What a walk over the blocks tells.
struct Survey {
    /// The names of the columns.
    columns: Vec<String>,
    rows: u64,
    /// The file with another header, where rows are a union of null and record: writers up to 0.9 made those, and the decoder
    /// takes records only. One record with that union as its only field has the same bytes.
    wrapped: Option<Bytes>,
}

/// Walks header, blocks and sync markers, to the last byte.
fn survey(bytes: &[u8]) -> Result<Survey> {
    let mut rest = Cursor { bytes };
    if rest.take(4)? != MAGIC {
        return Err(Error::corrupt("the Avro file does not begin with its magic bytes"));
    }
    let (mut schema, mut codec) = (None, None);
    loop {
        let mut count = rest.long()?;
        if count == 0 {
            break;
        }
        if count < 0 {
            // A negative count has the length of the block behind it.
            count = count.checked_neg().ok_or_else(bad_header)?;
            rest.long()?;
        }
        for _ in 0..count {
            let key = rest.sized()?;
            let value = rest.sized()?;
            match key {
                b"avro.schema" => schema = Some(value),
                b"avro.codec" => codec = Some(value),
                _ => {}
            }
        }
    }
    let sync = rest.take(16)?;
    let blocks = rest.bytes;
    let mut rows = 0_u64;
    while !rest.bytes.is_empty() {
        let count = u64::try_from(rest.long()?).map_err(|_| Error::corrupt("an Avro block has less than no rows"))?;
        rows = rows.checked_add(count).ok_or_else(|| Error::corrupt("the Avro file has too many rows"))?;
        rest.sized()?;
        if rest.take(16)? != sync {
            return Err(Error::corrupt("an Avro block does not end with the sync marker of the file"));
        }
    }
    let schema = schema.ok_or_else(bad_header)?;
    let schema: Value = serde_json::from_slice(schema)
        .map_err(|error| Error::corrupt("the schema in the Avro header is not JSON").with_source(error))?;
    let record = match &schema {
        Value::Array(branches) => branches.iter().find(|branch| branch.is_object()),
        _ => Some(&schema),
    };
    let columns = record
        .and_then(|record| record.get("fields"))
        .and_then(Value::as_array)
        .and_then(|fields| {
            fields.iter().map(|field| field.get("name").and_then(Value::as_str).map(str::to_owned)).collect()
        })
        .ok_or_else(|| Error::corrupt("the schema in the Avro header is not a record"))?;
    let wrapped = schema.is_array().then(|| {
        let wrapper = json!({"type": "record", "name": "wrapper", "fields": [{"name": "row", "type": schema}]});
        let mut file = MAGIC.to_vec();
        put_long(if codec.is_some() { 2 } else { 1 }, &mut file);
        put_sized(b"avro.schema", &mut file);
        put_sized(wrapper.to_string().as_bytes(), &mut file);
        if let Some(codec) = codec {
            put_sized(b"avro.codec", &mut file);
            put_sized(codec, &mut file);
        }
        put_long(0, &mut file);
        file.extend_from_slice(sync);
        file.extend_from_slice(blocks);
        Bytes::from(file)
    });
    Ok(Survey { columns, rows, wrapped })
}

fn put_long(value: i64, out: &mut Vec<u8>) {
    let mut rest = ((value << 1) ^ (value >> 63)) as u64;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

fn put_sized(bytes: &[u8], out: &mut Vec<u8>) {
    put_long(bytes.len() as i64, out);
    out.extend_from_slice(bytes);
}

fn bad_header() -> Error {
    Error::corrupt("the Avro header is broken")
}

struct Cursor<'a> {
    bytes: &'a [u8],
}

impl<'a> Cursor<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let (taken, rest) =
            self.bytes.split_at_checked(length).ok_or_else(|| Error::corrupt("the Avro file ends in the middle"))?;
        self.bytes = rest;
        Ok(taken)
    }

    /// A zig-zag number of variable length.
    fn long(&mut self) -> Result<i64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let [byte] = *self.take(1)? else { return Err(bad_header()) };
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok((value >> 1) as i64 ^ -((value & 1) as i64));
            }
        }
        Err(Error::corrupt("a number in the Avro file is too long"))
    }

    fn sized(&mut self) -> Result<&'a [u8]> {
        let length =
            usize::try_from(self.long()?).map_err(|_| Error::corrupt("a length in the Avro file is negative"))?;
        self.take(length)
    }
}
