//! `$snapshots` and `$schemas`: the states that a table has had.
//!
//! Which ids there are is one listing; files are read a few at a time and only those that can pass. The first ones are few, so
//! that a LIMIT reads little.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, StringViewArray, TimestampMillisecondArray};
use arrow::datatypes::SchemaRef;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use serde_json::Value;

use super::table::{RowSource, RowStream, Wanted, unknown_column};
use super::{NOT_NULL, NULLABLE, columns, long, text, time};
use crate::error::Result;
use crate::spec::{DataField, Snapshot, TableSchema};
use crate::sql::zone;
use crate::table::Table;

/// Files that are read at once.
const CONCURRENCY: usize = 32;
/// Rows of the first batch.
const FIRST_BATCH: usize = 64;

/// Cuts `ids` into batches: a small one, then ever larger ones.
fn in_batches(ids: Vec<i64>, wanted: &Wanted) -> impl Iterator<Item = Vec<i64>> + Send + use<> {
    let largest = wanted.batch_size.max(1);
    let mut size = wanted.limit.unwrap_or(usize::MAX).clamp(1, FIRST_BATCH).min(largest);
    let mut at = 0;
    std::iter::from_fn(move || {
        let batch = ids.get(at..(at + size).min(ids.len())).filter(|batch| !batch.is_empty())?.to_vec();
        at += batch.len();
        size = (size * 4).min(largest);
        Some(batch)
    })
}

/// `ids` without those that can't pass.
fn kept_ids(ids: Vec<i64>, column: &str, wanted: &Wanted) -> Result<Vec<i64>> {
    let array: ArrayRef = Arc::new(Int64Array::from(ids.clone()));
    let kept = wanted.keep(&[(column, array)])?;
    Ok(ids.into_iter().zip(kept).filter_map(|(id, kept)| kept.then_some(id)).collect())
}

/// Reads the documents of `ids` batch by batch and makes rows of them.
fn documents<T, F, R>(
    ids: Vec<i64>,
    wanted: Wanted,
    load: impl Fn(i64) -> F + Send + Sync + Clone + 'static,
    rows: R,
) -> BoxStream<'static, Result<arrow::array::RecordBatch>>
where
    T: Send + 'static,
    F: Future<Output = Result<Option<T>>> + Send + 'static,
    R: Fn(&[T], &Wanted) -> Result<arrow::array::RecordBatch> + Send + Sync + 'static,
{
    let rows = Arc::new(rows);
    futures::stream::iter(in_batches(ids, &wanted))
        .then(move |ids| {
            let (load, rows, wanted) = (load.clone(), Arc::clone(&rows), wanted.clone());
            async move {
                let loads = futures::stream::iter(ids.into_iter().map(load)).buffered(CONCURRENCY);
                // What expired after the listing is not there any more.
                let found: Vec<T> = loads.try_filter_map(|found| std::future::ready(Ok(found))).try_collect().await?;
                rows(&found, &wanted)
            }
        })
        .boxed()
}

/// `t$snapshots`
#[derive(Debug)]
pub(super) struct SnapshotRows {
    pub(super) table: Arc<Table>,
}

impl RowSource for SnapshotRows {
    fn schema(&self) -> SchemaRef {
        columns(vec![
            long("snapshot_id", NOT_NULL),
            long("schema_id", NOT_NULL),
            text("commit_user", NOT_NULL),
            long("commit_identifier", NOT_NULL),
            text("commit_kind", NOT_NULL),
            time("commit_time", NOT_NULL),
            text("base_manifest_list", NOT_NULL),
            text("delta_manifest_list", NOT_NULL),
            text("changelog_manifest_list", NULLABLE),
            long("total_record_count", NULLABLE),
            long("delta_record_count", NULLABLE),
            long("changelog_record_count", NULLABLE),
            long("watermark", NULLABLE),
            long("next_row_id", NULLABLE),
            text("operation", NULLABLE),
            text("writer_version", NULLABLE),
        ])
    }

    fn rows(self: Arc<Self>, wanted: Wanted) -> RowStream {
        let snapshots = self.table.snapshots();
        futures::stream::once(async move {
            // The engine asks for a number of rows only where no condition has to be checked above.
            let ids = match wanted.limit {
                Some(limit) if limit <= FIRST_BATCH => snapshots.first_ids(limit).await?,
                _ => snapshots.ids().await?,
            };
            let ids = kept_ids(ids, "snapshot_id", &wanted)?;
            if wanted.asks_only("snapshot_id") {
                let batch = wanted.batch(ids.len(), |_| Ok(Arc::new(Int64Array::from(ids.clone()))));
                return Ok(futures::stream::iter([batch]).boxed());
            }
            let load = move |id| {
                let snapshots = snapshots.clone();
                async move { snapshots.find(id).await }
            };
            Ok::<_, crate::error::Error>(documents(ids, wanted, load, snapshot_batch))
        })
        .try_flatten()
        .boxed()
    }
}

