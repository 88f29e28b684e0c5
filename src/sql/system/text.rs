//! Keys and statistics of a data file as system tables show them: `[k1, k2]`, `{a=1, b=2}`.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;

use crate::error::Result;
use crate::spec::binary_row::BinaryRow;
use crate::spec::manifest::{DataFile, ManifestEntries, UNKNOWN};
use crate::spec::partition::{cast_text, raw_text};
use crate::spec::{DataField, DataType, TableSchema};

/// Appends a serialized key as `[k1, k2]`.
///
/// # Errors
/// Corrupt when the row does not hold the fields.
pub(super) fn write_key(row: &[u8], fields: &[&DataField], out: &mut String) -> Result<()> {
    let row = BinaryRow::from_serialized(row)?;
    out.push('[');
    for (i, field) in fields.iter().enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        let value = row.datum(i, &field.data_type)?;
        out.push_str(cast_text(&value, &field.data_type)?.as_deref().unwrap_or("null"));
    }
    out.push(']');
    Ok(())
}

/// A column of the table in the statistics of some files.
#[derive(Clone, Debug)]
struct Shown {
    name: String,
    place: Place,
}

#[derive(Clone, Debug)]
enum Place {
    /// At this position of the statistics, of this type.
    At(usize, DataType),
    /// The statistics leave the column out.
    Unknown,
    /// The files do not have the column: it is NULL in all their rows.
    Absent,
}

/// Which statistics of a file are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shows {
    NullCounts,
    Minima,
    Maxima,
}

/// The columns of a table in the statistics of its files, by what the files were written with.
pub(super) struct StatsText<'a> {
    table: &'a TableSchema,
    schemas: &'a HashMap<i64, Arc<TableSchema>>,
    known: HashMap<Layout, Arc<Vec<Shown>>>,
}

/// Schema and the lists of columns of a file, which entries of one writer share.
type Layout = (i64, usize, usize);

impl<'a> StatsText<'a> {
    /// For files that were written with `schemas`; columns are those of `table`.
    pub(super) fn new(table: &'a TableSchema, schemas: &'a HashMap<i64, Arc<TableSchema>>) -> Self {
        Self { table, schemas, known: HashMap::new() }
    }

    /// Appends statistics as `{a=1, b=2}`, columns in the order of their names.
    ///
    /// # Errors
    /// Corrupt when the statistics are not of the columns.
    pub(super) fn write(&mut self, file: &DataFile, shows: Shows, out: &mut String) -> Result<()> {
        let columns = self.columns(file);
        let (entries, row) = (&*file.entries, file.row as usize);
        let stats = &entries.value_stats;
        let bounds = match shows {
            Shows::NullCounts => None,
            Shows::Minima => Some(BinaryRow::from_serialized(stats.min.get(row))?),
            Shows::Maxima => Some(BinaryRow::from_serialized(stats.max.get(row))?),
        };
        out.push('{');
        for (i, column) in columns.iter().enumerate() {
            if i > 0 {
                out.push_str(", ");
            }
            out.push_str(&column.name);
            out.push('=');
            match (&bounds, &column.place) {
                (Some(bounds), Place::At(position, data_type)) if !data_type.is_nested() => {
                    let value = bounds.datum(*position, data_type)?;
                    out.push_str(raw_text(&value, data_type)?.as_deref().unwrap_or("null"));
                }
                (None, Place::At(position, _)) => {
                    match stats.null_counts(row).get(*position).filter(|count| **count != UNKNOWN) {
                        // Writing to a string does not fail.
                        Some(count) => drop(write!(out, "{count}")),
                        None => out.push_str("null"),
                    }
                }
                (None, Place::Absent) => drop(write!(out, "{}", file.rows())),
                _ => out.push_str("null"),
            }
        }
        out.push('}');
        Ok(())
    }

    fn columns(&mut self, file: &DataFile) -> Arc<Vec<Shown>> {
        let (entries, row) = (&*file.entries, file.row as usize);
        let address = |names: Option<&Arc<[String]>>| names.map_or(0, |names| names.as_ptr() as usize);
        let layout = (
            file.schema_id(),
            address(entries.value_stats_cols.get(row).as_ref()),
            address(entries.write_cols.get(row).as_ref()),
        );
        if let Some(columns) = self.known.get(&layout) {
            return Arc::clone(columns);
        }
        let mut columns: Vec<Shown> = self
            .table
            .fields
            .iter()
            .map(|field| Shown { name: field.name.clone(), place: self.place(field, file, entries) })
            .collect();
        columns.sort_by(|a, b| a.name.cmp(&b.name));
        let columns = Arc::new(columns);
        self.known.insert(layout, Arc::clone(&columns));
        columns
    }

    fn place(&self, field: &DataField, file: &DataFile, entries: &ManifestEntries) -> Place {
        let row = file.row as usize;
        let Some(schema) = self.schemas.get(&file.schema_id()) else { return Place::Unknown };
        let Some(written) = schema.fields.iter().find(|written| written.id == field.id) else { return Place::Absent };
        let write_cols = entries.write_cols.get(row).as_deref();
        if write_cols.is_some_and(|names| !names.contains(&written.name)) {
            return Place::Unknown;
        }
        let listed = entries.value_stats_cols.get(row).as_deref().or(write_cols);
        let position = match listed {
            Some(names) => names.iter().position(|name| *name == written.name),
            None => schema.index_of(&written.name),
        };
        position.map_or(Place::Unknown, |position| Place::At(position, written.data_type.clone()))
    }
}
