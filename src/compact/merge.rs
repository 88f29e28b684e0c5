//! What becomes of the keys of a window: the row that is written, what changed, and what is marked as deleted.
//!
//! | table | the row |
//! |---|---|
//! | deduplicate | the last version |
//! | first-row | the first version, unless the key is known on a higher level |
//! | partial-update, aggregation | all versions folded; a lone one as it is |
//! | tables that look up (`spec/data.md 4.3`) | the same, of the versions of level 0 and the one of the lowest level above |
//!
//! May import: `error`, `read`, `spec`, rest of this room.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int8Array, Int64Array, UInt32Array, make_comparator, new_empty_array,
};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::{SortOptions, cast, interleave, take};
use arrow::datatypes::{DataType as ArrowType, SchemaRef};

use super::source::is_retract;
use super::window::{Place, Window};
use crate::error::{Error, Result};
use crate::read::fold::{FoldInput, FoldPlan};
use crate::spec::TableSchema;
use crate::write::key_text;

/// How versions of a key become one row.
#[derive(Clone, Debug)]
pub(super) enum Engine {
    /// The last one.
    Newest,
    /// The first one.
    Oldest,
    /// All of them.
    Fold(Arc<FoldPlan>),
}

/// Where the row comes from that changes are told against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Changes {
    /// Nothing is told.
    Untold,
    /// The version of the lowest level above 0, for keys that have versions of level 0 (`spec/data.md 7.3`).
    ByLookup,
    /// The version of this level, the highest (`spec/data.md 7.4`).
    ByLevel(i32),
}

/// How the windows of one rewrite are merged.
#[derive(Clone, Debug)]
pub(super) struct Merger {
    pub schema: Arc<TableSchema>,
    /// Positions of the trimmed primary key.
    pub keys: Vec<usize>,
    /// The arrow types of the columns.
    pub arrow: SchemaRef,
    pub engine: Engine,
    /// Whether the lookup rule holds (`spec/data.md 4.3`).
    pub lookup: bool,
    /// Whether files that stay get their old versions marked.
    pub marks: bool,
    pub drop_deletes: bool,
    pub changes: Changes,
    /// The columns that tell whether a row changed; `None`: every row that is written anew did.
    pub compared: Option<Vec<usize>>,
    /// Level of each file that is read.
    pub levels: Vec<i32>,
    /// Whether each file stays.
    pub references: Vec<bool>,
}

/// Rows with what a file keeps of each.
#[derive(Clone, Debug)]
pub(super) struct KindRows {
    pub columns: Vec<ArrayRef>,
    pub sequence: Int64Array,
    pub kinds: Int8Array,
}

impl KindRows {
    pub(super) fn memory(&self) -> usize {
        self.columns.iter().map(|column| column.get_array_memory_size()).sum()
    }
}

/// What a window gives.
#[derive(Debug, Default)]
pub(super) struct Merged {
    pub rows: Option<KindRows>,
    pub changelog: Option<KindRows>,
    /// Files, by their positions, and the rows of them that are not live any more.
    pub marks: Vec<(usize, u64)>,
}

/// A row of the window, or one that was made.
#[derive(Clone, Copy, Debug)]
enum Source {
    Place(Place),
    Folded(u32),
}

/// What a key came to.
struct Outcome {
    result: Option<Source>,
    kind: i8,
    sequence: i64,
    before: Option<Place>,
    /// Whether its change is told.
    told: bool,
}

/// Rows to be put together.
#[derive(Default)]
struct Picks {
    sources: Vec<Source>,
    kinds: Vec<i8>,
    sequence: Vec<i64>,
}

impl Picks {
    fn push(&mut self, source: Source, kind: i8, sequence: i64) {
        self.sources.push(source);
        self.kinds.push(kind);
        self.sequence.push(sequence);
    }
}

