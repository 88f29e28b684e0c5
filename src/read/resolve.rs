//! Resolving a section: its keys are read run by run and decided window by window.
//!
//! ```text
//! run 0  [ chunk ][ chunk ]..      each run: the files of a sorted run, one after another, read ahead by a task a file
//! run 1  [   chunk   ][ ch..
//! run 2    [ chunk     ]..
//!                   | bound = the smallest last key of the chunks at hand: no later chunk has a key up to it
//!        [ window   ]
//! ```

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::BooleanBufferBuilder;
use arrow::compute::SortOptions;
use arrow_row::{RowConverter, SortField};
use datafusion::common::runtime::SpawnedTask;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use futures::StreamExt;
use tokio::sync::mpsc;

use super::deletion::DeletedRows;
use super::kernel::{self, MergeOrder, Stretch, UNCONTESTED};
use super::keys::{KeyChunk, KeyCoder, RowPositions, Versions, retracts};
use super::live_rows::{Contested, FileRows, LiveRows};
use crate::error::{Error, Result};
use crate::plan::{PlannedFile, Section, SectionKind};
use crate::spec::types::{SEQUENCE_NUMBER, SEQUENCE_NUMBER_ID, VALUE_KIND, VALUE_KIND_ID};
use crate::spec::{DataField, DataType, TypeKind};

/// What the merge of a table goes by.
#[derive(Clone, Debug)]
pub struct MergeRules {
    /// Trimmed primary key columns.
    pub keys: Vec<DataField>,
    /// `sequence.field` columns.
    pub sequence_fields: Vec<DataField>,
    /// `sequence.field.sort-order = descending`.
    pub sequence_descending: bool,
    /// `sequence.snapshot-ordering`: rows of files that a writer appended all have the number of their file.
    pub snapshot_ordering: bool,
    /// Rows that retract are no versions (`ignore-delete`).
    pub ignore_retracts: bool,
    /// Of the levels above 0 only the lowest that has a key counts (`spec/data.md 4.3`).
    pub lookup_merge: bool,
    /// A newest version that retracts is live like any other: the reader tells what it is.
    pub keep_retracts: bool,
}

/// Opens the files of a section as streams of their key columns.
pub trait KeyReader: Send + Sync + 'static {
    /// The columns `wanted` of `file`, in that order, in batches of about `batch_size` rows that hold all its rows in file
    /// order.
    fn open(
        &self,
        file: &PlannedFile,
        wanted: &[DataField],
        batch_size: usize,
    ) -> Result<futures::stream::BoxStream<'static, Result<arrow::array::RecordBatch>>>;

    /// The rows of `file` that its deletion vector marks.
    fn deleted(&self, file: &PlannedFile) -> futures::future::BoxFuture<'static, Result<Option<Arc<DeletedRows>>>>;
}

/// Rows of a chunk, at most.
const CHUNK_ROWS: usize = 65_536;
/// Rows of a chunk when there are many runs.
const SMALL_CHUNK_ROWS: usize = 8_192;
/// From here on chunks are small: they are held for each run.
const MANY_RUNS: usize = 16;
/// Chunks that a file's task may be ahead.
const AHEAD: usize = 2;

