//! Exact numbers beside floats: `d > 1.5` compares doubles.
//!
//! The front end reads `1.5` as an exact number, as Flink and Spark do. The engine would then turn the float side into a
//! DECIMAL of 15 digits after the point, which NaN, infinities and large numbers do not fit and small ones lose their value in;
//! Flink and Spark compare as DOUBLE. This rule does so before the engine's own coercion.

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{Between, InList};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, cast};
use datafusion::optimizer::AnalyzerRule;

use arrow::datatypes::DataType;

/// Turns exact literals beside floats into doubles.
#[derive(Debug)]
pub(crate) struct ExactBesideFloat;

impl AnalyzerRule for ExactBesideFloat {
    fn name(&self) -> &'static str {
        "exact_beside_float"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|node| {
            let mut schema = merge_schema(&node.inputs());
            if node.inputs().is_empty() {
                schema.merge(node.schema());
            }
            node.map_expressions(|expr| expr.transform_up(|expr| rewrite(expr, &schema)))
        })
        .map(|transformed| transformed.data)
    }
}

fn rewrite(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    Ok(match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            if is_float(&left, schema) && is_exact(&right) {
                Transformed::yes(Expr::BinaryExpr(BinaryExpr::new(left, op, Box::new(double(*right)?))))
            } else if is_float(&right, schema) && is_exact(&left) {
                Transformed::yes(Expr::BinaryExpr(BinaryExpr::new(Box::new(double(*left)?), op, right)))
            } else {
                Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right }))
            }
        }
        Expr::Between(Between { expr, negated, low, high }) if is_float(&expr, schema) => {
            let (low, high) = (double(*low)?, double(*high)?);
            Transformed::yes(Expr::Between(Between::new(expr, negated, Box::new(low), Box::new(high))))
        }
        Expr::InList(InList { expr, list, negated }) if is_float(&expr, schema) => {
            let list = list.into_iter().map(double).collect::<Result<Vec<_>>>()?;
            Transformed::yes(Expr::InList(InList::new(expr, list, negated)))
        }
        other => Transformed::no(other),
    })
}

fn is_float(expr: &Expr, schema: &DFSchema) -> bool {
    // An expression whose type cannot be told yet is the engine's own business.
    matches!(expr.get_type(schema), Ok(DataType::Float32 | DataType::Float64))
}

fn is_exact(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(value, _) => matches!(value.data_type(), DataType::Decimal128(..) | DataType::Decimal256(..)),
        Expr::Negative(inner) => is_exact(inner),
        _ => false,
    }
}

fn double(expr: Expr) -> Result<Expr> {
    if !is_exact(&expr) {
        return Ok(expr);
    }
    Ok(match expr {
        Expr::Literal(value, metadata) => {
            // From the digits, so that the double is the nearest one.
            let text = value.to_string();
            match text.parse::<f64>() {
                Ok(number) => Expr::Literal(ScalarValue::Float64(Some(number)), metadata),
                Err(_) => cast(Expr::Literal(value, metadata), DataType::Float64),
            }
        }
        Expr::Negative(inner) => Expr::Negative(Box::new(double(*inner)?)),
        other => other,
    })
}
