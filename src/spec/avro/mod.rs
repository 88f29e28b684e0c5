//! Avro object containers, as far as metadata files need them: the container, its schema and its values.
//!
//! Planning reads millions of manifest entries, so nothing here makes an object of a value: a [`Cursor`] walks over the
//! plain bytes of a block, and what to do with them is decided once a file, from the [`Schema`] it was written with.
//! [`Value`] is the convenient way for files with few rows. Data files in Avro are read by arrow-avro.
//!
//! May import: `error`.

mod codec;
mod container;
mod cursor;
pub(crate) mod encode;
#[cfg(test)]
pub(crate) mod json;
mod schema;
mod transcode;
mod value;
mod writer;
mod xz;

pub use codec::AvroCodec;
pub(crate) use codec::Decompressor;
pub(crate) use container::{Block, Container};
pub(crate) use cursor::Cursor;
pub(crate) use schema::{Branches, Node, NodeId, Schema};
pub(crate) use transcode::to_avro;
pub(crate) use value::{Record, Value};
pub(crate) use writer::ContainerWriter;

use crate::error::{Error, Result};

/// Reads all rows of a metadata file, one after another, as records.
pub(crate) fn for_each_record(bytes: &[u8], mut each: impl FnMut(&Record<'_>) -> Result<()>) -> Result<()> {
    let container = Container::parse(bytes)?;
    let mut decompressor = Decompressor::new(container.codec);
    let mut plain = Vec::new();
    for block in &container.blocks {
        plain.clear();
        decompressor.append(block.data, &mut plain)?;
        let mut cursor = Cursor::new(&plain);
        for _ in 0..block.rows {
            // Every row has at least one byte, so that a wrong count ends early.
            if cursor.is_empty() {
                return Err(Error::corrupt(format!("a block with fewer than its {} rows", block.rows)));
            }
            each(&Value::read(&container.schema, container.schema.root(), &mut cursor)?.into_record()?)?;
        }
        if !cursor.is_empty() {
            return Err(Error::corrupt(format!("a block with more than its {} rows", block.rows)));
        }
    }
    Ok(())
}
