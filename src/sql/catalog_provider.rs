//! A catalog and its databases as the engine sees them.
//!
//! Names of tables follow the grammar of [`ObjectName`]: `t`, `t$branch_b`, `t@5`, `"t@tag:release"`. Nothing is loaded
//! before it is asked for, and a table is opened anew for each statement.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, SchemaProvider};
use datafusion::common::{DataFusionError, Result, exec_err, not_impl_err};
use datafusion::datasource::{MemTable, TableProvider, TableType};
use parking_lot::{Mutex, RwLock};

use super::branches::OtherBranch;
use super::bridge;
use super::changes::{AUDIT_LOG, BINLOG, ChangeTable};
use super::dml::ROW_PLACES;
use super::hints::{OPTIONS_MARK, split_options, take_checked_rows, take_static_partition};
use super::pins::SnapshotPins;
use super::provider::{LakeTable, READ_OPTIMIZED};
use super::replacements::Replacements;
use super::row_ids::ROW_TRACKING;
use super::system::{self, SystemKind, SystemTable};
use super::travel::TableState;
use crate::catalog::Catalog;
use crate::error::{Error, ErrorKind};
use crate::options::TableOptions;
use crate::spec::Snapshot;
use crate::store::Caches;
use crate::table::{Identifier, ObjectName, Table, VersionSpec};

/// What the databases of a catalog share.
pub(crate) struct Shared {
    catalog: Arc<dyn Catalog>,
    caches: Arc<Caches>,
    /// What the catalog was made with.
    options: Arc<BTreeMap<String, String>>,
    pins: Arc<SnapshotPins>,
    /// Tables of this session only, by database and name: `CREATE EXTERNAL TABLE`.
    external: RwLock<HashMap<(String, String), Arc<dyn TableProvider>>>,
    replacements: Replacements,
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
    /// Databases that were seen lately, and when; `None` when any name is taken for one.
    seen: Option<Mutex<HashMap<String, Instant>>>,
}

/// How long a database is taken to be there after it was seen.
const SEEN_FOR: Duration = Duration::from_secs(5);

impl LakeCatalog {
    /// Shows `catalog` to the engine; what is decoded of its tables is kept in `caches`.
    pub fn new(catalog: Arc<dyn Catalog>, caches: Arc<Caches>) -> Self {
        Self::with_options(catalog, caches, BTreeMap::new())
    }

    /// As [`Self::new`], for a catalog that was made with `options`: `sys.catalog_options` shows them.
    pub fn with_options(catalog: Arc<dyn Catalog>, caches: Arc<Caches>, options: BTreeMap<String, String>) -> Self {
        let (options, pins) = (Arc::new(options), Arc::default());
        let (external, replacements) = (RwLock::default(), Replacements::default());
        let shared = Shared { catalog, caches, options, pins, external, replacements };
        Self { shared: Arc::new(shared), seen: Some(Mutex::default()) }
    }

    /// The same without a look for a database before a table of it is asked for: where CREATE SCHEMA is not the engine's.
    pub(crate) fn unchecked(self) -> Self {
        Self { seen: None, ..self }
    }

    /// The catalog behind.
    pub fn catalog(&self) -> &Arc<dyn Catalog> {
        &self.shared.catalog
    }

    /// The database `name`, whether it exists or not.
    pub(crate) fn database(&self, name: &str) -> LakeSchema {
        LakeSchema { shared: Arc::clone(&self.shared), database: name.to_owned(), opened: Mutex::default() }
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
        // The engine's CREATE SCHEMA asks here whether there is one. An error is left to whoever asks for a table.
        if let Some(seen) = &self.seen
            && seen.lock().get(name).is_none_or(|at| at.elapsed() > SEEN_FOR)
        {
            let (catalog, database) = (Arc::clone(&self.shared.catalog), name.to_owned());
            match bridge::wait_for(async move { catalog.database_exists(&database).await }) {
                Ok(false) => return None,
                Ok(true) => {
                    seen.lock().insert(name.to_owned(), Instant::now());
                }
                Err(_) => {}
            }
        }
        Some(Arc::new(self.database(name)))
    }

