//! Text formats of append tables: CSV, JSON lines, and lines of text, as a Java writer leaves them.
//!
//! All values are text, in JSON too: `"1"`, `"2024-01-02 03:04:05.678"`, bytes in base64. CSV escapes a quote with the escape
//! character and leaves that character itself bare, so that reading drops it: `a\b` comes back as `ab`, as in Java. A line
//! break inside quotes belongs to the value (a Java reader takes it for the end of the row). Files are compressed as a whole.

use std::collections::BTreeMap;
use std::io::Read;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use futures::{StreamExt, stream};
use serde_json::Value;

use super::avro::read_whole;
use super::parquet::nullable_fields;
use super::values::{OnBad, array_of};
use super::{BatchStream, Compression, FileFormat, FileRead, conform, rows};
use crate::error::{Error, Result};
use crate::spec::DataField;
use crate::spec::types::arrow_schema;

/// A block of Hadoop's snappy and LZ4 streams says how much it holds; the writer's buffers are far below this.
const MAX_BLOCK: usize = 64 << 20;

fn decompressed(bytes: Bytes, compression: Compression) -> Result<Bytes> {
    let mut out = Vec::new();
    let read = match compression {
        Compression::None => return Ok(bytes),
        Compression::Gzip => flate2::read::MultiGzDecoder::new(bytes.as_ref()).read_to_end(&mut out),
        Compression::Deflate => flate2::read::ZlibDecoder::new(bytes.as_ref()).read_to_end(&mut out),
        Compression::Bzip2 => bzip2::read::MultiBzDecoder::new(bytes.as_ref()).read_to_end(&mut out),
        Compression::Zstd => zstd::Decoder::new(bytes.as_ref()).and_then(|mut decoder| decoder.read_to_end(&mut out)),
        Compression::Snappy => {
            return blocks(&bytes, |block, size| {
                let length = snap::raw::decompress_len(block).map_err(broken_stream)?;
                if length > size {
                    return Err(broken_stream("a block is longer than its stream says"));
                }
                snap::raw::Decoder::new().decompress_vec(block).map_err(broken_stream)
            });
        }
        Compression::Lz4 => {
            return blocks(&bytes, |block, size| lz4_flex::block::decompress(block, size).map_err(broken_stream));
        }
    };
    read.map_err(broken_stream)?;
    Ok(out.into())
}

fn broken_stream(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::corrupt("the file can't be decompressed").with_source(error)
}

/// Hadoop's framing: the size of a block, then chunks with their compressed size until the block is full.
fn blocks(bytes: &[u8], decompress: impl Fn(&[u8], usize) -> Result<Vec<u8>>) -> Result<Bytes> {
    let mut rest = bytes;
    let mut out = Vec::new();
    let mut take = |length: usize| -> Result<&[u8]> {
        let (taken, behind) =
            rest.split_at_checked(length).ok_or_else(|| broken_stream("the stream ends in the middle"))?;
        rest = behind;
        Ok(taken)
    };
    let number = |bytes: &[u8]| bytes.iter().fold(0, |value, byte| value << 8 | usize::from(*byte));
    let mut left = bytes.len();
    while left > 0 {
        let mut size = number(take(4)?);
        left -= 4;
        if size > MAX_BLOCK {
            return Err(broken_stream(format!("a block of {size} bytes is too long")));
        }
        while size > 0 {
            let length = number(take(4)?);
            let chunk = decompress(take(length)?, size)?;
            left -= 4 + length;
            size = size
                .checked_sub(chunk.len())
                .filter(|_| !chunk.is_empty())
                .ok_or_else(|| broken_stream("a block does not have the size its stream says"))?;
            out.extend_from_slice(&chunk);
        }
    }
    Ok(out.into())
}

/// How rows lie in the text.
enum Rows {
    Csv(Csv),
    Json { delimiter: Vec<u8> },
    Text { delimiter: Vec<u8> },
}