/// Resolves `section`: which rows of each file are live, and which are versions of contested keys.
///
/// Memory (a few chunks a run, one bit a row, six bytes a contested row) is taken from `pool`.
///
/// # Errors
/// Errors of reading name the file; a pool that is too small is an error that says so.
pub async fn resolve(
    section: &Section,
    rules: &MergeRules,
    reader: Arc<dyn KeyReader>,
    pool: &Arc<dyn MemoryPool>,
) -> Result<LiveRows> {
    let reservation = MemoryConsumer::new("LakeResolve").register(pool);
    let total: usize = section.files.iter().map(|file| file.file.rows() as usize).sum();
    reservation.try_grow(total / 8 * 2 + section.files.len() * 64)?;

    let order = FileOrder::of(section, rules);
    let chunk_rows = if section.runs.len() > MANY_RUNS { SMALL_CHUNK_ROWS } else { CHUNK_ROWS };
    let shared = Arc::new(ReadPlan::try_new(rules, &order, chunk_rows)?);
    let ahead = if section.runs.len() > MANY_RUNS { 1 } else { 2 };
    let mut cursors: Vec<Cursor> = section
        .runs
        .iter()
        .map(|run| {
            let files = run.iter().map(|&index| (index, section.files[index].clone())).collect();
            Cursor::new(files, Arc::clone(&shared), Arc::clone(&reader), ahead)
        })
        .collect();
    let mut state = Resolving {
        kind: section.kind,
        rules,
        order: &order,
        files: section.files.iter().map(|file| FileState::new(file.file.rows() as usize)).collect(),
        levels: section.files.iter().map(|file| file.file.level()).collect(),
        groups: 0,
        dead: 0,
    };
    loop {
        let mut chunks = 0;
        for cursor in &mut cursors {
            cursor.fill().await?;
            chunks += cursor.chunk.as_ref().map_or(0, |chunk| chunk.keys.memory());
        }
        reservation.try_resize(total / 8 * 2 + chunks * (AHEAD + 1) + state.memory())?;
        if !state.window(&mut cursors)? {
            break;
        }
    }
    drop::<MemoryReservation>(reservation);
    state.finish()
}

/// What is read of each file.
struct ReadPlan {
    coder: KeyCoder,
    keys: usize,
    wanted: Vec<DataField>,
    /// Position of `_VALUE_KIND` in `wanted`, for files that may hold retracts.
    kind: usize,
    sequence: Option<usize>,
    fields: Option<RowConverter>,
    ignore_retracts: bool,
    snapshot_ordering: bool,
    chunk_rows: usize,
}

impl ReadPlan {
    fn try_new(rules: &MergeRules, order: &FileOrder, chunk_rows: usize) -> Result<Self> {
        let coder = KeyCoder::try_new(&rules.keys.iter().collect::<Vec<_>>())?;
        let mut wanted = rules.keys.clone();
        let mut sequence = None;
        let mut fields = None;
        if !order.by_file {
            wanted.extend(rules.sequence_fields.iter().cloned());
            if !rules.sequence_fields.is_empty() {
                // NULL ranks lowest in both orders (`spec/data.md 4.2`).
                let options = SortOptions { descending: rules.sequence_descending, nulls_first: true };
                let sort = rules
                    .sequence_fields
                    .iter()
                    .map(|field| SortField::new_with_options(field.data_type.to_arrow(), options))
                    .collect();
                fields = Some(RowConverter::new(sort)?);
            }
            sequence = Some(wanted.len());
            wanted.push(DataField::new(SEQUENCE_NUMBER_ID, SEQUENCE_NUMBER, DataType::not_null(TypeKind::BigInt)));
        }
        let kind = wanted.len();
        wanted.push(DataField::new(VALUE_KIND_ID, VALUE_KIND, DataType::not_null(TypeKind::TinyInt)));
        Ok(Self {
            coder,
            keys: rules.keys.len(),
            wanted,
            kind,
            sequence,
            fields,
            ignore_retracts: rules.ignore_retracts,
            snapshot_ordering: rules.snapshot_ordering,
            chunk_rows,
        })
    }

    /// Reads one file into chunks.
    async fn read(
        &self,
        index: usize,
        file: &PlannedFile,
        reader: &dyn KeyReader,
        chunks: &mpsc::Sender<Result<KeyChunk>>,
    ) -> Result<()> {
        let has_retracts = file.file.delete_rows() != Some(0);
        let wanted = if has_retracts { &self.wanted[..] } else { &self.wanted[..self.kind] };
        let deleted = reader.deleted(file).await?;
        let mut batches = reader.open(file, wanted, self.chunk_rows)?;
        let mut position = 0u64;
        while let Some(batch) = batches.next().await {
            let batch = batch?;
            if batch.num_rows() == 0 {
                continue;
            }
            let first = position;
            position += batch.num_rows() as u64;
            let chunk = self.chunk(index, file, &batch, first, has_retracts, deleted.as_deref())?;
            if !chunk.keys.is_empty() && chunks.send(Ok(chunk)).await.is_err() {
                return Ok(());
            }
        }
        if position != file.file.rows() {
            return Err(Error::corrupt(format!(
                "the file has {position} rows, its manifest entry says {}",
                file.file.rows()
            )));
        }
        Ok(())
    }

