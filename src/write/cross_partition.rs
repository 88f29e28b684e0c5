//! Keys that may move between partitions (`spec/data.md 3.6`): each row meets the partition and bucket that its key lies in
//! now.
//!
//! Both sides come sorted by key, so that nothing but the rows of one key is held.
//!
//! May import: `error`, `options`, `spec`, rest of this room.

use std::cmp::Ordering;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int8Array, Int32Array, Int64Array, RecordBatch};
use arrow::compute::SortOptions;
use arrow::compute::interleave;
use arrow::datatypes::{DataType as ArrowType, Field, Int8Type, Int32Type, Int64Type, Schema, SchemaRef};
use arrow::row::{OwnedRow, RowConverter, Rows, SortField};
use datafusion::common::Result as EngineResult;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{
    Distribution, EquivalenceProperties, LexOrdering, OrderingRequirements, PhysicalExpr, PhysicalSortExpr,
};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements, Partitioning, PlanProperties,
};
use futures::{StreamExt, TryStreamExt};

use super::compact_texts::in_little_memory;
use super::exec::sorted_into_one;
use super::merge::key_text;
use super::prepare::{Partitions, is_retract, select};
use super::target::{BUCKET, ORDINAL, RunSlot, WriteRun, WriteTarget};
use crate::error::{Error, Result};
use crate::options::MergeEngine;
use crate::spec::bucket::row_hashes;

/// The columns of the keys that a table holds: those of the primary key, those of the partition, and the bucket.
pub fn key_location_schema(target: &WriteTarget) -> SchemaRef {
    let table = target.table_schema();
    let columns = target.primary_key_columns().into_iter().chain(target.partition_columns());
    let mut fields: Vec<Arc<Field>> = columns.map(|column| Arc::clone(&table.fields()[column])).collect();
    fields.push(Arc::new(Field::new(BUCKET, ArrowType::Int32, false)));
    Arc::new(Schema::new(fields))
}

/// Sends rows to where their keys lie.
#[derive(Debug)]
pub struct LakeKeyLocationExec {
    rows: Arc<dyn ExecutionPlan>,
    keys: Arc<dyn ExecutionPlan>,
    target: Arc<WriteTarget>,
    slot: Arc<RunSlot>,
    properties: Arc<PlanProperties>,
}

impl LakeKeyLocationExec {
    /// Locates prepared rows; `keys` are those of the table, as [`key_location_schema`] has them. Both sides are sorted, the
    /// rows by key and ordinal.
    pub fn new(
        rows: Arc<dyn ExecutionPlan>,
        keys: Arc<dyn ExecutionPlan>,
        target: Arc<WriteTarget>,
        slot: Arc<RunSlot>,
    ) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(target.rows())),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self { rows, keys, target, slot, properties: Arc::new(properties) }
    }

    /// The keys of a table in the order that they must have, in one stream.
    pub(crate) fn sorted_keys(keys: Arc<dyn ExecutionPlan>, target: &WriteTarget) -> Arc<dyn ExecutionPlan> {
        let [_, ordering] = Self::orderings(target);
        sorted_into_one(keys, ordering)
    }

    /// The order that the two sides must have.
    pub(crate) fn orderings(target: &WriteTarget) -> [Option<LexOrdering>; 2] {
        let options = SortOptions { descending: false, nulls_first: true };
        let sorted = |expr: Column| PhysicalSortExpr { expr: Arc::new(expr), options };
        let table = target.table_schema();
        let keys = target.primary_key_columns();
        let rows = keys
            .iter()
            .map(|key| sorted(Column::new(table.field(*key).name(), *key)))
            .chain([sorted(Column::new(ORDINAL, target.width() + 1))]);
        let existing = keys.iter().enumerate().map(|(at, key)| sorted(Column::new(table.field(*key).name(), at)));
        [LexOrdering::new(rows), LexOrdering::new(existing)]
    }
}