struct Csv {
    field: Vec<u8>,
    line: Vec<u8>,
    quote: Option<u8>,
    escape: Option<u8>,
    null: String,
}

struct TextFile {
    text: Bytes,
    at: usize,
    rows: Rows,
    on_bad: OnBad,
    /// Where each wanted column is among the columns of a CSV file.
    positions: Vec<Option<usize>>,
    fields: Vec<DataField>,
    target: SchemaRef,
    selection: Option<Vec<Range<u64>>>,
    batch_size: usize,
    next_row: u64,
}

pub(super) async fn open(read: FileRead) -> Result<BatchStream> {
    let (format, compression) = FileFormat::split(read.path.as_ref())?;
    let text = decompressed(read_whole(&read).await?, compression)?;
    let options = Options(&read.options);
    let mut at = 0;
    let (rows, on_bad) = match format {
        FileFormat::Csv => {
            let csv = Csv {
                field: options.delimiter(&["csv.field-delimiter", "field-delimiter", "seq"], ","),
                line: options.delimiter(&["csv.line-delimiter", "lineSep"], "\n"),
                quote: options.byte(&["csv.quote-character", "quote"], "\"")?,
                escape: options.byte(&["csv.escape-character", "escape"], "\\")?,
                null: options.text(&["csv.null-literal", "nullvalue"], "").to_owned(),
            };
            if options.text(&["csv.include-header", "header"], "false").eq_ignore_ascii_case("true") {
                csv.row(&text, &mut at)?;
            }
            let on_bad = match options.text(&["csv.mode", "mode"], "permissive").to_ascii_lowercase().as_str() {
                "permissive" => OnBad::Null,
                "failfast" => OnBad::Fail,
                other => return Err(Error::unsupported(format!("csv.mode = {other} can't be read"))),
            };
            (Rows::Csv(csv), on_bad)
        }
        FileFormat::Json => {
            let ignores = options.text(&["json.ignore-parse-errors"], "false").eq_ignore_ascii_case("true");
            let delimiter = options.delimiter(&["json.line-delimiter"], "\n");
            (Rows::Json { delimiter }, if ignores { OnBad::Null } else { OnBad::Fail })
        }
        _ => {
            let delimiter = options.delimiter(&["text.line-delimiter", "lineSep"], "\n");
            (Rows::Text { delimiter }, OnBad::Fail)
        }
    };
    let all = if read.file_fields.is_empty() { &read.fields[..] } else { &read.file_fields[..] };
    let positions =
        read.fields.iter().map(|field| all.iter().position(|candidate| candidate.name == field.name)).collect();
    let file = TextFile {
        text,
        at,
        rows,
        on_bad,
        positions,
        target: arrow_schema(&nullable_fields(&read.fields)),
        fields: read.fields,
        selection: read.selection,
        batch_size: read.batch_size.max(1),
        next_row: 0,
    };
    Ok(stream::try_unfold(file, |mut file| {
        // Parsing is no I/O: the future is ready at once.
        std::future::ready(file.next().map(|batch| batch.map(|batch| (batch, file))))
    })
    .boxed())
}

struct Options<'a>(&'a BTreeMap<String, String>);

