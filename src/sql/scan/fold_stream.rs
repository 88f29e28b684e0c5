//! Folding contested keys: the versions of a key lie in several runs; they are read side by side and folded window by
//! window, as `resolve` numbered them.
//!
//! The keys of all sections are dealt out to the partitions of the scan, so that every core folds.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, BooleanBufferBuilder, Int8Array, Int64Array, RecordBatch,
    RecordBatchOptions, UInt32Array,
};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{Int8Type, Int64Type, Schema, SchemaRef};
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use datafusion::physical_plan::ExecutionPlan;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};

use super::LakeScanExec;
use super::unit::{SystemColumns, UnitFactory};
use crate::error::Error;
use crate::plan::{PlannedFile, ScanPlan};
use crate::read::fold::{FoldBlock, FoldError, FoldPlan, FoldState};
use crate::read::live_rows::{FileRows, LiveRowsRef};
use crate::spec::types::SEQUENCE_NUMBER;
use crate::spec::{DataField, TableSchema};

/// Rows read of a run at a time, all runs together.
const BATCH_ROWS: usize = 131_072;
/// Rows read of a run at a time, at least.
const LEAST_BATCH_ROWS: usize = 4_096;

/// The contested keys of a scan.
#[derive(Clone)]
pub(super) struct FoldWork {
    shared: Arc<Shared>,
    partitions: usize,
    /// Sections that have contested keys, with the number of keys before each.
    sections: Arc<Vec<(usize, u64)>>,
    groups: u64,
}

struct Shared {
    plan: Arc<ScanPlan>,
    factory: Arc<UnitFactory>,
    live: Vec<LiveRowsRef>,
    fold: Arc<FoldPlan>,
    table: Arc<TableSchema>,
    /// Columns that the fold reads, by name.
    names: Vec<String>,
    /// Columns that the fold gives: those of the plan, then the system columns of the scan.
    folded: SchemaRef,
    system: SystemColumns,
    /// What the scan gives, over `folded`.
    projection: Vec<Arc<dyn PhysicalExpr>>,
    schema: SchemaRef,
}

impl Shared {
    /// Says at which key folding failed.
    async fn name_key(
        &self,
        section: usize,
        error: FoldError,
        base: u32,
        context: Arc<TaskContext>,
    ) -> DataFusionError {
        let Some(group) = error.group.map(|group| group + base) else { return error.error.into() };
        let key = self.key_of(section, group, context).await.ok().flatten();
        error.error.with("key", key.unwrap_or_else(|| format!("number {group} of its section"))).into()
    }

    /// The primary key of a group, as text.
    async fn key_of(&self, section: usize, group: u32, context: Arc<TaskContext>) -> Result<Option<String>> {
        let names = &self.table.primary_keys;
        for (index, contested) in self.live[section].contested.iter().enumerate() {
            let Some(contested) = contested else { continue };
            let Ok(at) = contested.groups.binary_search(&group) else { continue };
            let rows = FileRows::from_mask(nth_bits(&contested.mask, at..at + 1));
            let file = &self.plan.sections[section].files[index];
            let Some(source) = self.factory.file_rows(file, &rows, names, false, 1).await? else { continue };
            let mut stream = source.open(0, Arc::clone(&context))?;
            while let Some(batch) = stream.try_next().await? {
                if batch.num_rows() == 0 {
                    continue;
                }
                let values = names.iter().zip(batch.columns()).map(|(name, column)| {
                    Ok(format!("{name} = {}", arrow::util::display::array_value_to_string(column, 0)?))
                });
                return Ok(Some(values.collect::<Result<Vec<_>>>()?.join(", ")));
            }
        }
        Ok(None)
    }
}

impl FoldWork {
    pub(super) fn try_new(scan: &LakeScanExec, live: Vec<LiveRowsRef>) -> Result<Option<Self>> {
        let mut groups = 0;
        let mut sections = Vec::new();
        for (index, live) in live.iter().enumerate() {
            if live.groups > 0 {
                sections.push((index, groups));
                groups += u64::from(live.groups);
            }
        }
        if sections.is_empty() {
            return Ok(None);
        }
        let table = Arc::clone(scan.table.schema());
        let source_schema = scan.factory.schema().table_schema();
        let exprs = scan.output_exprs()?;
        let mut outputs: Vec<usize> = exprs
            .iter()
            .flat_map(collect_columns)
            .filter_map(|column| table.index_of(source_schema.field(column.index()).name()))
            .collect();
        outputs.sort_unstable();
        outputs.dedup();
        let fold = FoldPlan::try_new(&table, scan.table.settings(), &outputs)?;
        let system = scan.factory.system_columns();
        let beside = system.fields();
        let fields = outputs.iter().map(|&column| table.fields[column].to_arrow());
        let fields = fields.chain(beside.iter().map(DataField::to_arrow));
        let folded: SchemaRef =
            Arc::new(Schema::new(fields.map(|field| field.with_nullable(true)).collect::<Vec<_>>()));
        let projection =
            exprs.into_iter().map(|expr| reassign_expr_columns(expr, &folded)).collect::<Result<Vec<_>>>()?;
        let mut names: Vec<String> =
            fold.input_columns().iter().map(|&column| table.fields[column].name.clone()).collect();
        if system == (SystemColumns::Kinds { sequence: true }) {
            names.push(SEQUENCE_NUMBER.to_owned());
        }
        let shared = Shared {
            plan: Arc::clone(&scan.plan),
            factory: Arc::clone(&scan.factory),
            live,
            fold: Arc::new(fold),
            table,
            names,
            folded,
            system,
            projection,
            schema: scan.schema(),
        };
        Ok(Some(Self { shared: Arc::new(shared), partitions: scan.partitions, sections: Arc::new(sections), groups }))
    }

