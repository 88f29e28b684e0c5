//! The catalog that is a folder: `<warehouse>/<database>.db/<table>/schema/schema-<id>` (`spec/metadata.md 1.1`). How it finds
//! what is there; `definitions` makes and changes it, `removal` drops it.
//!
//! A database is a folder. On local disk it is made, and stays when it is empty, as in Java; in a store that knows files only
//! an empty file [`MARKER`] stands for it, which readers of either kind pass over.
//!
//! May import: `error`, `spec`, `store`, `table`.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;

use super::{Catalog, TableLocation};
use crate::error::{Error, Result};
use crate::spec::TableSchema;
use crate::store::files::numbered;
use crate::store::{StoreLocation, TableFiles, list_folders, open_store};
use crate::table::identifier::is_folder_name;
use crate::table::{NewTable, ObjectName, SchemaChange};

/// What a database's folder ends with.
pub(super) const DATABASE_SUFFIX: &str = ".db";

/// The file that keeps a database in a store without folders.
pub(super) const MARKER: &str = ".database";

/// Tables looked at in the same moment.
pub(super) const CONCURRENCY: usize = 32;

/// Start of the catalog's options that hold for new tables.
const TABLE_DEFAULT: &str = "table-default.";

/// Databases and tables in the folders of a warehouse.
#[derive(Clone, Debug)]
pub struct FileSystemCatalog {
    warehouse: StoreLocation,
    /// Options of new tables that do not set them.
    pub(super) table_defaults: BTreeMap<String, String>,
}

impl FileSystemCatalog {
    /// The catalog of the warehouse in `warehouse`. The folder need not exist.
    pub fn new(warehouse: StoreLocation) -> Self {
        Self { warehouse, table_defaults: BTreeMap::new() }
    }

    /// The same catalog with the options of a catalog: `table-default.<option>` holds for new tables that do not set `<option>`.
    /// What they say is checked when a table is created.
    #[must_use]
    pub fn with_options(mut self, options: &BTreeMap<String, String>) -> Self {
        let defaults = options.iter().filter_map(|(key, value)| Some((key.strip_prefix(TABLE_DEFAULT)?, value)));
        self.table_defaults = defaults.map(|(key, value)| (key.to_owned(), value.clone())).collect();
        self
    }

    /// The catalog of the warehouse at a path or URL, which need not exist. Does no I/O.
    ///
    /// # Errors
    /// As [`open_store`].
    pub fn open(warehouse: &str) -> Result<Self> {
        Ok(Self::new(open_store(warehouse)?))
    }

    /// The warehouse.
    pub fn warehouse(&self) -> &StoreLocation {
        &self.warehouse
    }

    /// The folder of a database, whether it exists or not.
    ///
    /// # Errors
    /// Invalid when the name can't be one.
    pub fn database_folder(&self, database: &str) -> Result<StoreLocation> {
        check_name("database", database)?;
        self.warehouse.child(&format!("{database}{DATABASE_SUFFIX}"))
    }

    /// The folder of a table, whether it exists or not.
    ///
    /// # Errors
    /// Invalid when a name can't be one.
    pub fn table_folder(&self, database: &str, table: &str) -> Result<StoreLocation> {
        check_name("table", table)?;
        self.database_folder(database)?.child(table)
    }

    /// The database as it is written in the warehouse.
    pub(super) async fn find_database(&self, database: &str) -> Result<Option<String>> {
        check_name("database", database)?;
        pick("database", database, self.databases().await?)
    }

    /// The databases of the warehouse, in order; none when its folder is not there yet.
    async fn databases(&self) -> Result<Vec<String>> {
        let folders = list_folders(&self.warehouse, self.warehouse.prefix()).await?;
        let mut databases: Vec<String> = folders
            .iter()
            .filter_map(|folder| folder.strip_suffix(DATABASE_SUFFIX))
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .collect();
        databases.sort_unstable();
        Ok(databases)
    }

    /// The table as it is written in the folder of a database that exists.
    pub(super) async fn find_table(&self, database: &str, table: &str) -> Result<Option<String>> {
        let folders = list_folders(&self.warehouse, self.database_folder(database)?.prefix()).await?;
        let alike = folders.into_iter().filter(|folder| is_alike(folder, table)).collect();
        pick("table", table, self.only_tables(database, alike).await?)
    }

