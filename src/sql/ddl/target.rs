//! What the names of a statement mean: which catalog, which database, which table. Imports the catalog's providers.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast::Ident;

use super::read::shown;
use crate::catalog::Catalog;
use crate::error::{Error, ErrorKind, Result};
use crate::sql::LakeSession;
use crate::sql::catalog_provider::{LakeCatalog, LakeSchema};
use crate::sql::session::found;
use crate::table::{ObjectName, Table};

/// The database that is there without being created.
pub(crate) const DEFAULT_DATABASE: &str = "default";

/// A database of a lake catalog.
pub(crate) struct LakeDatabase {
    /// The name of the catalog in the session.
    pub catalog_name: String,
    pub catalog: Arc<dyn Catalog>,
    /// The name as it is in the catalog, or as it was written when there is none.
    pub database: String,
    /// The engine's view of it.
    pub schema: LakeSchema,
}

/// A table, or the name of one to be, in a lake catalog.
pub(crate) struct LakeTarget {
    pub within: LakeDatabase,
    /// The name as it was written.
    pub object: ObjectName,
}

impl LakeTarget {
    pub(crate) fn catalog(&self) -> &Arc<dyn Catalog> {
        &self.within.catalog
    }

    pub(crate) fn database(&self) -> &str {
        &self.within.database
    }

    /// The table's name, which must be that of a whole table and not of a branch, a system table or a version.
    ///
    /// # Errors
    /// Invalid, with what the statement does, for any other name.
    pub(crate) fn table(&self, verb: &str) -> Result<&str> {
        if self.object.branch.is_some() {
            return Err(Error::invalid(format!("{verb}: {} names a branch; name the table", self.object)));
        }
        self.table_or_branch(verb)?;
        Ok(&self.object.table)
    }

    /// The name, which must be that of a table or a branch of it.
    ///
    /// # Errors
    /// Invalid, with what the statement does, for a system table or a version.
    pub(crate) fn table_or_branch(&self, verb: &str) -> Result<&ObjectName> {
        if self.object.system_table.is_some() || self.object.version.is_some() {
            return Err(Error::invalid(format!(
                "{verb}: {} is a system table or a version of a table, which cannot be changed; name the table",
                self.object
            )));
        }
        Ok(&self.object)
    }

    /// Opens the table or branch.
    ///
    /// # Errors
    /// As [`Catalog::open_table`].
    pub(crate) async fn open(&self) -> Result<Arc<Table>> {
        self.open_with(BTreeMap::new()).await
    }

    /// The same, with options over those of the table.
    ///
    /// # Errors
    /// As [`Catalog::open_table`].
    pub(crate) async fn open_with(&self, options: BTreeMap<String, String>) -> Result<Arc<Table>> {
        let caches = self.within.schema.caches();
        self.catalog().open_table(self.database(), &self.object, caches, options).await
    }

    /// An error about this table.
    pub(crate) fn at(&self, error: Error) -> Error {
        error.with("table", format!("{}.{}", self.database(), self.object))
    }
}

impl LakeSession {
    /// The lake catalog of this name.
    fn lake_catalog(&self, name: &str) -> Option<(Arc<dyn Catalog>, Arc<dyn datafusion::catalog::CatalogProvider>)> {
        if !self.lake_catalogs.contains(name) {
            return None;
        }
        let provider = self.context.catalog(name)?;
        let catalog = Arc::clone(provider.downcast_ref::<LakeCatalog>()?.catalog());
        Some((catalog, provider))
    }

    /// The database that a name of no, one or two parts means; `None` when it is not in a lake catalog.
    ///
    /// # Errors
    /// Those of listing the databases.
    pub(crate) async fn lake_database(&self, name: &[Ident]) -> Result<Option<LakeDatabase>> {
        let (current_catalog, current_database) = self.current();
        let (catalog_name, written) = match name {
            [] => (current_catalog, None),
            [database] => (current_catalog, Some(database)),
            [catalog, database, ..] => {
                let names: Vec<String> = self.lake_catalogs.iter().cloned().collect();
                let Some(catalog) = found(catalog, &names) else { return Ok(None) };
                (catalog, Some(database))
            }
        };
        let Some((catalog, provider)) = self.lake_catalog(&catalog_name) else { return Ok(None) };
        let database = match written {
            None => current_database,
            Some(written) => {
                let databases = match catalog.list_databases().await {
                    // The first statement that creates something makes it.
                    Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
                    databases => databases?,
                };
                found(written, &databases).unwrap_or_else(|| written.value.clone())
            }
        };
        let Some(lake) = provider.downcast_ref::<LakeCatalog>() else { return Ok(None) };
        let schema = lake.database(&database);
        Ok(Some(LakeDatabase { catalog_name, catalog, database, schema }))
    }

    /// The table that a name of one to three parts means; `None` when it is not in a lake catalog.
    ///
    /// # Errors
    /// When the name is not one of a table, and those of listing the databases.
    pub(crate) async fn lake_target(&self, name: &[Ident]) -> Result<Option<LakeTarget>> {
        let Some((table, database)) = name.split_last() else { return Ok(None) };
        let Some(within) = self.lake_database(database).await? else { return Ok(None) };
        let object: ObjectName = table.value.parse()?;
        Ok(Some(LakeTarget { within, object }))
    }

    /// The table that a name means, which must be in a lake catalog.
    ///
    /// # Errors
    /// Unsupported, with what the statement does, when it is not; else as [`Self::lake_target`].
    pub(crate) async fn only_lake_target(&self, name: &[Ident], verb: &str) -> Result<LakeTarget> {
        self.lake_target(name).await?.ok_or_else(|| {
            Error::unsupported(format!("{verb}: {} is not a table of a lake catalog", shown(&name.to_vec())))
        })
    }
}
