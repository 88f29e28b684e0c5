//! The node at the top of a statement that changes rows: when another commit came between what the statement read and its own,
//! it is planned again on the newer state, a few times.
//!
//! Imports the engine's planner, `commit`, `sink` and `error`.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::session_state::SessionState;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::{StreamExt, TryStreamExt};

use super::sink::ChangeSink;
use crate::commit::outcome_is_unknown;
use crate::error::{Error, ErrorKind};

/// How often a statement is planned again.
const RETRIES: usize = 4;

/// What it takes to plan a statement again.
#[derive(Clone)]
pub(super) struct Again {
    /// The session as it was when the statement was planned.
    pub session: SessionState,
    /// The rows that the statement changes.
    pub rows: LogicalPlan,
    /// The table that takes them.
    pub sink: ChangeSink,
}

impl Again {
    async fn plan(&self) -> Result<Arc<dyn ExecutionPlan>> {
        let mut session = self.session.clone();
        // Tables are read as they are from now on.
        session.mark_start_execution();
        let rows = Box::pin(session.create_physical_plan(&self.rows)).await?;
        Ok(Box::pin(self.sink.once(&session, rows)).await?)
    }
}

/// Runs a statement again when its commit met a conflict.
pub(super) struct LakeRetryExec {
    first: Arc<dyn ExecutionPlan>,
    again: Arc<Again>,
}

impl LakeRetryExec {
    pub(super) fn new(first: Arc<dyn ExecutionPlan>, again: Again) -> Self {
        Self { first, again: Arc::new(again) }
    }
}

impl fmt::Debug for LakeRetryExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LakeRetryExec").field("first", &self.first).finish_non_exhaustive()
    }
}

impl DisplayAs for LakeRetryExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match t {
            DisplayFormatType::TreeRender => write!(f, "on conflict"),
            _ => write!(f, "LakeRetryExec: retries={RETRIES}"),
        }
    }
}

impl ExecutionPlan for LakeRetryExec {
    fn name(&self) -> &'static str {
        "LakeRetryExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.first.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.first]
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let [first] =
            <[_; 1]>::try_from(children).map_err(|_| Error::internal("a node that tries again has one input"))?;
        Ok(Arc::new(Self { first, again: Arc::clone(&self.again) }))
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return internal_err!("a statement has one partition, not {}", partition + 1);
        }
        let (first, again) = (Arc::clone(&self.first), Arc::clone(&self.again));
        let schema = first.schema();
        let answer = async move {
            let mut plan = first;
            let mut left = RETRIES;
            loop {
                let run: Result<Vec<RecordBatch>> = match plan.execute(0, Arc::clone(&context)) {
                    Ok(rows) => rows.try_collect().await,
                    Err(error) => Err(error),
                };
                match run {
                    Err(error) if left > 0 && is_conflict(&error) => left -= 1,
                    Err(error) => return Err(error),
                    Ok(batches) => return Ok(futures::stream::iter(batches.into_iter().map(Ok))),
                }
                plan = again.plan().await?;
            }
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, futures::stream::once(answer).try_flatten().boxed())))
    }
}

/// Whether an error says that others changed what a statement builds on, and that it changed nothing.
fn is_conflict(error: &DataFusionError) -> bool {
    match error {
        DataFusionError::External(inner) => inner
            .downcast_ref::<Error>()
            .is_some_and(|error| error.kind() == ErrorKind::Conflict && !outcome_is_unknown(error)),
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => is_conflict(inner),
        DataFusionError::Shared(inner) => is_conflict(inner),
        _ => false,
    }
}
