//! Avro object container files (`spec/data.md 1.5`). The file is read whole, its blocks are decompressed one at a time and checked
//! (`avro_blocks`). Positions are counted, selected rows are filtered.

use std::ops::Range;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType as ArrowType, SchemaRef};
use arrow_avro::reader::{Reader, ReaderBuilder};
use bytes::Bytes;
use futures::{StreamExt, stream};
use object_store::ObjectStoreExt;

use super::avro_blocks::{Blocks, Container};
use super::conform::conform_batch;
use super::parquet::nullable_fields;
use super::{BatchStream, FileRead, rows};
use crate::error::{Error, Result};
use crate::spec::DataField;
use crate::spec::types::arrow_schema;

/// The whole file.
///
/// # Errors
/// Corrupt when the file is not as long as the manifest says.
pub(super) async fn read_whole(read: &FileRead) -> Result<Bytes> {
    let bytes = read.store.get(&read.path).await?.bytes().await?;
    if bytes.len() as u64 != read.size {
        return Err(Error::corrupt(format!("the file has {} bytes, not {}", bytes.len(), read.size)));
    }
    Ok(bytes)
}

struct AvroFile {
    reader: Reader<Blocks>,
    is_wrapped: bool,
    fields: Vec<DataField>,
    target: SchemaRef,
    selection: Option<Vec<Range<u64>>>,
    rows: u64,
    next_row: u64,
}

pub(super) async fn open(read: FileRead) -> Result<BatchStream> {
    let container = Container::new(read_whole(&read).await?)?;
    let (rows, is_wrapped) = (container.rows, container.is_wrapped);
    rows::check_within(read.selection.as_deref(), rows)?;
    let columns = &container.columns;
    let mut projection: Vec<usize> =
        read.fields.iter().filter_map(|field| columns.iter().position(|column| *column == field.name)).collect();
    projection.sort_unstable();
    projection.dedup();
    if projection.is_empty() && !columns.is_empty() {
        // Rows are only counted by decoding some column.
        projection.push(0);
    }
    let mut builder = ReaderBuilder::new().with_batch_size(read.batch_size.max(1));
    if projection.len() < columns.len() && !is_wrapped {
        builder = builder.with_projection(projection);
    }
    let file = AvroFile {
        reader: builder.build(container.blocks()).map_err(failed)?,
        is_wrapped,
        target: arrow_schema(&nullable_fields(&read.fields)),
        fields: read.fields,
        selection: read.selection,
        rows,
        next_row: 0,
    };
    Ok(stream::try_unfold(file, |mut file| {
        // Decoding is no I/O: the future is ready at once.
        std::future::ready(file.next().map(|batch| batch.map(|batch| (batch, file))))
    })
    .boxed())
}

fn failed(error: arrow::error::ArrowError) -> Error {
    Error::corrupt("the Avro file can't be decoded").with_source(error)
}

impl AvroFile {
    fn next(&mut self) -> Result<Option<RecordBatch>> {
        for batch in self.reader.by_ref() {
            let mut batch = batch.map_err(failed)?;
            if self.is_wrapped {
                batch = match batch.columns() {
                    [row] if matches!(row.data_type(), ArrowType::Struct(_)) && row.null_count() == 0 => {
                        RecordBatch::from(row.as_struct())
                    }
                    _ => return Err(Error::corrupt("the Avro file holds NULL for a row")),
                };
            }
            let start = self.next_row;
            self.next_row += batch.num_rows() as u64;
            if let Some(batch) = rows::keep(batch, start, self.selection.as_deref())? {
                return conform_batch(&batch, &self.fields, &self.target).map(Some);
            }
        }
        if self.next_row != self.rows {
            return Err(Error::corrupt(format!(
                "the Avro blocks hold {} rows, but {} were decoded",
                self.rows, self.next_row
            )));
        }
        Ok(None)
    }
}
