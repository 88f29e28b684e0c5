//! `$tags`, `$branches` and `$consumers`: what is named beside the snapshots of a table.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringViewArray, TimestampMillisecondArray};
use arrow::datatypes::SchemaRef;
use futures::StreamExt;

use super::history::wall_clocks;
use super::table::{RowSource, RowStream, Wanted, unknown_column};
use super::{NOT_NULL, NULLABLE, columns, long, text, time};
use crate::error::Result;
use crate::store::TableFiles;
use crate::table::Table;

fn once(
    batch: impl Future<Output = Result<RecordBatch>> + Send + 'static,
) -> futures::stream::BoxStream<'static, Result<RecordBatch>> {
    futures::stream::once(batch).boxed()
}

/// `t$tags`
#[derive(Debug)]
pub(super) struct TagRows {
    pub(super) table: Arc<Table>,
}

impl TagRows {
    async fn batch(&self, wanted: &Wanted) -> Result<RecordBatch> {
        let tags = self.table.tags();
        let names = tags.names().await?;
        let array: ArrayRef = Arc::new(StringViewArray::from_iter_values(&names));
        let kept = wanted.keep(&[("tag_name", array)])?;
        let mut found = Vec::new();
        for name in names.into_iter().zip(kept).filter_map(|(name, kept)| kept.then_some(name)) {
            // One that was deleted after the listing is not there any more.
            found.extend(tags.find(&name).await?);
        }
        wanted.batch(found.len(), |column| {
            Ok(match column {
                "tag_name" => {
                    Arc::new(StringViewArray::from_iter_values(found.iter().map(|tag| &tag.name))) as ArrayRef
                }
                "snapshot_id" => Arc::new(Int64Array::from_iter_values(found.iter().map(|tag| tag.snapshot.id))),
                "schema_id" => Arc::new(Int64Array::from_iter_values(found.iter().map(|tag| tag.snapshot.schema_id))),
                "commit_time" => wall_clocks(found.iter().map(|tag| tag.snapshot.time_millis), wanted)?,
                "record_count" => {
                    Arc::new(Int64Array::from_iter_values(found.iter().map(|tag| tag.snapshot.total_record_count)))
                }
                "create_time" => Arc::new(
                    found
                        .iter()
                        .map(|tag| tag.create_time.map(|time| time.and_utc().timestamp_millis()))
                        .collect::<TimestampMillisecondArray>(),
                ),
                "time_retained" => {
                    Arc::new(found.iter().map(|tag| tag.time_retained.map(duration_text)).collect::<StringViewArray>())
                }
                other => return Err(unknown_column(other)),
            })
        })
    }
}

impl RowSource for TagRows {
    fn schema(&self) -> SchemaRef {
        columns(vec![
            text("tag_name", NOT_NULL),
            long("snapshot_id", NOT_NULL),
            long("schema_id", NOT_NULL),
            time("commit_time", NOT_NULL),
            long("record_count", NULLABLE),
            time("create_time", NULLABLE),
            text("time_retained", NULLABLE),
        ])
    }

    fn rows(self: Arc<Self>, wanted: Wanted) -> RowStream {
        once(async move { self.batch(&wanted).await })
    }
}

/// A duration as Java shows it: `PT720H`, `PT1H5M`, `PT0.5S`, `PT0S`.
fn duration_text(duration: Duration) -> String {
    let (seconds, nanos) = (duration.as_secs(), duration.subsec_nanos());
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let mut text = String::from("PT");
    if hours > 0 {
        text.push_str(&format!("{hours}H"));
    }
    if minutes > 0 {
        text.push_str(&format!("{minutes}M"));
    }
    if nanos > 0 {
        let fraction = format!("{nanos:09}");
        text.push_str(&format!("{rest}.{}S", fraction.trim_end_matches('0')));
    } else if rest > 0 || seconds == 0 {
        text.push_str(&format!("{rest}S"));
    }
    text
}

/// `t$branches`
#[derive(Debug)]
pub(super) struct BranchRows {
    pub(super) table: Arc<Table>,
}

impl BranchRows {
    async fn batch(&self, wanted: &Wanted) -> Result<RecordBatch> {
        let names = self.table.branches().names().await?;
        let array: ArrayRef = Arc::new(StringViewArray::from_iter_values(&names));
        let kept = wanted.keep(&[("branch_name", array)])?;
        let mut rows = Vec::new();
        for name in names.into_iter().zip(kept).filter_map(|(name, kept)| kept.then_some(name)) {
            let files = self.table.files().with_branch(Some(&name))?;
            rows.push((name, made(&files).await?));
        }
        wanted.batch(rows.len(), |column| {
            Ok(match column {
                "branch_name" => {
                    Arc::new(StringViewArray::from_iter_values(rows.iter().map(|(name, _)| name))) as ArrayRef
                }
                "create_time" => wall_clocks(rows.iter().map(|(_, made)| *made), wanted)?,
                other => return Err(unknown_column(other)),
            })
        })
    }
}

/// When a branch was made: stores do not tell it of folders, but its first schema file came with it.
async fn made(branch: &TableFiles) -> Result<i64> {
    let schemas = branch.list(&branch.schema_dir()).await?;
    Ok(schemas.iter().map(|file| file.last_modified.timestamp_millis()).min().unwrap_or(0))
}

impl RowSource for BranchRows {
    fn schema(&self) -> SchemaRef {
        columns(vec![text("branch_name", NOT_NULL), time("create_time", NOT_NULL)])
    }

    fn rows(self: Arc<Self>, wanted: Wanted) -> RowStream {
        once(async move { self.batch(&wanted).await })
    }
}

/// `t$consumers`
#[derive(Debug)]
pub(super) struct ConsumerRows {
    pub(super) table: Arc<Table>,
}

impl ConsumerRows {
    async fn batch(&self, wanted: &Wanted) -> Result<RecordBatch> {
        let consumers = self.table.consumers().list().await?;
        wanted.batch(consumers.len(), |column| {
            Ok(match column {
                "consumer_id" => {
                    Arc::new(StringViewArray::from_iter_values(consumers.iter().map(|consumer| &consumer.id)))
                        as ArrayRef
                }
                "next_snapshot_id" => {
                    Arc::new(Int64Array::from_iter_values(consumers.iter().map(|consumer| consumer.next_snapshot)))
                }
                other => return Err(unknown_column(other)),
            })
        })
    }
}

impl RowSource for ConsumerRows {
    fn schema(&self) -> SchemaRef {
        columns(vec![text("consumer_id", NOT_NULL), long("next_snapshot_id", NOT_NULL)])
    }

    fn rows(self: Arc<Self>, wanted: Wanted) -> RowStream {
        once(async move { self.batch(&wanted).await })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duration_text_when_shown_then_as_java() {
        for (millis, expected) in [
            (0, "PT0S"),
            (500, "PT0.5S"),
            (61_000, "PT1M1S"),
            (3_600_000, "PT1H"),
            (30 * 86_400_000, "PT720H"),
            (86_461_250, "PT24H1M1.25S"),
        ] {
            assert_eq!(duration_text(Duration::from_millis(millis)), expected);
        }
    }
}
