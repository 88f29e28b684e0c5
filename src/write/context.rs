//! What the data files of one bucket have in common: where they go and how they are called (`spec/data.md 1.8`,
//! `spec/metadata.md 1.3-1.5`).

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use datafusion::execution::memory_pool::MemoryPool;
use object_store::path::Path;

use super::OwnFiles;
use super::mode::POSTPONE_BUCKET;
use crate::error::{Error, Result};
use crate::format::FileFormat;
use crate::options::{ExternalPaths, ExternalStrategy, FileRole, WriteOptions};
use crate::spec::file_index::FileIndexDefinition;
use crate::spec::partition::partition_path;
use crate::spec::{DataField, TableSchema};
use crate::store::TableFiles;
use crate::table::Table;

/// Names of the files of one writer and bucket: one UUID, and a number for each file.
#[derive(Debug)]
pub struct FileNames {
    uuid: String,
    next: AtomicU32,
}

impl Default for FileNames {
    fn default() -> Self {
        Self { uuid: uuid::Uuid::new_v4().to_string(), next: AtomicU32::new(0) }
    }
}

/// What the data files of one bucket have in common. Cheap to clone; clones share the names.
#[derive(Clone, Debug)]
pub struct DataFileContext {
    /// The table's files.
    pub files: Arc<TableFiles>,
    /// The schema to write with.
    pub schema: Arc<TableSchema>,
    /// The options to write with.
    pub options: Arc<WriteOptions>,
    /// The file indexes of data files, by the columns of the schema.
    pub indexes: Arc<[FileIndexDefinition]>,
    /// Serialized BinaryRow of the partition.
    pub partition: Arc<[u8]>,
    /// The partition's escaped path, empty without partitions.
    pub partition_path: Arc<str>,
    /// Bucket; -2 for the postpone bucket.
    pub bucket: i32,
    /// Names of the files.
    pub names: Arc<FileNames>,
    /// The files of the write so far.
    pub own_files: Arc<OwnFiles>,
    /// Where memory is accounted.
    pub pool: Arc<dyn MemoryPool>,
    /// Between the prefix and the UUID of data files: who writes to the postpone bucket.
    pub writer: Option<Arc<str>>,
}

/// A file that is about to be written.
#[derive(Clone, Debug)]
pub(super) struct NewFile {
    pub name: String,
    pub path: Path,
    pub format: FileFormat,
    pub compression: String,
    /// The whole location of a file outside the table's folder.
    pub external_path: Option<String>,
}

impl DataFileContext {
    /// The files of a bucket of a table.
    ///
    /// # Errors
    /// Corrupt when the partition is not one of the table, unsupported when its folder has no name, invalid for file indexes
    /// that can't be.
    pub fn new(
        table: &Table,
        options: Arc<WriteOptions>,
        partition: Arc<[u8]>,
        bucket: i32,
        own_files: Arc<OwnFiles>,
        pool: Arc<dyn MemoryPool>,
    ) -> Result<Self> {
        let (schema, settings) = (table.schema(), table.settings());
        let fields: Vec<&DataField> = schema.partition_fields();
        let path =
            partition_path(&partition, &fields, settings.partition_legacy_name, &settings.partition_default_name)?;
        Ok(Self {
            files: Arc::clone(table.files()),
            schema: Arc::clone(schema),
            indexes: FileIndexDefinition::all(&schema.fields, settings)?.into(),
            options,
            partition,
            partition_path: path.into(),
            bucket,
            names: Arc::default(),
            own_files,
            pool,
            writer: None,
        })
    }

    /// The same, with names that tell who writes: data files of the postpone bucket are read back in the order in which one
    /// writer wrote them (`spec/data.md 3.7`).
    #[must_use]
    pub fn with_writer(self, commit_user: &str, writer: i32) -> Self {
        Self { writer: Some(format!("-u-{commit_user}-s-{writer}-w-").into()), ..self }
    }

    /// The format of new files. Those of the postpone bucket are Avro, whatever the table's are.
    pub(super) fn format(&self, role: FileRole) -> Result<FileFormat> {
        match (role, self.bucket) {
            (FileRole::Data(_), POSTPONE_BUCKET) => Ok(FileFormat::Avro),
            _ => file_format(&self.options, role),
        }
    }

    /// Names a file and notes it among the write's own.
    pub(super) fn new_file(&self, role: FileRole) -> Result<NewFile> {
        let (format, compression) = (self.format(role)?, self.options.compression(role).to_owned());
        let mut name = match role {
            FileRole::Data(_) => self.options.data_file_prefix.clone(),
            FileRole::Changelog(_) => self.options.changelog_file_prefix.clone(),
        };
        if let (FileRole::Data(_), Some(writer)) = (role, &self.writer) {
            name.push_str(writer);
        }
        let number = self.names.next.fetch_add(1, Ordering::Relaxed);
        // Writing to a string does not fail.
        let _ = write!(name, "{}-{number}{}", self.names.uuid, self.extension(format, &compression));
        let (path, external_path) = match &self.options.external_paths {
            None => (self.files.data_path(&self.partition_path, self.bucket, &name, None)?, None),
            Some(paths) => {
                let location = self.external_location(paths, &name, number);
                (self.files.data_path("", self.bucket, &name, Some(&location))?, Some(location))
            }
        };
        self.own_files.add(path.clone());
        Ok(NewFile { name, path, format, compression, external_path })
    }

