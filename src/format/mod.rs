//! One data file: the columns and rows of it, whatever its format.
//!
//! ```text
//! FileRead {store, path, format, fields, selection} --open--> batches of `fields`, as the file's schema types them
//! FileScan (the engine's FileSource over the same) ----------> DataSourceExec, for formats the engine cannot read
//! FileWrite {store, path, format, fields} --open, write, finish--> a file
//! ```
//!
//! A read names columns by the names of the schema the file was written with; `read::evolution` maps them to the table's. Any
//! bytes that do not follow the format are an error that names the file: decoders of other crates that panic on them are fenced.
//!
//! May import: `error`, `options`, `spec`.

mod avro;
mod avro_blocks;
mod blob;
pub(crate) mod conform;
#[cfg(test)]
#[allow(clippy::single_range_in_vec_init)] // One range is a selection, too.
mod golden;
pub(crate) mod literal;
mod orc;
mod parquet;
mod rows;
mod scan;
pub(crate) mod stats;
mod text;
mod values;
mod variant;
pub(crate) mod write;

use std::any::Any;
use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use arrow::array::RecordBatch;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use object_store::ObjectStore;
use object_store::path::Path;

use crate::error::{Error, ErrorKind, Result};
use crate::spec::DataField;

pub(crate) use parquet::as_view;
pub use parquet::holds_nanoseconds;
pub use scan::FileScan;
pub use variant::variant_to_json;
pub use write::{FileWrite, FileWriter};

/// Batches of one file.
pub type BatchStream = BoxStream<'static, Result<RecordBatch>>;

/// The format of a data file (`spec/data.md 1.7`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileFormat {
    /// Apache Parquet
    Parquet,
    /// Apache ORC
    Orc,
    /// Apache Avro object container
    Avro,
    /// Comma-separated values
    Csv,
    /// One JSON object a line
    Json,
    /// Lines
    Text,
    /// The values of one BLOB column
    Blob,
}

/// How a text file as a whole is compressed: the last part of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Compression {
    None,
    Gzip,
    Bzip2,
    Deflate,
    Zstd,
    Snappy,
    Lz4,
}

impl FileFormat {
    /// The format that a data file's name says. Text formats put the compression last (`x.csv.gz`), a changelog file
    /// compacted by Flink is `x.cc-parquet`.
    ///
    /// # Errors
    /// Unsupported when the name says another format, or none.
    pub fn of_file(name: &str) -> Result<Self> {
        Self::split(name).map(|(format, _)| format)
    }

    fn split(name: &str) -> Result<(Self, Compression)> {
        let mut parts = name.rsplit('/').next().unwrap_or(name).rsplit('.');
        let mut extension = parts.next().unwrap_or_default();
        let compression = match extension {
            "gz" | "gzip" => Compression::Gzip,
            "bz2" | "bzip2" => Compression::Bzip2,
            "deflate" => Compression::Deflate,
            "zst" | "zstd" => Compression::Zstd,
            "snappy" => Compression::Snappy,
            "lz4" => Compression::Lz4,
            _ => Compression::None,
        };
        if compression != Compression::None {
            extension = parts.next().unwrap_or_default();
        }
        let format = match extension.strip_prefix("cc-").unwrap_or(extension) {
            "parquet" => Self::Parquet,
            "orc" => Self::Orc,
            "avro" => Self::Avro,
            "csv" => Self::Csv,
            "json" => Self::Json,
            "text" | "txt" => Self::Text,
            "blob" => Self::Blob,
            other => {
                return Err(Error::unsupported(format!("the data file format '{other}' can't be read"))
                    .with("file", name.to_owned()));
            }
        };
        Ok((format, compression))
    }

    /// Its name, as the option `file.format` has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Parquet => "parquet",
            Self::Orc => "orc",
            Self::Avro => "avro",
            Self::Csv => "csv",
            Self::Json => "json",
            Self::Text => "text",
            Self::Blob => "blob",
        }
    }
}