impl Merger {
    /// Merges a window.
    ///
    /// # Errors
    /// Invalid, with the key, where versions can't be folded.
    pub(super) fn merge(&self, window: &Window) -> Result<Merged> {
        if let Some(merged) = self.as_it_is(window)? {
            return Ok(merged);
        }
        if matches!(self.engine, Engine::Newest) && !self.lookup && self.changes == Changes::Untold {
            return self.newest(window);
        }
        let mut marks = Vec::new();
        let mut outcomes = Vec::with_capacity(window.keys());
        // Versions that are folded, and the key of each.
        let (mut versions, mut group_of, mut folded) = (Vec::new(), Vec::new(), Vec::new());
        for key in 0..window.keys() {
            let rows = &window.order[window.rows_of(key)];
            let Some(outcome) = self.outcome(window, rows, &mut marks)? else { continue };
            match outcome {
                Decided::Is(outcome) => outcomes.push(outcome),
                Decided::Folds { candidates, before, told } => {
                    let last = candidates.last().map_or(i64::MIN, |place| window.sequence(*place));
                    let group = folded.len() as u32;
                    folded.push(outcomes.len());
                    group_of.extend(std::iter::repeat_n(group, candidates.len()));
                    versions.extend(candidates);
                    let result = Some(Source::Folded(group));
                    outcomes.push(Outcome { result, kind: 0, sequence: last, before, told });
                }
            }
        }
        let made = match &self.engine {
            Engine::Fold(fold) if !folded.is_empty() => {
                let (columns, kinds) = self.fold(fold, window, &versions, &group_of, folded.len())?;
                for (group, outcome) in folded.iter().enumerate() {
                    outcomes[*outcome].kind = kinds[group];
                }
                columns
            }
            _ => Vec::new(),
        };
        let mut rows = Picks::default();
        for outcome in &outcomes {
            if let Some(source) = outcome.result
                && !(self.drop_deletes && is_retract(outcome.kind))
            {
                rows.push(source, outcome.kind, outcome.sequence);
            }
        }
        let changelog = self.changelog(window, &outcomes, &made)?;
        Ok(Merged {
            rows: self.put_together(window, rows, &made)?,
            changelog: self.put_together(window, changelog, &made)?,
            marks,
        })
    }

    /// A window of rows of a single run that are written as they are: nothing has to be chosen.
    fn as_it_is(&self, window: &Window) -> Result<Option<Merged>> {
        let [part] = window.parts.as_slice() else { return Ok(None) };
        let (file, rows) = (part.chunk.file, part.rows.clone());
        if window.keys() != rows.len() {
            return Ok(None);
        }
        if self.references[file] {
            return Ok(Some(Merged::default()));
        }
        let kinds = &part.chunk.kinds[rows.clone()];
        let is_plain = self.changes == Changes::Untold
            && !(self.drop_deletes && kinds.iter().any(|kind| is_retract(*kind)))
            && match self.engine {
                Engine::Newest => true,
                Engine::Oldest => !kinds.iter().any(|kind| is_retract(*kind)),
                Engine::Fold(_) => !self.lookup || self.levels[file] > 0,
            };
        if !is_plain {
            return Ok(None);
        }
        let columns = part.chunk.columns.iter().map(|column| column.slice(rows.start, rows.len())).collect();
        let sequence = Int64Array::from(part.chunk.sequence[rows].to_vec());
        let kinds = Int8Array::from(kinds.to_vec());
        Ok(Some(Merged { rows: Some(KindRows { columns, sequence, kinds }), ..Merged::default() }))
    }

    /// The last version of each key, where nothing else counts.
    fn newest(&self, window: &Window) -> Result<Merged> {
        let mut rows = Picks::default();
        for key in 0..window.keys() {
            let last = window.order[window.rows_of(key).end - 1];
            let kind = window.kind(last);
            if !(self.drop_deletes && is_retract(kind)) {
                rows.push(Source::Place(last), kind, window.sequence(last));
            }
        }
        Ok(Merged { rows: self.put_together(window, rows, &[])?, ..Merged::default() })
    }

