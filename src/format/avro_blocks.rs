//! The blocks of an Avro object container file, decompressed and checked, for the decoder.
//!
//! The decoder trusts what it is given: it takes a file that ends in the middle of a block for a shorter one, and does not come
//! back from a block whose bytes are more than its rows. So each block is walked by the writer's schema first, and is handed on
//! uncompressed, only when its rows are exactly its bytes.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Read};
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::error::{Error, Result};

const MAGIC: &[u8] = b"Obj\x01";
const SYNC: usize = 16;
/// Deepest nesting of values, more than a schema file of ours may have.
const MAX_DEPTH: usize = 200;

/// What the header and the frames of the blocks say.
pub(super) struct Container {
    /// The names of the columns.
    pub(super) columns: Vec<String>,
    /// How many rows the blocks have.
    pub(super) rows: u64,
    /// Whether the decoder gives the row as one column. Writers up to 0.9 made the row a union of null and record, and the decoder
    /// takes records only; a record with that union as its only field has the same bytes.
    pub(super) is_wrapped: bool,
    schema: Value,
    shape: Arc<Shape>,
    codec: Codec,
    file: Bytes,
    /// Where the first block begins.
    first: usize,
    sync: [u8; SYNC],
}

#[derive(Clone, Copy, Debug)]
enum Codec {
    Null,
    Deflate,
    Snappy,
    Zstandard,
    Bzip2,
}

fn bad_header() -> Error {
    Error::corrupt("the Avro header is broken")
}

impl Container {
    /// Reads the header and walks the frames of the blocks, to the last byte.
    pub(super) fn new(file: Bytes) -> Result<Self> {
        let mut rest = Cursor { bytes: &file };
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
        let sync: [u8; SYNC] = rest.take(SYNC)?.try_into().map_err(|_| bad_header())?;
        let first = file.len() - rest.bytes.len();
        let mut rows = 0_u64;
        while !rest.bytes.is_empty() {
            let (count, _) = rest.block(&sync)?;
            rows = rows.checked_add(count).ok_or_else(|| Error::corrupt("the Avro file has too many rows"))?;
        }
        let codec = match codec {
            None | Some(b"null") => Codec::Null,
            Some(b"deflate") => Codec::Deflate,
            Some(b"snappy") => Codec::Snappy,
            Some(b"zstandard") => Codec::Zstandard,
            Some(b"bzip2") => Codec::Bzip2,
            Some(other) => {
                return Err(Error::unsupported(format!("Avro codec {}", String::from_utf8_lossy(other))));
            }
        };
        let schema: Value = serde_json::from_slice(schema.ok_or_else(bad_header)?)
            .map_err(|error| Error::corrupt("the schema in the Avro header is not JSON").with_source(error))?;
        let shape = Shape::new(&schema, &mut BTreeMap::new(), None, 0)?;
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
        Ok(Self { columns, rows, is_wrapped: schema.is_array(), schema, shape, codec, file, first, sync })
    }

    /// The file as the decoder reads it: the same rows, uncompressed.
    pub(super) fn blocks(self) -> Blocks {
        let schema = if self.is_wrapped {
            json!({"type": "record", "name": "wrapper", "fields": [{"name": "row", "type": self.schema}]})
        } else {
            self.schema
        };
        let mut frame = MAGIC.to_vec();
        put_long(1, &mut frame);
        put_sized(b"avro.schema", &mut frame);
        put_sized(schema.to_string().as_bytes(), &mut frame);
        put_long(0, &mut frame);
        frame.extend_from_slice(&self.sync);
        Blocks {
            file: self.file,
            at: self.first,
            sync: self.sync,
            codec: self.codec,
            shape: self.shape,
            frame,
            read: 0,
        }
    }
}

/// Frames of the file, one at a time.
pub(super) struct Blocks {
    file: Bytes,
    at: usize,
    sync: [u8; SYNC],
    codec: Codec,
    shape: Arc<Shape>,
    frame: Vec<u8>,
    read: usize,
}

impl Blocks {
    fn next_frame(&mut self) -> Result<()> {
        self.frame.clear();
        self.read = 0;
        let mut rest = Cursor { bytes: &self.file[self.at..] };
        if rest.bytes.is_empty() {
            return Ok(());
        }
        let (count, block) = rest.block(&self.sync)?;
        let data = self.codec.decompress(block)?;
        // A row has a byte at least, but for a record without columns; none of ours is.
        if count > data.len() as u64 {
            return Err(Error::corrupt("an Avro block has more rows than bytes"));
        }
        let mut values = Cursor { bytes: &data };
        for _ in 0..count {
            self.shape.walk(&mut values, 0)?;
        }
        if !values.bytes.is_empty() {
            return Err(Error::corrupt("an Avro block has more bytes than rows"));
        }
        put_long(count as i64, &mut self.frame);
        put_sized(&data, &mut self.frame);
        self.frame.extend_from_slice(&self.sync);
        self.at = self.file.len() - rest.bytes.len();
        Ok(())
    }
}

