//! Manifest files, written: what [`super::ManifestEntries`] decodes, byte for byte as Java 1.4 writes it.
//!
//! ```text
//! push(entry), push_row(columns, row) -> blocks -> finish -> bytes, and what the manifest list says of them
//! ```
//!
//! May import: `error`, `spec::{avro, binary_row, data_file, datum, manifest_list, types}`.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;

use super::{ManifestEntries, StatsColumn, UNKNOWN};
use crate::error::{Error, Result};
use crate::spec::avro::encode::{put_array, put_bytes, put_int, put_long, put_optional, put_texts};
use crate::spec::avro::{AvroCodec, ContainerWriter};
use crate::spec::binary_row::{BinaryRow, BinaryRowWriter};
use crate::spec::data_file::{FileSource, ManifestEntry, SimpleStats};
use crate::spec::datum::Datum;
use crate::spec::manifest_list::ManifestMeta;
use crate::spec::types::{DataType, TypeKind};

/// The version of an entry of a manifest; a permanent id of the format.
const VERSION: i32 = 2;

/// The schema of a manifest (`spec/metadata.md 4.3`), in the words of Java 1.4.
const SCHEMA: &str = concat!(
    r#"{"type":"record","name":"record","namespace":"org.apache.paimon.avro.generated","fields":["#,
    r#"{"name":"_VERSION","type":"int"},{"name":"_KIND","type":"int"},{"name":"_PARTITION","type":"bytes"},"#,
    r#"{"name":"_BUCKET","type":"int"},{"name":"_TOTAL_BUCKETS","type":"int"},"#,
    r#"{"name":"_FILE","type":{"type":"record","name":"record__FILE","fields":["#,
    r#"{"name":"_FILE_NAME","type":"string"},{"name":"_FILE_SIZE","type":"long"},"#,
    r#"{"name":"_ROW_COUNT","type":"long"},{"name":"_MIN_KEY","type":"bytes"},{"name":"_MAX_KEY","type":"bytes"},"#,
    r#"{"name":"_KEY_STATS","type":{"type":"record","name":"record__FILE__KEY_STATS","fields":["#,
    r#"{"name":"_MIN_VALUES","type":"bytes"},{"name":"_MAX_VALUES","type":"bytes"},"#,
    r#"{"name":"_NULL_COUNTS","type":["null",{"type":"array","items":["null","long"]}],"default":null}]}},"#,
    r#"{"name":"_VALUE_STATS","type":{"type":"record","name":"record__FILE__VALUE_STATS","fields":["#,
    r#"{"name":"_MIN_VALUES","type":"bytes"},{"name":"_MAX_VALUES","type":"bytes"},"#,
    r#"{"name":"_NULL_COUNTS","type":["null",{"type":"array","items":["null","long"]}],"default":null}]}},"#,
    r#"{"name":"_MIN_SEQUENCE_NUMBER","type":"long"},{"name":"_MAX_SEQUENCE_NUMBER","type":"long"},"#,
    r#"{"name":"_SCHEMA_ID","type":"long"},{"name":"_LEVEL","type":"int"},"#,
    r#"{"name":"_EXTRA_FILES","type":{"type":"array","items":"string"}},"#,
    r#"{"name":"_CREATION_TIME","type":["null",{"type":"long","logicalType":"timestamp-millis"}],"default":null},"#,
    r#"{"name":"_DELETE_ROW_COUNT","type":["null","long"],"default":null},"#,
    r#"{"name":"_EMBEDDED_FILE_INDEX","type":["null","bytes"],"default":null},"#,
    r#"{"name":"_FILE_SOURCE","type":["null","int"],"default":null},"#,
    r#"{"name":"_VALUE_STATS_COLS","type":["null",{"type":"array","items":"string"}],"default":null},"#,
    r#"{"name":"_EXTERNAL_PATH","type":["null","string"],"default":null},"#,
    r#"{"name":"_FIRST_ROW_ID","type":["null","long"],"default":null},"#,
    r#"{"name":"_WRITE_COLS","type":["null",{"type":"array","items":"string"}],"default":null}]}}]}"#,
);

/// A manifest while entries are added to it.
pub struct ManifestEncoder {
    file: ContainerWriter,
    partitions: Partitions,
    added: i64,
    deleted: i64,
    schema_id: i64,
    buckets: Option<(i32, i32)>,
    levels: Option<(i32, i32)>,
    row_ids: RowIds,
}

