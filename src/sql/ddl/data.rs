//! Runs the statements that change what a table holds without rows to write: TRUNCATE, DROP PARTITION, ANALYZE.

use datafusion::prelude::DataFrame;
use datafusion::sql::sqlparser::tokenizer::TokenWithSpan;

use super::statement::{AnalyzedColumns, Name, PartitionSpec};
use crate::error::{Error, Result};
use crate::sql::LakeSession;

impl LakeSession {
    pub(super) async fn truncate(
        &self,
        table: &Name,
        _partition: &PartitionSpec,
        tokens: Vec<TokenWithSpan>,
    ) -> Result<DataFrame> {
        let Some(target) = self.lake_target(table).await? else { return self.to_engine(tokens).await };
        Err(target.at(Error::unsupported("TRUNCATE TABLE is not supported in this version")))
    }

    pub(super) async fn drop_partitions(
        &self,
        table: &Name,
        _if_exists: bool,
        _partitions: &[PartitionSpec],
    ) -> Result<DataFrame> {
        let target = self.only_lake_target(table, "DROP PARTITION").await?;
        Err(target.at(Error::unsupported("ALTER TABLE .. DROP PARTITION is not supported in this version")))
    }

    pub(super) async fn analyze(&self, table: &Name, _columns: &AnalyzedColumns) -> Result<DataFrame> {
        let target = self.only_lake_target(table, "ANALYZE TABLE").await?;
        Err(target.at(Error::unsupported("ANALYZE TABLE is not supported in this version")))
    }
}
