//! Fold: many versions of a key become one row, column by column (`spec/data.md 4.2, 4.3, 5`; `spec/observed.md`, Merge
//! engines).
//!
//! ```text
//! schema, options, output columns ── FoldPlan::try_new ──► FoldPlan ── input_columns() ──► what to read
//!                                                             │
//! blocks of contested rows, oldest first ── FoldState::update ┤   rows -> Steps (steps, sequence): once a row
//!   group_of [0 1 2 0 2 ..]  kinds  columns                   │   Steps x column -> Accumulator: once a column
//!                                                             ▼
//!                                                         FoldOutput: one row a group, keep, kinds, columns
//! ```
//!
//! A *group* is one key of the window that is folded. Within a group rows come in merge order; between groups in any order.
//! Accumulators keep flat vectors with one cell a group: values (`cells`, `number`), places of values in the blocks
//! (`cells`), or what a function needs that has to keep more (`text`, `elements`, `entries`, `sketch`).
//!
//! May import: `error`, `options`, `spec`, `table`.

mod cells;
mod elements;
mod entries;
mod number;
mod plan;
mod roaring64;
mod sequence;
mod sketch;
mod steps;
mod text;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::DataType;

pub use self::plan::FoldPlan;

use self::plan::{ColumnPlan, Engine, RetractRule, Role};
use self::steps::{RowStates, Step, Steps};
use crate::error::Error;
use crate::table::aggregate::Function;

/// All contested rows of one window.
#[derive(Clone, Copy, Debug)]
pub struct FoldInput<'a> {
    /// How many keys there are.
    pub groups: usize,
    /// The key of each row, below `groups`. Rows of one key are in merge order (`spec/data.md 4.2`), the last one wins.
    pub group_of: &'a [u32],
    /// `_VALUE_KIND` of each row: 0 +I, 1 -U, 2 +U, 3 -D. `None`: all are adds.
    pub kinds: Option<&'a [i8]>,
    /// The columns of [`FoldPlan::input_columns`].
    pub columns: &'a [ArrayRef],
    /// The level of each row's file, for tables that the lookup rule (`spec/data.md 4.3`) holds for; else `None`.
    pub levels: Option<&'a [i32]>,
}

/// Some of the rows of a window, for [`FoldState::update`]. Fields as in [`FoldInput`].
#[derive(Clone, Copy, Debug)]
pub struct FoldBlock<'a> {
    /// The key of each row.
    pub group_of: &'a [u32],
    /// The kind of each row, `None` when all are adds.
    pub kinds: Option<&'a [i8]>,
    /// The columns of [`FoldPlan::input_columns`].
    pub columns: &'a [ArrayRef],
}

/// One row a key.
#[derive(Clone, Debug)]
pub struct FoldOutput {
    /// Which keys a batch read shows: those whose result is an add.
    pub keep: BooleanBuffer,
    /// The kind of each result.
    pub kinds: Vec<i8>,
    /// The output columns of the plan. A column of a NOT NULL type may hold NULLs where nothing was kept, and where a retract
    /// took a value back.
    pub columns: Vec<ArrayRef>,
}

/// Why a fold failed, and at which key.
#[derive(Debug)]
pub struct FoldError {
    /// The group whose rows can't be folded; `None` when it is not about one key. The caller knows the key and adds it.
    pub group: Option<u32>,
    /// What went wrong; names the column.
    pub error: Error,
}

type FoldResult<T> = Result<T, FoldError>;

impl FoldError {
    fn at(group: u32, error: Error) -> Self {
        Self { group: Some(group), error }
    }
}

impl fmt::Display for FoldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for FoldError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}

impl From<Error> for FoldError {
    fn from(error: Error) -> Self {
        Self { group: None, error }
    }
}

impl From<arrow::error::ArrowError> for FoldError {
    fn from(error: arrow::error::ArrowError) -> Self {
        Self::from(Error::from(error))
    }
}

impl From<FoldError> for Error {
    fn from(error: FoldError) -> Self {
        error.error
    }
}

/// The smallest level above 0 of every key, for the lookup rule of `spec/data.md 4.3`.
///
/// Tables with `changelog-producer = lookup`, `deletion-vectors.enabled` or `force-lookup` fold of each key the rows of level 0
/// (and below) and only the one of the smallest level above: that one is complete. First [`Self::observe`] every row, then
/// fold those that [`Self::keeps`].
#[derive(Clone, Debug)]
pub struct CompleteLevels(Vec<i32>);

impl CompleteLevels {
    /// Nothing seen of `groups` keys.
    pub fn new(groups: usize) -> Self {
        Self(vec![i32::MAX; groups])
    }

    /// Sees the level of a key's row.
    pub fn observe(&mut self, group: u32, level: i32) {
        if level > 0
            && let Some(smallest) = self.0.get_mut(group as usize)
        {
            *smallest = level.min(*smallest);
        }
    }

    /// Whether a key's row of `level` takes part in the fold, once all of the key's rows were seen.
    pub fn keeps(&self, group: u32, level: i32) -> bool {
        level <= 0 || self.0.get(group as usize) == Some(&level)
    }
}

