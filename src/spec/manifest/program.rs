//! How the entries of a manifest are decoded: the writer's schema held against our columns, worked out once a file.
//!
//! A program is a list of steps, one a field of the writer's record, in its order. Fields are matched by name; what we do
//! not know is passed over, what the file does not have is null (`spec/metadata.md 4.1`).

use std::collections::HashMap;
use std::sync::Arc;

use super::{BytesColumn, Dictionary, EntryHeads, ManifestEntries, StatsColumn, UNKNOWN, check_file_name};
use crate::error::{Error, Result};
use crate::spec::avro::{Branches, Cursor, Node, NodeId, Schema};

/// The version of an entry of a manifest; a permanent id of the format.
const VERSION: i32 = 2;

/// One field of a record: what it is to us, how null is told, its type.
#[derive(Debug)]
struct Step<P> {
    /// `None` for a field that we do not know.
    part: Option<P>,
    branches: Branches,
    node: NodeId,
}

/// The fields of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HeadPart {
    Version,
    Kind,
    Partition,
    Bucket,
    TotalBuckets,
    File,
}

const HEAD_PARTS: [(&str, HeadPart); 6] = [
    ("_VERSION", HeadPart::Version),
    ("_KIND", HeadPart::Kind),
    ("_PARTITION", HeadPart::Partition),
    ("_BUCKET", HeadPart::Bucket),
    ("_TOTAL_BUCKETS", HeadPart::TotalBuckets),
    ("_FILE", HeadPart::File),
];

/// The fields of the file of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FilePart {
    FileName,
    FileSize,
    RowCount,
    MinKey,
    MaxKey,
    KeyStats,
    ValueStats,
    MinSequenceNumber,
    MaxSequenceNumber,
    SchemaId,
    Level,
    ExtraFiles,
    CreationTime,
    DeleteRowCount,
    EmbeddedIndex,
    FileSource,
    ValueStatsCols,
    ExternalPath,
    FirstRowId,
    WriteCols,
}

const FILE_PARTS: [(&str, FilePart); 20] = [
    ("_FILE_NAME", FilePart::FileName),
    ("_FILE_SIZE", FilePart::FileSize),
    ("_ROW_COUNT", FilePart::RowCount),
    ("_MIN_KEY", FilePart::MinKey),
    ("_MAX_KEY", FilePart::MaxKey),
    ("_KEY_STATS", FilePart::KeyStats),
    ("_VALUE_STATS", FilePart::ValueStats),
    ("_MIN_SEQUENCE_NUMBER", FilePart::MinSequenceNumber),
    ("_MAX_SEQUENCE_NUMBER", FilePart::MaxSequenceNumber),
    ("_SCHEMA_ID", FilePart::SchemaId),
    ("_LEVEL", FilePart::Level),
    ("_EXTRA_FILES", FilePart::ExtraFiles),
    ("_CREATION_TIME", FilePart::CreationTime),
    ("_DELETE_ROW_COUNT", FilePart::DeleteRowCount),
    ("_EMBEDDED_FILE_INDEX", FilePart::EmbeddedIndex),
    ("_FILE_SOURCE", FilePart::FileSource),
    ("_VALUE_STATS_COLS", FilePart::ValueStatsCols),
    ("_EXTERNAL_PATH", FilePart::ExternalPath),
    ("_FIRST_ROW_ID", FilePart::FirstRowId),
    ("_WRITE_COLS", FilePart::WriteCols),
];

/// The first so many of [`FILE_PARTS`] are in every version of the format and never null.
const FILE_PARTS_REQUIRED: usize = 11;

/// The fields of statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StatsPart {
    Min,
    Max,
    NullCounts,
}

const STATS_PARTS: [(&str, StatsPart); 3] =
    [("_MIN_VALUES", StatsPart::Min), ("_MAX_VALUES", StatsPart::Max), ("_NULL_COUNTS", StatsPart::NullCounts)];

/// `_NULL_COUNTS` may be null.
const STATS_PARTS_REQUIRED: usize = 2;

