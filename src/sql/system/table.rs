//! A system table as the engine sees it: a provider and a leaf node around a source of rows.
//!
//! ```text
//! SystemTable --scan--> RowSource at one snapshot --SystemExec--> Wanted --rows--> batches of the wanted columns
//! ```
//! A source asks [`Wanted::keep`] early which rows can pass, with the columns that it has at that point, and makes only the
//! columns that are asked for. The engine checks all conditions again above the scan.

use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, DataFusionError, Result as EngineResult, internal_err};
use datafusion::datasource::{TableProvider, TableType};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};

use super::SystemKind;
use crate::error::{Error, Result};
use crate::sql::travel::{TableState, zone_of};

/// Rows of a system table.
pub(crate) type RowStream = BoxStream<'static, Result<RecordBatch>>;

/// Where the rows of a system table come from.
pub(crate) trait RowSource: fmt::Debug + Send + Sync + 'static {
    /// The columns.
    fn schema(&self) -> SchemaRef;

    /// Batches made by [`Wanted::batch`]. Rows that can't pass may be left out.
    fn rows(self: Arc<Self>, wanted: Wanted) -> RowStream;
}

/// What a query wants of a system table.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    schema: SchemaRef,
    /// Names of the wanted columns, in the order of `schema`.
    columns: Vec<String>,
    filters: Vec<Arc<dyn PhysicalExpr>>,
    /// How many rows are enough.
    pub limit: Option<usize>,
    /// Rows of a batch.
    pub batch_size: usize,
    /// The session's time zone.
    pub zone: String,
}

impl Wanted {
    /// Which rows can pass, as far as the given columns tell. All columns are as long.
    ///
    /// # Errors
    /// Those of the conditions.
    pub(crate) fn keep(&self, known: &[(&str, ArrayRef)]) -> Result<Vec<bool>> {
        let rows = known.first().map_or(0, |(_, column)| column.len());
        let mut kept = vec![true; rows];
        if self.filters.is_empty() || rows == 0 {
            return Ok(kept);
        }
        let fields: Vec<Field> =
            known.iter().map(|(name, column)| Field::new(*name, column.data_type().clone(), true)).collect();
        let columns = known.iter().map(|(_, column)| Arc::clone(column)).collect();
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?;
        for filter in &self.filters {
            let columns = collect_columns(filter);
            if columns.is_empty() || !columns.iter().all(|column| known.iter().any(|(name, _)| *name == column.name()))
            {
                continue;
            }
            let bound = rebound(Arc::clone(filter), &batch.schema())?;
            let passes = bound.evaluate(&batch)?.into_array(rows)?;
            let Some(passes) = passes.as_boolean_opt() else { continue };
            for (kept, passes) in kept.iter_mut().zip(passes.iter()) {
                *kept &= passes == Some(true);
            }
        }
        Ok(kept)
    }

    /// Whether a condition speaks of `column` alone.
    pub(crate) fn filters_on(&self, column: &str) -> bool {
        self.filters.iter().any(|filter| {
            let columns = collect_columns(filter);
            !columns.is_empty() && columns.iter().all(|found| found.name() == column)
        })
    }

    /// Whether no other column than `column` is wanted or looked at by a condition.
    pub(crate) fn asks_only(&self, column: &str) -> bool {
        self.columns.iter().all(|wanted| wanted == column)
            && self.filters.iter().flat_map(collect_columns).all(|found| found.name() == column)
    }

    /// A batch of `rows` rows; `column` makes the columns that are wanted, by name.
    ///
    /// # Errors
    /// Those of `column`.
    pub(crate) fn batch(&self, rows: usize, mut column: impl FnMut(&str) -> Result<ArrayRef>) -> Result<RecordBatch> {
        let columns = self.columns.iter().map(|name| column(name)).collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }
}

#[cfg(test)]
impl Wanted {
    pub(super) fn for_test(schema: SchemaRef, limit: Option<usize>, batch_size: usize) -> Self {
        let columns = schema.fields().iter().map(|field| field.name().clone()).collect();
        Self { schema, columns, filters: Vec::new(), limit, batch_size, zone: "UTC".to_owned() }
    }
}

