//! Catalogs: which databases and tables there are and where they lie, and creating, changing and dropping them.
//!
//! [`FileSystemCatalog`] finds them in the folders of a warehouse, [`ReadOnlyCatalog`] lets nothing of another one change. Catalogs that are a service implement [`Catalog`] too.
//!
//! May import: `error`, `options`, `spec`, `store`, `table`.

mod definitions;
mod filesystem;
mod read_only;
mod removal;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

pub use filesystem::FileSystemCatalog;
pub use read_only::ReadOnlyCatalog;

use crate::error::Result;
use crate::spec::TableSchema;
use crate::store::{Caches, StoreLocation};
use crate::table::{Identifier, NewTable, ObjectName, SchemaChange, Table};

/// Where a table was found, with the names as they are written there.
#[derive(Clone, Debug)]
pub struct TableLocation {
    /// The table's folder.
    pub location: StoreLocation,
    /// Database.
    pub database: String,
    /// Table.
    pub table: String,
}

/// Databases and tables.
///
/// A name is looked up as it is written first; when there is none like that, one that differs only in case is taken if it is
/// the only one.
#[async_trait]
pub trait Catalog: fmt::Debug + Send + Sync {
    /// The names of all databases, in order.
    ///
    /// # Errors
    /// Not found when what they would lie in is not there yet, Io when the store failed.
    async fn list_databases(&self) -> Result<Vec<String>>;

    /// Whether there is a database of this name.
    ///
    /// # Errors
    /// Invalid when several differ from it only in case, Io when the store failed.
    async fn database_exists(&self, database: &str) -> Result<bool>;

    /// The names of all tables of a database, in order.
    ///
    /// # Errors
    /// Not found when there is no such database, else as [`Self::database_exists`].
    async fn list_tables(&self, database: &str) -> Result<Vec<String>>;

    /// Whether there is a table of this name; false too when there is no such database.
    ///
    /// # Errors
    /// Invalid when several differ from it only in case, Io when the store failed.
    async fn table_exists(&self, database: &str, table: &str) -> Result<bool>;

    /// Where a table lies.
    ///
    /// # Errors
    /// Not found when there is no such table or database, else as [`Self::table_exists`].
    async fn table_location(&self, database: &str, table: &str) -> Result<TableLocation>;

    /// Creates a database. Nothing happens when it is there, also in another case, and `if_not_exists` says that this is fine.
    ///
    /// # Errors
    /// Invalid when the name can't be one, already exists, unsupported when the catalog can't, Io when the store failed.
    async fn create_database(&self, database: &str, if_not_exists: bool) -> Result<()>;

    /// Drops a database; with `cascade` its tables too.
    ///
    /// # Errors
    /// Not found when there is none and `if_exists` does not say that this is fine; invalid when it holds tables, or files of
    /// nobody, and `cascade` is not said; Io when the store failed: what is left can be dropped again.
    async fn drop_database(&self, database: &str, if_exists: bool, cascade: bool) -> Result<()>;

    /// Creates a table: its schema 0, or nothing. False when there is one of this name, also in another case, and
    /// `if_not_exists` says that this is fine; the definition is not looked at then.
    ///
    /// # Errors
    /// Not found when there is no such database; already exists; invalid when the name can't be one, the definition is against
    /// the format (`spec/metadata.md 2.8`), an option is unknown, or files that belong to no table are where it should lie;
    /// unsupported for what this version does not have; Io when the store failed.
    async fn create_table(
        &self,
        database: &str,
        table: &str,
        definition: NewTable,
        if_not_exists: bool,
    ) -> Result<bool>;

    /// Drops a table with its branches and files, also those that it keeps outside of its folder. False when there is none and
    /// `if_exists` says that this is fine.
    ///
    /// # Errors
    /// Not found when there is no such table; invalid, and nothing is deleted, when it names a folder outside that is not its own;
    /// Io when the store failed: the table is there then and can be dropped again.
    async fn drop_table(&self, database: &str, table: &str, if_exists: bool) -> Result<bool>;

    /// Renames a table within its database, in one step.
    ///
    /// # Errors
    /// Not found when there is no such table, already exists when the new name is taken, invalid when it can't be one,
    /// unsupported when the store can't do it in one step, Io when the store failed.
    async fn rename_table(&self, database: &str, table: &str, name: &str) -> Result<()>;

    /// Changes the definition of a table, or of the branch that `name` means, and gives the schema that holds then. All of the
    /// changes happen or none. When another writer changes the table at the same time, the changes are applied to what it made
    /// of it.
    ///
    /// # Errors
    /// Not found when there is no such table or branch; invalid when `name` is of a system table or a version, and when a change
    /// is against the format (`spec/metadata.md 2.5`); conflict when others kept changing the table; Io when the store failed.
    async fn alter_table(
        &self,
        database: &str,
        name: &ObjectName,
        changes: Vec<SchemaChange>,
    ) -> Result<Arc<TableSchema>>;

    /// Whether nothing in it can be changed, its tables' rows neither.
    fn is_read_only(&self) -> bool {
        false
    }

    /// Opens the table and branch that `name` means; its system table and version are the caller's. `options` win over the
    /// table's.
    ///
    /// # Errors
    /// As [`Self::table_location`] and [`Table::open`].
    async fn open_table(
        &self,
        database: &str,
        name: &ObjectName,
        caches: &Arc<Caches>,
        options: BTreeMap<String, String>,
    ) -> Result<Arc<Table>> {
        let found = self.table_location(database, &name.table).await?;
        let identifier = Identifier::new(found.database, found.table).with_branch(name.branch.as_deref());
        Table::open(found.location, identifier, Arc::clone(caches), options).await
    }
}