/// How entries are decoded.
#[derive(Debug)]
pub(super) struct Program {
    schema: Schema,
    /// Files of 0.8 and before wrap an entry, and much in it, in a union with null.
    entry: Branches,
    entry_steps: Vec<Step<HeadPart>>,
    file_steps: Vec<Step<FilePart>>,
    key_stats: StatsProgram,
    value_stats: StatsProgram,
}

#[derive(Debug)]
struct StatsProgram {
    steps: Vec<Step<StatsPart>>,
    null_count: Branches,
}

impl Program {
    /// Works out how to decode what was written with `schema`.
    pub(super) fn compile(schema: Schema) -> Result<Self> {
        let (entry, record) = schema.nullable(schema.root())?;
        let entry_steps = steps(&schema, record, &HEAD_PARTS, HEAD_PARTS.len())?;
        let file_steps = steps(&schema, node_of(&entry_steps, HeadPart::File)?, &FILE_PARTS, FILE_PARTS_REQUIRED)?;
        let key_stats = StatsProgram::compile(&schema, node_of(&file_steps, FilePart::KeyStats)?)?;
        let value_stats = StatsProgram::compile(&schema, node_of(&file_steps, FilePart::ValueStats)?)?;
        for step in &file_steps {
            if let Some(FilePart::ExtraFiles | FilePart::ValueStatsCols | FilePart::WriteCols) = step.part {
                list_of(&schema, step.node, &Node::Bytes)?;
            }
        }
        check_scalars(&schema, &entry_steps, &HEAD_PARTS, |part| match part {
            HeadPart::Partition => Some(Node::Bytes),
            HeadPart::File => None,
            _ => Some(Node::Long),
        })?;
        check_scalars(&schema, &file_steps, &FILE_PARTS, |part| match part {
            FilePart::FileName | FilePart::MinKey | FilePart::MaxKey => Some(Node::Bytes),
            FilePart::EmbeddedIndex | FilePart::ExternalPath => Some(Node::Bytes),
            FilePart::KeyStats | FilePart::ValueStats => None,
            FilePart::ExtraFiles | FilePart::ValueStatsCols | FilePart::WriteCols => None,
            _ => Some(Node::Long),
        })?;
        Ok(Self { schema, entry, entry_steps, file_steps, key_stats, value_stats })
    }

