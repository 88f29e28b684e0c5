//! `write.merge-schema`: what a statement adds to a table's columns before it adds its rows.

use std::sync::Arc;

use tokio::sync::OnceCell;

use crate::catalog::Catalog;
use crate::error::{Error, ErrorKind, Result};
use crate::spec::TableSchema;
use crate::table::{ObjectName, SchemaChange, Table};

/// Changes of a table's columns that become part of it together with the rows that need them.
///
/// The rows are written for the schema that comes next, which nobody else sees before they are ready to be committed. When that
/// schema turns out to be another one, because the table was altered meanwhile, the statement fails; when the commit after
/// it fails, the table has columns more, without rows.
#[derive(Debug)]
pub(crate) struct Evolution {
    /// Who alters the table.
    catalog: Arc<dyn Catalog>,
    database: String,
    /// The table or branch.
    name: ObjectName,
    changes: Vec<SchemaChange>,
    /// The altered table, once it is.
    altered: OnceCell<Arc<Table>>,
}

impl Evolution {
    /// `changes` of a table of `catalog`.
    pub(crate) fn new(
        catalog: Arc<dyn Catalog>,
        database: String,
        name: ObjectName,
        changes: Vec<SchemaChange>,
    ) -> Self {
        Self { catalog, database, name, changes, altered: OnceCell::new() }
    }

    /// Alters the table, for rows that were written by `written`, and gives the table as it is then. It is altered once,
    /// however often the statement runs.
    ///
    /// # Errors
    /// Conflict when the table was altered meanwhile, else as [`Catalog::alter_table`].
    pub(super) async fn apply(&self, written: &Arc<Table>) -> Result<Arc<Table>> {
        self.altered.get_or_try_init(|| self.alter(written)).await.cloned()
    }

    async fn alter(&self, written: &Arc<Table>) -> Result<Arc<Table>> {
        let altered = self.catalog.alter_table(&self.database, &self.name, self.changes.clone()).await;
        let schema = altered.map_err(|error| match error.kind() {
            // Another statement may have added the same column.
            ErrorKind::Invalid => changed_meanwhile().with_source(error),
            _ => error,
        });
        let schema = schema.map_err(|error| written.at(error))?;
        if !same(&schema, written.schema()) {
            return Err(written.at(changed_meanwhile()));
        }
        written.with_schema(schema)
    }
}

fn changed_meanwhile() -> Error {
    Error::new(
        ErrorKind::Conflict,
        "the table was altered while rows with new columns were written for it; run the statement again",
    )
}

/// Whether two schemas are the same but for when they were made.
fn same(left: &TableSchema, right: &TableSchema) -> bool {
    let right = TableSchema { time_millis: left.time_millis, ..right.clone() };
    *left == right
}
