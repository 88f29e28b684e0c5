//! The scan node: a leaf of our own around the engine's own sources.
//!
//! ```text
//! LakeScanExec
//!   plan      which files (ScanPlan)                       made once, shown by EXPLAIN
//!   units     one engine source a format and file schema   pushdowns change them
//!   prepared  live rows of all sections, sources with files  made by the first partition that runs
//! ```
//!
//! A bare engine source would lose the row selections and the column mapping when a plan is sent over a wire, so they are
//! made here, where the plan runs.

mod build;
mod column_stream;
mod fold_stream;
mod prepare;
mod show;
pub(crate) mod unit;

use std::fmt;
use std::sync::{Arc, OnceLock};

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{ColumnStatistics, DataFusionError, Result, Statistics, internal_err};
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::DynamicFilterTracking;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterPushdownPhase, FilterPushdownPropagation, PushedDown,
};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, stream::RecordBatchStreamAdapter,
};
use datafusion_datasource::source::DataSource;
use futures::{StreamExt, TryFutureExt, TryStreamExt};

pub(crate) use self::build::{Asked, lake_scan, lake_scan_without};
use self::prepare::{Preparation, Prepared};
use self::unit::{Unit, UnitFactory};
use crate::error::{Error, ErrorKind};
use crate::plan::{ScanPlan, SectionKind};
use crate::table::Table;

/// Scans the live rows of a table.
#[derive(Clone, Debug)]
pub struct LakeScanExec {
    pub(crate) table: Arc<Table>,
    pub(crate) plan: Arc<ScanPlan>,
    pub(crate) factory: Arc<UnitFactory>,
    pub(crate) units: Vec<Unit>,
    /// A plan whose live rows are left out: those of raw files and those of keys without other versions.
    minus: Option<Arc<ScanPlan>>,
    /// Whether the rows of a raw file follow each other in one partition.
    ordered: bool,
    /// Whether the plan has sections to fold.
    fold: bool,
    partitions: usize,
    limit: Option<usize>,
    properties: Arc<PlanProperties>,
    prepared: Arc<OnceLock<Preparation>>,
    pub(crate) metrics: ExecutionPlanMetricsSet,
}

impl LakeScanExec {
    /// A scan of `plan`, whose `units` were made by `factory`.
    pub(crate) fn new(
        table: Arc<Table>,
        plan: Arc<ScanPlan>,
        factory: Arc<UnitFactory>,
        units: Vec<Unit>,
        partitions: usize,
        limit: Option<usize>,
    ) -> Self {
        let properties = Self::properties_of(&units, partitions);
        let fold = plan.sections.iter().any(|section| section.kind == SectionKind::Fold);
        let metrics = ExecutionPlanMetricsSet::new();
        show::plan_metrics(&plan, &metrics);
        Self {
            table,
            plan,
            factory,
            units,
            minus: None,
            ordered: false,
            fold,
            partitions,
            limit,
            properties,
            prepared: Arc::new(OnceLock::new()),
            metrics,
        }
    }

    /// The same scan without the rows that are live in `minus` too.
    pub(crate) fn without(self, minus: Option<Arc<ScanPlan>>) -> Self {
        Self { minus, ..self }
    }

    /// The same scan, with the rows of a file that is not merged one after another as they lie in it.
    pub(crate) fn ordered(self, ordered: bool) -> Self {
        Self { ordered, ..self }
    }

    fn properties_of(units: &[Unit], partitions: usize) -> Arc<PlanProperties> {
        let schemas: Vec<SchemaRef> =
            units.iter().map(|unit| Arc::clone(unit.template.eq_properties().schema())).collect();
        // A column may hold NULL where the files of any unit may; marks of the sources are not the scan's.
        let fields: Vec<Field> = schemas.first().map_or_else(Vec::new, |first| {
            first
                .fields()
                .iter()
                .enumerate()
                .map(|(i, field)| {
                    let nullable = schemas.iter().any(|schema| schema.field(i).is_nullable());
                    Field::new(field.name(), field.data_type().clone(), nullable)
                })
                .collect()
        });
        let schema = Arc::new(Schema::new(fields));
        // What the source knows of its columns (constants of the projection) holds under either schema.
        let eq_properties = units
            .first()
            .and_then(|unit| unit.template.eq_properties().with_new_schema(Arc::clone(&schema)).ok())
            .unwrap_or_else(|| EquivalenceProperties::new(schema));
        // Never hash partitioning: buckets are not split as the engine would split them.
        Arc::new(
            PlanProperties::new(
                eq_properties,
                Partitioning::UnknownPartitioning(partitions),
                EmissionType::Incremental,
                Boundedness::Bounded,
            )
            .with_scheduling_type(SchedulingType::Cooperative),
        )
    }