    /// Decodes the head of the next entry; `file` is called where its file lies and must pass over it.
    #[inline]
    pub(super) fn entry(
        &self,
        cursor: &mut Cursor<'_>,
        heads: &mut HeadColumns,
        mut file: impl FnMut(&mut Cursor<'_>) -> Result<()>,
    ) -> Result<()> {
        if !self.entry.present(cursor)? {
            return Err(Error::corrupt("an entry that is null"));
        }
        for step in &self.entry_steps {
            let Some(part) = step.part else {
                self.schema.skip(step.node, cursor)?;
                continue;
            };
            if !step.branches.present(cursor)? {
                return Err(null(&HEAD_PARTS, part));
            }
            match part {
                HeadPart::Version => {
                    let version = cursor.int()?;
                    if version != VERSION {
                        return Err(Error::unsupported(format!(
                            "version {version} of a manifest entry, only {VERSION} is known"
                        )));
                    }
                }
                HeadPart::Kind => match cursor.int()? {
                    kind @ (0 | 1) => heads.heads.kind.push(kind as u8),
                    kind => return Err(Error::unsupported(format!("a manifest entry of kind {kind}"))),
                },
                HeadPart::Partition => heads.push_partition(cursor.bytes()?),
                HeadPart::Bucket => heads.heads.bucket.push(cursor.int()?),
                HeadPart::TotalBuckets => heads.heads.total_buckets.push(cursor.int()?),
                HeadPart::File => file(cursor)?,
            }
        }
        Ok(())
    }

    /// Passes over a file.
    pub(super) fn skip_file(&self, cursor: &mut Cursor<'_>) -> Result<()> {
        for step in &self.file_steps {
            if step.branches.present(cursor)? {
                self.schema.skip(step.node, cursor)?;
            }
        }
        Ok(())
    }

    /// Decodes a file.
    #[inline]
    pub(super) fn file(&self, cursor: &mut Cursor<'_>, out: &mut FileColumns) -> Result<()> {
        let columns = &mut out.columns;
        for step in &self.file_steps {
            let Some(part) = step.part else {
                self.schema.skip(step.node, cursor)?;
                continue;
            };
            let present = step.branches.present(cursor)?;
            if !present && (part as usize) < FILE_PARTS_REQUIRED {
                return Err(null(&FILE_PARTS, part));
            }
            match part {
                FilePart::FileName => {
                    let name = cursor.bytes()?;
                    check_name_bytes(name)?;
                    push(&mut columns.file_name, name)?;
                }
                FilePart::FileSize => columns.file_size.push(count(cursor.long()?, "_FILE_SIZE")?),
                FilePart::RowCount => columns.row_count.push(count(cursor.long()?, "_ROW_COUNT")?),
                FilePart::MinKey => push(&mut columns.min_key, cursor.bytes()?)?,
                FilePart::MaxKey => push(&mut columns.max_key, cursor.bytes()?)?,
                FilePart::KeyStats => self.key_stats.decode(&self.schema, cursor, &mut columns.key_stats)?,
                FilePart::ValueStats => self.value_stats.decode(&self.schema, cursor, &mut columns.value_stats)?,
                FilePart::MinSequenceNumber => columns.min_sequence_number.push(cursor.long()?),
                FilePart::MaxSequenceNumber => columns.max_sequence_number.push(cursor.long()?),
                FilePart::SchemaId => columns.schema_id.push(count(cursor.long()?, "_SCHEMA_ID")?),
                FilePart::Level => columns.level.push(cursor.int()?),
                FilePart::ExtraFiles => out.extra_files.push(present, &self.schema, step.node, cursor)?,
                FilePart::CreationTime => {
                    columns.creation_time.push(if present { cursor.long()? } else { i64::MIN });
                }
                FilePart::DeleteRowCount => columns.delete_row_count.push(if present {
                    count(cursor.long()?, "_DELETE_ROW_COUNT")?
                } else {
                    UNKNOWN
                }),
                FilePart::EmbeddedIndex => {
                    if present {
                        put(&mut columns.embedded_index, out.rows, cursor.bytes()?.into());
                    }
                }
                FilePart::FileSource => columns.file_source.push(if !present {
                    -1
                } else {
                    match cursor.int()? {
                        source @ (0 | 1) => source as i8,
                        source => return Err(Error::unsupported(format!("a data file of source {source}"))),
                    }
                }),
                FilePart::ValueStatsCols => out.value_stats_cols.push(present, &self.schema, step.node, cursor)?,
                FilePart::ExternalPath => {
                    if present {
                        put(&mut columns.external_path, out.rows, text(cursor.bytes()?, "_EXTERNAL_PATH")?.into());
                    }
                }
                FilePart::FirstRowId => {
                    columns.first_row_id.push(if present { count(cursor.long()?, "_FIRST_ROW_ID")? } else { UNKNOWN })
                }
                FilePart::WriteCols => out.write_cols.push(present, &self.schema, step.node, cursor)?,
            }
        }
        out.rows += 1;
        Ok(())
    }
}

impl StatsProgram {
    fn compile(schema: &Schema, record: NodeId) -> Result<Self> {
        let steps = steps(schema, record, &STATS_PARTS, STATS_PARTS_REQUIRED)?;
        check_scalars(schema, &steps, &STATS_PARTS, |part| match part {
            StatsPart::Min | StatsPart::Max => Some(Node::Bytes),
            StatsPart::NullCounts => None,
        })?;
        let null_count = match node_of(&steps, StatsPart::NullCounts) {
            Ok(node) => list_of(schema, node, &Node::Long)?,
            // A file without the field has no item to tell from null.
            Err(_) => schema.nullable(record)?.0,
        };
        Ok(Self { steps, null_count })
    }

