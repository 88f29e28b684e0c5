//! `$manifests`: the manifest files of a snapshot.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, StringViewArray};
use arrow::datatypes::SchemaRef;
use futures::StreamExt;

use super::table::{RowSource, RowStream, Wanted, unknown_column};
use super::{NOT_NULL, NULLABLE, columns, long, text};
use crate::error::Result;
use crate::plan::live;
use crate::spec::partition::partition_tuple;
use crate::spec::{ManifestMeta, Snapshot};
use crate::table::Table;

/// `t$manifests`
#[derive(Debug)]
pub(super) struct ManifestRows {
    pub(super) table: Arc<Table>,
    pub(super) snapshot: Option<Arc<Snapshot>>,
}

impl ManifestRows {
    async fn batch(&self, wanted: &Wanted) -> Result<arrow::array::RecordBatch> {
        let metas = match &self.snapshot {
            Some(snapshot) => {
                Box::pin(live::all_manifests(&self.table, snapshot)).await.map_err(|error| self.table.at(error))?
            }
            None => Vec::new(),
        };
        let partition = self.table.schema().partition_fields();
        let tuples = |row: fn(&ManifestMeta) -> &[u8]| -> Result<ArrayRef> {
            // A manifest without entries has no bounds.
            let bounded = |meta: &ManifestMeta| meta.num_added_files > 0 || meta.num_deleted_files > 0;
            let shown = metas
                .iter()
                .map(|meta| if bounded(meta) { partition_tuple(row(meta), &partition).map(Some) } else { Ok(None) });
            Ok(Arc::new(shown.collect::<Result<StringViewArray>>()?))
        };
        let longs = |value: fn(&ManifestMeta) -> Option<i64>| -> ArrayRef {
            Arc::new(metas.iter().map(value).collect::<Int64Array>())
        };
        wanted.batch(metas.len(), |column| {
            Ok(match column {
                "file_name" => {
                    Arc::new(StringViewArray::from_iter_values(metas.iter().map(|meta| &meta.file_name))) as ArrayRef
                }
                "file_size" => longs(|meta| Some(meta.file_size)),
                "num_added_files" => longs(|meta| Some(meta.num_added_files)),
                "num_deleted_files" => longs(|meta| Some(meta.num_deleted_files)),
                "schema_id" => longs(|meta| Some(meta.schema_id)),
                "min_partition_stats" => tuples(|meta| &meta.partition_stats.min)?,
                "max_partition_stats" => tuples(|meta| &meta.partition_stats.max)?,
                "min_row_id" => longs(|meta| meta.min_row_id),
                "max_row_id" => longs(|meta| meta.max_row_id),
                other => return Err(unknown_column(other)),
            })
        })
    }
}

impl RowSource for ManifestRows {
    fn schema(&self) -> SchemaRef {
        columns(vec![
            text("file_name", NOT_NULL),
            long("file_size", NOT_NULL),
            long("num_added_files", NOT_NULL),
            long("num_deleted_files", NOT_NULL),
            long("schema_id", NOT_NULL),
            text("min_partition_stats", NULLABLE),
            text("max_partition_stats", NULLABLE),
            long("min_row_id", NULLABLE),
            long("max_row_id", NULLABLE),
        ])
    }

    fn rows(self: Arc<Self>, wanted: Wanted) -> RowStream {
        futures::stream::once(async move { Box::pin(self.batch(&wanted)).await }).boxed()
    }
}