fn snapshot_batch(snapshots: &[Arc<Snapshot>], wanted: &Wanted) -> Result<arrow::array::RecordBatch> {
    let longs = |value: fn(&Snapshot) -> Option<i64>| -> ArrayRef {
        Arc::new(snapshots.iter().map(|snapshot| value(snapshot)).collect::<Int64Array>())
    };
    let texts = |value: fn(&Snapshot) -> Option<&str>| -> ArrayRef {
        Arc::new(snapshots.iter().map(|snapshot| value(snapshot)).collect::<StringViewArray>())
    };
    wanted.batch(snapshots.len(), |column| {
        Ok(match column {
            "snapshot_id" => longs(|snapshot| Some(snapshot.id)),
            "schema_id" => longs(|snapshot| Some(snapshot.schema_id)),
            "commit_user" => texts(|snapshot| Some(&snapshot.commit_user)),
            "commit_identifier" => longs(|snapshot| Some(snapshot.commit_identifier)),
            "commit_kind" => texts(|snapshot| Some(snapshot.commit_kind.name())),
            "commit_time" => wall_clocks(snapshots.iter().map(|snapshot| snapshot.time_millis), wanted)?,
            "base_manifest_list" => texts(|snapshot| Some(&snapshot.base_manifest_list)),
            "delta_manifest_list" => texts(|snapshot| Some(&snapshot.delta_manifest_list)),
            "changelog_manifest_list" => texts(|snapshot| snapshot.changelog_manifest_list.as_deref()),
            "total_record_count" => longs(|snapshot| Some(snapshot.total_record_count)),
            "delta_record_count" => longs(|snapshot| Some(snapshot.delta_record_count)),
            "changelog_record_count" => longs(|snapshot| snapshot.changelog_record_count),
            // As written: the smallest number says that there is none.
            "watermark" => longs(|snapshot| snapshot.watermark),
            "next_row_id" => longs(|snapshot| snapshot.next_row_id),
            "operation" => texts(|snapshot| snapshot.operation.as_deref()),
            "writer_version" => texts(|snapshot| snapshot.writer_version.as_deref()),
            other => return Err(unknown_column(other)),
        })
    })
}

/// Instants as the session's wall clock shows them.
pub(super) fn wall_clocks(millis: impl Iterator<Item = i64>, wanted: &Wanted) -> Result<ArrayRef> {
    let times = millis.map(|millis| zone::wall_clock(millis, &wanted.zone)).collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(TimestampMillisecondArray::from(times)))
}

/// `t$schemas`
#[derive(Debug)]
pub(super) struct SchemaRows {
    pub(super) table: Arc<Table>,
}

impl RowSource for SchemaRows {
    fn schema(&self) -> SchemaRef {
        columns(vec![
            long("schema_id", NOT_NULL),
            text("fields", NOT_NULL),
            text("partition_keys", NOT_NULL),
            text("primary_keys", NOT_NULL),
            text("options", NOT_NULL),
            text("comment", NULLABLE),
            time("update_time", NOT_NULL),
        ])
    }

    fn rows(self: Arc<Self>, wanted: Wanted) -> RowStream {
        let schemas = self.table.schemas();
        futures::stream::once(async move {
            let ids = kept_ids(schemas.ids().await?, "schema_id", &wanted)?;
            let load = move |id| {
                let schemas = schemas.clone();
                async move { schemas.find(id).await }
            };
            Ok::<_, crate::error::Error>(documents(ids, wanted, load, schema_batch))
        })
        .try_flatten()
        .boxed()
    }
}

fn schema_batch(schemas: &[Arc<TableSchema>], wanted: &Wanted) -> Result<arrow::array::RecordBatch> {
    let texts = |value: fn(&TableSchema) -> Option<String>| -> ArrayRef {
        Arc::new(schemas.iter().map(|schema| value(schema)).collect::<StringViewArray>())
    };
    wanted.batch(schemas.len(), |column| {
        Ok(match column {
            "schema_id" => Arc::new(schemas.iter().map(|schema| Some(schema.id)).collect::<Int64Array>()) as ArrayRef,
            "fields" => {
                texts(|schema| Some(schema.fields.iter().map(DataField::to_json).collect::<Value>().to_string()))
            }
            "partition_keys" => texts(|schema| Some(Value::from(schema.partition_keys.clone()).to_string())),
            "primary_keys" => texts(|schema| Some(Value::from(schema.primary_keys.clone()).to_string())),
            "options" => texts(|schema| {
                let options = schema.options.iter().map(|(key, value)| (key.clone(), Value::from(value.clone())));
                Some(Value::Object(options.collect()).to_string())
            }),
            "comment" => texts(|schema| schema.comment.clone()),
            "update_time" => wall_clocks(schemas.iter().map(|schema| schema.time_millis), wanted)?,
            other => return Err(unknown_column(other)),
        })
    })
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::Schema;

    use super::*;

    #[test]
    fn in_batches_when_there_are_many_then_they_grow_and_none_is_lost() {
        let wanted = Wanted::for_test(Arc::new(Schema::empty()), None, 1000);
        let batches: Vec<Vec<i64>> = in_batches((0..5000).collect(), &wanted).collect();
        let sizes: Vec<usize> = batches.iter().map(Vec::len).collect();
        assert_eq!(sizes, [64, 256, 1000, 1000, 1000, 1000, 680]);
        assert_eq!(batches.concat(), (0..5000).collect::<Vec<_>>());
        let wanted = Wanted::for_test(Arc::new(Schema::empty()), Some(10), 1000);
        assert_eq!(in_batches((0..5000).collect(), &wanted).next().unwrap().len(), 10);
        assert_eq!(in_batches(Vec::new(), &wanted).count(), 0);
    }
}
