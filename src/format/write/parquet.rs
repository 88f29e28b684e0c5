//! Parquet files (`spec/data.md 1.4`), encoded column by column with the arrow writer; INT96 columns aside.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Float32Type, Float64Type, SchemaRef};
use parking_lot::Mutex;
use parquet::arrow::arrow_writer::PageStoreFactory;
use parquet::arrow::arrow_writer::{ArrowColumnWriter, ArrowLeafColumn, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::basic::{BrotliLevel, Compression, GzipLevel, ZstdLevel};
use parquet::data_type::Int96Type;
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnPath, SchemaDescriptor};

use super::copied_columns::{CopiedChunk, KeptPages};
use super::int96::{self, Int96Column};
use super::parquet_schema::parquet_schema;
use super::sink::Sink;
use super::{Encoder, FileWrite};
use crate::error::{Error, Result};
use crate::spec::DataField;
use crate::spec::types::{ROW_ID, SEQUENCE_NUMBER, arrow_schema};

/// Bytes of a row group, unless told; Java's default.
const ROW_GROUP_BYTES: u64 = 128 << 20;
/// Most rows of a row group: a reader takes row groups as the units of its parallelism.
const ROW_GROUP_ROWS: usize = 1 << 20;

/// Who wrote the file, in the form that other readers parse; it says that bounds of floating-point columns can be trusted.
const CREATED_BY: &str = concat!("tidelake version ", env!("CARGO_PKG_VERSION"));

fn failed(error: ParquetError) -> Error {
    Error::internal("rows can't be encoded as Parquet").with_source(error)
}

enum Column {
    Arrow {
        writer: Box<ArrowColumnWriter>,
        /// Whether a NaN is among its values: the bounds that the writer collects leave it out.
        has_nan: bool,
    },
    Int96(Int96Column),
    /// The values of an earlier leaf, which are written once more.
    Copy(usize),
}

/// A row group in the making.
struct RowGroup {
    /// One a leaf.
    columns: Vec<Column>,
    rows: usize,
}

pub(super) struct ParquetEncoder {
    file: SerializedFileWriter<Sink>,
    factory: ArrowRowGroupWriterFactory,
    descriptor: SchemaDescriptor,
    schema: SchemaRef,
    fields: Arc<[DataField]>,
    /// For each leaf, whether it is INT96.
    int96: Vec<bool>,
    /// For each leaf, the earlier one whose values it has.
    copy_of: Vec<Option<usize>>,
    pages: Arc<KeptPages>,
    /// Bytes of a row group.
    limit: u64,
    group: Option<RowGroup>,
}

impl ParquetEncoder {
    pub fn new(write: &FileWrite, sink: Sink) -> Result<Self> {
        let descriptor = parquet_schema(&write.fields)?;
        let mut int96 = Vec::with_capacity(descriptor.num_columns());
        write.fields.iter().for_each(|field| int96::leaves(&field.data_type, &mut int96));
        if int96.len() != descriptor.num_columns() {
            return Err(Error::internal("the leaves of the columns were counted wrongly"));
        }
        let properties = properties(write, &descriptor, &int96)?;
        let file =
            SerializedFileWriter::new(sink, descriptor.root_schema_ptr(), Arc::new(properties)).map_err(failed)?;
        let schema = arrow_schema(&write.fields);
        let copy_of = copies(write, &descriptor, &int96);
        let pages = Arc::new(KeptPages::new(copy_of.len(), copy_of.iter().copied().flatten()));
        let factory = ArrowRowGroupWriterFactory::new(&file, Arc::clone(&schema));
        Ok(Self {
            factory: factory.with_page_store_factory(Arc::clone(&pages) as Arc<dyn PageStoreFactory>),
            copy_of,
            pages,
            descriptor,
            file,
            schema,
            fields: Arc::clone(&write.fields),
            int96,
            limit: write.options.parquet.row_group_bytes.or(write.options.block_size).unwrap_or(ROW_GROUP_BYTES),
            group: None,
        })
    }