impl FoldPlan {
    /// Folds all rows of a window at once.
    ///
    /// # Errors
    /// As [`FoldState::update`] and [`FoldState::finish`].
    pub fn fold(&self, input: &FoldInput<'_>) -> Result<FoldOutput, FoldError> {
        let mut state = FoldState::new(Arc::new(self.clone()), input.groups)?;
        match input.levels {
            None => {
                state.update(&FoldBlock { group_of: input.group_of, kinds: input.kinds, columns: input.columns })?
            }
            Some(levels) => {
                same_length("levels", levels.len(), input.group_of.len())?;
                let mut complete = CompleteLevels::new(input.groups);
                for (&group, &level) in input.group_of.iter().zip(levels) {
                    complete.observe(group, level);
                }
                let rows: Vec<u32> = (0..input.group_of.len())
                    .filter(|&row| complete.keeps(input.group_of[row], levels[row]))
                    .map(|row| row as u32)
                    .collect();
                let group_of: Vec<u32> = rows.iter().map(|&row| input.group_of[row as usize]).collect();
                let kinds: Option<Vec<i8>> = match input.kinds {
                    Some(kinds) => {
                        same_length("kinds", kinds.len(), input.group_of.len())?;
                        Some(rows.iter().map(|&row| kinds[row as usize]).collect())
                    }
                    None => None,
                };
                let columns = arrow::compute::take_arrays(input.columns, &arrow::array::UInt32Array::from(rows), None)?;
                state.update(&FoldBlock { group_of: &group_of, kinds: kinds.as_deref(), columns: &columns })?;
            }
        }
        state.finish()
    }
}

/// A fold that takes its rows block by block.
#[derive(Debug)]
pub struct FoldState {
    plan: Arc<FoldPlan>,
    groups: usize,
    /// Arrow types of the input columns; empty until the first block tells them.
    rows: Option<RowStates>,
    columns: Vec<Box<dyn Accumulator>>,
    blocks: u32,
}

impl FoldState {
    /// A fold of `groups` keys that have no rows yet.
    ///
    /// # Errors
    /// Unsupported when a column's type can't be compared as its function needs.
    pub fn new(plan: Arc<FoldPlan>, groups: usize) -> Result<Self, FoldError> {
        let columns = plan.columns.iter().map(|column| accumulator(column, groups)).collect::<FoldResult<_>>()?;
        Ok(Self { plan, groups, rows: None, columns, blocks: 0 })
    }

    /// Folds more rows. Those of a key come, in merge order, after the key's rows of earlier blocks.
    ///
    /// # Errors
    /// Invalid where the rows can't be folded: a retract that the engine or a function does not take, a number that overflows.
    /// Corrupt for bytes of a sketch or bitmap that can't be read. Internal when the block is not what the plan asked for.
    pub fn update(&mut self, block: &FoldBlock<'_>) -> Result<(), FoldError> {
        let rows = block.group_of.len();
        if block.columns.len() != self.plan.input_columns().len() {
            return Err(Error::internal("a block has not the columns of its plan").into());
        }
        for column in block.columns {
            same_length("columns", column.len(), rows)?;
        }
        if let Some(kinds) = block.kinds {
            same_length("kinds", kinds.len(), rows)?;
        }
        if block.group_of.iter().any(|&group| group as usize >= self.groups) {
            return Err(Error::internal("a row's group is out of range").into());
        }
        let states = match &mut self.rows {
            Some(states) => states,
            none => {
                let types: Vec<DataType> = block.columns.iter().map(|column| column.data_type().clone()).collect();
                none.insert(RowStates::try_new(&self.plan, &types, self.groups)?)
            }
        };
        states.update(&self.plan, block.group_of, block.kinds, block.columns)?;
        let mut known: Vec<(Role, Arc<Steps>)> = Vec::new();
        for (plan, accumulator) in self.plan.columns.iter().zip(&mut self.columns) {
            let steps = match known.iter().find(|(role, _)| *role == plan.role) {
                Some((_, steps)) => Arc::clone(steps),
                None => {
                    let steps = Arc::new(states.steps(self.plan.engine, plan.role));
                    known.push((plan.role, Arc::clone(&steps)));
                    steps
                }
            };
            let steps = retractable(plan, steps, block.group_of)?;
            let column = &block.columns[plan.input];
            not_null(&self.plan, plan, &steps, column, block.group_of)?;
            accumulator.update(&Rows { block: self.blocks, group_of: block.group_of, steps: &steps }, column)?;
        }
        self.blocks += 1;
        Ok(())
    }

    /// The result of every key. A key without rows is not kept and all NULL.
    ///
    /// # Errors
    /// Invalid when a sum or product does not fit its column.
    pub fn finish(self) -> Result<FoldOutput, FoldError> {
        let (keep, kinds) = match self.rows {
            Some(rows) => rows.finish(self.plan.engine),
            None => (vec![false; self.groups], vec![3; self.groups]),
        };
        let columns = self.columns.into_iter().map(|column| column.finish()).collect::<FoldResult<_>>()?;
        Ok(FoldOutput { keep: BooleanBuffer::from(keep), kinds, columns })
    }