    #[inline]
    fn decode(&self, schema: &Schema, cursor: &mut Cursor<'_>, out: &mut StatsColumn) -> Result<()> {
        for step in &self.steps {
            let Some(part) = step.part else {
                schema.skip(step.node, cursor)?;
                continue;
            };
            let present = step.branches.present(cursor)?;
            match part {
                StatsPart::Min if present => push(&mut out.min, cursor.bytes()?)?,
                StatsPart::Max if present => push(&mut out.max, cursor.bytes()?)?,
                StatsPart::NullCounts if !present => {}
                StatsPart::NullCounts => loop {
                    let count = cursor.items()?;
                    if count == 0 {
                        break;
                    }
                    for _ in 0..count {
                        let known = self.null_count.present(cursor)?;
                        out.null_counts.push(if known { cursor.long()? } else { UNKNOWN });
                    }
                },
                StatsPart::Min | StatsPart::Max => return Err(null(&STATS_PARTS, part)),
            }
        }
        out.null_count_ends.push(u32::try_from(out.null_counts.len()).map_err(|_| too_many())?);
        Ok(())
    }
}

/// The heads of entries as they are decoded.
#[derive(Default)]
pub(super) struct HeadColumns {
    pub(super) heads: EntryHeads,
    partitions: HashMap<Arc<[u8]>, u32>,
}

impl HeadColumns {
    pub(super) fn with_capacity(rows: usize) -> Self {
        let mut columns = Self::default();
        columns.heads.kind.reserve_exact(rows);
        columns.heads.partition.keys.reserve_exact(rows);
        columns.heads.bucket.reserve_exact(rows);
        columns.heads.total_buckets.reserve_exact(rows);
        columns
    }

    #[inline]
    fn push_partition(&mut self, partition: &[u8]) {
        let Dictionary { values, keys } = &mut self.heads.partition;
        // Entries of a partition mostly follow each other.
        if let Some(&last) = keys.last()
            && values.get(last as usize).is_some_and(|value| **value == *partition)
        {
            keys.push(last);
            return;
        }
        let key = match self.partitions.get(partition) {
            Some(key) => *key,
            None => {
                let (value, key) = (Arc::<[u8]>::from(partition), values.len() as u32);
                values.push(Arc::clone(&value));
                self.partitions.insert(value, key);
                key
            }
        };
        keys.push(key);
    }
}

/// The files of entries as they are decoded.
#[derive(Default)]
pub(super) struct FileColumns {
    columns: ManifestEntries,
    rows: usize,
    extra_files: TextLists,
    value_stats_cols: TextLists,
    write_cols: TextLists,
}

impl FileColumns {
    pub(super) fn with_capacity(rows: usize) -> Self {
        let mut out = Self::default();
        let columns = &mut out.columns;
        for column in [
            &mut columns.file_size,
            &mut columns.row_count,
            &mut columns.min_sequence_number,
            &mut columns.max_sequence_number,
            &mut columns.schema_id,
            &mut columns.creation_time,
            &mut columns.delete_row_count,
            &mut columns.first_row_id,
        ] {
            column.reserve_exact(rows);
        }
        columns.level.reserve_exact(rows);
        columns.file_source.reserve_exact(rows);
        columns.file_name.ends.reserve_exact(rows);
        columns.key_stats.null_count_ends.reserve_exact(rows);
        columns.value_stats.null_count_ends.reserve_exact(rows);
        for lists in [&mut out.extra_files, &mut out.value_stats_cols, &mut out.write_cols] {
            lists.dictionary.keys.reserve_exact(rows);
        }
        out
    }

