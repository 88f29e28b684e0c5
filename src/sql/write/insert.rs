//! The plan of an INSERT.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::catalog::Session;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::physical_plan::ExecutionPlan;

use super::commit::{CommitPlan, LakeCommitExec};
use super::dead_letters::DeadLetters;
use super::evolution::Evolution;
use super::key_locations::LakeKeysExec;
use super::screen::screened;
use super::strict::with_strict_casts;
use crate::catalog::Catalog;
use crate::commit::{Operation, OverwriteScope, PartitionSpec};
use crate::error::{Error, Result};
use crate::options::TableOptions;
use crate::sql::settings::{PaimonSettings, Replay};
use crate::table::Table;
use crate::write::{BucketMode, LakeWriteExec, RunSlot, WriteTarget};

/// An INSERT into a table.
pub(crate) struct Insert<'a> {
    /// The table.
    pub table: &'a Arc<Table>,
    /// Its options with those of the session.
    pub options: &'a TableOptions,
    /// The partition that the statement names.
    pub partition: &'a BTreeMap<String, Option<String>>,
    /// INSERT INTO or OVERWRITE.
    pub op: InsertOp,
    /// The catalog that the table is of.
    pub catalog: Option<&'a Arc<dyn Catalog>>,
    /// What the statement adds to the table's columns.
    pub evolution: Option<&'a Arc<Evolution>>,
}

impl Insert<'_> {
    /// The nodes that write the rows of `input` and commit them.
    ///
    /// # Errors
    /// Unsupported for tables and statements that can't be, invalid for a partition that is none of the table.
    pub(crate) fn plan(&self, state: &dyn Session, input: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let table = self.table;
        let overwrite = match self.op {
            InsertOp::Append => None,
            InsertOp::Overwrite => Some(self.scope()?),
            InsertOp::Replace if table.schema().has_primary_key() => None,
            InsertOp::Replace => {
                return Err(table.at(Error::unsupported(
                    "REPLACE INTO takes the place of rows by their primary key, and the table has none; use INSERT INTO",
                )));
            }
        };
        let (user, identifier) = Replay::user(PaimonSettings::replay(state.config_options())?, table)?;
        let target = WriteTarget::try_new(Arc::clone(table), overwrite.is_some(), false, &user)?;
        let slot = Arc::new(RunSlot::default());
        let dead_letters = self.dead_letters(&user)?;
        let input = match &dead_letters {
            Some(letters) => screened(input, &target, letters, identifier)?,
            None => with_strict_casts(input, target.table(), target.table_schema())?,
        };
        let partitions = state.config().target_partitions();
        let keys = match target.mode() {
            // Where all is replaced, no key lies anywhere else.
            BucketMode::CrossPartition if overwrite != Some(OverwriteScope::Table) => {
                let parquet = state.default_table_options().parquet.clone();
                let keys = LakeKeysExec::new(Arc::clone(&target), Arc::clone(&slot), parquet);
                Some(Arc::new(keys) as Arc<dyn ExecutionPlan>)
            }
            _ => None,
        };
        let writes = LakeWriteExec::plan(input, keys, &target, &slot, partitions)?;
        let operation = if overwrite.is_some() { Operation::Overwrite } else { Operation::Write };
        let evolution = self.evolution.map(Arc::clone);
        let commit =
            Arc::new(CommitPlan { identifier, operation, overwrite, evolution, dead_letters, ..CommitPlan::default() });
        Ok(Arc::new(LakeCommitExec::new(writes, target, slot, commit)))
    }

    /// Where rows go that do not fit, as `write.bad-records` says; `None` when they fail the statement.
    fn dead_letters(&self, user: &str) -> Result<Option<Arc<DeadLetters>>> {
        let wanted: Option<String> = self.options.value("write.bad-records")?;
        let Some(name) = wanted.as_deref().and_then(|text| text.strip_prefix("table:")) else { return Ok(None) };
        let at = |error: Error| self.table.at(error.with("option", "write.bad-records"));
        let catalog = self.catalog.ok_or_else(|| {
            at(Error::unsupported(
                "a table outside of a catalog has no other table for rows that do not fit; set 'fail'",
            ))
        })?;
        DeadLetters::new(catalog, self.table, name.trim(), user).map(|letters| Some(Arc::new(letters))).map_err(at)
    }

    /// What an INSERT OVERWRITE replaces (`spec/metadata.md 7.2`).
    fn scope(&self) -> Result<OverwriteScope> {
        let schema = self.table.schema();
        let dynamic = self.options.value::<bool>("dynamic-partition-overwrite")?.unwrap_or(true);
        if schema.partition_keys.is_empty() {
            // Without partitions, the table as a whole, whether there are rows or not.
            return Ok(OverwriteScope::Table);
        }
        if dynamic {
            // Also with a partition that is named: no rows replace nothing.
            return Ok(OverwriteScope::Dynamic);
        }
        if self.partition.is_empty() {
            return Ok(OverwriteScope::Table);
        }
        let default_name = &self.options.partition_default_name;
        let values = self
            .partition
            .iter()
            .map(|(column, value)| {
                let value = match value {
                    Some(value) if value != default_name => ScalarValue::from(value.as_str()),
                    _ => ScalarValue::Null,
                };
                (column.clone(), value)
            })
            .collect();
        Ok(OverwriteScope::Partitions(PartitionSpec::new(schema, &values).map_err(|error| self.table.at(error))?))
    }
}
