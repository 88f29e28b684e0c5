//! The node that writes prepared rows into data files and gives one commit message for each bucket.
//!
//! Rows of key tables come sorted by partition, bucket and key, so that one bucket is written at a time; rows of append tables
//! come as they are, and the files of several partitions are open at once.
//!
//! May import: `error`, `spec`, rest of this room.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, RecordBatch, UInt32Array, UInt64Array};
use arrow::compute::{SortOptions, partition, take_arrays};
use arrow::datatypes::{DataType as ArrowType, Field, Int8Type, Int32Type, Int64Type, Schema, SchemaRef};
use datafusion::common::Result as EngineResult;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{Distribution, LexOrdering, OrderingRequirements, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::common::spawn_buffered;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::execution_plan::ExecutionPlanProperties;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements, Partitioning, PlanProperties,
};
use futures::{StreamExt, TryStreamExt};

use super::CommitMessage;
use super::bucket::{AppendBucket, KeyBucket};
use super::compact_texts::in_little_memory;
use super::cross_partition::{LakeKeyLocationExec, key_location_schema};
use super::merge::KeyRows;
use super::mode::BucketMode;
use super::node::{one_input, when_done};
use super::prepare::{LakePrepareExec, Partitions};
use super::target::{BUCKET, RunSlot, WriteRun, WriteTarget};
use crate::error::Result;
use crate::spec::EMPTY_ROW;

/// Files of append tables that are open at once; more partitions than that close the one that was not used for longest.
const MOST_OPEN: usize = 64;

/// Batches that the input may be ahead of the writer.
const BATCHES_AHEAD: usize = 2;

/// What [`LakeWriteExec`] gives: a serialized [`CommitMessage`] and how many rows it stands for.
pub fn message_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("message", ArrowType::Binary, false),
        Field::new("rows", ArrowType::UInt64, false),
    ]))
}

/// Writes prepared rows.
#[derive(Debug)]
pub struct LakeWriteExec {
    input: Arc<dyn ExecutionPlan>,
    target: Arc<WriteTarget>,
    slot: Arc<RunSlot>,
    properties: Arc<PlanProperties>,
}

impl LakeWriteExec {
    fn new(input: Arc<dyn ExecutionPlan>, target: Arc<WriteTarget>, slot: Arc<RunSlot>) -> Self {
        let properties = when_done(input.output_partitioning().partition_count(), message_schema());
        Self { input, target, slot, properties }
    }

    /// The nodes that write the rows of `input`, whose columns are those of the table (and kinds, see
    /// [`WriteTarget::try_new`]), with `partitions` writers at most: prepare, deal out and sort as the table needs, write.
    /// `keys` are the keys that the table holds ([`super::key_location_schema`]), which tables of
    /// [`BucketMode::CrossPartition`] need; none for one whose rows are all replaced.
    ///
    /// # Errors
    /// Internal when the nodes can't be put together.
    pub fn plan(
        input: Arc<dyn ExecutionPlan>,
        keys: Option<Arc<dyn ExecutionPlan>>,
        target: &Arc<WriteTarget>,
        slot: &Arc<RunSlot>,
        partitions: usize,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let prepared = LakePrepareExec::new(input, Arc::clone(target), Arc::clone(slot));
        let mut plan: Arc<dyn ExecutionPlan> = Arc::new(prepared);
        if target.mode() == BucketMode::CrossPartition {
            let keys = keys.unwrap_or_else(|| Arc::new(EmptyExec::new(key_location_schema(target))));
            let [by_rows, by_keys] = LakeKeyLocationExec::orderings(target);
            let (rows, keys) = (sorted_into_one(plan, by_rows), sorted_into_one(keys, by_keys));
            plan = Arc::new(LakeKeyLocationExec::new(rows, keys, Arc::clone(target), Arc::clone(slot)));
        }
        match distribution(target) {
            Distribution::KeyPartitioned(exprs) if partitions > 1 => {
                plan = Arc::new(RepartitionExec::try_new(plan, Partitioning::Hash(exprs, partitions))?);
                if let Some(ordering) = ordering(target) {
                    plan = Arc::new(SortExec::new(ordering, plan).with_preserve_partitioning(true));
                }
            }
            Distribution::UnspecifiedDistribution => {}
            _ => plan = sorted_into_one(plan, ordering(target)),
        }
        Ok(Arc::new(Self::new(plan, Arc::clone(target), Arc::clone(slot))))
    }
}