    /// What becomes of one key; `None`: nothing is written and nothing told.
    fn outcome(&self, window: &Window, rows: &[Place], marks: &mut Vec<(usize, u64)>) -> Result<Option<Decided>> {
        let level = |place: &Place| self.levels[window.file(*place)];
        let is_reference = |place: &Place| self.references[window.file(*place)];
        let Some(last) = rows.iter().rev().find(|place| !is_reference(place)) else { return Ok(None) };
        let of_row = |place: Place, before: Option<Place>, told: bool| {
            let (kind, sequence) = (window.kind(place), window.sequence(place));
            Some(Decided::Is(Outcome { result: Some(Source::Place(place)), kind, sequence, before, told }))
        };
        if let Engine::Oldest = self.engine {
            let Some(first) = rows.iter().find(|place| !is_reference(place)) else { return Ok(None) };
            if rows.iter().any(|place| is_retract(window.kind(*place)) && !is_reference(place)) {
                return Err(self.at_key(
                    window,
                    *first,
                    Error::invalid("a first-row table takes no -D and -U; 'ignore-delete' = 'true' leaves them out"),
                ));
            }
            if rows.iter().any(|place| level(place) > 0 && !is_reference(place)) {
                return Ok(of_row(*first, None, false));
            }
            // A key that a higher level knows is not new.
            let is_known = rows.iter().any(is_reference);
            return Ok(if is_known { None } else { of_row(*first, None, self.changes == Changes::ByLookup) });
        }
        if !self.lookup {
            let before = match self.changes {
                Changes::ByLevel(top) => rows.iter().find(|place| level(place) == top).copied(),
                _ => None,
            };
            // A lone row of the top is what it was.
            let told = matches!(self.changes, Changes::ByLevel(_)) && !(rows.len() == 1 && before.is_some());
            return Ok(match &self.engine {
                Engine::Fold(_) if rows.len() > 1 => Some(Decided::Folds { candidates: rows.to_vec(), before, told }),
                _ => of_row(*last, before, told),
            });
        }
        let lowest = rows.iter().filter(|place| level(place) > 0).min_by_key(|place| level(place)).copied();
        let is_touched = rows.iter().any(|place| level(place) <= 0);
        if !is_touched {
            // Nothing new: what is lowest is the row.
            let lowest = rows.iter().filter(|place| !is_reference(place)).min_by_key(|place| level(place)).copied();
            return Ok(lowest.and_then(|place| of_row(place, None, false)));
        }
        if let Some(before) = lowest.filter(is_reference) {
            let chunk = window.chunk(before);
            if self.marks {
                marks.push((chunk.file, chunk.positions.at(before.row as usize)));
            }
        }
        // Where positions were asked for alone, the old row itself does not matter.
        let before = lowest.filter(|place| !window.chunk(*place).columns.is_empty());
        let told = self.changes == Changes::ByLookup;
        let is_candidate = |place: &Place| level(place) <= 0 || Some(*place) == before;
        match &self.engine {
            Engine::Fold(_) => {
                let candidates = rows.iter().copied().filter(is_candidate).collect();
                Ok(Some(Decided::Folds { candidates, before, told }))
            }
            _ => {
                let last = rows.iter().copied().rev().find(is_candidate);
                Ok(last.and_then(|place| of_row(place, before, told)))
            }
        }
    }

