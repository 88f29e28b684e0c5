//! A catalog and its databases as the engine sees them.
//!
//! Names of tables follow the grammar of [`ObjectName`]: `t`, `t$branch_b`, `t@5`, `"t@tag:release"`. Nothing is loaded
//! before it is asked for, and a table is opened anew for each statement.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, SchemaProvider};
use datafusion::common::{DataFusionError, Result, exec_err};
use datafusion::datasource::{MemTable, TableProvider, TableType};
use parking_lot::RwLock;

use super::branches::OtherBranch;
use super::bridge;
use super::changes::{AUDIT_LOG, BINLOG, ChangeTable};
use super::hints::split_options;
use super::pins::SnapshotPins;
use super::provider::{LakeTable, READ_OPTIMIZED};
use super::row_ids::ROW_TRACKING;
use super::system::{self, SystemKind, SystemTable};
use super::travel::TableState;
use crate::catalog::Catalog;
use crate::error::{Error, ErrorKind};
use crate::options::TableOptions;
use crate::spec::Snapshot;
use crate::store::Caches;
use crate::table::{ObjectName, Table, VersionSpec};

/// What the databases of a catalog share.
pub(crate) struct Shared {
    catalog: Arc<dyn Catalog>,
    caches: Arc<Caches>,
    /// What the catalog was made with.
    options: Arc<BTreeMap<String, String>>,
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
        Self::with_options(catalog, caches, BTreeMap::new())
    }

    /// As [`Self::new`], for a catalog that was made with `options`: `sys.catalog_options` shows them.
    pub fn with_options(catalog: Arc<dyn Catalog>, caches: Arc<Caches>, options: BTreeMap<String, String>) -> Self {
        let (options, pins) = (Arc::new(options), Arc::default());
        Self { shared: Arc::new(Shared { catalog, caches, options, pins, external: RwLock::default() }) }
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
        let mut names = bridge::wait_for(async move { catalog.list_databases().await }).unwrap_or_default();
        names.push(system::DATABASE.to_owned());
        names
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
        if self.is_system() {
            return Ok(Some(Arc::new(system::catalog_table(name, &shared.catalog, &shared.caches, &shared.options)?)));
        }
        let (name, hint) = split_options(name)?;
        options.extend(hint.unwrap_or_default());
        let mut object: ObjectName = name.parse().map_err(|error: Error| error.with("table", name.to_owned()))?;
        if object.branch.is_none() {
            // The option says what `t$branch_b` says.
            object.branch = options.remove("branch").filter(|branch| branch != "main");
        }
        let table = match shared.catalog.open_table(&self.database, &object, &shared.caches, options.clone()).await {
            Ok(table) => table,
            Err(error) if error.kind() == ErrorKind::NotFound && object.branch.is_none() => {
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        };
        let named = match &object.version {
            Some(version) => Some(named_snapshot(&table, version).await?),
            None => None,
        };
        let at_version = match &named {
            Some(snapshot) => table.with_schema_of(snapshot).await?,
            None => Arc::clone(&table),
        };
        let state = TableState { table: at_version, named: named.clone(), pins: Arc::clone(&shared.pins) };
        if let Some(system_table) = &object.system_table {
            return Ok(Some(system_provider(system_table, state)?));
        }
        let other = OtherBranch::of(&table, &shared.catalog, &shared.caches, options).await?;
        let other = match (&named, other) {
            (Some(snapshot), Some(branch)) => Some(branch.with_schema_at(snapshot).await?),
            (_, other) => other,
        };
        Ok(Some(Arc::new(LakeTable::with_state(state).with_branch(other)?)))
    }

    /// Whether this is the database of the catalog's system tables.
    fn is_system(&self) -> bool {
        self.database == system::DATABASE
    }
}

/// The snapshot that a name asks for.
async fn named_snapshot(table: &Arc<Table>, version: &VersionSpec) -> crate::error::Result<Arc<Snapshot>> {
    if !TableOptions::new(&BTreeMap::new(), table.dynamic_options())?.scan.is_latest() {
        return Err(table.at(Error::invalid(format!(
            "the name asks for version {version} and the options for another one; give one of them"
        ))));
    }
    table.snapshot(Some(version)).await?.ok_or_else(|| {
        table.at(Error::not_found("the table has no snapshot yet, so that no version of it can be read"))
    })
}

/// The system table `name` of a table.
fn system_provider(name: &str, state: TableState) -> crate::error::Result<Arc<dyn TableProvider>> {
    let table = Arc::clone(&state.table);
    let lower = name.to_ascii_lowercase();
    match lower.as_str() {
        ROW_TRACKING => return Ok(Arc::new(LakeTable::with_state(state).with_row_ids()?)),
        AUDIT_LOG => return Ok(Arc::new(ChangeTable::audit_log(state))),
        BINLOG => return Ok(Arc::new(ChangeTable::binlog(state))),
        READ_OPTIMIZED => return Ok(Arc::new(LakeTable::with_state(state).read_optimized())),
        _ => {}
    }
    let Some(kind) = SystemKind::find(&lower) else { return Err(table.at(Error::not_found(system::unknown(name)))) };
    let asks = state.named.is_some() || !TableOptions::new(&BTreeMap::new(), table.dynamic_options())?.scan.is_latest();
    if asks && !kind.travels() {
        return Err(table.at(Error::invalid(format!(
            "${} tells of the table as it is now and has no versions; leave the version out",
            kind.name()
        ))));
    }
    Ok(Arc::new(SystemTable::of_table(kind, state)))
}

#[async_trait]
impl SchemaProvider for LakeSchema {
    fn table_names(&self) -> Vec<String> {
        if self.is_system() {
            return system::catalog_tables();
        }
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
        if self.is_system() {
            return Ok(system::catalog_tables().iter().any(|known| known == name).then_some(TableType::View));
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
        if self.is_system() {
            return system::catalog_tables().iter().any(|known| known == name);
        }
        let shared = Arc::clone(&self.shared);
        let database = self.database.clone();
        let Ok(object) = name.parse::<ObjectName>() else { return false };
        bridge::wait_for(async move { shared.catalog.table_exists(&database, &object.table).await }).unwrap_or(false)
    }
}
