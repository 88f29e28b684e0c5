//! Manifest files (`spec/metadata.md 4.3`), decoded into columns: one vector a field, never an object an entry.
//!
//! A manifest of a busy table has thousands of entries and a query looks at most of them once, so they are kept as
//! columns that pruning can walk. [`DataFile`] is a row of such columns, by reference. [`ManifestFile`] decodes in two
//! phases, the second one for survivors only; [`ManifestEntries::decode`] does everything at once.
//!
//! May import: `error`, `spec::avro`.

mod append;
mod decode;
mod encode;
#[cfg(test)]
pub(crate) mod golden;
mod program;

use std::cmp::Ordering;
use std::sync::Arc;

pub use decode::{EntryHeads, ManifestFile};
pub(in crate::spec) use encode::StatsParts;
pub use encode::{EncodedManifest, ManifestEncoder};

use crate::error::{Error, Result};

/// Byte strings, one after another in one buffer. As long as all are equal, as keys of append tables are, only one is kept.
#[derive(Clone, Debug, Default)]
pub struct BytesColumn {
    /// The number of strings that `data` stands for while all are equal; 0 otherwise.
    equal: usize,
    /// Where each string ends; string `i` starts where string `i - 1` ends. Empty while all are equal.
    ends: Vec<u32>,
    data: Vec<u8>,
}

impl BytesColumn {
    /// Room for `rows` strings of `bytes` bytes altogether.
    pub fn with_capacity(rows: usize, bytes: usize) -> Self {
        Self { equal: 0, ends: Vec::with_capacity(rows), data: Vec::with_capacity(bytes) }
    }

    /// The number of strings.
    pub fn len(&self) -> usize {
        self.equal + self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// String `row`.
    pub fn get(&self, row: usize) -> &[u8] {
        if self.equal > 0 {
            assert!(row < self.equal, "row {row} of {}", self.equal);
            return &self.data;
        }
        let start = if row == 0 { 0 } else { self.ends[row - 1] as usize };
        &self.data[start..self.ends[row] as usize]
    }

    /// Adds a string. False, and nothing is added, when the column would pass 4 GB.
    #[must_use]
    pub fn push(&mut self, value: &[u8]) -> bool {
        if self.ends.is_empty() {
            if self.equal == 0 {
                self.data.extend_from_slice(value);
            } else if self.data != value {
                return self.spell_out() && self.push_end(value);
            }
            self.equal += 1;
            return true;
        }
        self.push_end(value)
    }

    fn push_end(&mut self, value: &[u8]) -> bool {
        match u32::try_from(self.data.len() + value.len()) {
            Ok(end) => {
                self.data.extend_from_slice(value);
                self.ends.push(end);
                true
            }
            Err(_) => false,
        }
    }

    /// Writes down each of the equal strings.
    fn spell_out(&mut self) -> bool {
        let (rows, len) = (self.equal, self.data.len());
        if rows == 0 {
            return true;
        }
        if rows.checked_mul(len).is_none_or(|bytes| u32::try_from(bytes).is_err()) {
            return false;
        }
        self.data.reserve(len * (rows - 1));
        for _ in 1..rows {
            self.data.extend_from_within(..len);
        }
        self.ends.extend((1..=rows).map(|row| (row * len) as u32));
        self.equal = 0;
        true
    }

    /// Bytes held in memory.
    pub fn memory(&self) -> usize {
        self.ends.capacity() * 4 + self.data.capacity()
    }
}

/// Statistics as the manifest holds them: serialized BinaryRows and null counts (`spec/metadata.md 4.4`).
#[derive(Clone, Debug, Default)]
pub struct StatsColumn {
    /// Serialized BinaryRow of the minima of each entry.
    pub min: BytesColumn,
    /// Serialized BinaryRow of the maxima of each entry.
    pub max: BytesColumn,
    /// Null counts of all entries, one after another; -1 where the count is null.
    pub null_counts: Vec<i64>,
    /// Where the null counts of each entry end in `null_counts`.
    pub null_count_ends: Vec<u32>,
}

impl StatsColumn {
    /// The null counts of entry `row`, one a statistics column; empty when none were written.
    pub fn null_counts(&self, row: usize) -> &[i64] {
        let start = if row == 0 { 0 } else { self.null_count_ends[row - 1] as usize };
        &self.null_counts[start..self.null_count_ends[row] as usize]
    }

