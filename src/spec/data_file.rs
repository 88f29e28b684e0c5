//! What the metadata says of one data file (`spec/metadata.md 4.3`, `spec/data.md 1.9`), as an owned value: what writers make
//! and commits carry. Planning uses columns of them instead ([`super::manifest`]).
//!
//! May import: `spec::manifest`.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::manifest::{DataFile, ManifestEntries, StatsColumn, UNKNOWN};

/// Statistics of several columns as they are stored (`spec/metadata.md 4.4`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SimpleStats {
    /// Serialized BinaryRow of the minima.
    pub min: Vec<u8>,
    /// Serialized BinaryRow of the maxima.
    pub max: Vec<u8>,
    /// Null counts, one a column; empty when none were written.
    pub null_counts: Vec<Option<i64>>,
}

impl SimpleStats {
    /// Statistics of no columns.
    pub fn empty() -> Self {
        Self { min: EMPTY_ROW.to_vec(), max: EMPTY_ROW.to_vec(), null_counts: Vec::new() }
    }
}

/// The serialized BinaryRow without fields: the partition of an unpartitioned table, the key of an append table.
pub const EMPTY_ROW: [u8; 12] = [0; 12];

/// Where a data file came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FileSource {
    /// Written by a writer.
    Append,
    /// Written by a compaction.
    Compact,
}

/// A data file, field by field as `spec/metadata.md 4.3`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataFileMeta {
    /// File name, without folder.
    pub file_name: String,
    /// Size in bytes.
    pub file_size: i64,
    /// Physical rows, those that retract included.
    pub row_count: i64,
    /// Serialized BinaryRow of the first trimmed primary key; without fields for append tables.
    pub min_key: Vec<u8>,
    /// Serialized BinaryRow of the last trimmed primary key.
    pub max_key: Vec<u8>,
    /// Statistics of the trimmed primary key columns; empty for append tables.
    pub key_stats: SimpleStats,
    /// Statistics of the columns that `value_stats_cols` names.
    pub value_stats: SimpleStats,
    /// Smallest sequence number.
    pub min_sequence_number: i64,
    /// Greatest sequence number.
    pub max_sequence_number: i64,
    /// Schema that the file was written with.
    pub schema_id: i64,
    /// Level; 0 for append tables.
    pub level: i32,
    /// Sibling files that belong to the file.
    pub extra_files: Vec<String>,
    /// Wall clock of the writer, read as UTC, epoch milliseconds.
    pub creation_time: Option<i64>,
    /// Rows that retract.
    pub delete_row_count: Option<i64>,
    /// File index inside the manifest.
    pub embedded_index: Option<Vec<u8>>,
    /// Where the file came from.
    pub file_source: Option<FileSource>,
    /// Names of the value statistics' columns; `None` means all columns of the file's schema.
    pub value_stats_cols: Option<Vec<String>>,
    /// Absolute path of a file outside the table's folder.
    pub external_path: Option<String>,
    /// Row id of the first row.
    pub first_row_id: Option<i64>,
    /// Columns physically in the file; `None` means all of the file's schema.
    pub write_cols: Option<Vec<String>>,
}

/// An entry of a manifest: a data file that was added or deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestEntry {
    /// Whether the file was deleted.
    pub deleted: bool,
    /// Serialized BinaryRow of the partition.
    pub partition: Arc<[u8]>,
    /// Bucket; -2 for the postpone bucket.
    pub bucket: i32,
    /// Buckets of the partition when the file was written; not positive when they are not fixed.
    pub total_buckets: i32,
    /// The file.
    pub file: Arc<DataFileMeta>,
}

/// What makes two entries speak of the same file (`spec/metadata.md 4.5`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FileIdentity {
    /// Serialized BinaryRow of the partition.
    pub partition: Arc<[u8]>,
    /// Bucket.
    pub bucket: i32,
    /// Level.
    pub level: i32,
    /// File name.
    pub file_name: String,
    /// Sibling files.
    pub extra_files: Vec<String>,
    /// File index inside the manifest.
    pub embedded_index: Option<Vec<u8>>,
    /// Absolute path of a file outside the table's folder.
    pub external_path: Option<String>,
}

