//! The node that turns what is to happen to rows of a key table into rows of a kind: `-D`, `-U`, `+U`, `+I`
//! (`spec/data.md 12.3`).
//!
//! Imports `write`, `options`, `spec` and `error`.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, DynComparator, Int8Array, RecordBatch, UInt32Array, make_comparator, new_null_array,
};
use arrow::compute::{SortOptions, interleave, take_arrays};
use arrow::datatypes::{DataType as ArrowType, Field, Schema, SchemaRef};
use arrow::util::display::array_value_to_string;
use datafusion::common::Result as EngineResult;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::{StreamExt, TryStreamExt};

use super::shape::{Action, ChangeShape};
use crate::error::{Error, Result};
use crate::options::{ChangelogProducer, MergeEngine};
use crate::table::Table;
use crate::write::{BucketMode, RunSlot, WriteRun, WriteTarget, as_they_come, one_input};

const INSERT: i8 = 0;
const UPDATE_BEFORE: i8 = 1;
const UPDATE_AFTER: i8 = 2;
const DELETE: i8 = 3;

/// Tells something of a row by its number.
type RowTest<'a> = Box<dyn Fn(usize) -> bool + 'a>;

/// Makes rows with kinds.
#[derive(Debug)]
pub(crate) struct LakeKeyChangesExec {
    input: Arc<dyn ExecutionPlan>,
    target: Arc<WriteTarget>,
    slot: Arc<RunSlot>,
    shape: Arc<ChangeShape>,
    properties: Arc<PlanProperties>,
}

impl LakeKeyChangesExec {
    pub(crate) fn new(
        input: Arc<dyn ExecutionPlan>,
        target: Arc<WriteTarget>,
        slot: Arc<RunSlot>,
        shape: Arc<ChangeShape>,
    ) -> Self {
        let properties = as_they_come(&input, with_kind(target.table_schema()));
        Self { input, target, slot, shape, properties }
    }
}

/// The columns of the table and the kind.
fn with_kind(columns: &SchemaRef) -> SchemaRef {
    let own = columns.fields().iter().map(|field| Arc::new(field.as_ref().clone().with_nullable(true)));
    Arc::new(Schema::new(own.chain([Arc::new(Field::new("_VALUE_KIND", ArrowType::Int8, false))]).collect::<Vec<_>>()))
}

impl DisplayAs for LakeKeyChangesExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = self.target.table().identifier();
        match t {
            DisplayFormatType::TreeRender => write!(f, "{table}"),
            _ => write!(f, "LakeKeyChangesExec: table={table}, operation={}", self.shape.operation.name()),
        }
    }
}

impl ExecutionPlan for LakeKeyChangesExec {
    one_input!(LakeKeyChangesExec, |node, input| Self::new(
        input,
        Arc::clone(&node.target),
        Arc::clone(&node.slot),
        Arc::clone(&node.shape)
    ));

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> EngineResult<SendableRecordBatchStream> {
        let run = self.slot.current()?;
        let input = self.input.execute(partition, context)?;
        let changer = KeyChanger::try_new(&run, &self.shape)?;
        let rows = input.map(move |batch| -> EngineResult<RecordBatch> { Ok(changer.change(&batch?)?) }).boxed();
        let rows = rows.try_filter(|batch| std::future::ready(batch.num_rows() > 0));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows.boxed())))
    }
}

/// For each column whether a row that deletes leaves it NULL. Where a key that is inserted again begins with the values of the row
/// that deleted it (`spec/observed.md`, Merge engines), it would have what was deleted; but who reads the changelog of the input wants
/// to know what that was.
fn forgotten(table: &Table) -> Vec<bool> {
    let (schema, options) = (table.schema(), table.settings());
    let goes_on = match options.merge_engine {
        MergeEngine::PartialUpdate => options.partial_update_remove_record_on_delete,
        MergeEngine::Aggregation => options.aggregation_remove_record_on_delete,
        _ => false,
    };
    let forgets = goes_on && options.changelog_producer != ChangelogProducer::Input;
    let kept = |name: &String| {
        schema.primary_keys.contains(name)
            || schema.partition_keys.contains(name)
            || options.sequence_fields.contains(name)
            || options.rowkind_field.as_ref() == Some(name)
    };
    schema.fields.iter().map(|field| forgets && field.data_type.nullable && !kept(&field.name)).collect()
}