    /// The folded rows of `partition`: its share of all contested keys.
    pub(super) fn stream(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let bound = |partition: usize| self.groups * partition as u64 / self.partitions as u64;
        let mine = bound(partition)..bound(partition + 1);
        let mut shares = Vec::new();
        for &(section, before) in self.sections.iter() {
            let groups = u64::from(self.shared.live[section].groups);
            let (start, end) = (mine.start.max(before), mine.end.min(before + groups));
            if start < end {
                shares.push((section, (start - before) as u32..(end - before) as u32));
            }
        }
        let shared = Arc::clone(&self.shared);
        Ok(futures::stream::iter(shares)
            .then(move |(section, groups)| {
                let shared = Arc::clone(&shared);
                let context = Arc::clone(&context);
                async move { SectionFold::start(shared, section, groups, context) }
            })
            .map_ok(SectionFold::into_stream)
            .try_flatten()
            .boxed())
    }
}

/// A run of a section that is being folded.
struct Run {
    /// Files still to be read, with the rows and groups that concern this share.
    waiting: VecDeque<FileShare>,
    reading: Option<(SendableRecordBatchStream, FileShare)>,
    block: Option<Block>,
}

/// Contested rows of one file in a share of the groups.
struct FileShare {
    index: usize,
    rows: FileRows,
    groups: Range<usize>,
    /// Rows read so far.
    read: usize,
}

/// Contested rows at hand.
struct Block {
    file: usize,
    columns: Vec<ArrayRef>,
    kinds: Option<Vec<i8>>,
    groups: Vec<u32>,
    ordinals: Option<Vec<u16>>,
    at: usize,
}

impl Block {
    fn memory(&self) -> usize {
        self.columns.iter().map(|column| column.get_array_memory_size()).sum::<usize>() + self.groups.len() * 8
    }
}

struct SectionFold {
    shared: Arc<Shared>,
    section: usize,
    context: Arc<TaskContext>,
    runs: Vec<Run>,
    /// The first group that is not folded yet.
    next: u32,
    reservation: MemoryReservation,
}

impl SectionFold {
    fn start(shared: Arc<Shared>, section: usize, groups: Range<u32>, context: Arc<TaskContext>) -> Result<Self> {
        let live = &shared.live[section];
        let mut runs = Vec::new();
        for run in &shared.plan.sections[section].runs {
            let mut waiting = VecDeque::new();
            for &index in run {
                let Some(contested) = live.contested.get(index).and_then(Option::as_ref) else { continue };
                let start = contested.groups.partition_point(|group| *group < groups.start);
                let end = contested.groups.partition_point(|group| *group < groups.end);
                if start < end {
                    let rows = FileRows::from_mask(nth_bits(&contested.mask, start..end));
                    waiting.push_back(FileShare { index, rows, groups: start..end, read: 0 });
                }
            }
            if !waiting.is_empty() {
                runs.push(Run { waiting, reading: None, block: None });
            }
        }
        let reservation = MemoryConsumer::new("LakeFold").register(context.memory_pool());
        Ok(Self { shared, section, context, runs, next: groups.start, reservation })
    }