impl<'a> Options<'a> {
    fn text(&self, keys: &[&str], default: &'a str) -> &'a str {
        keys.iter().find_map(|key| self.0.get(*key)).map_or(default, String::as_str)
    }

    /// A delimiter, its escapes resolved.
    fn delimiter(&self, keys: &[&str], default: &'a str) -> Vec<u8> {
        let text = self.text(keys, default);
        let text = if text.is_empty() { default } else { text };
        text.replace("\\n", "\n").replace("\\r", "\r").replace("\\t", "\t").into_bytes()
    }

    fn byte(&self, keys: &[&str], default: &'a str) -> Result<Option<u8>> {
        match self.text(keys, default).as_bytes() {
            [] => Ok(None),
            [byte] => Ok(Some(*byte)),
            _ => Err(Error::invalid(format!("option {} has one character", keys[0]))),
        }
    }
}

impl TextFile {
    fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            let mut columns: Vec<Vec<Value>> = vec![Vec::new(); self.fields.len()];
            let mut rows = 0;
            while rows < self.batch_size && self.at < self.text.len() {
                self.row(&mut columns)
                    .map_err(|error| error.with("row", (self.next_row + rows as u64 + 1).to_string()))?;
                rows += 1;
            }
            if rows == 0 {
                rows::check_within(self.selection.as_deref(), self.next_row)?;
                return Ok(None);
            }
            let start = self.next_row;
            self.next_row += rows as u64;
            let arrays = columns
                .iter()
                .zip(&self.fields)
                .map(|(values, field)| {
                    let values: Vec<&Value> = values.iter().collect();
                    array_of(&values, &field.data_type, conform::Place::Column, self.on_bad)
                        .map_err(|error| error.with("column", field.name.clone()))
                })
                .collect::<Result<Vec<_>>>()?;
            let options = RecordBatchOptions::new().with_row_count(Some(rows));
            let batch = RecordBatch::try_new_with_options(Arc::clone(&self.target), arrays, &options)
                .map_err(|error| Error::corrupt("the columns do not fit their schema").with_source(error))?;
            if let Some(batch) = rows::keep(batch, start, self.selection.as_deref())? {
                return Ok(Some(batch));
            }
        }
    }

    /// Parses the row at [`Self::at`] into a value a column.
    fn row(&mut self, columns: &mut [Vec<Value>]) -> Result<()> {
        match &self.rows {
            Rows::Csv(csv) => {
                let mut cells = csv.row(&self.text, &mut self.at)?;
                for (position, column) in self.positions.iter().zip(columns) {
                    // A line that is too short has NULL at its end.
                    let cell = position.and_then(|position| cells.get_mut(position)).map(std::mem::take);
                    column.push(match cell {
                        Some(cell) if cell != csv.null => Value::String(cell),
                        _ => Value::Null,
                    });
                }
            }
            Rows::Json { delimiter } => {
                let line = line(&self.text, &mut self.at, delimiter);
                let mut object = match serde_json::from_slice(line) {
                    Ok(Value::Object(object)) => object,
                    _ if self.on_bad == OnBad::Null => serde_json::Map::new(),
                    Ok(_) => return Err(Error::corrupt("a row is not a JSON object")),
                    Err(error) => return Err(Error::corrupt("a row is not valid JSON").with_source(error)),
                };
                for (field, column) in self.fields.iter().zip(columns) {
                    column.push(object.remove(&field.name).unwrap_or(Value::Null));
                }
            }
            Rows::Text { delimiter } => {
                let line = line(&self.text, &mut self.at, delimiter);
                let line = std::str::from_utf8(line)
                    .map_err(|error| Error::corrupt("a line is not UTF-8").with_source(error))?;
                for (position, column) in self.positions.iter().zip(columns) {
                    column.push(if *position == Some(0) { Value::from(line) } else { Value::Null });
                }
            }
        }
        Ok(())
    }
}

/// Whether the line ends here, and the bytes of its end. `\r\n` ends a line where `\n` does.
fn line_end(rest: &[u8], delimiter: &[u8]) -> Option<usize> {
    if rest.starts_with(delimiter) {
        Some(delimiter.len())
    } else if delimiter == b"\n" && rest.starts_with(b"\r\n") {
        Some(2)
    } else {
        None
    }
}

fn line<'a>(text: &'a [u8], at: &mut usize, delimiter: &[u8]) -> &'a [u8] {
    let start = *at;
    while *at < text.len() {
        if let Some(length) = line_end(&text[*at..], delimiter) {
            let end = *at;
            *at += length;
            return &text[start..end];
        }
        *at += 1;
    }
    &text[start..]
}