    /// Those of the folders that hold a table, in order.
    async fn only_tables(&self, database: &str, folders: Vec<String>) -> Result<Vec<String>> {
        let checked = futures::stream::iter(folders.into_iter().map(|folder| async move {
            let can_be = is_folder_name(&folder) && !folder.starts_with('.');
            let is_table = can_be && is_table(self.table_folder(database, &folder)?).await?;
            Ok::<_, Error>(is_table.then_some(folder))
        }));
        let mut tables: Vec<String> = checked
            .buffer_unordered(CONCURRENCY)
            .try_filter_map(|table| async move { Ok(table) })
            .try_collect()
            .await?;
        tables.sort_unstable();
        Ok(tables)
    }

    pub(super) async fn find(&self, database: &str, table: &str) -> Result<Option<TableLocation>> {
        // Most names are written as they are: one look instead of two listings.
        let exact = self.table_folder(database, table)?;
        if table.starts_with('.') {
            // What is being dropped.
            return Ok(None);
        }
        if is_table(exact.clone()).await? {
            return Ok(Some(TableLocation { location: exact, database: database.to_owned(), table: table.to_owned() }));
        }
        let Some(database) = self.find_database(database).await? else { return Ok(None) };
        let Some(table) = self.find_table(&database, table).await? else { return Ok(None) };
        Ok(Some(TableLocation { location: self.table_folder(&database, &table)?, database, table }))
    }
}

#[async_trait]
impl Catalog for FileSystemCatalog {
    async fn list_databases(&self) -> Result<Vec<String>> {
        let databases = self.databases().await?;
        let missing = if databases.is_empty() { self.no_warehouse() } else { None };
        missing.map_or(Ok(databases), Err)
    }

    async fn database_exists(&self, database: &str) -> Result<bool> {
        Ok(self.find_database(database).await?.is_some())
    }

    async fn list_tables(&self, database: &str) -> Result<Vec<String>> {
        let found = self.find_database(database).await?.ok_or_else(|| self.no_database(database))?;
        let folders = list_folders(&self.warehouse, self.database_folder(&found)?.prefix()).await?;
        self.only_tables(&found, folders).await
    }

    async fn table_exists(&self, database: &str, table: &str) -> Result<bool> {
        Ok(self.find(database, table).await?.is_some())
    }

    async fn table_location(&self, database: &str, table: &str) -> Result<TableLocation> {
        if let Some(found) = self.find(database, table).await? {
            return Ok(found);
        }
        Err(self.no_table(database, table).await)
    }

    async fn create_database(&self, database: &str, if_not_exists: bool) -> Result<()> {
        self.make_database(database, if_not_exists).await
    }

    async fn drop_database(&self, database: &str, if_exists: bool, cascade: bool) -> Result<()> {
        self.remove_database(database, if_exists, cascade).await
    }

    async fn create_table(
        &self,
        database: &str,
        table: &str,
        definition: NewTable,
        if_not_exists: bool,
    ) -> Result<bool> {
        self.make_table(database, table, definition, if_not_exists).await
    }

    async fn drop_table(&self, database: &str, table: &str, if_exists: bool) -> Result<bool> {
        self.remove_table(database, table, if_exists).await
    }

    async fn rename_table(&self, database: &str, table: &str, name: &str) -> Result<()> {
        self.move_table(database, table, name).await
    }

    async fn alter_table(
        &self,
        database: &str,
        name: &ObjectName,
        changes: Vec<SchemaChange>,
    ) -> Result<Arc<TableSchema>> {
        self.change_table(database, name, &changes).await
    }
}

impl FileSystemCatalog {
    /// The error for a table that is not there.
    pub(super) async fn no_table(&self, database: &str, table: &str) -> Error {
        match self.find_database(database).await {
            Ok(None) => return self.no_database(database),
            Ok(Some(_)) => {}
            Err(error) => return error,
        }
        // A name with `@` that is no version is a table's name; say what a version looks like, in case one was meant.
        let hint = if table.contains('@') { "; a version is written t@5, \"t@tag:name\" or \"t@ts:time\"" } else { "" };
        Error::not_found(format!("table {database}.{table} does not exist{hint}"))
            .with("warehouse", self.warehouse.as_str())
    }

