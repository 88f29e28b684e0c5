//! Procedures of partitions.

use arrow::array::{ArrayRef, RecordBatch};
use async_trait::async_trait;
use chrono::Utc;
use datafusion::common::ScalarValue;

use super::partitions::{named, parts};
use super::{Argument, Kind, Procedure, TABLE, Values, success, text_column};
use crate::commit::TableCommit;
use crate::error::{Error, Result};
use crate::maintain::expire_partitions::{PartitionExpiry, expire_partitions};
use crate::maintain::mark_done::mark_partitions_done;
use crate::spec::DataType;
use crate::spec::binary_row::encode_rows;
use crate::table::Table;

/// The serialized rows of partitions whose columns are all named.
fn rows_of(table: &Table, text: &str) -> Result<Vec<Vec<u8>>> {
    let fields = table.schema().partition_fields();
    let types: Vec<DataType> = fields.iter().map(|field| field.data_type.clone()).collect();
    let mut rows = Vec::new();
    for named in parts(table, text)? {
        let columns: Vec<ArrayRef> = fields
            .iter()
            .map(|field| {
                let (_, value) = named
                    .iter()
                    .find(|(key, _)| *key == field.name)
                    .ok_or_else(|| Error::invalid(format!("the partition has no value for column {}", field.name)))?;
                let value =
                    ScalarValue::Utf8(value.clone()).cast_to(field.to_arrow().data_type()).map_err(|error| {
                        let text = value.as_deref().unwrap_or("NULL");
                        Error::invalid(format!("'{text}' is no value of column {}", field.name)).with_source(error)
                    })?;
                value.to_array().map_err(Error::from)
            })
            .collect::<Result<_>>()?;
        rows.push(encode_rows(&columns, &types)?.serialized(0).to_vec());
    }
    Ok(rows)
}

/// `drop_partition`
pub(super) struct DropPartition;

#[async_trait]
impl Procedure for DropPartition {
    fn name(&self) -> &'static str {
        "drop_partition"
    }

    fn arguments(&self) -> &'static [Argument] {
        const PARTITIONS: Argument =
            Argument::required("partition_strings", Kind::Texts).also(&["partitions", "partition"]);
        const { &[TABLE.also(&["table_id"]), PARTITIONS] }
    }

    async fn run(&self, values: &Values<'_>) -> Result<RecordBatch> {
        let table = values.table().await?;
        let specs = named(&table, values.text("partition_strings")?)?;
        let user = TableCommit::new_user(&table)?;
        Box::pin(TableCommit::new(table, user)?.drop_partitions(&specs)).await?;
        success()
    }
}

/// `mark_partition_done`
pub(super) struct MarkPartitionDone;

#[async_trait]
impl Procedure for MarkPartitionDone {
    fn name(&self) -> &'static str {
        "mark_partition_done"
    }

    fn arguments(&self) -> &'static [Argument] {
        const { &[TABLE, Argument::required("partitions", Kind::Texts)] }
    }

    async fn run(&self, values: &Values<'_>) -> Result<RecordBatch> {
        let table = values.table().await?;
        let rows = rows_of(&table, values.text("partitions")?).map_err(|error| table.at(error))?;
        mark_partitions_done(&table, &rows, Utc::now().timestamp_millis()).await?;
        success()
    }
}

/// `expire_partitions`
pub(super) struct ExpirePartitions;

#[async_trait]
impl Procedure for ExpirePartitions {
    fn name(&self) -> &'static str {
        "expire_partitions"
    }

    fn arguments(&self) -> &'static [Argument] {
        const {
            &[
                TABLE,
                Argument::optional("expiration_time", Kind::Duration),
                Argument::optional("timestamp_formatter", Kind::Text),
                Argument::optional("timestamp_pattern", Kind::Text),
                Argument::optional("expire_strategy", Kind::Text),
                Argument::optional("max_expires", Kind::Number),
                Argument::optional("options", Kind::Text),
            ]
        }
    }

    async fn run(&self, values: &Values<'_>) -> Result<RecordBatch> {
        let mut given = values.options()?;
        for (argument, key) in [
            ("expiration_time", "partition.expiration-time"),
            ("timestamp_formatter", "partition.timestamp-formatter"),
            ("timestamp_pattern", "partition.timestamp-pattern"),
            ("expire_strategy", "partition.expiration-strategy"),
            ("max_expires", "partition.expiration-max-num"),
        ] {
            if let Some(value) = values.optional_text(argument) {
                given.insert(key.to_owned(), value.to_owned());
            }
        }
        let table = values.target().await?.open_with(given).await?;
        let expiry = PartitionExpiry::of(table.settings()).and_then(|expiry| {
            expiry.ok_or_else(|| {
                Error::invalid(
                    "nothing says when partitions expire; give expiration_time or set partition.expiration-time",
                )
            })
        });
        let expiry = expiry.map_err(|error| table.at(error))?;
        let mut gone = Box::pin(expire_partitions(&table, &expiry, values.wall_clock(Utc::now())?)).await?;
        if gone.is_empty() {
            gone.push("No expired partitions.".to_owned());
        }
        text_column("expired_partitions", gone)
    }
}
