//! `$audit_log` and `$binlog` as the engine sees them.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::{DataFusionError, Result as EngineResult};
use datafusion::datasource::{TableProvider, TableType};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::physical_expr::expressions::col;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};

use super::binlog::BinlogExec;
use super::{ChangesAsked, as_inserts, changed_rows, kind_text, state_rows};
use crate::plan::{FeedStep, Levels};
use crate::spec::types::{SEQUENCE_NUMBER, arrow_schema};
use crate::sql::travel::TableState;
use crate::table::{ReadFrom, Table};

/// The system table that shows rows with their kinds.
pub(crate) const AUDIT_LOG: &str = "audit_log";
/// The system table that shows an update as one row.
pub(crate) const BINLOG: &str = "binlog";

/// The column of the kind.
const ROW_KIND: &str = "rowkind";

/// `t$audit_log`: `rowkind`, the sequence number where the table asks for it, and the columns of the table. `t$binlog`: the
/// same with every column as a list, of the values before and after where a row was updated.
#[derive(Debug)]
pub(crate) struct ChangeTable {
    state: TableState,
    /// Whether the columns are lists.
    binlog: bool,
    sequence: bool,
    schema: SchemaRef,
    /// What is read, whatever the options say.
    fixed: Option<FeedStep>,
}

impl ChangeTable {
    /// `$audit_log` of a table.
    pub(crate) fn audit_log(state: TableState) -> Self {
        Self::new(state, false)
    }

    /// `$binlog` of a table.
    pub(crate) fn binlog(state: TableState) -> Self {
        Self::new(state, true)
    }

    fn new(state: TableState, binlog: bool) -> Self {
        let table = &state.table;
        let sequence = table.settings().sequence_number_in_changes && table.schema().has_primary_key();
        let mut fields = vec![Arc::new(Field::new(ROW_KIND, DataType::Utf8View, true))];
        if sequence {
            fields.push(Arc::new(Field::new(SEQUENCE_NUMBER, DataType::Int64, true)));
        }
        let nested = |table: &Table| -> Vec<Arc<Field>> {
            let lists = table.schema().fields.iter().map(|field| {
                let element = Field::new("element", field.data_type.to_arrow_nested(), true);
                Arc::new(Field::new(field.name.clone(), DataType::List(Arc::new(element)), true))
            });
            lists.collect()
        };
        if binlog {
            fields.extend(nested(table));
        } else {
            fields.extend(arrow_schema(&table.schema().fields).fields().iter().map(Arc::clone));
        }
        Self { sequence, binlog, schema: Arc::new(Schema::new(fields)), state, fixed: None }
    }

    /// How many columns come before the table's.
    fn leading(&self) -> usize {
        1 + usize::from(self.sequence)
    }

    /// Whether a condition is on columns of the table alone.
    fn on_table(&self, filter: &Expr) -> bool {
        let table = self.state.table.schema();
        let columns = filter.column_refs();
        !self.binlog
            && !filter.is_volatile()
            && !columns.is_empty()
            && columns.iter().all(|column| table.field(&column.name).is_some())
            // A column of the table may be called as one of the leading ones.
            && columns.iter().all(|column| {
                self.schema.fields().iter().filter(|field| *field.name() == column.name).count() == 1
            })
    }
}

#[async_trait]
impl TableProvider for ChangeTable {
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
        _limit: Option<usize>,
    ) -> EngineResult<Arc<dyn ExecutionPlan>> {
        let table = &self.state.table;
        let (from, levels) = match &self.fixed {
            Some(step) => (step.read.clone(), step.levels),
            None => {
                let options = self.state.options(state)?;
                (Box::pin(self.state.read_from(state, &options)).await?, Levels::All)
            }
        };
        let all: Vec<usize> = (0..self.schema.fields().len()).collect();
        let wanted = projection.map_or(all.as_slice(), Vec::as_slice);
        // The columns of the table that are wanted, each once.
        let mut columns: Vec<usize> = wanted.iter().filter_map(|column| column.checked_sub(self.leading())).collect();
        columns.sort_unstable();
        columns.dedup();
        let ordered = self.binlog;
        let asked = ChangesAsked { state, columns: &columns, filters, sequence: self.sequence, ordered, levels };
        let rows = match &from {
            ReadFrom::State { snapshot, created_since } => {
                let rows = Box::pin(state_rows(table, snapshot.clone(), *created_since, &asked)).await?;
                // A feed starts with what is there, not with what was deleted before.
                if self.fixed.is_some() { as_inserts(rows)? } else { rows }
            }
            ReadFrom::Changes(changes) => Box::pin(changed_rows(table, changes, &asked)).await?,
        };
        if self.binlog {
            return BinlogExec::try_new(rows, Arc::new(self.schema.project(wanted)?));
        }
        let schema = rows.schema();
        let exprs = wanted.iter().map(|&column| {
            let name = self.schema.field(column).name();
            let expr = if column == 0 { kind_text(&schema)? } else { column_of(&schema, column, &columns, self)? };
            Ok(ProjectionExpr::new(expr, name.clone()))
        });
        let exprs = exprs.collect::<EngineResult<Vec<_>>>()?;
        Ok(Arc::new(ProjectionExec::try_new(exprs, rows)?))
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> EngineResult<Vec<TableProviderFilterPushDown>> {
        Ok(filters
            .iter()
            .map(|filter| match self.on_table(filter) {
                true => TableProviderFilterPushDown::Inexact,
                false => TableProviderFilterPushDown::Unsupported,
            })
            .collect())
    }
}

/// Column `column` of the log in rows that hold `columns` of the table first.
fn column_of(
    schema: &Schema,
    column: usize,
    columns: &[usize],
    log: &ChangeTable,
) -> EngineResult<Arc<dyn datafusion::physical_expr::PhysicalExpr>> {
    let Some(of_table) = column.checked_sub(log.leading()) else { return col(SEQUENCE_NUMBER, schema) };
    let position = columns
        .binary_search(&of_table)
        .map_err(|_| DataFusionError::Internal(format!("column {of_table} of the table is wanted and was not read")))?;
    let name = schema.field(position).name();
    Ok(Arc::new(datafusion::physical_expr::expressions::Column::new(name, position)))
}

/// The rows of one step of a [`ChangeFeed`](crate::plan::ChangeFeed), as `$audit_log` shows rows: `rowkind` and the columns of
/// the table. Rows that a state holds are inserts.
#[derive(Debug)]
pub struct LakeChanges(ChangeTable);

impl LakeChanges {
    /// The rows of `step` of `table`.
    pub fn new(table: Arc<Table>, step: FeedStep) -> Self {
        let changes = ChangeTable::audit_log(TableState { table, named: None, pins: Arc::default() });
        Self(ChangeTable { fixed: Some(step), ..changes })
    }
}

#[async_trait]
impl TableProvider for LakeChanges {
    fn schema(&self) -> SchemaRef {
        self.0.schema()
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
        self.0.scan(state, projection, filters, limit).await
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> EngineResult<Vec<TableProviderFilterPushDown>> {
        self.0.supports_filters_pushdown(filters)
    }
}
