//! Rows with kinds as a binlog shows them: every column a list, an update one row of before and after.
//!
//! The rows before and after an update follow each other in the file that tells it, so that a stream keeps at most one row.

use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, ListArray, RecordBatch, RecordBatchOptions, StringViewArray, UInt32Array};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Int8Type, SchemaRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result as EngineResult, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties};
use futures::{StreamExt, TryStreamExt};

use super::KIND_TEXTS;
use crate::error::{Error, Result};
use crate::spec::types::{SEQUENCE_NUMBER, VALUE_KIND};

const UPDATE_BEFORE: i8 = 1;
const UPDATE_AFTER: i8 = 2;

/// Packs rows.
#[derive(Debug)]
pub(super) struct BinlogExec {
    rows: Arc<dyn ExecutionPlan>,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
}

impl BinlogExec {
    /// The binlog of `rows`, with the columns of `schema`.
    pub(super) fn try_new(rows: Arc<dyn ExecutionPlan>, schema: SchemaRef) -> EngineResult<Arc<dyn ExecutionPlan>> {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            rows.output_partitioning().clone(),
            rows.pipeline_behavior(),
            rows.boundedness(),
        );
        Ok(Arc::new(Self { rows, schema, properties: Arc::new(properties) }))
    }
}

impl DisplayAs for BinlogExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BinlogExec")
    }
}

impl ExecutionPlan for BinlogExec {
    fn name(&self) -> &'static str {
        "BinlogExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.rows]
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> EngineResult<Arc<dyn ExecutionPlan>> {
        match <[_; 1]>::try_from(children) {
            Ok([rows]) => Self::try_new(rows, Arc::clone(&self.schema)),
            Err(_) => internal_err!("BinlogExec has one input"),
        }
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> EngineResult<TreeNodeRecursion>,
    ) -> EngineResult<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    // Rows that belong together must stay in one partition, next to each other: the input is taken as it is.
    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn repartitioned(&self, _: usize, _: &ConfigOptions) -> EngineResult<Option<Arc<dyn ExecutionPlan>>> {
        Ok(None)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> EngineResult<SendableRecordBatchStream> {
        let rows = self.rows.execute(partition, context)?;
        let schema = Arc::clone(&self.schema);
        let packer = Packer { schema: Arc::clone(&self.schema), waiting: None };
        let packed = futures::stream::unfold((rows, packer, false), |(mut rows, mut packer, ended)| async move {
            if ended {
                return None;
            }
            let (batch, ended) = match rows.next().await {
                Some(Ok(batch)) => (packer.pack(Some(&batch)), false),
                Some(Err(error)) => return Some((Err(error), (rows, packer, true))),
                None => (packer.pack(None), true),
            };
            Some((batch.map_err(Into::into), (rows, packer, ended)))
        });
        let packed = packed.try_filter(|batch| std::future::ready(batch.num_rows() > 0));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, packed)))
    }
}

/// Packs the rows of one partition, batch by batch.
struct Packer {
    schema: SchemaRef,
    /// The state before an update, whose state after it comes next.
    waiting: Option<RecordBatch>,
}

impl Packer {
    /// The packed rows of the next batch; `None` at the end.
    fn pack(&mut self, batch: Option<&RecordBatch>) -> Result<RecordBatch> {
        let at_end = batch.is_none();
        let batch = match (self.waiting.take(), batch) {
            (Some(before), Some(batch)) => arrow::compute::concat_batches(&batch.schema(), [&before, batch])?,
            (Some(before), None) => before,
            (None, Some(batch)) => batch.clone(),
            (None, None) => return Ok(RecordBatch::new_empty(Arc::clone(&self.schema))),
        };
        let kinds = batch.column_by_name(VALUE_KIND).ok_or_else(|| Error::internal("rows without their kinds"))?;
        let kinds = super::kinds(kinds)?;
        let kinds = kinds.as_primitive::<Int8Type>().values();
        let mut rows = kinds.len();
        if !at_end && kinds.last() == Some(&UPDATE_BEFORE) {
            rows -= 1;
            self.waiting = Some(batch.slice(rows, 1));
        }
        self.pack_rows(&batch.slice(0, rows), &kinds[..rows])
    }