    /// The folded rows, with their kinds.
    fn fold(
        &self,
        fold: &FoldPlan,
        window: &Window,
        versions: &[Place],
        group_of: &[u32],
        groups: usize,
    ) -> Result<(Vec<ArrayRef>, Vec<i8>)> {
        let picks: Vec<Source> = versions.iter().map(|place| Source::Place(*place)).collect();
        let picks = Rows::of(window, &picks);
        let columns = fold
            .input_columns()
            .iter()
            .map(|&column| self.gather(window, column, &picks, &[]))
            .collect::<Result<Vec<_>>>()?;
        let kinds: Vec<i8> = versions.iter().map(|place| window.kind(*place)).collect();
        let folded = fold
            .fold(&FoldInput { groups, group_of, kinds: Some(&kinds), columns: &columns, levels: None })
            .map_err(|error| {
            let row = error.group.and_then(|group| group_of.iter().position(|of| *of == group));
            match row {
                Some(row) => self.at_key(window, versions[row], error.error),
                None => error.error,
            }
        })?;
        let columns = folded
            .columns
            .iter()
            .zip(self.arrow.fields())
            .map(|(column, field)| {
                let fits = column.data_type() == field.data_type();
                if fits { Ok(Arc::clone(column)) } else { Ok(cast(column, field.data_type())?) }
            })
            .collect::<Result<Vec<_>>>()?;
        Ok((columns, folded.kinds))
    }

    /// The changes that are told, in key order, what was before what is (`spec/data.md 7.2`).
    fn changelog(&self, window: &Window, outcomes: &[Outcome], made: &[ArrayRef]) -> Result<Picks> {
        let mut told = Picks::default();
        if self.changes == Changes::Untold {
            return Ok(told);
        }
        let before_of = |outcome: &Outcome| outcome.before.filter(|place| !is_retract(window.kind(*place)));
        let alike = self.alike(window, outcomes, made, &before_of)?;
        for (index, outcome) in outcomes.iter().enumerate().filter(|(_, outcome)| outcome.told) {
            let after = outcome.result.filter(|_| !is_retract(outcome.kind));
            match (before_of(outcome), after) {
                (None, Some(after)) => told.push(after, 0, outcome.sequence),
                (Some(before), None) => told.push(Source::Place(before), 3, window.sequence(before)),
                (Some(before), Some(after)) if !alike.get(index).copied().unwrap_or(false) => {
                    told.push(Source::Place(before), 1, window.sequence(before));
                    told.push(after, 2, outcome.sequence);
                }
                _ => {}
            }
        }
        Ok(told)
    }

    /// Which keys have a row that is what it was, in the columns that count; empty where that does not matter.
    fn alike(
        &self,
        window: &Window,
        outcomes: &[Outcome],
        made: &[ArrayRef],
        before_of: &dyn Fn(&Outcome) -> Option<Place>,
    ) -> Result<Vec<bool>> {
        let Some(compared) = &self.compared else { return Ok(Vec::new()) };
        let mut alike = vec![false; outcomes.len()];
        let (mut which, mut before, mut after) = (Vec::new(), Vec::new(), Vec::new());
        for (index, outcome) in outcomes.iter().enumerate() {
            if let (true, Some(old), Some(new)) = (outcome.told, before_of(outcome), outcome.result) {
                which.push(index);
                before.push(Source::Place(old));
                after.push(new);
            }
        }
        let mut equal = vec![true; which.len()];
        let (before, after) = (Rows::of(window, &before), Rows::of(window, &after));
        for &column in compared {
            let (old, new) = (self.gather(window, column, &before, made)?, self.gather(window, column, &after, made)?);
            let compare = make_comparator(&old, &new, SortOptions::default())?;
            equal.iter_mut().enumerate().for_each(|(row, equal)| *equal = *equal && compare(row, row).is_eq());
        }
        which.into_iter().zip(equal).for_each(|(index, equal)| alike[index] = equal);
        Ok(alike)
    }

    fn put_together(&self, window: &Window, picks: Picks, made: &[ArrayRef]) -> Result<Option<KindRows>> {
        if picks.sources.is_empty() {
            return Ok(None);
        }
        let rows = Rows::of(window, &picks.sources);
        let columns = (0..self.arrow.fields().len())
            .map(|column| self.gather(window, column, &rows, made))
            .collect::<Result<_>>()?;
        Ok(Some(KindRows { columns, sequence: Int64Array::from(picks.sequence), kinds: Int8Array::from(picks.kinds) }))
    }

