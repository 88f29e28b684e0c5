//! Compression and decompression of the blocks of an Avro container.

use std::io::{Cursor, Read, Write};

use zstd::zstd_safe::{DCtx, InBuffer, OutBuffer};

use super::xz::compress_xz;

use crate::error::{Error, Result};

/// A block grows to this size whatever its compressed size is, ..
const ALWAYS_ALLOWED: usize = 16 << 20;
/// .. a bigger one by this factor at most, ..
const MAX_RATIO: usize = 1024;
/// .. and none beyond this.
const MAX_BLOCK: usize = 512 << 20;

/// How the blocks of a container are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Codec {
    /// Not at all.
    Null,
    /// RFC 1951, without header.
    Deflate,
    /// Snappy and a CRC32 of the plain bytes.
    Snappy,
    /// Zstandard.
    Zstandard,
    /// bzip2.
    Bzip2,
    /// xz.
    Xz,
}

impl Codec {
    /// The codec of a name in the header of a container; an empty name is `null`.
    pub(crate) fn parse(name: &[u8]) -> Result<Self> {
        Ok(match name {
            b"" | b"null" => Self::Null,
            b"deflate" => Self::Deflate,
            b"snappy" => Self::Snappy,
            b"zstandard" => Self::Zstandard,
            b"bzip2" => Self::Bzip2,
            b"xz" => Self::Xz,
            other => {
                let name = String::from_utf8_lossy(other);
                return Err(Error::unsupported(format!("the Avro codec `{name}`")));
            }
        })
    }

    /// The name in the header of a container.
    fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Deflate => "deflate",
            Self::Snappy => "snappy",
            Self::Zstandard => "zstandard",
            Self::Bzip2 => "bzip2",
            Self::Xz => "xz",
        }
    }
}

/// How a metadata file is to be compressed: options `manifest.compression` (or `avro.codec`, which precedes it) and
/// `file.compression.zstd-level` (`spec/metadata.md 4.1`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AvroCodec {
    codec: Codec,
    /// Of zstd; 0 otherwise.
    level: i32,
}

impl AvroCodec {
    /// No compression.
    pub const NULL: Self = Self { codec: Codec::Null, level: 0 };

    /// The codec of a name as options hold it; `level` counts for zstd only.
    ///
    /// # Errors
    /// Invalid when there is no such codec or level.
    pub fn parse(name: &str, level: i32) -> Result<Self> {
        let codec = match name {
            zstd if zstd.eq_ignore_ascii_case("zstd") => Codec::Zstandard,
            name => Codec::parse(name.as_bytes()).map_err(|_| {
                Error::invalid(format!(
                    "manifests can't be compressed by `{name}`, only by null, deflate, snappy, zstd, bzip2 and xz"
                ))
            })?,
        };
        if codec != Codec::Zstandard {
            return Ok(Self { codec, level: 0 });
        }
        let levels = zstd::compression_level_range();
        if !levels.contains(&level) {
            return Err(Error::invalid(format!(
                "zstd has no level {level}, only {} to {}",
                levels.start(),
                levels.end()
            )));
        }
        Ok(Self { codec, level })
    }

    /// The name in the header of a container.
    pub(crate) fn name(self) -> &'static str {
        self.codec.name()
    }
}

/// Compresses blocks, one after another, with one set of buffers.
pub(crate) struct Compressor {
    codec: Codec,
    zstd: Option<zstd::bulk::Compressor<'static>>,
}

impl Compressor {
    /// A compressor of the blocks of a container.
    pub(crate) fn new(codec: AvroCodec) -> Result<Self> {
        let AvroCodec { codec, level } = codec;
        let zstd = (codec == Codec::Zstandard).then(|| zstd::bulk::Compressor::new(level));
        Ok(Self { codec, zstd: zstd.transpose().map_err(not_compressed)? })
    }

    /// Appends the compressed bytes of `block` to `out`.
    pub(crate) fn append(&mut self, block: &[u8], out: &mut Vec<u8>) -> Result<()> {
        match self.codec {
            Codec::Null => out.extend_from_slice(block),
            Codec::Deflate => {
                let mut encoder = flate2::write::DeflateEncoder::new(out, flate2::Compression::default());
                encoder.write_all(block).and_then(|()| encoder.finish()).map_err(not_compressed)?;
            }
            Codec::Bzip2 => {
                let mut encoder = bzip2::write::BzEncoder::new(out, bzip2::Compression::best());
                encoder.write_all(block).and_then(|()| encoder.finish()).map_err(not_compressed)?;
            }
            Codec::Snappy => {
                out.extend(snap::raw::Encoder::new().compress_vec(block).map_err(not_compressed)?);
                out.extend(crc32fast::hash(block).to_be_bytes());
            }
            Codec::Zstandard => match &mut self.zstd {
                Some(zstd) => out.extend(zstd.compress(block).map_err(not_compressed)?),
                None => return Err(not_compressed("no compressor was made")),
            },
            Codec::Xz => compress_xz(block, out)?,
        }
        Ok(())
    }
}

fn not_compressed(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::internal("a block of an Avro container can't be compressed").with_source(source)
}

/// Decompresses blocks, one after another, with one set of buffers.
pub(crate) struct Decompressor {
    codec: Codec,
    zstd: Option<DCtx<'static>>,
    snappy: snap::raw::Decoder,
}

