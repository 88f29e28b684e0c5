//! The difference between two states of a table.
//!
//! ```text
//! before: plan of the earlier state, without what the later one has too  --+
//!                                                                          +-- by key: full join -- DiffExec: rows that differ
//! after:  plan of the later state, without what the earlier one has too  --+
//! ```
//! Files that both states have, with the same rows live, are in neither plan. Of files that both have with other rows live, a
//! scan leaves out the rows that are live in both ([`LakeScanExec::minus`](crate::sql::scan::LakeScanExec)). What is left is
//! proportional to what changed, or to what a compaction has rewritten. A table without keys compares whole rows (`bag.rs`).

use std::fmt;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int8Array, RecordBatch, RecordBatchOptions, UInt32Array, make_comparator,
};
use arrow::buffer::BooleanBuffer;
use arrow::compute::SortOptions;
use arrow::compute::kernels::cmp::distinct;
use arrow::datatypes::{DataType, Field, Int8Type, Schema, SchemaRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{JoinType, NullEquality, Result as EngineResult, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Expr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties};
use futures::TryStreamExt;

use super::bag::BagDifferenceExec;
use super::{ChangesAsked, kinds};
use crate::error::Result;
use crate::plan::{ScanPlan, ScanRequest, plan_scan, without_shared};
use crate::spec::Snapshot;
use crate::spec::types::{SEQUENCE_NUMBER, VALUE_KIND};
use crate::sql::scan::unit::SystemColumns;
use crate::sql::scan::{Asked, lake_scan_without};
use crate::table::Table;

/// Row kinds.
const INSERT: i8 = 0;
const UPDATE_AFTER: i8 = 2;
const DELETE: i8 = 3;

/// The rows that tell the states `before` and `after` apart, with their kinds: rows of `after` that are new or other than they
/// were, as they are there, and rows of `before` that are gone as `-D`.
///
/// # Errors
/// As [`plan_scan`].
pub(super) async fn difference(
    table: &Arc<Table>,
    before: Option<Arc<Snapshot>>,
    after: Arc<Snapshot>,
    asked: &ChangesAsked<'_>,
) -> EngineResult<Arc<dyn ExecutionPlan>> {
    // A row may come or go because of a value: only conditions on the key hold for all its versions.
    let on_key = |filter: &Expr| {
        let schema = table.schema();
        let keys = if schema.has_primary_key() { &schema.primary_keys } else { &schema.partition_keys };
        let columns = filter.column_refs();
        !columns.is_empty() && columns.iter().all(|column| keys.contains(&column.name))
    };
    let request = asked.request(table, on_key)?;
    let named = |error| table.at(error);
    let mut earlier = match before {
        Some(before) => Box::pin(plan_scan(table, Some(before), &request)).await.map_err(named)?,
        None => ScanPlan::default(),
    };
    let mut later = Box::pin(plan_scan(table, Some(after), &request)).await.map_err(named)?;
    without_shared(&mut earlier, &mut later);
    let (earlier, later) = (Arc::new(earlier), Arc::new(later));
    let sides = Sides { table, request: &request, asked };
    if table.schema().has_primary_key() {
        // Both sides tell kinds, so that what is resolved for one is known to the other.
        let before = sides.scan(&earlier, &later, SystemColumns::Kinds { sequence: false }).await?;
        let after = sides.scan(&later, &earlier, SystemColumns::Kinds { sequence: asked.sequence }).await?;
        return by_key(table, before, after, asked);
    }
    let before = sides.scan(&earlier, &later, SystemColumns::None).await?;
    let after = sides.scan(&later, &earlier, SystemColumns::None).await?;
    BagDifferenceExec::try_new(before, after, asked.columns, asked.sequence)
}

/// What both sides are read with.
struct Sides<'a> {
    table: &'a Arc<Table>,
    request: &'a ScanRequest,
    asked: &'a ChangesAsked<'a>,
}

impl Sides<'_> {
    /// All columns of the rows of `plan` that are not live in `other`.
    async fn scan(
        &self,
        plan: &Arc<ScanPlan>,
        other: &Arc<ScanPlan>,
        columns: SystemColumns,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let asked = Asked { state: self.asked.state, projection: None, limit: None, columns, ordered: false };
        Box::pin(lake_scan_without(self.table, Arc::clone(plan), Some(Arc::clone(other)), self.request, &asked)).await
    }
}

/// Joins both sides by key and keeps what differs.
fn by_key(
    table: &Table,
    before: Arc<dyn ExecutionPlan>,
    after: Arc<dyn ExecutionPlan>,
    asked: &ChangesAsked<'_>,
) -> EngineResult<Arc<dyn ExecutionPlan>> {
    let schema = table.schema();
    let key = |name: &String, side: &SchemaRef| -> EngineResult<Arc<dyn PhysicalExpr>> {
        Ok(Arc::new(Column::new(name, side.index_of(name)?)))
    };
    let (left, right) = (before.schema(), after.schema());
    let on = schema
        .primary_keys
        .iter()
        .map(|name| Ok((key(name, &left)?, key(name, &right)?)))
        .collect::<EngineResult<Vec<_>>>()?;
    let joined = HashJoinExec::try_new(
        before,
        after,
        on,
        None,
        &JoinType::Full,
        None,
        PartitionMode::Partitioned,
        NullEquality::NullEqualsNull,
        false,
    )?;
    let columns = schema.fields.len();
    let output = output_schema(&left, asked.columns, asked.sequence)?;
    DiffExec::try_new(Arc::new(joined), columns, asked.columns.to_vec(), asked.sequence, output)
}

