//! The node that takes apart what is to happen to rows of an append table: where the rows lie that go is noted, new values go on
//! to be written.
//!
//! Imports `write`, `plan`, `spec` and `error`.

use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, UInt32Array};
use arrow::compute::{cast, take, take_arrays};
use arrow::datatypes::{DataType as ArrowType, Field, Int64Type, Schema, SchemaRef};
use datafusion::catalog::Session;
use datafusion::common::Result as EngineResult;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::ExecutionPlanProperties;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::{StreamExt, TryStreamExt};

use super::removals::LakeRemovalsExec;
use super::shape::{Action, ChangeShape};
use crate::error::{Error, Result};
use crate::spec::Snapshot;
use crate::spec::types::{ROW_ID, SEQUENCE_NUMBER};
use crate::write::{LakeWriteExec, RunSlot, WriteRun, WriteTarget, as_they_come, one_input};

/// Changes of an append table.
pub(super) struct AppendChanges<'a> {
    pub session: &'a dyn Session,
    pub target: &'a Arc<WriteTarget>,
    pub slot: &'a Arc<RunSlot>,
    pub shape: &'a Arc<ChangeShape>,
    /// The snapshot that the rows were read of.
    pub snapshot: Option<Arc<Snapshot>>,
}

/// The nodes that write what `input` says.
pub(super) fn append_changes(
    changes: &AppendChanges<'_>,
    input: Arc<dyn ExecutionPlan>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let AppendChanges { session, target, slot, shape, snapshot } = changes;
    let marks = LakeMarksExec::new(input, Arc::clone(target), Arc::clone(slot), Arc::clone(shape));
    let writes = LakeWriteExec::plan(Arc::new(marks), None, target, slot, session.config().target_partitions())?;
    if !shape.has_place {
        return Ok(writes);
    }
    let writes = match writes.output_partitioning().partition_count() {
        1 => writes,
        _ => Arc::new(CoalescePartitionsExec::new(writes)),
    };
    let parquet = session.default_table_options().parquet;
    Ok(Arc::new(LakeRemovalsExec::new(
        writes,
        Arc::clone(target),
        Arc::clone(slot),
        snapshot.clone(),
        Arc::new(parquet),
    )))
}

/// Notes the rows that go, and gives those that come.
#[derive(Debug)]
pub(super) struct LakeMarksExec {
    input: Arc<dyn ExecutionPlan>,
    target: Arc<WriteTarget>,
    slot: Arc<RunSlot>,
    shape: Arc<ChangeShape>,
    properties: Arc<PlanProperties>,
}

impl LakeMarksExec {
    fn new(
        input: Arc<dyn ExecutionPlan>,
        target: Arc<WriteTarget>,
        slot: Arc<RunSlot>,
        shape: Arc<ChangeShape>,
    ) -> Self {
        let properties = as_they_come(&input, written(&target));
        Self { input, target, slot, shape, properties }
    }
}

/// The columns of the rows that come: the table's, and the ids where rows have them.
fn written(target: &WriteTarget) -> SchemaRef {
    let own = target.table_schema().fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
    let ids = [ROW_ID, SEQUENCE_NUMBER].map(|name| Field::new(name, ArrowType::Int64, true));
    Arc::new(Schema::new(own.chain(ids.into_iter().filter(|_| target.with_ids())).collect::<Vec<_>>()))
}

impl DisplayAs for LakeMarksExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = self.target.table().identifier();
        match t {
            DisplayFormatType::TreeRender => write!(f, "{table}"),
            _ => write!(f, "LakeMarksExec: table={table}, operation={}", self.shape.operation.name()),
        }
    }
}