impl DisplayAs for LakeKeyLocationExec {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LakeKeyLocationExec: table={}", self.target.table().identifier())
    }
}

impl ExecutionPlan for LakeKeyLocationExec {
    fn name(&self) -> &'static str {
        "LakeKeyLocationExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.rows, &self.keys]
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> EngineResult<Arc<dyn ExecutionPlan>> {
        let [rows, keys] =
            <[_; 2]>::try_from(children).map_err(|_| Error::internal("a node that locates rows has two inputs"))?;
        Ok(Arc::new(Self::new(rows, keys, Arc::clone(&self.target), Arc::clone(&self.slot))))
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> EngineResult<TreeNodeRecursion>,
    ) -> EngineResult<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::SinglePartition, Distribution::SinglePartition])
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        Self::orderings(&self.target).map(|ordering| ordering.map(OrderingRequirements::from)).to_vec()
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false, false]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false, false]
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> EngineResult<SendableRecordBatchStream> {
        let run = self.slot.current()?;
        let schema = Arc::clone(self.target.rows());
        let (rows, of_rows) = in_little_memory(&self.rows, Arc::clone(&context), 2);
        let rows = rows.execute(partition, of_rows)?;
        let (keys, of_keys) = in_little_memory(&self.keys, context, 2);
        let keys = keys.execute(partition, of_keys)?;
        let locator = Locator::new(run, keys)?;
        let located = futures::stream::try_unfold((locator, rows), |(mut locator, mut rows)| async move {
            while let Some(batch) = rows.try_next().await? {
                if batch.num_rows() > 0 {
                    let located =
                        locator.locate(&batch).await.map_err(|error| locator.run.target().table().at(error))?;
                    return Ok(Some((located, (locator, rows))));
                }
            }
            if let Some(overwrite) = &locator.overwrite {
                overwrite.check().map_err(|error| locator.run.target().table().at(error))?;
            }
            Ok(None)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, located.boxed())))
    }
}

/// Where a key lies.
#[derive(Clone)]
struct Location {
    /// Values of the partition columns, one row.
    values: Vec<ArrayRef>,
    partition: Arc<[u8]>,
    bucket: i32,
}

struct Locator {
    run: Arc<WriteRun>,
    keys: SendableRecordBatchStream,
    /// Keys of the table at hand, and the next one of them.
    batch: Option<(RecordBatch, Rows, usize)>,
    converter: RowConverter,
    /// The key of the last row, and where it lies now.
    current: Option<(OwnedRow, Option<Location>)>,
    engine: MergeEngine,
    /// What an overwrite has met; `None` for other writes.
    overwrite: Option<Overwritten>,
}

/// The partitions that an overwrite writes to, and other ones that its keys lie in, with one of the keys.
#[derive(Default)]
struct Overwritten {
    written: HashSet<Arc<[u8]>>,
    elsewhere: HashMap<Arc<[u8]>, String>,
}

impl Overwritten {
    fn writes_to(&mut self, partition: &[u8]) {
        if !self.written.contains(partition) {
            self.written.insert(Arc::from(partition));
        }
    }

    /// Refuses keys that would be there twice.
    fn check(&self) -> Result<()> {
        match self.elsewhere.iter().find(|(partition, _)| !self.written.contains(*partition)) {
            None => Ok(()),
            Some((_, key)) => Err(Error::invalid(format!(
                "the key {key} lies in a partition that is not overwritten, and would be there twice; delete it first, or use \
                 INSERT INTO, which moves it"
            ))),
        }
    }
}

/// A row of the output: a row of the input, and the location whose partition and bucket it gets.
struct Placed {
    row: usize,
    kind: i8,
    bucket: i32,
    /// The partition it is moved to; `None`: its own.
    moved: Option<Vec<ArrayRef>>,
}

