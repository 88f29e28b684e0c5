//! The node that makes rows ready to be written: checked, numbered in the order they come, each with its kind and bucket.
//!
//! May import: `error`, `spec`, rest of this room.

use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int8Array, Int32Array, Int64Array, RecordBatch, UInt32Array};
use arrow::compute::{cast, take_arrays};
use arrow::datatypes::{DataType as ArrowType, Int8Type, SchemaRef};
use datafusion::common::Result as EngineResult;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::{StreamExt, TryStreamExt};

use super::assign::partition_hashes;
use super::mode::{BucketMode, POSTPONE_BUCKET};
use super::node::{as_they_come, one_input};
use super::target::{RunSlot, WriteRun, WriteTarget};
use crate::error::{Error, Result};
use crate::spec::EMPTY_ROW;
use crate::spec::binary_row::encode_rows;
use crate::spec::bucket::row_hashes;

/// `-U` and `-D`.
pub(crate) fn is_retract(kind: i8) -> bool {
    kind == 1 || kind == 3
}

/// Checks, numbers and places rows.
#[derive(Debug)]
pub struct LakePrepareExec {
    input: Arc<dyn ExecutionPlan>,
    target: Arc<WriteTarget>,
    slot: Arc<RunSlot>,
    properties: Arc<PlanProperties>,
}

impl LakePrepareExec {
    /// Prepares the rows of `input` for `target`.
    pub fn new(input: Arc<dyn ExecutionPlan>, target: Arc<WriteTarget>, slot: Arc<RunSlot>) -> Self {
        let properties = as_they_come(&input, Arc::clone(target.rows()));
        Self { input, target, slot, properties }
    }
}

impl DisplayAs for LakePrepareExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match t {
            DisplayFormatType::TreeRender => write!(f, "{}", self.target.table().identifier()),
            _ => write!(f, "LakePrepareExec: table={}", self.target.table().identifier()),
        }
    }
}

impl ExecutionPlan for LakePrepareExec {
    one_input!(LakePrepareExec, |node, input| Self::new(input, Arc::clone(&node.target), Arc::clone(&node.slot)));

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::LowerEqual
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> EngineResult<SendableRecordBatchStream> {
        let run = self.slot.current()?;
        let schema: SchemaRef = Arc::clone(self.target.rows());
        let input = self.input.execute(partition, context)?;
        let rows = input.and_then(move |batch| {
            let run = Arc::clone(&run);
            async move { Ok(prepare(&run, &batch).await?) }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows.boxed())))
    }
}

/// The rows of `batch` as they are written.
async fn prepare(run: &WriteRun, batch: &RecordBatch) -> Result<RecordBatch> {
    let target = run.target();
    let first = run.ordinals(batch.num_rows());
    let ordinals: ArrayRef = Arc::new(Int64Array::from_iter_values(first..first + batch.num_rows() as i64));
    let width = target.width();
    let own = width + usize::from(target.with_kinds());
    let expected = own + if target.with_ids() { 2 } else { 0 };
    if batch.num_columns() != expected {
        return Err(Error::internal(format!("{} columns of rows to be written, not {expected}", batch.num_columns())));
    }
    let mut bad = Vec::new();
    let mut columns = target.check().apply(&batch.columns()[..width], &mut bad)?;
    if let Some(bad) = bad.first() {
        return Err(target.table().at(Error::invalid(format!(
            "row {} can't be written: {}",
            first + bad.row as i64 + 1,
            bad.reason
        ))));
    }
    let kinds = kinds(target, batch, first)?;
    columns.push(Arc::new(kinds));
    columns.push(ordinals);
    columns.extend(batch.columns()[own..].iter().map(Arc::clone));
    let ignored = ignored(target, &columns)?;
    let columns = match ignored {
        Some(rows) => take_arrays(&columns, &rows, None)?,
        None => columns,
    };
    let buckets = buckets(run, &columns).await.map_err(|error| target.table().at(error))?;
    let columns = columns.into_iter().chain([Arc::new(Int32Array::from(buckets)) as ArrayRef]).collect();
    Ok(RecordBatch::try_new(Arc::clone(target.rows()), columns)?)
}

/// The kind of every row: what the input says, or the table's `rowkind.field`, or +I.
fn kinds(target: &WriteTarget, batch: &RecordBatch, first: i64) -> Result<Int8Array> {
    let rows = batch.num_rows();
    if target.with_kinds() {
        let kinds = cast(batch.column(target.width()), &ArrowType::Int8)?;
        return Ok(kinds.as_primitive::<Int8Type>().clone());
    }
    let options = target.table().settings();
    let Some(field) = &options.rowkind_field else { return Ok(Int8Array::from_value(0, rows)) };
    let wrong = |what: String| target.table().at(Error::invalid(format!("column {field} ('rowkind.field') {what}")));
    let index =
        target.table().schema().index_of(field).ok_or_else(|| wrong("is not a column of the table".to_owned()))?;
    let texts = cast(batch.column(index), &ArrowType::Utf8View)?;
    texts
        .as_string_view()
        .iter()
        .enumerate()
        .map(|(row, text)| {
            kind_of(text).ok_or_else(|| {
                let row = first + row as i64 + 1;
                wrong(format!("of row {row} is {}", no_kind(text)))
            })
        })
        .collect::<Result<Vec<i8>>>()
        .map(Int8Array::from)
}

