//! What a compaction reads: sorted runs, each of them file after file, in chunks of rows with their keys and versions.
//!
//! A task a run reads ahead, so that decoding goes on while what is at hand is merged and written.
//!
//! May import: `error`, `plan`, `read`, `spec`, `table`, rest of this room.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch};
use arrow::compute::{SortOptions, cast, filter_record_batch};
use arrow::datatypes::{DataType as ArrowType, Int8Type, Int64Type};
use arrow::row::{RowConverter, Rows, SortField};
use datafusion::common::runtime::SpawnedTask;
use futures::StreamExt;
use tokio::sync::mpsc;

use super::expire::Expiry;
use crate::error::{Error, Result};
use crate::plan::PlannedFile;
use crate::read::keys::{KeyCoder, Keys, RowPositions};
use crate::read::resolve::{KeyReader, MergeRules};
use crate::spec::types::{SEQUENCE_NUMBER, SEQUENCE_NUMBER_ID, VALUE_KIND, VALUE_KIND_ID};
use crate::spec::{DataField, DataType, TableSchema, TypeKind};

/// Rows of a chunk.
const CHUNK_ROWS: usize = 16_384;
/// Rows of a chunk when there are many runs: one is held for each.
const SMALL_CHUNK_ROWS: usize = 2_048;
/// From here on chunks are small.
const MANY_RUNS: usize = 16;
/// Chunks that a task may be ahead.
pub(super) const AHEAD: usize = 2;

/// A file that a compaction reads.
#[derive(Clone, Debug)]
pub(super) struct SourceFile {
    /// The file.
    pub planned: PlannedFile,
    /// Whether it stays as it is, and only tells what its keys were before.
    pub reference: bool,
}

/// Consecutive rows of a file that are versions of their keys.
#[derive(Debug)]
pub(super) struct Chunk {
    /// Position of the file among those that are read.
    pub file: usize,
    /// Keys, ascending.
    pub keys: Keys,
    /// The columns of the table; none where only positions are asked for.
    pub columns: Vec<ArrayRef>,
    /// Row kinds (`spec/data.md 1.2`); empty where only positions are asked for.
    pub kinds: Vec<i8>,
    /// Sequence numbers; empty where only positions are asked for.
    pub sequence: Vec<i64>,
    /// `sequence.field` columns as comparable bytes, NULL lowest.
    pub fields: Option<Rows>,
    /// Where the rows are in their file.
    pub positions: RowPositions,
}

impl Chunk {
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Bytes held.
    pub(super) fn memory(&self) -> usize {
        let columns: usize = self.columns.iter().map(|column| column.get_array_memory_size()).sum();
        columns + self.keys.memory() + self.kinds.len() * 9 + self.fields.as_ref().map_or(0, Rows::size)
    }
}

/// What is read of each file.
pub(super) struct ReadPlan {
    schema: Arc<TableSchema>,
    coder: KeyCoder,
    /// Positions of the trimmed primary key in the table.
    keys: Vec<usize>,
    /// Positions of the sequence fields in the table.
    sequence_fields: Vec<usize>,
    descending: bool,
    snapshot_ordering: bool,
    ignore_retracts: bool,
    /// Whether files that stay are asked for the positions of their keys alone.
    positions_only: bool,
    expiry: Option<Expiry>,
    chunk_rows: usize,
}

impl ReadPlan {
    pub(super) fn try_new(
        schema: &Arc<TableSchema>,
        rules: &MergeRules,
        expiry: Option<Expiry>,
        positions_only: bool,
        runs: usize,
    ) -> Result<Self> {
        let position = |field: &DataField| {
            schema.index_of(&field.name).ok_or_else(|| Error::internal(format!("no column {} to merge by", field.name)))
        };
        Ok(Self {
            coder: KeyCoder::try_new(&rules.keys.iter().collect::<Vec<_>>())?,
            keys: rules.keys.iter().map(position).collect::<Result<_>>()?,
            sequence_fields: rules.sequence_fields.iter().map(position).collect::<Result<_>>()?,
            descending: rules.sequence_descending,
            snapshot_ordering: rules.snapshot_ordering,
            ignore_retracts: rules.ignore_retracts,
            positions_only,
            expiry,
            chunk_rows: if runs > MANY_RUNS { SMALL_CHUNK_ROWS } else { CHUNK_ROWS },
            schema: Arc::clone(schema),
        })
    }

