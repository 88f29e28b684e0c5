//! A table as the engine sees it.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::{Constraint, Constraints, DFSchema, Result, not_impl_err};
use datafusion::datasource::{TableProvider, TableType};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;

use super::pins::SnapshotPins;
use super::scan::LakeScanExec;
use super::scan::unit::UnitFactory;
use super::settings::PaimonSettings;
use super::travel;
use crate::error::Error;
use crate::options::TableOptions;
use crate::plan::{ScanRequest, plan_scan};
use crate::spec::Snapshot;
use crate::spec::types::{arrow_schema, row_id_fields};
use crate::table::Table;

/// A table of a lake, readable by the engine: at its latest snapshot when a query starts, or at a given one.
#[derive(Debug)]
pub struct LakeTable {
    table: Arc<Table>,
    schema: SchemaRef,
    constraints: Constraints,
    /// The snapshot to read; `None` for the latest.
    snapshot: Option<Arc<Snapshot>>,
    pins: Arc<SnapshotPins>,
    /// Whether `_ROW_ID` and `_SEQUENCE_NUMBER` come after the columns.
    row_ids: bool,
}

impl LakeTable {
    /// The latest snapshot of `table`, whenever a query starts.
    pub fn new(table: Arc<Table>) -> Self {
        Self::with_pins(table, None, Arc::default())
    }

    /// One snapshot of `table`.
    pub fn at(table: Arc<Table>, snapshot: Arc<Snapshot>) -> Self {
        Self::with_pins(table, Some(snapshot), Arc::default())
    }

    pub(crate) fn with_pins(table: Arc<Table>, snapshot: Option<Arc<Snapshot>>, pins: Arc<SnapshotPins>) -> Self {
        let schema = arrow_schema(&table.schema().fields);
        let keys: Option<Vec<usize>> =
            table.schema().primary_keys.iter().map(|key| table.schema().index_of(key)).collect();
        let constraints = match keys {
            Some(keys) if !keys.is_empty() && key_is_unique(&table) => {
                Constraints::new_unverified(vec![Constraint::PrimaryKey(keys)])
            }
            _ => Constraints::default(),
        };
        Self { table, schema, constraints, snapshot, pins, row_ids: false }
    }

    /// The same rows with their ids: `_ROW_ID` and `_SEQUENCE_NUMBER` come after the columns (`t$row_tracking`).
    ///
    /// # Errors
    /// Invalid when the table has no row ids.
    pub fn with_row_ids(self) -> crate::error::Result<Self> {
        if !self.table.settings().row_tracking {
            return Err(self.table.at(Error::invalid("the table has no row ids; row-tracking.enabled is not set")));
        }
        let fields = self.table.schema().fields.iter().chain(&row_id_fields()).cloned().collect::<Vec<_>>();
        Ok(Self { schema: arrow_schema(&fields), row_ids: true, ..self })
    }

    /// The table behind.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// The table's options with what `SET paimon.*` lays over them.
    fn options(&self, state: &dyn Session) -> Result<TableOptions> {
        let settings = PaimonSettings::of(state.config_options());
        if settings.is_empty() {
            return Ok(self.table.settings().clone());
        }
        // A hint wins over the session.
        let mut dynamic = settings;
        dynamic.extend(self.table.dynamic_options().clone());
        let named = |error| self.table.at(error);
        Ok(TableOptions::new(&self.table.schema().options, &dynamic).map_err(named)?)
    }

    fn on_partitions(&self, filter: &Expr) -> bool {
        let columns = filter.column_refs();
        !columns.is_empty()
            && !filter.is_volatile()
            && columns.iter().all(|column| self.table.schema().partition_keys.contains(&column.name))
    }
}

#[async_trait]
impl TableProvider for LakeTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn constraints(&self) -> Option<&Constraints> {
        Some(&self.constraints)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let named = |error| self.table.at(error);
        let options = self.options(state)?;
        let snapshot = match &self.snapshot {
            Some(snapshot) => Some(Arc::clone(snapshot)),
            None if travel::is_asked(&options) => travel::snapshot(&self.table, &options).await?,
            None => self.pins.latest(&self.table, state.execution_props().query_execution_start_time).await?,
        };
        let df_schema = DFSchema::try_from(Arc::clone(&self.schema))?;
        let filters = filters
            .iter()
            .map(|filter| state.create_physical_expr(filter.clone(), &df_schema))
            .collect::<Result<Vec<Arc<dyn PhysicalExpr>>>>()?;
        let request = ScanRequest {
            schema: Arc::clone(&self.schema),
            filters,
            level0: options.scan.level0,
            top_level_only: false,
            row_ids: self.row_ids,
        };
        let plan = Arc::new(Box::pin(plan_scan(&self.table, snapshot, &request)).await.map_err(named)?);
        let config = state.config_options();
        let factory = Arc::new(
            UnitFactory::try_new(
                Arc::clone(&self.table),
                self.row_ids,
                state.runtime_env(),
                state.default_table_options().parquet.clone(),
            )
            .map_err(named)?,
        );
        let units = factory.units(&plan, projection.map(Vec::as_slice), limit).await.map_err(named)?;
        let files = plan.scanned().count();
        let parts = plan.scanned_bytes() / (config.optimizer.repartition_file_min_size as u64).max(1);
        let partitions = state.config().target_partitions().min(files.max(parts as usize)).max(1);
        Ok(Arc::new(LakeScanExec::new(Arc::clone(&self.table), plan, factory, units, partitions, limit)))
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(filters
            .iter()
            .map(|filter| {
                if filter.is_volatile() {
                    TableProviderFilterPushDown::Unsupported
                } else if self.on_partitions(filter) {
                    TableProviderFilterPushDown::Exact
                } else {
                    TableProviderFilterPushDown::Inexact
                }
            })
            .collect())
    }

    async fn insert_into(
        &self,
        _state: &dyn Session,
        _input: Arc<dyn ExecutionPlan>,
        _op: datafusion::logical_expr::dml::InsertOp,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        not_impl_err!("INSERT into table {}: this version reads tables only", self.table.identifier())
    }
}

/// Whether a read gives each primary key once: not where rows may move between partitions unseen (a key without the
/// partition columns in fixed buckets is unique in its partition only, `spec/metadata.md 2.8`).
fn key_is_unique(table: &Table) -> bool {
    let schema = table.schema();
    schema.partition_keys.iter().all(|key| schema.primary_keys.contains(key)) && !table.settings().pk_clustering_override
}
