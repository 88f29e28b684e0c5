//! Constants on their way into a table.
//!
//! The engine casts a constant when it plans, with an error that names neither table nor column. [`LakeConstants`] keeps those
//! from it that do not fit:
//!
//! ```text
//! INSERT INTO t SELECT 'x'      ->  CAST(as_written('x') AS INT)     cast where rows are written (`strict`), like all values
//! INSERT INTO t VALUES ('x')    ->  as_written('x') INTO column      cast by the function itself: rows of VALUES are no columns
//! ```
//!
//! Imports `strict`, the tables that are written to and the engine's plans.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::{
    ColumnarValue, DmlStatement, Expr, LogicalPlan, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    TableSource, Values, Volatility, WriteOp,
};
use datafusion::optimizer::AnalyzerRule;

use super::strict::IntoColumn;
use crate::sql::clocks::other_zone;
use crate::sql::dml::ChangeSink;
use crate::sql::provider::LakeTable;
use crate::table::Table;

/// Lets constants that do not fit their column fail where the column is known.
#[derive(Debug, Default)]
pub(crate) struct LakeConstants {
    /// Whether clocks are those of the session's zone, as in a session of ours.
    clocks: bool,
}

impl LakeConstants {
    /// What the rule is known by.
    pub(crate) const NAME: &str = "lake_constants";

    /// The rule of a session whose clocks are those of its zone.
    pub(crate) fn with_clocks() -> Self {
        Self { clocks: true }
    }
}

impl AnalyzerRule for LakeConstants {
    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        let guarded = plan.transform_down(|node| match node {
            LogicalPlan::Dml(statement) if matches!(statement.op, WriteOp::Insert(_)) => {
                let input = guarded(&statement, self.clocks.then(|| other_zone(config)).flatten())?;
                let changed = input.is_some();
                let input = input.map_or_else(|| Arc::clone(&statement.input), Arc::new);
                let statement = LogicalPlan::Dml(DmlStatement { input, ..statement });
                Ok(Transformed::new(statement, changed, TreeNodeRecursion::Jump))
            }
            other => Ok(Transformed::no(other)),
        })?;
        Ok(guarded.data)
    }

    fn name(&self) -> &'static str {
        Self::NAME
    }
}

/// The input of a statement that writes to a lake table, whose last node casts into the columns.
fn guarded(statement: &DmlStatement, zone: Option<&str>) -> Result<Option<LogicalPlan>> {
    let LogicalPlan::Projection(top) = statement.input.as_ref() else { return Ok(None) };
    let Some(table) = table_of(&statement.target) else { return Ok(None) };
    let mut guarded = top.clone();
    let fields = top.schema.fields();
    if let LogicalPlan::Values(values) = top.input.as_ref() {
        let mut columns = vec![None; values.schema.fields().len()];
        for (expr, field) in top.expr.iter().zip(fields) {
            // What the engine has cast in the rows already is taken as it is here.
            if let Expr::Column(column) = expr.clone().unalias()
                && let Some(at) = values.schema.maybe_index_of_column(&column)
            {
                let column = IntoColumn::new(&table, field.name(), field.data_type());
                columns[at] = Some(match zone {
                    Some(zone) => column.with_clocks_in(zone),
                    None => column,
                });
            }
        }
        let values = Values { schema: Arc::clone(&values.schema), values: rows_into(&columns, values) };
        guarded.input = Arc::new(LogicalPlan::Values(values));
        return Ok(Some(LogicalPlan::Projection(guarded)));
    }
    let exprs = top.expr.iter().zip(fields);
    let exprs = exprs.map(|(expr, field)| guarded_cast(expr.clone(), &top.input, field.data_type()));
    guarded.expr = exprs.collect::<Result<_>>()?;
    Ok(Some(LogicalPlan::Projection(guarded)))
}

/// The lake table that a statement writes to.
fn table_of(target: &Arc<dyn TableSource>) -> Option<Arc<Table>> {
    let provider = source_as_provider(target).ok()?;
    let lake = provider.downcast_ref::<LakeTable>().map(LakeTable::table);
    lake.or_else(|| provider.downcast_ref::<ChangeSink>().map(ChangeSink::table)).map(Arc::clone)
}

/// Rows of VALUES whose casts into the columns name them.
fn rows_into(columns: &[Option<IntoColumn>], values: &Values) -> Vec<Vec<Expr>> {
    let into = |expr: &Expr, column: &Option<IntoColumn>| match (expr, column) {
        (Expr::Cast(cast), Some(column)) if !literal_fits(&cast.expr, column.data_type()) => {
            as_written(cast.expr.as_ref().clone(), Some(column.clone()))
        }
        _ => expr.clone(),
    };
    values.values.iter().map(|row| row.iter().zip(columns).map(|(expr, column)| into(expr, column)).collect()).collect()
}

