//! The keys of a table with the partition and bucket that each lies in: what a write needs to know whose keys may move
//! (`spec/data.md 3.6`). They are those of the snapshot that the run works on, so that the commit can tell what came after.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::config::TableParquetOptions;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, ExecutionPlanProperties};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};
use futures::future::ready;
use futures::{StreamExt, TryStreamExt};

use crate::options::Level0;
use crate::plan::{PlanCounters, PlannedFile, ScanPlan, ScanRequest, plan_scan};
use crate::sql::scan::LakeScanExec;
use crate::sql::scan::unit::{SystemColumns, UnitFactory};
use crate::write::{LakeKeyLocationExec, RunSlot, WriteRun, WriteTarget, count_keys, key_location_schema};

/// Reads the keys of a table as [`key_location_schema`] has them, in their order.
pub(crate) struct LakeKeysExec {
    target: Arc<WriteTarget>,
    slot: Arc<RunSlot>,
    parquet: TableParquetOptions,
    properties: Arc<PlanProperties>,
}

impl LakeKeysExec {
    /// The keys of `target` at the snapshot of the run that `slot` holds.
    pub(crate) fn new(target: Arc<WriteTarget>, slot: Arc<RunSlot>, parquet: TableParquetOptions) -> Self {
        let schema = key_location_schema(&target);
        let [_, ordering] = LakeKeyLocationExec::orderings(&target);
        let properties = PlanProperties::new(
            EquivalenceProperties::new_with_orderings(schema, ordering),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self { target, slot, parquet, properties: Arc::new(properties) }
    }
}

impl fmt::Debug for LakeKeysExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LakeKeysExec").field("target", &self.target).finish_non_exhaustive()
    }
}

impl DisplayAs for LakeKeysExec {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LakeKeysExec: table={}", self.target.table().identifier())
    }
}

impl ExecutionPlan for LakeKeysExec {
    fn name(&self) -> &'static str {
        "LakeKeysExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        if children.is_empty() { Ok(self) } else { internal_err!("keys of a table have no input") }
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return internal_err!("keys of a table have one partition, not {}", partition + 1);
        }
        let run = self.slot.current()?;
        let schema = key_location_schema(&self.target);
        let parquet = self.parquet.clone();
        let keys = futures::stream::once(async move {
            let plan = Box::pin(keys_of(&run, &context, parquet)).await?;
            match plan {
                Some(plan) => plan.execute(0, context),
                None => {
                    let none = futures::stream::empty().boxed();
                    let schema = key_location_schema(run.target());
                    Ok(Box::pin(RecordBatchStreamAdapter::new(schema, none)) as SendableRecordBatchStream)
                }
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, keys.try_flatten().boxed())))
    }
}

/// The nodes that read the keys of the run's snapshot, in order; `None` when there are none.
async fn keys_of(
    run: &Arc<WriteRun>,
    context: &Arc<TaskContext>,
    parquet: TableParquetOptions,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let table = run.target().table();
    let snapshot = match run.target().replaces() {
        // The run itself needs nothing of what lies there.
        true => table.snapshot(None).await?,
        false => run.snapshot().await?,
    };
    let request = ScanRequest::everything(table, Level0::Merge);
    let plan = Box::pin(plan_scan(table, snapshot, &request)).await.map_err(|error| table.at(error))?;
    let buckets: BTreeSet<i32> = plan.scanned().map(|file| file.file.bucket()).collect();
    let mut scans = Vec::with_capacity(buckets.len());
    for bucket in buckets {
        scans.push(scan_bucket(run.target(), context, &parquet, &plan, bucket).await?);
    }
    let scan = match scans.len() {
        0 | 1 => scans.pop(),
        _ => Some(UnionExec::try_new(scans)?),
    };
    let Some(scan) = scan else { return Ok(None) };
    // All of them are counted before the first one comes out of the sort.
    let parts = (0..scan.output_partitioning().partition_count()).map(|partition| {
        let (run, scan) = (Arc::clone(run), Arc::clone(&scan));
        Arc::new(CountedKeys { run, scan, partition }) as Arc<dyn PartitionStream>
    });
    let counted = StreamingTableExec::try_new(scan.schema(), parts.collect(), None, Vec::new(), false, None)?;
    Ok(Some(LakeKeyLocationExec::sorted_keys(Arc::new(counted), run.target())))
}

/// Keys on their way, counted by where they lie.
#[derive(Debug)]
struct CountedKeys {
    run: Arc<WriteRun>,
    scan: Arc<dyn ExecutionPlan>,
    partition: usize,
}

impl PartitionStream for CountedKeys {
    fn schema(&self) -> &SchemaRef {
        self.scan.properties().equivalence_properties().schema()
    }

    fn execute(&self, context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let (run, schema) = (Arc::clone(&self.run), self.scan.schema());
        let keys = match self.scan.execute(self.partition, context) {
            Ok(keys) => {
                keys.and_then(move |batch| ready(count_keys(&run, &batch).map(|()| batch).map_err(Into::into))).boxed()
            }
            Err(error) => futures::stream::once(ready(Err(error))).boxed(),
        };
        Box::pin(RecordBatchStreamAdapter::new(schema, keys))
    }
}

/// Reads the keys of one bucket number, of every partition.
async fn scan_bucket(
    target: &WriteTarget,
    context: &Arc<TaskContext>,
    parquet: &TableParquetOptions,
    plan: &ScanPlan,
    bucket: i32,
) -> Result<Arc<dyn ExecutionPlan>> {
    let table = target.table();
    let is_of = |file: &PlannedFile| file.file.bucket() == bucket;
    let plan = Arc::new(ScanPlan {
        snapshot: plan.snapshot.clone(),
        raw: plan.raw.iter().filter(|file| is_of(file)).cloned().collect(),
        sections: plan.sections.iter().filter(|section| section.files.iter().any(is_of)).cloned().collect(),
        groups: Vec::new(),
        counters: PlanCounters::default(),
    });
    let wanted = key_location_schema(target);
    let columns: Vec<usize> =
        wanted.fields().iter().filter_map(|field| table.schema().index_of(field.name())).collect();
    let read: Vec<usize> = columns.iter().copied().collect::<BTreeSet<_>>().into_iter().collect();
    let runtime = context.runtime_env();
    let factory = Arc::new(UnitFactory::try_new(Arc::clone(table), SystemColumns::None, &runtime, parquet.clone())?);
    let units = factory.units(&plan, Some(&read), None).await?;
    let partitions = context.session_config().target_partitions().min(plan.scanned().count()).max(1);
    let scan = Arc::new(LakeScanExec::new(Arc::clone(table), plan, factory, units, partitions, None));
    let exprs = columns.iter().zip(wanted.fields()).map(|(column, field)| {
        let at = read.iter().position(|read| read == column).unwrap_or_default();
        let expr: Arc<dyn PhysicalExpr> = Arc::new(Column::new(field.name(), at));
        ProjectionExpr { expr, alias: field.name().clone() }
    });
    let literal: Arc<dyn PhysicalExpr> = Arc::new(Literal::new(ScalarValue::Int32(Some(bucket))));
    let alias = wanted.field(wanted.fields().len() - 1).name().clone();
    let exprs = exprs.chain([ProjectionExpr { expr: literal, alias }]);
    Ok(Arc::new(ProjectionExec::try_new(exprs, scan)?))
}
