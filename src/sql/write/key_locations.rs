//! The keys of a table with the partition and bucket that each lies in: what a write needs to know whose keys may move
//! (`spec/data.md 3.6`).

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::catalog::Session;
use datafusion::common::{Result, ScalarValue};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::union::UnionExec;

use crate::options::Level0;
use crate::plan::{PlanCounters, PlannedFile, ScanPlan, ScanRequest, plan_scan};
use crate::sql::scan::LakeScanExec;
use crate::sql::scan::unit::{SystemColumns, UnitFactory};
use crate::table::Table;
use crate::write::{WriteTarget, key_location_schema};

/// Reads the keys of a table's latest snapshot, as [`key_location_schema`] has them. `None` when it has none.
pub(crate) async fn key_locations(state: &dyn Session, target: &WriteTarget) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let table = target.table();
    let snapshot = table.snapshot(None).await?;
    let request = ScanRequest::everything(table, Level0::Merge);
    let plan = Box::pin(plan_scan(table, snapshot, &request)).await.map_err(|error| table.at(error))?;
    let buckets: BTreeSet<i32> = plan.scanned().map(|file| file.file.bucket()).collect();
    let mut scans = Vec::with_capacity(buckets.len());
    for bucket in buckets {
        scans.push(scan_bucket(state, table, target, &plan, bucket).await?);
    }
    Ok(match scans.len() {
        0 | 1 => scans.pop(),
        _ => Some(UnionExec::try_new(scans)?),
    })
}

/// Reads the keys of one bucket number, of every partition.
async fn scan_bucket(
    state: &dyn Session,
    table: &Arc<Table>,
    target: &WriteTarget,
    plan: &ScanPlan,
    bucket: i32,
) -> Result<Arc<dyn ExecutionPlan>> {
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
    let parquet = state.default_table_options().parquet.clone();
    let factory = Arc::new(UnitFactory::try_new(Arc::clone(table), SystemColumns::None, state.runtime_env(), parquet)?);
    let units = factory.units(&plan, Some(&read), None).await?;
    let partitions = state.config().target_partitions().min(plan.scanned().count()).max(1);
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
