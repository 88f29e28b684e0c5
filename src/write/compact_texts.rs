//! Sorted rows whose texts are their own.
//!
//! Rows that a sort puts together point into the texts of all batches that they came from. Whoever holds such a batch holds
//! those, and accounts for all of them: a merge of sorted streams would run out of memory over a few rows. Where memory is
//! limited, texts are copied into batches of their own.
//!
//! May import: rest of this room.

use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, GenericByteViewArray, RecordBatch};
use arrow::datatypes::{ByteViewType, DataType};
use datafusion::common::Result as EngineResult;
use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties};
use futures::TryStreamExt;

use super::node::one_input;
use super::sort_shares::sharing;

/// `plan` and what it runs in; where it merges sorted streams and memory is limited, with texts of their own before, and with
/// equal shares of the memory, of which there are as many as for `plans` of the kind. The optimizer decides how many streams are sorted, so that this waits until it is done.
pub(super) fn in_little_memory(
    plan: &Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
    plans: usize,
) -> (Arc<dyn ExecutionPlan>, Arc<TaskContext>) {
    if !matches!(context.memory_pool().memory_limit(), MemoryLimit::Finite(_)) {
        return (Arc::clone(plan), context);
    }
    match plan.downcast_ref::<SortPreservingMergeExec>() {
        Some(merge) => {
            let streams = merge.input().output_partitioning().partition_count();
            let sorted = Arc::new(CompactTextsExec::new(Arc::clone(merge.input())));
            let merged = SortPreservingMergeExec::new(merge.expr().clone(), sorted).with_fetch(merge.fetch());
            (Arc::new(merged), sharing(context, streams * plans))
        }
        None => (Arc::clone(plan), sharing(context, plan.output_partitioning().partition_count() * plans)),
    }
}

/// Gives the rows of its input in their order.
#[derive(Debug)]
struct CompactTextsExec {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl CompactTextsExec {
    fn new(input: Arc<dyn ExecutionPlan>) -> Self {
        let properties = Arc::clone(input.properties());
        Self { input, properties }
    }
}

impl DisplayAs for CompactTextsExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CompactTextsExec")
    }
}

impl ExecutionPlan for CompactTextsExec {
    one_input!(CompactTextsExec, |_node, input| Self::new(input));

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> EngineResult<SendableRecordBatchStream> {
        let rows = self.input.execute(partition, context)?;
        let schema = rows.schema();
        let compacted = rows.and_then(|batch| std::future::ready(compacted(&batch)));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, compacted)))
    }
}

fn compacted(batch: &RecordBatch) -> EngineResult<RecordBatch> {
    let columns = batch.columns().iter().map(|column| match column.data_type() {
        DataType::Utf8View => own(column, column.as_string_view()),
        DataType::BinaryView => own(column, column.as_binary_view()),
        _ => Arc::clone(column),
    });
    Ok(RecordBatch::try_new(batch.schema(), columns.collect())?)
}

/// The same values, in a buffer of their own unless most of what they point into is theirs.
fn own<T: ByteViewType>(column: &ArrayRef, views: &GenericByteViewArray<T>) -> ArrayRef {
    let held: usize = views.data_buffers().iter().map(|buffer| buffer.capacity()).sum();
    if held / 2 <= views.total_buffer_bytes_used() { Arc::clone(column) } else { Arc::new(views.gc()) }
}

#[cfg(test)]
mod tests {
    use arrow::array::StringViewArray;

    use super::*;

    #[test]
    fn own_when_texts_are_few_of_many_then_copied_and_else_not() {
        let all: StringViewArray = (0..1000).map(|row| Some(format!("a text that is not inlined, {row}"))).collect();
        let whole: ArrayRef = Arc::new(all.clone());
        assert!(Arc::ptr_eq(&own(&whole, &all), &whole));
        let few = all.slice(500, 10);
        let column: ArrayRef = Arc::new(few.clone());
        let copied = own(&column, &few);
        assert_eq!(&copied, &column);
        assert!(copied.get_buffer_memory_size() < 2000);
    }
}
