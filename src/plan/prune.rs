//! Pruning by statistics: which files can hold a row that satisfies the filters, all files in one vectorised pass.
//!
//! Statistics are looked up by field id through the schema a file was written with. Whatever is not certain (a type that
//! changed, a column that the statistics leave out, a bound that was cut) is unknown, and unknown keeps the file.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Int64Array, UInt64Array};
use arrow::datatypes::SchemaRef;
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::{Column, ScalarValue};
use datafusion::physical_expr::{PhysicalExpr, conjunction};
use datafusion_pruning::{PruningPredicate, PruningPredicateBuilder};

use super::PlannedFile;
use crate::error::Result;
use crate::spec::binary_row::decode_column;
use crate::spec::manifest::{DataFile, ManifestEntries, StatsColumn};
use crate::spec::stats::{ColumnStats, column_stats};
use crate::spec::types::ROW_ID;
use crate::spec::{DataField, DataType, TableSchema, TypeKind};

/// A predicate over the statistics of files.
pub struct StatsPruner {
    predicate: PruningPredicate,
    table: Arc<TableSchema>,
    /// Schemas that files were written with, by id.
    schemas: HashMap<i64, Arc<TableSchema>>,
    source: StatsSource,
}

/// Which statistics of a file are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatsSource {
    /// Keys of a key table: `_MIN_KEY` and `_MAX_KEY` bound every version of a key.
    Keys,
    /// Values: only where no other file can hold another version of the row (`spec/data.md 4.5`).
    Values,
}

impl StatsPruner {
    /// A pruner for `filters` over `schema`; `None` when they say nothing that statistics could answer.
    pub fn try_new(
        table: &Arc<TableSchema>,
        schemas: HashMap<i64, Arc<TableSchema>>,
        schema: &SchemaRef,
        filters: &[Arc<dyn PhysicalExpr>],
        source: StatsSource,
    ) -> Result<Option<Self>> {
        if filters.is_empty() {
            return Ok(None);
        }
        let filter = conjunction(filters.iter().map(Arc::clone));
        let predicate = match PruningPredicateBuilder::new().with_file_schema(Arc::clone(schema)).try_build(filter) {
            Ok(predicate) if !predicate.always_true() => predicate,
            // A condition that has no form over statistics prunes nothing.
            _ => return Ok(None),
        };
        Ok(Some(Self { predicate, table: Arc::clone(table), schemas, source }))
    }

    /// Which of `files` can hold a row that satisfies the filters.
    pub fn keep(&self, files: &[PlannedFile]) -> Result<Vec<bool>> {
        if files.is_empty() {
            return Ok(Vec::new());
        }
        Ok(self.predicate.prune(&FileStatistics { pruner: self, files, cache: Default::default() })?)
    }
}

/// The statistics of a list of files, one container a file. Columns are decoded when they are first asked for.
struct FileStatistics<'a> {
    pruner: &'a StatsPruner,
    files: &'a [PlannedFile],
    cache: std::cell::RefCell<HashMap<String, Option<Arc<ColumnStats>>>>,
}