    /// The values of a column in some rows; `made` are the columns of rows that were made.
    fn gather(&self, window: &Window, column: usize, rows: &Rows, made: &[ArrayRef]) -> Result<ArrayRef> {
        let empty: ArrayRef = new_empty_array(self.type_of(column));
        let source = |part: usize| match window.parts.get(part) {
            Some(part) => part.chunk.columns.get(column).unwrap_or(&empty),
            None => made.get(column).unwrap_or(&empty),
        };
        Ok(match rows {
            Rows::None => empty,
            Rows::Stretch { part, start, rows } => source(*part).slice(*start, *rows),
            Rows::OfOne { part, rows } => take(source(*part), rows, None)?,
            Rows::Mixed(picks) => {
                let sources: Vec<&dyn Array> = (0..=window.parts.len()).map(|part| &**source(part)).collect();
                match sources.iter().map(|source| source.as_boolean_opt()).collect::<Option<Vec<_>>>() {
                    Some(sources) => Arc::new(mixed_booleans(&sources, picks)),
                    None => interleave(&sources, picks)?,
                }
            }
        })
    }

    fn type_of(&self, column: usize) -> &ArrowType {
        self.arrow.field(column).data_type()
    }

    /// `error` with the key of a row.
    fn at_key(&self, window: &Window, place: Place, error: Error) -> Error {
        let columns: Option<Vec<ArrayRef>> = self
            .keys
            .iter()
            .map(|key| window.chunk(place).columns.get(*key).map(|column| column.slice(place.row as usize, 1)))
            .collect();
        let fields: Vec<_> = self.keys.iter().map(|key| &self.schema.fields[*key]).collect();
        match columns.and_then(|columns| key_text(&columns, &fields).ok()) {
            Some(key) => error.with("key", key),
            None => error,
        }
    }
}

/// Rows of a window, and of those that were made: these are the part after the window's last.
enum Rows {
    None,
    /// Rows one after the other.
    Stretch {
        part: usize,
        start: usize,
        rows: usize,
    },
    OfOne {
        part: usize,
        rows: UInt32Array,
    },
    /// Each with its part.
    Mixed(Vec<(usize, usize)>),
}

impl Rows {
    fn of(window: &Window, sources: &[Source]) -> Self {
        let place = |source: &Source| match source {
            Source::Place(place) => (place.part as usize, place.row as usize),
            Source::Folded(row) => (window.parts.len(), *row as usize),
        };
        let Some((part, start)) = sources.first().map(place) else { return Self::None };
        if sources.iter().any(|source| place(source).0 != part) {
            return Self::Mixed(sources.iter().map(place).collect());
        }
        if sources.iter().enumerate().all(|(at, source)| place(source).1 == start + at) {
            return Self::Stretch { part, start, rows: sources.len() };
        }
        Self::OfOne { part, rows: sources.iter().map(|source| place(source).1 as u32).collect() }
    }
}

/// The kernel of the engine copies bits one by one as ranges.
fn mixed_booleans(sources: &[&BooleanArray], picks: &[(usize, usize)]) -> BooleanArray {
    let of = |bit: &dyn Fn(&BooleanArray, usize) -> bool| {
        BooleanBuffer::collect_bool(picks.len(), |at| bit(sources[picks[at].0], picks[at].1))
    };
    let values = of(&|array, row| array.value(row));
    let has_nulls = sources.iter().any(|array| array.null_count() > 0);
    BooleanArray::new(values, has_nulls.then(|| NullBuffer::new(of(&|array, row| array.is_valid(row)))))
}

/// What is known of a key before anything is folded.
enum Decided {
    Is(Outcome),
    Folds { candidates: Vec<Place>, before: Option<Place>, told: bool },
}
