//! Rows with their kinds: `$audit_log`, `$binlog`, and the changes between two states (`spec/data.md` 7.7 and 7.9).
//!
//! ```text
//! state of a table       merged, rows that retract kept         state_rows
//! changes of snapshots   files of each, not merged              changed_rows: Changes::Made
//! changes of states      both, without what they share          changed_rows: Changes::Between   diff.rs, bag.rs
//!     columns of the table, _VALUE_KIND [, _SEQUENCE_NUMBER]
//!        -> rowkind, columns           audit.rs
//!        -> rowkind, [before, after]   binlog.rs
//!        -> columns of +I and +U       the table itself: without_retracts
//! ```
//!
//! Imports everything below `sql`, the scan, and the engine's operators.

mod audit;
mod bag;
mod binlog;
mod diff;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use datafusion::catalog::Session;
use datafusion::common::{DFSchema, Result as EngineResult, ScalarValue};
use datafusion::logical_expr::{Expr, Operator};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Literal, col};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};

pub use audit::LakeChanges;
pub(crate) use audit::{AUDIT_LOG, BINLOG, ChangeTable};

use super::scan::unit::SystemColumns;
use super::scan::{Asked, lake_scan};
use super::travel::zone_of;
use super::zone;
use crate::error::Result;
use crate::plan::{Levels, ScanRequest, plan_changes, plan_scan};
use crate::spec::Snapshot;
use crate::spec::types::{SEQUENCE_NUMBER, VALUE_KIND, arrow_schema};
use crate::table::{Changes, Table};

/// What the engine asks of rows with kinds.
#[derive(Clone, Copy)]
pub(crate) struct ChangesAsked<'a> {
    /// The session.
    pub(crate) state: &'a dyn Session,
    /// Positions of the wanted columns of the table.
    pub(crate) columns: &'a [usize],
    /// Conditions over the table's columns; they may be used to leave out files.
    pub(crate) filters: &'a [Expr],
    /// Whether the sequence number is wanted.
    pub(crate) sequence: bool,
    /// Whether the rows of a file must follow each other as they lie in it.
    pub(crate) ordered: bool,
    /// The levels that a state is read of.
    pub(crate) levels: Levels,
}

impl ChangesAsked<'_> {
    /// The request for the rows of `table`, with those of the conditions that `wanted` takes.
    fn request(&self, table: &Table, wanted: impl Fn(&Expr) -> bool) -> EngineResult<ScanRequest> {
        let mut request = ScanRequest::everything(table, table.settings().scan.level0);
        let schema = DFSchema::try_from(Arc::clone(&request.schema))?;
        for filter in self.filters.iter().filter(|filter| wanted(filter)) {
            request.filters.push(self.state.create_physical_expr(filter.clone(), &schema)?);
        }
        Ok(request)
    }

    /// The projection of a scan of `table` to the wanted columns and, where files hold them, the system columns.
    fn projection(&self, table: &Table) -> Vec<usize> {
        let mut columns = self.columns.to_vec();
        if table.schema().has_primary_key() {
            let first = table.schema().fields.len();
            columns.extend(first..first + self.system(table).fields().len());
        }
        columns
    }

    /// The system columns that files of `table` hold.
    fn system(&self, table: &Table) -> SystemColumns {
        match table.schema().has_primary_key() {
            true => SystemColumns::Kinds { sequence: self.sequence },
            false => SystemColumns::None,
        }
    }
}

/// The rows of a state with their kinds: those of the table, and the retracts that are the newest versions of their keys.
///
/// # Errors
/// As [`plan_scan`].
pub(crate) async fn state_rows(
    table: &Arc<Table>,
    snapshot: Option<Arc<Snapshot>>,
    created_since: Option<i64>,
    asked: &ChangesAsked<'_>,
) -> EngineResult<Arc<dyn ExecutionPlan>> {
    let mut request = asked.request(table, |_| true)?;
    request.levels = asked.levels;
    request.created_since = created_since.map(|since| zone::wall_clock(since, &zone_of(asked.state))).transpose()?;
    let plan = Box::pin(plan_scan(table, snapshot, &request)).await.map_err(|error| table.at(error))?;
    scan(table, plan, &request, asked).await
}

/// The rows that tell `changes`, with their kinds.
///
/// # Errors
/// As [`plan_changes`] and [`plan_scan`].
pub(crate) async fn changed_rows(
    table: &Arc<Table>,
    changes: &Changes,
    asked: &ChangesAsked<'_>,
) -> EngineResult<Arc<dyn ExecutionPlan>> {
    match changes {
        Changes::Nothing => {
            let schema = arrow_schema(&table.schema().fields).project(asked.columns)?;
            with_kinds(Arc::new(EmptyExec::new(Arc::new(schema))), asked)
        }
        Changes::Made { after, until, by } => {
            let request = asked.request(table, |_| true)?;
            let plan = Box::pin(plan_changes(table, *after, *until, *by, &request)).await;
            scan(table, plan.map_err(|error| table.at(error))?, &request, asked).await
        }
        Changes::Between { before, after } => {
            Box::pin(diff::difference(table, before.clone(), Arc::clone(after), asked)).await
        }
    }
}

