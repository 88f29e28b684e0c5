//! Casts into the columns of a table: a value that does not fit is an error that names the column and the value, where the
//! engine's own names neither.

use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, UInt32Array};
use arrow::compute::{CastOptions, cast_with_options, take};
use arrow::datatypes::{DataType as ArrowType, FieldRef, Float32Type, Float64Type, Schema, SchemaRef};
use arrow::util::display::array_value_to_string;
use datafusion::common::Result;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::CastExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};

use crate::error::Error;
use crate::spec::DataType;
use crate::sql::clocks::{ClockCast, between_clocks};
use crate::table::Table;

/// What the new values of a statement that changes rows are called, before the name of the column.
const NEW: &str = "new ";

/// A column that values are cast into.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct IntoColumn {
    /// The names of the table and of the column.
    table: String,
    column: String,
    /// The type in the table's words.
    shown: String,
    data_type: ArrowType,
    /// The zone whose clocks values show, where it is not that of the column.
    zone: Option<String>,
}

impl IntoColumn {
    /// The column `name` of `table`, whose values are `data_type` to the engine.
    pub(crate) fn new(table: &Table, name: &str, data_type: &ArrowType) -> Self {
        // Statements that change rows have the old values beside the new ones.
        let field = table.schema().field(name).or_else(|| table.schema().field(name.strip_prefix(NEW)?));
        Self {
            table: table.identifier().to_string(),
            column: field.map_or(name, |field| &field.name).to_owned(),
            shown: field.map_or_else(|| data_type.to_string(), |field| shown(&field.data_type)),
            data_type: data_type.clone(),
            zone: None,
        }
    }

    /// The same for values that a clock shows in `zone`.
    pub(super) fn with_clocks_in(self, zone: &str) -> Self {
        Self { zone: Some(zone.to_owned()), ..self }
    }

    /// The engine's type.
    pub(crate) fn data_type(&self) -> &ArrowType {
        &self.data_type
    }

    /// The values as those of the column.
    ///
    /// # Errors
    /// Invalid with the first value that is none of the column.
    pub(crate) fn cast(&self, values: &ArrayRef) -> crate::error::Result<ArrayRef> {
        let cast = |values: &ArrayRef| match &self.zone {
            Some(zone) => between_clocks(values, &self.data_type, zone),
            None => Ok(cast_with_options(values, &self.data_type, &strict())?),
        };
        let cast = cast(values).map_err(|error| {
            let is_wrong = |row: &usize| cast(&rows_of(values, *row, 1)).is_err();
            let named = match (0..values.len()).find(is_wrong) {
                // What the engine says names a type of its own.
                Some(row) => Error::invalid(no_value(&self.column, &self.shown, values, row)),
                None => {
                    Error::invalid(format!("column {}: a value is no {}", self.column, self.shown)).with_source(error)
                }
            };
            named.with("table", self.table.clone())
        })?;
        match too_great(values, &cast)? {
            None => Ok(cast),
            Some(row) => {
                Err(Error::invalid(no_value(&self.column, &self.shown, values, row)).with("table", self.table.clone()))
            }
        }
    }
}

/// Some rows of `values`. A slice of nested values has those of all rows inside, which would be cast as well: they are copied.
pub(super) fn rows_of(values: &ArrayRef, first: usize, rows: usize) -> ArrayRef {
    let slice = values.slice(first, rows);
    if !values.data_type().is_nested() {
        return slice;
    }
    let all: UInt32Array = (0..rows as u32).collect();
    take(&slice, &all, None).unwrap_or(slice)
}

/// The first row whose number became infinite, which the engine does not mind.
fn too_great(values: &ArrayRef, cast: &ArrayRef) -> crate::error::Result<Option<usize>> {
    let Some(narrow) = cast.as_primitive_opt::<Float32Type>() else { return Ok(None) };
    if !narrow.iter().flatten().any(f32::is_infinite) {
        return Ok(None);
    }
    let wide = cast_with_options(values, &ArrowType::Float64, &strict())?;
    let wide = wide.as_primitive::<Float64Type>();
    let is_wrong =
        |row: &usize| narrow.is_valid(*row) && narrow.value(*row).is_infinite() && wide.value(*row).is_finite();
    Ok((0..narrow.len()).find(is_wrong))
}

