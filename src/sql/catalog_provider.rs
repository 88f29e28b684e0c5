//! A catalog and its databases as the engine sees them.
//!
//! Names of tables follow the grammar of [`ObjectName`]: `t`, `t$branch_b`, `t@5`, `"t@tag:release"`. Nothing is loaded
//! before it is asked for, and a table is opened anew for each statement.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, SchemaProvider};
use datafusion::common::{DataFusionError, Result, exec_err, not_impl_err};
use datafusion::datasource::{MemTable, TableProvider, TableType};
use parking_lot::RwLock;

use super::branches::OtherBranch;
use super::bridge;
use super::hints::split_options;
use super::pins::SnapshotPins;
use super::provider::LakeTable;
use super::row_ids::ROW_TRACKING;
use super::write::STATIC_PARTITION;
use crate::catalog::Catalog;
use crate::error::{Error, ErrorKind};
use crate::store::Caches;
use crate::table::ObjectName;

/// What the databases of a catalog share.
pub(crate) struct Shared {
    catalog: Arc<dyn Catalog>,
    caches: Arc<Caches>,
    pins: Arc<SnapshotPins>,
    /// Tables of this session only, by database and name: `CREATE EXTERNAL TABLE`.
    external: RwLock<HashMap<(String, String), Arc<dyn TableProvider>>>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("catalog", &self.catalog).finish_non_exhaustive()
    }
}

/// A catalog for the engine.
#[derive(Debug)]
pub struct LakeCatalog {
    shared: Arc<Shared>,
}

impl LakeCatalog {
    /// Shows `catalog` to the engine; what is decoded of its tables is kept in `caches`.
    pub fn new(catalog: Arc<dyn Catalog>, caches: Arc<Caches>) -> Self {
        Self { shared: Arc::new(Shared { catalog, caches, pins: Arc::default(), external: RwLock::default() }) }
    }

    /// The catalog behind.
    pub fn catalog(&self) -> &Arc<dyn Catalog> {
        &self.shared.catalog
    }
}

impl CatalogProvider for LakeCatalog {
    fn schema_names(&self) -> Vec<String> {
        let catalog = Arc::clone(&self.shared.catalog);
        // The engine asks without a way to answer an error; a query of a table will meet it and say so.
        bridge::wait_for(async move { catalog.list_databases().await }).unwrap_or_default()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        // Any name: whether the database exists is found out when a table of it is asked for, where waiting is possible.
        Some(Arc::new(LakeSchema { shared: Arc::clone(&self.shared), database: name.to_owned() }))
    }
}

/// A database for the engine.
pub struct LakeSchema {
    shared: Arc<Shared>,
    database: String,
}

impl fmt::Debug for LakeSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LakeSchema").field("database", &self.database).finish_non_exhaustive()
    }
}

impl LakeSchema {
    fn external(&self, name: &str) -> Option<Arc<dyn TableProvider>> {
        self.shared.external.read().get(&(self.database.clone(), name.to_owned())).cloned()
    }

    /// The table that `name` means, read with `options` over its own.
    pub(crate) async fn open(
        &self,
        name: &str,
        mut options: BTreeMap<String, String>,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        let shared = &self.shared;
        let (name, hint) = split_options(name)?;
        options.extend(hint.unwrap_or_default());
        let mut partition = BTreeMap::new();
        options.retain(|key, value| match key.strip_prefix(STATIC_PARTITION) {
            Some(column) => {
                partition.insert(column.to_owned(), std::mem::take(value));
                false
            }
            None => true,
        });
        let mut object: ObjectName = name.parse().map_err(|error: Error| error.with("table", name.to_owned()))?;
        if object.branch.is_none() {
            // The option says what `t$branch_b` says.
            object.branch = options.remove("branch").filter(|branch| branch != "main");
        }
        let row_ids = object.system_table.as_deref() == Some(ROW_TRACKING);
        if let Some(system_table) = object.system_table.as_ref().filter(|_| !row_ids) {
            return not_impl_err!(
                "system table {}.{name}: ${system_table} is not supported in this version",
                self.database
            );
        }
        let table = match shared.catalog.open_table(&self.database, &object, &shared.caches, options.clone()).await {
            Ok(table) => table,
            Err(error) if error.kind() == ErrorKind::NotFound && object.branch.is_none() => {
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        };
        let other = OtherBranch::of(&table, &shared.catalog, &shared.caches, options).await?;
        let provider = match &object.version {
            None => {
                let provider = LakeTable::with_pins(table, None, Arc::clone(&shared.pins)).with_branch(other)?;
                provider.with_partition(partition)
            }
            Some(version) => {
                let snapshot = table.snapshot(Some(version)).await?.ok_or_else(|| {
                    table.at(Error::not_found("the table has no snapshot yet, so that no version of it can be read"))
                })?;
                let other = match other {
                    Some(other) => Some(other.with_schema_at(&snapshot).await?),
                    None => None,
                };
                LakeTable::at(table.with_schema_of(&snapshot).await?, snapshot).with_branch(other)?
            }
        };
        Ok(Some(Arc::new(if row_ids { provider.with_row_ids()? } else { provider })))
    }
}

#[async_trait]
impl SchemaProvider for LakeSchema {
    fn table_names(&self) -> Vec<String> {
        let shared = Arc::clone(&self.shared);
        let database = self.database.clone();
        bridge::wait_for(async move { shared.catalog.list_tables(&database).await }).unwrap_or_default()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, DataFusionError> {
        if let Some(external) = self.external(name) {
            return Ok(Some(external));
        }
        self.open(name, BTreeMap::new()).await
    }

    async fn table_type(&self, name: &str) -> Result<Option<TableType>> {
        if let Some(external) = self.external(name) {
            return Ok(Some(external.table_type()));
        }
        let exists = self.shared.catalog.table_exists(&self.database, name).await?;
        Ok(exists.then_some(TableType::Base))
    }

    fn register_table(&self, name: String, table: Arc<dyn TableProvider>) -> Result<Option<Arc<dyn TableProvider>>> {
        // Rows in memory would look like a table of the lake and be gone with the session.
        if !table.is::<MemTable>() {
            return Ok(self.shared.external.write().insert((self.database.clone(), name), table));
        }
        exec_err!("table {}.{name}: this version cannot create tables in a lake catalog", self.database)
    }

    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let external = self.shared.external.write().remove(&(self.database.clone(), name.to_owned()));
        if external.is_some() {
            return Ok(external);
        }
        exec_err!("table {}.{name}: this version cannot drop tables of a lake catalog", self.database)
    }

    fn table_exist(&self, name: &str) -> bool {
        if self.external(name).is_some() {
            return true;
        }
        let shared = Arc::clone(&self.shared);
        let database = self.database.clone();
        let Ok(object) = name.parse::<ObjectName>() else { return false };
        bridge::wait_for(async move { shared.catalog.table_exists(&database, &object.table).await }).unwrap_or(false)
    }
}
