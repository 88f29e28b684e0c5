//! The engine's reader of Parquet files, with footers that do not claim more than they know.
//!
//! A writer may leave out the null count of a column chunk (long strings have no statistics at all, `spec/observed.md`), and
//! the engine then takes it for zero: `IS NULL` would lose rows. Statistics without a null count are taken out of the footer.
//!
//! Some writers leave NaN out of the bounds of floating-point columns, and the engine takes NaN for greater than everything:
//! `f > 1` would lose rows. Bounds of such columns count only where their writer is known to do better.

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
use parquet::basic::{LogicalType, Type};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataBuilder, RowGroupMetaData};
use parquet::file::page_index::column_index::ColumnIndexMetaData;

/// What the name of the writer of our own files starts with.
const CREATED_BY_US: &str = "tidelake ";

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

/// Whether the bounds of floating-point columns take NaN into account: those of Java have it, ours are left out then.
fn knows_nan(metadata: &ParquetMetaData) -> bool {
    let writer = metadata.file_metadata().created_by().unwrap_or_default();
    writer.starts_with("parquet-mr") || writer.starts_with(CREATED_BY_US)
}

fn claims_too_much(column: &ColumnChunkMetaData, knows_nan: bool) -> bool {
    let is_float = matches!(column.column_type(), Type::FLOAT | Type::DOUBLE)
        || column.column_descr().logical_type_ref() == Some(&LogicalType::Float16);
    if is_float && !knows_nan {
        return column.statistics().is_some() || column.column_index_offset().is_some();
    }
    column.statistics().is_some_and(|statistics| statistics.null_count_opt().is_none())
}

/// `metadata` without the statistics that have no null count or pass over NaN.
fn checked(metadata: Arc<ParquetMetaData>) -> Arc<ParquetMetaData> {
    let knows_nan = knows_nan(&metadata);
    let wrong = |column: &ColumnChunkMetaData| claims_too_much(column, knows_nan);
    if !metadata.row_groups().iter().flat_map(RowGroupMetaData::columns).any(wrong) {
        return metadata;
    }
    let mut builder: ParquetMetaDataBuilder = metadata.as_ref().clone().into_builder();
    let row_groups: Vec<RowGroupMetaData> = builder
        .take_row_groups()
        .into_iter()
        .map(|row_group| {
            let columns = row_group
                .columns()
                .iter()
                .map(|column| {
                    if wrong(column) {
                        // Only clearing what was there: the chunk stays as valid as it was.
                        let clear = column.clone().into_builder().clear_statistics();
                        let clear = clear.set_column_index_offset(None).set_column_index_length(None);
                        clear.build().unwrap_or_else(|_| column.clone())
                    } else {
                        column.clone()
                    }
                })
                .collect();
            row_group.clone().into_builder().set_column_metadata(columns).build().unwrap_or(row_group)
        })
        .collect();
    // The index of pages may be there already.
    let pages = metadata.column_index().map(|pages| {
        let groups = metadata.row_groups().iter().zip(pages);
        let without = |(group, pages): (&RowGroupMetaData, &Vec<ColumnIndexMetaData>)| {
            let columns = group.columns().iter().zip(pages);
            columns.map(|(column, page)| if wrong(column) { ColumnIndexMetaData::NONE } else { page.clone() }).collect()
        };
        groups.map(without).collect()
    });
    Arc::new(builder.set_row_groups(row_groups).set_column_index(pages).build())
}

#[cfg(test)]
mod tests {
    use arrow::array::{Array, ArrayRef, Float64Array, Int64Array, RecordBatch};
    use parquet::arrow::ArrowWriter;
    use parquet::file::metadata::{PageIndexPolicy, ParquetMetaDataReader};
    use parquet::file::properties::WriterProperties;

    use super::*;

    fn written_by(writer: &str) -> Arc<ParquetMetaData> {
        let columns = [
            ("i", Arc::new(Int64Array::from(vec![1, 2])) as ArrayRef),
            ("f", Arc::new(Float64Array::from(vec![1.0, f64::NAN]))),
        ];
        let batch = RecordBatch::try_from_iter(columns.map(|(name, column)| (name, column.slice(0, 2)))).unwrap();
        let properties = WriterProperties::builder().set_created_by(writer.to_owned()).build();
        let mut bytes = Vec::new();
        let mut file = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties)).unwrap();
        file.write(&batch).unwrap();
        file.close().unwrap();
        let reader = ParquetMetaDataReader::new().with_page_index_policy(PageIndexPolicy::Required);
        Arc::new(reader.parse_and_finish(&Bytes::from(bytes)).unwrap())
    }

    #[test]
    fn checked_when_the_writer_passes_over_nan_then_bounds_of_floats_are_gone() {
        let checked = checked(written_by("parquet-rs version 59.0.0"));
        let columns = checked.row_group(0).columns();
        assert!(columns[0].statistics().is_some() && columns[1].statistics().is_none());
        assert!(columns[1].column_index_offset().is_none());
        let pages = &checked.column_index().unwrap()[0];
        assert!(!matches!(pages[0], ColumnIndexMetaData::NONE) && matches!(pages[1], ColumnIndexMetaData::NONE));
    }

    #[test]
    fn checked_when_the_writer_knows_nan_then_all_bounds_stay() {
        let checked = checked(written_by("parquet-mr version 1.15.2 (build x)"));
        assert!(checked.row_group(0).columns().iter().all(|column| column.statistics().is_some()));
    }
}