impl Locator {
    fn new(run: Arc<WriteRun>, keys: SendableRecordBatchStream) -> Result<Self> {
        let target = run.target();
        let schema = target.table_schema();
        let options = SortOptions { descending: false, nulls_first: true };
        let fields = target
            .primary_key_columns()
            .into_iter()
            .map(|key| SortField::new_with_options(schema.field(key).data_type().clone(), options))
            .collect();
        let engine = target.table().settings().merge_engine;
        let overwrite = target.replaces().then(Overwritten::default);
        Ok(Self { run, keys, batch: None, converter: RowConverter::new(fields)?, current: None, engine, overwrite })
    }

    /// The location that the table has for a key; keys are asked for in order.
    async fn find(&mut self, key: &[u8]) -> Result<Option<Location>> {
        loop {
            if let Some((batch, rows, next)) = &mut self.batch {
                while *next < rows.num_rows() {
                    match rows.row(*next).as_ref().cmp(key) {
                        Ordering::Less => *next += 1,
                        Ordering::Equal => {
                            let row = *next;
                            *next += 1;
                            return location(self.run.target(), batch, row).map(Some);
                        }
                        Ordering::Greater => return Ok(None),
                    }
                }
            }
            let Some(batch) = self.keys.try_next().await? else {
                self.batch = None;
                return Ok(None);
            };
            let width = self.run.target().primary_key_columns().len();
            let rows = self.converter.convert_columns(&batch.columns()[..width])?;
            self.batch = Some((batch, rows, 0));
        }
    }

    async fn locate(&mut self, batch: &RecordBatch) -> Result<RecordBatch> {
        let run = Arc::clone(&self.run);
        let target = run.target();
        let keys = select(batch.columns(), &target.primary_key_columns());
        let rows = self.converter.convert_columns(&keys)?;
        let partitions = Partitions::of(target, batch.columns())?;
        let trimmed = target.key_columns();
        let hashes = row_hashes(&select(batch.columns(), &trimmed), &target.types(&trimmed))?;
        let kinds: &Int8Array = batch.column(target.width()).as_primitive::<Int8Type>();
        let mut placed = Vec::with_capacity(batch.num_rows());
        for (row, hash) in hashes.iter().enumerate() {
            let key = rows.row(row);
            if self.current.as_ref().is_none_or(|(last, _)| last.row() != key) {
                let mut found = self.find(key.as_ref()).await?;
                if let Some(overwrite) = &mut self.overwrite
                    && let Some(there) = found.take()
                {
                    // In a partition that is replaced the key is gone.
                    if let Entry::Vacant(first) = overwrite.elsewhere.entry(there.partition) {
                        let key: Vec<ArrayRef> = keys.iter().map(|column| column.slice(row, 1)).collect();
                        let schema = target.table().schema();
                        let fields: Vec<_> = schema.primary_keys.iter().filter_map(|key| schema.field(key)).collect();
                        first.insert(key_text(&key, &fields)?);
                    }
                }
                self.current = Some((key.owned(), found));
            }
            let Some((_, at)) = &mut self.current else { continue };
            let kind = kinds.value(row);
            let partition = partitions.get(row);
            if let Some(overwrite) = &mut self.overwrite {
                overwrite.writes_to(partition);
            }
            if let Some(here) = at.as_ref().filter(|here| *here.partition == *partition) {
                if self.engine != MergeEngine::FirstRow {
                    placed.push(Placed { row, kind, bucket: here.bucket, moved: None });
                }
                if self.engine == MergeEngine::Deduplicate && is_retract(kind) {
                    *at = None;
                }
                continue;
            }
            match (at.as_ref(), self.engine) {
                (Some(_), MergeEngine::FirstRow) => continue,
                (Some(there), MergeEngine::PartialUpdate | MergeEngine::Aggregation) => {
                    let moved = Some(there.values.clone());
                    placed.push(Placed { row, kind, bucket: there.bucket, moved });
                    continue;
                }
                (Some(there), MergeEngine::Deduplicate) => {
                    // The row leaves where it was (`spec/observed.md`: with the new row's values and the old partition).
                    let moved = Some(there.values.clone());
                    placed.push(Placed { row, kind: 3, bucket: there.bucket, moved });
                    run.release_bucket(&there.partition, there.bucket).await?;
                    if is_retract(kind) {
                        *at = None;
                        continue;
                    }
                    run.changes().count_beside(1);
                }
                (None, _) => {}
            }
            let bucket = run.assign_bucket(partition, *hash).await?;
            placed.push(Placed { row, kind, bucket, moved: None });
            let stays = !(self.engine == MergeEngine::Deduplicate && is_retract(kind));
            *at = stays.then(|| Location {
                values: target
                    .partition_columns()
                    .into_iter()
                    .map(|column| batch.column(column).slice(row, 1))
                    .collect(),
                partition: Arc::from(partition),
                bucket,
            });
        }
        build(target, batch, &placed)
    }
}