/// [`FileIdentity`] by reference. Only the name is hashed: it holds a UUID, hashing more would only cost time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileIdentityRef<'a> {
    /// Serialized BinaryRow of the partition.
    pub partition: &'a [u8],
    /// Bucket.
    pub bucket: i32,
    /// Level.
    pub level: i32,
    /// File name.
    pub file_name: &'a [u8],
    /// Sibling files.
    pub extra_files: &'a [String],
    /// File index inside the manifest.
    pub embedded_index: Option<&'a [u8]>,
    /// Absolute path of a file outside the table's folder.
    pub external_path: Option<&'a str>,
}

impl Hash for FileIdentityRef<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.file_name.hash(state);
    }
}

impl<'a> FileIdentityRef<'a> {
    /// Which file this is.
    pub fn of(file: &'a DataFile) -> Self {
        Self::of_row(&file.entries, file.row as usize)
    }

    /// Which file row `row` of a manifest speaks of.
    pub fn of_row(entries: &'a ManifestEntries, row: usize) -> Self {
        Self {
            partition: entries.partition.get(row),
            bucket: entries.bucket[row],
            level: entries.level[row],
            file_name: entries.file_name.get(row),
            extra_files: entries.extra_files.get(row),
            embedded_index: entries.embedded_index.as_ref().and_then(|column| column[row].as_deref()),
            external_path: entries.external_path.as_ref().and_then(|column| column[row].as_deref()),
        }
    }

    /// Which file an entry speaks of.
    pub fn of_entry(entry: &'a ManifestEntry) -> Self {
        Self {
            partition: &entry.partition,
            bucket: entry.bucket,
            level: entry.file.level,
            file_name: entry.file.file_name.as_bytes(),
            extra_files: &entry.file.extra_files,
            embedded_index: entry.file.embedded_index.as_deref(),
            external_path: entry.file.external_path.as_deref(),
        }
    }
}

impl ManifestEntry {
    /// Which file the entry speaks of.
    pub fn identity(&self) -> FileIdentity {
        FileIdentity {
            partition: Arc::clone(&self.partition),
            bucket: self.bucket,
            level: self.file.level,
            file_name: self.file.file_name.clone(),
            extra_files: self.file.extra_files.clone(),
            embedded_index: self.file.embedded_index.clone(),
            external_path: self.file.external_path.clone(),
        }
    }

    /// An entry that adds or deletes the file as `file` describes it.
    pub fn of(file: &DataFile, deleted: bool) -> Self {
        Self {
            deleted,
            partition: Arc::clone(file.partition()),
            bucket: file.bucket(),
            total_buckets: file.total_buckets(),
            file: Arc::new(DataFileMeta::from(file)),
        }
    }
}

impl From<&DataFile> for DataFileMeta {
    fn from(file: &DataFile) -> Self {
        let (entries, row) = (&*file.entries, file.row as usize);
        let (min_sequence_number, max_sequence_number) = file.sequence_numbers();
        let stats = |column: &StatsColumn| SimpleStats {
            min: column.min.get(row).to_vec(),
            max: column.max.get(row).to_vec(),
            null_counts: column.null_counts(row).iter().map(|count| (*count != UNKNOWN).then_some(*count)).collect(),
        };
        Self {
            file_name: file.name().to_owned(),
            file_size: entries.file_size[row],
            row_count: entries.row_count[row],
            min_key: file.min_key().to_vec(),
            max_key: file.max_key().to_vec(),
            key_stats: stats(&entries.key_stats),
            value_stats: stats(&entries.value_stats),
            min_sequence_number,
            max_sequence_number,
            schema_id: file.schema_id(),
            level: file.level(),
            extra_files: file.extra_files().to_vec(),
            creation_time: Some(entries.creation_time[row]).filter(|time| *time != i64::MIN),
            delete_row_count: Some(entries.delete_row_count[row]).filter(|count| *count != UNKNOWN),
            embedded_index: file.embedded_index().map(|index| index.to_vec()),
            file_source: match entries.file_source[row] {
                0 => Some(FileSource::Append),
                1 => Some(FileSource::Compact),
                _ => None,
            },
            value_stats_cols: entries.value_stats_cols.get(row).as_ref().map(|names| names.to_vec()),
            external_path: file.external_path().map(|path| path.to_string()),
            first_row_id: file.first_row_id(),
            write_cols: file.write_cols().map(|names| names.to_vec()),
        }
    }
}