    fn open_group(&mut self) -> Result<&mut RowGroup> {
        let group = match self.group.take() {
            Some(group) => group,
            None => {
                let index = self.file.flushed_row_groups().len();
                let writers = self.factory.create_column_writers(index).map_err(failed)?;
                let columns = writers
                    .into_iter()
                    .zip(self.int96.iter().zip(&self.copy_of))
                    .map(|(writer, leaf)| match leaf {
                        (true, _) => Column::Int96(Int96Column::default()),
                        (false, Some(earlier)) => Column::Copy(*earlier),
                        (false, None) => Column::Arrow { writer: Box::new(writer), has_nan: false },
                    })
                    .collect();
                RowGroup { columns, rows: 0 }
            }
        };
        Ok(self.group.insert(group))
    }

    fn write_part(&mut self, batch: &RecordBatch) -> Result<()> {
        let (schema, fields) = (Arc::clone(&self.schema), Arc::clone(&self.fields));
        let has_int96 = self.int96.contains(&true);
        let group = self.open_group()?;
        let mut columns = group.columns.iter_mut();
        let mut work = Vec::with_capacity(columns.len());
        for (field, array) in schema.fields().iter().zip(batch.columns()) {
            let nan = may_hold_nan(array);
            for leaf in compute_leaves(field, array).map_err(failed)? {
                match columns.next() {
                    Some(Column::Arrow { writer, has_nan }) => {
                        *has_nan |= nan;
                        work.push((writer, leaf));
                    }
                    Some(Column::Int96(_) | Column::Copy(_)) => {}
                    None => return Err(Error::internal("a batch has more leaves than its file")),
                }
            }
        }
        encode_leaves(work, batch.num_rows())?;
        if has_int96 {
            let mut columns = group.columns.iter_mut().map(|column| match column {
                Column::Int96(column) => Some(column),
                Column::Arrow { .. } | Column::Copy(_) => None,
            });
            for (field, array) in fields.iter().zip(batch.columns()) {
                int96::append(array, &field.data_type, &mut columns)?;
            }
        }
        group.rows += batch.num_rows();
        Ok(())
    }
}

/// Whether a NaN is among the values. Readers take NaN for greater than everything, as the engine does, or for nothing that can
/// be compared: bounds without it are wrong for the first. Inside of nested values it is not looked for.
fn may_hold_nan(array: &ArrayRef) -> bool {
    match array.data_type() {
        DataType::Float32 => array.as_primitive::<Float32Type>().iter().flatten().any(f32::is_nan),
        DataType::Float64 => array.as_primitive::<Float64Type>().iter().flatten().any(f64::is_nan),
        other => other.is_nested(),
    }
}

/// A leaf of a batch, and who writes it.
type LeafWork<'a> = (&'a mut Box<ArrowColumnWriter>, ArrowLeafColumn);

/// Batches of fewer rows are not worth another thread.
const ROWS_OF_A_THREAD: usize = 2048;
/// Most threads that encode one batch.
const MOST_THREADS: usize = 4;

/// Encodes the leaves of a batch: columns do not depend on each other, so that the machine's cores take them one by one.
fn encode_leaves(work: Vec<LeafWork<'_>>, rows: usize) -> Result<()> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = if rows < ROWS_OF_A_THREAD { 1 } else { cores.min(MOST_THREADS).min(work.len()) };
    let queue = Mutex::new(work.into_iter());
    let next = || queue.lock().next();
    let encode = || -> Result<()> {
        while let Some((writer, leaf)) = next() {
            writer.write(&leaf).map_err(failed)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(encode)).collect();
        let mut done = encode();
        for other in others {
            let encoded = other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            done = done.and(encoded);
        }
        done
    })
}