    pub(super) fn no_database(&self, database: &str) -> Error {
        if let Some(error) = self.no_warehouse() {
            return error;
        }
        Error::not_found(format!("database {database} does not exist")).with("warehouse", self.warehouse.as_str())
    }

    /// The error for a warehouse whose folder is not there: more often a wrong name than one that is yet to be made.
    fn no_warehouse(&self) -> Option<Error> {
        let folder = self.warehouse.missing_folder()?;
        Some(Error::not_found(format!(
            "warehouse folder {} does not exist; the first CREATE DATABASE or CREATE TABLE makes it",
            folder.display()
        )))
    }
}

/// Whether a table lies in the folder: `schema-0` is there, or any schema.
pub(super) async fn is_table(folder: StoreLocation) -> Result<bool> {
    let files = TableFiles::new(folder, None)?;
    if files.exists(&files.schema_path(0)).await? {
        return Ok(true);
    }
    let listed = files.list(&files.schema_dir()).await?;
    let is_schema = |path: &Path| path.filename().is_some_and(|name| numbered(name, "schema-").is_some());
    Ok(listed.iter().any(|file| is_schema(&file.location)))
}

fn check_name(what: &str, name: &str) -> Result<()> {
    if is_folder_name(name) && !name.trim().is_empty() {
        Ok(())
    } else {
        Err(Error::invalid(format!("{name:?} can't be the name of a {what}")))
    }
}

/// Whether two names differ in nothing but case.
fn is_alike(one: &str, other: &str) -> bool {
    one == other || one.to_lowercase() == other.to_lowercase()
}

