//! The difference between two bags of rows: what a table without keys gained and lost, whatever files hold it.
//!
//! The rows that only files of the earlier state hold are counted in memory; those of the later state cancel them one by one.
//! What is left of the later state was inserted, what is left of the earlier one was deleted.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int8Array, Int64Array, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::datatypes::SchemaRef;
use arrow_row::{OwnedRow, Row, RowConverter, SortField};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result as EngineResult, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
};
use futures::{StreamExt, TryStreamExt};

use super::diff::output_schema;
use crate::error::Result;

const INSERT: i8 = 0;
const DELETE: i8 = 3;

/// Rows of one input that the other does not have, counted.
#[derive(Debug)]
pub(super) struct BagDifferenceExec {
    before: Arc<dyn ExecutionPlan>,
    after: Arc<dyn ExecutionPlan>,
    wanted: Vec<usize>,
    sequence: bool,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
}

impl BagDifferenceExec {
    /// The columns `wanted` of the rows that only one of `before` and `after` has, with their kinds.
    pub(super) fn try_new(
        before: Arc<dyn ExecutionPlan>,
        after: Arc<dyn ExecutionPlan>,
        wanted: &[usize],
        sequence: bool,
    ) -> EngineResult<Arc<dyn ExecutionPlan>> {
        let single = |input: Arc<dyn ExecutionPlan>| -> Arc<dyn ExecutionPlan> {
            match input.output_partitioning().partition_count() {
                1 => input,
                _ => Arc::new(CoalescePartitionsExec::new(input)),
            }
        };
        let (before, after) = (single(before), single(after));
        let schema = output_schema(&after.schema(), wanted, sequence)?;
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let wanted = wanted.to_vec();
        Ok(Arc::new(Self { before, after, wanted, sequence, schema, properties: Arc::new(properties) }))
    }
}

impl DisplayAs for BagDifferenceExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BagDifferenceExec")
    }
}

impl ExecutionPlan for BagDifferenceExec {
    fn name(&self) -> &'static str {
        "BagDifferenceExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.before, &self.after]
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        vec![Distribution::SinglePartition, Distribution::SinglePartition]
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> EngineResult<Arc<dyn ExecutionPlan>> {
        match <[_; 2]>::try_from(children) {
            Ok([before, after]) => Self::try_new(before, after, &self.wanted, self.sequence),
            Err(_) => internal_err!("BagDifferenceExec has two inputs"),
        }
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> EngineResult<TreeNodeRecursion>,
    ) -> EngineResult<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> EngineResult<SendableRecordBatchStream> {
        let before = self.before.execute(partition, Arc::clone(&context))?;
        let after = self.after.execute(partition, Arc::clone(&context))?;
        let types = after.schema().fields().iter().map(|field| SortField::new(field.data_type().clone())).collect();
        let bag = Bag {
            converter: RowConverter::new(types)?,
            counts: HashMap::new(),
            reservation: MemoryConsumer::new("LakeDifference").register(context.memory_pool()),
        };
        let output = Output { wanted: self.wanted.clone(), sequence: self.sequence, schema: Arc::clone(&self.schema) };
        let batch_size = context.session_config().batch_size();
        let rows = futures::stream::try_unfold(Step::Fill(bag, before, after), move |step| {
            let output = output.clone();
            async move { step.next(&output, batch_size).await }
        });
        let rows = rows.try_filter(|batch| std::future::ready(batch.num_rows() > 0));
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), rows.boxed())))
    }
}

/// How far a difference has come.
enum Step {
    /// The rows before are still to be counted.
    Fill(Bag, SendableRecordBatchStream, SendableRecordBatchStream),
    /// The rows after are coming.
    Cancel(Bag, SendableRecordBatchStream),
    /// What is left of the rows before is given.
    Drain(Bag),
}

impl Step {
    /// The next rows, and the step after them.
    async fn next(self, output: &Output, batch_size: usize) -> EngineResult<Option<(RecordBatch, Self)>> {
        let mut step = self;
        loop {
            step = match step {
                Self::Fill(mut bag, mut before, after) => {
                    while let Some(batch) = before.try_next().await? {
                        bag.add(&batch)?;
                    }
                    Self::Cancel(bag, after)
                }
                Self::Cancel(mut bag, mut after) => match after.try_next().await? {
                    Some(batch) => {
                        let fresh = bag.cancel(&batch)?;
                        let batch = output.batch(fresh.columns(), fresh.num_rows(), INSERT)?;
                        return Ok(Some((batch, Self::Cancel(bag, after))));
                    }
                    None => Self::Drain(bag),
                },
                Self::Drain(bag) if bag.counts.is_empty() => return Ok(None),
                Self::Drain(mut bag) => {
                    let left = bag.drain(batch_size)?;
                    let rows = left.first().map_or(0, arrow::array::Array::len);
                    return Ok(Some((output.batch(&left, rows, DELETE)?, Self::Drain(bag))));
                }
            }
        }
    }
}

/// Rows and how often each is there.
struct Bag {
    converter: RowConverter,
    counts: HashMap<OwnedRow, u64>,
    reservation: MemoryReservation,
}

impl Bag {
    fn add(&mut self, batch: &RecordBatch) -> EngineResult<()> {
        let rows = self.converter.convert_columns(batch.columns())?;
        self.reservation.try_grow(rows.size() + batch.num_rows() * 64)?;
        for row in &rows {
            *self.counts.entry(row.owned()).or_insert(0) += 1;
        }
        Ok(())
    }

    /// The rows of `batch` that are not in the bag; those that are leave it.
    fn cancel(&mut self, batch: &RecordBatch) -> Result<RecordBatch> {
        if self.counts.is_empty() {
            return Ok(batch.clone());
        }
        let rows = self.converter.convert_columns(batch.columns())?;
        let mut kept = Vec::with_capacity(batch.num_rows());
        for (index, row) in rows.iter().enumerate() {
            if !self.take(row) {
                kept.push(index as u32);
            }
        }
        Ok(arrow::compute::take_record_batch(batch, &UInt32Array::from(kept))?)
    }

    fn take(&mut self, row: Row<'_>) -> bool {
        let row = row.owned();
        match self.counts.get_mut(&row) {
            None => false,
            Some(1) => {
                self.counts.remove(&row);
                true
            }
            Some(count) => {
                *count -= 1;
                true
            }
        }
    }

    /// About `rows` of the rows that are left, which leave the bag.
    fn drain(&mut self, rows: usize) -> Result<Vec<ArrayRef>> {
        let mut taken: Vec<OwnedRow> = Vec::new();
        while taken.len() < rows.max(1) {
            let Some(row) = self.counts.keys().next().cloned() else { break };
            let count = self.counts.remove(&row).unwrap_or(0);
            taken.extend((0..count).map(|_| row.clone()));
        }
        Ok(self.converter.convert_rows(taken.iter().map(OwnedRow::row))?)
    }
}

#[derive(Clone)]
struct Output {
    wanted: Vec<usize>,
    sequence: bool,
    schema: SchemaRef,
}

impl Output {
    fn batch(&self, columns: &[ArrayRef], rows: usize, kind: i8) -> Result<RecordBatch> {
        let mut wanted: Vec<ArrayRef> =
            self.wanted.iter().filter_map(|&column| columns.get(column).map(Arc::clone)).collect();
        wanted.push(Arc::new(Int8Array::from_value(kind, rows)));
        if self.sequence {
            wanted.push(Arc::new(Int64Array::new_null(rows)));
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), wanted, &options)?)
    }
}
