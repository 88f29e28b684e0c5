//! Parquet files (`spec/data.md 1.4`), read outside the engine's own source: keys of a resolve, contested rows of a fold, files
//! whose timestamps have to be checked.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType as ArrowType, Field, FieldRef, Schema, SchemaRef, TimeUnit};
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryFutureExt, TryStreamExt};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, RowSelection};
use parquet::arrow::async_reader::{AsyncFileReader, ParquetRecordBatchStreamBuilder};
use parquet::basic::Type as PhysicalType;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};

use super::conform::{beyond_arrow, conform_batch, timestamp_ticks};
use super::{BatchStream, FileRead, rows};
use crate::error::{Error, Result};
use crate::spec::types::arrow_schema;
use crate::spec::{DataField, DataType, TypeKind};

/// Whether any column holds timestamps of more than 6 digits. Parquet keeps those as INT96, whose reader wraps silently where
/// they leave the range of 64-bit nanoseconds; [`FileRead::open`] checks them, the engine's Parquet source does not.
pub fn holds_nanoseconds(data_type: &DataType) -> bool {
    match &data_type.kind {
        TypeKind::Timestamp(precision) | TypeKind::TimestampLtz(precision) => *precision > 6,
        TypeKind::Array(inner) | TypeKind::Vector(inner, _) | TypeKind::Multiset(inner) => holds_nanoseconds(inner),
        TypeKind::Map(key, value) => holds_nanoseconds(key) || holds_nanoseconds(value),
        TypeKind::Row(fields) => fields.iter().any(|field| holds_nanoseconds(&field.data_type)),
        _ => false,
    }
}

fn failed(error: ParquetError) -> Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<object_store::Error>() {
            Ok(store) => Error::from(*store),
            Err(other) => Error::corrupt("the Parquet file can't be decoded").with_source(other),
        },
        other => Error::corrupt("the Parquet file can't be decoded").with_source(other),
    }
}

/// A file of an object store, as the Parquet reader asks for its bytes.
#[derive(Clone)]
struct Object {
    store: Arc<dyn ObjectStore>,
    path: Path,
    size: u64,
}

fn in_store(error: object_store::Error) -> ParquetError {
    ParquetError::External(Box::new(error))
}

impl AsyncFileReader for Object {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, Result<Bytes, ParquetError>> {
        self.store.get_range(&self.path, range).map_err(in_store).boxed()
    }

    fn get_byte_ranges(&mut self, ranges: Vec<Range<u64>>) -> BoxFuture<'_, Result<Vec<Bytes>, ParquetError>> {
        async move { self.store.get_ranges(&self.path, &ranges).await.map_err(in_store) }.boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, Result<Arc<ParquetMetaData>, ParquetError>> {
        async move {
            let size = self.size;
            let reader = ParquetMetaDataReader::new().with_arrow_reader_options(options);
            Ok(Arc::new(reader.load_and_finish(self, size).await?))
        }
        .boxed()
    }
}

pub(super) async fn open(read: FileRead) -> Result<BatchStream> {
    let mut reader = Object { store: Arc::clone(&read.store), path: read.path.clone(), size: read.size };
    let plain = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let metadata = ArrowReaderMetadata::load_async(&mut reader, plain.clone()).await.map_err(failed)?;
    let total = u64::try_from(metadata.metadata().file_metadata().num_rows())
        .map_err(|_| Error::corrupt("the Parquet footer says less than no rows"))?;
    rows::check_within(read.selection.as_deref(), total)?;

    let found = Arc::clone(metadata.schema());
    let columns: Vec<usize> = read.fields.iter().filter_map(|field| found.index_of(&field.name).ok()).collect();
    // Roots that hold INT96 below: their nanoseconds need a second look.
    let schema = metadata.parquet_schema();
    let int96: Vec<usize> = (0..schema.num_columns())
        .filter(|leaf| schema.column(*leaf).physical_type() == PhysicalType::INT96)
        .map(|leaf| schema.get_column_root_idx(leaf))
        .filter(|root| columns.contains(root))
        .collect();
    let is_fine = |root: usize| {
        let name = found.field(root).name();
        read.fields.iter().any(|field| field.name == *name && holds_nanoseconds(&field.data_type))
    };
    let hint = |unit_of: &dyn Fn(usize) -> TimeUnit| -> SchemaRef {
        Arc::new(Schema::new(
            found
                .fields()
                .iter()
                .enumerate()
                .map(
                    |(root, field)| {
                        if int96.contains(&root) { with_unit(field, unit_of(root)) } else { as_view(field) }
                    },
                )
                .collect::<Vec<_>>(),
        ))
    };
    let main = hint(&|root| if is_fine(root) { TimeUnit::Nanosecond } else { TimeUnit::Microsecond });
    let file = Opened { reader, metadata, plain, selection: read.selection, total, batch_size: read.batch_size };
    let batches = file.batches(&main, &columns)?;

    let to_check: Vec<usize> = int96.iter().copied().filter(|root| is_fine(*root)).collect();
    let batches: BatchStream = if to_check.is_empty() {
        batches
    } else {
        let micros = hint(&|_| TimeUnit::Microsecond);
        batches.zip(file.batches(&micros, &to_check)?).map(|(batch, check)| checked(batch?, &check?)).boxed()
    };
    let target = arrow_schema(&nullable_fields(&read.fields));
    let fields = read.fields;
    Ok(batches.map(move |batch| conform_batch(&batch?, &fields, &target)).boxed())
}