    fn pack_rows(&self, batch: &RecordBatch, kind: &[i8]) -> Result<RecordBatch> {
        let mut lengths = Vec::with_capacity(kind.len());
        let mut last = Vec::with_capacity(kind.len());
        let mut row = 0;
        while row < kind.len() {
            let pair = kind[row] == UPDATE_BEFORE && kind.get(row + 1) == Some(&UPDATE_AFTER);
            lengths.push(1 + usize::from(pair));
            row += 1 + usize::from(pair);
            last.push((row - 1) as u32);
        }
        let offsets = OffsetBuffer::<i32>::from_lengths(lengths);
        let columns = self.schema.fields().iter().enumerate().map(|(index, field)| -> Result<ArrayRef> {
            Ok(match field.data_type() {
                DataType::List(element) => {
                    let column = self.column(batch, index, field.name())?;
                    let values = arrow::compute::cast(&column, element.data_type())?;
                    Arc::new(ListArray::try_new(Arc::clone(element), offsets.clone(), values, None)?)
                }
                DataType::Int64 => {
                    let rows = UInt32Array::from(last.clone());
                    let column = self.column(batch, index, SEQUENCE_NUMBER)?;
                    arrow::compute::take(&column, &rows, None)?
                }
                _ => {
                    let texts = last.iter().map(|row| {
                        let kind = usize::try_from(kind[*row as usize]).ok();
                        kind.and_then(|kind| KIND_TEXTS.get(kind)).copied()
                    });
                    Arc::new(texts.collect::<StringViewArray>())
                }
            })
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(last.len()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }

    fn column(&self, batch: &RecordBatch, index: usize, name: &str) -> Result<ArrayRef> {
        let found = batch.column_by_name(name);
        found
            .map(Arc::clone)
            .ok_or_else(|| Error::internal(format!("column {index}, {name}, of a binlog was not read")))
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int8Array, Int32Array};
    use arrow::datatypes::{Field, Schema};

    use super::*;

    fn packed(batches: &[&[(i32, i8)]]) -> Vec<String> {
        let element = Arc::new(Field::new("element", DataType::Int32, true));
        let fields =
            vec![Field::new("rowkind", DataType::Utf8View, true), Field::new("k", DataType::List(element), true)];
        let mut packer = Packer { schema: Arc::new(Schema::new(fields)), waiting: None };
        let batch = |rows: &[(i32, i8)]| {
            let columns: [(&str, ArrayRef); 2] = [
                ("k", Arc::new(rows.iter().map(|row| row.0).collect::<Int32Array>())),
                (VALUE_KIND, Arc::new(rows.iter().map(|row| row.1).collect::<Int8Array>())),
            ];
            RecordBatch::try_from_iter(columns).unwrap()
        };
        let mut out = Vec::new();
        let given = batches.iter().map(|rows| Some(batch(rows))).chain([None]);
        for batch in given {
            let packed = packer.pack(batch.as_ref()).unwrap();
            for row in 0..packed.num_rows() {
                let text =
                    |column: usize| arrow::util::display::array_value_to_string(packed.column(column), row).unwrap();
                out.push(format!("{} {}", text(0), text(1)));
            }
        }
        out
    }

    #[test]
    fn pack_when_an_update_has_both_rows_then_they_are_one_across_batches() {
        let rows: &[&[(i32, i8)]] = &[&[(1, 0), (2, 1)], &[(2, 2), (3, 3), (4, 1)], &[(5, 0), (6, 2)], &[(7, 1)]];
        assert_eq!(packed(rows), ["+I [1]", "+U [2, 2]", "-D [3]", "-U [4]", "+I [5]", "+U [6]", "-U [7]"]);
        assert_eq!(packed(&[&[(2, 1)], &[], &[(2, 2)]]), ["+U [2, 2]"]);
        assert!(packed(&[]).is_empty());
    }
}
