//! `$statistics`: what ANALYZE found out about a snapshot (`spec/metadata.md 9.5`).

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::SchemaRef;
use futures::StreamExt;
use serde::Deserialize;
use serde_json::Value;

use super::table::{RowSource, RowStream, Wanted, unknown_column};
use super::{NOT_NULL, NULLABLE, columns, long, text};
use crate::error::{Error, Result};
use crate::spec::Snapshot;
use crate::table::Table;

/// `t$statistics`
#[derive(Debug)]
pub(super) struct StatisticsRows {
    pub(super) table: Arc<Table>,
    pub(super) snapshot: Option<Arc<Snapshot>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Statistics {
    snapshot_id: i64,
    schema_id: i64,
    #[serde(default)]
    merged_record_count: Option<i64>,
    #[serde(default)]
    merged_record_size: Option<i64>,
    #[serde(default)]
    col_stats: Option<Value>,
}

impl StatisticsRows {
    async fn statistics(&self) -> Result<Option<Statistics>> {
        let Some(name) = self.snapshot.as_ref().and_then(|snapshot| snapshot.statistics.as_ref()) else {
            return Ok(None);
        };
        let path = self.table.files().statistics_path(name)?;
        let bytes = self.table.files().read(&path).await?;
        let statistics = serde_json::from_slice(&bytes).map_err(|error| {
            Error::corrupt("the statistics are not a valid document")
                .with("file", self.table.files().location_of(&path))
                .with_source(error)
        })?;
        Ok(Some(statistics))
    }

    async fn batch(&self, wanted: &Wanted) -> Result<RecordBatch> {
        let found = self.statistics().await.map_err(|error| self.table.at(error))?;
        let found = found.as_slice();
        let longs = |value: fn(&Statistics) -> Option<i64>| -> ArrayRef {
            Arc::new(found.iter().map(value).collect::<Int64Array>())
        };
        wanted.batch(found.len(), |column| {
            Ok(match column {
                "snapshot_id" => longs(|found| Some(found.snapshot_id)),
                "schema_id" => longs(|found| Some(found.schema_id)),
                "mergedRecordCount" => longs(|found| found.merged_record_count),
                "mergedRecordSize" => longs(|found| found.merged_record_size),
                "colstat" => Arc::new(
                    found
                        .iter()
                        .map(|found| found.col_stats.as_ref().map(|stats| format!("{stats:#}")))
                        .collect::<StringViewArray>(),
                ),
                other => return Err(unknown_column(other)),
            })
        })
    }
}

impl RowSource for StatisticsRows {
    fn schema(&self) -> SchemaRef {
        columns(vec![
            long("snapshot_id", NOT_NULL),
            long("schema_id", NOT_NULL),
            long("mergedRecordCount", NULLABLE),
            long("mergedRecordSize", NULLABLE),
            text("colstat", NULLABLE),
        ])
    }

    fn rows(self: Arc<Self>, wanted: Wanted) -> RowStream {
        futures::stream::once(async move { self.batch(&wanted).await }).boxed()
    }
}