/// Columns as a file may hold them: what is NOT NULL by now may have old NULLs.
pub(super) fn nullable_fields(fields: &[DataField]) -> Vec<DataField> {
    fields
        .iter()
        .map(|field| DataField { data_type: DataType::nullable(field.data_type.kind.clone()), ..field.clone() })
        .collect()
}

struct Opened {
    reader: Object,
    metadata: ArrowReaderMetadata,
    plain: ArrowReaderOptions,
    selection: Option<Vec<Range<u64>>>,
    total: u64,
    batch_size: usize,
}

impl Opened {
    fn batches(&self, hint: &SchemaRef, columns: &[usize]) -> Result<BatchStream> {
        let options = self.plain.clone().with_schema(Arc::clone(hint));
        let metadata = ArrowReaderMetadata::try_new(Arc::clone(self.metadata.metadata()), options).map_err(failed)?;
        let mask = ProjectionMask::roots(metadata.parquet_schema(), columns.iter().copied());
        let mut builder = ParquetRecordBatchStreamBuilder::new_with_metadata(self.reader.clone(), metadata)
            .with_projection(mask)
            .with_batch_size(self.batch_size);
        if let Some(ranges) = &self.selection {
            // A file that is in memory has its rows counted in usize.
            let total =
                usize::try_from(self.total).map_err(|_| Error::corrupt("the Parquet file has too many rows"))?;
            let ranges = ranges.iter().map(|range| range.start as usize..range.end as usize);
            builder = builder.with_row_selection(RowSelection::from_consecutive_ranges(ranges, total));
        }
        Ok(builder.build().map_err(failed)?.map_err(failed).boxed())
    }
}

/// Text and bytes of a column as views.
pub(crate) fn as_view(field: &FieldRef) -> FieldRef {
    let view = match field.data_type() {
        ArrowType::Utf8 => ArrowType::Utf8View,
        ArrowType::Binary => ArrowType::BinaryView,
        _ => return Arc::clone(field),
    };
    Arc::new(field.as_ref().clone().with_data_type(view))
}

/// The type with its INT96 leaves, which the reader takes as zoneless nanoseconds, in `unit`.
fn with_unit(field: &FieldRef, unit: TimeUnit) -> FieldRef {
    let data_type = match field.data_type() {
        ArrowType::Timestamp(TimeUnit::Nanosecond, None) => ArrowType::Timestamp(unit, None),
        ArrowType::List(element) => ArrowType::List(with_unit(element, unit)),
        ArrowType::Map(entries, sorted) => ArrowType::Map(with_unit(entries, unit), *sorted),
        ArrowType::Struct(fields) => ArrowType::Struct(fields.iter().map(|field| with_unit(field, unit)).collect()),
        _ => return Arc::clone(field),
    };
    Arc::new(Field::clone(field).with_data_type(data_type))
}

/// # Errors
/// Unsupported when a timestamp does not fit 64-bit nanoseconds: `check` has the same columns in microseconds.
fn checked(batch: RecordBatch, check: &RecordBatch) -> Result<RecordBatch> {
    for (field, micros) in check.schema().fields().iter().zip(check.columns()) {
        let Some(nanos) = batch.column_by_name(field.name()) else { continue };
        if nanos.len() != micros.len() {
            return Err(Error::internal("two reads of one Parquet column differ in their rows"));
        }
        check_nanos(nanos, micros).map_err(|error| error.with("column", field.name().clone()))?;
    }
    Ok(batch)
}

fn check_nanos(nanos: &ArrayRef, micros: &ArrayRef) -> Result<()> {
    if let (Some((nanos, 1_000_000_000)), Some((micros, 1_000_000))) = (timestamp_ticks(nanos), timestamp_ticks(micros))
    {
        for (nanos, micros) in nanos.iter().zip(micros.iter()) {
            let (Some(nanos), Some(micros)) = (nanos, micros) else { continue };
            // Nanoseconds of the day may be negative: their microseconds are cut towards zero.
            if (nanos.div_euclid(1_000) - micros).unsigned_abs() > 1 {
                return Err(beyond_arrow(format!("{micros} us since 1970-01-01")));
            }
        }
        return Ok(());
    }
    match nanos.data_type() {
        ArrowType::List(_) => check_nanos(nanos.as_list::<i32>().values(), micros.as_list::<i32>().values()),
        ArrowType::Map(..) => {
            let (nanos, micros) = (nanos.as_map(), micros.as_map());
            check_nanos(nanos.keys(), micros.keys())?;
            check_nanos(nanos.values(), micros.values())
        }
        ArrowType::Struct(_) => {
            for (nanos, micros) in nanos.as_struct().columns().iter().zip(micros.as_struct().columns()) {
                check_nanos(nanos, micros)?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}