impl Csv {
    fn row(&self, text: &[u8], at: &mut usize) -> Result<Vec<String>> {
        let mut cells = Vec::new();
        loop {
            let (cell, ends_row) = self.cell(text, at)?;
            cells.push(
                String::from_utf8(cell).map_err(|error| Error::corrupt("a value is not UTF-8").with_source(error))?,
            );
            if ends_row {
                return Ok(cells);
            }
        }
    }

    fn cell(&self, text: &[u8], at: &mut usize) -> Result<(Vec<u8>, bool)> {
        let mut cell = Vec::new();
        let mut in_quotes = false;
        if self.quote.is_some() && text.get(*at).copied() == self.quote {
            in_quotes = true;
            *at += 1;
        }
        while let Some(&byte) = text.get(*at) {
            let rest = &text[*at..];
            if Some(byte) == self.escape && rest.len() > 1 && (in_quotes || line_end(&rest[1..], &self.line).is_none())
            {
                cell.push(rest[1]);
                *at += 2;
            } else if Some(byte) == self.escape && !in_quotes {
                *at += 1;
            } else if in_quotes {
                *at += 1;
                if Some(byte) != self.quote {
                    cell.push(byte);
                } else if text.get(*at).copied() == self.quote {
                    cell.push(byte);
                    *at += 1;
                } else {
                    in_quotes = false;
                }
            } else if let Some(length) = line_end(rest, &self.line) {
                *at += length;
                return Ok((cell, true));
            } else if rest.starts_with(&self.field) {
                *at += self.field.len();
                return Ok((cell, false));
            } else {
                cell.push(byte);
                *at += 1;
            }
        }
        if in_quotes {
            return Err(Error::corrupt("a quoted value does not end"));
        }
        Ok((cell, true))
    }
}

#[cfg(test)]
mod tests {
    use futures::TryStreamExt;
    use object_store::memory::InMemory;
    use object_store::path::Path;
    use object_store::{ObjectStore, ObjectStoreExt};

    use super::*;
    use crate::spec::{DataType, TypeKind};

    /// The rows of a text file as arrow prints them.
    async fn read(name: &str, text: &[u8], fields: &[(&str, TypeKind)], options: &[(&str, &str)]) -> Result<String> {
        let store = Arc::new(InMemory::new());
        let path = Path::from(name);
        store.put(&path, text.to_vec().into()).await?;
        let fields = fields
            .iter()
            .enumerate()
            .map(|(id, (name, kind))| DataField::new(id as i32, *name, DataType::nullable(kind.clone())))
            .collect();
        let mut read = FileRead::new(store as Arc<dyn ObjectStore>, path, text.len() as u64, fields)?;
        read.options = Arc::new(options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect());
        let batches: Vec<RecordBatch> = read.open().await?.try_collect().await?;
        Ok(arrow::util::pretty::pretty_format_batches(&batches)?
            .to_string()
            .lines()
            .filter(|line| line.starts_with('|'))
            .skip(1)
            .map(|line| line.split_whitespace().collect::<String>())
            .collect::<Vec<_>>()
            .join("\n"))
    }

    const TEXT: TypeKind = TypeKind::VarChar(crate::spec::types::MAX_LENGTH);

    // The bytes of a table written by Java.
    #[tokio::test]
    async fn csv_when_written_by_java_then_its_values() {
        let text =
            b"1,plain,1.50,2024-01-02 03:04:05.678\n2,\"with, comma \\\"q\\\"\",,\n3,,0.00,1970-01-01 00:00:00.000\n";
        let fields =
            [("id", TypeKind::Int), ("s", TEXT), ("d", TypeKind::Decimal(10, 2)), ("t", TypeKind::Timestamp(3))];
        assert_eq!(
            read("x.csv", text, &fields, &[]).await.unwrap(),
            "|1|plain|1.50|2024-01-02T03:04:05.678|\n|2|with,comma\"q\"|||\n|3||0.00|1970-01-01T00:00:00|"
        );
    }

