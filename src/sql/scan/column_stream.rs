//! Reading column groups: the files of a group are read side by side, row by row position, each for the columns that it is
//! the newest file to hold. Row ids and sequence numbers are added on the way.
//!
//! The rows of all groups are dealt out to the partitions of the scan, so that every core reads.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanBufferBuilder, Int64Array, RecordBatch, RecordBatchOptions, StringViewArray,
    new_null_array,
};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{DataType as ArrowType, Field, Int64Type, Schema, SchemaRef};
use datafusion::common::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use datafusion::physical_plan::ExecutionPlan;
use futures::stream::BoxStream;
use futures::{StreamExt, TryFutureExt, TryStreamExt};

use super::LakeScanExec;
use super::unit::{SystemColumns, UnitFactory};
use crate::error::Error;
use crate::plan::{ColumnGroup, ScanPlan};
use crate::read::deletion;
use crate::read::live_rows::FileRows;
use crate::spec::TypeKind;
use crate::spec::types::{ROW_ID, SEQUENCE_NUMBER};
use crate::sql::dml::{FILE_NAME, ROW_INDEX};
use crate::table::Table;

/// Rows given at a time.
const BATCH_ROWS: usize = 8192;

/// The column groups of a scan.
#[derive(Clone)]
pub(super) struct ColumnWork {
    shared: Arc<Shared>,
    partitions: usize,
}

struct Shared {
    plan: Arc<ScanPlan>,
    factory: Arc<UnitFactory>,
    groups: Vec<GroupRead>,
    /// Rows of the groups before each, and of all.
    before: Vec<u64>,
    /// The columns that are read, by the names of the table.
    columns: SchemaRef,
    /// What the scan gives, over `columns`.
    projection: Vec<Arc<dyn PhysicalExpr>>,
    schema: SchemaRef,
    /// Reads the condition of the query alone, for the rows that are worth reading.
    probe: Option<Arc<Shared>>,
}

/// How a group is read.
struct GroupRead {
    /// Its rows that are not deleted.
    live: FileRows,
    lanes: Vec<Lane>,
    /// The columns that are the same in all rows, by position, one value long.
    constants: Vec<(usize, ArrayRef)>,
}

/// Columns that come from the same files.
struct Lane {
    /// Positions of the columns.
    columns: Vec<usize>,
    /// All rows of the group, part by part.
    pieces: Vec<Piece>,
}

/// Rows of a group and the file, by position, that has the columns for them; NULL where none does.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Piece {
    start: u64,
    end: u64,
    file: Option<usize>,
}

impl ColumnWork {
    pub(super) async fn try_new(scan: &LakeScanExec) -> Result<Option<Self>> {
        if scan.plan.groups.is_empty() {
            return Ok(None);
        }
        let exprs = scan.output_exprs()?;
        let probe = match scan.group_filter().filter(|filter| probing_pays(scan, &exprs, filter)) {
            Some(filter) => {
                let schema = Arc::new(Schema::new(vec![Field::new("keep", ArrowType::Boolean, true)]));
                Some(Arc::new(Shared::try_new(scan, vec![filter], schema, None).await?))
            }
            None => None,
        };
        let shared = Shared::try_new(scan, exprs, scan.schema(), probe).await?;
        Ok(Some(Self { shared: Arc::new(shared), partitions: scan.partitions }))
    }

    /// The rows of `partition`: its share of the rows of all groups.
    pub(super) fn stream(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> BoxStream<'static, Result<RecordBatch>> {
        let before = &self.shared.before;
        let all = before.last().copied().unwrap_or(0);
        let bound = |partition: usize| (u128::from(all) * partition as u128 / self.partitions as u128) as u64;
        let mine = bound(partition)..bound(partition + 1);
        let mut shares = Vec::new();
        for (group, ends) in before.windows(2).enumerate() {
            let (start, end) = (mine.start.max(ends[0]), mine.end.min(ends[1]));
            if start < end {
                shares.push((group, start - ends[0]..end - ends[0]));
            }
        }
        let shared = Arc::clone(&self.shared);
        futures::stream::iter(shares)
            .map(move |(group, rows)| GroupStream::new(&shared, group, rows, Arc::clone(&context)).into_stream())
            .flatten()
            .boxed()
    }
}