    /// The columns, complete: fields that the file does not have are filled with null.
    pub(super) fn finish(self, heads: EntryHeads) -> Result<ManifestEntries> {
        let (rows, mut columns) = (self.rows, self.columns);
        columns.creation_time.resize(rows, i64::MIN);
        columns.delete_row_count.resize(rows, UNKNOWN);
        columns.file_source.resize(rows, -1);
        columns.first_row_id.resize(rows, UNKNOWN);
        if let Some(column) = &mut columns.embedded_index {
            column.resize(rows, None);
        }
        if let Some(column) = &mut columns.external_path {
            column.resize(rows, None);
        }
        columns.value_stats_cols = self.value_stats_cols.finish(rows);
        columns.write_cols = self.write_cols.finish(rows);
        let Dictionary { values, keys } = self.extra_files.finish(rows);
        let values = values.into_iter().map(|files| files.unwrap_or_default()).collect::<Vec<_>>();
        for file in values.iter().flat_map(|files| files.iter()) {
            check_file_name(file)?;
        }
        columns.extra_files = Dictionary { values, keys };
        columns.kind = heads.kind;
        columns.partition = heads.partition;
        columns.bucket = heads.bucket;
        columns.total_buckets = heads.total_buckets;
        columns.shrink();
        Ok(columns)
    }
}

/// Lists of texts that repeat from entry to entry. They are told apart by their encoding: only a new one is decoded.
#[derive(Default)]
struct TextLists {
    dictionary: Dictionary<Option<Arc<[String]>>>,
    null: Option<u32>,
    /// Encoding and key of the latest list; no bytes before the first one.
    last: (Vec<u8>, u32),
    seen: HashMap<Box<[u8]>, u32>,
}

impl TextLists {
    #[inline]
    fn push(&mut self, present: bool, schema: &Schema, node: NodeId, cursor: &mut Cursor<'_>) -> Result<()> {
        let key = if !present {
            self.null()
        } else if !self.last.0.is_empty() && cursor.take_if_next(&self.last.0) {
            self.last.1
        } else {
            self.other(schema, node, cursor)?
        };
        self.dictionary.keys.push(key);
        Ok(())
    }

    fn null(&mut self) -> u32 {
        let values = &mut self.dictionary.values;
        *self.null.get_or_insert_with(|| {
            values.push(None);
            (values.len() - 1) as u32
        })
    }

    fn other(&mut self, schema: &Schema, node: NodeId, cursor: &mut Cursor<'_>) -> Result<u32> {
        let (start, mut reader) = (cursor.position(), cursor.clone());
        schema.skip(node, cursor)?;
        let encoded = cursor.since(start);
        let key = match self.seen.get(encoded) {
            Some(key) => *key,
            None => {
                // ORC and Parquet do not know that a name is never null.
                let item = list_of(schema, node, &Node::Bytes)?;
                let mut texts = Vec::new();
                loop {
                    let count = reader.items()?;
                    if count == 0 {
                        break;
                    }
                    for _ in 0..count {
                        if !item.present(&mut reader)? {
                            return Err(Error::corrupt("null in a list of names"));
                        }
                        texts.push(text(reader.bytes()?, "a list of names")?.to_owned());
                    }
                }
                let key = self.dictionary.values.len() as u32;
                self.dictionary.values.push(Some(texts.into()));
                self.seen.insert(encoded.into(), key);
                key
            }
        };
        self.last.0.clear();
        self.last.0.extend_from_slice(encoded);
        self.last.1 = key;
        Ok(key)
    }