    fn into_stream(self) -> BoxStream<'static, Result<RecordBatch>> {
        futures::stream::try_unfold(self, |mut fold| async move {
            loop {
                match fold.window().await? {
                    None => return Ok(None),
                    Some(batch) if batch.num_rows() == 0 => {}
                    Some(batch) => return Ok(Some((batch, fold))),
                }
            }
        })
        .boxed()
    }

    fn file(&self, index: usize) -> &PlannedFile {
        &self.shared.plan.sections[self.section].files[index]
    }

    /// Folds the groups of which all versions are at hand. `None` when there are no more.
    async fn window(&mut self) -> Result<Option<RecordBatch>> {
        for run in 0..self.runs.len() {
            self.fill(run).await?;
        }
        let blocks: usize = self.runs.iter().filter_map(|run| run.block.as_ref()).map(Block::memory).sum();
        self.reservation.try_resize(blocks)?;
        // No later block of a run has a group up to its last one.
        let Some(bound) = self.runs.iter().filter_map(|run| run.block.as_ref()?.groups.last()).min().copied() else {
            return Ok(None);
        };
        let (base, groups) = (self.next, (bound + 1 - self.next) as usize);
        self.next = bound + 1;
        let live = Arc::clone(&self.shared.live[self.section]);
        let mut parts: Vec<(u32, &Block, Range<usize>)> = Vec::new();
        for block in self.runs.iter().filter_map(|run| run.block.as_ref()) {
            let end = block.at + block.groups[block.at..].partition_point(|group| *group <= bound);
            if end > block.at {
                parts.push((live.rank[block.file], block, block.at..end));
            }
        }
        parts.sort_by_key(|(rank, _, _)| *rank);
        let mut state = FoldState::new(Arc::clone(&self.shared.fold), groups).map_err(Error::from)?;
        let mut updates: Vec<(&Block, Rows)> = Vec::new();
        let by_ordinal = parts.iter().any(|(_, block, _)| block.ordinals.is_some());
        if by_ordinal {
            let last = parts
                .iter()
                .flat_map(|(_, block, range)| block.ordinals.iter().flat_map(|ordinals| &ordinals[range.clone()]))
                .max()
                .copied()
                .unwrap_or(0);
            for ordinal in 0..=last {
                for (_, block, range) in &parts {
                    let rows: Vec<u32> = range
                        .clone()
                        .filter(|&row| block.ordinals.as_ref().map_or(0, |ordinals| ordinals[row]) == ordinal)
                        .map(|row| row as u32)
                        .collect();
                    if !rows.is_empty() {
                        updates.push((*block, Rows::At(UInt32Array::from(rows))));
                    }
                }
            }
        } else {
            updates.extend(parts.iter().map(|(_, block, range)| (*block, Rows::Range(range.clone()))));
        }
        let mut folded = Ok(());
        let width = self.shared.fold.input_columns().len();
        let mut sequence =
            vec![0; if self.shared.system == (SystemColumns::Kinds { sequence: true }) { groups } else { 0 }];
        for (block, rows) in &updates {
            folded = update(&mut state, block, rows, base, width);
            if let Some(numbers) = block.columns.get(width).filter(|_| !sequence.is_empty()) {
                // The last version of a key counts, and they come in order.
                let numbers = numbers.as_primitive::<Int64Type>();
                rows.iter().for_each(|row| sequence[(block.groups[row] - base) as usize] = numbers.value(row));
            }
            if folded.is_err() {
                break;
            }
        }
        drop(updates);
        let folded = match folded.and_then(|()| state.finish()) {
            Ok(folded) => folded,
            Err(error) => {
                let (shared, context) = (Arc::clone(&self.shared), Arc::clone(&self.context));
                return Err(shared.name_key(self.section, error, base, context).await);
            }
        };
        for run in &mut self.runs {
            if let Some(block) = &mut run.block {
                block.at += block.groups[block.at..].partition_point(|group| *group <= bound);
            }
        }
        let mut columns = folded.columns;
        if self.shared.system.has_kinds() {
            columns.push(Arc::new(Int8Array::from(folded.kinds)));
        }
        if !sequence.is_empty() {
            columns.push(Arc::new(Int64Array::from(sequence)));
        }
        self.project(columns, &folded.keep).map(Some)
    }

    /// Keeps the rows that are rows of the table, or all when their kinds are told, and gives what the scan gives.
    fn project(&self, columns: Vec<ArrayRef>, keep: &BooleanBuffer) -> Result<RecordBatch> {
        let all = self.shared.system.has_kinds();
        let options = RecordBatchOptions::new().with_row_count(Some(keep.len()));
        let mut batch = RecordBatch::try_new_with_options(Arc::clone(&self.shared.folded), columns, &options)?;
        if !all && keep.count_set_bits() < keep.len() {
            batch = arrow::compute::filter_record_batch(&batch, &BooleanArray::new(keep.clone(), None))?;
        }
        let columns = self
            .shared
            .projection
            .iter()
            .map(|expr| expr.evaluate(&batch)?.into_array(batch.num_rows()))
            .collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.shared.schema), columns, &options)?)
    }

    /// Makes sure that a block with rows is at hand, if the run has any left.
    async fn fill(&mut self, run: usize) -> Result<()> {
        loop {
            if self.runs[run].block.as_ref().is_some_and(|block| block.at < block.groups.len()) {
                return Ok(());
            }
            self.runs[run].block = None;
            if self.runs[run].reading.is_none() {
                let Some(share) = self.runs[run].waiting.pop_front() else { return Ok(()) };
                let file = self.file(share.index);
                let kinds = file.file.delete_rows() != Some(0);
                let rows = (BATCH_ROWS / self.runs.len()).clamp(LEAST_BATCH_ROWS, BATCH_ROWS / 4);
                let source = self.shared.factory.file_rows(file, &share.rows, &self.shared.names, kinds, rows).await?;
                let Some(source) = source else { continue };
                let stream = source.open(0, Arc::clone(&self.context))?;
                self.runs[run].reading = Some((stream, share));
            }
            self.read(run).await?;
        }
    }

    async fn read(&mut self, run: usize) -> Result<()> {
        let Some((stream, share)) = &mut self.runs[run].reading else { return Ok(()) };
        let Some(batch) = stream.try_next().await? else {
            let complete = share.read == share.groups.len();
            let name = self.runs[run].reading.take().map(|(_, share)| self.file(share.index).file.name().to_owned());
            if !complete {
                let error = Error::corrupt("the file gave fewer rows than were asked for");
                return Err(error.with("file", name.unwrap_or_default()).into());
            }
            return Ok(());
        };
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let from = share.groups.start + share.read;
        share.read += batch.num_rows();
        let to = share.groups.start + share.read;
        let index = share.index;
        let contested = self.shared.live[self.section].contested.get(index).and_then(Option::as_ref);
        let (Some(contested), true) = (contested, share.read <= share.groups.len()) else {
            return Err(DataFusionError::from(Error::internal("a file gave more rows than were asked for")));
        };
        let mut columns = batch.columns().to_vec();
        let kinds = if columns.len() > self.shared.names.len() {
            let kinds = columns.pop().map(|kinds| arrow::compute::cast(&kinds, &arrow::datatypes::DataType::Int8));
            kinds.transpose()?.map(|kinds| kinds.as_primitive::<Int8Type>().values().to_vec())
        } else {
            None
        };
        self.runs[run].block = Some(Block {
            file: index,
            columns,
            kinds,
            groups: contested.groups[from..to].to_vec(),
            ordinals: contested.ordinals.as_ref().map(|ordinals| ordinals[from..to].to_vec()),
            at: 0,
        });
        Ok(())
    }
}