/// `expr` with its columns at their places in `schema`.
fn rebound(expr: Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Arc<dyn PhysicalExpr>> {
    let rebound = expr.transform(|node| {
        let Some(column) = node.downcast_ref::<Column>() else { return Ok(Transformed::no(node)) };
        let index = schema.index_of(column.name()).map_err(DataFusionError::from)?;
        Ok(Transformed::yes(Arc::new(Column::new(column.name(), index)) as Arc<dyn PhysicalExpr>))
    });
    Ok(rebound.data()?)
}

/// What a source answers for a column that it does not have.
pub(crate) fn unknown_column(name: &str) -> Error {
    Error::internal(format!("a system table has no column {name}"))
}

/// A system table, of a table or of a catalog.
#[derive(Debug)]
pub(crate) struct SystemTable {
    name: String,
    schema: SchemaRef,
    origin: Origin,
}

#[derive(Debug)]
enum Origin {
    /// Of a table, at the state that the query reads.
    Table { kind: SystemKind, state: TableState },
    /// Of a catalog.
    Catalog(Arc<dyn RowSource>),
}

impl SystemTable {
    /// The system table `kind` of a table.
    pub(crate) fn of_table(kind: SystemKind, state: TableState) -> Self {
        let name = format!("{}${}", state.table.identifier(), kind.name());
        let schema = kind.source(&state.table, None).schema();
        Self { name, schema, origin: Origin::Table { kind, state } }
    }

    /// The table `name` of a catalog's database `sys`.
    pub(crate) fn of_catalog(name: String, source: Arc<dyn RowSource>) -> Self {
        Self { name, schema: source.schema(), origin: Origin::Catalog(source) }
    }

    async fn source(&self, state: &dyn Session) -> Result<Arc<dyn RowSource>> {
        match &self.origin {
            Origin::Catalog(source) => Ok(Arc::clone(source)),
            Origin::Table { kind, state: table } => {
                let snapshot = if kind.travels() {
                    let options = table.options(state)?;
                    table.snapshot(state, &options).await?
                } else {
                    None
                };
                Ok(kind.source(&table.table, snapshot))
            }
        }
    }
}

#[async_trait]
impl TableProvider for SystemTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> EngineResult<Arc<dyn ExecutionPlan>> {
        let df_schema = DFSchema::try_from(Arc::clone(&self.schema))?;
        let filters = filters
            .iter()
            .map(|filter| state.create_physical_expr(filter.clone(), &df_schema))
            .collect::<EngineResult<Vec<_>>>()?;
        let schema = match projection {
            Some(columns) => Arc::new(self.schema.project(columns)?),
            None => Arc::clone(&self.schema),
        };
        let source = Box::pin(self.source(state)).await?;
        let wanted = Wanted {
            columns: schema.fields().iter().map(|field| field.name().clone()).collect(),
            schema,
            filters,
            limit,
            batch_size: state.config().batch_size(),
            zone: zone_of(state),
        };
        Ok(Arc::new(SystemExec::new(self.name.clone(), source, wanted)))
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> EngineResult<Vec<TableProviderFilterPushDown>> {
        Ok(filters
            .iter()
            .map(|filter| match filter.is_volatile() {
                true => TableProviderFilterPushDown::Unsupported,
                false => TableProviderFilterPushDown::Inexact,
            })
            .collect())
    }
}

/// Gives the rows of a system table.
#[derive(Debug)]
pub(crate) struct SystemExec {
    name: String,
    source: Arc<dyn RowSource>,
    wanted: Wanted,
    properties: Arc<PlanProperties>,
}

impl SystemExec {
    fn new(name: String, source: Arc<dyn RowSource>, wanted: Wanted) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&wanted.schema)),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self { name, source, wanted, properties: Arc::new(properties) }
    }
}

impl DisplayAs for SystemExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SystemExec: table={}, columns=[{}]", self.name, self.wanted.columns.join(", "))?;
        if !self.wanted.filters.is_empty() {
            let filters: Vec<String> = self.wanted.filters.iter().map(ToString::to_string).collect();
            write!(f, ", filters=[{}]", filters.join(", "))?;
        }
        match self.wanted.limit {
            Some(limit) => write!(f, ", limit={limit}"),
            None => Ok(()),
        }
    }
}

impl ExecutionPlan for SystemExec {
    fn name(&self) -> &'static str {
        "SystemExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> EngineResult<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> EngineResult<TreeNodeRecursion>,
    ) -> EngineResult<TreeNodeRecursion> {
        for filter in &self.wanted.filters {
            if f(filter)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> EngineResult<SendableRecordBatchStream> {
        if partition != 0 {
            return internal_err!("SystemExec has one partition, not {}", partition + 1);
        }
        let name = self.name.clone();
        let rows = Arc::clone(&self.source).rows(self.wanted.clone());
        let rows = rows.map_err(move |error| DataFusionError::from(named(error, &name)));
        let rows = match self.wanted.limit {
            Some(limit) => limited(rows.boxed(), limit),
            None => rows.boxed(),
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}

/// `error` with the system table's name, unless a table is named already.
fn named(error: Error, name: &str) -> Error {
    let has_table = error.context().iter().any(|(key, _)| *key == "table");
    if has_table { error } else { error.with("table", name.to_owned()) }
}

fn limited(
    rows: BoxStream<'static, EngineResult<RecordBatch>>,
    limit: usize,
) -> BoxStream<'static, EngineResult<RecordBatch>> {
    let mut left = limit;
    rows.map_ok(move |batch| {
        let taken = batch.num_rows().min(left);
        left -= taken;
        (batch.slice(0, taken), left)
    })
    .scan(false, |ended, item| {
        if *ended {
            return std::future::ready(None);
        }
        *ended = item.as_ref().map_or(true, |(_, left)| *left == 0);
        std::future::ready(Some(item.map(|(batch, _)| batch)))
    })
    .boxed()
}