impl FileStatistics<'_> {
    fn column(&self, column: &Column) -> Option<Arc<ColumnStats>> {
        if let Some(known) = self.cache.borrow().get(&column.name) {
            return known.clone();
        }
        // Statistics that cannot be decoded are unknown here: the file is kept, and reading it finds what is wrong.
        let stats = self.decode(&column.name).unwrap_or_default().map(Arc::new);
        self.cache.borrow_mut().insert(column.name.clone(), stats.clone());
        stats
    }

    fn decode(&self, name: &str) -> Result<Option<ColumnStats>> {
        let table = &self.pruner.table;
        let Some(field) = table.field(name) else {
            return Ok((name == ROW_ID && !table.has_primary_key()).then(|| self.row_ids()));
        };
        if let Some(position) = table.partition_keys.iter().position(|key| key == name) {
            return self.partition(position, field).map(Some);
        }
        match self.pruner.source {
            StatsSource::Keys => {
                let keys = table.trimmed_primary_keys();
                let Some(position) = keys.iter().position(|key| key.name == name) else { return Ok(None) };
                self.key(position, &keys).map(Some)
            }
            StatsSource::Values => self.value(field).map(Some),
        }
    }

    /// Rows have the ids that follow the file's first one, where the file does not hold them (`spec/data.md 2`).
    fn row_ids(&self) -> ColumnStats {
        let ids = |file: &PlannedFile| {
            let held = file.file.write_cols().is_some_and(|columns| columns.iter().any(|column| column == ROW_ID));
            let first = file.file.first_row_id().filter(|_| !held)?;
            Some((first, first.checked_add(i64::try_from(file.file.rows()).ok()?)? - 1))
        };
        let ids: Vec<Option<(i64, i64)>> = self.files.iter().map(ids).collect();
        ColumnStats {
            min: Arc::new(ids.iter().map(|ids| ids.map(|(first, _)| first)).collect::<Int64Array>()),
            max: Arc::new(ids.iter().map(|ids| ids.map(|(_, last)| last)).collect::<Int64Array>()),
            null_count: ids.iter().map(|ids| ids.map(|_| 0)).collect(),
        }
    }

    /// A partition column is constant in a file.
    fn partition(&self, position: usize, field: &DataField) -> Result<ColumnStats> {
        let rows = || self.files.iter().map(|file| Some(file.file.partition().as_ref()));
        let values = decode_column(rows(), position, &field.data_type)?;
        let null_count = self
            .files
            .iter()
            .enumerate()
            .map(|(i, file)| Some(if values.is_null(i) { file.file.rows() } else { 0 }))
            .collect();
        Ok(ColumnStats { min: Arc::clone(&values), max: values, null_count })
    }

    /// Only the first key column is bounded by the first and the last key; the others have statistics of their own.
    fn key(&self, position: usize, keys: &[&DataField]) -> Result<ColumnStats> {
        let data_type = &keys[position].data_type;
        if position == 0 {
            let min = decode_column(self.files.iter().map(|file| Some(file.file.min_key())), 0, data_type)?;
            let max = decode_column(self.files.iter().map(|file| Some(file.file.max_key())), 0, data_type)?;
            let null_count = self.files.iter().map(|_| (!data_type.nullable).then_some(0)).collect();
            return Ok(ColumnStats { min: bound(min, data_type)?, max, null_count });
        }
        self.gather(data_type, |entries| &entries.key_stats, |_| Some(position))
    }

    fn value(&self, field: &DataField) -> Result<ColumnStats> {
        let mut positions = Positions { pruner: self.pruner, field, known: HashMap::new(), last: None };
        let places: Vec<Place> = self.files.iter().map(|file| positions.of(&file.file)).collect();
        let position = |i: usize| match places[i] {
            Place::At(position) => Some(position),
            Place::Unknown | Place::Absent => None,
        };
        let mut stats = self.gather(&field.data_type, |entries| &entries.value_stats, position)?;
        if places.contains(&Place::Absent) {
            // The column came after the file: all its rows are NULL.
            stats.null_count = places
                .iter()
                .zip(self.files)
                .zip(stats.null_count.iter())
                .map(|((place, file), count)| if *place == Place::Absent { Some(file.file.rows()) } else { count })
                .collect();
        }
        Ok(stats)
    }

    /// Decodes one statistics column of all files, a manifest's stretch of files at a time.
    fn gather(
        &self,
        data_type: &DataType,
        stats: fn(&ManifestEntries) -> &StatsColumn,
        position: impl Fn(usize) -> Option<usize>,
    ) -> Result<ColumnStats> {
        let mut parts: Vec<ColumnStats> = Vec::new();
        let mut start = 0;
        while start < self.files.len() {
            let entries = &self.files[start].file.entries;
            let mut end = start + 1;
            while end < self.files.len() && Arc::ptr_eq(&self.files[end].file.entries, entries) {
                end += 1;
            }
            let rows = (start..end).map(|i| (self.files[i].file.row as usize, position(i)));
            parts.push(column_stats(stats(entries), rows, data_type)?);
            start = end;
        }
        concat(parts)
    }
}