/// The row kind that a text stands for, in capitals or not.
pub(crate) fn kind_of(text: Option<&str>) -> Option<i8> {
    const KINDS: [&str; 4] = ["+I", "-U", "+U", "-D"];
    let text = text?;
    (0..).zip(KINDS).find_map(|(kind, name)| name.eq_ignore_ascii_case(text).then_some(kind))
}

/// Says what is wrong with a text that is no row kind.
pub(crate) fn no_kind(text: Option<&str>) -> String {
    let text = text.map_or_else(|| "NULL".to_owned(), |text| format!("'{text}'"));
    format!("{text}, and must be +I, -U, +U or -D")
}

/// The rows that are left when those of ignored kinds are out; `None` when all are.
fn ignored(target: &WriteTarget, columns: &[ArrayRef]) -> Result<Option<UInt32Array>> {
    let options = target.table().settings();
    let kinds = columns[target.width()].as_primitive::<Int8Type>().values();
    if kinds.iter().all(|kind| !is_retract(*kind)) {
        return Ok(None);
    }
    let ignore = |kind: i8| (options.ignore_delete && is_retract(kind)) || (options.ignore_update_before && kind == 1);
    if !target.table().schema().has_primary_key() && kinds.iter().any(|kind| is_retract(*kind) && !ignore(*kind)) {
        return Err(target.table().at(Error::invalid(
            "a table without primary key takes no -U and -D rows; set 'ignore-delete' = 'true' to leave them out",
        )));
    }
    if !kinds.iter().any(|kind| ignore(*kind)) {
        return Ok(None);
    }
    Ok(Some((0..kinds.len()).filter(|row| !ignore(kinds[*row])).map(|row| row as u32).collect()))
}

/// The bucket of every row.
async fn buckets(run: &WriteRun, columns: &[ArrayRef]) -> Result<Vec<i32>> {
    let target = run.target();
    let rows = columns.last().map_or(0, |column| column.len());
    match target.mode() {
        BucketMode::Unaware => Ok(vec![0; rows]),
        BucketMode::Postpone => Ok(vec![POSTPONE_BUCKET; rows]),
        BucketMode::Fixed { buckets: 1, .. } => Ok(vec![0; rows]),
        BucketMode::Fixed { buckets, function } => {
            let keys = target.bucket_key_columns();
            function.buckets(&select(columns, &keys), &target.types(&keys), buckets)
        }
        BucketMode::Dynamic => dynamic_buckets(run, columns, rows).await,
        // The next node knows.
        BucketMode::CrossPartition => Ok(vec![-1; rows]),
    }
}

async fn dynamic_buckets(run: &WriteRun, columns: &[ArrayRef], rows: usize) -> Result<Vec<i32>> {
    let target = run.target();
    let keys = target.key_columns();
    let hashes = row_hashes(&select(columns, &keys), &target.types(&keys))?;
    let partitions = Partitions::of(target, columns)?;
    let Some(assigner) = run.assigner() else {
        return Err(Error::internal("a write to dynamic buckets has no one who assigns them"));
    };
    let existing = Box::pin(run.existing()).await?;
    let mut assigner = assigner.lock().await;
    let mut buckets = Vec::with_capacity(rows);
    for (row, hash) in hashes.into_iter().enumerate() {
        let partition = partitions.get(row);
        if !assigner.knows(partition) {
            let path = target.partition_path(partition)?;
            let hashes = partition_hashes(target.table(), existing, partition, &path).await?;
            assigner.add_partition(&Arc::from(partition), hashes, run.hash_memory())?;
        }
        buckets.push(assigner.assign(partition, hash, run.hash_memory())?);
    }
    Ok(buckets)
}

/// The serialized partitions of rows.
pub(crate) enum Partitions {
    None,
    Rows(crate::spec::binary_row::RowBuffer),
}

impl Partitions {
    pub(crate) fn of(target: &WriteTarget, columns: &[ArrayRef]) -> Result<Self> {
        let keys = target.partition_columns();
        if keys.is_empty() {
            return Ok(Self::None);
        }
        Ok(Self::Rows(encode_rows(&select(columns, &keys), &target.types(&keys))?))
    }

    pub(crate) fn get(&self, row: usize) -> &[u8] {
        match self {
            Self::None => &EMPTY_ROW,
            Self::Rows(rows) => rows.serialized(row),
        }
    }
}

pub(crate) fn select(columns: &[ArrayRef], positions: &[usize]) -> Vec<ArrayRef> {
    positions.iter().map(|position| Arc::clone(&columns[*position])).collect()
}