/// Turns batch after batch into rows with kinds.
struct KeyChanger {
    run: Arc<WriteRun>,
    shape: Arc<ChangeShape>,
    schema: SchemaRef,
    /// Positions of the primary key.
    keys: Vec<usize>,
    partition: Vec<usize>,
    /// Whether updates give the row as it was, too.
    gives_before: bool,
    /// Whether a row that changes its partition is taken out of the old one here.
    moves: bool,
    /// The merge engine, where a key stays in the partition that it came to first whatever its rows say (`spec/data.md 3.6`).
    keeps_partition: Option<&'static str>,
    guards: Vec<Guard>,
    /// Columns whose values NULL does not replace.
    sticky: Vec<usize>,
    /// For each column whether a row that deletes leaves it NULL.
    forgotten: Vec<bool>,
}

/// Columns that tell which of two rows is newer, by position.
struct Guard {
    sequence: Vec<usize>,
    descending: bool,
    /// What they rule: columns of a sequence group; everything when empty.
    protected: Vec<usize>,
    option: String,
}

impl KeyChanger {
    fn try_new(run: &Arc<WriteRun>, shape: &Arc<ChangeShape>) -> Result<Self> {
        let target = run.target();
        let (schema, options) = (target.table().schema(), target.table().settings());
        let positions =
            |names: &[String]| -> Vec<usize> { names.iter().filter_map(|name| schema.index_of(name)).collect() };
        let keys = positions(&schema.primary_keys);
        let mut guards = Vec::new();
        if !options.sequence_fields.is_empty() {
            guards.push(Guard {
                sequence: positions(&options.sequence_fields),
                descending: options.sequence_descending,
                protected: Vec::new(),
                option: format!("sequence.field = {}", options.sequence_fields.join(",")),
            });
        }
        let is_partial = options.merge_engine == MergeEngine::PartialUpdate;
        let mut sticky: Vec<usize> = Vec::new();
        if is_partial {
            sticky = (0..schema.fields.len()).filter(|column| !keys.contains(column)).collect();
            for group in &options.sequence_groups {
                let (sequence, protected) = (positions(&group.sequence), positions(&group.protected));
                sticky.retain(|column| !sequence.contains(column) && !protected.contains(column));
                let option = format!("fields.{}.sequence-group", group.sequence.join(","));
                guards.push(Guard { sequence, descending: false, protected, option });
            }
        }
        Ok(Self {
            partition: positions(&schema.partition_keys),
            gives_before: options.changelog_producer == ChangelogProducer::Input
                && options.merge_engine == MergeEngine::Deduplicate
                && !options.ignore_update_before,
            moves: target.mode() != BucketMode::CrossPartition,
            keeps_partition: match options.merge_engine {
                _ if target.mode() != BucketMode::CrossPartition => None,
                MergeEngine::PartialUpdate => Some("partial-update"),
                MergeEngine::Aggregation => Some("aggregation"),
                _ => None,
            },
            schema: with_kind(target.table_schema()),
            run: Arc::clone(run),
            shape: Arc::clone(shape),
            keys,
            guards,
            sticky,
            forgotten: forgotten(target.table()),
        })
    }

    fn table(&self) -> &Arc<Table> {
        self.run.target().table()
    }