    /// CREATE SCHEMA: the database is created in the catalog; what the engine made for it in memory is not used.
    fn register_schema(&self, name: &str, _: Arc<dyn SchemaProvider>) -> Result<Option<Arc<dyn SchemaProvider>>> {
        let (catalog, database) = (Arc::clone(&self.shared.catalog), name.to_owned());
        bridge::wait_for(async move { catalog.create_database(&database, false).await })?;
        Ok(None)
    }

    /// DROP SCHEMA.
    fn deregister_schema(&self, name: &str, cascade: bool) -> Result<Option<Arc<dyn SchemaProvider>>> {
        let (catalog, database) = (Arc::clone(&self.shared.catalog), name.to_owned());
        let dropped = bridge::wait_for(async move {
            match catalog.database_exists(&database).await? {
                true => catalog.drop_database(&database, true, cascade).await.map(|()| true),
                false => Ok(false),
            }
        });
        if !dropped? {
            return Ok(None);
        }
        if let Some(seen) = &self.seen {
            seen.lock().remove(name);
        }
        let schema = self.database(name);
        schema.forget_all();
        Ok(Some(Arc::new(schema)))
    }
}

/// A database for the engine.
pub struct LakeSchema {
    shared: Arc<Shared>,
    database: String,
    /// Tables that were asked for through this object.
    opened: Mutex<HashSet<String>>,
}

impl fmt::Debug for LakeSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LakeSchema").field("database", &self.database).finish_non_exhaustive()
    }
}

impl LakeSchema {
    /// The name under which the session holds a table or view of its own: as written, or the only one that differs in nothing
    /// but case.
    fn external_name(&self, name: &str) -> Option<(String, String)> {
        let external = self.shared.external.read();
        let exact = (self.database.clone(), name.to_owned());
        if external.contains_key(&exact) {
            return Some(exact);
        }
        let alike =
            |(database, known): &&(String, String)| *database == self.database && known.eq_ignore_ascii_case(name);
        let mut alike = external.keys().filter(alike);
        match (alike.next(), alike.next()) {
            (Some(only), None) => Some(only.clone()),
            _ => None,
        }
    }

    fn external(&self, name: &str) -> Option<Arc<dyn TableProvider>> {
        let key = self.external_name(name)?;
        self.shared.external.read().get(&key).cloned()
    }

    /// Whether the session holds a table or view of its own by this name.
    pub(crate) fn holds(&self, name: &str) -> bool {
        self.external_name(name).is_some()
    }

    /// Gives the session a table or view of its own.
    pub(crate) fn keep(&self, name: &str, table: Arc<dyn TableProvider>) {
        self.shared.external.write().insert((self.database.clone(), name.to_owned()), table);
    }

    /// Takes a table or view of the session's own away; false when there is none.
    pub(crate) fn forget(&self, name: &str) -> bool {
        let Some(key) = self.external_name(name) else { return false };
        self.shared.external.write().remove(&key).is_some()
    }

    /// Takes away all that the session holds of its own in this database.
    pub(crate) fn forget_all(&self) {
        self.shared.external.write().retain(|(database, _), _| *database != self.database);
    }

    /// What is decoded of the tables.
    pub(crate) fn caches(&self) -> &Arc<Caches> {
        &self.shared.caches
    }