impl Shared {
    /// For `exprs` over the columns of the scan's sources.
    async fn try_new(
        scan: &LakeScanExec,
        exprs: Vec<Arc<dyn PhysicalExpr>>,
        schema: SchemaRef,
        probe: Option<Arc<Self>>,
    ) -> Result<Self> {
        let source_schema = scan.factory.schema().table_schema();
        let mut wanted: Vec<usize> = exprs.iter().flat_map(collect_columns).map(|column| column.index()).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let columns: SchemaRef = Arc::new(Schema::new(
            wanted.iter().map(|&column| source_schema.field(column).clone().with_nullable(true)).collect::<Vec<_>>(),
        ));
        let projection =
            exprs.into_iter().map(|expr| reassign_expr_columns(expr, &columns)).collect::<Result<Vec<_>>>()?;
        let groups: Vec<GroupRead> = futures::stream::iter(0..scan.plan.groups.len())
            .map(|group| {
                let (table, factory) = (Arc::clone(&scan.table), Arc::clone(&scan.factory));
                let (plan, columns) = (Arc::clone(&scan.plan), Arc::clone(&columns));
                async move { group_read(&table, &factory, &plan.groups[group], &columns).await }
            })
            .buffered(8)
            .try_collect()
            .await?;
        let mut before = vec![0];
        for group in &scan.plan.groups {
            before.push(before.last().copied().unwrap_or(0) + group.rows);
        }
        let (plan, factory) = (Arc::clone(&scan.plan), Arc::clone(&scan.factory));
        Ok(Self { plan, factory, groups, before, columns, projection, schema, probe })
    }
}

/// Whether to find the rows that `filter` keeps before all columns of them are read: BLOBs are, by far, larger than others.
fn probing_pays(scan: &LakeScanExec, exprs: &[Arc<dyn PhysicalExpr>], filter: &Arc<dyn PhysicalExpr>) -> bool {
    let source_schema = scan.factory.schema().table_schema();
    let is_blob = |column: &Column| {
        let field =
            source_schema.fields().get(column.index()).and_then(|field| scan.table.schema().field(field.name()));
        field.is_some_and(|field| field.data_type.kind == TypeKind::Blob)
    };
    exprs.iter().flat_map(collect_columns).any(|column| is_blob(&column))
        && !collect_columns(filter).iter().any(is_blob)
}

/// Where the columns of a group are, and which of its rows are not deleted.
async fn group_read(
    table: &Table,
    factory: &UnitFactory,
    group: &ColumnGroup,
    columns: &SchemaRef,
) -> crate::error::Result<GroupRead> {
    let schema = table.schema();
    let newest = group.files.first().ok_or_else(|| Error::internal("a column group without files"))?;
    let mut held = Vec::with_capacity(group.files.len());
    for file in &group.files {
        held.push(factory.held_fields(file).await?);
    }
    let mut lanes: BTreeMap<Vec<Piece>, Vec<usize>> = BTreeMap::new();
    let mut constants = Vec::new();
    for (position, field) in columns.fields().iter().enumerate() {
        let name = field.name();
        if let Some(at) = schema.partition_keys.iter().position(|key| key == name) {
            let value = newest.partition.values.get(at).ok_or_else(|| Error::internal("a partition lacks a value"))?;
            constants.push((position, value.to_array_of_size(1)?));
            continue;
        }
        let system = [ROW_ID, SEQUENCE_NUMBER].contains(&name.as_str());
        let holds = |file: usize| match schema.field(name) {
            Some(field) => held[file].iter().any(|held| held.id == field.id),
            // The newest file speaks for the row.
            None => system && file == 0 && held[file].iter().any(|held| held.name == *name),
        };
        let pieces = pieces(group, holds);
        if pieces.iter().any(|piece| piece.file.is_some()) {
            lanes.entry(pieces).or_default().push(position);
        }
    }
    let lanes = lanes.into_iter().map(|(pieces, columns)| Lane { columns, pieces }).collect();
    Ok(GroupRead { live: live_rows(table, group).await?, lanes, constants })
}

