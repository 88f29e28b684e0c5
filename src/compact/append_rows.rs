//! The rows of one file of an append table, as the table's columns are today: without the deleted ones, with their ids.
//!
//! May import: `error`, `spec`, `format`, `table`, `plan`, `read`.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, RecordBatchOptions};
use arrow::compute::cast;
use arrow::datatypes::{Int64Type, SchemaRef};
use futures::StreamExt;
use futures::stream::BoxStream;

use crate::error::{Error, Result};
use crate::format::FileRead;
use crate::plan::PlannedFile;
use crate::read::deletion;
use crate::read::evolution::FileMapping;
use crate::spec::DataField;
use crate::spec::types::{ROW_ID, SEQUENCE_NUMBER, row_id_fields};
use crate::table::Table;

/// The rows of `file` that are not deleted: the columns `wanted` in the types of `schema`.
///
/// # Errors
/// Errors of reading name the file; corrupt when it does not follow its manifest entry.
pub(super) async fn open(
    table: &Arc<Table>,
    file: &PlannedFile,
    wanted: &[DataField],
    schema: &SchemaRef,
    batch_size: usize,
) -> Result<BoxStream<'static, Result<RecordBatch>>> {
    let written = table.schema_at(file.file.schema_id()).await?;
    let mut fields: Vec<DataField> = match file.file.write_cols() {
        None => written.fields.clone(),
        Some(names) => {
            let ids = row_id_fields();
            let found = names.iter().map(|name| {
                written.fields.iter().chain(&ids).find(|field| field.name == *name).cloned().ok_or_else(|| {
                    Error::corrupt(format!("column {name} of the file is not in schema {}", written.id))
                        .with("file", file.file.name().to_owned())
                })
            });
            found.collect::<Result<_>>()?
        }
    };
    let all: Arc<[DataField]> = fields.as_slice().into();
    // The values of the partition are those of its entry (`spec/metadata.md 2.7`).
    let keys = table.schema().partition_fields();
    fields.retain(|field| !keys.iter().any(|key| key.id == field.id));
    let mapping = FileMapping::new(wanted, &fields)?;
    let path = file.path(table.files())?;
    let read = FileRead::new(Arc::clone(table.files().store()), path, file.file.size(), mapping.physical_fields())?;
    let rows = file.file.rows();
    let deleted = Box::pin(deletion::load(table, file)).await?;
    let selection = deleted.map(|deleted| deleted.live_ranges(rows));
    let batches = FileRead {
        selection: selection.clone(),
        batch_size,
        file_fields: all,
        options: Arc::new(table.options().clone()),
        ..read
    }
    .open()
    .await?;
    let finish = Finish {
        constants: constants(file, wanted, &keys, schema)?,
        schema: Arc::clone(schema),
        id: wanted.iter().position(|field| field.name == ROW_ID && row_id_fields()[0].id == field.id),
        sequence: wanted.iter().position(|field| field.name == SEQUENCE_NUMBER && row_id_fields()[1].id == field.id),
        first_id: file.file.first_row_id(),
        number: file.file.sequence_numbers().1,
        name: file.file.name().to_owned(),
    };
    let mut positions = Positions { ranges: selection.unwrap_or_else(|| std::iter::once(0..rows).collect()), at: 0 };
    Ok(batches.map(move |batch| finish.apply(&mapping.apply(&batch?)?, &mut positions)).boxed())
}

/// The columns of the partition, each one value long, by position.
fn constants(
    file: &PlannedFile,
    wanted: &[DataField],
    keys: &[&DataField],
    schema: &SchemaRef,
) -> Result<Vec<(usize, ArrayRef)>> {
    let mut constants = Vec::with_capacity(keys.len());
    for (key, value) in keys.iter().zip(&file.partition.values) {
        if let Some(position) = wanted.iter().position(|field| field.id == key.id) {
            constants.push((position, cast(&value.to_array()?, schema.field(position).data_type())?));
        }
    }
    Ok(constants)
}

/// Positions in the file of rows that are read one after the other.
struct Positions {
    ranges: Vec<Range<u64>>,
    at: usize,
}

impl Positions {
    fn take(&mut self, count: usize) -> Vec<u64> {
        let mut taken = Vec::with_capacity(count);
        while taken.len() < count {
            let Some(range) = self.ranges.get_mut(self.at) else { break };
            match range.next() {
                Some(position) => taken.push(position),
                None => self.at += 1,
            }
        }
        taken
    }
}

/// What is put into batches that the file does not have.
struct Finish {
    constants: Vec<(usize, ArrayRef)>,
    schema: SchemaRef,
    /// Where the ids and the sequence numbers of rows go.
    id: Option<usize>,
    sequence: Option<usize>,
    first_id: Option<i64>,
    number: i64,
    name: String,
}

impl Finish {
    fn apply(&self, batch: &RecordBatch, positions: &mut Positions) -> Result<RecordBatch> {
        let rows = batch.num_rows();
        let at = |error: Error| error.with("file", self.name.clone());
        let mut columns = batch.columns().to_vec();
        for (position, value) in &self.constants {
            let repeated = arrow::compute::take(value, &arrow::array::UInt32Array::from(vec![0; rows]), None)?;
            columns[*position] = repeated;
        }
        if let Some(position) = self.id {
            let places = positions.take(rows);
            if places.len() != rows {
                return Err(at(Error::corrupt("the file has more rows than its manifest entry says")));
            }
            let own = columns[position].as_primitive_opt::<Int64Type>().filter(|own| own.null_count() == 0);
            if own.is_none() {
                columns[position] = Arc::new(self.ids(&columns[position], &places).map_err(at)?);
            }
        }
        if let Some(position) = self.sequence
            && columns[position].null_count() > 0
        {
            let own = columns[position].as_primitive::<Int64Type>();
            let numbers: Int64Array = own.iter().map(|own| Some(own.unwrap_or(self.number))).collect();
            columns[position] = Arc::new(numbers);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
            .map_err(|error| at(Error::corrupt("a NOT NULL column of the file holds NULL").with_source(error)))
    }

    /// The ids of rows: those of the file, else by the rows' places (`spec/data.md 2`).
    fn ids(&self, column: &ArrayRef, places: &[u64]) -> Result<Int64Array> {
        let own = column.as_primitive_opt::<Int64Type>();
        let id = |row: usize, place: u64| match own.filter(|own| own.is_valid(row)) {
            Some(own) => Ok(Some(own.value(row))),
            None => {
                let place = i64::try_from(place).ok();
                let id = self.first_id.zip(place).and_then(|(first, place)| first.checked_add(place));
                id.map(Some).ok_or_else(|| Error::corrupt("the rows of the file have no ids"))
            }
        };
        places.iter().enumerate().map(|(row, place)| id(row, *place)).collect()
    }
}
