//! Procedures of consumers.

use arrow::array::RecordBatch;
use async_trait::async_trait;

use super::{Argument, Kind, Procedure, TABLE, Values, success};
use crate::error::Result;
use crate::maintain::consumers;

/// `reset_consumer`
pub(super) struct ResetConsumer;

#[async_trait]
impl Procedure for ResetConsumer {
    fn name(&self) -> &'static str {
        "reset_consumer"
    }

    fn arguments(&self) -> &'static [Argument] {
        const {
            &[
                TABLE,
                Argument::required("consumer_id", Kind::Text),
                Argument::optional("next_snapshot_id", Kind::Number).also(&["next_snapshot"]),
            ]
        }
    }

    async fn run(&self, values: &Values<'_>) -> Result<RecordBatch> {
        let table = values.table().await?;
        let next = values.optional_number("next_snapshot_id")?;
        consumers::reset_consumer(&table, values.text("consumer_id")?, next).await?;
        success()
    }
}

/// `clear_consumers`
pub(super) struct ClearConsumers;

#[async_trait]
impl Procedure for ClearConsumers {
    fn name(&self) -> &'static str {
        "clear_consumers"
    }

    fn arguments(&self) -> &'static [Argument] {
        const {
            &[
                TABLE,
                Argument::optional("including_consumers", Kind::Text),
                Argument::optional("excluding_consumers", Kind::Text),
            ]
        }
    }

    async fn run(&self, values: &Values<'_>) -> Result<RecordBatch> {
        let table = values.table().await?;
        let pattern = |name| values.optional_text(name).filter(|text| !text.is_empty());
        consumers::clear_consumers(&table, pattern("including_consumers"), pattern("excluding_consumers")).await?;
        success()
    }
}
