//! The node at the top of every statement that changes a table: it begins the run, gathers the messages of the writers and
//! commits them, once.

use std::fmt;
use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch, UInt64Array};
use arrow::datatypes::{DataType as ArrowType, Field, Schema, SchemaRef, UInt64Type};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{Distribution, EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, CardinalityEffect, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements, Partitioning, PlanProperties,
};
use futures::{StreamExt, TryStreamExt};

use crate::commit::{Committable, Operation, OverwriteScope, TableCommit};
use crate::error::Error;
use crate::maintain::automatic_tags;
use crate::sql::zone;
use crate::table::Table;
use crate::write::{CommitMessage, RunSlot, WriteRun, WriteTarget};

/// What a statement commits as.
#[derive(Clone, Debug)]
pub(crate) struct CommitPlan {
    /// Commit identifier, when the session replays commits.
    pub identifier: Option<i64>,
    /// The statement.
    pub operation: Operation,
    /// What is replaced; `None`: rows are added or changed.
    pub overwrite: Option<OverwriteScope>,
    /// The snapshot whose rows are changed, 0 for a table that had none; the answer is then how many were.
    pub read_rows: Option<i64>,
}

impl Default for CommitPlan {
    fn default() -> Self {
        Self { identifier: None, operation: Operation::Write, overwrite: None, read_rows: None }
    }
}

/// Commits what the writers below wrote, and gives the number of rows.
#[derive(Debug)]
pub struct LakeCommitExec {
    input: Arc<dyn ExecutionPlan>,
    target: Arc<WriteTarget>,
    slot: Arc<RunSlot>,
    commit: Arc<CommitPlan>,
    properties: Arc<PlanProperties>,
}

impl LakeCommitExec {
    pub(crate) fn new(
        input: Arc<dyn ExecutionPlan>,
        target: Arc<WriteTarget>,
        slot: Arc<RunSlot>,
        commit: Arc<CommitPlan>,
    ) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(count_schema()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        Self { input, target, slot, commit, properties: Arc::new(properties) }
    }
}

fn count_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("count", ArrowType::UInt64, false)]))
}

impl DisplayAs for LakeCommitExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = self.target.table().identifier();
        match t {
            DisplayFormatType::TreeRender => write!(f, "{table}"),
            _ => {
                write!(f, "LakeCommitExec: table={table}, operation={}", self.commit.operation.name())?;
                match &self.commit.overwrite {
                    None => Ok(()),
                    Some(OverwriteScope::Dynamic) => write!(f, ", overwrite=touched partitions"),
                    Some(OverwriteScope::Partitions(_)) => write!(f, ", overwrite=given partitions"),
                    Some(OverwriteScope::Table) => write!(f, ", overwrite=table"),
                }
            }
        }
    }
}

impl ExecutionPlan for LakeCommitExec {
    fn name(&self) -> &'static str {
        "LakeCommitExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let [input] = <[_; 1]>::try_from(children).map_err(|_| Error::internal("a node that commits has one input"))?;
        let (target, slot) = (Arc::clone(&self.target), Arc::clone(&self.slot));
        Ok(Arc::new(Self::new(input, target, slot, Arc::clone(&self.commit))))
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::SinglePartition])
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false]
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::LowerEqual
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return internal_err!("a commit has one partition, not {}", partition + 1);
        }
        // The nodes below find the run when they are executed, so it begins first.
        let run = self.slot.start(&self.target, Arc::clone(&context))?;
        let zone = context.session_config().options().execution.time_zone.clone();
        let ends = RunEnds(Arc::clone(&self.slot));
        let input = self.input.execute(0, context)?;
        let commit = Arc::clone(&self.commit);
        let counted = futures::stream::once(async move {
            let _ends = ends;
            let written = match gather(input).await {
                Ok((messages, rows)) => Box::pin(commit_all(&run, &commit, messages)).await.map(|()| rows),
                Err(error) => Err(error),
            };
            if written.is_err() {
                run.own_files().remove().await;
            }
            let written = written?;
            let count = if commit.read_rows.is_some() { run.changes().rows() } else { written };
            let count = UInt64Array::from(vec![count]);
            Box::pin(upkeep(run.target().table(), zone.as_deref().unwrap_or("UTC"))).await;
            Ok(RecordBatch::try_new(count_schema(), vec![Arc::new(count)])?)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(count_schema(), counted.boxed())))
    }
}

/// Ends the run of a slot: a statement that is dropped half-way lets go of its files.
struct RunEnds(Arc<RunSlot>);

impl Drop for RunEnds {
    fn drop(&mut self) {
        self.0.clear();
    }
}

async fn gather(mut input: SendableRecordBatchStream) -> Result<(Vec<CommitMessage>, u64)> {
    let (mut messages, mut rows) = (Vec::new(), 0);
    while let Some(batch) = input.try_next().await? {
        rows += batch.column(1).as_primitive::<UInt64Type>().values().iter().sum::<u64>();
        for bytes in batch.column(0).as_binary::<i32>().iter().flatten() {
            messages.push(CommitMessage::from_bytes(bytes)?);
        }
    }
    Ok((messages, rows))
}

async fn commit_all(run: &WriteRun, plan: &CommitPlan, messages: Vec<CommitMessage>) -> Result<()> {
    let commit = TableCommit::new(Arc::clone(run.target().table()), run.target().user())?;
    let mut commit = commit.owning(Arc::clone(run.own_files()));
    if let Some(read) = plan.read_rows {
        commit = commit.changed_rows_of(read);
    }
    let mut committable = match plan.identifier {
        Some(identifier) => Committable::new(identifier, messages),
        None => Committable::batch(messages),
    };
    committable.operation = Some(plan.operation);
    let committed = match &plan.overwrite {
        None => Box::pin(commit.commit(committable)).await,
        Some(scope) => Box::pin(commit.overwrite(scope, committable)).await,
    };
    committed?;
    Ok(())
}

/// What is due after a commit. The rows are there: what fails here is left to the next commit and does not fail the statement.
async fn upkeep(table: &Table, session: &str) {
    let clock = |zone: Option<&str>, instant| zone::local_time(instant, zone.unwrap_or(session));
    let _ = automatic_tags::after_commit(table, chrono::Utc::now(), &clock).await;
}
