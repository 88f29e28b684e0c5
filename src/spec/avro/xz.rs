//! Compression by xz, which arrow-avro has and lends only to whole files.

use std::sync::Arc;

use arrow::array::{ArrayRef, FixedSizeBinaryArray, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::error::ArrowError;
use arrow_avro::compression::CompressionCodec;
use arrow_avro::writer::WriterBuilder;
use arrow_avro::writer::format::AvroOcfFormat;

use super::container::Container;
use crate::error::{Error, Result};

/// Appends the compressed bytes of `block` to `out`.
///
/// A value of a `fixed` type is nothing but its bytes, so a file with the block as its only value has the compressed
/// block as its only block.
pub(super) fn compress_xz(block: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let failed = |error: ArrowError| Error::internal("a block can't be compressed by xz").with_source(error);
    let file = file_of(block).map_err(failed)?;
    match Container::parse(&file)?.blocks[..] {
        [only] => {
            out.extend_from_slice(only.data);
            Ok(())
        }
        ref blocks => Err(Error::internal(format!("{} blocks for one value", blocks.len()))),
    }
}

fn file_of(block: &[u8]) -> Result<Vec<u8>, ArrowError> {
    let size = i32::try_from(block.len()).map_err(|_| ArrowError::InvalidArgumentError("over 2 GB".to_owned()))?;
    let schema = Arc::new(Schema::new(vec![Field::new("block", DataType::FixedSizeBinary(size), false)]));
    let mut file = Vec::new();
    let mut writer = WriterBuilder::new(schema.as_ref().clone())
        .with_compression(Some(CompressionCodec::Xz))
        .build::<_, AvroOcfFormat>(&mut file)?;
    let value: ArrayRef = Arc::new(FixedSizeBinaryArray::try_new(size, block.to_vec().into(), None)?);
    writer.write(&RecordBatch::try_new(schema, vec![value])?)?;
    writer.finish()?;
    drop(writer);
    Ok(file)
}