    fn change(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let mut actions = self.shape.actions_of(batch)?;
        let width = self.shape.width;
        let of = |at: usize, has: bool| if has { &batch.columns()[at..at + width] } else { &[] };
        let (new, old) = (of(self.shape.new_at(), self.shape.has_new), of(self.shape.old_at(), self.shape.has_old));
        self.refuse_repeats(old, &mut actions)?;
        self.check_updates(old, new, &actions)?;
        let moved = self.moved(old, new)?;
        // Whether the new values, at which row, as what.
        let mut rows: Vec<(bool, usize, i8)> = Vec::with_capacity(actions.len());
        let mut changed = 0;
        for (row, action) in actions.iter().enumerate() {
            let Some(action) = action else { continue };
            changed += 1;
            match action {
                Action::Insert => rows.push((true, row, INSERT)),
                Action::Delete => rows.push((false, row, DELETE)),
                Action::Update if moved.as_ref().is_some_and(|moved| moved(row)) => {
                    rows.extend([(false, row, DELETE), (true, row, INSERT)]);
                }
                Action::Update => {
                    if self.gives_before {
                        rows.push((false, row, UPDATE_BEFORE));
                    }
                    rows.push((true, row, UPDATE_AFTER));
                }
            }
        }
        self.run.changes().count(changed);
        let kinds: ArrayRef = Arc::new(Int8Array::from_iter_values(rows.iter().map(|(_, _, kind)| *kind)));
        // Often all rows are written, with their new values.
        let all_new = rows.len() == batch.num_rows() && rows.iter().enumerate().all(|(at, row)| row.0 && row.1 == at);
        let pick = |column: usize| -> Result<ArrayRef> {
            if let (true, Some(new)) = (all_new, new.get(column)) {
                return Ok(Arc::clone(new));
            }
            let (new, old) = (new.get(column), old.get(column));
            let (Some(new), Some(old)) = (new.or(old), old.or(new)) else {
                return Err(Error::internal("rows that change come without values"));
            };
            let none = new_null_array(new.data_type(), 1);
            let place = |(is_new, row, kind): &(bool, usize, i8)| match is_new {
                true => (0, *row),
                false if *kind == DELETE && self.forgotten[column] => (2, 0),
                false => (1, *row),
            };
            let indices: Vec<_> = rows.iter().map(place).collect();
            Ok(interleave(&[new.as_ref(), old.as_ref(), none.as_ref()], &indices)?)
        };
        let mut columns = (0..width).map(pick).collect::<Result<Vec<_>>>()?;
        columns.push(kinds);
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }

    /// Refuses rows that are changed a second time; a row that is deleted twice is deleted once.
    fn refuse_repeats(&self, old: &[ArrayRef], actions: &mut [Option<Action>]) -> Result<()> {
        if !self.shape.may_repeat {
            return Ok(());
        }
        let changed: Vec<usize> =
            (0..actions.len()).filter(|row| matches!(actions[*row], Some(Action::Update | Action::Delete))).collect();
        if changed.is_empty() || old.is_empty() {
            return Ok(());
        }
        let keys: Vec<ArrayRef> = self.keys.iter().map(|key| Arc::clone(&old[*key])).collect();
        let rows = UInt32Array::from_iter_values(changed.iter().map(|row| *row as u32));
        let first = self.run.changes().first_time(&take_arrays(&keys, &rows, None)?)?;
        for (row, first) in changed.into_iter().zip(first) {
            if first {
                continue;
            }
            let deletes_only = !self.shape.does(Action::Update);
            if !deletes_only {
                return Err(self.table().at(Error::invalid(format!(
                    "the row with key {} is matched by more than one row of the source, so that it is not clear what \
                     becomes of it; make the source give each key once",
                    self.key_text(old, row)
                ))));
            }
            actions[row] = None;
        }
        Ok(())
    }

    fn key_text(&self, rows: &[ArrayRef], row: usize) -> String {
        let schema = self.table().schema();
        let values = self.keys.iter().map(|key| {
            let value = array_value_to_string(&rows[*key], row).unwrap_or_default();
            format!("{} = {value}", schema.fields[*key].name)
        });
        format!("({})", values.collect::<Vec<_>>().join(", "))
    }

