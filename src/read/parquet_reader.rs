//! The engine's reader of Parquet files, with footers that do not claim more than they know.
//!
//! A writer may leave out the null count of a column chunk (long strings have no statistics at all, `spec/observed.md`), and
//! the engine then takes it for zero: `IS NULL` would lose rows. Statistics without a null count are taken out of the footer.
//!
//! Writers leave NaN out of smallest and greatest values, and to the engine NaN is greater than all: `d > 1` would lose it. A
//! greatest float is taken out, of pages too, unless the writer is one that gives no statistics at all where there is NaN.

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
use parquet::basic::Type as PhysicalType;
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataBuilder, RowGroupMetaData};
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use parquet::file::statistics::Statistics;

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

fn has_no_null_count(column: &ColumnChunkMetaData) -> bool {
    column.statistics().is_some_and(|statistics| statistics.null_count_opt().is_none())
}

/// The writer that has no statistics for floats among which there is NaN.
const KNOWS_NAN: &str = "parquet-mr";

/// Whether the greatest value of a column, or of one of its pages, may hide NaN.
fn hides_nan(column: &ColumnChunkMetaData) -> bool {
    matches!(column.column_type(), PhysicalType::FLOAT | PhysicalType::DOUBLE)
        && (column.column_index_offset().is_some()
            || column.statistics().is_some_and(|statistics| statistics.max_bytes_opt().is_some()))
}

/// The statistics of floats without the greatest value.
fn without_max(statistics: &Statistics) -> Statistics {
    let (distinct, nulls) = (statistics.distinct_count_opt(), statistics.null_count_opt());
    match statistics {
        Statistics::Float(values) => Statistics::float(values.min_opt().copied(), None, distinct, nulls, false),
        Statistics::Double(values) => Statistics::double(values.min_opt().copied(), None, distinct, nulls, false),
        other => other.clone(),
    }
}

/// `metadata` without what claims too much.
fn checked(metadata: Arc<ParquetMetaData>) -> Arc<ParquetMetaData> {
    let knows_nan = metadata.file_metadata().created_by().is_some_and(|writer| writer.starts_with(KNOWS_NAN));
    let hides_nan = |column: &ColumnChunkMetaData| !knows_nan && hides_nan(column);
    let mut columns = metadata.row_groups().iter().flat_map(RowGroupMetaData::columns);
    if !columns.any(|column| has_no_null_count(column) || hides_nan(column)) {
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
                    let mut changed = column.clone().into_builder();
                    if hides_nan(column) {
                        changed = changed.set_column_index_offset(None).set_column_index_length(None);
                    }
                    changed = match column.statistics() {
                        Some(_) if has_no_null_count(column) => changed.clear_statistics(),
                        Some(statistics) if hides_nan(column) => changed.set_statistics(without_max(statistics)),
                        _ => changed,
                    };
                    // Only taking out what was there: the chunk stays as valid as it was.
                    changed.build().unwrap_or_else(|_| column.clone())
                })
                .collect();
            row_group.clone().into_builder().set_column_metadata(columns).build().unwrap_or(row_group)
        })
        .collect();
    let index = builder.take_column_index().map(|mut index| {
        for (row_group, columns) in metadata.row_groups().iter().zip(&mut index) {
            for (column, pages) in row_group.columns().iter().zip(columns) {
                if hides_nan(column) {
                    *pages = ColumnIndexMetaData::NONE;
                }
            }
        }
        index
    });
    Arc::new(builder.set_row_groups(row_groups).set_column_index(index).build())
}
