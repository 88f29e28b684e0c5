//! From a plan of files to a scan node.

use std::sync::Arc;

use datafusion::catalog::Session;
use datafusion::physical_expr::utils::{Guarantee, LiteralGuarantee};
use datafusion::physical_plan::ExecutionPlan;

use super::LakeScanExec;
use super::unit::{SystemColumns, UnitFactory};
use crate::error::Result;
use crate::plan::{ScanPlan, ScanRequest};
use crate::table::Table;

/// What the engine asks of a scan beside the rows.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    /// The session.
    pub(crate) state: &'a dyn Session,
    /// Positions of the wanted columns: those of the table, then the system columns; `None` for all.
    pub(crate) projection: Option<&'a [usize]>,
    /// How many rows are enough.
    pub(crate) limit: Option<usize>,
    /// The columns that are read beside those of the table.
    pub(crate) columns: SystemColumns,
    /// Whether the rows of a file that is not merged must follow each other as they lie in it.
    pub(crate) ordered: bool,
}

/// A scan of `plan`, which was made for `request`.
///
/// # Errors
/// Corrupt when a file of the plan can't be one, unsupported for a format or a place that can't be read.
pub(crate) async fn lake_scan(
    table: &Arc<Table>,
    plan: ScanPlan,
    request: &ScanRequest,
    asked: &Asked<'_>,
) -> Result<Arc<dyn ExecutionPlan>> {
    lake_scan_without(table, Arc::new(plan), None, request, asked).await
}

/// A scan of `plan` without the rows that are live by themselves in `minus` too.
///
/// # Errors
/// As [`lake_scan`].
pub(crate) async fn lake_scan_without(
    table: &Arc<Table>,
    plan: Arc<ScanPlan>,
    minus: Option<Arc<ScanPlan>>,
    request: &ScanRequest,
    asked: &Asked<'_>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let named = |error| table.at(error);
    let Asked { state, projection, limit, columns, ordered } = *asked;
    let config = state.config_options();
    let mut parquet = state.default_table_options().parquet.clone();
    let pins_key = request
        .filters
        .iter()
        .flat_map(LiteralGuarantee::analyze)
        .any(|found| found.guarantee == Guarantee::In && table.schema().primary_keys.contains(&found.column.name));
    // Few rows of many: the key is decoded first, the other columns only for the rows that are left.
    parquet.global.pushdown_filters |= pins_key;
    let factory = UnitFactory::try_new(Arc::clone(table), columns, state.runtime_env(), parquet);
    let factory = Arc::new(factory.map_err(named)?);
    let units = factory.units(&plan, projection, limit).await.map_err(named)?;
    let files = plan.scanned().count();
    let parts = plan.scanned_bytes() / (config.optimizer.repartition_file_min_size as u64).max(1);
    let partitions = state.config().target_partitions().min(files.max(parts as usize)).max(1);
    let scan = LakeScanExec::new(Arc::clone(table), plan, factory, units, partitions, limit);
    Ok(Arc::new(scan.without(minus).ordered(ordered)))
}