/// The row ids of the entries so far.
enum RowIds {
    /// There are no entries.
    Empty,
    /// Every entry has some.
    Range(i64, i64),
    /// An entry has none.
    Missing,
}

/// A manifest that is done.
#[derive(Clone, Debug)]
pub struct EncodedManifest {
    /// The bytes of the file.
    pub bytes: Bytes,
    /// What the manifest list says of it, with an empty name; see [`Self::into_meta`].
    meta: ManifestMeta,
}

impl EncodedManifest {
    /// What the manifest list says of it once it has a name.
    pub fn into_meta(self, file_name: impl Into<String>) -> ManifestMeta {
        ManifestMeta { file_name: file_name.into(), ..self.meta }
    }
}

impl ManifestEncoder {
    /// A manifest without entries, of a table with partition columns of these types (in partition order).
    ///
    /// # Errors
    /// Internal when there is no memory for the compression.
    pub fn new(codec: AvroCodec, partition_types: Vec<DataType>) -> Result<Self> {
        Ok(Self {
            file: ContainerWriter::new(SCHEMA, codec)?,
            partitions: Partitions { types: partition_types, last: None, counts: HashMap::new() },
            added: 0,
            deleted: 0,
            schema_id: 0,
            buckets: None,
            levels: None,
            row_ids: RowIds::Empty,
        })
    }

    /// Adds an entry.
    ///
    /// # Errors
    /// Internal when a block can't be compressed.
    pub fn push(&mut self, entry: &ManifestEntry) -> Result<()> {
        let file = &*entry.file;
        self.put(&EntryParts {
            deleted: entry.deleted,
            partition: &entry.partition,
            bucket: entry.bucket,
            total_buckets: entry.total_buckets,
            file_name: file.file_name.as_bytes(),
            file_size: file.file_size,
            row_count: file.row_count,
            min_key: &file.min_key,
            max_key: &file.max_key,
            key_stats: StatsParts::of(&file.key_stats),
            value_stats: StatsParts::of(&file.value_stats),
            min_sequence_number: file.min_sequence_number,
            max_sequence_number: file.max_sequence_number,
            schema_id: file.schema_id,
            level: file.level,
            extra_files: &file.extra_files,
            creation_time: file.creation_time,
            delete_row_count: file.delete_row_count,
            embedded_index: file.embedded_index.as_deref(),
            file_source: file.file_source.map(|source| match source {
                FileSource::Append => 0,
                FileSource::Compact => 1,
            }),
            value_stats_cols: file.value_stats_cols.as_deref(),
            external_path: file.external_path.as_deref(),
            first_row_id: file.first_row_id,
            write_cols: file.write_cols.as_deref(),
        })
    }