    fn with_templates(&self, templates: Vec<Arc<dyn DataSource>>) -> Self {
        let units: Vec<Unit> =
            self.units.iter().zip(templates).map(|(unit, template)| Unit { template, ..unit.clone() }).collect();
        Self {
            properties: Self::properties_of(&units, self.partitions),
            units,
            prepared: Arc::new(OnceLock::new()),
            ..self.clone()
        }
    }

    /// What the scan gives, over the columns of its sources ([`UnitFactory::schema`]).
    fn output_exprs(&self) -> Result<Vec<Arc<dyn PhysicalExpr>>> {
        let config = self.units.first().and_then(|unit| unit.template.downcast_ref::<FileScanConfig>());
        match config.and_then(|config| config.file_source().projection()) {
            Some(projection) => Ok(projection.as_ref().iter().map(|expr| Arc::clone(&expr.expr)).collect()),
            None => internal_err!("the source of a scan has no projection"),
        }
    }

    /// The filters that the source which stands for column groups was given: they are applied above the scan as well.
    fn group_filter(&self) -> Option<Arc<dyn PhysicalExpr>> {
        let config = self.units.last()?.template.downcast_ref::<FileScanConfig>()?;
        config.file_source().filter()
    }

    /// What the scan reads of the table.
    pub fn plan(&self) -> &Arc<ScanPlan> {
        &self.plan
    }
}

impl DisplayAs for LakeScanExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show::fmt_scan(self, t, f)
    }
}

