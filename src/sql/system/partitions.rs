//! `$partitions` and `$buckets`: what the live files of a snapshot add up to.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Int32Array, Int64Array, RecordBatch, StringViewArray, TimestampMillisecondArray,
    new_null_array,
};
use arrow::datatypes::{DataType, SchemaRef};
use futures::StreamExt;

use super::files::{creation_time, partition_filter};
use super::table::{RowSource, RowStream, Wanted, unknown_column};
use super::{NOT_NULL, NULLABLE, boolean, columns, int, long, text, time};
use crate::error::Result;
use crate::plan::PlannedFile;
use crate::plan::live::{LiveRequest, live_files};
use crate::spec::Snapshot;
use crate::spec::partition::partition_tuple;
use crate::table::Table;

/// `t$partitions`, `t$buckets`
#[derive(Debug)]
pub(super) struct PartitionRows {
    pub(super) table: Arc<Table>,
    pub(super) snapshot: Option<Arc<Snapshot>>,
    pub(super) buckets: bool,
}

/// What the files of a partition, or of a bucket of one, add up to.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct FileSums {
    pub(super) records: i64,
    pub(super) bytes: i64,
    pub(super) files: i64,
    pub(super) last_update: Option<i64>,
    pub(super) total_buckets: i32,
    /// Rows that deletion vectors mark; `None` when one of them does not say how many.
    pub(super) deleted: Option<i64>,
}

impl FileSums {
    fn add(&mut self, file: &PlannedFile) {
        let (entries, row) = (&*file.file.entries, file.file.row as usize);
        if self.files == 0 {
            self.deleted = Some(0);
        }
        self.records = self.records.saturating_add(entries.row_count[row]);
        self.bytes = self.bytes.saturating_add(entries.file_size[row]);
        self.files += 1;
        self.last_update = self.last_update.max(creation_time(file));
        self.total_buckets = entries.total_buckets[row];
        if let Some(deletion) = &file.deletion {
            self.deleted = self.deleted.zip(deletion.range.cardinality).map(|(sum, more)| sum.saturating_add(more));
        }
    }
}

/// The sums of each partition, by its serialized row, and bucket; all buckets together where they are not told apart.
pub(super) fn sums(files: &[PlannedFile], by_bucket: bool) -> BTreeMap<(Arc<[u8]>, i32), FileSums> {
    let mut sums: BTreeMap<(Arc<[u8]>, i32), FileSums> = BTreeMap::new();
    for file in files {
        let bucket = if by_bucket { file.file.bucket() } else { 0 };
        sums.entry((Arc::clone(&file.partition.row), bucket)).or_default().add(file);
    }
    sums
}

impl PartitionRows {
    async fn batch(&self, wanted: &Wanted) -> Result<RecordBatch> {
        let files = match &self.snapshot {
            None => Vec::new(),
            Some(snapshot) => {
                let request = LiveRequest {
                    partitions: partition_filter(&self.table, wanted),
                    deletions: !self.buckets,
                    postponed: false,
                };
                Box::pin(live_files(&self.table, snapshot, request)).await.map_err(|error| self.table.at(error))?
            }
        };
        let fields = self.table.schema().partition_fields();
        let sums = sums(&files, self.buckets);
        let mut rows = sums
            .into_iter()
            .map(|((row, bucket), sums)| Ok((partition_tuple(&row, &fields)?, bucket, sums)))
            .collect::<Result<Vec<(String, i32, FileSums)>>>()?;
        rows.sort_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
        let longs = |value: fn(&FileSums) -> Option<i64>| -> ArrayRef {
            Arc::new(rows.iter().map(|(_, _, sums)| value(sums)).collect::<Int64Array>())
        };
        wanted.batch(rows.len(), |column| {
            Ok(match column {
                "partition" => {
                    Arc::new(StringViewArray::from_iter_values(rows.iter().map(|(tuple, _, _)| tuple))) as ArrayRef
                }
                "bucket" => Arc::new(Int32Array::from_iter_values(rows.iter().map(|(_, bucket, _)| *bucket))),
                "record_count" => longs(|sums| Some(sums.records)),
                "file_size_in_bytes" => longs(|sums| Some(sums.bytes)),
                "file_count" => longs(|sums| Some(sums.files)),
                "last_update_time" => {
                    Arc::new(rows.iter().map(|(_, _, sums)| sums.last_update).collect::<TimestampMillisecondArray>())
                }
                // Known to catalogs that keep partitions themselves.
                "created_at" => new_null_array(time("", true).data_type(), rows.len()),
                "created_by" | "updated_by" | "options" => new_null_array(&DataType::Utf8View, rows.len()),
                "total_buckets" => {
                    Arc::new(Int32Array::from_iter_values(rows.iter().map(|(_, _, sums)| sums.total_buckets)))
                }
                "done" => Arc::new(BooleanArray::from(vec![false; rows.len()])),
                "deleted_record_count" => longs(|sums| sums.deleted),
                other => return Err(unknown_column(other)),
            })
        })
    }
}

impl RowSource for PartitionRows {
    fn schema(&self) -> SchemaRef {
        let sums = [
            long("record_count", NOT_NULL),
            long("file_size_in_bytes", NOT_NULL),
            long("file_count", NOT_NULL),
            time("last_update_time", NULLABLE),
        ];
        let mut fields = vec![text("partition", NULLABLE)];
        if self.buckets {
            fields.push(int("bucket", NOT_NULL));
            fields.extend(sums);
            return columns(fields);
        }
        fields.extend(sums);
        fields.extend([
            time("created_at", NULLABLE),
            text("created_by", NULLABLE),
            text("updated_by", NULLABLE),
            text("options", NULLABLE),
            int("total_buckets", NOT_NULL),
            boolean("done", NOT_NULL),
            long("deleted_record_count", NULLABLE),
        ]);
        columns(fields)
    }

    fn rows(self: Arc<Self>, wanted: Wanted) -> RowStream {
        futures::stream::once(async move { self.batch(&wanted).await }).boxed()
    }
}
