//! Metadata files in other formats than Avro (`manifest.format`, observed.md "Metadata"), told by their first bytes.
//!
//! They are rare and small, so they are rewritten as Avro in memory, and everything else knows Avro only. Avro files
//! with the codec xz go the same way, since arrow-avro can read them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchReader};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, TimeUnit};
use arrow::error::ArrowError;
use arrow_avro::reader::ReaderBuilder;
use arrow_avro::writer::AvroWriter;
use bytes::Bytes;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::codec::Codec;
use super::container::{Header, MAGIC};
use super::cursor::Cursor;
use crate::error::{Error, Result};

/// The bytes of a metadata file as an Avro container with a codec that [`super::Decompressor`] has.
pub(crate) fn to_avro(bytes: Bytes) -> Result<Bytes> {
    let (format, rewrite): (_, fn(Bytes) -> Result<Vec<u8>, ArrowError>) = if bytes.starts_with(MAGIC) {
        if Header::parse(&mut Cursor::new(&bytes))?.codec != Codec::Xz {
            return Ok(bytes);
        }
        ("Avro", |bytes| rewrite(ReaderBuilder::new().build(std::io::Cursor::new(bytes))?))
    } else if bytes.starts_with(b"PAR1") {
        ("Parquet", |bytes| rewrite(ParquetRecordBatchReaderBuilder::try_new(bytes)?.build()?))
    } else if bytes.starts_with(b"ORC") {
        ("ORC", |bytes| {
            let reader = orc_rust::ArrowReaderBuilder::try_new(bytes);
            rewrite(reader.map_err(|error| ArrowError::ExternalError(Box::new(error)))?.build())
        })
    } else {
        return Err(Error::corrupt("the file is neither Avro, Parquet nor ORC"));
    };
    // These readers trust files more than we do: damaged ones may make them panic.
    match catch_unwind(AssertUnwindSafe(|| rewrite(bytes))) {
        Ok(Ok(avro)) => Ok(Bytes::from(avro)),
        Ok(Err(error)) => Err(Error::corrupt(format!("the {format} file can't be read")).with_source(error)),
        Err(_) => Err(Error::corrupt(format!("the {format} file can't be read: its reader panicked"))),
    }
}

fn rewrite(reader: impl RecordBatchReader) -> Result<Vec<u8>, ArrowError> {
    let schema = Arc::new(Schema::new(reader.schema().fields().iter().map(plain_field).collect::<Vec<_>>()));
    let mut writer = AvroWriter::new(Vec::new(), schema.as_ref().clone())?;
    for batch in reader {
        let batch = batch?;
        let columns = batch.columns().iter().zip(schema.fields());
        let columns = columns.map(|(column, field)| cast(column, field.data_type())).collect::<Result<_, _>>()?;
        writer.write(&RecordBatch::try_new(Arc::clone(&schema), columns)?)?;
    }
    writer.finish()?;
    Ok(writer.into_inner())
}

/// The field with the type that Java's Avro files have, and without what else a reader knows of it.
fn plain_field(field: &FieldRef) -> FieldRef {
    Arc::new(Field::new(field.name(), plain(field.data_type()), field.is_nullable()))
}

fn plain(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Int8 | DataType::Int16 => DataType::Int32,
        DataType::Timestamp(..) => DataType::Timestamp(TimeUnit::Millisecond, None),
        DataType::Utf8View | DataType::LargeUtf8 => DataType::Utf8,
        DataType::BinaryView | DataType::LargeBinary => DataType::Binary,
        DataType::Dictionary(_, value) => plain(value),
        DataType::List(item) => DataType::List(plain_field(item)),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(plain_field).collect()),
        other => other.clone(),
    }
}