impl LakeWriteExec {
    /// Runs the nodes of [`Self::plan`], which have found their run in `slot` by the time they are read; the messages of all
    /// writers.
    ///
    /// # Errors
    /// Those of the input and of writing.
    pub(crate) async fn run(
        mut plan: Arc<dyn ExecutionPlan>,
        context: Arc<TaskContext>,
        slot: Arc<RunSlot>,
    ) -> Result<Vec<CommitMessage>> {
        if plan.output_partitioning().partition_count() > 1 {
            plan = Arc::new(CoalescePartitionsExec::new(plan));
        }
        // Some nodes execute those below when they are asked for rows: the run is there until all are.
        let read = async {
            let mut output = plan.execute(0, context)?;
            let mut messages = Vec::new();
            while let Some(batch) = output.try_next().await? {
                for bytes in batch.column(0).as_binary::<i32>().iter().flatten() {
                    messages.push(CommitMessage::from_bytes(bytes)?);
                }
            }
            Ok(messages)
        };
        let messages = read.await;
        slot.clear();
        messages
    }
}

/// All rows in one stream, in this order.
pub(super) fn sorted_into_one(plan: Arc<dyn ExecutionPlan>, ordering: Option<LexOrdering>) -> Arc<dyn ExecutionPlan> {
    let several = plan.output_partitioning().partition_count() > 1;
    match ordering {
        Some(ordering) => {
            let sorted = Arc::new(SortExec::new(ordering.clone(), plan).with_preserve_partitioning(several));
            if several { Arc::new(SortPreservingMergeExec::new(ordering, sorted)) } else { sorted }
        }
        None if several => Arc::new(CoalescePartitionsExec::new(plan)),
        None => plan,
    }
}

/// The partition and bucket of prepared rows: what decides which writer gets them.
fn place_exprs(target: &WriteTarget) -> Vec<Arc<dyn PhysicalExpr>> {
    let schema = target.rows();
    let mut exprs = column_exprs(schema, &target.partition_columns());
    if !matches!(target.mode(), BucketMode::Fixed { buckets: 1, .. } | BucketMode::Unaware | BucketMode::Postpone) {
        exprs.push(Arc::new(Column::new(BUCKET, schema.fields().len() - 1)));
    }
    exprs
}

fn column_exprs(schema: &SchemaRef, positions: &[usize]) -> Vec<Arc<dyn PhysicalExpr>> {
    positions
        .iter()
        .map(|position| Arc::new(Column::new(schema.field(*position).name(), *position)) as Arc<dyn PhysicalExpr>)
        .collect()
}

/// Every bucket has one writer, or sequence numbers and runs would cross.
fn distribution(target: &WriteTarget) -> Distribution {
    match target.mode() {
        BucketMode::Unaware | BucketMode::Postpone => Distribution::UnspecifiedDistribution,
        _ if target.is_single_bucket() => Distribution::SinglePartition,
        _ => Distribution::KeyPartitioned(place_exprs(target)),
    }
}

/// One bucket after the other, each in key order (`spec/data.md 1.7`).
fn ordering(target: &WriteTarget) -> Option<LexOrdering> {
    if !target.is_sorted() {
        return None;
    }
    let options = SortOptions { descending: false, nulls_first: true };
    let keys = column_exprs(target.rows(), &target.key_columns());
    LexOrdering::new(place_exprs(target).into_iter().chain(keys).map(|expr| PhysicalSortExpr { expr, options }))
}

impl DisplayAs for LakeWriteExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = self.target.table();
        match t {
            DisplayFormatType::TreeRender => write!(f, "{}", table.identifier()),
            _ => {
                let mode = match self.target.mode() {
                    BucketMode::Fixed { buckets, .. } => format!("fixed({buckets})"),
                    BucketMode::Dynamic => "dynamic".to_owned(),
                    BucketMode::CrossPartition => "cross-partition".to_owned(),
                    BucketMode::Postpone => "postpone".to_owned(),
                    BucketMode::Unaware => "unaware".to_owned(),
                };
                let format = &table.settings().file_format;
                write!(f, "LakeWriteExec: table={}, buckets={mode}, format={format}", table.identifier())
            }
        }
    }
}