impl Read for Blocks {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let available = self.fill_buf()?;
        let length = available.len().min(buf.len());
        buf[..length].copy_from_slice(&available[..length]);
        self.consume(length);
        Ok(length)
    }
}

impl BufRead for Blocks {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.read >= self.frame.len() {
            self.next_frame().map_err(io::Error::other)?;
        }
        Ok(&self.frame[self.read..])
    }

    fn consume(&mut self, amount: usize) {
        self.read += amount;
    }
}

impl Codec {
    fn decompress(self, block: &[u8]) -> Result<Vec<u8>> {
        let failed = |error: io::Error| Error::corrupt("an Avro block can't be decompressed").with_source(error);
        let mut out = Vec::new();
        match self {
            Self::Null => out.extend_from_slice(block),
            Self::Deflate => {
                flate2::read::DeflateDecoder::new(block).read_to_end(&mut out).map_err(failed)?;
            }
            Self::Zstandard => {
                zstd::Decoder::new(block).and_then(|mut decoder| decoder.read_to_end(&mut out)).map_err(failed)?;
            }
            Self::Bzip2 => {
                bzip2::read::MultiBzDecoder::new(block).read_to_end(&mut out).map_err(failed)?;
            }
            Self::Snappy => {
                // Behind the data stands its CRC-32.
                let (data, crc) = block
                    .len()
                    .checked_sub(4)
                    .and_then(|at| block.split_at_checked(at))
                    .ok_or_else(|| Error::corrupt("an Avro block is too short for its checksum"))?;
                let length = snap::raw::decompress_len(data).map_err(|error| failed(error.into()))?;
                // Snappy does not pack closer than this; what claims to is not allocated.
                if length > data.len().saturating_mul(64).saturating_add(64) {
                    return Err(Error::corrupt("an Avro block is longer than its bytes can say"));
                }
                out = snap::raw::Decoder::new().decompress_vec(data).map_err(|error| failed(error.into()))?;
                if crc32fast::hash(&out).to_be_bytes() != crc {
                    return Err(Error::corrupt("an Avro block does not have its checksum"));
                }
            }
        }
        Ok(out)
    }
}

/// How many bytes the values of a schema take.
#[derive(Debug)]
enum Shape {
    Fixed(usize),
    /// `int`, `long`, `enum`
    Number,
    /// `bytes`, `string`
    Sized,
    Array(Arc<Shape>),
    Map(Arc<Shape>),
    Union(Vec<Arc<Shape>>),
    Record(Vec<Arc<Shape>>),
}

impl Shape {
    fn new(
        schema: &Value,
        named: &mut BTreeMap<String, Arc<Self>>,
        namespace: Option<&str>,
        depth: usize,
    ) -> Result<Arc<Self>> {
        let bad = || Error::corrupt(format!("the Avro schema is broken at {schema}"));
        if depth > MAX_DEPTH {
            return Err(Error::corrupt("the Avro schema is nested too deep"));
        }
        let (kind, object) = match schema {
            Value::String(kind) => (kind.as_str(), None),
            Value::Array(branches) => {
                let branches = branches
                    .iter()
                    .map(|branch| Self::new(branch, named, namespace, depth + 1))
                    .collect::<Result<_>>()?;
                return Ok(Arc::new(Self::Union(branches)));
            }
            Value::Object(object) => match object.get("type") {
                Some(Value::String(kind)) => (kind.as_str(), Some(object)),
                Some(inner) => return Self::new(inner, named, namespace, depth + 1),
                None => return Err(bad()),
            },
            _ => return Err(bad()),
        };
        let text = |key: &str| object.and_then(|object| object.get(key)).and_then(Value::as_str);
        let part = |key: &str| object.and_then(|object| object.get(key)).ok_or_else(bad);
        let namespace = text("namespace").or(namespace);
        let full = |name: &str| match namespace {
            Some(namespace) if !name.contains('.') => format!("{namespace}.{name}"),
            _ => name.to_owned(),
        };
        let shape = Arc::new(match kind {
            "null" => Self::Fixed(0),
            "boolean" => Self::Fixed(1),
            "int" | "long" | "enum" => Self::Number,
            "float" => Self::Fixed(4),
            "double" => Self::Fixed(8),
            "bytes" | "string" => Self::Sized,
            "fixed" => {
                let size = part("size")?.as_u64().and_then(|size| usize::try_from(size).ok()).ok_or_else(bad)?;
                Self::Fixed(size)
            }
            "array" => Self::Array(Self::new(part("items")?, named, namespace, depth + 1)?),
            "map" => Self::Map(Self::new(part("values")?, named, namespace, depth + 1)?),
            "record" => Self::Record(
                part("fields")?
                    .as_array()
                    .ok_or_else(bad)?
                    .iter()
                    .map(|field| Self::new(field.get("type").ok_or_else(bad)?, named, namespace, depth + 1))
                    .collect::<Result<_>>()?,
            ),
            name => return named.get(&full(name)).or_else(|| named.get(name)).map(Arc::clone).ok_or_else(bad),
        });
        if let (Some(name), "record" | "enum" | "fixed") = (text("name"), kind) {
            named.insert(full(name), Arc::clone(&shape));
        }
        Ok(shape)
    }

