//! What each row of a block does to the columns of its key.
//!
//! The merge engines differ in which rows a column listens to and in what retracts mean; that is decided here, once a row
//! and role. The kernels of the columns then only see a [`Step`] a row.

use arrow::array::ArrayRef;

use super::plan::{Engine, FoldPlan, Role};
use super::sequence::SequenceOrder;
use super::{FoldError, FoldResult};
use crate::error::Error;

/// What one row does to one column; `acc` is what the key has so far, `in` the row's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing.
    Skip,
    /// `acc = f(acc, in)`
    Add,
    /// `acc = f(in, acc)`: a row that comes late in its sequence group (`spec/data.md 5.3`, aggReversed).
    AddLate,
    /// `acc = retract(acc, in)`
    Retract,
    /// `acc = in`, NULL too.
    Set,
    /// `acc = retract(in, in)`: the first row of a key is a retract that also belongs to an aggregate's group.
    SetRetract,
    /// `acc = NULL`
    Clear,
}

/// The steps of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Steps {
    /// Every row does the same.
    All(Step),
    /// One step a row.
    Rows(Vec<Step>),
}

impl Steps {
    pub(super) fn at(&self, row: usize) -> Step {
        match self {
            Self::All(step) => *step,
            Self::Rows(steps) => steps[row],
        }
    }

    /// The first row that takes a value back.
    pub(super) fn first_retract(&self) -> Option<usize> {
        let retracts = |step: &Step| matches!(step, Step::Retract | Step::SetRetract);
        match self {
            Self::All(step) => retracts(step).then_some(0),
            Self::Rows(steps) => steps.iter().position(retracts),
        }
    }

    /// The steps of a column that ignores retracts.
    pub(super) fn without_retracts(&self) -> Self {
        let map = |step: &Step| match step {
            Step::Retract => Step::Skip,
            Step::SetRetract => Step::Set,
            other => *other,
        };
        match self {
            Self::All(step) => Self::All(map(step)),
            Self::Rows(steps) => Self::Rows(steps.iter().map(map).collect()),
        }
    }
}

/// What a row is, before any sequence group is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Skip,
    Add,
    /// The row replaces whatever there is, in every column.
    Set,
    Retract {
        /// Nothing was there: the columns start from the retract's values (`spec/data.md 5.2`).
        first: bool,
    },
}

/// Where a row stands in a sequence group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Its sequence columns are NULL: the group does not see it.
    Outside,
    /// As new as what is there, or newer.
    Newer,
    Late,
}

const SEEN: u8 = 1;
/// Something gave the columns values (partial-update).
const FILLED: u8 = 2;
/// An add was seen (partial-update).
const INSERTED: u8 = 4;
/// The last row removed the record.
const REMOVED: u8 = 8;

/// The rows' side of a fold: the state of every key that is not a column's.
#[derive(Debug)]
pub(super) struct RowStates {
    flags: Vec<u8>,
    /// Kind of the row kept, where the engine keeps a row as it is.
    kinds: Vec<i8>,
    orders: Vec<SequenceOrder>,
    acts: Option<Vec<Act>>,
    places: Vec<Vec<Place>>,
}

pub(super) fn is_retract(kind: i8) -> bool {
    matches!(kind, 1 | 3)
}

impl RowStates {
    pub(super) fn try_new(plan: &FoldPlan, types: &[arrow::datatypes::DataType], groups: usize) -> FoldResult<Self> {
        let keeps_rows = matches!(plan.engine, Engine::Deduplicate { .. } | Engine::FirstRow { .. });
        Ok(Self {
            flags: vec![0; groups],
            kinds: if keeps_rows { vec![0; groups] } else { Vec::new() },
            orders: plan
                .sequences
                .iter()
                .map(|sequence| {
                    let types = sequence.inputs.iter().map(|&input| types[input].clone()).collect();
                    SequenceOrder::try_new(types, groups)
                })
                .collect::<Result<_, _>>()?,
            acts: None,
            places: vec![Vec::new(); plan.sequences.len()],
        })
    }

    pub(super) fn memory(&self) -> usize {
        self.flags.capacity() + self.kinds.capacity() + self.orders.iter().map(SequenceOrder::memory).sum::<usize>()
    }