/// What to read of a file.
#[derive(Clone)]
pub struct FileRead {
    /// The store that holds the file.
    pub store: Arc<dyn ObjectStore>,
    /// The file in the store.
    pub path: Path,
    /// Its size in bytes, as the manifest has it.
    pub size: u64,
    /// Its format.
    pub format: FileFormat,
    /// The columns to give, as the file's schema names and types them; a column that the file lacks is NULL.
    pub fields: Vec<DataField>,
    /// Every column of the file in its order: CSV has no names. [`Self::fields`] are all of them when empty.
    pub file_fields: Arc<[DataField]>,
    /// The rows to keep: ranges of positions in the file, ascending and disjoint. All when `None`.
    pub selection: Option<Vec<Range<u64>>>,
    /// The most rows a batch has.
    pub batch_size: usize,
    /// The table's options: those of the text formats are among them.
    pub options: Arc<BTreeMap<String, String>>,
}

impl FileRead {
    /// Every row of the file at `path`, in batches of 8192, its format taken from the name.
    ///
    /// # Errors
    /// Unsupported when the format is not known.
    pub fn new(store: Arc<dyn ObjectStore>, path: Path, size: u64, fields: Vec<DataField>) -> Result<Self> {
        let format = FileFormat::of_file(path.as_ref())?;
        Ok(Self {
            store,
            path,
            size,
            format,
            fields,
            file_fields: Arc::new([]),
            selection: None,
            batch_size: 8192,
            options: Arc::default(),
        })
    }

    /// Opens the file. Each batch has [`Self::fields`] in their order, in the arrow types of
    /// [`DataField::to_arrow`](crate::spec::DataField::to_arrow).
    ///
    /// # Errors
    /// Here or from the stream: not found when the file is missing, corrupt when its bytes do not follow the format or its columns
    /// are not those of the schema, unsupported for a timestamp beyond arrow's nanoseconds. All name the file.
    pub async fn open(self) -> Result<BatchStream> {
        let path = self.path.to_string();
        if let Some(selection) = &self.selection {
            rows::check(selection).map_err(|error| error.with("file", path.clone()))?;
        }
        let opened = async {
            match self.format {
                FileFormat::Parquet => parquet::open(self).await,
                FileFormat::Orc => orc::open(self).await,
                FileFormat::Avro => avro::open(self).await,
                FileFormat::Blob => blob::open(self).await,
                FileFormat::Csv | FileFormat::Json | FileFormat::Text => text::open(self).await,
            }
        };
        let stream = AssertUnwindSafe(opened)
            .catch_unwind()
            .await
            .unwrap_or_else(|panic| Err(panicked(panic.as_ref(), ErrorKind::Corrupt, "decoded")))
            .map_err(|error| at_file(error, &path))?;
        let mut is_over = false;
        Ok(AssertUnwindSafe(stream)
            .catch_unwind()
            .map(move |batch| {
                batch
                    .unwrap_or_else(|panic| Err(panicked(panic.as_ref(), ErrorKind::Corrupt, "decoded")))
                    .map_err(|error| at_file(error, &path))
            })
            // A decoder that failed is in no state to go on.
            .take_while(move |batch| {
                let goes_on = !is_over;
                is_over = batch.is_err();
                std::future::ready(goes_on)
            })
            .boxed())
    }
}

fn at_file(error: Error, path: &str) -> Error {
    if error.context().iter().any(|(key, _)| *key == "file") { error } else { error.with("file", path.to_owned()) }
}

/// Decoders of other crates index without looking where bytes are wrong; what was wrong is said by `kind` and `done`.
fn panicked(panic: &(dyn Any + Send), kind: ErrorKind, done: &str) -> Error {
    let message = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("a panic without a message");
    Error::new(kind, format!("the file can't be {done}: {message}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_file_when_compression_or_changelog_is_named_then_the_format_behind_it() {
        for (name, format) in [
            ("data-1-0.parquet", FileFormat::Parquet),
            ("bucket-0/data-1-0.zstd.parquet", FileFormat::Parquet),
            ("data-1-0.json.gz", FileFormat::Json),
            ("data-1-0.csv", FileFormat::Csv),
            ("compacted-changelog-u$0-12.cc-orc", FileFormat::Orc),
            ("x.y.avro", FileFormat::Avro),
            ("data-1-1.blob", FileFormat::Blob),
        ] {
            assert_eq!(FileFormat::of_file(name).unwrap(), format, "{name}");
        }
        for name in ["data-1-0.lance", "data", "", "x.gz"] {
            assert!(FileFormat::of_file(name).is_err(), "{name}");
        }
    }
}