    /// Bytes held in memory.
    pub fn memory(&self) -> usize {
        self.min.memory() + self.max.memory() + self.null_counts.capacity() * 8 + self.null_count_ends.capacity() * 4
    }
}

/// Values that repeat from entry to entry: distinct values once, and an index an entry.
#[derive(Clone, Debug)]
pub struct Dictionary<T> {
    /// Distinct values in order of appearance.
    pub values: Vec<T>,
    /// Position in `values`, one an entry.
    pub keys: Vec<u32>,
}

impl<T> Default for Dictionary<T> {
    fn default() -> Self {
        Self { values: Vec::new(), keys: Vec::new() }
    }
}

impl<T> Dictionary<T> {
    /// The value of entry `row`.
    pub fn get(&self, row: usize) -> &T {
        &self.values[self.keys[row] as usize]
    }
}

/// The number that stands for "not recorded" in columns of counts and ids that the format lets be null.
pub const UNKNOWN: i64 = -1;

/// Entries of a manifest as columns; all columns have [`Self::len`] rows. `spec/metadata.md 4.3` field by field.
#[derive(Clone, Debug, Default)]
pub struct ManifestEntries {
    /// 0 = ADD, 1 = DELETE.
    pub kind: Vec<u8>,
    /// Serialized BinaryRow of the partition values.
    pub partition: Dictionary<Arc<[u8]>>,
    /// Bucket; -2 for the postpone bucket.
    pub bucket: Vec<i32>,
    /// Buckets of the partition when the file was written; not positive when they are not fixed.
    pub total_buckets: Vec<i32>,
    /// File name.
    pub file_name: BytesColumn,
    /// File size in bytes.
    pub file_size: Vec<i64>,
    /// Physical rows.
    pub row_count: Vec<i64>,
    /// Serialized BinaryRow of the first key.
    pub min_key: BytesColumn,
    /// Serialized BinaryRow of the last key.
    pub max_key: BytesColumn,
    /// Statistics of the trimmed primary key columns.
    pub key_stats: StatsColumn,
    /// Statistics of the columns that `value_stats_cols` names.
    pub value_stats: StatsColumn,
    /// Smallest sequence number.
    pub min_sequence_number: Vec<i64>,
    /// Greatest sequence number.
    pub max_sequence_number: Vec<i64>,
    /// Schema that the file was written with.
    pub schema_id: Vec<i64>,
    /// Level; 0 for append tables.
    pub level: Vec<i32>,
    /// Sibling files that belong to the file.
    pub extra_files: Dictionary<Arc<[String]>>,
    /// Wall clock of the writer, as milliseconds; `i64::MIN` when not recorded.
    pub creation_time: Vec<i64>,
    /// Rows that retract; [`UNKNOWN`] when not recorded.
    pub delete_row_count: Vec<i64>,
    /// File index inside the manifest; `None` for a column without any.
    pub embedded_index: Option<Vec<Option<Arc<[u8]>>>>,
    /// 0 = APPEND, 1 = COMPACT, -1 when not recorded.
    pub file_source: Vec<i8>,
    /// Names of the value statistics' columns; `None` means all columns of the file's schema.
    pub value_stats_cols: Dictionary<Option<Arc<[String]>>>,
    /// Absolute path of a file outside the table's folder.
    pub external_path: Option<Vec<Option<Arc<str>>>>,
    /// Row id of the first row; [`UNKNOWN`] when not recorded.
    pub first_row_id: Vec<i64>,
    /// Columns physically in the file; `None` means all of the file's schema.
    pub write_cols: Dictionary<Option<Arc<[String]>>>,
}

impl ManifestEntries {
    /// The number of entries.
    pub fn len(&self) -> usize {
        self.kind.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.kind.is_empty()
    }

    /// Bytes held in memory, roughly.
    pub fn memory(&self) -> usize {
        let fixed = self.len() * (1 + 4 + 4 + 4 + 8 * 8 + 4 + 4 + 4 + 1 + 4);
        let optional = self.embedded_index.as_ref().map_or(0, |column| {
            column.iter().map(|index| 16 + index.as_ref().map_or(0, |bytes| bytes.len() + 16)).sum::<usize>()
        }) + self.external_path.as_ref().map_or(0, |column| {
            column.iter().map(|path| 16 + path.as_ref().map_or(0, |path| path.len() + 16)).sum::<usize>()
        });
        fixed
            + optional
            + self.partition.values.iter().map(|value| value.len() + 16).sum::<usize>()
            + self.file_name.memory()
            + self.min_key.memory()
            + self.max_key.memory()
            + self.key_stats.memory()
            + self.value_stats.memory()
    }
}

/// One entry of a manifest: a row of its columns.
#[derive(Clone, Debug)]
pub struct DataFile {
    /// The columns.
    pub entries: Arc<ManifestEntries>,
    /// The row.
    pub row: u32,
}

impl DataFile {
    fn at(&self) -> usize {
        self.row as usize
    }