impl Decompressor {
    /// A decompressor of the blocks of a container.
    pub(crate) fn new(codec: Codec) -> Self {
        Self { codec, zstd: (codec == Codec::Zstandard).then(DCtx::create), snappy: snap::raw::Decoder::new() }
    }

    /// Appends the plain bytes of `block` to `out`. Bytes that would grow beyond all measure are an error.
    pub(crate) fn append(&mut self, block: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let limit = block.len().saturating_mul(MAX_RATIO).clamp(ALWAYS_ALLOWED, MAX_BLOCK);
        match self.codec {
            Codec::Null => out.extend_from_slice(block),
            Codec::Deflate => read_all(flate2::read::DeflateDecoder::new(block), limit, out)?,
            Codec::Bzip2 => read_all(bzip2::read::MultiBzDecoder::new(block), limit, out)?,
            Codec::Snappy => self.snappy(block, limit, out)?,
            Codec::Zstandard => self.zstd(block, limit, out)?,
            // `transcode` has rewritten such files before they come here.
            Codec::Xz => return Err(Error::unsupported("the Avro codec `xz`")),
        }
        Ok(())
    }

    fn snappy(&mut self, block: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()> {
        let (block, crc) = block.split_last_chunk::<4>().ok_or_else(|| broken("it has no checksum"))?;
        let len = snap::raw::decompress_len(block).map_err(broken)?;
        // Snappy never shrinks below a twentieth or so.
        if len > limit.min(block.len().saturating_mul(64)) {
            return Err(too_big(len));
        }
        let start = out.len();
        out.resize(start + len, 0);
        let plain = out.get_mut(start..).unwrap_or_default();
        self.snappy.decompress(block, plain).map_err(broken)?;
        if crc32fast::hash(plain) != u32::from_be_bytes(*crc) {
            return Err(broken("its checksum is wrong"));
        }
        Ok(())
    }

    fn zstd(&mut self, block: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()> {
        let context = self.zstd.get_or_insert_with(DCtx::create);
        let start = out.len() as u64;
        // Java's frames do not tell their size, but its blocks have 64 KB. With enough room, one call without
        // zstd's own window does; otherwise bytes come piece by piece.
        out.reserve(block.len().saturating_mul(4).min(limit) + (256 << 10));
        let mut whole = Cursor::new(std::mem::take(out));
        whole.set_position(start);
        let done = context.decompress(&mut whole, block);
        *out = whole.into_inner();
        if done.is_ok() {
            return Ok(());
        }
        out.truncate(start as usize);
        context.init().map_err(zstd_error)?;
        let mut input = InBuffer::around(block);
        loop {
            let len = out.len();
            out.reserve(128 << 10);
            let mut output = OutBuffer::around_pos(out, len);
            let hint = context.decompress_stream(&mut output, &mut input).map_err(zstd_error)?;
            let written = output.pos() - len;
            let grown = out.len() - start as usize;
            if grown > limit {
                return Err(too_big(grown));
            }
            if input.pos() == block.len() && (hint == 0 || written == 0) {
                return if hint == 0 { Ok(()) } else { Err(broken("it ends too early")) };
            }
        }
    }
}

/// Appends what `reader` gives, up to `limit` bytes.
fn read_all(reader: impl Read, limit: usize, out: &mut Vec<u8>) -> Result<()> {
    let read = reader.take(limit as u64 + 1).read_to_end(out).map_err(broken)?;
    if read > limit { Err(too_big(read)) } else { Ok(()) }
}

fn broken(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::corrupt("a block of the Avro container does not decompress").with_source(source)
}

fn zstd_error(code: usize) -> Error {
    broken(zstd::zstd_safe::get_error_name(code))
}

fn too_big(len: usize) -> Error {
    Error::corrupt(format!("a block of the Avro container grows to {len} bytes or more"))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn plain(codec: Codec, block: &[u8]) -> Result<Vec<u8>> {
        let mut out = b"before".to_vec();
        Decompressor::new(codec).append(block, &mut out)?;
        assert_eq!(out[..6], *b"before");
        Ok(out.split_off(6))
    }

    #[test]
    fn append_when_zstd_frame_tells_no_size_then_plain_bytes() {
        // Compresses so well that one call has not room enough.
        let text = b"0123456789".repeat(300_000);
        let mut encoder = zstd::stream::Encoder::new(Vec::new(), 1).unwrap();
        encoder.write_all(&text).unwrap();
        let block = encoder.finish().unwrap();
        assert!(plain(Codec::Zstandard, &block).unwrap() == text);
        assert!(plain(Codec::Zstandard, &block[..block.len() - 1]).is_err());
        assert!(plain(Codec::Zstandard, b"").unwrap().is_empty());
    }

    #[test]
    fn append_when_block_grows_beyond_measure_then_error() {
        let zeros = vec![0; ALWAYS_ALLOWED + 1];
        assert!(plain(Codec::Zstandard, &zstd::bulk::compress(&zeros, 1).unwrap()).is_err());
        let mut deflate = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
        deflate.write_all(&vec![0; 2 * MAX_RATIO * (ALWAYS_ALLOWED / MAX_RATIO)]).unwrap();
        let block = deflate.finish().unwrap();
        assert_eq!(plain(Codec::Deflate, &block).is_err(), block.len() * MAX_RATIO < 2 * ALWAYS_ALLOWED);
        // A snappy block that says it holds 4 GB.
        assert!(plain(Codec::Snappy, &[0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0, 0, 0, 0]).is_err());
    }
}
