//! Casts into the columns of a table: a value that does not fit is an error that names the column and the value, where the
//! engine's own names neither.

use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType as ArrowType, FieldRef, Schema, SchemaRef};
use arrow::util::display::array_value_to_string;
use datafusion::common::Result;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::CastExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};

use crate::error::Error;

/// The plan with the casts of its last projection made strict, for the columns of `schema`.
pub(crate) fn with_strict_casts(input: Arc<dyn ExecutionPlan>, schema: &SchemaRef) -> Result<Arc<dyn ExecutionPlan>> {
    let Some(projection) = input.downcast_ref::<ProjectionExec>() else { return Ok(input) };
    let mut changed = false;
    let exprs: Vec<ProjectionExpr> = projection
        .expr()
        .iter()
        .enumerate()
        .map(|(index, item)| {
            let strict = item.expr.downcast_ref::<CastExpr>().zip(schema.fields().get(index)).map(|(cast, field)| {
                changed = true;
                let column = field.name().clone();
                let (expr, to) = (Arc::clone(cast.expr()), cast.cast_type().clone());
                Arc::new(StrictCast { expr, to, column }) as Arc<dyn PhysicalExpr>
            });
            ProjectionExpr { expr: strict.unwrap_or_else(|| Arc::clone(&item.expr)), alias: item.alias.clone() }
        })
        .collect();
    if !changed {
        return Ok(input);
    }
    Ok(Arc::new(ProjectionExec::try_new(exprs, Arc::clone(projection.input()))?))
}

/// A cast into a column.
#[derive(Debug, Clone)]
struct StrictCast {
    expr: Arc<dyn PhysicalExpr>,
    to: ArrowType,
    column: String,
}

impl PartialEq for StrictCast {
    fn eq(&self, other: &Self) -> bool {
        self.expr.eq(&other.expr) && self.to == other.to && self.column == other.column
    }
}

impl Eq for StrictCast {}

impl Hash for StrictCast {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.expr.hash(state);
        self.to.hash(state);
        self.column.hash(state);
    }
}

impl fmt::Display for StrictCast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CAST({} AS {})", self.expr, self.to)
    }
}

pub(super) fn strict() -> CastOptions<'static> {
    CastOptions { safe: false, ..CastOptions::default() }
}

/// Says which value does not fit its column.
pub(super) fn no_value(column: &str, values: &ArrayRef, row: usize, to: &ArrowType) -> String {
    let text = array_value_to_string(values, row).unwrap_or_default();
    format!("column {column}: '{text}' is no {to}")
}

impl StrictCast {
    fn cast(&self, values: &ArrayRef) -> Result<ArrayRef> {
        match cast_with_options(values, &self.to, &strict()) {
            Ok(cast) => Ok(cast),
            Err(error) => Err(self.name(values, error).into()),
        }
    }

    /// The first value that can't be cast.
    fn name(&self, values: &ArrayRef, error: arrow::error::ArrowError) -> Error {
        let (column, to) = (&self.column, &self.to);
        for row in 0..values.len() {
            let value = values.slice(row, 1);
            if cast_with_options(&value, to, &strict()).is_err() {
                return Error::invalid(no_value(column, values, row, to)).with_source(error);
            }
        }
        Error::invalid(format!("column {column}: a value is no {to}")).with_source(error)
    }
}

impl PhysicalExpr for StrictCast {
    fn data_type(&self, _input_schema: &Schema) -> Result<ArrowType> {
        Ok(self.to.clone())
    }

    fn nullable(&self, input_schema: &Schema) -> Result<bool> {
        self.expr.nullable(input_schema)
    }

    fn return_field(&self, input_schema: &Schema) -> Result<FieldRef> {
        let field = self.expr.return_field(input_schema)?;
        Ok(Arc::new(field.as_ref().clone().with_data_type(self.to.clone())))
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let values = self.expr.evaluate(batch)?.into_array(batch.num_rows())?;
        Ok(ColumnarValue::Array(self.cast(&values)?))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.expr]
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        let [expr] = <[_; 1]>::try_from(children).map_err(|_| Error::internal("a cast has one operand"))?;
        Ok(Arc::new(Self { expr, ..Arc::unwrap_or_clone(self) }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