    fn finish(mut self, rows: usize) -> Dictionary<Option<Arc<[String]>>> {
        if self.dictionary.keys.len() < rows {
            let null = self.null();
            self.dictionary.keys.resize(rows, null);
        }
        self.dictionary
    }
}

/// The steps of a record, which must have the first `required` of `parts`.
fn steps<P: Copy + PartialEq>(
    schema: &Schema,
    record: NodeId,
    parts: &[(&'static str, P)],
    required: usize,
) -> Result<Vec<Step<P>>> {
    let Node::Record(fields) = schema.node(record) else {
        return Err(Error::corrupt("the schema is not that of a manifest: no record where one was expected"));
    };
    let mut steps = Vec::with_capacity(fields.len());
    for field in fields {
        let part = parts.iter().find(|(name, _)| *name == field.name).map(|(_, part)| *part);
        let (branches, node) = match part {
            Some(_) => schema.nullable(field.node).map_err(|error| error.with("field", &field.name))?,
            // Whatever it is, it is passed over as a whole.
            None => (Branches::NONE, field.node),
        };
        steps.push(Step { part, branches, node });
    }
    for (name, part) in parts.iter().take(required) {
        if steps.iter().all(|step| step.part != Some(*part)) {
            return Err(Error::corrupt(format!("the schema is not that of a manifest: it has no field {name}")));
        }
    }
    Ok(steps)
}

fn node_of<P: Copy + PartialEq>(steps: &[Step<P>], part: P) -> Result<NodeId> {
    let step = steps.iter().find(|step| step.part == Some(part));
    step.map(|step| step.node).ok_or_else(|| Error::corrupt("the schema is not that of a manifest"))
}

/// Checks the types of fields that are one number or one byte string.
fn check_scalars<P: Copy + PartialEq>(
    schema: &Schema,
    steps: &[Step<P>],
    parts: &[(&'static str, P)],
    expected: impl Fn(P) -> Option<Node>,
) -> Result<()> {
    for step in steps {
        let Some(part) = step.part else { continue };
        if expected(part).is_some_and(|node| node != *schema.node(step.node)) {
            let name = name_of(parts, part);
            return Err(Error::corrupt(format!("the schema is not that of a manifest: wrong type of {name}")));
        }
    }
    Ok(())
}

/// Checks that a type is an array of `item`, and gives how null items are told.
fn list_of(schema: &Schema, list: NodeId, item: &Node) -> Result<Branches> {
    if let Node::Array(node) = schema.node(list) {
        let (branches, node) = schema.nullable(*node)?;
        if schema.node(node) == item {
            return Ok(branches);
        }
    }
    Err(Error::corrupt("the schema is not that of a manifest: wrong type of a list"))
}

fn name_of<P: Copy + PartialEq>(parts: &[(&'static str, P)], part: P) -> &'static str {
    parts.iter().find(|(_, other)| *other == part).map_or("?", |(name, _)| *name)
}

#[cold]
fn null<P: Copy + PartialEq>(parts: &[(&'static str, P)], part: P) -> Error {
    Error::corrupt(format!("null in the field {}", name_of(parts, part)))
}

#[cold]
fn too_many() -> Error {
    Error::unsupported("a manifest with more than 4 GB in one column")
}

#[inline]
fn push(column: &mut BytesColumn, value: &[u8]) -> Result<()> {
    if column.push(value) { Ok(()) } else { Err(too_many()) }
}

/// Sets the value of `row` in a column that holds few of them; the rows before may be missing.
fn put<T: Clone>(column: &mut Option<Vec<Option<T>>>, row: usize, value: T) {
    let column = column.get_or_insert_default();
    column.resize(row, None);
    column.push(Some(value));
}

/// A number that is not negative.
#[inline]
fn count(value: i64, field: &str) -> Result<i64> {
    if value < 0 { Err(Error::corrupt(format!("{value} in the field {field}"))) } else { Ok(value) }
}

fn text<'a>(bytes: &'a [u8], field: &str) -> Result<&'a str> {
    std::str::from_utf8(bytes)
        .map_err(|error| Error::corrupt(format!("no UTF-8 in the field {field}")).with_source(error))
}

/// [`check_file_name`], without a loop that branches for the names that everybody writes.
#[inline]
fn check_name_bytes(name: &[u8]) -> Result<()> {
    let odd = name.iter().fold(0u8, |odd, byte| odd | (byte & 0x80) | u8::from(*byte == b'/') | u8::from(*byte == 0));
    if odd == 0 && name.len() > 2 { Ok(()) } else { check_file_name(text(name, "_FILE_NAME")?) }
}
