//! Runs the statements that take rows away by whole partitions: TRUNCATE and DROP PARTITION.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::prelude::DataFrame;
use datafusion::sql::sqlparser::tokenizer::TokenWithSpan;

use super::show::{partitions, values_of};
use super::statement::{Name, PartitionSpec};
use super::target::LakeTarget;
use crate::commit::{self, TableCommit};
use crate::error::{Error, Result};
use crate::sql::LakeSession;
use crate::sql::settings::{PaimonSettings, Replay};
use crate::table::Table;

impl LakeSession {
    pub(super) async fn truncate(
        &self,
        name: &Name,
        partition: &PartitionSpec,
        tokens: Vec<TokenWithSpan>,
    ) -> Result<DataFrame> {
        let Some(target) = self.lake_target(name).await? else { return self.to_engine(tokens).await };
        let table = Box::pin(changed(&target, "TRUNCATE TABLE")).await?;
        if !partition.is_empty() {
            return Box::pin(self.remove_partitions(&table, true, std::slice::from_ref(partition))).await;
        }
        Box::pin(self.committing(&table)?.0.truncate()).await?;
        Ok(self.nothing())
    }

    pub(super) async fn drop_partitions(
        &self,
        name: &Name,
        if_exists: bool,
        specs: &[PartitionSpec],
    ) -> Result<DataFrame> {
        let target = self.only_lake_target(name, "DROP PARTITION").await?;
        let table = Box::pin(changed(&target, "DROP PARTITION")).await?;
        Box::pin(self.remove_partitions(&table, if_exists, specs)).await
    }

    /// Removes the rows of the partitions that match; that a specification matches none is an error unless `if_exists`.
    async fn remove_partitions(
        &self,
        table: &Arc<Table>,
        if_exists: bool,
        specs: &[PartitionSpec],
    ) -> Result<DataFrame> {
        let schema = table.schema();
        if schema.partition_keys.is_empty() {
            return Err(table.at(Error::invalid("PARTITION (..): the table has no partitions")));
        }
        let (commit, identifier) = self.committing(table)?;
        if let Some(identifier) = identifier
            && commit.is_committed(identifier).await?
        {
            return Ok(self.nothing());
        }
        let known = partitions(table).await?;
        let mut removed = Vec::new();
        for spec in specs {
            if let Some((column, _)) = spec.iter().find(|(_, value)| value.is_none()) {
                return Err(table.at(Error::invalid(format!("PARTITION (..): column {column} has no value"))));
            }
            let values = values_of(table, spec).map_err(|error| table.at(error))?;
            if known.iter().any(|partition| values.iter().all(|(i, value)| partition.values.get(*i) == Some(value))) {
                let named = |(i, value): (usize, ScalarValue)| (schema.partition_keys[i].clone(), value);
                let values: BTreeMap<String, ScalarValue> = values.into_iter().map(named).collect();
                removed.push(commit::PartitionSpec::new(schema, &values).map_err(|error| table.at(error))?);
            } else if !if_exists {
                let shown = spec.iter().map(|(column, value)| {
                    let value = value.as_ref().and_then(|value| value.text.as_deref());
                    format!("{column} = {}", value.map_or_else(|| "NULL".to_owned(), |text| format!("'{text}'")))
                });
                let shown = shown.collect::<Vec<_>>().join(", ");
                return Err(
                    table.at(Error::not_found(format!("there is no partition ({shown}); SHOW PARTITIONS lists them")))
                );
            }
        }
        if !removed.is_empty() {
            Box::pin(commit.drop_partitions(&removed)).await?;
        }
        Ok(self.nothing())
    }

    /// The commit path of one statement, and its identifier where it can be repeated.
    fn committing(&self, table: &Arc<Table>) -> Result<(TableCommit, Option<i64>)> {
        Replay::commit(PaimonSettings::replay(self.context.state_ref().read().config_options())?, table)
    }
}

/// The table or branch that a statement changes.
pub(super) async fn changed(target: &LakeTarget, verb: &str) -> Result<Arc<Table>> {
    let object = target.table_or_branch(verb)?;
    if target.within.schema.holds(&object.table) {
        return Err(
            target.at(Error::unsupported(format!("{verb}: this is a view or an external table of the session")))
        );
    }
    target.open().await
}

/// The commit path of one statement.
pub(super) fn committing(table: &Arc<Table>) -> Result<TableCommit> {
    TableCommit::new(Arc::clone(table), TableCommit::new_user(table)?)
}