    /// Refuses updates that a reader would not see.
    fn check_updates(&self, old: &[ArrayRef], new: &[ArrayRef], actions: &[Option<Action>]) -> Result<()> {
        let updated = |row: &usize| actions[*row] == Some(Action::Update);
        if old.is_empty() || new.is_empty() || !self.shape.does(Action::Update) {
            return Ok(());
        }
        let rows: Vec<usize> = (0..actions.len()).filter(updated).collect();
        let refused = |row: usize, what: String| {
            Err(self.table().at(Error::invalid(format!("the row with key {}: {what}", self.key_text(old, row)))))
        };
        let comparator = |column: usize, descending: bool| -> Result<DynComparator> {
            Ok(make_comparator(&old[column], &new[column], SortOptions { descending, nulls_first: true })?)
        };
        for key in &self.keys {
            let compare = comparator(*key, false)?;
            if let Some(row) = rows.iter().find(|row| compare(**row, **row) != Ordering::Equal) {
                let name = &self.table().schema().fields[*key].name;
                return refused(
                    *row,
                    format!(
                        "UPDATE would change column {name} of the primary key; delete the row and insert another one"
                    ),
                );
            }
        }
        if let Some(engine) = self.keeps_partition {
            for column in &self.partition {
                let compare = comparator(*column, false)?;
                if let Some(row) = rows.iter().find(|row| compare(**row, **row) != Ordering::Equal) {
                    let name = &self.table().schema().fields[*column].name;
                    return refused(
                        *row,
                        format!(
                            "UPDATE of partition column {name} would be lost, because a key of a table with \
                             'merge-engine' = '{engine}' stays in its partition; delete the row and insert another one"
                        ),
                    );
                }
            }
        }
        for guard in &self.guards {
            let sequence = guard.sequence.iter().map(|column| comparator(*column, guard.descending));
            let sequence = sequence.collect::<Result<Vec<_>>>()?;
            // What can't be compared may have changed.
            let protected: Vec<_> = guard.protected.iter().map(|column| comparator(*column, false).ok()).collect();
            let order = |row: usize| {
                sequence.iter().map(|compare| compare(row, row)).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
            };
            let lost = |row: usize| {
                let nothing = guard.sequence.iter().all(|column| new[*column].is_null(row));
                let touched =
                    protected.iter().any(|compare| compare.as_ref().is_none_or(|compare| compare(row, row).is_ne()));
                match order(row) {
                    // The old values are the newer ones.
                    Ordering::Greater => true,
                    // A group whose sequence is NULL is left as it is.
                    _ => !guard.protected.is_empty() && nothing && touched,
                }
            };
            if let Some(row) = rows.iter().find(|row| lost(**row)) {
                return refused(
                    *row,
                    format!(
                        "the UPDATE would be lost, because the row keeps the values that '{}' says are newer; set those \
                         columns to values that are not older",
                        guard.option
                    ),
                );
            }
        }
        for column in &self.sticky {
            let lost = |row: &&usize| new[*column].is_null(**row) && old[*column].is_valid(**row);
            if let Some(row) = rows.iter().find(lost) {
                let name = &self.table().schema().fields[*column].name;
                return refused(
                    *row,
                    format!(
                        "column {name} can't become NULL: 'merge-engine' = 'partial-update' keeps the last value that is not NULL"
                    ),
                );
            }
        }
        Ok(())
    }

    /// Tells of a row whether it gets into another partition; `None` when none does.
    fn moved<'a>(&self, old: &'a [ArrayRef], new: &'a [ArrayRef]) -> Result<Option<RowTest<'a>>> {
        if !self.moves || self.partition.is_empty() || old.is_empty() || new.is_empty() {
            return Ok(None);
        }
        let options = SortOptions::default();
        let compare = self
            .partition
            .iter()
            .map(|column| Ok(make_comparator(&old[*column], &new[*column], options)?))
            .collect::<Result<Vec<DynComparator>>>()?;
        Ok(Some(Box::new(move |row| compare.iter().any(|compare| compare(row, row).is_ne()))))
    }
}
