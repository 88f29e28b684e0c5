//! Avro object container files (`spec/metadata.md 4.1`): a header with the schema, then blocks of rows.
//!
//! ```text
//! Obj 1 | metadata: avro.schema, avro.codec | sync (16) | { rows | size | bytes | sync } ..
//! ```
//! Blocks are found without being decompressed, so that they can be spread over threads.

use super::codec::Codec;
use super::cursor::Cursor;
use super::schema::Schema;
use crate::error::{Error, Result};

/// The first bytes of a container file.
pub(crate) const MAGIC: &[u8; 4] = b"Obj\x01";

/// A container file, with its blocks as they lie in the file.
#[derive(Debug)]
pub(crate) struct Container<'a> {
    /// The writer's schema.
    pub(crate) schema: Schema,
    /// How the blocks are compressed.
    pub(crate) codec: Codec,
    /// The blocks.
    pub(crate) blocks: Vec<Block<'a>>,
}

/// A block of rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block<'a> {
    /// The number of rows that the block says it has.
    pub(crate) rows: usize,
    /// The rows, compressed.
    pub(crate) data: &'a [u8],
}

impl<'a> Container<'a> {
    /// Reads the header and finds the blocks.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self> {
        let mut cursor = Cursor::new(bytes);
        let header = Header::parse(&mut cursor)?;
        let schema = Schema::parse(header.schema)?;
        let mut blocks = Vec::new();
        while !cursor.is_empty() {
            let rows = cursor.long()?;
            let rows = usize::try_from(rows).map_err(|_| Error::corrupt(format!("a block of {rows} rows")))?;
            let data = cursor.bytes()?;
            if cursor.take(16)? != header.sync {
                return Err(Error::corrupt(format!("no sync marker before byte {}", cursor.position())));
            }
            if rows > 0 {
                blocks.push(Block { rows, data });
            }
        }
        Ok(Self { schema, codec: header.codec, blocks })
    }
}

/// What stands before the blocks.
pub(crate) struct Header<'a> {
    /// The writer's schema, as JSON.
    pub(crate) schema: &'a [u8],
    /// How the blocks are compressed.
    pub(crate) codec: Codec,
    sync: &'a [u8],
}

impl<'a> Header<'a> {
    /// Reads the header of a container file.
    pub(crate) fn parse(cursor: &mut Cursor<'a>) -> Result<Self> {
        if cursor.take(MAGIC.len())? != MAGIC {
            return Err(Error::corrupt("the file is no Avro container"));
        }
        let (mut schema, mut codec) = (None, Codec::Null);
        loop {
            let count = cursor.items()?;
            if count == 0 {
                break;
            }
            for _ in 0..count {
                let (key, value) = (cursor.bytes()?, cursor.bytes()?);
                match key {
                    b"avro.schema" => schema = Some(value),
                    b"avro.codec" => codec = Codec::parse(value)?,
                    _ => {}
                }
            }
        }
        let schema = schema.ok_or_else(|| Error::corrupt("the Avro container has no schema"))?;
        Ok(Self { schema, codec, sync: cursor.take(16)? })
    }
}
