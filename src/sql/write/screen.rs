//! Rows that do not fit their table are taken out and become dead letters ([`DeadLetters`]), where they would fail the
//! statement otherwise.
//!
//! A row is looked at as a whole: the casts into its columns, NOT NULL, lengths, and its row kind. What the query computes before
//! that fails the statement as ever.

use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, UInt32Array, new_null_array};
use arrow::compute::{cast_with_options, concat, take_arrays};
use arrow::datatypes::{DataType as ArrowType, FieldRef, SchemaRef};
use arrow::util::display::array_value_to_string;
use datafusion::common::Result as EngineResult;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::{StreamExt, TryStreamExt};

use super::dead_letters::{DeadLetter, DeadLetters};
use super::strict::{Cast, no_value, rows_of, shown, strict};
use super::whole::{has_fraction, looked_at};
use crate::error::{Error, Result};
use crate::sql::clocks::between_clocks;
use crate::write::{BadRow, WriteTarget, as_they_come, kind_of, no_kind, one_input};

/// The rows of `input` that fit `target`; the others go to `letters`.
pub(super) fn screened(
    input: Arc<dyn ExecutionPlan>,
    target: &Arc<WriteTarget>,
    letters: &Arc<DeadLetters>,
    identifier: Option<i64>,
) -> Result<Arc<dyn ExecutionPlan>> {
    // The casts of the last projection are made here, one value at a time where that is needed.
    let (input, exprs): (_, Vec<Written>) = match input.downcast_ref::<ProjectionExec>() {
        Some(projection) => {
            let exprs = projection.expr().iter().map(|item| match Cast::of(item.expr.as_ref()) {
                Some(cast) => {
                    let looked_at = looked_at(cast.expr.as_ref());
                    let expr = Arc::clone(looked_at.unwrap_or(cast.expr));
                    Written { expr, zone: cast.zone.map(str::to_owned), whole: looked_at.is_some() }
                }
                None => Written { expr: Arc::clone(&item.expr), zone: None, whole: false },
            });
            (Arc::clone(projection.input()), exprs.collect())
        }
        None => {
            let schema = input.schema();
            let columns = schema.fields().iter().enumerate();
            let column =
                |(at, field): (usize, &FieldRef)| Arc::new(Column::new(field.name(), at)) as Arc<dyn PhysicalExpr>;
            let exprs = columns.map(|at| Written { expr: column(at), zone: None, whole: false }).collect();
            (input, exprs)
        }
    };
    if exprs.len() != target.table_schema().fields().len() {
        return Err(Error::internal(format!("{} columns of rows to be looked at", exprs.len())));
    }
    let screen = Screen { exprs, target: Arc::clone(target), letters: Arc::clone(letters), identifier };
    Ok(Arc::new(LakeScreenExec::new(input, Arc::new(screen))))
}

/// Values for a column.
#[derive(Debug)]
struct Written {
    expr: Arc<dyn PhysicalExpr>,
    /// The zone whose clocks they show, where it is not that of the column.
    zone: Option<String>,
    /// Whether fractions are no values of it.
    whole: bool,
}

/// Looks at rows.
#[derive(Debug)]
struct Screen {
    /// The columns of the table, before they are cast.
    exprs: Vec<Written>,
    target: Arc<WriteTarget>,
    letters: Arc<DeadLetters>,
    identifier: Option<i64>,
}

/// The node that lets rows through which fit.
#[derive(Debug)]
struct LakeScreenExec {
    input: Arc<dyn ExecutionPlan>,
    screen: Arc<Screen>,
    metrics: ExecutionPlanMetricsSet,
    properties: Arc<PlanProperties>,
}

impl LakeScreenExec {
    fn new(input: Arc<dyn ExecutionPlan>, screen: Arc<Screen>) -> Self {
        let properties = as_they_come(&input, schema(&screen.target));
        Self { input, screen, metrics: ExecutionPlanMetricsSet::new(), properties }
    }
}