/// The name that is written like `name`, or the only one that differs in nothing but case.
fn pick(what: &str, name: &str, names: Vec<String>) -> Result<Option<String>> {
    let mut alike: Vec<String> = names.into_iter().filter(|other| is_alike(other, name)).collect();
    if let Some(exact) = alike.iter().position(|other| other == name) {
        return Ok(Some(alike.swap_remove(exact)));
    }
    if alike.len() > 1 {
        return Err(Error::invalid(format!(
            "{what} {name} is ambiguous: there are {}; write one as it is, in double quotes",
            alike.join(", ")
        )));
    }
    Ok(alike.pop())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::*;
    use crate::error::ErrorKind;
    use crate::store::testing::{memory, put, schema_json};

    async fn warehouse() -> FileSystemCatalog {
        let root = memory("wh");
        for table in ["a.db/t", "a.db/Orders", "a.db/mixed", "a.db/Mixed", "a.db/ünï cödé@x", "A.db/other", "B.db/Ä"]
        {
            put(&root, &format!("{table}/schema/schema-0"), schema_json(0, &["a"])).await;
        }
        put(&root, "a.db/later/schema/schema-7", schema_json(7, &["a"])).await;
        put(&root, "a.db/MIXED/snapshot/snapshot-1", "no table".to_owned()).await;
        put(&root, "a.db/broken/schema/schema-x", "no table".to_owned()).await;
        put(&root, "a.db/file", "no table".to_owned()).await;
        put(&root, "not a database/t/schema/schema-0", schema_json(0, &["a"])).await;
        put(&root, ".db/t/schema/schema-0", schema_json(0, &["a"])).await;
        FileSystemCatalog::new(root)
    }

    #[tokio::test]
    async fn list_when_folders_without_schema_then_no_tables() {
        let catalog = warehouse().await;
        assert_eq!(catalog.list_databases().await.unwrap(), ["A", "B", "a"]);
        assert_eq!(catalog.list_tables("a").await.unwrap(), ["Mixed", "Orders", "later", "mixed", "t", "ünï cödé@x"]);
        assert_eq!(catalog.list_tables("b").await.unwrap(), ["Ä"]);
        assert_eq!(catalog.list_tables("c").await.unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[tokio::test]
    async fn table_location_when_case_differs_then_exact_first_then_the_only_one() {
        let catalog = warehouse().await;
        for (database, table, found) in [
            ("a", "t", Some("a.db/t")),
            ("a", "T", Some("a.db/t")),
            ("a", "orders", Some("a.db/Orders")),
            ("a", "mixed", Some("a.db/mixed")),
            ("a", "Mixed", Some("a.db/Mixed")),
            ("a", "later", Some("a.db/later")),
            ("b", "ä", Some("B.db/Ä")),
            ("A", "other", Some("A.db/other")),
            ("a", "other", None),
            ("A", "t", None),
            ("a", "broken", None),
            ("a", "file", None),
            ("c", "t", None),
        ] {
            let location = catalog.table_location(database, table).await;
            match found {
                Some(found) => assert_eq!(location.unwrap().location.prefix().as_ref(), format!("wh/{found}")),
                None => assert_eq!(location.unwrap_err().kind(), ErrorKind::NotFound, "{database}.{table}"),
            }
            assert_eq!(catalog.table_exists(database, table).await.unwrap(), found.is_some(), "{database}.{table}");
        }
        let error = catalog.table_location("a", "miXed").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.message().contains("ambiguous: there are Mixed, mixed"), "{error}");
        assert!(catalog.database_exists("b").await.unwrap());
        assert!(!catalog.database_exists("c").await.unwrap());
    }

    #[tokio::test]
    async fn table_location_when_missing_then_says_what() {
        let catalog = warehouse().await;
        for (database, table, what) in [
            ("c", "t", "database c does not exist"),
            ("a", "x", "table a.x does not exist"),
            ("a", "t@latest", "a version is written t@5"),
        ] {
            let error = catalog.table_location(database, table).await.unwrap_err();
            assert!(error.to_string().contains(what), "{error}");
            assert!(error.to_string().contains(catalog.warehouse().as_str()), "{error}");
        }
        for (database, table) in [("a", ".."), ("..", "t"), ("a", ""), ("", "t"), ("a/b", "t"), ("a", "t/schema")] {
            let result = catalog.table_exists(database, table).await;
            assert!(!matches!(result, Ok(true)), "{database:?} {table:?}");
        }
    }

    #[tokio::test]
    async fn open_table_when_name_has_branch_then_that_branch() {
        let catalog = warehouse().await;
        put(catalog.warehouse(), "a.db/Orders/branch/branch-b/schema/schema-0", schema_json(0, &["of_b"])).await;
        let caches = Arc::default();
        let open = |name: &str| {
            let name = name.parse().unwrap();
            let (catalog, caches) = (&catalog, &caches);
            async move { catalog.open_table("a", &name, caches, BTreeMap::new()).await }
        };
        assert_eq!(open("orders$branch_b$files").await.unwrap().identifier().to_string(), "a.Orders$branch_b");
        assert_eq!(open("orders$branch_b").await.unwrap().schema().fields[0].name, "of_b");
        assert_eq!(open("ünï cödé@x@3").await.unwrap().identifier().table, "ünï cödé@x");
        assert_eq!(open("orders$branch_c").await.unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[tokio::test]
    async fn list_when_warehouse_does_not_exist_then_said_and_when_on_disk_then_alike() {
        let folder = tempfile::tempdir().unwrap();
        let catalog = FileSystemCatalog::open(folder.path().join("later").to_str().unwrap()).unwrap();
        for error in [catalog.list_databases().await.unwrap_err(), catalog.list_tables("a").await.unwrap_err()] {
            assert_eq!(error.kind(), ErrorKind::NotFound);
            assert!(error.to_string().contains("later does not exist; the first CREATE"), "{error}");
        }
        assert!(!catalog.table_exists("a", "t").await.unwrap());
        assert!(!catalog.database_exists("a").await.unwrap());
        std::fs::create_dir_all(folder.path().join("later/empty.db")).unwrap();
        std::fs::create_dir_all(folder.path().join("later/a.db/T%20/schema")).unwrap();
        std::fs::write(folder.path().join("later/a.db/file"), "x").unwrap();
        std::fs::write(folder.path().join("later/a.db/T%20/schema/schema-0"), schema_json(0, &["a"])).unwrap();
        assert_eq!(catalog.list_databases().await.unwrap(), ["a", "empty"]);
        assert_eq!(catalog.list_tables("a").await.unwrap(), ["T%20"]);
        assert!(catalog.list_tables("empty").await.unwrap().is_empty());
        assert!(catalog.table_exists("a", "t%20").await.unwrap());
        assert!(!catalog.table_exists("a", "file").await.unwrap());
    }
}
