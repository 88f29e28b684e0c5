//! A catalog of which nothing can be changed.
//!
//! May import: `error`, `spec`, `table`.

use std::sync::Arc;

use async_trait::async_trait;

use super::{Catalog, TableLocation};
use crate::error::{Error, Result};
use crate::spec::TableSchema;
use crate::table::{NewTable, ObjectName, SchemaChange};

/// Another catalog, read only: databases and tables are found in it and none is created, changed or dropped.
#[derive(Clone, Debug)]
pub struct ReadOnlyCatalog {
    catalog: Arc<dyn Catalog>,
}

impl ReadOnlyCatalog {
    /// The read-only view of `catalog`.
    pub fn new(catalog: Arc<dyn Catalog>) -> Self {
        Self { catalog }
    }
}

fn refused<T>(what: &str) -> Result<T> {
    Err(Error::invalid(format!("{what} is refused: the catalog is opened to read only")))
}

#[async_trait]
impl Catalog for ReadOnlyCatalog {
    async fn list_databases(&self) -> Result<Vec<String>> {
        self.catalog.list_databases().await
    }

    async fn database_exists(&self, database: &str) -> Result<bool> {
        self.catalog.database_exists(database).await
    }

    async fn list_tables(&self, database: &str) -> Result<Vec<String>> {
        self.catalog.list_tables(database).await
    }

    async fn table_exists(&self, database: &str, table: &str) -> Result<bool> {
        self.catalog.table_exists(database, table).await
    }

    async fn table_location(&self, database: &str, table: &str) -> Result<TableLocation> {
        self.catalog.table_location(database, table).await
    }

    async fn create_database(&self, database: &str, _: bool) -> Result<()> {
        refused(&format!("creating database {database}"))
    }

    async fn drop_database(&self, database: &str, _: bool, _: bool) -> Result<()> {
        refused(&format!("dropping database {database}"))
    }

    async fn create_table(&self, database: &str, table: &str, _: NewTable, _: bool) -> Result<bool> {
        refused(&format!("creating table {database}.{table}"))
    }

    async fn drop_table(&self, database: &str, table: &str, _: bool) -> Result<bool> {
        refused(&format!("dropping table {database}.{table}"))
    }

    async fn rename_table(&self, database: &str, table: &str, _: &str) -> Result<()> {
        refused(&format!("renaming table {database}.{table}"))
    }

    async fn alter_table(&self, database: &str, name: &ObjectName, _: Vec<SchemaChange>) -> Result<Arc<TableSchema>> {
        refused(&format!("altering table {database}.{name}"))
    }

    fn is_read_only(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::FileSystemCatalog;
    use super::*;
    use crate::store::testing::{memory, put, schema_json};

    #[tokio::test]
    async fn changes_when_the_catalog_is_read_only_then_refused_and_reads_work() {
        let root = memory("wh");
        put(&root, "a.db/t/schema/schema-0", schema_json(0, &["x"])).await;
        let catalog = ReadOnlyCatalog::new(Arc::new(FileSystemCatalog::new(root)));
        let name: ObjectName = "t".parse().unwrap();
        let errors = [
            catalog.create_database("b", true).await.unwrap_err(),
            catalog.drop_database("a", true, true).await.unwrap_err(),
            catalog.create_table("a", "u", NewTable::default(), true).await.unwrap_err(),
            catalog.drop_table("a", "t", true).await.unwrap_err(),
            catalog.rename_table("a", "t", "u").await.unwrap_err(),
            catalog.alter_table("a", &name, Vec::new()).await.unwrap_err(),
        ];
        assert!(errors.iter().all(|error| error.message().contains("to read only")), "{errors:?}");
        assert_eq!(catalog.list_databases().await.unwrap(), ["a"]);
        assert_eq!(catalog.list_tables("a").await.unwrap(), ["t"]);
        assert!(catalog.database_exists("a").await.unwrap() && catalog.table_exists("a", "t").await.unwrap());
        assert_eq!(catalog.table_location("a", "t").await.unwrap().table, "t");
    }
}
