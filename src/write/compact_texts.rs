//! Sorted rows whose texts are their own.
//!
//! Rows that a sort puts together point into the texts of all batches that they came from. Whoever holds such a batch holds
//! those, and accounts for all of them: a merge of sorted streams would run out of memory over a few rows. Where memory is
//! limited, texts are copied into batches of their own.
//!
//! A sort that has spilled takes all memory that is left to read its runs again, and leaves none to whoever merges what several
//! sorts give. So some of it is kept back until all of them give their first rows.
//!
//! May import: rest of this room.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{Array, ArrayRef, AsArray, GenericByteViewArray, RecordBatch};
use arrow::datatypes::{ByteViewType, DataType};
use datafusion::common::Result as EngineResult;
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties};
use futures::TryStreamExt;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::node::one_input;

/// `plan`; where it merges sorted streams and memory is limited, with texts of their own before. The optimizer decides how many
/// streams are sorted, so that this waits until it is done.
pub(super) fn merged_in_little_memory(plan: &Arc<dyn ExecutionPlan>, context: &TaskContext) -> Arc<dyn ExecutionPlan> {
    match plan.downcast_ref::<SortPreservingMergeExec>() {
        Some(merge) => {
            let MemoryLimit::Finite(limit) = context.memory_pool().memory_limit() else { return Arc::clone(plan) };
            let streams = merge.input().output_partitioning().partition_count();
            let headroom = Arc::new(Headroom::new(context.memory_pool(), limit, streams));
            let sorted = Arc::new(CompactTextsExec::new(Arc::clone(merge.input()), headroom));
            Arc::new(SortPreservingMergeExec::new(merge.expr().clone(), sorted).with_fetch(merge.fetch()))
        }
        None => Arc::clone(plan),
    }
}

/// The part of the memory that is kept back.
const KEPT_BACK: usize = 8;
/// Most of it, in bytes.
const MOST_KEPT_BACK: usize = 64 << 20;

/// Memory for what comes after several sorts.
#[derive(Debug)]
struct Headroom {
    /// Sorts that have given nothing yet.
    waiting: AtomicUsize,
    memory: Mutex<Option<MemoryReservation>>,
    /// Nobody waits any more.
    all_here: Notify,
}

impl Headroom {
    fn new(pool: &Arc<dyn MemoryPool>, limit: usize, streams: usize) -> Self {
        let memory = MemoryConsumer::new("LakeMergeHeadroom").register(pool);
        // Without it the merge may still find what it needs.
        let kept = memory.try_grow((limit / KEPT_BACK).min(MOST_KEPT_BACK)).is_ok();
        Self { waiting: AtomicUsize::new(streams), memory: Mutex::new(kept.then_some(memory)), all_here: Notify::new() }
    }

    /// Waits until all have come: what was kept back is free then.
    async fn wait_for_all(&self) {
        loop {
            let woken = self.all_here.notified();
            if self.waiting.load(Ordering::SeqCst) == 0 {
                return;
            }
            woken.await;
        }
    }
}

/// One of the sorts, until it gives rows or ends.
struct Sorting(Arc<Headroom>);

impl Drop for Sorting {
    fn drop(&mut self) {
        if self.0.waiting.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.memory.lock().take();
            self.0.all_here.notify_waiters();
        }
    }
}

/// Gives the rows of its input in their order.
#[derive(Debug)]
struct CompactTextsExec {
    input: Arc<dyn ExecutionPlan>,
    headroom: Arc<Headroom>,
    properties: Arc<PlanProperties>,
}

impl CompactTextsExec {
    fn new(input: Arc<dyn ExecutionPlan>, headroom: Arc<Headroom>) -> Self {
        let properties = Arc::clone(input.properties());
        Self { input, headroom, properties }
    }
}

impl DisplayAs for CompactTextsExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CompactTextsExec")
    }
}

impl ExecutionPlan for CompactTextsExec {
    one_input!(CompactTextsExec, |node, input| Self::new(input, Arc::clone(&node.headroom)));

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> EngineResult<SendableRecordBatchStream> {
        let rows = self.input.execute(partition, context)?;
        let schema = rows.schema();
        let headroom = Arc::clone(&self.headroom);
        let sorting = Some(Sorting(Arc::clone(&headroom)));
        let rows = futures::stream::try_unfold((rows, sorting), move |(mut rows, sorting)| {
            let headroom = Arc::clone(&headroom);
            async move {
                let batch = rows.try_next().await?;
                if let Some(sorting) = sorting {
                    drop(sorting);
                    headroom.wait_for_all().await;
                }
                Ok::<_, DataFusionError>(batch.map(|batch| (batch, (rows, None))))
            }
        });
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