impl ExecutionPlan for LakeWriteExec {
    one_input!(LakeWriteExec, |node, input| Self::new(input, Arc::clone(&node.target), Arc::clone(&node.slot)));

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![distribution(&self.target)])
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        vec![ordering(&self.target).map(OrderingRequirements::from)]
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> EngineResult<SendableRecordBatchStream> {
        let run = self.slot.current()?;
        // Rows are read, sorted and merged in a task of their own, so that this one has nothing to do but write them.
        let (input, context) = in_little_memory(&self.input, context, 1);
        let input = spawn_buffered(input.execute(partition, context)?, BATCHES_AHEAD);
        let sorted = self.target.is_sorted();
        let messages = futures::stream::once(async move {
            let written = if sorted {
                Box::pin(write_sorted(&run, input)).await
            } else {
                Box::pin(write_as_they_come(&run, input)).await
            };
            let messages = written.map_err(|error| run.target().table().at(error))?;
            Ok(message_batch(&messages)?)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(message_schema(), messages.boxed())))
    }
}

fn message_batch(messages: &[(CommitMessage, u64)]) -> Result<RecordBatch> {
    let bytes = messages.iter().map(|(message, _)| message.to_bytes()).collect::<Result<Vec<_>>>()?;
    let rows: UInt64Array = messages.iter().map(|(_, rows)| *rows).collect::<Vec<_>>().into();
    let bytes = BinaryArray::from_iter_values(bytes);
    Ok(RecordBatch::try_new(message_schema(), vec![Arc::new(bytes), Arc::new(rows)])?)
}

type Messages = Vec<(CommitMessage, u64)>;

/// Rows of key tables: sorted by partition, bucket and key.
async fn write_sorted(run: &Arc<WriteRun>, mut input: SendableRecordBatchStream) -> Result<Messages> {
    let target = run.target();
    let mut messages = Vec::new();
    let mut open: Option<KeyBucket> = None;
    while let Some(batch) = input.try_next().await? {
        for (start, len) in stretches(target, &batch)? {
            let rows = batch.slice(start, len);
            let (partition, bucket) = place(target, &rows)?;
            if open.as_ref().is_none_or(|open| !open.is(&partition, bucket)) {
                if let Some(done) = open.take() {
                    messages.extend(done.finish(run).await?);
                }
                open = Some(KeyBucket::open(run, Arc::from(partition), bucket).await?);
            }
            if let Some(open) = &mut open {
                open.write(key_rows(target, &rows)).await?;
            }
        }
    }
    if let Some(done) = open {
        messages.extend(done.finish(run).await?);
    }
    Ok(messages)
}

/// Stretches of rows of one partition and bucket, as start and length.
fn stretches(target: &WriteTarget, batch: &RecordBatch) -> Result<Vec<(usize, usize)>> {
    if batch.num_rows() == 0 {
        return Ok(Vec::new());
    }
    let mut columns: Vec<ArrayRef> =
        target.partition_columns().into_iter().map(|column| Arc::clone(batch.column(column))).collect();
    columns.push(Arc::clone(batch.column(batch.num_columns() - 1)));
    // Rows are sorted by these columns: if the first row has what the last one has, all have.
    let last = batch.num_rows() - 1;
    let mut alike = true;
    for column in &columns {
        let equal = arrow::compute::kernels::cmp::not_distinct(&column.slice(0, 1), &column.slice(last, 1))?;
        alike &= equal.value(0);
    }
    if alike {
        return Ok(vec![(0, batch.num_rows())]);
    }
    Ok(partition(&columns)?.ranges().into_iter().map(|range| (range.start, range.len())).collect())
}