    #[tokio::test]
    async fn csv_when_other_characters_are_set_then_they_separate() {
        let options = [
            ("csv.field-delimiter", "|"),
            ("csv.quote-character", "'"),
            ("csv.null-literal", "\\N"),
            ("csv.escape-character", "^"),
            ("csv.line-delimiter", ";"),
            ("csv.include-header", "true"),
        ];
        let fields = [("i", TypeKind::Int), ("v", TEXT), ("w", TEXT)];
        assert_eq!(
            read("x.csv", b"i|v|w;1|'a|b^'c'|\\N;2||'x;y';", &fields, &options).await.unwrap(),
            "|1|a|b'c||\n|2||x;y|"
        );
    }

    #[tokio::test]
    async fn csv_when_value_does_not_parse_then_null_or_error_as_the_mode_says() {
        let fields = [("i", TypeKind::TinyInt), ("b", TypeKind::VarBinary(9))];
        assert_eq!(read("x.csv", b"300,AP9B\r\n7\r\n", &fields, &[]).await.unwrap(), "||00ff41|\n|7||");
        let error = read("x.csv", b"300,AP9B\n", &fields, &[("csv.mode", "failfast")]).await.unwrap_err();
        assert!(error.to_string().contains("column i") && error.to_string().contains("300"), "{error}");
        assert!(read("x.csv", b"1,\"open", &fields, &[]).await.is_err());
    }

    #[tokio::test]
    async fn json_when_values_are_texts_or_numbers_then_both_are_read() {
        let fields = [
            ("id", TypeKind::Int),
            ("a", TypeKind::Array(Box::new(DataType::nullable(TypeKind::Int)))),
            (
                "m",
                TypeKind::Map(
                    Box::new(DataType::not_null(TypeKind::Date)),
                    Box::new(DataType::nullable(TypeKind::Row(vec![DataField::new(9, "x", DataType::string())]))),
                ),
            ),
        ];
        let text = b"{\"id\":\"1\",\"a\":[\"1\",null],\"m\":{\"1970-01-02\":{\"x\":\"q\"}}}\n{\"id\":2,\"a\":[3]}\n";
        let expected = "|1|[1,]|{1970-01-02:{x:q}}|\n|2|[3]||";
        assert_eq!(read("x.json", text, &fields, &[]).await.unwrap(), expected);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut gzip, text).unwrap();
        assert_eq!(read("x.json.gz", &gzip.finish().unwrap(), &fields, &[]).await.unwrap(), expected);
        let zstd = zstd::encode_all(text.as_slice(), 1).unwrap();
        assert_eq!(read("x.json.zst", &zstd, &fields, &[]).await.unwrap(), expected);
        for (name, chunk) in [
            ("x.json.snappy", snap::raw::Encoder::new().compress_vec(text).unwrap()),
            ("x.json.lz4", lz4_flex::block::compress(text)),
        ] {
            let mut framed = (text.len() as u32).to_be_bytes().to_vec();
            framed.extend_from_slice(&(chunk.len() as u32).to_be_bytes());
            framed.extend_from_slice(&chunk);
            assert_eq!(read(name, &framed, &fields, &[]).await.unwrap(), expected, "{name}");
            assert!(read(name, &framed[..framed.len() - 1], &fields, &[]).await.is_err(), "{name}");
        }
        assert!(read("x.json", b"{\"id\":\"x\"}", &fields, &[]).await.is_err());
        assert!(read("x.json", b"[1]", &fields, &[]).await.is_err());
    }

    #[tokio::test]
    async fn text_when_lines_are_empty_then_rows_all_the_same() {
        assert_eq!(read("x.text", b"hello\n\nb", &[("v", TEXT)], &[]).await.unwrap(), "|hello|\n||\n|b|");
    }
}