    fn walk(&self, values: &mut Cursor<'_>, depth: usize) -> Result<()> {
        if depth > MAX_DEPTH {
            return Err(Error::corrupt("an Avro value is nested too deep"));
        }
        match self {
            Self::Fixed(size) => {
                values.take(*size)?;
            }
            Self::Number => {
                values.long()?;
            }
            Self::Sized => {
                values.sized()?;
            }
            Self::Union(branches) => {
                let branch = usize::try_from(values.long()?).ok().and_then(|at| branches.get(at));
                branch
                    .ok_or_else(|| Error::corrupt("an Avro value has no branch of its union"))?
                    .walk(values, depth + 1)?;
            }
            Self::Record(fields) => {
                for field in fields {
                    field.walk(values, depth + 1)?;
                }
            }
            Self::Array(_) | Self::Map(_) => loop {
                let mut count = values.long()?;
                if count == 0 {
                    break;
                }
                if count < 0 {
                    values.long()?;
                    count = count.checked_neg().ok_or_else(|| Error::corrupt("an Avro array has too many values"))?;
                }
                // Values without bytes (null) could be without number; none of ours are.
                if count as u64 > values.bytes.len() as u64 {
                    return Err(Error::corrupt("an Avro array has more values than bytes"));
                }
                for _ in 0..count {
                    match self {
                        Self::Map(value) => {
                            values.sized()?;
                            value.walk(values, depth + 1)?;
                        }
                        Self::Array(element) => element.walk(values, depth + 1)?,
                        _ => {}
                    }
                }
            },
        }
        Ok(())
    }
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
            let (byte, rest) =
                self.bytes.split_first().ok_or_else(|| Error::corrupt("the Avro file ends in the middle"))?;
            self.bytes = rest;
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

    /// The number of rows of a block and its bytes, the sync marker behind it checked.
    fn block(&mut self, sync: &[u8; SYNC]) -> Result<(u64, &'a [u8])> {
        let count = u64::try_from(self.long()?).map_err(|_| Error::corrupt("an Avro block has less than no rows"))?;
        let block = self.sized()?;
        if self.take(SYNC)? != sync {
            return Err(Error::corrupt("an Avro block does not end with the sync marker of the file"));
        }
        Ok((count, block))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(codec: &str, count: i64, data: &[u8]) -> Bytes {
        let mut out = MAGIC.to_vec();
        put_long(2, &mut out);
        put_sized(b"avro.schema", &mut out);
        put_sized(
            br#"{"type":"record","name":"r","namespace":"n","fields":[
                {"name":"a","type":["null",{"type":"record","name":"r_a","fields":[{"name":"x","type":"long"}]}]},
                {"name":"b","type":{"type":"map","values":["null","n.r_a"]}}]}"#,
            &mut out,
        );
        put_sized(b"avro.codec", &mut out);
        put_sized(codec.as_bytes(), &mut out);
        put_long(0, &mut out);
        out.extend_from_slice(&[7; SYNC]);
        put_long(count, &mut out);
        put_sized(data, &mut out);
        out.extend_from_slice(&[7; SYNC]);
        out.into()
    }

    // NULL and {"k": (5)}, then (-1) and {}.
    const ROWS: &[u8] = &[0, 2, 2, b'k', 2, 10, 0, 2, 1, 0];

    #[test]
    fn blocks_when_rows_are_exactly_their_bytes_then_handed_on_uncompressed() {
        let packed = zstd::encode_all(ROWS, 1).unwrap();
        for (codec, data) in [("null", ROWS), ("zstandard", packed.as_slice())] {
            let container = Container::new(file(codec, 2, data)).unwrap();
            assert_eq!(
                (container.columns.as_slice(), container.rows),
                (["a".to_owned(), "b".to_owned()].as_slice(), 2)
            );
            let mut all = Vec::new();
            container.blocks().read_to_end(&mut all).unwrap();
            assert!(all.windows(ROWS.len()).any(|window| window == ROWS), "{codec}");
        }
    }

    #[test]
    fn blocks_when_rows_and_bytes_differ_then_error() {
        for count in [0, 1, 3, i64::MAX] {
            let mut all = Vec::new();
            let container = Container::new(file("null", count, ROWS)).unwrap();
            assert!(container.blocks().read_to_end(&mut all).is_err(), "{count}");
        }
    }

    #[test]
    fn new_when_file_is_cut_then_error() {
        let whole = file("null", 2, ROWS);
        let header = whole.len() - ROWS.len() - 2 - SYNC;
        for length in 0..whole.len() {
            assert_eq!(Container::new(whole.slice(..length)).is_ok(), length == header, "{length}");
        }
        assert!(Container::new(file("null", -1, ROWS)).is_err());
        assert!(Container::new(file("xz", 2, ROWS)).is_err());
    }
}