    /// Decides what the rows of a block do. `kinds`: `None` when all are adds.
    pub(super) fn update(
        &mut self,
        plan: &FoldPlan,
        group_of: &[u32],
        kinds: Option<&[i8]>,
        columns: &[ArrayRef],
    ) -> FoldResult<()> {
        let kinds = kinds.filter(|kinds| kinds.iter().any(|&kind| kind != 0));
        let retracts = kinds.is_some_and(|kinds| kinds.iter().any(|&kind| is_retract(kind)));
        for (order, sequence) in self.orders.iter_mut().zip(&plan.sequences) {
            let columns: Vec<_> = sequence.inputs.iter().map(|&input| ArrayRef::clone(&columns[input])).collect();
            order.push(&columns)?;
        }
        self.acts = None;
        match plan.engine {
            Engine::Deduplicate { ignore_delete } => self.deduplicate(group_of, kinds, ignore_delete && retracts),
            Engine::FirstRow { ignore_delete } => self.first_row(group_of, kinds, ignore_delete)?,
            Engine::Aggregation { remove_on_delete } => {
                self.aggregation(group_of, kinds.filter(|_| retracts), remove_on_delete);
            }
            Engine::PartialUpdate { .. } => self.partial_update(plan, group_of, kinds.filter(|_| retracts))?,
        }
        Ok(())
    }

    fn deduplicate(&mut self, group_of: &[u32], kinds: Option<&[i8]>, skips: bool) {
        let mut acts = skips.then(|| Vec::with_capacity(group_of.len()));
        for (row, &group) in group_of.iter().enumerate() {
            let kind = kinds.map_or(0, |kinds| kinds[row]);
            let skip = skips && is_retract(kind);
            if let Some(acts) = &mut acts {
                acts.push(if skip { Act::Skip } else { Act::Set });
            }
            if !skip {
                self.flags[group as usize] = SEEN;
                self.kinds[group as usize] = kind;
            }
        }
        self.acts = acts;
    }

    fn first_row(&mut self, group_of: &[u32], kinds: Option<&[i8]>, ignore_delete: bool) -> FoldResult<()> {
        let mut acts = Vec::with_capacity(group_of.len());
        for (row, &group) in group_of.iter().enumerate() {
            let kind = kinds.map_or(0, |kinds| kinds[row]);
            let place = group as usize;
            if is_retract(kind) && !ignore_delete {
                let message =
                    "the merge engine first-row can't take -D and -U rows; set 'ignore-delete' = 'true' to skip them";
                return Err(FoldError::at(group, Error::invalid(message)));
            }
            if is_retract(kind) || self.flags[place] & SEEN != 0 {
                acts.push(Act::Skip);
            } else {
                acts.push(Act::Set);
                self.flags[place] = SEEN;
                self.kinds[place] = kind;
            }
        }
        self.acts = Some(acts);
        Ok(())
    }

    fn aggregation(&mut self, group_of: &[u32], kinds: Option<&[i8]>, remove_on_delete: bool) {
        let Some(kinds) = kinds else {
            for &group in group_of {
                self.flags[group as usize] = SEEN;
            }
            return;
        };
        let mut acts = Vec::with_capacity(group_of.len());
        for (&kind, &group) in kinds.iter().zip(group_of) {
            let removes = remove_on_delete && kind == 3;
            self.flags[group as usize] = if removes { SEEN | REMOVED } else { SEEN };
            acts.push(if removes {
                // Adds that follow build on the delete's values (`spec/observed.md`, Merge engines).
                Act::Set
            } else if is_retract(kind) {
                Act::Retract { first: false }
            } else {
                Act::Add
            });
        }
        self.acts = Some(acts);
    }

    fn partial_update(&mut self, plan: &FoldPlan, group_of: &[u32], kinds: Option<&[i8]>) -> FoldResult<()> {
        const ADDED: u8 = SEEN | FILLED | INSERTED;
        for places in &mut self.places {
            places.clear();
            places.reserve(group_of.len());
        }
        let Some(kinds) = kinds else {
            for &group in group_of {
                self.flags[group as usize] = ADDED;
            }
            for (order, places) in self.orders.iter_mut().zip(&mut self.places) {
                order.add_all(group_of, places);
            }
            return Ok(());
        };
        let mut acts = Vec::with_capacity(group_of.len());
        for (row, (&kind, &group)) in kinds.iter().zip(group_of).enumerate() {
            let act = if is_retract(kind) {
                self.retract(plan, row, kind, group)?
            } else {
                self.flags[group as usize] = ADDED;
                for (order, places) in self.orders.iter_mut().zip(&mut self.places) {
                    places.push(order.add(row, group));
                }
                Act::Add
            };
            acts.push(act);
        }
        self.acts = Some(acts);
        Ok(())
    }