async fn scan(
    table: &Arc<Table>,
    plan: crate::plan::ScanPlan,
    request: &ScanRequest,
    asked: &ChangesAsked<'_>,
) -> EngineResult<Arc<dyn ExecutionPlan>> {
    let projection = asked.projection(table);
    let asked_of_scan = Asked {
        state: asked.state,
        projection: Some(&projection),
        limit: None,
        columns: asked.system(table),
        ordered: asked.ordered,
    };
    let rows = Box::pin(lake_scan(table, plan, request, &asked_of_scan)).await?;
    if table.schema().has_primary_key() { Ok(rows) } else { with_kinds(rows, asked) }
}

/// Rows of a table without keys, all of which are inserts.
fn with_kinds(rows: Arc<dyn ExecutionPlan>, asked: &ChangesAsked<'_>) -> EngineResult<Arc<dyn ExecutionPlan>> {
    let schema = rows.schema();
    let mut exprs: Vec<ProjectionExpr> = schema
        .fields()
        .iter()
        .map(|field| Ok(ProjectionExpr::new(col(field.name(), &schema)?, field.name().clone())))
        .collect::<EngineResult<_>>()?;
    exprs.push(ProjectionExpr::new(Arc::new(Literal::new(ScalarValue::Int8(Some(0)))), VALUE_KIND.to_owned()));
    if asked.sequence {
        let none: Arc<dyn PhysicalExpr> = Arc::new(Literal::new(ScalarValue::Int64(None)));
        exprs.push(ProjectionExpr::new(none, SEQUENCE_NUMBER.to_owned()));
    }
    Ok(Arc::new(ProjectionExec::try_new(exprs, rows)?))
}

/// The rows that were inserted or are the new state of an update, without the kind.
///
/// # Errors
/// Internal when `rows` have no kinds.
pub(crate) fn without_retracts(rows: Arc<dyn ExecutionPlan>) -> EngineResult<Arc<dyn ExecutionPlan>> {
    only_adds(rows, false)
}

/// The rows that are there, all of them as inserts.
fn as_inserts(rows: Arc<dyn ExecutionPlan>) -> EngineResult<Arc<dyn ExecutionPlan>> {
    only_adds(rows, true)
}

fn only_adds(rows: Arc<dyn ExecutionPlan>, with_kind: bool) -> EngineResult<Arc<dyn ExecutionPlan>> {
    let schema = rows.schema();
    let kind = col(VALUE_KIND, &schema)?;
    let is = |value: i8| -> Arc<dyn PhysicalExpr> {
        let value = Arc::new(Literal::new(ScalarValue::Int8(Some(value))));
        Arc::new(BinaryExpr::new(Arc::clone(&kind), Operator::Eq, value))
    };
    let adds = Arc::new(BinaryExpr::new(is(0), Operator::Or, is(2)));
    let filtered: Arc<dyn ExecutionPlan> = Arc::new(FilterExec::try_new(adds, rows)?);
    let exprs: Vec<ProjectionExpr> = schema
        .fields()
        .iter()
        .filter(|field| with_kind || field.name() != VALUE_KIND)
        .map(|field| {
            let expr = match field.name() == VALUE_KIND {
                true => Arc::new(Literal::new(ScalarValue::Int8(Some(0)))),
                false => col(field.name(), &schema)?,
            };
            Ok(ProjectionExpr::new(expr, field.name().clone()))
        })
        .collect::<EngineResult<_>>()?;
    Ok(Arc::new(ProjectionExec::try_new(exprs, filtered)?))
}

/// The texts of the kinds, by number.
const KIND_TEXTS: [&str; 4] = ["+I", "-U", "+U", "-D"];

/// The kind's text as an expression over rows with kinds.
fn kind_text(schema: &arrow::datatypes::Schema) -> EngineResult<Arc<dyn PhysicalExpr>> {
    let text = |kind: usize| -> Arc<dyn PhysicalExpr> {
        Arc::new(Literal::new(ScalarValue::Utf8View(Some(KIND_TEXTS[kind].to_owned()))))
    };
    let number = |kind: i8| -> Arc<dyn PhysicalExpr> { Arc::new(Literal::new(ScalarValue::Int8(Some(kind)))) };
    let cases = (1..4).map(|kind| (number(kind), text(kind as usize))).collect();
    datafusion::physical_expr::expressions::case(Some(col(VALUE_KIND, schema)?), cases, Some(text(0)))
}

/// A column of kinds as numbers.
fn kinds(column: &ArrayRef) -> Result<ArrayRef> {
    Ok(arrow::compute::cast(column, &DataType::Int8)?)
}