/// Folds some rows of a block.
fn update(
    state: &mut FoldState,
    block: &Block,
    rows: &Rows,
    base: u32,
    width: usize,
) -> std::result::Result<(), FoldError> {
    let groups: Vec<u32> = rows.iter().map(|row| block.groups[row] - base).collect();
    let kinds: Option<Vec<i8>> = block.kinds.as_ref().map(|kinds| rows.iter().map(|row| kinds[row]).collect());
    let columns = block
        .columns
        .iter()
        .take(width)
        .map(|column| match rows {
            Rows::Range(range) => Ok(column.slice(range.start, range.len())),
            Rows::At(rows) => Ok(arrow::compute::take(column, rows, None)?),
        })
        .collect::<std::result::Result<Vec<ArrayRef>, FoldError>>()?;
    state.update(&FoldBlock { group_of: &groups, kinds: kinds.as_deref(), columns: &columns })
}

/// Rows of a block.
enum Rows {
    Range(Range<usize>),
    At(UInt32Array),
}

impl Rows {
    fn iter(&self) -> Box<dyn Iterator<Item = usize> + '_> {
        match self {
            Self::Range(range) => Box::new(range.clone()),
            Self::At(rows) => Box::new(rows.values().iter().map(|row| *row as usize)),
        }
    }
}

/// `mask` with only those set bits left whose number (from 0) is in `wanted`.
fn nth_bits(mask: &BooleanBuffer, wanted: Range<usize>) -> BooleanBuffer {
    let mut positions = mask.set_indices();
    let first = positions.nth(wanted.start);
    let Some(first) = first else { return BooleanBuffer::new_unset(mask.len()) };
    let last = if wanted.len() > 1 { positions.nth(wanted.len() - 2).unwrap_or(first) } else { first };
    let mut result = BooleanBufferBuilder::new(mask.len());
    result.append_n(first, false);
    result.append_buffer(&mask.slice(first, last + 1 - first));
    result.append_n(mask.len() - last - 1, false);
    result.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nth_bits_when_range_is_asked_then_only_those_stay() {
        let mask = BooleanBuffer::from(vec![true, false, true, true, false, true]);
        let bits = |range| nth_bits(&mask, range).set_indices().collect::<Vec<_>>();
        assert_eq!(bits(0..4), [0, 2, 3, 5]);
        assert_eq!(bits(1..3), [2, 3]);
        assert_eq!(bits(3..4), [5]);
        assert_eq!(nth_bits(&mask, 1..2).len(), 6);
    }
}