/// A type without NOT NULL, which is another matter.
pub(super) fn shown(data_type: &DataType) -> String {
    DataType { kind: data_type.kind.clone(), nullable: true }.to_string()
}

/// Says which value does not fit its column.
pub(super) fn no_value(column: &str, data_type: &str, values: &ArrayRef, row: usize) -> String {
    let text = array_value_to_string(values, row).unwrap_or_default();
    format!("column {column}: '{text}' is no {data_type}")
}

pub(super) fn strict() -> CastOptions<'static> {
    CastOptions { safe: false, ..CastOptions::default() }
}

/// The plan with the casts of its last projection made strict, for the columns of `schema`, which are those of `table`.
pub(crate) fn with_strict_casts(
    input: Arc<dyn ExecutionPlan>,
    table: &Table,
    schema: &SchemaRef,
) -> Result<Arc<dyn ExecutionPlan>> {
    let Some(projection) = input.downcast_ref::<ProjectionExec>() else { return Ok(input) };
    let mut changed = false;
    let exprs: Vec<ProjectionExpr> = projection
        .expr()
        .iter()
        .enumerate()
        .map(|(index, item)| {
            let strict = Cast::of(item.expr.as_ref()).zip(schema.fields().get(index)).map(|(cast, field)| {
                changed = true;
                let column = IntoColumn::new(table, field.name(), cast.to);
                let column = match cast.zone {
                    Some(zone) => column.with_clocks_in(zone),
                    None => column,
                };
                Arc::new(StrictCast { expr: Arc::clone(cast.expr), column }) as Arc<dyn PhysicalExpr>
            });
            ProjectionExpr { expr: strict.unwrap_or_else(|| Arc::clone(&item.expr)), alias: item.alias.clone() }
        })
        .collect();
    if !changed {
        return Ok(input);
    }
    Ok(Arc::new(ProjectionExec::try_new(exprs, Arc::clone(projection.input()))?))
}

/// A cast of the engine or of the session's clocks.
pub(super) struct Cast<'a> {
    /// What is cast.
    pub expr: &'a Arc<dyn PhysicalExpr>,
    pub to: &'a ArrowType,
    /// The zone of the clocks.
    pub zone: Option<&'a str>,
}

impl<'a> Cast<'a> {
    /// The cast that `expr` is, if it is one.
    pub(super) fn of(expr: &'a dyn PhysicalExpr) -> Option<Self> {
        match expr.downcast_ref::<CastExpr>() {
            Some(cast) => Some(Self { expr: cast.expr(), to: cast.cast_type(), zone: None }),
            None => {
                ClockCast::of(expr).map(|(expr, cast)| Self { expr, to: cast.data_type(), zone: Some(cast.zone()) })
            }
        }
    }
}

/// A cast into a column.
#[derive(Debug, Clone)]
struct StrictCast {
    expr: Arc<dyn PhysicalExpr>,
    column: IntoColumn,
}

impl PartialEq for StrictCast {
    fn eq(&self, other: &Self) -> bool {
        self.expr.eq(&other.expr) && self.column == other.column
    }
}

impl Eq for StrictCast {}

impl Hash for StrictCast {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.expr.hash(state);
        self.column.hash(state);
    }
}

impl fmt::Display for StrictCast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CAST({} AS {})", self.expr, self.column.data_type)
    }
}

impl PhysicalExpr for StrictCast {
    fn data_type(&self, _input_schema: &Schema) -> Result<ArrowType> {
        Ok(self.column.data_type.clone())
    }

    fn nullable(&self, input_schema: &Schema) -> Result<bool> {
        self.expr.nullable(input_schema)
    }

    fn return_field(&self, input_schema: &Schema) -> Result<FieldRef> {
        let field = self.expr.return_field(input_schema)?;
        Ok(Arc::new(field.as_ref().clone().with_data_type(self.column.data_type.clone())))
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let values = self.expr.evaluate(batch)?.into_array(batch.num_rows())?;
        Ok(ColumnarValue::Array(self.column.cast(&values)?))
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