    fn chunk(
        &self,
        index: usize,
        file: &PlannedFile,
        batch: &arrow::array::RecordBatch,
        first: u64,
        has_retracts: bool,
        deleted: Option<&DeletedRows>,
    ) -> Result<KeyChunk> {
        let mut retract = if has_retracts { Some(retracts(batch, self.kind)?) } else { None };
        let mut rows = RowPositions::From(first);
        let mut batch = std::borrow::Cow::Borrowed(batch);
        // Rows that a deletion vector marks, and retracts that are to be ignored, are no versions of their keys.
        let absent = |row: usize, retract: &Option<Vec<bool>>| {
            deleted.is_some_and(|deleted| deleted.contains(first + row as u64))
                || (self.ignore_retracts && retract.as_ref().is_some_and(|retract| retract[row]))
        };
        let count = batch.num_rows();
        if (deleted.is_some() || self.ignore_retracts) && (0..count).any(|row| absent(row, &retract)) {
            let present: Vec<usize> = (0..count).filter(|&row| !absent(row, &retract)).collect();
            rows = RowPositions::At(present.iter().map(|&row| first + row as u64).collect());
            let mask: arrow::array::BooleanArray = (0..count).map(|row| Some(!absent(row, &retract))).collect();
            batch = std::borrow::Cow::Owned(arrow::compute::filter_record_batch(&batch, &mask)?);
            retract = retract.map(|retract| present.iter().map(|&row| retract[row]).collect());
        }
        let keys = self.coder.encode(&batch.columns()[..self.keys])?;
        let versions = match self.sequence {
            None => None,
            Some(at) => {
                let fields = match &self.fields {
                    Some(converter) => Some(converter.convert_columns(&batch.columns()[self.keys..at])?),
                    None => None,
                };
                let appended = file.file.entries.file_source[file.file.row as usize] != 1;
                let sequence = if self.snapshot_ordering && appended {
                    vec![file.file.sequence_numbers().0; batch.num_rows()]
                } else {
                    let numbers = arrow::compute::cast(batch.column(at), &arrow::datatypes::DataType::Int64)?;
                    arrow::array::AsArray::as_primitive::<arrow::datatypes::Int64Type>(&numbers).values().to_vec()
                };
                Some(Versions { fields, sequence })
            }
        };
        Ok(KeyChunk { file: index, rows, keys, retracts: retract, versions })
    }
}

/// A sorted run that is being read: the chunk at hand, and the files still to come.
struct Cursor {
    waiting: VecDeque<(usize, PlannedFile)>,
    reading: VecDeque<(mpsc::Receiver<Result<KeyChunk>>, SpawnedTask<()>)>,
    plan: Arc<ReadPlan>,
    reader: Arc<dyn KeyReader>,
    ahead: usize,
    chunk: Option<KeyChunk>,
    at: usize,
}

impl Cursor {
    fn new(
        waiting: VecDeque<(usize, PlannedFile)>,
        plan: Arc<ReadPlan>,
        reader: Arc<dyn KeyReader>,
        ahead: usize,
    ) -> Self {
        let mut cursor = Self { waiting, reading: VecDeque::new(), plan, reader, ahead, chunk: None, at: 0 };
        cursor.start();
        cursor
    }