impl ExecutionPlan for LakeMarksExec {
    one_input!(LakeMarksExec, |node, input| Self::new(
        input,
        Arc::clone(&node.target),
        Arc::clone(&node.slot),
        Arc::clone(&node.shape)
    ));

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> EngineResult<SendableRecordBatchStream> {
        let run = self.slot.current()?;
        let input = self.input.execute(partition, context)?;
        let (shape, schema) = (Arc::clone(&self.shape), self.schema());
        let to = Arc::clone(&schema);
        let rows = input
            .map(move |batch| -> EngineResult<RecordBatch> { Ok(take_apart(&run, &shape, &to, &batch?)?) })
            .boxed();
        let rows = rows.try_filter(|batch| std::future::ready(batch.num_rows() > 0));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows.boxed())))
    }
}

/// Notes what goes of a batch, and gives what comes.
fn take_apart(run: &WriteRun, shape: &ChangeShape, schema: &SchemaRef, batch: &RecordBatch) -> Result<RecordBatch> {
    let actions = shape.actions_of(batch)?;
    let goes = |row: &usize| matches!(actions[*row], Some(Action::Update | Action::Delete));
    let going: Vec<usize> = (0..actions.len()).filter(goes).collect();
    let inserted = actions.iter().filter(|action| **action == Some(Action::Insert)).count();
    let marked = if going.is_empty() { 0 } else { mark(run, shape, batch, &going)? };
    run.changes().count((inserted + marked) as u64);
    if !shape.has_new {
        return Ok(RecordBatch::new_empty(Arc::clone(schema)));
    }
    let comes = |row: &usize| matches!(actions[*row], Some(Action::Update | Action::Insert));
    let coming: UInt32Array = (0..actions.len()).filter(comes).map(|row| row as u32).collect();
    let new = &batch.columns()[shape.new_at()..shape.new_at() + shape.width];
    let mut columns = take_arrays(new, &coming, None)?;
    if schema.fields().len() > shape.width {
        let updated = |row: &u32| actions[*row as usize] == Some(Action::Update);
        let id: ArrayRef = match shape.has_ids {
            true => {
                // What is inserted gets its id at the commit.
                let ids = take(batch.column(shape.ids_at()), &coming, None)?;
                let ids = ids.as_primitive_opt::<Int64Type>();
                let ids = ids.ok_or_else(|| Error::internal("a row id is not an integer"))?;
                let id = |(at, row): (usize, &u32)| (updated(row) && ids.is_valid(at)).then(|| ids.value(at));
                Arc::new(coming.values().iter().enumerate().map(id).collect::<Int64Array>())
            }
            false => Arc::new(Int64Array::new_null(coming.len())),
        };
        columns.push(id);
        // A changed row is as new as the snapshot that changes it.
        columns.push(Arc::new(Int64Array::new_null(coming.len())));
    }
    Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
}

/// Notes the places of `rows`; how many there are.
fn mark(run: &WriteRun, shape: &ChangeShape, batch: &RecordBatch, rows: &[usize]) -> Result<usize> {
    let wrong = || Error::internal("the place of a row is not told");
    let files = cast(batch.column(shape.place_at()), &ArrowType::Utf8View)?;
    let files = files.as_string_view();
    let positions = batch.column(shape.place_at() + 1).as_primitive_opt::<Int64Type>().ok_or_else(wrong)?;
    let mut marked = 0;
    let mut start = 0;
    while start < rows.len() {
        if files.is_null(rows[start]) {
            return Err(wrong());
        }
        let file = files.value(rows[start]);
        let same = rows[start..].iter().take_while(|row| files.is_valid(**row) && files.value(**row) == file).count();
        let stretch = &rows[start..start + same];
        let places = stretch
            .iter()
            .map(|row| {
                let position = positions.is_valid(*row).then(|| positions.value(*row));
                position.and_then(|position| u64::try_from(position).ok()).ok_or_else(wrong)
            })
            .collect::<Result<Vec<_>>>()?;
        for (first, place) in run.changes().mark(file, &places)?.into_iter().zip(&places) {
            if first {
                marked += 1;
            } else if shape.does(Action::Update) {
                return Err(run.target().table().at(Error::invalid(format!(
                    "row {place} of file {file} is matched by more than one row of the source, so that it is not clear what \
                     becomes of it; make the source give each row of the table one match"
                ))));
            }
        }
        start += same;
    }
    Ok(marked)
}
