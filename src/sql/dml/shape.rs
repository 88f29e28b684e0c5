//! The rows that a statement's query gives: what is to happen to which row, one at a time.
//!
//! ```text
//! [clause] [new values] [old values] [file, position] [row id, sequence number]
//! ```
//! Imports `commit`, `options`, `spec`, `table` and `error`.

use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{DataType as ArrowType, Field, Int32Type, Schema, SchemaRef};

use crate::commit::Operation;
use crate::error::{Error, Result};
use crate::options::{ChangelogProducer, MergeEngine};
use crate::spec::types::{ROW_ID, SEQUENCE_NUMBER, arrow_schema};
use crate::spec::{DataField, DataType, TypeKind};
use crate::table::Table;

/// The name of the data file that a row lies in, as a column.
pub(crate) const FILE_NAME: &str = "__file_name";
/// The position of a row in its data file, as a column.
pub(crate) const ROW_INDEX: &str = "__row_index";

/// The columns that tell where a row of an append table lies. No file holds them.
pub(crate) fn place_fields() -> [DataField; 2] {
    // Ids that no column has and the format does not use.
    let id = i32::MAX - 1000;
    [
        DataField::new(id, FILE_NAME, DataType::nullable(TypeKind::VarChar(i32::MAX as u32))),
        DataField::new(id - 1, ROW_INDEX, DataType::nullable(TypeKind::BigInt)),
    ]
}

/// Which old values of rows of a key table matter where rows are only updated: those of the key tell which row it is, and those
/// that say which row is newer whether the update will be seen. The others need not be read.
pub(crate) fn old_values_of_updates(table: &Table) -> Vec<bool> {
    let (schema, options) = (table.schema(), table.settings());
    let moves = schema.partition_keys.iter().any(|key| !schema.primary_keys.contains(key));
    let all = moves
        || options.changelog_producer == ChangelogProducer::Input
        || options.merge_engine == MergeEngine::PartialUpdate;
    let matters = |name: &String| all || schema.primary_keys.contains(name) || options.sequence_fields.contains(name);
    schema.fields.iter().map(|field| matters(&field.name)).collect()
}

/// What happens to a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// It comes.
    Insert,
    /// It gets new values.
    Update,
    /// It goes.
    Delete,
}

/// Which columns the query gives.
#[derive(Clone, Debug)]
pub(crate) struct ChangeShape {
    /// The statement.
    pub operation: Operation,
    /// What each clause of a MERGE does, in order: the first column is the number of the clause from 1 on, NULL where none
    /// fits. One that is not MERGE does one thing and has no such column.
    pub actions: Vec<Action>,
    /// Whether the first column is the number of a clause.
    pub has_clause: bool,
    /// Whether there are the values that rows get.
    pub has_new: bool,
    /// Whether there are the values that rows have.
    pub has_old: bool,
    /// Whether there is the place where rows lie.
    pub has_place: bool,
    /// Whether there are the ids of the rows.
    pub has_ids: bool,
    /// Whether one row may come twice, which must not be.
    pub may_repeat: bool,
    /// Columns of the table.
    pub width: usize,
}

impl ChangeShape {
    /// Where the new values begin.
    pub(crate) fn new_at(&self) -> usize {
        usize::from(self.has_clause)
    }

    /// Where the old values begin.
    pub(crate) fn old_at(&self) -> usize {
        self.new_at() + if self.has_new { self.width } else { 0 }
    }

    /// Where the place is told.
    pub(crate) fn place_at(&self) -> usize {
        self.old_at() + if self.has_old { self.width } else { 0 }
    }

    /// Where the row ids are told.
    pub(crate) fn ids_at(&self) -> usize {
        self.place_at() + if self.has_place { 2 } else { 0 }
    }

    /// Whether some clause does this.
    pub(crate) fn does(&self, action: Action) -> bool {
        self.actions.contains(&action)
    }

    /// The columns, by names that are all different.
    pub(crate) fn schema(&self, table: &Table) -> SchemaRef {
        let columns = arrow_schema(&table.schema().fields);
        let of_table = |what: &str| -> Vec<Field> {
            let renamed =
                |field: &Arc<Field>| Field::new(format!("{what} {}", field.name()), field.data_type().clone(), true);
            columns.fields().iter().map(renamed).collect()
        };
        let mut fields = Vec::new();
        if self.has_clause {
            fields.push(Field::new("clause", ArrowType::Int32, true));
        }
        if self.has_new {
            fields.extend(of_table("new"));
        }
        if self.has_old {
            fields.extend(of_table("old"));
        }
        if self.has_place {
            fields.extend(place_fields().iter().map(DataField::to_arrow));
        }
        if self.has_ids {
            fields.extend([ROW_ID, SEQUENCE_NUMBER].map(|name| Field::new(name, ArrowType::Int64, true)));
        }
        Arc::new(Schema::new(fields))
    }

    /// What happens to each row of a batch; `None` for rows that nothing happens to.
    ///
    /// # Errors
    /// Internal when the batch is not of this shape.
    pub(crate) fn actions_of(&self, batch: &RecordBatch) -> Result<Vec<Option<Action>>> {
        if !self.has_clause {
            return match self.actions.as_slice() {
                [action] => Ok(vec![Some(*action); batch.num_rows()]),
                _ => Err(Error::internal("a statement without clauses does one thing")),
            };
        }
        let Some(clauses) = batch.column(0).as_primitive_opt::<Int32Type>() else {
            return Err(Error::internal("the number of a clause is not an integer"));
        };
        clauses
            .iter()
            .map(|clause| match clause {
                None => Ok(None),
                Some(clause) => {
                    let at = usize::try_from(clause).ok().and_then(|clause| clause.checked_sub(1));
                    let action = at.and_then(|at| self.actions.get(at).copied());
                    action.map(Some).ok_or_else(|| Error::internal(format!("there is no clause {clause}")))
                }
            })
            .collect()
    }
}