    /// Starts reading the next files, as far ahead as is allowed.
    fn start(&mut self) {
        while self.reading.len() <= self.ahead
            && let Some((index, file)) = self.waiting.pop_front()
        {
            let (sender, receiver) = mpsc::channel(AHEAD);
            let plan = Arc::clone(&self.plan);
            let reader = Arc::clone(&self.reader);
            let task = SpawnedTask::spawn(async move {
                if let Err(error) = plan.read(index, &file, reader.as_ref(), &sender).await {
                    // A receiver that is gone does not want the error either.
                    let _ = sender.send(Err(error.with("file", file.file.name()))).await;
                }
            });
            self.reading.push_back((receiver, task));
        }
    }

    /// Makes sure that a chunk with rows is at hand, if the run has any left.
    async fn fill(&mut self) -> Result<()> {
        while self.chunk.as_ref().is_none_or(|chunk| self.at >= chunk.keys.len()) {
            let Some((receiver, _)) = self.reading.front_mut() else {
                self.chunk = None;
                return Ok(());
            };
            match receiver.recv().await {
                Some(chunk) => {
                    self.chunk = Some(chunk?);
                    self.at = 0;
                }
                None => {
                    let finished = self.reading.pop_front();
                    if let Some((_, task)) = finished {
                        task.join()
                            .await
                            .map_err(|error| Error::internal("a reading task failed").with_source(error))?;
                    }
                    self.start();
                }
            }
        }
        Ok(())
    }
}

/// The order of the files of a section, where their sequence numbers do not overlap.
struct FileOrder {
    /// Position of each file in merge order, oldest first.
    rank: Vec<u32>,
    /// Whether a file's position decides for all its rows.
    by_file: bool,
}

impl FileOrder {
    fn of(section: &Section, rules: &MergeRules) -> Self {
        let mut order: Vec<usize> = (0..section.files.len()).collect();
        let numbers = |index: usize| section.files[index].file.sequence_numbers();
        order.sort_by(|&a, &b| {
            numbers(a).cmp(&numbers(b)).then_with(|| section.files[a].file.cmp_by_name(&section.files[b].file))
        });
        let mut rank = vec![0; order.len()];
        for (position, &index) in order.iter().enumerate() {
            rank[index] = position as u32;
        }
        let by_file = rules.sequence_fields.is_empty()
            && (section.runs.len() <= 1 || Self::disjoint(section, &order, rules.snapshot_ordering));
        Self { rank, by_file }
    }

    /// Whether files of different runs have disjoint sequence numbers. Files of one run hold no common key.
    fn disjoint(section: &Section, order: &[usize], snapshot_ordering: bool) -> bool {
        let mut run_of = vec![0; section.files.len()];
        for (run, files) in section.runs.iter().enumerate() {
            for &index in files {
                run_of[index] = run;
            }
        }
        // The greatest number so far of each run's files, and of all files: enough, because starts ascend.
        let mut reached = vec![i64::MIN; section.runs.len()];
        for &index in order {
            let file = &section.files[index].file;
            let (min, max) = file.sequence_numbers();
            // Numbers that no writer counted (postponed rows have -1) say nothing.
            if min < 0 || max < min || snapshot_ordering {
                return false;
            }
            let run = run_of[index];
            if reached.iter().enumerate().any(|(other, reached)| other != run && *reached >= min) {
                return false;
            }
            reached[run] = reached[run].max(max);
        }
        true
    }
}

/// What is known of a file so far.
struct FileState {
    rows: usize,
    live: BooleanBufferBuilder,
    contested: BooleanBufferBuilder,
    any_contested: bool,
    groups: Vec<u32>,
    ordinals: Vec<u16>,
}

impl FileState {
    fn new(rows: usize) -> Self {
        Self {
            rows,
            live: BooleanBufferBuilder::new(rows),
            contested: BooleanBufferBuilder::new(0),
            any_contested: false,
            groups: Vec::new(),
            ordinals: Vec::new(),
        }
    }

    fn set_live(&mut self, position: usize, live: bool) {
        // Rows come in file order; those in between are no versions at all.
        self.live.append_n(position - self.live.len(), false);
        self.live.append(live);
    }

