//! The node at the top of every statement that changes a table: it has its [`Statement`] run and answers the number of rows.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use arrow::array::{RecordBatch, UInt64Array};
use arrow::datatypes::{DataType as ArrowType, Field, Schema, SchemaRef};
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::Distribution;
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements, PlanProperties,
};
use futures::StreamExt;

use super::dead_letters::DeadLetters;
use super::evolution::Evolution;
use super::statement::Statement;
use crate::commit::{Operation, OverwriteScope};
use crate::compact::{CompactRequest, compact};
use crate::maintain::upkeep::{self, Committed};
use crate::plan::live::PartitionPredicate;
use crate::sql::warnings::Warnings;
use crate::sql::zone;
use crate::table::Table;
use crate::write::{POSTPONE_BUCKET, RunSlot, WriteTarget, one_input, when_done};

/// What a statement commits as.
#[derive(Clone, Debug)]
pub(crate) struct CommitPlan {
    /// Commit identifier, when the session replays commits.
    pub identifier: Option<i64>,
    /// The statement.
    pub operation: Operation,
    /// What is replaced; `None`: rows are added or changed.
    pub overwrite: Option<OverwriteScope>,
    /// What becomes of the table's columns before rows are added to it.
    pub evolution: Option<Arc<Evolution>>,
    /// Where rows go that do not fit the table; `None`: they fail the statement.
    pub dead_letters: Option<Arc<DeadLetters>>,
    /// The snapshot whose rows are changed, 0 for a table that had none; the answer is then how many were.
    pub read_rows: Option<i64>,
    /// Whether rows are added because that snapshot did not have them.
    pub adds_absent: bool,
}

impl Default for CommitPlan {
    fn default() -> Self {
        Self {
            identifier: None,
            operation: Operation::Write,
            overwrite: None,
            evolution: None,
            dead_letters: None,
            read_rows: None,
            adds_absent: false,
        }
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
        let properties = when_done(1, count_schema());
        Self { input, target, slot, commit, properties }
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
    one_input!(LakeCommitExec, |node, input| Self::new(
        input,
        Arc::clone(&node.target),
        Arc::clone(&node.slot),
        Arc::clone(&node.commit)
    ));

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::SinglePartition])
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::LowerEqual
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return internal_err!("a commit has one partition, not {}", partition + 1);
        }
        let zone = context.session_config().options().execution.time_zone.clone();
        let (target, slot) = (Arc::clone(&self.target), Arc::clone(&self.slot));
        let statement = Statement { input: Arc::clone(&self.input), target, slot, plan: Arc::clone(&self.commit) };
        let counted = futures::stream::once(async move {
            let written = Box::pin(statement.run(&context)).await?;
            let count = UInt64Array::from(vec![written.rows]);
            let table = statement.target.table();
            let warn =
                |what: String| Warnings::warn(context.session_config(), format!("{}: {what}", table.identifier()));
            not_followed(table).into_iter().for_each(warn);
            if let Some(error) = written.compaction_failed {
                warn(format!(
                    "the rows are committed, but not their compaction, which the next one makes up for: {error}"
                ));
            }
            if let Err(error) = Box::pin(placed(table, &written.partitions, &context)).await {
                warn(format!(
                    "the rows are committed and wait for their buckets, which CALL sys.compact gives them: {error}"
                ));
            }
            if let Err(error) = Box::pin(due(table, zone.as_deref().unwrap_or("UTC"), &written.partitions)).await {
                warn(format!(
                    "the rows are committed; upkeep after that failed and is left to the next commit: {error}"
                ));
            }
            Ok(RecordBatch::try_new(count_schema(), vec![Arc::new(count)])?)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(count_schema(), counted.boxed())))
    }
}

/// Options of a table that ask a writer for what this one does not do. The rows are right without it.
fn not_followed(table: &Table) -> Vec<String> {
    let options = table.settings();
    let mut told = Vec::new();
    if !options.clustering_columns.is_empty() && !table.schema().has_primary_key() {
        told.push(
            "rows are written as they come, in spite of 'clustering.columns'; CALL sys.compact with order_strategy and order_by \
             sorts them"
                .to_owned(),
        );
    }
    told
}

/// Gives rows of a table of postponed buckets theirs at once, where `postpone.batch-write-fixed-bucket` is set to ask for it:
/// they are visible when the statement ends.
async fn placed(table: &Arc<Table>, written: &[Vec<u8>], context: &Arc<TaskContext>) -> crate::error::Result<()> {
    let asked = table.settings().value::<bool>(AT_ONCE)?.unwrap_or(false) && table.options().contains_key(AT_ONCE);
    if table.settings().bucket != POSTPONE_BUCKET || !asked || written.is_empty() {
        return Ok(());
    }
    let written: HashSet<Vec<u8>> = written.iter().cloned().collect();
    let partitions: PartitionPredicate =
        Arc::new(move |rows: &[Arc<[u8]>]| Ok(rows.iter().map(|row| written.contains(&**row)).collect()));
    let request = CompactRequest { partitions: Some(partitions), minor: true, ..CompactRequest::default() };
    Box::pin(compact(table, request, context)).await.map(|_| ())
}

/// Asks for buckets at once.
const AT_ONCE: &str = "postpone.batch-write-fixed-bucket";

/// What is due after a commit. The rows are there: what fails here is left to the next commit and does not fail the statement.
async fn due(table: &Arc<Table>, session: &str, written: &[Vec<u8>]) -> crate::error::Result<()> {
    let clock = |zone: Option<&str>, instant| zone::local_time(instant, zone.unwrap_or(session));
    let committed = Committed { at_end: true, partitions: written };
    Box::pin(upkeep::after_commit(table, chrono::Utc::now(), &clock, committed)).await
}
