//! Columns of a query that are written out as constants.
//!
//! The engine casts a constant when it plans, with an error that names neither column nor row. [`as_written`] keeps it from that:
//! the value is cast where rows are written, like all others.

use arrow::datatypes::DataType;
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// Whether a column of a query is a constant, in some of its rows at least.
pub(super) fn is_constant(plan: &LogicalPlan, column: usize) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => match projection.expr.get(column) {
            Some(Expr::Alias(alias)) => matches!(*alias.expr, Expr::Literal(..) | Expr::Negative(_)),
            Some(expr) => matches!(expr, Expr::Literal(..) | Expr::Negative(_)),
            None => false,
        },
        LogicalPlan::Values(_) => true,
        LogicalPlan::SubqueryAlias(alias) => is_constant(&alias.input, column),
        LogicalPlan::Union(union) => union.inputs.iter().any(|input| is_constant(input, column)),
        _ => false,
    }
}

/// The same value, which the engine can't know before it is asked for.
pub(super) fn as_written(expr: Expr) -> Expr {
    ScalarUDF::from(AsWritten(Signature::any(1, Volatility::Volatile))).call(vec![expr])
}

/// The function that gives what it is given.
#[derive(Debug, PartialEq, Eq, Hash)]
struct AsWritten(Signature);

impl ScalarUDFImpl for AsWritten {
    fn name(&self) -> &'static str {
        "as_written"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments {
            [argument] => Ok(argument.clone()),
            _ => exec_err!("as_written takes one argument"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.as_slice() {
            [value] => Ok(value.clone()),
            _ => exec_err!("as_written takes one argument"),
        }
    }
}