    /// Adds the file of row `row` of decoded entries, as added or deleted whatever its kind there.
    ///
    /// # Errors
    /// Internal when a block can't be compressed or there is no such row.
    pub fn push_row(&mut self, entries: &ManifestEntries, row: usize, deleted: bool) -> Result<()> {
        if row >= entries.len() {
            return Err(Error::internal(format!("entry {row} of a manifest of {}", entries.len())));
        }
        let known = |value: i64| (value != UNKNOWN).then_some(value);
        self.put(&EntryParts {
            deleted,
            partition: entries.partition.get(row),
            bucket: entries.bucket[row],
            total_buckets: entries.total_buckets[row],
            file_name: entries.file_name.get(row),
            file_size: entries.file_size[row],
            row_count: entries.row_count[row],
            min_key: entries.min_key.get(row),
            max_key: entries.max_key.get(row),
            key_stats: StatsParts::at(&entries.key_stats, row),
            value_stats: StatsParts::at(&entries.value_stats, row),
            min_sequence_number: entries.min_sequence_number[row],
            max_sequence_number: entries.max_sequence_number[row],
            schema_id: entries.schema_id[row],
            level: entries.level[row],
            extra_files: entries.extra_files.get(row),
            creation_time: Some(entries.creation_time[row]).filter(|time| *time != i64::MIN),
            delete_row_count: known(entries.delete_row_count[row]),
            embedded_index: entries.embedded_index.as_ref().and_then(|column| column[row].as_deref()),
            file_source: Some(entries.file_source[row].into()).filter(|source| *source >= 0),
            value_stats_cols: entries.value_stats_cols.get(row).as_deref(),
            external_path: entries.external_path.as_ref().and_then(|column| column[row].as_deref()),
            first_row_id: known(entries.first_row_id[row]),
            write_cols: entries.write_cols.get(row).as_deref(),
        })
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        (self.added + self.deleted) as usize
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of the file so far, a little too many: up to 64 KB count as if they would not be compressed.
    pub fn estimated_size(&self) -> usize {
        self.file.size()
    }

    /// Ends the manifest.
    ///
    /// # Errors
    /// Corrupt when the partition of an entry is not one of the table's; internal when a block can't be compressed.
    pub fn finish(self) -> Result<EncodedManifest> {
        let partition_stats = self.partitions.stats()?;
        let bytes = Bytes::from(self.file.finish()?);
        let (min_row_id, max_row_id) = match self.row_ids {
            RowIds::Range(min, max) => (Some(min), Some(max)),
            RowIds::Empty | RowIds::Missing => (None, None),
        };
        let meta = ManifestMeta {
            file_name: String::new(),
            file_size: bytes.len() as i64,
            num_added_files: self.added,
            num_deleted_files: self.deleted,
            partition_stats,
            schema_id: self.schema_id,
            min_bucket: self.buckets.map(|range| range.0),
            max_bucket: self.buckets.map(|range| range.1),
            min_level: self.levels.map(|range| range.0),
            max_level: self.levels.map(|range| range.1),
            min_row_id,
            max_row_id,
        };
        Ok(EncodedManifest { bytes, meta })
    }

    fn put(&mut self, entry: &EntryParts<'_>) -> Result<()> {
        if entry.deleted {
            self.deleted += 1;
        } else {
            self.added += 1;
        }
        self.partitions.count(entry.partition);
        self.schema_id = self.schema_id.max(entry.schema_id);
        self.buckets = Some(widen(self.buckets, entry.bucket));
        self.levels = Some(widen(self.levels, entry.level));
        self.row_ids = match (&self.row_ids, entry.first_row_id) {
            (RowIds::Missing, _) | (_, None) => RowIds::Missing,
            (RowIds::Empty, Some(first)) => RowIds::Range(first, last_row_id(first, entry.row_count)),
            (RowIds::Range(min, max), Some(first)) => {
                RowIds::Range(first.min(*min), last_row_id(first, entry.row_count).max(*max))
            }
        };
        self.file.append(|out| entry.put(out))
    }
}

fn widen(range: Option<(i32, i32)>, value: i32) -> (i32, i32) {
    range.map_or((value, value), |(min, max)| (min.min(value), max.max(value)))
}

fn last_row_id(first: i64, rows: i64) -> i64 {
    first.saturating_add(rows.saturating_sub(1))
}

/// An entry as it is written, wherever its parts lie.
struct EntryParts<'a> {
    deleted: bool,
    partition: &'a Arc<[u8]>,
    bucket: i32,
    total_buckets: i32,
    file_name: &'a [u8],
    file_size: i64,
    row_count: i64,
    min_key: &'a [u8],
    max_key: &'a [u8],
    key_stats: StatsParts<'a>,
    value_stats: StatsParts<'a>,
    min_sequence_number: i64,
    max_sequence_number: i64,
    schema_id: i64,
    level: i32,
    extra_files: &'a [String],
    creation_time: Option<i64>,
    delete_row_count: Option<i64>,
    embedded_index: Option<&'a [u8]>,
    file_source: Option<i32>,
    value_stats_cols: Option<&'a [String]>,
    external_path: Option<&'a str>,
    first_row_id: Option<i64>,
    write_cols: Option<&'a [String]>,
}

impl EntryParts<'_> {
    fn put(&self, out: &mut Vec<u8>) {
        put_int(VERSION, out);
        put_int(self.deleted.into(), out);
        put_bytes(self.partition, out);
        put_int(self.bucket, out);
        put_int(self.total_buckets, out);
        put_bytes(self.file_name, out);
        put_long(self.file_size, out);
        put_long(self.row_count, out);
        put_bytes(self.min_key, out);
        put_bytes(self.max_key, out);
        self.key_stats.put(out);
        self.value_stats.put(out);
        put_long(self.min_sequence_number, out);
        put_long(self.max_sequence_number, out);
        put_long(self.schema_id, out);
        put_int(self.level, out);
        put_texts(self.extra_files, out);
        put_optional(self.creation_time, out, put_long);
        put_optional(self.delete_row_count, out, put_long);
        put_optional(self.embedded_index, out, put_bytes);
        put_optional(self.file_source, out, put_int);
        put_optional(self.value_stats_cols, out, put_texts);
        put_optional(self.external_path, out, |path, out| put_bytes(path.as_bytes(), out));
        put_optional(self.first_row_id, out, put_long);
        put_optional(self.write_cols, out, put_texts);
    }
}