impl Encoder for ParquetEncoder {
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let mut start = 0;
        while start < batch.num_rows() {
            let held = self.group.as_ref().map_or(0, |group| group.rows);
            let rows = (batch.num_rows() - start).min(ROW_GROUP_ROWS - held);
            self.write_part(&batch.slice(start, rows))?;
            start += rows;
            if held + rows == ROW_GROUP_ROWS || self.pending() >= self.limit {
                self.flush()?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        let Some(group) = self.group.take() else { return Ok(()) };
        let mut out = self.file.next_row_group().map_err(failed)?;
        let mut said = HashMap::new();
        for (leaf, column) in group.columns.into_iter().enumerate() {
            match column {
                Column::Arrow { writer, has_nan } => {
                    let mut chunk = writer.close().map_err(failed)?;
                    if has_nan {
                        let result = chunk.close_mut();
                        let metadata = result.metadata.clone().into_builder().clear_statistics();
                        result.metadata = metadata.build().map_err(failed)?;
                        result.column_index = None;
                    }
                    if self.copy_of.contains(&Some(leaf)) {
                        said.insert(leaf, chunk.close().clone());
                    }
                    chunk.append_to_row_group(&mut out).map_err(failed)?;
                }
                Column::Copy(earlier) => {
                    let (Some(pages), Some(close)) = (self.pages.take(earlier), said.remove(&earlier)) else {
                        return Err(Error::internal("a column that is to be written again was not written"));
                    };
                    let copied = CopiedChunk::new(pages, close).map_err(failed)?;
                    let (chunk, close) = copied.of_column(self.descriptor.column(leaf)).map_err(failed)?;
                    out.append_column(&chunk, close).map_err(failed)?;
                }
                Column::Int96(column) => {
                    let Some(mut writer) = out.next_column().map_err(failed)? else {
                        return Err(Error::internal("a row group has more leaves than its file"));
                    };
                    writer
                        .typed::<Int96Type>()
                        .write_batch(&column.values, Some(&column.definition), Some(&column.repetition))
                        .map_err(failed)?;
                    writer.close().map_err(failed)?;
                }
            }
        }
        out.close().map_err(failed)?;
        Ok(())
    }

    fn pending(&self) -> u64 {
        let Some(group) = &self.group else { return 0 };
        let of = |column: &Column| match column {
            Column::Arrow { writer, .. } => writer.get_estimated_total_bytes() as u64,
            Column::Int96(column) => column.pending(),
            Column::Copy(_) => 0,
        };
        let again = |column: &Column| match column {
            Column::Copy(earlier) => group.columns.get(*earlier).map_or(0, of),
            _ => 0,
        };
        group.columns.iter().map(|column| of(column) + again(column)).sum()
    }

    fn memory(&self) -> usize {
        self.group.iter().flat_map(|group| &group.columns).fold(0, |sum, column| {
            sum + match column {
                Column::Arrow { writer, .. } => writer.memory_size(),
                Column::Int96(column) => column.memory(),
                Column::Copy(_) => 0,
            }
        })
    }

    fn finish(&mut self) -> Result<()> {
        self.flush()?;
        self.file.finish().map_err(failed)?;
        // What the file's own buffer still holds.
        std::io::Write::flush(self.file.inner_mut())
            .map_err(|error| Error::internal("the end of a Parquet file is missing").with_source(error))
    }
}

/// For each leaf the earlier one whose pages it takes over: where the values are the same, and the options do not ask for other
/// pages.
fn copies(write: &FileWrite, descriptor: &SchemaDescriptor, int96: &[bool]) -> Vec<Option<usize>> {
    let mut copy_of = vec![None; descriptor.num_columns()];
    let mut leaves = vec![Vec::new(); write.fields.len()];
    for leaf in 0..descriptor.num_columns() {
        if let Some(leaves) = leaves.get_mut(descriptor.get_column_root_idx(leaf)) {
            leaves.push(leaf);
        }
    }
    let parquet = &write.options.parquet;
    let is_special = |leaf: usize| {
        let name = descriptor.column(leaf).path().string();
        int96.get(leaf).copied().unwrap_or(false)
            || parquet.dictionary_of.contains_key(&name)
            || parquet.bloom_filter_of.contains_key(&name)
            || parquet.bloom_filter_values.contains_key(&name)
            || parquet.bloom_filter_fpp.contains_key(&name)
    };
    for (column, earlier) in &write.repeated {
        let (Some([leaf]), Some([first])) =
            (leaves.get(*column).map(Vec::as_slice), leaves.get(*earlier).map(Vec::as_slice))
        else {
            continue;
        };
        let (a, b) = (descriptor.column(*leaf), descriptor.column(*first));
        let is_same = a.physical_type() == b.physical_type()
            && a.type_length() == b.type_length()
            && a.max_def_level() == b.max_def_level()
            && a.max_rep_level() == b.max_rep_level();
        if first < leaf && is_same && !is_special(*leaf) && !is_special(*first) {
            copy_of[*leaf] = Some(*first);
        }
    }
    copy_of
}

fn compression(name: &str, zstd_level: i32) -> Result<Compression> {
    let level = |error: ParquetError| {
        Error::invalid(format!("the option file.compression.zstd-level = '{zstd_level}' is no level of zstd"))
            .with_source(error)
    };
    Ok(match name {
        "none" | "uncompressed" | "" => Compression::UNCOMPRESSED,
        "snappy" => Compression::SNAPPY,
        "gzip" => Compression::GZIP(GzipLevel::default()),
        "brotli" => Compression::BROTLI(BrotliLevel::default()),
        "lz4" => Compression::LZ4,
        "lz4_raw" => Compression::LZ4_RAW,
        "zstd" => Compression::ZSTD(ZstdLevel::try_new(zstd_level).map_err(level)?),
        other => {
            return Err(Error::unsupported(format!(
                "Parquet files can't be compressed with '{other}'; set file.compression to one of none, snappy, gzip, brotli, \
                 lz4, lz4_raw and zstd"
            )));
        }
    })
}

fn properties(write: &FileWrite, descriptor: &SchemaDescriptor, int96: &[bool]) -> Result<WriterProperties> {
    let (options, parquet) = (&write.options, &write.options.parquet);
    let codec = parquet.compression.as_deref().unwrap_or(&write.compression);
    let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    // `#a.b` is the field b of the column a.
    let path = |name: &str| ColumnPath::new(name.split('.').map(str::to_owned).collect());
    let mut builder = WriterProperties::builder()
        .set_created_by(CREATED_BY.to_owned())
        .set_compression(compression(codec, options.zstd_level)?)
        .set_dictionary_enabled(parquet.dictionary)
        .set_data_page_size_limit(size(parquet.page_bytes))
        .set_data_page_row_count_limit(size(parquet.page_rows))
        .set_dictionary_page_size_limit(size(parquet.dictionary_page_bytes))
        .set_bloom_filter_enabled(parquet.bloom_filter)
        .set_writer_version(if parquet.version_2 { WriterVersion::PARQUET_2_0 } else { WriterVersion::PARQUET_1_0 });
    for column in &write.distinct {
        if let Some(field) = write.fields.get(*column) {
            builder = builder.set_column_dictionary_enabled(ColumnPath::from(field.name.clone()), false);
        }
    }
    // The ids of rewritten rows have no dictionary: a column of NULLs alone would have an empty one, in which Java's reader looks for
    // the value of an id, which it takes for NOT NULL.
    if descriptor.columns().iter().any(|column| column.path().parts() == [ROW_ID]) {
        for column in [ROW_ID, SEQUENCE_NUMBER] {
            builder = builder.set_column_dictionary_enabled(path(column), false);
        }
    }
    for (column, enabled) in &parquet.dictionary_of {
        builder = builder.set_column_dictionary_enabled(path(column), *enabled);
    }
    for (column, enabled) in &parquet.bloom_filter_of {
        builder = builder.set_column_bloom_filter_enabled(path(column), *enabled);
    }
    // These two switch a filter on as well: they count where it is wanted.
    let wanted = |column: &str| parquet.bloom_filter_of.get(column).copied().unwrap_or(parquet.bloom_filter);
    for (column, values) in parquet.bloom_filter_values.iter().filter(|(column, _)| wanted(column)) {
        builder = builder.set_column_bloom_filter_max_ndv(path(column), *values);
    }
    for (column, share) in parquet.bloom_filter_fpp.iter().filter(|(column, _)| wanted(column)) {
        builder = builder.set_column_bloom_filter_fpp(path(column), *share);
    }
    // INT96 has no order: Java writes no bounds of it.
    for (leaf, _) in int96.iter().enumerate().filter(|(_, is_int96)| **is_int96) {
        builder =
            builder.set_column_statistics_enabled(descriptor.column(leaf).path().clone(), EnabledStatistics::None);
    }
    Ok(builder.build())
}