    /// What is out of order in the tables of this database.
    pub(crate) fn health(&self) -> SystemTable {
        system::database_health(self.database.clone(), &self.shared.catalog, &self.shared.caches)
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
        let overwritten = take_static_partition(&mut options);
        let checked_rows = take_checked_rows(&mut options);
        let mut object: ObjectName = name.parse().map_err(|error: Error| error.with("table", name.to_owned()))?;
        if object.branch.is_none() {
            // The option says what `t$branch_b` says.
            object.branch = options.remove("branch").filter(|branch| branch != "main");
        }
        let table = match self.open_external(&object, &options).await? {
            Some(table) => table,
            None => match shared.catalog.open_table(&self.database, &object, &shared.caches, options.clone()).await {
                Ok(table) => table,
                Err(error) if error.kind() == ErrorKind::NotFound && object.branch.is_none() => {
                    return Ok(None);
                }
                Err(error) => return Err(error.into()),
            },
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
        let other = match (other, &named) {
            (Some(other), Some(snapshot)) => Some(other.with_schema_at(snapshot).await?),
            (other, _) => other,
        };
        let provider = LakeTable::with_state(state).with_branch(other)?.with_static_partition(overwritten);
        let provider = provider.with_catalog(Arc::clone(&shared.catalog)).with_read_only(shared.catalog.is_read_only());
        Ok(Some(Arc::new(if checked_rows { provider.with_checked_rows() } else { provider })))
    }

    /// The table of the session's own that `object` is a version, a branch or a part of.
    async fn open_external(
        &self,
        object: &ObjectName,
        options: &BTreeMap<String, String>,
    ) -> crate::error::Result<Option<Arc<Table>>> {
        let Some(external) = self.external(&object.table) else { return Ok(None) };
        let Some(lake) = external.downcast_ref::<LakeTable>() else {
            return Err(Error::invalid(
                "a view, or a table of the session that is not a lake's, has no versions, branches, options or system tables",
            )
            .with("table", format!("{}.{}", self.database, object.table)));
        };
        let table = lake.table();
        let identifier = Identifier { branch: object.branch.clone(), ..table.identifier().clone() };
        let mut dynamic = table.dynamic_options().clone();
        dynamic.extend(options.clone());
        Table::open(table.files().root().clone(), identifier, Arc::clone(table.caches()), dynamic).await.map(Some)
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
        ROW_PLACES => return Ok(Arc::new(LakeTable::with_state(state).with_places()?)),
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
        let mut names =
            bridge::wait_for(async move { shared.catalog.list_tables(&database).await }).unwrap_or_default();
        let external = self.shared.external.read();
        let own = external.keys().filter(|(database, _)| *database == self.database);
        names.extend(own.map(|(_, name)| name.clone()));
        names.sort_unstable();
        names.dedup();
        names
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, DataFusionError> {
        if let Some(external) = self.external(name) {
            return Ok(Some(external));
        }
        let table = self.open(name, BTreeMap::new()).await?;
        if table.is_some() {
            self.opened.lock().insert(name.to_owned());
            self.shared.replacements.table(&self.database, name);
        }
        Ok(table)
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
        not_impl_err!(
            "table {}.{name}: this session cannot create a table of a lake by CREATE TABLE; use LakeSession::sql, or CREATE \
             EXTERNAL TABLE {name} (..) STORED AS PAIMON LOCATION '..'",
            self.database
        )
    }

    /// Drops a table, as DROP TABLE asks for it: after it has looked the table up in this same object. Others that deregister a
    /// table (CREATE OR REPLACE of the engine, which may then fail to make the new one) are refused.
    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if let Some(key) = self.external_name(name) {
            return Ok(self.shared.external.write().remove(&key));
        }
        if !self.opened.lock().remove(name) {
            return exec_err!(
                "table {}.{name}: a table of a lake is not replaced by this session; use DROP TABLE, or CREATE OR REPLACE TABLE by \
                 LakeSession::sql",
                self.database
            );
        }
        if self.shared.replacements.take(&self.database, name) {
            return exec_err!(
                "table {}.{name}: a table of a lake is not replaced by CREATE OR REPLACE EXTERNAL TABLE; DROP TABLE it before (and \
                 if this was DROP TABLE, say it again)",
                self.database
            );
        }
        let object: ObjectName = name.parse().map_err(|error: Error| error.with("table", name.to_owned()))?;
        if name.contains(OPTIONS_MARK)
            || object.branch.is_some()
            || object.system_table.is_some()
            || object.version.is_some()
        {
            return exec_err!(
                "{}.{name} is a version or a part of a table; DROP TABLE takes the table's name",
                self.database
            );
        }
        let shared = Arc::clone(&self.shared);
        let (database, table) = (self.database.clone(), object.table);
        let dropped = bridge::wait_for(async move { shared.catalog.drop_table(&database, &table, false).await });
        dropped.map(|_| None).map_err(Into::into)
    }

    fn table_exist(&self, name: &str) -> bool {
        if self.external(name).is_some() {
            return true;
        }
        if self.is_system() {
            return system::catalog_tables().iter().any(|known| known == name);
        }
        self.shared.replacements.exists(&self.database, name);
        let shared = Arc::clone(&self.shared);
        let database = self.database.clone();
        let Ok(object) = name.parse::<ObjectName>() else { return false };
        bridge::wait_for(async move { shared.catalog.table_exists(&database, &object.table).await }).unwrap_or(false)
    }
}
