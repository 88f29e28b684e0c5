//! Avro object container files, written: what [`super::Container`] reads.
//!
//! As Java's, a file says nothing but its schema and codec, and a block ends with the row that takes it to 64,000 bytes.

use super::codec::{AvroCodec, Compressor};
use super::container::MAGIC;
use super::encode::{put_bytes, put_long};
use crate::error::Result;

/// Plain bytes from which on a block is full.
const BLOCK_SIZE: usize = 64_000;

/// A container file while rows are added to it.
pub(crate) struct ContainerWriter {
    file: Vec<u8>,
    sync: [u8; 16],
    compressor: Compressor,
    /// The plain rows of the block that is not full yet, ..
    block: Vec<u8>,
    /// .. and how many they are.
    rows: i64,
    /// The compressed block; kept for its memory.
    compressed: Vec<u8>,
}

impl ContainerWriter {
    /// A file of rows of `schema`, an Avro schema as JSON. It is written as it is.
    pub(crate) fn new(schema: &str, codec: AvroCodec) -> Result<Self> {
        let sync = *uuid::Uuid::new_v4().as_bytes();
        let mut file = MAGIC.to_vec();
        put_long(2, &mut file);
        for text in ["avro.schema", schema, "avro.codec", codec.name()] {
            put_bytes(text.as_bytes(), &mut file);
        }
        put_long(0, &mut file);
        file.extend_from_slice(&sync);
        let (block, compressed) = (Vec::new(), Vec::new());
        Ok(Self { file, sync, compressor: Compressor::new(codec)?, block, rows: 0, compressed })
    }

    /// Adds the row that `put` appends.
    pub(crate) fn append(&mut self, put: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        put(&mut self.block);
        self.rows += 1;
        if self.block.len() >= BLOCK_SIZE { self.end_block() } else { Ok(()) }
    }

    /// Bytes of the file so far; those of the block that is not full count uncompressed.
    pub(crate) fn size(&self) -> usize {
        self.file.len() + self.block.len()
    }

    /// Takes the bytes that are complete, for a file that is sent while it grows; [`Self::size`] counts what is left.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.file)
    }

    /// The bytes of the file that were not taken.
    pub(crate) fn finish(mut self) -> Result<Vec<u8>> {
        if self.rows > 0 {
            self.end_block()?;
        }
        Ok(self.file)
    }

    fn end_block(&mut self) -> Result<()> {
        put_long(self.rows, &mut self.file);
        self.compressed.clear();
        self.compressor.append(&self.block, &mut self.compressed)?;
        put_bytes(&self.compressed, &mut self.file);
        self.file.extend_from_slice(&self.sync);
        self.block.clear();
        self.rows = 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::json::raw_rows;
    use super::super::{Container, for_each_record};
    use super::*;
    use crate::error::ErrorKind;

    const SCHEMA: &str =
        r#"{"type":"record","name":"record","fields":[{"name":"n","type":"long"},{"name":"t","type":"string"}]}"#;
    const CODECS: [&str; 6] = ["null", "deflate", "snappy", "zstd", "bzip2", "xz"];

    fn file(codec: AvroCodec, rows: i64) -> (Vec<u8>, Vec<u8>) {
        let (mut writer, mut plain) = (ContainerWriter::new(SCHEMA, codec).unwrap(), Vec::new());
        for row in 0..rows {
            let put = |out: &mut Vec<u8>| {
                put_long(row, out);
                put_bytes(format!("the text of row {row}").as_bytes(), out);
            };
            put(&mut plain);
            writer.append(put).unwrap();
        }
        (writer.finish().unwrap(), plain)
    }

    #[test]
    fn append_when_any_codec_then_blocks_hold_the_rows() {
        for name in CODECS {
            let (file, plain) = file(AvroCodec::parse(name, 1).unwrap(), 10_000);
            let file = super::super::to_avro(file.into()).unwrap();
            assert!(raw_rows(&file) == plain, "{name}");
            let mut row = 0;
            for_each_record(&file, |record| {
                assert_eq!(record.long("n")?, row);
                assert_eq!(record.text("t")?, format!("the text of row {row}"));
                row += 1;
                Ok(())
            })
            .unwrap();
            assert_eq!(row, 10_000);
        }
    }

    #[test]
    fn append_when_block_is_full_then_next_one_starts() {
        let (file, plain) = file(AvroCodec::NULL, 10_000);
        let blocks = Container::parse(&file).unwrap().blocks;
        assert_eq!(blocks.len(), plain.len().div_ceil(BLOCK_SIZE + 10));
        assert!(blocks.iter().take(blocks.len() - 1).all(|block| (64_000..64_030).contains(&block.data.len())));
    }

    #[test]
    fn finish_when_no_row_then_header_only() {
        let (file, _) = file(AvroCodec::NULL, 0);
        assert!(Container::parse(&file).unwrap().blocks.is_empty());
        assert_eq!(file.len(), 4 + 1 + 12 + 2 + SCHEMA.len() + 11 + 5 + 1 + 16);
        assert_ne!(file[file.len() - 16..], super::tests::file(AvroCodec::NULL, 0).0[file.len() - 16..]);
    }

    #[test]
    fn parse_when_level_or_name_is_unknown_then_error() {
        assert_eq!(AvroCodec::parse("lzo", 1).unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!(AvroCodec::parse("zstd", 99).unwrap_err().kind(), ErrorKind::Invalid);
        // The level is zstd's alone.
        assert_eq!(AvroCodec::parse("null", 99).unwrap(), AvroCodec::NULL);
        assert_eq!(AvroCodec::parse("ZSTD", 3).unwrap(), AvroCodec::parse("zstandard", 3).unwrap());
    }
}