/// Notes where the keys of a table lie, as [`key_location_schema`] has them.
pub(crate) fn count_keys(run: &WriteRun, keys: &RecordBatch) -> Result<()> {
    let target = run.target();
    if target.replaces() {
        // They make no room in buckets scarce that are written anew.
        return Ok(());
    }
    let first = target.primary_key_columns().len();
    let partitions = target.partition_columns();
    let values = &keys.columns()[first..first + partitions.len()];
    let encoded = crate::spec::binary_row::encode_rows(values, &target.types(&partitions))?;
    let buckets = keys.column(first + partitions.len()).as_primitive::<Int32Type>();
    let mut counts: HashMap<(&[u8], i32), u64> = HashMap::new();
    for row in 0..keys.num_rows() {
        *counts.entry((encoded.serialized(row), buckets.value(row))).or_default() += 1;
    }
    counts.into_iter().for_each(|((partition, bucket), keys)| run.add_keys(partition, bucket, keys));
    Ok(())
}

fn location(target: &WriteTarget, batch: &RecordBatch, row: usize) -> Result<Location> {
    let keys = target.primary_key_columns().len();
    let partitions = target.partition_columns();
    let values: Vec<ArrayRef> = (0..partitions.len()).map(|at| batch.column(keys + at).slice(row, 1)).collect();
    let encoded = crate::spec::binary_row::encode_rows(&values, &target.types(&partitions))?;
    let bucket = batch.column(keys + partitions.len()).as_primitive::<Int32Type>().value(row);
    Ok(Location { values, partition: Arc::from(encoded.serialized(0)), bucket })
}

/// The placed rows of a batch.
fn build(target: &WriteTarget, batch: &RecordBatch, placed: &[Placed]) -> Result<RecordBatch> {
    let partitions = target.partition_columns();
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(batch.num_columns());
    for column in 0..target.width() {
        let own = batch.column(column);
        let mut sources: Vec<&dyn Array> = vec![own.as_ref()];
        let at = partitions.iter().position(|partition| *partition == column);
        let picks: Vec<(usize, usize)> = placed
            .iter()
            .map(|placed| match (at, &placed.moved) {
                (Some(at), Some(values)) => {
                    sources.push(values[at].as_ref());
                    (sources.len() - 1, 0)
                }
                _ => (0, placed.row),
            })
            .collect();
        columns.push(interleave(&sources, &picks)?);
    }
    let ordinals = batch.column(target.width() + 1).as_primitive::<Int64Type>();
    columns.push(Arc::new(placed.iter().map(|placed| Some(placed.kind)).collect::<Int8Array>()));
    columns.push(Arc::new(placed.iter().map(|placed| Some(ordinals.value(placed.row))).collect::<Int64Array>()));
    columns.push(Arc::new(placed.iter().map(|placed| Some(placed.bucket)).collect::<Int32Array>()));
    Ok(RecordBatch::try_new(Arc::clone(target.rows()), columns)?)
}
