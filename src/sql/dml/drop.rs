//! DELETE of whole partitions, or of everything: by metadata, no file is read or written.
//!
//! Imports `commit`, `plan`, `table` and the engine's nodes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch, UInt64Array};
use arrow::datatypes::{DataType as ArrowType, Field, Int64Type, Schema, SchemaRef};
use datafusion::catalog::Session;
use datafusion::common::{DFSchema, Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Expr;
use datafusion::physical_expr::Distribution;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements, PlanProperties,
};
use futures::{StreamExt, TryStreamExt};

use crate::commit::{Operation, PartitionSpec};
use crate::options::Level0;
use crate::plan::{ScanRequest, plan_scan};
use crate::spec::Snapshot;
use crate::sql::settings::Replay;
use crate::table::Table;
use crate::write::{one_input, when_done};

/// What goes.
#[derive(Clone, Debug)]
pub(crate) enum DropScope {
    /// There is nothing to go.
    Nothing,
    /// These partitions.
    Partitions(Vec<PartitionSpec>),
    /// Everything.
    Table,
}

/// What of `snapshot` goes: the partitions that satisfy `condition`, or everything.
pub(super) async fn dropped(
    session: &dyn Session,
    table: &Arc<Table>,
    snapshot: Option<Arc<Snapshot>>,
    condition: Option<&Expr>,
) -> Result<DropScope> {
    if snapshot.is_none() {
        return Ok(DropScope::Nothing);
    }
    let mut request = ScanRequest::everything(table, Level0::Merge);
    if let Some(condition) = condition {
        let schema = DFSchema::try_from(Arc::clone(&request.schema))?;
        request.filters = vec![session.create_physical_expr(condition.clone(), &schema)?];
    }
    let plan = Box::pin(plan_scan(table, snapshot, &request)).await.map_err(|error| table.at(error))?;
    let sections = plan.sections.iter().flat_map(|section| &section.files);
    let files = plan.raw.iter().chain(sections).chain(plan.groups.iter().flat_map(|group| &group.files));
    let partitions: BTreeMap<Arc<[u8]>, &crate::plan::PlannedFile> =
        files.map(|file| (Arc::clone(&file.partition.row), file)).collect();
    if condition.is_none() {
        return Ok(DropScope::Table);
    }
    if partitions.is_empty() {
        return Ok(DropScope::Nothing);
    }
    let keys = &table.schema().partition_keys;
    let spec = |file: &crate::plan::PlannedFile| {
        let values = keys.iter().cloned().zip(file.partition.values.iter().cloned()).collect();
        PartitionSpec::new(table.schema(), &values).map_err(|error| table.at(error))
    };
    Ok(DropScope::Partitions(partitions.into_values().map(spec).collect::<crate::error::Result<_>>()?))
}

/// Drops partitions, and gives the number of rows that its input counted in them.
#[derive(Debug)]
pub(crate) struct LakeDropExec {
    input: Arc<dyn ExecutionPlan>,
    table: Arc<Table>,
    scope: DropScope,
    operation: Operation,
    replay: Option<Replay>,
    properties: Arc<PlanProperties>,
}

impl LakeDropExec {
    pub(super) fn new(
        input: Arc<dyn ExecutionPlan>,
        table: Arc<Table>,
        scope: DropScope,
        operation: Operation,
        replay: Option<Replay>,
    ) -> Self {
        let properties = when_done(1, count_schema());
        Self { input, table, scope, operation, replay, properties }
    }
}

/// The plan of TRUNCATE, which does not tell how many rows go.
pub(crate) fn truncation(table: Arc<Table>, replay: Option<Replay>) -> Arc<dyn ExecutionPlan> {
    let counted = Arc::new(Schema::new(vec![Field::new("count", ArrowType::Int64, false)]));
    let nothing = Arc::new(EmptyExec::new(counted));
    Arc::new(LakeDropExec::new(nothing, table, DropScope::Table, Operation::Truncate, replay))
}

fn count_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("count", ArrowType::UInt64, false)]))
}

impl DisplayAs for LakeDropExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = self.table.identifier();
        let scope = match &self.scope {
            DropScope::Nothing => "nothing".to_owned(),
            DropScope::Partitions(specs) => format!("{} partitions", specs.len()),
            DropScope::Table => "everything".to_owned(),
        };
        match t {
            DisplayFormatType::TreeRender => write!(f, "{table}"),
            _ => write!(f, "LakeDropExec: table={table}, drops={scope}"),
        }
    }
}

impl ExecutionPlan for LakeDropExec {
    one_input!(LakeDropExec, |node, input| Self::new(
        input,
        Arc::clone(&node.table),
        node.scope.clone(),
        node.operation,
        node.replay.clone()
    ));

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::SinglePartition])
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return internal_err!("a commit has one partition, not {}", partition + 1);
        }
        let mut input = self.input.execute(0, context)?;
        let (table, scope, operation) = (Arc::clone(&self.table), self.scope.clone(), self.operation);
        let replay = self.replay.clone();
        let counted = futures::stream::once(async move {
            let mut rows = 0;
            while let Some(batch) = input.try_next().await? {
                rows += batch.column(0).as_primitive::<Int64Type>().values().iter().sum::<i64>();
            }
            let (commit, _) = Replay::commit(replay, &table)?;
            let commit = commit.operation(operation);
            let outcome = match &scope {
                DropScope::Nothing => None,
                DropScope::Partitions(specs) => Some(Box::pin(commit.drop_partitions(specs)).await?),
                DropScope::Table => Some(Box::pin(commit.truncate()).await?),
            };
            let rows = if outcome.is_some_and(|outcome| outcome.replayed) { 0 } else { rows };
            let count = UInt64Array::from(vec![u64::try_from(rows).unwrap_or_default()]);
            Ok(RecordBatch::try_new(count_schema(), vec![Arc::new(count)])?)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(count_schema(), counted.boxed())))
    }
}
