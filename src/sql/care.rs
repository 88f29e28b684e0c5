//! Upkeep of the tables that a session's catalogs have, by name. Imports the catalogs' providers, `words` and `zone`.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::Utc;

use super::LakeSession;
use super::ddl::LakeDatabase;
use super::words::Words;
use super::{tokens, zone};
use crate::error::{Error, Result};
use crate::maintain::health::{Clock, Finding, Severity, table_health};
use crate::table::{ObjectName, Table};
use crate::writer::{Budget, CareReport, care_for};

impl LakeSession {
    /// The tables that `target` means: one (`db.t`), those of a database (`db`), or all of the current catalog without one.
    /// One of several that can't be opened is an error in its place.
    ///
    /// # Errors
    /// Invalid when it is no name, unsupported when it is in no lake catalog, not found when there is no such table or database,
    /// or no warehouse; those of opening the one table; Io when the store failed.
    pub async fn tables_of(&self, target: Option<&str>) -> Result<Vec<(String, Result<Arc<Table>>)>> {
        let mut found = Vec::new();
        let Some(text) = target else {
            let Some(within) = self.lake_database(&[]).await? else {
                return Err(Error::unsupported("the current catalog is no lake catalog"));
            };
            let databases = within.catalog.list_databases().await?;
            for database in databases {
                let ident = datafusion::sql::sqlparser::ast::Ident::with_quote('`', database);
                if let Some(within) = self.lake_database(&[ident]).await? {
                    open_all(&within, &mut found).await?;
                }
            }
            return Ok(found);
        };
        let tokens = tokens::tokenize(text)?;
        let name = Words::new(&tokens).name(3)?;
        if name.len() == 1 {
            let within = self.lake_database(&name).await?;
            if let Some(within) = within
                && within.catalog.database_exists(&within.database).await?
            {
                open_all(&within, &mut found).await?;
                return Ok(found);
            }
        }
        let target = self.only_lake_target(&name, "maintain").await?;
        target.table_or_branch("maintain")?;
        found.push((format!("{}.{}", target.database(), target.object), Ok(target.open().await?)));
        Ok(found)
    }

    /// Takes care of a table ([`care_for`]), with the session's clock and memory.
    ///
    /// # Errors
    /// As [`care_for`]; invalid in a session that only reads.
    pub async fn care_for(&self, table: &Arc<Table>, budget: &mut Budget) -> Result<CareReport> {
        if self.read_only {
            return Err(Error::invalid("upkeep is refused: this session only reads"));
        }
        let session = self.zone();
        let clock = |zone: Option<&str>, instant| zone::local_time(instant, zone.unwrap_or(&session));
        Box::pin(care_for(table, Utc::now(), &clock, budget, &self.context.task_ctx())).await
    }
}

impl LakeSession {
    /// What is out of order in a table.
    ///
    /// # Errors
    /// Errors of the store and of the table's metadata.
    pub async fn findings(&self, table: &Arc<Table>) -> Result<Vec<Finding>> {
        let session = self.zone();
        let instant = |shown: i64| zone::instant_of(shown, &session).unwrap_or(shown);
        let clock = Clock { now: Utc::now().timestamp_millis(), instant: &instant };
        let findings = Box::pin(table_health(table, &clock)).await?;
        Ok(findings.into_iter().filter(|finding| finding.severity > Severity::Ok).collect())
    }
}

async fn open_all(within: &LakeDatabase, found: &mut Vec<(String, Result<Arc<Table>>)>) -> Result<()> {
    for table in within.catalog.list_tables(&within.database).await? {
        let shown = format!("{}.{table}", within.database);
        let name = ObjectName { table, branch: None, system_table: None, version: None };
        let caches = within.schema.caches();
        let opened = within.catalog.open_table(&within.database, &name, caches, BTreeMap::new()).await;
        found.push((shown, opened));
    }
    Ok(())
}
