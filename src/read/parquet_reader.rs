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
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataBuilder, RowGroupMetaData};

/// How many rows a file has by its manifest entry: an extension of the engine's file descriptions. A footer that says
/// something else is an error, so that a file that was cut or exchanged never gives fewer rows in silence.
#[derive(Clone, Copy, Debug)]
pub struct ExpectedRows(pub u64);

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
        let expected = file.extension::<ExpectedRows>().copied();
        Ok(CheckedReader { inner: self.inner.create_reader(0, file, None, metrics)?, expected })
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
        let expected = file.extension::<ExpectedRows>().copied();
        let inner = self.inner.create_reader(partition_index, file, metadata_size_hint, metrics)?;
        Ok(Box::new(CheckedReader { inner, expected }))
    }
}

/// A reader whose footer is checked.
pub(crate) struct CheckedReader {
    inner: Box<dyn AsyncFileReader + Send>,
    expected: Option<ExpectedRows>,
}

impl AsyncFileReader for CheckedReader {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, ParquetResult<Bytes>> {
        self.inner.get_bytes(range)
    }

    fn get_byte_ranges(&mut self, ranges: Vec<Range<u64>>) -> BoxFuture<'_, ParquetResult<Vec<Bytes>>> {
        self.inner.get_byte_ranges(ranges)
    }

    fn get_metadata<'a>(
        &'a mut self,
        options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, ParquetResult<Arc<ParquetMetaData>>> {
        let expected = self.expected;
        self.inner
            .get_metadata(options)
            .map(move |metadata| {
                let metadata = metadata?;
                let rows = metadata.file_metadata().num_rows();
                match expected {
                    Some(ExpectedRows(expected)) if u64::try_from(rows) != Ok(expected) => Err(ParquetError::General(
                        format!("the file has {rows} rows, its manifest entry says {expected}"),
                    )),
                    _ => Ok(checked(metadata)),
                }
            })
            .boxed()
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
