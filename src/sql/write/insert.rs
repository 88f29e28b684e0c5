//! The plan of an INSERT.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::catalog::Session;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::physical_plan::ExecutionPlan;

use super::commit::{CommitPlan, LakeCommitExec};
use super::key_locations::key_locations;
use super::strict::with_strict_casts;
use crate::commit::{Operation, OverwriteScope, PartitionSpec, TableCommit};
use crate::error::{Error, Result};
use crate::options::TableOptions;
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
}

impl Insert<'_> {
    /// The nodes that write the rows of `input` and commit them.
    ///
    /// # Errors
    /// Unsupported for tables and statements that can't be, invalid for a partition that is none of the table.
    pub(crate) async fn plan(
        &self,
        state: &dyn Session,
        input: Arc<dyn ExecutionPlan>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
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
        let user = TableCommit::new_user(table)?;
        let target = WriteTarget::try_new(Arc::clone(table), overwrite.is_some(), false, &user)?;
        let slot = Arc::new(RunSlot::default());
        let input = with_strict_casts(input, target.table_schema())?;
        let partitions = state.config().target_partitions();
        let keys = match target.mode() {
            BucketMode::CrossPartition if !target.replaces() => Box::pin(key_locations(state, &target)).await?,
            _ => None,
        };
        let writes = LakeWriteExec::plan(input, keys, &target, &slot, partitions)?;
        let operation = if overwrite.is_some() { Operation::Overwrite } else { Operation::Write };
        let commit = Arc::new(CommitPlan { operation, overwrite, ..CommitPlan::default() });
        Ok(Arc::new(LakeCommitExec::new(writes, target, slot, commit)))
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