/// A cast into a column, whose constants the engine does not know before rows are written.
fn guarded_cast(expr: Expr, input: &LogicalPlan, to: &DataType) -> Result<Expr> {
    if matches!(expr.clone().unalias(), Expr::Column(_)) {
        return Ok(expr);
    }
    let guarded = expr.transform_down(|expr| match expr {
        Expr::Column(column) => Ok(match input.schema().maybe_index_of_column(&column) {
            Some(at) if is_constant(input, at) && !fits(input, at, to) => {
                Transformed::new(as_written(Expr::Column(column), None), true, TreeNodeRecursion::Jump)
            }
            _ => Transformed::no(Expr::Column(column)),
        }),
        other => Ok(Transformed::no(other)),
    })?;
    Ok(guarded.data)
}

/// Whether a column of a query is written out, in some of its rows at least.
pub(crate) fn is_written_out(plan: &LogicalPlan, column: usize) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => match projection.expr.get(column) {
            Some(Expr::Alias(alias)) => matches!(*alias.expr, Expr::Literal(..) | Expr::Negative(_)),
            Some(expr) => matches!(expr, Expr::Literal(..) | Expr::Negative(_)),
            None => false,
        },
        LogicalPlan::Values(_) => true,
        LogicalPlan::SubqueryAlias(alias) => is_written_out(&alias.input, column),
        LogicalPlan::Union(union) => union.inputs.iter().any(|input| is_written_out(input, column)),
        _ => false,
    }
}

/// Whether the engine could compute a column without rows, in some of its rows at least. It does not look into VALUES.
fn is_constant(plan: &LogicalPlan, column: usize) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => {
            projection.expr.get(column).is_some_and(|expr| needs_no_row(expr, &projection.input))
        }
        LogicalPlan::SubqueryAlias(alias) => is_constant(&alias.input, column),
        LogicalPlan::Filter(filter) => is_constant(&filter.input, column),
        LogicalPlan::Sort(sort) => is_constant(&sort.input, column),
        LogicalPlan::Limit(limit) => is_constant(&limit.input, column),
        LogicalPlan::Union(union) => union.inputs.iter().any(|input| is_constant(input, column)),
        _ => false,
    }
}

fn needs_no_row(expr: &Expr, input: &LogicalPlan) -> bool {
    let asks_more = |expr: &Expr| {
        Ok(matches!(
            expr,
            Expr::ScalarSubquery(_) | Expr::InSubquery(_) | Expr::Exists(_) | Expr::OuterReferenceColumn(..)
        ))
    };
    let of_constant = |column| {
        let at = input.schema().maybe_index_of_column(column);
        at.is_some_and(|at| is_constant(input, at))
    };
    !expr.is_volatile() && !expr.exists(asks_more).unwrap_or(true) && expr.column_refs().into_iter().all(of_constant)
}

/// Whether a constant column is known to fit a type.
fn fits(plan: &LogicalPlan, column: usize, to: &DataType) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => projection.expr.get(column).is_some_and(|expr| literal_fits(expr, to)),
        LogicalPlan::SubqueryAlias(alias) => fits(&alias.input, column, to),
        LogicalPlan::Union(union) => union.inputs.iter().all(|input| fits(input, column, to)),
        _ => false,
    }
}

fn literal_fits(expr: &Expr, to: &DataType) -> bool {
    match expr {
        Expr::Alias(alias) => literal_fits(&alias.expr, to),
        Expr::Literal(value, _) => value.cast_to(to).is_ok(),
        _ => false,
    }
}

/// The same value, which the engine can't know before it is asked for, as one of `into` where that is told.
fn as_written(expr: Expr, into: Option<IntoColumn>) -> Expr {
    ScalarUDF::from(AsWritten { into, signature: Signature::any(1, Volatility::Volatile) }).call(vec![expr])
}

/// The function that gives what it is given.
#[derive(Debug, PartialEq, Eq, Hash)]
struct AsWritten {
    into: Option<IntoColumn>,
    signature: Signature,
}

impl ScalarUDFImpl for AsWritten {
    fn name(&self) -> &'static str {
        "as_written"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match (&self.into, arguments) {
            (Some(column), [_]) => Ok(column.data_type().clone()),
            (None, [argument]) => Ok(argument.clone()),
            _ => exec_err!("as_written takes one argument"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value] = args.args.as_slice() else { return exec_err!("as_written takes one argument") };
        let Some(column) = &self.into else { return Ok(value.clone()) };
        let array = column.cast(&value.to_array(args.number_rows)?)?;
        Ok(match value {
            ColumnarValue::Scalar(_) => ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?),
            ColumnarValue::Array(_) => ColumnarValue::Array(array),
        })
    }
}
