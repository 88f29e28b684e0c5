//! Catalogs: which databases and tables there are and where they lie. The read side.
//!
//! [`FileSystemCatalog`] finds them in the folders of a warehouse. Catalogs that are a service implement [`Catalog`] too.
//!
//! May import: `error`, `options`, `store`, `table`.

mod filesystem;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

pub use filesystem::FileSystemCatalog;

use crate::error::Result;
use crate::store::{Caches, StoreLocation};
use crate::table::{Identifier, ObjectName, Table};

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
    /// Io when the store failed.
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
