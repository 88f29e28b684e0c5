//! DELETE of whole partitions, or of everything: by metadata, no file is read or written.
//!
//! Imports `commit`, `plan`, `table` and the engine's nodes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch, UInt64Array};
use arrow::datatypes::{DataType as ArrowType, Field, Int64Type, Schema, SchemaRef};
use datafusion::catalog::Session;
use datafusion::common::{DFSchema, Result, ScalarValue, internal_err};
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
use crate::plan::live::{LiveRequest, live_files};
use crate::plan::{Partition, ScanRequest, plan_scan};
use crate::spec::Snapshot;
use crate::sql::settings::Replay;
use crate::table::Table;
use crate::write::{POSTPONE_BUCKET, one_input, when_done};

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
    let plan = Box::pin(plan_scan(table, snapshot.clone(), &request)).await.map_err(|error| table.at(error))?;
    let sections = plan.sections.iter().flat_map(|section| &section.files);
    let files = plan.raw.iter().chain(sections).chain(plan.groups.iter().flat_map(|group| &group.files));
    let mut partitions: BTreeMap<Arc<[u8]>, Arc<Partition>> =
        files.map(|file| (Arc::clone(&file.partition.row), Arc::clone(&file.partition))).collect();
    let Some(condition) = condition else { return Ok(DropScope::Table) };
    if let (Some(snapshot), POSTPONE_BUCKET) = (&snapshot, table.settings().bucket) {
        partitions.extend(waiting(session, table, snapshot, condition).await?);
    }
    if partitions.is_empty() {
        return Ok(DropScope::Nothing);
    }
    let keys = &table.schema().partition_keys;
    let spec = |partition: Arc<Partition>| {
        let values = keys.iter().cloned().zip(partition.values.iter().cloned()).collect();
        PartitionSpec::new(table.schema(), &values).map_err(|error| table.at(error))
    };
    Ok(DropScope::Partitions(partitions.into_values().map(spec).collect::<crate::error::Result<_>>()?))
}

/// The partitions that satisfy `condition` and have rows that wait for their buckets. No read sees those; with their partition they
/// go, as in other engines.
async fn waiting(
    session: &dyn Session,
    table: &Arc<Table>,
    snapshot: &Snapshot,
    condition: &Expr,
) -> Result<BTreeMap<Arc<[u8]>, Arc<Partition>>> {
    let request = LiveRequest { partitions: None, deletions: false, postponed: true };
    let files = Box::pin(live_files(table, snapshot, request)).await.map_err(|error| table.at(error))?;
    let mut partitions: BTreeMap<Arc<[u8]>, Arc<Partition>> =
        files.iter().map(|file| (Arc::clone(&file.partition.row), Arc::clone(&file.partition))).collect();
    if partitions.is_empty() {
        return Ok(partitions);
    }
    let fields = table.schema().partition_fields();
    let fields: Vec<Field> = fields.iter().map(|field| field.to_arrow().with_nullable(true)).collect();
    let columns = (0..fields.len())
        .map(|at| ScalarValue::iter_to_array(partitions.values().map(|partition| partition.values[at].clone())));
    let schema = Arc::new(Schema::new(fields));
    let values = RecordBatch::try_new(Arc::clone(&schema), columns.collect::<Result<_>>()?)?;
    let condition = session.create_physical_expr(condition.clone(), &DFSchema::try_from(schema)?)?;
    let satisfied = condition.evaluate(&values)?.into_array(values.num_rows())?;
    let satisfied = satisfied.as_boolean();
    let mut row = 0;
    partitions.retain(|_, _| {
        row += 1;
        satisfied.is_valid(row - 1) && satisfied.value(row - 1)
    });
    Ok(partitions)
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