    /// [`Self::set_live`] of rows one after another from `first`.
    fn set_live_from(&mut self, first: usize, live: &[bool]) {
        self.live.append_n(first - self.live.len(), false);
        self.live.append_slice(live);
    }

    fn set_contested(&mut self, position: usize, group: u32) {
        self.any_contested = true;
        self.contested.append_n(position - self.contested.len(), false);
        self.contested.append(true);
        self.groups.push(group);
    }
}

struct Resolving<'a> {
    kind: SectionKind,
    rules: &'a MergeRules,
    order: &'a FileOrder,
    files: Vec<FileState>,
    levels: Vec<i32>,
    groups: u32,
    dead: u64,
}

/// The versions of a window, for the kernel.
struct WindowOrder<'a> {
    chunks: &'a [&'a KeyChunk],
    rank: &'a [u32],
    by_file: bool,
    oldest_wins: bool,
}

impl WindowOrder<'_> {
    fn compare(&self, a: (usize, usize), b: (usize, usize)) -> std::cmp::Ordering {
        let (x, y) = (self.chunks[a.0], self.chunks[b.0]);
        if let (false, Some(x_versions), Some(y_versions)) = (self.by_file, &x.versions, &y.versions) {
            let fields = match (&x_versions.fields, &y_versions.fields) {
                (Some(x_fields), Some(y_fields)) => x_fields.row(a.1).cmp(&y_fields.row(b.1)),
                _ => std::cmp::Ordering::Equal,
            };
            let retract = |chunk: &KeyChunk, row: usize| chunk.retracts.as_ref().is_some_and(|retract| retract[row]);
            return fields
                .then_with(|| x_versions.sequence[a.1].cmp(&y_versions.sequence[b.1]))
                // On a tie the row that adds comes last and wins.
                .then_with(|| retract(y, b.1).cmp(&retract(x, a.1)))
                .then_with(|| self.rank[x.file].cmp(&self.rank[y.file]));
        }
        self.rank[x.file].cmp(&self.rank[y.file])
    }
}

impl MergeOrder for WindowOrder<'_> {
    fn after(&self, a: (usize, usize), b: (usize, usize)) -> bool {
        let order = self.compare(a, b);
        if self.oldest_wins { order.is_lt() } else { order.is_gt() }
    }

    fn newest_first(&self) -> Option<Vec<usize>> {
        if !self.by_file {
            return None;
        }
        let mut order: Vec<usize> = (0..self.chunks.len()).collect();
        order.sort_by_key(|&index| self.rank[self.chunks[index].file]);
        if !self.oldest_wins {
            order.reverse();
        }
        Some(order)
    }
}