/// Partition and bucket of the first row.
fn place(target: &WriteTarget, rows: &RecordBatch) -> Result<(Vec<u8>, i32)> {
    let first: Vec<ArrayRef> = rows.columns().iter().map(|column| column.slice(0, 1)).collect();
    let partition = Partitions::of(target, &first)?.get(0).to_vec();
    let bucket = rows.column(rows.num_columns() - 1).as_primitive::<Int32Type>().value(0);
    Ok((partition, bucket))
}

fn key_rows(target: &WriteTarget, rows: &RecordBatch) -> KeyRows {
    let width = target.width();
    KeyRows {
        columns: rows.columns()[..width].to_vec(),
        kinds: rows.column(width).as_primitive::<Int8Type>().clone(),
        ordinals: rows.column(width + 1).as_primitive::<Int64Type>().clone(),
    }
}

/// Rows of append tables, and those that wait for a bucket.
async fn write_as_they_come(run: &Arc<WriteRun>, mut input: SendableRecordBatchStream) -> Result<Messages> {
    let mut open = OpenBuckets { run: Arc::clone(run), buckets: HashMap::new(), clock: 0, messages: Vec::new() };
    while let Some(batch) = input.try_next().await? {
        if batch.num_rows() > 0 {
            open.write(&batch).await?;
        }
    }
    open.finish().await
}

/// An open bucket, and when it was used last.
type OpenBucket = (AppendBucket, u64);
/// Partition and bucket of rows, and which rows.
type PlaceRows<'a> = ((&'a [u8], i32), Vec<u32>);

struct OpenBuckets {
    run: Arc<WriteRun>,
    buckets: HashMap<(Arc<[u8]>, i32), OpenBucket>,
    clock: u64,
    messages: Messages,
}

impl OpenBuckets {
    async fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let run = Arc::clone(&self.run);
        let target = run.target();
        let buckets = batch.column(batch.num_columns() - 1).as_primitive::<Int32Type>();
        let partitions = Partitions::of(target, batch.columns())?;
        let mut places: Vec<PlaceRows<'_>> = Vec::new();
        let mut known: HashMap<(&[u8], i32), usize> = HashMap::new();
        if matches!(partitions, Partitions::None) && buckets.values().iter().all(|bucket| *bucket == buckets.value(0)) {
            return self.write_to(&EMPTY_ROW, buckets.value(0), batch).await;
        }
        for row in 0..batch.num_rows() {
            let place = (partitions.get(row), buckets.value(row));
            let index = *known.entry(place).or_insert_with(|| {
                places.push((place, Vec::new()));
                places.len() - 1
            });
            places[index].1.push(row as u32);
        }
        if let [((partition, bucket), _)] = places[..] {
            return self.write_to(partition, bucket, batch).await;
        }
        for ((partition, bucket), rows) in &places {
            let columns = take_arrays(batch.columns(), &UInt32Array::from(rows.clone()), None)?;
            let rows = RecordBatch::try_new(batch.schema(), columns)?;
            self.write_to(partition, *bucket, &rows).await?;
        }
        Ok(())
    }

    async fn write_to(&mut self, partition: &[u8], bucket: i32, rows: &RecordBatch) -> Result<()> {
        self.clock += 1;
        let key: (Arc<[u8]>, i32) = (Arc::from(partition), bucket);
        if !self.buckets.contains_key(&key) {
            if self.buckets.len() >= MOST_OPEN
                && let Some(oldest) = self.buckets.iter().min_by_key(|(_, (_, used))| *used).map(|(key, _)| key.clone())
                && let Some((done, _)) = self.buckets.remove(&oldest)
            {
                self.messages.push(done.finish().await?);
            }
            let opened = AppendBucket::open(&self.run, Arc::clone(&key.0), bucket).await?;
            self.buckets.insert(key.clone(), (opened, 0));
        }
        if let Some((open, used)) = self.buckets.get_mut(&key) {
            *used = self.clock;
            open.write(rows).await?;
        }
        Ok(())
    }

    async fn finish(mut self) -> Result<Messages> {
        let mut open: Vec<_> = self.buckets.into_iter().collect();
        open.sort_by(|(a, _), (b, _)| a.cmp(b));
        for (_, (done, _)) in open {
            self.messages.push(done.finish().await?);
        }
        Ok(self.messages)
    }
}