    /// The end of a file's name: text formats are compressed as a whole, and the codec comes last.
    fn extension(&self, format: FileFormat, compression: &str) -> String {
        let format_name = format.name();
        let is_plain = matches!(compression, "" | "none" | "uncompressed");
        match format {
            FileFormat::Csv | FileFormat::Json | FileFormat::Text if !is_plain => {
                let codec = match compression {
                    "gzip" => "gz",
                    "bzip2" => "bz2",
                    "zstd" => "zst",
                    other => other,
                };
                format!(".{format_name}.{codec}")
            }
            _ if self.options.suffix_has_compression && !compression.is_empty() => {
                format!(".{compression}.{format_name}")
            }
            _ => format!(".{format_name}"),
        }
    }

    fn external_location(&self, paths: &ExternalPaths, name: &str, number: u32) -> String {
        // Writers start at different roots, each by its own UUID.
        let start = self.names.uuid.bytes().fold(0_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte)));
        let turn = start.wrapping_add(number);
        let index = match &paths.strategy {
            ExternalStrategy::Weighted(weights) => weighted(turn, weights),
            ExternalStrategy::RoundRobin | ExternalStrategy::Entropy => turn as usize % paths.roots.len(),
        };
        let mut location = paths.roots[index].clone();
        for part in [self.options.path_directory.as_deref(), Some(self.partition_path.trim_end_matches('/'))] {
            if let Some(part) = part.filter(|part| !part.is_empty()) {
                location.push('/');
                location.push_str(part);
            }
        }
        location.push_str(if self.bucket == POSTPONE_BUCKET { "/bucket-postpone" } else { "/bucket-" });
        if self.bucket != POSTPONE_BUCKET {
            let _ = write!(location, "{}", self.bucket);
        }
        if paths.strategy == ExternalStrategy::Entropy {
            location.push_str(&entropy(name));
        }
        location.push('/');
        location.push_str(name);
        location
    }

    /// The error with where it happened.
    pub(super) fn at(&self, error: Error) -> Error {
        error.with("bucket", self.bucket.to_string()).with("partition", self.partition_path.to_string())
    }
}

/// The format of new files, as the options say.
pub(super) fn file_format(options: &WriteOptions, role: FileRole) -> Result<FileFormat> {
    FileFormat::of_file(&format!(".{}", options.format(role)))
}

/// Which of the roots a turn takes, each as often as its weight says.
fn weighted(turn: u32, weights: &[u32]) -> usize {
    let total: u64 = weights.iter().map(|weight| u64::from(*weight)).sum();
    let mut left = u64::from(turn) % total.max(1);
    for (index, weight) in weights.iter().enumerate() {
        match left.checked_sub(u64::from(*weight)) {
            None => return index,
            Some(rest) => left = rest,
        }
    }
    0
}

/// Folders that spread files over a store: the low 20 bits of the name's hash.
fn entropy(name: &str) -> String {
    let bits = format!("{:020b}", murmur3_32(name.as_bytes()) & 0xf_ffff);
    format!("/{}/{}/{}/{}", &bits[..4], &bits[4..8], &bits[8..12], &bits[12..])
}

/// Murmur3, 32 bits, seed 0, of bytes of any length.
fn murmur3_32(bytes: &[u8]) -> u32 {
    let scramble = |word: u32| word.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
    let (words, rest) = bytes.as_chunks::<4>();
    let mut hash = 0_u32;
    for word in words {
        hash = (hash ^ scramble(u32::from_le_bytes(*word))).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64);
    }
    let tail = rest.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte));
    hash ^= scramble(tail) ^ bytes.len() as u32;
    hash = (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae35);
    hash ^ hash >> 16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn murmur3_32_when_reference_values_then_those() {
        assert_eq!(murmur3_32(b""), 0);
        assert_eq!(murmur3_32(b"abc"), 0xb3dd_93fa);
        assert_eq!(murmur3_32(b"Hello, world!"), 0xc036_3e43);
        assert_eq!(murmur3_32(b"test"), 0xba6b_d213);
    }

    #[test]
    fn entropy_when_hashed_then_twenty_bits_in_four_folders() {
        let folders = entropy("test");
        assert_eq!(folders, "/1011/1101/0010/00010011");
        assert_eq!(folders.len(), 24);
    }

    #[test]
    fn weighted_when_many_turns_then_as_often_as_the_weights() {
        let mut counts = [0; 3];
        (0..600).for_each(|turn| counts[weighted(turn, &[3, 1, 2])] += 1);
        assert_eq!(counts, [300, 100, 200]);
    }
}