/// Statistics as they are written.
pub(in crate::spec) struct StatsParts<'a> {
    min: &'a [u8],
    max: &'a [u8],
    null_counts: NullCounts<'a>,
}

enum NullCounts<'a> {
    Owned(&'a [Option<i64>]),
    /// [`UNKNOWN`] is null.
    Column(&'a [i64]),
}

impl<'a> StatsParts<'a> {
    pub(in crate::spec) fn of(stats: &'a SimpleStats) -> Self {
        Self { min: &stats.min, max: &stats.max, null_counts: NullCounts::Owned(&stats.null_counts) }
    }

    fn at(stats: &'a StatsColumn, row: usize) -> Self {
        let null_counts = NullCounts::Column(stats.null_counts(row));
        Self { min: stats.min.get(row), max: stats.max.get(row), null_counts }
    }

    pub(in crate::spec) fn put(&self, out: &mut Vec<u8>) {
        put_bytes(self.min, out);
        put_bytes(self.max, out);
        let is_empty = match self.null_counts {
            NullCounts::Owned(counts) => counts.is_empty(),
            NullCounts::Column(counts) => counts.is_empty(),
        };
        // Counts that were not written are null. Statistics of no columns (of arity 0) have an empty list of them.
        if is_empty && self.min.first_chunk::<4>().is_some_and(|arity| *arity != [0; 4]) {
            return put_long(0, out);
        }
        put_long(1, out);
        match self.null_counts {
            NullCounts::Owned(counts) => {
                put_array(counts.iter(), out, |count, out| put_optional(*count, out, put_long));
            }
            NullCounts::Column(counts) => put_array(counts.iter(), out, |count, out| {
                put_optional(Some(*count).filter(|count| *count != UNKNOWN), out, put_long);
            }),
        }
    }
}

/// The partitions of the entries so far. Entries of a partition mostly come together.
struct Partitions {
    types: Vec<DataType>,
    /// The partition of the last entries, and how many they are; not counted in `counts` yet.
    last: Option<(Arc<[u8]>, i64)>,
    counts: HashMap<Arc<[u8]>, i64>,
}

impl Partitions {
    fn count(&mut self, partition: &Arc<[u8]>) {
        match &mut self.last {
            Some((last, count)) if Arc::ptr_eq(last, partition) || last == partition => *count += 1,
            last => {
                if let Some((partition, count)) = last.replace((Arc::clone(partition), 1)) {
                    *self.counts.entry(partition).or_default() += count;
                }
            }
        }
    }

    /// Ranges and null counts of the partition columns. Java gives no range for a column of bytes, and of one that is
    /// always NULL there is none.
    fn stats(mut self) -> Result<SimpleStats> {
        if let Some((partition, count)) = self.last.take() {
            *self.counts.entry(partition).or_default() += count;
        }
        let arity = self.types.len();
        let mut ranges = vec![(Datum::Null, Datum::Null); arity];
        let mut null_counts = vec![0; arity];
        for (partition, count) in &self.counts {
            let row = BinaryRow::from_serialized(partition)?;
            if row.arity() != arity {
                return Err(Error::corrupt(format!(
                    "the table has {arity} partition columns, a manifest entry {}",
                    row.arity()
                )));
            }
            for (index, data_type) in self.types.iter().enumerate() {
                if row.is_null(index) {
                    null_counts[index] += count;
                } else if !matches!(data_type.kind, TypeKind::Binary(_) | TypeKind::VarBinary(_)) {
                    let value = row.datum(index, data_type)?;
                    let (min, max) = &mut ranges[index];
                    if min.is_null() || value < *min {
                        *min = value.clone();
                    }
                    if max.is_null() || value > *max {
                        *max = value;
                    }
                }
            }
        }
        let row = |bound: fn(&(Datum, Datum)) -> &Datum| -> Result<Vec<u8>> {
            let mut row = BinaryRowWriter::new(arity)?;
            for (index, (range, data_type)) in ranges.iter().zip(&self.types).enumerate() {
                row.write(index, bound(range), data_type)?;
            }
            Ok(row.serialized().to_vec())
        };
        Ok(SimpleStats {
            min: row(|range| &range.0)?,
            max: row(|range| &range.1)?,
            null_counts: null_counts.into_iter().map(Some).collect(),
        })
    }
}

#[cfg(test)]
mod tests;