/// The newest file that `holds` a column, for all rows of the group.
fn pieces(group: &ColumnGroup, holds: impl Fn(usize) -> bool) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    let mut open = Vec::from([Range { start: 0, end: group.rows }]);
    for (index, file) in group.files.iter().enumerate() {
        if open.is_empty() {
            break;
        }
        if !holds(index) {
            continue;
        }
        let first = group.offset(file);
        let has = first..first.saturating_add(file.file.rows()).min(group.rows);
        let mut left: Vec<Range<u64>> = Vec::new();
        for range in open {
            let (start, end) = (range.start.max(has.start), range.end.min(has.end));
            if start >= end {
                left.push(range);
                continue;
            }
            pieces.push(Piece { start, end, file: Some(index) });
            left.extend([range.start..start, end..range.end].into_iter().filter(|range| !range.is_empty()));
        }
        open = left;
    }
    pieces.extend(open.into_iter().filter(|range| !range.is_empty()).map(|range| Piece {
        start: range.start,
        end: range.end,
        file: None,
    }));
    pieces.sort_unstable();
    pieces
}

/// The rows of a group that no deletion vector of its files marks and no index rules out.
async fn live_rows(table: &Table, group: &ColumnGroup) -> crate::error::Result<FileRows> {
    let mut live: Option<BooleanBuffer> = None;
    for file in &group.files {
        let rows = file.file.rows();
        let deleted = deletion::load(table, file).await?;
        let live_in_file = deletion::live_rows(deleted.as_deref(), file.candidates.as_deref(), rows)?;
        let Some(mask) = live_in_file.mask(rows) else { continue };
        let first = group.offset(file) as usize;
        let mut whole = BooleanBufferBuilder::new(group.rows as usize);
        whole.append_n(first, true);
        whole.append_buffer(&mask);
        whole.append_n((group.rows as usize).saturating_sub(first + mask.len()), true);
        let whole = whole.finish();
        live = Some(match live {
            None => whole,
            Some(live) => &live & &whole,
        });
    }
    Ok(live.map_or(FileRows::All, FileRows::from_mask))
}

/// Rows of one group that are being read.
struct GroupStream {
    shared: Arc<Shared>,
    group: usize,
    context: Arc<TaskContext>,
    cursors: Vec<Cursor>,
    /// The rows still to be given; of these the live ones.
    rows: Range<u64>,
    live: FileRows,
}

/// A lane that is being read.
struct Cursor {
    lane: usize,
    waiting: VecDeque<Piece>,
    reading: Option<SendableRecordBatchStream>,
    /// The file that is read, by position.
    file: usize,
    /// Live rows that the piece at hand still has to give.
    expected: u64,
    batch: Option<RecordBatch>,
    at: usize,
}

impl GroupStream {
    fn new(shared: &Arc<Shared>, group: usize, rows: Range<u64>, context: Arc<TaskContext>) -> Self {
        let cursors = shared.groups[group].lanes.iter().enumerate().map(|(lane, read)| {
            let pieces = read.pieces.iter().filter_map(|piece| {
                let (start, end) = (piece.start.max(rows.start), piece.end.min(rows.end));
                (start < end).then_some(Piece { start, end, file: piece.file })
            });
            Cursor { lane, waiting: pieces.collect(), reading: None, file: 0, expected: 0, batch: None, at: 0 }
        });
        let live = shared.groups[group].live.clone();
        Self { cursors: cursors.collect(), shared: Arc::clone(shared), group, context, rows, live }
    }