    /// Bytes held: the cells of every key, and the blocks that results are gathered from.
    pub fn memory(&self) -> usize {
        self.rows.as_ref().map_or(0, RowStates::memory)
            + self.columns.iter().map(|column| column.memory()).sum::<usize>()
    }
}

/// The rows of a block as a column sees them.
#[derive(Clone, Copy)]
struct Rows<'a> {
    block: u32,
    group_of: &'a [u32],
    steps: &'a Steps,
}

impl Rows<'_> {
    /// Calls `apply` with row, group and step of every row that does something.
    fn each(&self, mut apply: impl FnMut(usize, usize, Step) -> FoldResult<()>) -> FoldResult<()> {
        for (row, &group) in self.group_of.iter().enumerate() {
            match self.steps.at(row) {
                Step::Skip => {}
                step => apply(row, group as usize, step)?,
            }
        }
        Ok(())
    }
}

/// What the keys have in one column.
trait Accumulator: fmt::Debug + Send {
    /// Folds the rows of a block. `column` is the input column.
    fn update(&mut self, rows: &Rows<'_>, column: &ArrayRef) -> FoldResult<()>;

    /// One value a group.
    fn finish(self: Box<Self>) -> FoldResult<ArrayRef>;

    /// Bytes held.
    fn memory(&self) -> usize;
}

fn accumulator(plan: &ColumnPlan, groups: usize) -> FoldResult<Box<dyn Accumulator>> {
    Ok(match &plan.function {
        Function::PrimaryKey
        | Function::LastValue
        | Function::LastNonNull
        | Function::FirstValue
        | Function::FirstNonNull
        | Function::Max
        | Function::Min
        | Function::BoolAnd
        | Function::BoolOr => cells::accumulator(plan, groups)?,
        Function::Sum | Function::Product => number::accumulator(plan, groups)?,
        Function::ListAgg { delimiter, distinct } => Box::new(text::ListAgg::new(delimiter, *distinct, groups)),
        Function::Collect { .. } | Function::NestedUpdate(_) | Function::NestedPartialUpdate { .. } => {
            elements::accumulator(plan, groups)?
        }
        Function::MergeMap | Function::MergeMapWithKeyTime { .. } => entries::accumulator(plan, groups)?,
        Function::Theta | Function::Hll | Function::Roaring32 | Function::Roaring64 => {
            sketch::accumulator(plan, groups)?
        }
    })
}

/// Applies the column's rule for retracts.
fn retractable(plan: &ColumnPlan, steps: Arc<Steps>, group_of: &[u32]) -> FoldResult<Arc<Steps>> {
    if plan.retract == RetractRule::Apply {
        return Ok(steps);
    }
    let Some(row) = steps.first_retract() else { return Ok(steps) };
    if plan.retract == RetractRule::Ignore {
        return Ok(Arc::new(steps.without_retracts()));
    }
    let message = format!(
        "column {name}: the aggregate function '{function}' can't take a value back, and the key has a -D or -U row; \
         'fields.{name}.ignore-retract' = 'true' skips such rows for the column",
        name = plan.field.name,
        function = plan.function.name()
    );
    Err(match group_of.get(row) {
        Some(&group) => FoldError::at(group, Error::invalid(message)),
        None => Error::invalid(message).into(),
    })
}

/// A partial update without sequence groups must not leave a NOT NULL column out (`spec/data.md 5.2`).
fn not_null(
    plan: &FoldPlan,
    column: &ColumnPlan,
    steps: &Steps,
    values: &ArrayRef,
    group_of: &[u32],
) -> FoldResult<()> {
    let partial = matches!(plan.engine, Engine::PartialUpdate { grouped: false, .. });
    if !partial || column.field.data_type.nullable || column.role == Role::Key || values.null_count() == 0 {
        return Ok(());
    }
    match (0..values.len()).find(|&row| values.is_null(row) && steps.at(row) == Step::Add) {
        None => Ok(()),
        Some(row) => {
            let message = format!("column {} is NOT NULL, but a row has NULL in it", column.field.name);
            Err(FoldError::at(group_of[row], Error::invalid(message)))
        }
    }
}

fn same_length(what: &str, found: usize, rows: usize) -> FoldResult<()> {
    if found == rows {
        return Ok(());
    }
    Err(Error::internal(format!("a block of {rows} rows has {what} of {found}")).into())
}

/// The null buffer of cells that are or are not there.
fn nulls(valid: Vec<bool>) -> Option<NullBuffer> {
    Some(NullBuffer::from(valid)).filter(|nulls| nulls.null_count() > 0)
}

/// The column as the type it must have.
fn wrong_type(column: &ArrayRef, wanted: &str) -> FoldError {
    Error::internal(format!("a column of {wanted} was to be folded, but it holds {}", column.data_type())).into()
}