    /// A retract of partial-update (`spec/data.md 5.2`).
    fn retract(&mut self, plan: &FoldPlan, row: usize, kind: i8, group: u32) -> FoldResult<Act> {
        let Engine::PartialUpdate { ignore_delete, remove_on_delete, grouped } = plan.engine else {
            return Err(FoldError::from(Error::internal("only partial-update retracts by sequence group")));
        };
        let flags = &mut self.flags[group as usize];
        let first = *flags & FILLED == 0;
        *flags = (*flags | SEEN | FILLED) & !REMOVED;
        if first {
            for order in &mut self.orders {
                order.set(row, group);
            }
        }
        if ignore_delete || (!grouped && remove_on_delete && kind != 3) {
            for places in &mut self.places {
                places.push(Place::Outside);
            }
            return Ok(if first { Act::Set } else { Act::Skip });
        }
        if grouped {
            let mut removes = false;
            for ((order, places), sequence) in self.orders.iter_mut().zip(&mut self.places).zip(&plan.sequences) {
                let place = order.place(row, group);
                removes |= kind == 3 && sequence.removes && place == Place::Newer;
                places.push(place);
            }
            if !removes {
                for (order, places) in self.orders.iter_mut().zip(&self.places) {
                    if places[row] == Place::Newer {
                        order.set(row, group);
                    }
                }
                return Ok(Act::Retract { first });
            }
            for order in &mut self.orders {
                order.set(row, group);
            }
        } else if !remove_on_delete {
            let message = "partial-update can't take -D and -U rows as it is set up; set 'ignore-delete', or \
                           'partial-update.remove-record-on-delete', or sequence groups";
            return Err(FoldError::at(group, Error::invalid(message)));
        }
        self.flags[group as usize] |= REMOVED;
        Ok(Act::Set)
    }

    /// The steps of the last block's rows for columns of `role`.
    pub(super) fn steps(&self, engine: Engine, role: Role) -> Steps {
        let add = match engine {
            Engine::Deduplicate { .. } | Engine::FirstRow { .. } => Step::Set,
            _ => Step::Add,
        };
        let act = |row: usize| self.acts.as_ref().map_or(Act::Add, |acts| acts[row]);
        let rows = |group: usize, step: fn(Act, Place) -> Step| {
            Steps::Rows(self.places[group].iter().enumerate().map(|(row, &place)| step(act(row), place)).collect())
        };
        match role {
            Role::Key if !matches!(engine, Engine::FirstRow { .. }) => Steps::All(Step::Set),
            Role::Key | Role::Free => match &self.acts {
                None => Steps::All(add),
                Some(acts) => {
                    let partial = matches!(engine, Engine::PartialUpdate { .. });
                    Steps::Rows(acts.iter().map(|&act| free(act, partial)).collect())
                }
            },
            Role::Sequence(group) => rows(group, sequence),
            Role::Follower(group) => rows(group, follower),
            Role::Aggregate(group) => rows(group, aggregate),
        }
    }

    /// Which keys have a row, and of which kind it is.
    pub(super) fn finish(self, engine: Engine) -> (Vec<bool>, Vec<i8>) {
        let kinds = match engine {
            Engine::Deduplicate { .. } | Engine::FirstRow { .. } => self.kinds,
            Engine::Aggregation { .. } => {
                self.flags.iter().map(|&flags| if flags & REMOVED != 0 { 3 } else { 0 }).collect()
            }
            Engine::PartialUpdate { .. } => self
                .flags
                .iter()
                .map(|&flags| if flags & INSERTED != 0 && flags & REMOVED == 0 { 0 } else { 3 })
                .collect(),
        };
        let keep =
            self.flags.iter().zip(&kinds).map(|(&flags, &kind)| flags & SEEN != 0 && !is_retract(kind)).collect();
        (keep, kinds)
    }
}

fn free(act: Act, partial: bool) -> Step {
    match act {
        Act::Skip => Step::Skip,
        Act::Add => Step::Add,
        Act::Set => Step::Set,
        Act::Retract { first } if partial => set_or_skip(first),
        Act::Retract { .. } => Step::Retract,
    }
}

fn sequence(act: Act, place: Place) -> Step {
    match act {
        Act::Skip => Step::Skip,
        Act::Set => Step::Set,
        Act::Add => set_or_skip(place == Place::Newer),
        Act::Retract { first } => set_or_skip(first || place == Place::Newer),
    }
}

fn follower(act: Act, place: Place) -> Step {
    match act {
        Act::Skip => Step::Skip,
        Act::Set => Step::Set,
        Act::Add => set_or_skip(place == Place::Newer),
        Act::Retract { .. } if place == Place::Newer => Step::Clear,
        Act::Retract { first } => set_or_skip(first),
    }
}

fn aggregate(act: Act, place: Place) -> Step {
    match (act, place) {
        (Act::Skip, _) | (Act::Add, Place::Outside) => Step::Skip,
        (Act::Set, _) => Step::Set,
        (Act::Add, Place::Newer) => Step::Add,
        (Act::Add, Place::Late) => Step::AddLate,
        (Act::Retract { first }, Place::Outside) => set_or_skip(first),
        (Act::Retract { first: true }, _) => Step::SetRetract,
        (Act::Retract { first: false }, _) => Step::Retract,
    }
}

fn set_or_skip(set: bool) -> Step {
    if set { Step::Set } else { Step::Skip }
}