fn concat(parts: Vec<ColumnStats>) -> Result<ColumnStats> {
    let stats = match <[ColumnStats; 1]>::try_from(parts) {
        Ok([only]) => only,
        Err(parts) => {
            let join = |pick: fn(&ColumnStats) -> &ArrayRef| -> Result<ArrayRef> {
                let arrays: Vec<&dyn arrow::array::Array> = parts.iter().map(|part| pick(part).as_ref()).collect();
                Ok(arrow::compute::concat(&arrays)?)
            };
            ColumnStats {
                min: join(|part| &part.min)?,
                max: join(|part| &part.max)?,
                null_count: parts.iter().flat_map(|part| part.null_count.iter()).collect(),
            }
        }
    };
    Ok(stats)
}

/// Writers pad CHAR in statistics and readers may trim it (`spec/observed.md`): a lower bound without its blanks is
/// below both.
fn bound(min: ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    use arrow::array::{AsArray, StringViewArray};
    if !matches!(data_type.kind, TypeKind::Char(_)) {
        return Ok(min);
    }
    let Some(text) = min.as_string_view_opt() else { return Ok(min) };
    Ok(Arc::new(text.iter().map(|value| value.map(|value| value.trim_end_matches(' '))).collect::<StringViewArray>()))
}

/// Where the statistics of a column stand in a file's entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// At this position of the statistics rows.
    At(usize),
    /// Nowhere, or of another type.
    Unknown,
    /// The file does not have the column.
    Absent,
}

/// Finds the place of one column in the files of each writer schema.
struct Positions<'a> {
    pruner: &'a StatsPruner,
    field: &'a DataField,
    known: HashMap<(i64, usize, usize), Place>,
    /// The last one that was asked: files of one writer follow each other.
    last: Option<((i64, usize, usize), Place)>,
}

impl Positions<'_> {
    fn of(&mut self, file: &DataFile) -> Place {
        let entries = &file.entries;
        let row = file.row as usize;
        // The lists repeat from entry to entry; their addresses in the dictionaries tell them apart.
        let stats_cols = entries.value_stats_cols.get(row);
        let write_cols = entries.write_cols.get(row);
        let key = (
            file.schema_id(),
            stats_cols.as_ref().map_or(0, |cols| cols.as_ptr() as usize),
            write_cols.as_ref().map_or(0, |cols| cols.as_ptr() as usize),
        );
        if let Some((last, place)) = self.last
            && last == key
        {
            return place;
        }
        if let Some(place) = self.known.get(&key) {
            self.last = Some((key, *place));
            return *place;
        }
        let place = self.find(file, stats_cols.as_deref(), write_cols.as_deref());
        self.known.insert(key, place);
        place
    }

    fn find(&self, file: &DataFile, stats_cols: Option<&[String]>, write_cols: Option<&[String]>) -> Place {
        let Some(schema) = self.pruner.schemas.get(&file.schema_id()) else { return Place::Unknown };
        let Some(written) = schema.fields.iter().find(|field| field.id == self.field.id) else { return Place::Absent };
        if write_cols.is_some_and(|cols| !cols.contains(&written.name)) {
            // Another file of the same rows may hold the column (`spec/data.md 2`, data evolution).
            return Place::Unknown;
        }
        if written.data_type.kind != self.field.data_type.kind {
            return Place::Unknown;
        }
        let position = match (stats_cols, write_cols) {
            (Some(cols), _) => cols.iter().position(|name| *name == written.name),
            (None, Some(cols)) => cols.iter().position(|name| *name == written.name),
            (None, None) => schema.index_of(&written.name),
        };
        position.map_or(Place::Unknown, Place::At)
    }
}

impl PruningStatistics for FileStatistics<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        self.column(column).map(|stats| Arc::clone(&stats.min))
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        self.column(column).map(|stats| Arc::clone(&stats.max))
    }

    fn num_containers(&self) -> usize {
        self.files.len()
    }

    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        self.column(column).map(|stats| Arc::new(stats.null_count.clone()) as ArrayRef)
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        Some(Arc::new(self.files.iter().map(|file| Some(file.file.rows())).collect::<UInt64Array>()))
    }

    fn contained(&self, _: &Column, _: &std::collections::HashSet<ScalarValue>) -> Option<BooleanArray> {
        None
    }
}