/// The wanted columns of `schema`, the kind, and the sequence number where it is wanted.
pub(super) fn output_schema(schema: &Schema, columns: &[usize], sequence: bool) -> EngineResult<SchemaRef> {
    let mut fields: Vec<Field> = schema.project(columns)?.fields().iter().map(|field| field.as_ref().clone()).collect();
    fields.push(Field::new(VALUE_KIND, DataType::Int8, true));
    if sequence {
        fields.push(Field::new(SEQUENCE_NUMBER, DataType::Int64, true));
    }
    Ok(Arc::new(Schema::new(fields)))
}

/// Of rows that hold the state before and the state after side by side, gives those where both differ.
#[derive(Debug)]
struct DiffExec {
    joined: Arc<dyn ExecutionPlan>,
    /// How many columns of the table each side has. The kind follows them, and after it the sequence number of the side after.
    columns: usize,
    wanted: Vec<usize>,
    sequence: bool,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
}

impl DiffExec {
    fn try_new(
        joined: Arc<dyn ExecutionPlan>,
        columns: usize,
        wanted: Vec<usize>,
        sequence: bool,
        schema: SchemaRef,
    ) -> EngineResult<Arc<dyn ExecutionPlan>> {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            datafusion::physical_plan::Partitioning::UnknownPartitioning(
                joined.output_partitioning().partition_count(),
            ),
            joined.pipeline_behavior(),
            joined.boundedness(),
        );
        Ok(Arc::new(Self { joined, columns, wanted, sequence, schema, properties: Arc::new(properties) }))
    }
}

impl DisplayAs for DiffExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DiffExec")
    }
}

impl ExecutionPlan for DiffExec {
    fn name(&self) -> &'static str {
        "DiffExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.joined]
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> EngineResult<Arc<dyn ExecutionPlan>> {
        match <[_; 1]>::try_from(children) {
            Ok([joined]) => {
                Self::try_new(joined, self.columns, self.wanted.clone(), self.sequence, Arc::clone(&self.schema))
            }
            Err(_) => internal_err!("DiffExec has one input"),
        }
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> EngineResult<TreeNodeRecursion>,
    ) -> EngineResult<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> EngineResult<SendableRecordBatchStream> {
        let joined = self.joined.execute(partition, context)?;
        let differ = Differ {
            columns: self.columns,
            wanted: self.wanted.clone(),
            sequence: self.sequence,
            schema: Arc::clone(&self.schema),
        };
        let rows = joined.and_then(move |batch| std::future::ready(differ.differing(&batch).map_err(Into::into)));
        let rows = rows.try_filter(|batch| std::future::ready(batch.num_rows() > 0));
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), rows)))
    }
}

/// Where there is a row, and not one that retracts. A side that has no row for a key has no kind either.
fn adds(kind: &ArrayRef) -> Result<Vec<bool>> {
    let kind = kinds(kind)?;
    let kind = kind.as_primitive::<Int8Type>();
    Ok(kind.iter().map(|kind| matches!(kind, Some(INSERT | UPDATE_AFTER))).collect())
}

/// For each pair of rows whether the columns differ; NULL is the same as NULL.
fn differ(before: &[ArrayRef], after: &[ArrayRef], rows: usize) -> Result<BooleanBuffer> {
    let mut differ = BooleanBuffer::new_unset(rows);
    let is_nested = |(before, _): &(&ArrayRef, &ArrayRef)| before.data_type().is_nested();
    let (nested, plain): (Vec<_>, Vec<_>) = before.iter().zip(after).partition(is_nested);
    for (before, after) in plain {
        differ = &differ | distinct(before, after)?.values();
    }
    for (before, after) in nested {
        let compare = make_comparator(before, after, SortOptions::default())?;
        differ = BooleanBuffer::collect_bool(rows, |row| differ.value(row) || compare(row, row).is_ne());
    }
    Ok(differ)
}

struct Differ {
    columns: usize,
    wanted: Vec<usize>,
    sequence: bool,
    schema: SchemaRef,
}

impl Differ {
    fn differing(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let (before, after) = batch.columns().split_at(self.columns + 1);
        let (was, is) = (adds(&before[self.columns])?, adds(&after[self.columns])?);
        let (before, kind) = (&before[..self.columns], kinds(&after[self.columns])?);
        let values_differ = differ(before, &after[..self.columns], batch.num_rows())?;
        let (mut chosen, mut is_gone) = (Vec::new(), Vec::new());
        for row in 0..batch.num_rows() {
            let differs = match (was[row], is[row]) {
                (true, true) => values_differ.value(row),
                (was, is) => was != is,
            };
            if differs {
                chosen.push(row as u32);
                is_gone.push(!is[row]);
            }
        }
        let (chosen, is_gone) = (UInt32Array::from(chosen), BooleanArray::from(is_gone));
        let taken_kind = arrow::compute::take(&kind, &chosen, None)?;
        let pick = |column: usize| -> Result<ArrayRef> {
            let before = arrow::compute::take(&before[column], &chosen, None)?;
            let after = arrow::compute::take(&after[column], &chosen, None)?;
            Ok(arrow::compute::kernels::zip::zip(&is_gone, &before, &after)?)
        };
        let mut columns = self.wanted.iter().map(|&column| pick(column)).collect::<Result<Vec<_>>>()?;
        let delete: ArrayRef = Arc::new(Int8Array::from_value(DELETE, taken_kind.len()));
        columns.push(arrow::compute::kernels::zip::zip(&is_gone, &delete, &taken_kind)?);
        if self.sequence
            && let Some(sequence) = after.get(self.columns + 1)
        {
            columns.push(arrow::compute::take(sequence, &chosen, None)?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(chosen.len()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }
}