impl Resolving<'_> {
    fn memory(&self) -> usize {
        self.files.iter().map(|file| file.groups.capacity() * 4 + file.ordinals.capacity() * 2).sum()
    }

    /// Decides the next window. False when no run has rows left.
    fn window(&mut self, cursors: &mut [Cursor]) -> Result<bool> {
        let mut bound: Option<&KeyChunk> = None;
        for chunk in cursors.iter().filter_map(|cursor| cursor.chunk.as_ref()) {
            let last = chunk.keys.len() - 1;
            if bound.is_none_or(|bound| chunk.keys.compare(last, &bound.keys, bound.keys.len() - 1).is_lt()) {
                bound = Some(chunk);
            }
        }
        let Some(bound) = bound else { return Ok(false) };
        let mut chunks = Vec::with_capacity(cursors.len());
        let mut stretches = Vec::with_capacity(cursors.len());
        let mut ends = vec![None; cursors.len()];
        for (run, cursor) in cursors.iter().enumerate() {
            let Some(chunk) = &cursor.chunk else { continue };
            let end = chunk.keys.after(cursor.at, &bound.keys, bound.keys.len() - 1);
            ends[run] = Some(end);
            if end > cursor.at {
                chunks.push(chunk);
                stretches.push(Stretch { keys: &chunk.keys, start: cursor.at, end });
            }
        }
        match self.kind {
            SectionKind::Newest | SectionKind::Oldest => self.decide(&chunks, &stretches),
            SectionKind::Fold => self.split(&chunks, &stretches)?,
        }
        for (cursor, end) in cursors.iter_mut().zip(ends) {
            if let Some(end) = end {
                cursor.at = end;
            }
        }
        Ok(true)
    }

    fn window_order<'b>(&'b self, chunks: &'b [&'b KeyChunk]) -> WindowOrder<'b> {
        WindowOrder {
            chunks,
            rank: &self.order.rank,
            by_file: self.order.by_file,
            oldest_wins: self.kind == SectionKind::Oldest,
        }
    }

    /// Marks the winners of the window as live.
    fn decide(&mut self, chunks: &[&KeyChunk], stretches: &[Stretch<'_>]) {
        let winner = kernel::winners(stretches, &self.window_order(chunks));
        for ((chunk, stretch), winner) in chunks.iter().zip(stretches).zip(winner) {
            let file = &mut self.files[chunk.file];
            let mut live = winner;
            if let Some(retracts) = chunk.retracts.as_ref().filter(|_| !self.rules.keep_retracts) {
                for (live, retract) in live.iter_mut().zip(&retracts[stretch.start..stretch.end]) {
                    *live &= !retract;
                }
            }
            self.dead += live.iter().filter(|live| !**live).count() as u64;
            match &chunk.rows {
                RowPositions::From(first) => file.set_live_from(*first as usize + stretch.start, &live),
                RowPositions::At(positions) => {
                    for (position, live) in positions[stretch.start..stretch.end].iter().zip(live) {
                        file.set_live(*position as usize, live);
                    }
                }
            }
        }
    }

    /// Marks rows whose key has one version as live, and numbers the others' keys.
    fn split(&mut self, chunks: &[&KeyChunk], stretches: &[Stretch<'_>]) -> Result<()> {
        let hidden = self.hidden_by_lookup(chunks, stretches);
        let mut decision = kernel::contested(stretches);
        if let Some(hidden) = &hidden {
            // Some versions are left out: keys that have one version left are contested no more.
            let mut versions = vec![0u32; decision.groups as usize];
            for (group, hidden) in decision.group.iter().zip(hidden) {
                for (group, hidden) in group.iter().zip(hidden) {
                    if *group != UNCONTESTED && !hidden {
                        versions[*group as usize] += 1;
                    }
                }
            }
            let mut number = Vec::with_capacity(versions.len());
            let mut groups = 0;
            for versions in &versions {
                number.push(if *versions > 1 { groups } else { UNCONTESTED });
                groups += u32::from(*versions > 1);
            }
            for group in decision.group.iter_mut().flatten() {
                if *group != UNCONTESTED {
                    *group = number[*group as usize];
                }
            }
            decision.groups = groups;
        }
        let ordinals =
            if self.order.by_file { None } else { Some(self.ordinals(chunks, stretches, &decision, &hidden)?) };
        let base = self.groups;
        self.groups = base
            .checked_add(decision.groups)
            .filter(|groups| *groups < UNCONTESTED)
            .ok_or_else(|| Error::unsupported("a section with more than 4 billion keys to fold"))?;
        for (index, (chunk, stretch)) in chunks.iter().zip(stretches).enumerate() {
            let file = &mut self.files[chunk.file];
            for (offset, row) in (stretch.start..stretch.end).enumerate() {
                let position = chunk.rows.at(row) as usize;
                if hidden.as_ref().is_some_and(|hidden| hidden[index][offset]) {
                    self.dead += 1;
                    continue;
                }
                let group = decision.group[index][offset];
                if group == UNCONTESTED {
                    let retracts = chunk.retracts.as_ref().is_some_and(|retract| retract[row]);
                    let live = !retracts || self.rules.keep_retracts;
                    self.dead += u64::from(!live);
                    file.set_live(position, live);
                } else {
                    file.set_contested(position, base + group);
                    if let Some(ordinals) = &ordinals {
                        file.ordinals.push(ordinals[index][offset]);
                    }
                }
            }
        }
        Ok(())
    }

    /// Versions that the lookup merge leaves out: of the levels above 0 only the lowest counts (`spec/data.md 4.3`).
    fn hidden_by_lookup(&self, chunks: &[&KeyChunk], stretches: &[Stretch<'_>]) -> Option<Vec<Vec<bool>>> {
        if !self.rules.lookup_merge {
            return None;
        }
        let mut upper: Vec<usize> = (0..chunks.len()).filter(|&index| self.levels[chunks[index].file] > 0).collect();
        if upper.len() < 2 {
            return None;
        }
        upper.sort_by_key(|&index| self.levels[chunks[index].file]);
        let levels: Vec<i32> = upper.iter().map(|&index| self.levels[chunks[index].file]).collect();
        let upper_stretches: Vec<Stretch<'_>> = upper.iter().map(|&index| stretches[index]).collect();
        let lowest = kernel::winners(&upper_stretches, &LowestLevel { levels: &levels });
        let mut hidden: Vec<Vec<bool>> = stretches.iter().map(|stretch| vec![false; stretch.len()]).collect();
        for (index, lowest) in upper.into_iter().zip(lowest) {
            hidden[index] = lowest.into_iter().map(|lowest| !lowest).collect();
        }
        Some(hidden)
    }

    /// How many older versions each contested row's key has.
    fn ordinals(
        &self,
        chunks: &[&KeyChunk],
        stretches: &[Stretch<'_>],
        decision: &kernel::Decision,
        hidden: &Option<Vec<Vec<bool>>>,
    ) -> Result<Vec<Vec<u16>>> {
        let order = self.window_order(chunks);
        let mut versions: Vec<(u32, usize, usize)> = Vec::new();
        for (index, (groups, stretch)) in decision.group.iter().zip(stretches).enumerate() {
            for (offset, group) in groups.iter().enumerate() {
                if *group != UNCONTESTED && !hidden.as_ref().is_some_and(|hidden| hidden[index][offset]) {
                    versions.push((*group, index, stretch.start + offset));
                }
            }
        }
        versions.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| order.compare((a.1, a.2), (b.1, b.2))));
        let mut ordinals: Vec<Vec<u16>> = stretches.iter().map(|stretch| vec![0; stretch.len()]).collect();
        let mut previous = None;
        let mut ordinal = 0u16;
        for (group, index, row) in versions {
            ordinal = if previous == Some(group) {
                ordinal.checked_add(1).ok_or_else(|| Error::unsupported("a key with more than 65,536 versions"))?
            } else {
                0
            };
            previous = Some(group);
            ordinals[index][row - stretches[index].start] = ordinal;
        }
        Ok(ordinals)
    }

    fn finish(self) -> Result<LiveRows> {
        let rank = self.order.rank.clone();
        let mut live = LiveRows { groups: self.groups, rank, dead: self.dead, ..LiveRows::default() };
        for mut file in self.files {
            if file.live.len() > file.rows || file.contested.len() > file.rows {
                return Err(Error::internal("more rows were resolved than the file has"));
            }
            file.live.append_n(file.rows - file.live.len(), false);
            live.files.push(Some(FileRows::from_mask(file.live.finish())));
            live.contested.push(file.any_contested.then(|| {
                file.contested.append_n(file.rows - file.contested.len(), false);
                Contested {
                    mask: file.contested.finish(),
                    groups: file.groups,
                    ordinals: (!file.ordinals.is_empty()).then_some(file.ordinals),
                }
            }));
        }
        Ok(live)
    }
}

/// Prefers the lowest level.
struct LowestLevel<'a> {
    levels: &'a [i32],
}

impl MergeOrder for LowestLevel<'_> {
    fn after(&self, a: (usize, usize), b: (usize, usize)) -> bool {
        self.levels[a.0] < self.levels[b.0]
    }

    fn newest_first(&self) -> Option<Vec<usize>> {
        Some((0..self.levels.len()).collect())
    }
}