    fn wanted(&self, file: &SourceFile) -> Vec<DataField> {
        if file.reference && self.positions_only {
            return self.keys.iter().map(|&key| self.schema.fields[key].clone()).collect();
        }
        let mut wanted = self.schema.fields.clone();
        wanted.push(DataField::new(SEQUENCE_NUMBER_ID, SEQUENCE_NUMBER, DataType::not_null(TypeKind::BigInt)));
        wanted.push(DataField::new(VALUE_KIND_ID, VALUE_KIND, DataType::not_null(TypeKind::TinyInt)));
        wanted
    }

    async fn read(
        &self,
        index: usize,
        file: &SourceFile,
        reader: &dyn KeyReader,
        chunks: &mpsc::Sender<Result<Chunk>>,
    ) -> Result<bool> {
        let deleted = reader.deleted(&file.planned).await?;
        let mut batches = reader.open(&file.planned, &self.wanted(file), self.chunk_rows)?;
        let mut sort = match self.sequence_fields.as_slice() {
            [] => None,
            columns => {
                // NULL ranks lowest in both orders (`spec/data.md 4.2`).
                let options = SortOptions { descending: self.descending, nulls_first: true };
                let field = |column: &usize| {
                    SortField::new_with_options(self.schema.fields[*column].data_type.to_arrow(), options)
                };
                Some(RowConverter::new(columns.iter().map(field).collect())?)
            }
        };
        let mut position = 0u64;
        while let Some(batch) = batches.next().await {
            let batch = batch?;
            let first = position;
            position += batch.num_rows() as u64;
            let is_deleted = |row: usize| deleted.as_ref().is_some_and(|deleted| deleted.contains(first + row as u64));
            let chunk =
                self.chunk(index, file, batch, first, deleted.is_some().then_some(&is_deleted as _), &mut sort)?;
            if !chunk.keys.is_ascending() {
                return Err(Error::corrupt("the rows of the file are not in the order of their keys"));
            }
            if chunk.len() > 0 && chunks.send(Ok(chunk)).await.is_err() {
                return Ok(false);
            }
        }
        if position != file.planned.file.rows() {
            return Err(Error::corrupt(format!(
                "the file has {position} rows, its manifest entry says {}",
                file.planned.file.rows()
            )));
        }
        Ok(true)
    }