    /// File name, without folder. Text that is not UTF-8 was refused when the manifest was decoded.
    pub fn name(&self) -> &str {
        std::str::from_utf8(self.entries.file_name.get(self.at())).unwrap_or("?")
    }

    /// Serialized BinaryRow of the partition.
    pub fn partition(&self) -> &Arc<[u8]> {
        self.entries.partition.get(self.at())
    }

    /// Bucket.
    pub fn bucket(&self) -> i32 {
        self.entries.bucket[self.at()]
    }

    /// Buckets of the partition when the file was written.
    pub fn total_buckets(&self) -> i32 {
        self.entries.total_buckets[self.at()]
    }

    /// Size in bytes.
    pub fn size(&self) -> u64 {
        self.entries.file_size[self.at()].max(0) as u64
    }

    /// Physical rows.
    pub fn rows(&self) -> u64 {
        self.entries.row_count[self.at()].max(0) as u64
    }

    /// Level.
    pub fn level(&self) -> i32 {
        self.entries.level[self.at()]
    }

    /// Id of the schema that the file was written with.
    pub fn schema_id(&self) -> i64 {
        self.entries.schema_id[self.at()]
    }

    /// Serialized BinaryRow of the first key.
    pub fn min_key(&self) -> &[u8] {
        self.entries.min_key.get(self.at())
    }

    /// Serialized BinaryRow of the last key.
    pub fn max_key(&self) -> &[u8] {
        self.entries.max_key.get(self.at())
    }

    /// Smallest and greatest sequence number.
    pub fn sequence_numbers(&self) -> (i64, i64) {
        (self.entries.min_sequence_number[self.at()], self.entries.max_sequence_number[self.at()])
    }

    /// Rows that retract, when recorded.
    pub fn delete_rows(&self) -> Option<u64> {
        u64::try_from(self.entries.delete_row_count[self.at()]).ok()
    }

    /// Row id of the first row, when recorded.
    pub fn first_row_id(&self) -> Option<i64> {
        Some(self.entries.first_row_id[self.at()]).filter(|id| *id != UNKNOWN)
    }

    /// Columns physically in the file; `None` means all of its schema.
    pub fn write_cols(&self) -> Option<&Arc<[String]>> {
        self.entries.write_cols.get(self.at()).as_ref()
    }

    /// Sibling files that belong to the file.
    pub fn extra_files(&self) -> &[String] {
        self.entries.extra_files.get(self.at())
    }

    /// File index inside the manifest.
    pub fn embedded_index(&self) -> Option<&Arc<[u8]>> {
        self.entries.embedded_index.as_ref()?[self.at()].as_ref()
    }

    /// Absolute path of a file outside the table's folder.
    pub fn external_path(&self) -> Option<&Arc<str>> {
        self.entries.external_path.as_ref()?[self.at()].as_ref()
    }

    /// The format, told by the name (`spec/data.md 1.7`): the last extension that is not a compression.
    pub fn format(&self) -> &str {
        format_of(self.name())
    }

    /// Orders by file name: a total, stable order for files that nothing else orders.
    pub fn cmp_by_name(&self, other: &Self) -> Ordering {
        self.name().cmp(other.name())
    }
}

/// The format a file name tells (`spec/data.md 1.7`): `x.zstd.parquet` is parquet, `x.csv.gz` is csv.
pub fn format_of(name: &str) -> &str {
    const COMPRESSIONS: [&str; 10] = ["zst", "zstd", "gz", "gzip", "bz2", "lz4", "snappy", "lzo", "deflate", "xz"];
    let mut extensions = name.rsplit('.');
    let last = extensions.next().unwrap_or(name);
    if COMPRESSIONS.contains(&last) { extensions.next().unwrap_or(last) } else { last }
}

/// Refuses names that are not the plain name of a file in one folder: they could lead out of it.
pub(crate) fn check_file_name(name: &str) -> Result<()> {
    let plain = !matches!(name, "" | "." | "..") && !name.contains(['/', '\0']);
    if plain { Ok(()) } else { Err(Error::corrupt(format!("{name:?} is no file name"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn format_of_when_compression_in_name_then_format_token() {
        for (name, format) in [
            ("data-1-0.parquet", "parquet"),
            ("data-1-0.zstd.parquet", "parquet"),
            ("data-1-0.csv.gz", "csv"),
            ("data-1-0.json.zst", "json"),
            ("data-1-0.orc", "orc"),
        ] {
            assert_eq!(format_of(name), format);
        }
    }
}