impl ExecutionPlan for LakeScanExec {
    fn name(&self) -> &'static str {
        "LakeScanExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for unit in &self.units {
            if unit.template.apply_expressions(f)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if partition >= self.partitions {
            return internal_err!("LakeScanExec has {} partitions, not {}", self.partitions, partition + 1);
        }
        let preparation = self.prepared.get_or_init(|| prepare::start(self, Arc::clone(&context))).clone();
        let schema = self.schema();
        let limit = self.limit;
        let name = format!("table {}", self.table.identifier());
        let stream = async move {
            let prepared: Arc<Prepared> = preparation.await.map_err(prepare::shared_error)?;
            prepared.stream(partition, context)
        }
        .try_flatten_stream()
        .map_err(move |error| named(error, &name));
        let declared = Arc::clone(&schema);
        let stream = stream.and_then(move |batch| std::future::ready(declared_as(&declared, &batch)));
        let stream = match limit {
            Some(limit) => limited(stream, limit).left_stream(),
            None => stream.right_stream(),
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        let mut metrics = self.metrics.clone_inner();
        for unit in &self.units {
            for metric in unit.template.metrics().clone_inner().iter() {
                metrics.push(Arc::clone(metric));
            }
        }
        Some(metrics)
    }

    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        let schema = self.schema();
        if partition.is_some() {
            return Ok(Arc::new(Statistics::new_unknown(&schema)));
        }
        let num_rows = match self.plan.exact_rows() {
            _ if self.limit.is_some() || self.minus.is_some() => Precision::Absent,
            Some(rows) => Precision::Exact(rows as usize),
            None => Precision::Inexact(self.plan.physical_rows() as usize),
        };
        Ok(Arc::new(Statistics {
            num_rows,
            total_byte_size: Precision::Inexact(self.plan.scanned_bytes() as usize),
            column_statistics: schema.fields().iter().map(|_| ColumnStatistics::new_unknown()).collect(),
        }))
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        let templates = self.units.iter().map(|unit| unit.template.with_fetch(limit)).collect::<Option<Vec<_>>>()?;
        Some(Arc::new(Self { limit, ..self.with_templates(templates) }))
    }

    fn fetch(&self) -> Option<usize> {
        self.limit
    }

    fn try_swapping_with_projection(&self, projection: &ProjectionExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let mut templates = Vec::with_capacity(self.units.len());
        for unit in &self.units {
            match unit.template.try_swapping_with_projection(projection.projection_expr())? {
                Some(template) => templates.push(template),
                None => return Ok(None),
            }
        }
        Ok(Some(Arc::new(self.with_templates(templates))))
    }

    fn handle_child_pushdown_result(
        &self,
        _phase: FilterPushdownPhase,
        child_pushdown_result: ChildPushdownResult,
        config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        let filters: Vec<Arc<dyn PhysicalExpr>> =
            child_pushdown_result.parent_filters.into_iter().map(|filter| filter.filter).collect();
        // The engine's dynamic filters of MIN and MAX leave out columns that are all NULL so far and so lose values of
        // theirs. A filter does not tell who made it: where aggregates make some, none is taken.
        let dynamic = |filter| DynamicFilterTracking::classify(filter).contains_dynamic_filter();
        if config.optimizer.enable_aggregate_dynamic_filter_pushdown && filters.iter().any(dynamic) {
            return Ok(FilterPushdownPropagation::with_parent_pushdown_result(vec![PushedDown::No; filters.len()]));
        }
        let mut pushed = vec![PushedDown::Yes; filters.len()];
        let mut templates = Vec::with_capacity(self.units.len());
        let mut changed = false;
        for unit in &self.units {
            let result = unit.template.try_pushdown_filters(filters.clone(), config)?;
            for (pushed, unit_pushed) in pushed.iter_mut().zip(&result.filters) {
                if matches!(unit_pushed, PushedDown::No) {
                    *pushed = PushedDown::No;
                }
            }
            changed |= result.updated_node.is_some();
            templates.push(result.updated_node.unwrap_or_else(|| Arc::clone(&unit.template)));
        }
        if self.fold || !self.plan.groups.is_empty() {
            // Folded rows and those of column groups do not pass through the sources, so that the filter has to stay above.
            pushed.fill(PushedDown::No);
        }
        let mut propagation = FilterPushdownPropagation::with_parent_pushdown_result(pushed);
        if changed {
            let node: Arc<dyn ExecutionPlan> = Arc::new(self.with_templates(templates));
            propagation = propagation.with_updated_node(node);
        }
        Ok(propagation)
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self { prepared: Arc::new(OnceLock::new()), ..Arc::unwrap_or_clone(self) }))
    }
}

/// `batch` under the schema of the scan.
fn declared_as(schema: &SchemaRef, batch: &RecordBatch) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), batch.columns().to_vec(), &options)?)
}

/// `error` with the table's name, unless it has it already, and with what to do where a file is gone.
fn named(error: DataFusionError, name: &str) -> DataFusionError {
    let error = match is_missing_file(&error) {
        true => error.context(
            "a file of the snapshot that is read is gone; where the snapshot has expired since the query was planned, run the \
             query again",
        ),
        false => error,
    };
    if error.to_string().contains(name) { error } else { error.context(name) }
}

/// Whether an error is about a file that is not there. Readers of files keep the store's error as text only.
fn is_missing_file(error: &DataFusionError) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if error.downcast_ref::<Error>().is_some_and(|error| error.kind() == ErrorKind::NotFound)
            || matches!(error.downcast_ref::<object_store::Error>(), Some(object_store::Error::NotFound { .. }))
        {
            return true;
        }
        cause = error.source();
    }
    let text = error.to_string();
    text.contains("Object at location") && text.contains("not found")
}

/// At most `limit` rows of `stream`.
fn limited(
    stream: impl futures::Stream<Item = Result<RecordBatch>> + Send + 'static,
    limit: usize,
) -> impl futures::Stream<Item = Result<RecordBatch>> + Send {
    let mut left = limit;
    stream.scan((), move |(), batch| {
        let item = match batch {
            _ if left == 0 => None,
            Ok(batch) => {
                let rows = batch.num_rows().min(left);
                left -= rows;
                Some(Ok(batch.slice(0, rows)))
            }
            Err(error) => Some(Err(error)),
        };
        std::future::ready(item)
    })
}