    fn chunk(
        &self,
        index: usize,
        file: &SourceFile,
        batch: RecordBatch,
        first: u64,
        is_deleted: Option<&dyn Fn(usize) -> bool>,
        sort: &mut Option<RowConverter>,
    ) -> Result<Chunk> {
        let (width, rows) = (self.schema.fields.len(), batch.num_rows());
        let positions_only = file.reference && self.positions_only;
        let mut keep: Option<Vec<bool>> = is_deleted.map(|is_deleted| (0..rows).map(|row| !is_deleted(row)).collect());
        if !positions_only {
            let mut leave_out = |is_out: &dyn Fn(usize) -> bool| {
                let keep = keep.get_or_insert_with(|| vec![true; rows]);
                keep.iter_mut().enumerate().for_each(|(row, keep)| *keep &= !is_out(row));
            };
            if self.ignore_retracts && file.planned.file.delete_rows() != Some(0) {
                let kinds = kinds(&batch, width + 1)?;
                leave_out(&|row| is_retract(kinds[row]));
            }
            if let Some(expiry) = self.expiry.as_ref().filter(|_| !file.reference) {
                let expired = expiry.expired(batch.column(expiry.column()))?;
                leave_out(&|row| expired.value(row));
            }
        }
        let mut positions = RowPositions::From(first);
        let mut batch = batch;
        if let Some(keep) = keep.filter(|keep| keep.contains(&false)) {
            let kept = (0..rows).filter(|&row| keep[row]).map(|row| first + row as u64);
            positions = RowPositions::At(kept.collect());
            batch = filter_record_batch(&batch, &BooleanArray::from(keep))?;
        }
        if positions_only {
            let keys = self.coder.encode(batch.columns())?;
            let (columns, kinds, sequence) = (Vec::new(), Vec::new(), Vec::new());
            return Ok(Chunk { file: index, keys, columns, kinds, sequence, fields: None, positions });
        }
        let select = |columns: &[usize]| -> Vec<ArrayRef> {
            columns.iter().map(|&column| Arc::clone(batch.column(column))).collect()
        };
        let keys = self.coder.encode(&select(&self.keys))?;
        let fields = match sort {
            Some(sort) => Some(sort.convert_columns(&select(&self.sequence_fields))?),
            None => None,
        };
        let data = &file.planned.file;
        let appended = data.entries.file_source[data.row as usize] != 1;
        let sequence = if self.snapshot_ordering && appended {
            vec![data.sequence_numbers().0; batch.num_rows()]
        } else {
            let numbers = cast(batch.column(width), &ArrowType::Int64)?;
            let numbers: &Int64Array = numbers.as_primitive::<Int64Type>();
            if numbers.null_count() > 0 {
                return Err(Error::corrupt("a row has no sequence number"));
            }
            numbers.values().to_vec()
        };
        let mut columns = batch.columns()[..width].to_vec();
        // What the partition is, the manifest says (`spec/data.md 1.1`).
        for (key, value) in self.schema.partition_keys.iter().zip(&file.planned.partition.values) {
            if let Some(column) = self.schema.index_of(key) {
                columns[column] = value.to_array_of_size(batch.num_rows())?;
            }
        }
        let kinds = kinds(&batch, width + 1)?;
        Ok(Chunk { file: index, keys, columns, kinds, sequence, fields, positions })
    }
}

/// Whether a row kind takes something back: -U and -D.
pub(super) fn is_retract(kind: i8) -> bool {
    kind == 1 || kind == 3
}

fn kinds(batch: &RecordBatch, column: usize) -> Result<Vec<i8>> {
    let kinds = cast(batch.column(column), &ArrowType::Int8)?;
    let kinds = kinds.as_primitive::<Int8Type>();
    match kinds.iter().find(|kind| !matches!(kind, Some(0..=3))) {
        Some(kind) => Err(Error::corrupt(format!("row kind {kind:?} is none of 0 to 3"))),
        None => Ok(kinds.values().to_vec()),
    }
}

/// A sorted run that is being read.
pub(super) struct Cursor {
    chunks: mpsc::Receiver<Result<Chunk>>,
    task: Option<SpawnedTask<()>>,
    /// The rows at hand.
    pub chunk: Option<Arc<Chunk>>,
    /// The first of them that is not merged yet.
    pub at: usize,
}

impl Cursor {
    /// Starts to read the files of a run, given with their positions.
    pub(super) fn start(run: Vec<(usize, SourceFile)>, plan: Arc<ReadPlan>, reader: Arc<dyn KeyReader>) -> Self {
        let (sender, chunks) = mpsc::channel(AHEAD);
        let mut files: VecDeque<(usize, SourceFile)> = run.into();
        let task = SpawnedTask::spawn(async move {
            while let Some((index, file)) = files.pop_front() {
                match plan.read(index, &file, reader.as_ref(), &sender).await {
                    Ok(true) => {}
                    Ok(false) => return,
                    Err(error) => {
                        // A receiver that is gone does not want the error either.
                        let _ = sender.send(Err(error.with("file", file.planned.file.name()))).await;
                        return;
                    }
                }
            }
        });
        Self { chunks, task: Some(task), chunk: None, at: 0 }
    }

    /// Makes sure that a chunk with rows is at hand, if the run has any left.
    pub(super) async fn fill(&mut self) -> Result<()> {
        if self.chunk.as_ref().is_some_and(|chunk| self.at < chunk.len()) {
            return Ok(());
        }
        (self.chunk, self.at) = (None, 0);
        match self.chunks.recv().await {
            Some(chunk) => self.chunk = Some(Arc::new(chunk?)),
            None => {
                if let Some(task) = self.task.take() {
                    task.join().await.map_err(|error| Error::internal("a reading task failed").with_source(error))?;
                }
            }
        }
        Ok(())
    }
}
