//! Procedures that put the files of tables in order.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use async_trait::async_trait;
use chrono::Utc;

use super::{Argument, Kind, Procedure, TABLE, Values, numbers, success, text_column};
use crate::commit::TableCommit;
use crate::error::{Error, Result};
use crate::maintain::orphan_files::{DEFAULT_AGE_MILLIS, OrphanRequest, Orphans, remove_orphan_files};
use crate::sql::tokens;
use crate::sql::words::Words;
use crate::sql::zone;
use crate::table::{ObjectName, Table};

/// `compact_manifest`
pub(super) struct CompactManifest;

#[async_trait]
impl Procedure for CompactManifest {
    fn name(&self) -> &'static str {
        "compact_manifest"
    }

    fn arguments(&self) -> &'static [Argument] {
        const { &[TABLE, Argument::optional("options", Kind::Text), Argument::optional("dry_run", Kind::Flag)] }
    }

    async fn run(&self, values: &Values<'_>) -> Result<RecordBatch> {
        let table = values.target().await?.open_with(values.options()?).await?;
        let user = TableCommit::new_user(&table)?;
        let commit = TableCommit::new(table, user)?;
        if values.flag("dry_run") {
            let (merged, all) = commit.mergeable_manifests().await?;
            return text_column("result", vec![format!("{merged} of {all} manifests would be merged")]);
        }
        Box::pin(commit.compact_manifests()).await?;
        success()
    }
}

/// `remove_orphan_files`: of one table, or of all tables of a database (`db.*`).
pub(super) struct RemoveOrphanFiles;

#[async_trait]
impl Procedure for RemoveOrphanFiles {
    fn name(&self) -> &'static str {
        "remove_orphan_files"
    }

    fn arguments(&self) -> &'static [Argument] {
        const {
            &[
                TABLE,
                Argument::optional("older_than", Kind::Time),
                Argument::optional("dry_run", Kind::Flag),
                Argument::optional("parallelism", Kind::Number),
                Argument::optional("mode", Kind::Text),
            ]
        }
    }

    async fn run(&self, values: &Values<'_>) -> Result<RecordBatch> {
        // One process cleans here, whichever way.
        values.check_one_of("mode", &["local", "distributed"])?;
        let now = Utc::now().timestamp_millis();
        let older_than = match values.optional_text("older_than") {
            Some(text) => zone::millis(text, &values.session().zone())?,
            None => now.saturating_sub(DEFAULT_AGE_MILLIS),
        };
        let parallelism = match values.optional_number("parallelism")? {
            Some(number) => usize::try_from(number)
                .map_err(|_| Error::invalid(format!("argument parallelism is {number}; it must be 1 or more")))?,
            None => 0,
        };
        let request = OrphanRequest { older_than, dry_run: values.flag("dry_run"), parallelism };
        let mut found = Orphans::default();
        for table in tables_of(values).await? {
            found.add(Box::pin(remove_orphan_files(&table, request, now)).await?);
        }
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        numbers(&[("deletedFileCount", number(found.files)), ("deletedFileTotalLenInBytes", number(found.bytes))])
    }
}

/// The table that a call names, or all those of a database that it names as `db.*`.
async fn tables_of(values: &Values<'_>) -> Result<Vec<Arc<Table>>> {
    let text = values.text("table")?;
    let Some(database) = text.trim().strip_suffix(".*") else { return Ok(vec![values.table().await?]) };
    let tokens = tokens::tokenize(database)?;
    let mut words = Words::new(&tokens);
    let name = words.name(2)?;
    let within = values.session().lake_database(&name).await?;
    let within =
        within.ok_or_else(|| Error::unsupported(format!("CALL: {database} is not a database of a lake catalog")))?;
    let mut tables = Vec::new();
    for table in within.catalog.list_tables(&within.database).await? {
        let name = ObjectName { table, branch: None, system_table: None, version: None };
        let caches = within.schema.caches();
        tables.push(within.catalog.open_table(&within.database, &name, caches, BTreeMap::new()).await?);
    }
    Ok(tables)
}
