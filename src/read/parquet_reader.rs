//! The engine's reader of Parquet files, with footers that do not claim more than they know.
//!
//! A writer may leave out the null count of a column chunk (long strings have no statistics at all, `spec/observed.md`), and
//! the engine then takes it for zero: `IS NULL` would lose rows. Statistics without a null count are taken out of the footer.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::datasource::physical_plan::ParquetFileReaderFactory;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion_datasource::PartitionedFile;
use futures::FutureExt;
use futures::future::BoxFuture;
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::errors::Result as ParquetResult;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataBuilder, RowGroupMetaData};

/// Readers of another factory, with their footers checked.
#[derive(Debug)]
pub struct CheckedReaderFactory {
    inner: Arc<dyn ParquetFileReaderFactory>,
}

impl CheckedReaderFactory {
    /// Checks the footers that `inner`'s readers give.
    pub fn new(inner: Arc<dyn ParquetFileReaderFactory>) -> Self {
        Self { inner }
    }

    /// A reader of `file` as the Parquet crate takes it.
    ///
    /// # Errors
    /// Those of the factory underneath.
    pub(crate) fn reader(
        &self,
        file: PartitionedFile,
        metrics: &ExecutionPlanMetricsSet,
    ) -> datafusion::error::Result<CheckedReader> {
        Ok(CheckedReader(self.inner.create_reader(0, file, None, metrics)?))
    }
}

impl ParquetFileReaderFactory for CheckedReaderFactory {
    fn create_reader(
        &self,
        partition_index: usize,
        file: PartitionedFile,
        metadata_size_hint: Option<usize>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> datafusion::error::Result<Box<dyn AsyncFileReader + Send>> {
        let inner = self.inner.create_reader(partition_index, file, metadata_size_hint, metrics)?;
        Ok(Box::new(CheckedReader(inner)))
    }
}

/// A reader whose footer is checked.
pub(crate) struct CheckedReader(Box<dyn AsyncFileReader + Send>);

impl AsyncFileReader for CheckedReader {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, ParquetResult<Bytes>> {
        self.0.get_bytes(range)
    }

    fn get_byte_ranges(&mut self, ranges: Vec<Range<u64>>) -> BoxFuture<'_, ParquetResult<Vec<Bytes>>> {
        self.0.get_byte_ranges(ranges)
    }

    fn get_metadata<'a>(
        &'a mut self,
        options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, ParquetResult<Arc<ParquetMetaData>>> {
        self.0.get_metadata(options).map(|metadata| metadata.map(checked)).boxed()
    }
}

fn claims_too_much(column: &ColumnChunkMetaData) -> bool {
    column.statistics().is_some_and(|statistics| statistics.null_count_opt().is_none())
}

/// `metadata` without the statistics that have no null count.
fn checked(metadata: Arc<ParquetMetaData>) -> Arc<ParquetMetaData> {
    if !metadata.row_groups().iter().flat_map(RowGroupMetaData::columns).any(claims_too_much) {
        return metadata;
    }
    let mut builder: ParquetMetaDataBuilder = metadata.as_ref().clone().into_builder();
    let row_groups = builder
        .take_row_groups()
        .into_iter()
        .map(|row_group| {
            let columns = row_group
                .columns()
                .iter()
                .map(|column| {
                    if claims_too_much(column) {
                        // Only clearing what was there: the chunk stays as valid as it was.
                        column.clone().into_builder().clear_statistics().build().unwrap_or_else(|_| column.clone())
                    } else {
                        column.clone()
                    }
                })
                .collect();
            row_group.clone().into_builder().set_column_metadata(columns).build().unwrap_or(row_group)
        })
        .collect();
    Arc::new(builder.set_row_groups(row_groups).build())
}