/// The columns of the table, as rows are before they are prepared.
fn schema(target: &WriteTarget) -> SchemaRef {
    Arc::clone(target.table_schema())
}

impl DisplayAs for LakeScreenExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match t {
            DisplayFormatType::TreeRender => write!(f, "bad records to {}", self.screen.letters),
            _ => write!(f, "LakeScreenExec: bad_records={}", self.screen.letters),
        }
    }
}

impl ExecutionPlan for LakeScreenExec {
    one_input!(LakeScreenExec, expressions, |node, input| Self::new(input, Arc::clone(&node.screen)));

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> EngineResult<TreeNodeRecursion>,
    ) -> EngineResult<TreeNodeRecursion> {
        let mut visited = TreeNodeRecursion::Continue;
        for written in &self.screen.exprs {
            visited = visited.visit_sibling(|| f(&written.expr))?;
        }
        Ok(visited)
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::LowerEqual
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> EngineResult<SendableRecordBatchStream> {
        let bad_rows = MetricBuilder::new(&self.metrics).counter("bad_rows", partition);
        let input = self.input.execute(partition, Arc::clone(&context))?;
        let screen = Arc::clone(&self.screen);
        let rows = input.and_then(move |batch| {
            let (screen, context, bad_rows) = (Arc::clone(&screen), Arc::clone(&context), bad_rows.clone());
            async move { Ok(screen.pass(&batch, &bad_rows, &context).await?) }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema(&self.screen.target), rows.boxed())))
    }
}

impl Screen {
    /// The rows that fit.
    async fn pass(&self, batch: &RecordBatch, bad_rows: &Count, context: &Arc<TaskContext>) -> Result<RecordBatch> {
        let rows = batch.num_rows();
        let written = self.exprs.iter().map(|written| Ok(written.expr.evaluate(batch)?.into_array(rows)?));
        let written: Vec<ArrayRef> = written.collect::<Result<_>>()?;
        let (columns, bad) = self.look(&written)?;
        if !bad.is_empty() {
            bad_rows.add(bad.len());
            let letters = bad.iter().map(|bad| self.letter(&written, bad)).collect::<Result<Vec<_>>>()?;
            let taken = Box::pin(self.letters.add(&letters, self.identifier, context)).await;
            taken.map_err(|error| error.with("bad records", self.letters.to_string()))?;
        }
        let columns = match bad.is_empty() {
            true => columns,
            false => {
                let mut next = bad.iter().map(|bad| bad.row).peekable();
                let good = (0..rows).filter(|row| next.next_if_eq(row).is_none()).map(|row| row as u32);
                take_arrays(&columns, &good.collect::<UInt32Array>(), None)?
            }
        };
        Ok(RecordBatch::try_new(schema(&self.target), columns)?)
    }

    /// The columns as the table has them, and the rows that do not fit, in order and each once.
    fn look(&self, written: &[ArrayRef]) -> Result<(Vec<ArrayRef>, Vec<BadRow>)> {
        let mut bad = Vec::new();
        let fields = self.target.table_schema().fields();
        let columns_of_table = &self.target.table().schema().fields;
        let mut columns = Vec::with_capacity(written.len());
        for (at, (values, field)) in written.iter().zip(fields).enumerate() {
            let mut wrong = Vec::new();
            let zone = self.exprs[at].zone.as_deref();
            let cast = |values: &ArrayRef| match zone {
                Some(zone) => Ok(between_clocks(values, field.data_type(), zone)?),
                None => Ok(cast_with_options(values, field.data_type(), &strict())?),
            };
            columns.push(cast_each(values, field.data_type(), &cast, 0, &mut wrong)?);
            if self.exprs[at].whole {
                wrong.extend((0..values.len()).filter(|row| has_fraction(values.as_ref(), *row)));
            }
            bad.extend(wrong.into_iter().map(|row| {
                let reason = no_value(field.name(), &shown(&columns_of_table[at].data_type), values, row);
                BadRow { row, column: at, reason }
            }));
        }
        let mut kinds = self.wrong_kinds(&columns)?;
        let mut unfit = Vec::new();
        self.target.check().apply(&columns, &mut unfit)?;
        // Of a value that could not be cast NULL is left, which is not what is wrong with it.
        bad.append(&mut unfit);
        bad.append(&mut kinds);
        bad.sort_by_key(|bad| bad.row);
        bad.dedup_by_key(|bad| bad.row);
        Ok((columns, bad))
    }