    fn into_stream(self) -> BoxStream<'static, Result<RecordBatch>> {
        let rows = async move { Ok(self.probed().await.rows_stream()) };
        rows.try_flatten_stream().boxed()
    }

    fn rows_stream(self) -> BoxStream<'static, Result<RecordBatch>> {
        futures::stream::try_unfold(
            self,
            |mut group| async move { Ok(group.next().await?.map(|batch| (batch, group))) },
        )
        .boxed()
    }

    /// The same without the rows that the condition of the query leaves out, where that is found out first.
    async fn probed(mut self) -> Self {
        let Some(probe) = &self.shared.probe else { return self };
        let probe = Self::new(probe, self.group, self.rows.clone(), Arc::clone(&self.context));
        // A condition that fails here may do so on rows that the query's other conditions leave out.
        if let Ok(kept) = probe.kept().await {
            self.live = kept;
        }
        self
    }

    /// The rows for which the only column is true.
    async fn kept(self) -> Result<FileRows> {
        let all = self.plan().rows as usize;
        let mut waiting = live_positions(&self.live, self.rows.clone(), usize::MAX).into_iter();
        let mut kept = BooleanBufferBuilder::new(all);
        let mut stream = self.rows_stream();
        while let Some(batch) = stream.try_next().await? {
            let keep = batch.column(0).as_boolean();
            for (row, position) in waiting.by_ref().take(batch.num_rows()).enumerate() {
                if keep.is_valid(row) && keep.value(row) {
                    kept.append_n(position as usize - kept.len(), false);
                    kept.append(true);
                }
            }
        }
        kept.append_n(all.saturating_sub(kept.len()), false);
        Ok(FileRows::from_mask(kept.finish()))
    }

    fn plan(&self) -> &ColumnGroup {
        &self.shared.plan.groups[self.group]
    }

    fn read(&self) -> &GroupRead {
        &self.shared.groups[self.group]
    }

    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        for cursor in 0..self.cursors.len() {
            self.fill(cursor).await?;
        }
        let at_hand =
            self.cursors.iter().filter_map(|cursor| cursor.batch.as_ref().map(|batch| batch.num_rows() - cursor.at));
        let most = at_hand.min().unwrap_or(BATCH_ROWS);
        let positions = live_positions(&self.live, self.rows.clone(), most);
        let Some(last) = positions.last() else {
            self.rows.start = self.rows.end;
            return Ok(None);
        };
        self.rows.start = last + 1;
        self.assemble(&positions).map(Some)
    }

    /// The rows at `positions` of the group, the next ones of each cursor.
    fn assemble(&mut self, positions: &[u64]) -> Result<RecordBatch> {
        let rows = positions.len();
        let mut columns: Vec<Option<ArrayRef>> = vec![None; self.shared.columns.fields().len()];
        for cursor in &mut self.cursors {
            let lane = &self.shared.groups[self.group].lanes[cursor.lane];
            let Some(batch) = cursor.batch.as_ref().filter(|batch| batch.num_rows() - cursor.at >= rows) else {
                return Err(Error::internal("a column has fewer rows than the others").into());
            };
            for (&column, values) in lane.columns.iter().zip(batch.columns()) {
                columns[column] = Some(values.slice(cursor.at, rows));
            }
            cursor.at += rows;
        }
        for (column, value) in &self.read().constants {
            let none = Int64Array::from(vec![0; rows]);
            columns[*column] = Some(arrow::compute::take(value, &none, None)?);
        }
        let first_row_id = self.plan().first_row_id;
        // Sequence numbers that a file does not hold are those of its commit, the newest one of the row's files.
        let sequence = self.plan().files.first().map(|file| file.file.sequence_numbers().1);
        let newest = self.plan().files.first();
        let places = matches!(self.shared.factory.system_columns(), SystemColumns::Places { .. });
        let columns = self.shared.columns.fields().iter().zip(columns).map(|(field, column)| {
            match field.name().as_str() {
                FILE_NAME if places => {
                    let name = StringViewArray::from_iter_values([newest.map_or("", |file| file.file.name())]);
                    // The rows share the text.
                    return Ok(arrow::compute::take(&name, &Int64Array::from(vec![0; rows]), None)?);
                }
                ROW_INDEX if places => {
                    // Tables whose rows lie in several files have no places.
                    let positions = positions.iter().map(|position| *position as i64);
                    return Ok(Arc::new(Int64Array::from_iter_values(positions)) as ArrayRef);
                }
                _ => {}
            }
            let default: Option<Box<dyn Fn(u64) -> Option<i64>>> = match field.name().as_str() {
                ROW_ID => Some(Box::new(|position| {
                    first_row_id.and_then(|first| i64::try_from(first.checked_add(position)?).ok())
                })),
                SEQUENCE_NUMBER => Some(Box::new(|_| sequence)),
                _ => None,
            };
            Ok(match (column, default) {
                (Some(column), None) => column,
                (None, None) => new_null_array(field.data_type(), rows),
                (column, Some(default)) => {
                    let held = column.as_ref().and_then(|column| column.as_primitive_opt::<Int64Type>());
                    let value = |(row, position): (usize, &u64)| match held {
                        Some(held) if held.is_valid(row) => Some(held.value(row)),
                        _ => default(*position),
                    };
                    Arc::new(positions.iter().enumerate().map(value).collect::<Int64Array>()) as ArrayRef
                }
            })
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.shared.columns), columns, &options)?;
        let columns = self
            .shared
            .projection
            .iter()
            .map(|expr| expr.evaluate(&batch)?.into_array(rows))
            .collect::<Result<Vec<_>>>()?;
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.shared.schema), columns, &options)?)
    }

    /// Makes sure that rows of a lane are at hand, if it has any left.
    async fn fill(&mut self, cursor: usize) -> Result<()> {
        loop {
            let state = &mut self.cursors[cursor];
            if state.batch.as_ref().is_some_and(|batch| state.at < batch.num_rows()) {
                return Ok(());
            }
            (state.batch, state.at) = (None, 0);
            let Some(stream) = &mut state.reading else {
                let Some(piece) = state.waiting.pop_front() else { return Ok(()) };
                self.open(cursor, &piece).await?;
                continue;
            };
            match stream.try_next().await? {
                Some(batch) => match state.expected.checked_sub(batch.num_rows() as u64) {
                    Some(left) => (state.expected, state.batch) = (left, Some(batch)),
                    None => return Err(self.miscounted(cursor).into()),
                },
                None if state.expected > 0 => return Err(self.miscounted(cursor).into()),
                None => state.reading = None,
            }
        }
    }

    fn miscounted(&self, cursor: usize) -> Error {
        let name = self.plan().files.get(self.cursors[cursor].file).map(|file| file.file.name().to_owned());
        Error::corrupt("the file does not have as many rows as the manifest says")
            .with("file", name.unwrap_or_default())
    }

    async fn open(&mut self, cursor: usize, piece: &Piece) -> Result<()> {
        let lane = &self.read().lanes[self.cursors[cursor].lane];
        let fields: Vec<_> =
            lane.columns.iter().map(|&column| Arc::clone(&self.shared.columns.fields()[column])).collect();
        let length = (piece.end - piece.start) as usize;
        let live = match &self.live {
            FileRows::Some(mask) => mask.slice(piece.start as usize, length),
            FileRows::All => BooleanBuffer::new_set(length),
            FileRows::None => BooleanBuffer::new_unset(length),
        };
        let rows = live.count_set_bits();
        let Some(index) = piece.file else {
            let options = RecordBatchOptions::new().with_row_count(Some(rows));
            let columns = fields.iter().map(|field| new_null_array(field.data_type(), rows)).collect();
            let batch = RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)?;
            self.cursors[cursor].batch = Some(batch);
            return Ok(());
        };
        let file = self.plan().files.get(index).ok_or_else(|| Error::internal("a file that the group lacks"))?;
        let first = self.plan().offset(file);
        let mut mask = BooleanBufferBuilder::new(file.file.rows() as usize);
        mask.append_n((piece.start - first) as usize, false);
        mask.append_buffer(&live);
        mask.append_n((file.file.rows() - (piece.end - first)) as usize, false);
        let names: Vec<String> = fields.iter().map(|field| field.name().clone()).collect();
        let source =
            self.shared.factory.file_rows(file, &FileRows::from_mask(mask.finish()), &names, false, BATCH_ROWS).await?;
        let reading = source.map(|source| source.open(0, Arc::clone(&self.context))).transpose()?;
        let state = &mut self.cursors[cursor];
        (state.file, state.expected, state.reading) = (index, rows as u64, reading);
        Ok(())
    }
}

/// The first `most` live rows among `rows`.
fn live_positions(live: &FileRows, rows: Range<u64>, most: usize) -> Vec<u64> {
    match live {
        FileRows::None => Vec::new(),
        FileRows::All => rows.take(most).collect(),
        FileRows::Some(mask) => {
            let part = mask.slice(rows.start as usize, (rows.end - rows.start) as usize);
            part.set_indices().take(most).map(|index| rows.start + index as u64).collect()
        }
    }
}
