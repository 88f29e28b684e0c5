//! Setting the default value of a column.

use arrow::array::RecordBatch;
use async_trait::async_trait;

use super::{Argument, Kind, Procedure, TABLE, Values, success};
use crate::error::Result;
use crate::table::SchemaChange;

/// `alter_column_default_value`
pub(super) struct AlterColumnDefaultValue;

#[async_trait]
impl Procedure for AlterColumnDefaultValue {
    fn name(&self) -> &'static str {
        "alter_column_default_value"
    }

    fn arguments(&self) -> &'static [Argument] {
        const { &[TABLE, Argument::required("column", Kind::Text), Argument::required("default_value", Kind::Text)] }
    }

    async fn run(&self, values: &Values<'_>) -> Result<RecordBatch> {
        let target = values.target().await?;
        let path = values.text("column")?.split('.').map(str::to_owned).collect();
        let default = Some(values.text("default_value")?.to_owned());
        let change = SchemaChange::UpdateColumnDefault { path, default };
        target
            .catalog()
            .alter_table(target.database(), target.table_or_branch("CALL")?, vec![change])
            .await
            .map_err(|error| target.at(error))?;
        success()
    }
}