    /// Rows whose kind is none.
    fn wrong_kinds(&self, columns: &[ArrayRef]) -> Result<Vec<BadRow>> {
        let table = self.target.table();
        let Some(field) = &table.settings().rowkind_field else { return Ok(Vec::new()) };
        let Some(column) = table.schema().index_of(field) else { return Ok(Vec::new()) };
        let texts = cast_with_options(&columns[column], &ArrowType::Utf8View, &strict())?;
        let texts = texts.as_string_view().iter().enumerate();
        let wrong = texts.filter(|(_, text)| kind_of(*text).is_none());
        let bad = |(row, text)| BadRow {
            row,
            column,
            reason: format!("column {field} ('rowkind.field') is {}", no_kind(text)),
        };
        Ok(wrong.map(bad).collect())
    }

    fn letter(&self, written: &[ArrayRef], bad: &BadRow) -> Result<DeadLetter> {
        let text = |values: &ArrayRef| -> Result<Option<String>> {
            Ok(if values.is_null(bad.row) { None } else { Some(array_value_to_string(values, bad.row)?) })
        };
        let fields = self.target.table_schema().fields();
        let mut row = serde_json::Map::new();
        for (values, field) in written.iter().zip(fields) {
            let value = text(values)?.map_or(serde_json::Value::Null, serde_json::Value::String);
            row.insert(field.name().clone(), value);
        }
        Ok(DeadLetter {
            reason: bad.reason.clone(),
            column: fields[bad.column].name().clone(),
            value: text(&written[bad.column])?,
            row: serde_json::Value::Object(row).to_string(),
        })
    }
}

/// The values cast to `to`, with NULL for those that can't be; their rows, counted from `first`, go to `wrong`.
fn cast_each(
    values: &ArrayRef,
    to: &ArrowType,
    cast: &impl Fn(&ArrayRef) -> Result<ArrayRef>,
    first: usize,
    wrong: &mut Vec<usize>,
) -> Result<ArrayRef> {
    if values.data_type() == to {
        return Ok(Arc::clone(values));
    }
    match cast(values) {
        Ok(cast) => Ok(cast),
        Err(error) if values.is_empty() => Err(error),
        Err(_) if values.len() == 1 => {
            wrong.push(first);
            Ok(new_null_array(to, 1))
        }
        Err(_) => {
            // Halves, so that few wrong values among many are found fast.
            let middle = values.len() / 2;
            let left = cast_each(&rows_of(values, 0, middle), to, cast, first, wrong)?;
            let right = cast_each(&rows_of(values, middle, values.len() - middle), to, cast, first + middle, wrong)?;
            Ok(concat(&[left.as_ref(), right.as_ref()])?)
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int32Array, StringArray};
    use arrow::datatypes::Int32Type;

    use super::*;

    #[test]
    fn cast_each_when_some_values_are_wrong_then_null_and_named() {
        let values: ArrayRef = Arc::new(StringArray::from(vec![Some("1"), Some("x"), None, Some("4"), Some("5y")]));
        let mut wrong = Vec::new();
        let strictly = |values: &ArrayRef| Ok(cast_with_options(values, &ArrowType::Int32, &strict())?);
        let cast = cast_each(&values, &ArrowType::Int32, &strictly, 0, &mut wrong).unwrap();
        assert_eq!(wrong, [1, 4]);
        assert_eq!(cast.as_primitive::<Int32Type>(), &Int32Array::from(vec![Some(1), None, None, Some(4), None]));
    }
}
