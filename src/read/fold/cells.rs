//! Functions that choose one of the values of a key: last, first, greatest, smallest, and, or.
//!
//! A choice is the same code for every type. Numbers and times are kept as values, one a group; any other value as its place
//! in the blocks, gathered when the fold ends.

use std::cmp::Ordering;
use std::fmt;
use std::marker::PhantomData;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, make_array, new_empty_array, new_null_array};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::compute::interleave;
use arrow::datatypes::{ArrowNativeType, DataType};
use arrow::util::bit_util::get_bit;

use super::plan::ColumnPlan;
use super::steps::{Step, Steps};
use super::{Accumulator, FoldResult, Rows, nulls, wrong_type};
use crate::error::Error;
use crate::table::aggregate::Function;

/// What the group has of a column.
struct Cell<'a, V> {
    value: &'a mut V,
    valid: &'a mut bool,
    /// The function took a value already (`first_value`, `first_non_null_value`).
    started: &'a mut bool,
}

/// Which value of a key is chosen. `order` compares the input with what is there.
trait Choice: fmt::Debug + Send + 'static {
    /// Whether the input replaces what is there.
    fn takes(step: Late, there: bool, input: bool, started: &mut bool, order: impl FnOnce() -> Ordering) -> bool;

    /// What a retract of a value leaves: itself, nothing, or what was there (`None`).
    fn retract(_input: bool) -> Option<Retracted> {
        None
    }
}

/// Whether the row is late in its sequence group, so that the function's arguments change places.
type Late = bool;

enum Retracted {
    Nothing,
    Input,
}

macro_rules! choice {
    ($(#[$doc:meta])* $name:ident, |$late:ident, $there:ident, $input:ident, $started:ident, $order:ident| $takes:expr
        $(, retract |$value:ident| $retract:expr)?) => {
        $(#[$doc])*
        #[derive(Debug)]
        struct $name;

        impl Choice for $name {
            #[inline(always)]
            fn takes(
                $late: Late,
                $there: bool,
                $input: bool,
                $started: &mut bool,
                $order: impl FnOnce() -> Ordering,
            ) -> bool {
                $takes
            }

            $(
                #[inline(always)]
                fn retract($value: bool) -> Option<Retracted> {
                    $retract
                }
            )?
        }
    };
}

choice!(
    /// `primary-key`
    Key, |_late, _there, _input, _started, _order| true, retract |_value| Some(Retracted::Input)
);
choice!(
    /// `last_value`
    Last, |late, _there, _input, _started, _order| !late, retract |_value| Some(Retracted::Nothing)
);
choice!(
    /// `last_non_null_value`
    LastNonNull, |late, there, input, _started, _order| input && !(late && there),
    retract |value| value.then_some(Retracted::Nothing)
);
choice!(
    /// `first_value`; a late row is the first, unless nothing started yet (`spec/data.md 5.3`).
    First, |late, _there, _input, started, _order| {
        let first = !*started;
        *started = true;
        first != late
    }
);
choice!(
    /// `first_non_null_value`; once started, a late NULL erases what is there (`spec/data.md 15`, trap 34).
    FirstNonNull, |late, there, input, started, _order| {
        let candidate = if late { there } else { input };
        let first = !*started && candidate;
        *started |= first;
        first != late
    }
);
choice!(
    /// `max`, `bool_or`
    Max, |_late, there, input, _started, order| input && (!there || order() == Ordering::Greater)
);
choice!(
    /// `min`, `bool_and`
    Min, |_late, there, input, _started, order| input && (!there || order() == Ordering::Less)
);

/// The cells of all groups.
#[derive(Debug)]
struct Cells<V> {
    values: Vec<V>,
    valid: Vec<bool>,
    started: Vec<bool>,
}

impl<V: Copy> Cells<V> {
    fn new(groups: usize, zero: V) -> Self {
        Self { values: vec![zero; groups], valid: vec![false; groups], started: vec![false; groups] }
    }

    fn memory(&self) -> usize {
        self.values.capacity() * size_of::<V>() + self.valid.capacity() + self.started.capacity()
    }

    fn update<C: Choice>(
        &mut self,
        rows: &Rows<'_>,
        validity: Option<&NullBuffer>,
        value: impl Fn(usize) -> V,
        order: impl Fn(V, V) -> Ordering,
    ) {
        // A loop of its own for each case: what is the same for all rows is then known outside of it.
        match validity.filter(|validity| validity.null_count() > 0) {
            None => self.run::<C>(rows, |_| true, value, order),
            Some(validity) => {
                let (bytes, offset) = (validity.inner().values(), validity.offset());
                self.run::<C>(rows, move |row| get_bit(bytes, offset + row), value, order);
            }
        }
    }

    #[inline(always)]
    fn run<C: Choice>(
        &mut self,
        rows: &Rows<'_>,
        is_valid: impl Fn(usize) -> bool,
        value: impl Fn(usize) -> V,
        order: impl Fn(V, V) -> Ordering,
    ) {
        // Slices of one length: a group is checked once.
        let groups = self.values.len().min(self.valid.len()).min(self.started.len());
        let (values, valid) = (&mut self.values[..groups], &mut self.valid[..groups]);
        let started = &mut self.started[..groups];
        let mut apply = |row: usize, group: u32, step: Step| {
            let group = group as usize;
            let mut cell = Cell { value: &mut values[group], valid: &mut valid[group], started: &mut started[group] };
            apply::<C, V>(&mut cell, step, value(row), is_valid(row), &order);
        };
        match rows.steps {
            // Named one by one so that the step is a constant in the loop.
            Steps::All(Step::Add) => rows.group_of.iter().enumerate().for_each(|(row, &g)| apply(row, g, Step::Add)),
            Steps::All(Step::Set) => rows.group_of.iter().enumerate().for_each(|(row, &g)| apply(row, g, Step::Set)),
            Steps::All(step) => rows.group_of.iter().enumerate().for_each(|(row, &g)| apply(row, g, *step)),
            Steps::Rows(steps) => {
                rows.group_of.iter().zip(steps).enumerate().for_each(|(row, (&g, &step))| apply(row, g, step));
            }
        }
    }
}

#[inline(always)]
fn apply<C: Choice, V: Copy>(
    cell: &mut Cell<'_, V>,
    step: Step,
    input: V,
    valid: bool,
    order: &impl Fn(V, V) -> Ordering,
) {
    let takes = match step {
        Step::Skip => false,
        Step::Set => true,
        Step::Add | Step::AddLate => {
            let there = *cell.value;
            C::takes(step == Step::AddLate, *cell.valid, valid, cell.started, || order(input, there))
        }
        Step::Clear => {
            *cell.valid = false;
            false
        }
        Step::Retract | Step::SetRetract => match C::retract(valid) {
            Some(Retracted::Nothing) => {
                *cell.valid = false;
                false
            }
            Some(Retracted::Input) => true,
            // Functions that can't retract never get here (`FoldState::update` sees to it).
            None => step == Step::SetRetract,
        },
    };
    if takes {
        *cell.value = input;
        *cell.valid = valid;
    }
}

/// The accumulator of a choosing function.
pub(super) fn accumulator(plan: &ColumnPlan, groups: usize) -> FoldResult<Box<dyn Accumulator>> {
    match plan.function {
        Function::PrimaryKey => Ok(of::<Key>(plan, groups)),
        Function::LastValue => Ok(of::<Last>(plan, groups)),
        Function::LastNonNull => Ok(of::<LastNonNull>(plan, groups)),
        Function::FirstValue => Ok(of::<First>(plan, groups)),
        Function::FirstNonNull => Ok(of::<FirstNonNull>(plan, groups)),
        Function::Max | Function::BoolOr => Ok(of::<Max>(plan, groups)),
        Function::Min | Function::BoolAnd => Ok(of::<Min>(plan, groups)),
        _ => Err(Error::internal(format!("{} does not choose a value", plan.function.name())).into()),
    }
}

fn of<C: Choice>(plan: &ColumnPlan, groups: usize) -> Box<dyn Accumulator> {
    use DataType as D;
    let data_type = plan.field.data_type.to_arrow();
    match &data_type {
        D::Boolean => Box::new(Booleans::<C> { cells: Cells::new(groups, false), choice: PhantomData }),
        D::Int8 => Values::<i8, C>::boxed(data_type, groups),
        D::Int16 => Values::<i16, C>::boxed(data_type, groups),
        D::Int32 | D::Date32 | D::Time32(_) => Values::<i32, C>::boxed(data_type, groups),
        D::Int64 | D::Timestamp(..) => Values::<i64, C>::boxed(data_type, groups),
        D::Float32 => Values::<f32, C>::boxed(data_type, groups),
        D::Float64 => Values::<f64, C>::boxed(data_type, groups),
        D::Decimal128(..) => Values::<i128, C>::boxed(data_type, groups),
        _ => Box::new(Places::<C> {
            data_type,
            cells: Cells::new(groups, (0, 0)),
            blocks: Vec::new(),
            choice: PhantomData,
        }),
    }
}

/// A number with the total order of the format: NaN is the greatest, -0.0 is below 0.0 (`spec/data.md 4.2`).
trait Ordered: ArrowNativeType + Default {
    fn order(self, other: Self) -> Ordering;
}

macro_rules! ordered {
    ($($native:ty),*) => {
        $(impl Ordered for $native {
            #[inline(always)]
            fn order(self, other: Self) -> Ordering {
                self.cmp(&other)
            }
        })*
    };
}

macro_rules! ordered_float {
    ($($native:ty),*) => {
        $(impl Ordered for $native {
            #[inline(always)]
            fn order(self, other: Self) -> Ordering {
                // The sign of a NaN does not count.
                match (self.is_nan(), other.is_nan()) {
                    (false, false) => self.total_cmp(&other),
                    (mine, others) => mine.cmp(&others),
                }
            }
        })*
    };
}

ordered!(i8, i16, i32, i64, i128);
ordered_float!(f32, f64);

/// Numbers and times, kept as they are.
#[derive(Debug)]
struct Values<N, C> {
    data_type: DataType,
    cells: Cells<N>,
    choice: PhantomData<C>,
}

impl<N: Ordered + Send, C: Choice> Values<N, C> {
    fn boxed(data_type: DataType, groups: usize) -> Box<dyn Accumulator> {
        Box::new(Self { data_type, cells: Cells::new(groups, N::default()), choice: PhantomData })
    }
}

impl<N: Ordered + Send, C: Choice> Accumulator for Values<N, C> {
    fn update(&mut self, rows: &Rows<'_>, column: &ArrayRef) -> FoldResult<()> {
        let values = natives::<N>(column, &self.data_type)?;
        let values: &[N] = &values;
        self.cells.update::<C>(rows, column.nulls(), move |row| values[row], N::order);
        Ok(())
    }

    fn finish(self: Box<Self>) -> FoldResult<ArrayRef> {
        from_natives(self.data_type, self.cells.values, self.cells.valid)
    }

    fn memory(&self) -> usize {
        self.cells.memory()
    }
}

/// The values of a column of numbers or times.
pub(super) fn natives<N: ArrowNativeType>(column: &ArrayRef, wanted: &DataType) -> FoldResult<ScalarBuffer<N>> {
    let data = column.to_data();
    match data.buffers() {
        // One buffer of the wanted width; a time zone or precision that differs does not change the values.
        [buffer] if column.data_type().primitive_width() == Some(size_of::<N>()) => {
            Ok(ScalarBuffer::new(buffer.clone(), data.offset(), data.len()))
        }
        _ => Err(wrong_type(column, &wanted.to_string())),
    }
}

/// A column of numbers or times.
pub(super) fn from_natives<N: ArrowNativeType>(
    data_type: DataType,
    values: Vec<N>,
    valid: Vec<bool>,
) -> FoldResult<ArrayRef> {
    let data = arrow::array::ArrayData::builder(data_type)
        .len(values.len())
        .add_buffer(ScalarBuffer::from(values).into_inner())
        .nulls(nulls(valid))
        .build()?;
    Ok(make_array(data))
}

#[derive(Debug)]
struct Booleans<C> {
    cells: Cells<bool>,
    choice: PhantomData<C>,
}

impl<C: Choice> Accumulator for Booleans<C> {
    fn update(&mut self, rows: &Rows<'_>, column: &ArrayRef) -> FoldResult<()> {
        let values = column.as_boolean_opt().ok_or_else(|| wrong_type(column, "booleans"))?.values();
        self.cells.update::<C>(rows, column.nulls(), |row| values.value(row), |input, there| input.cmp(&there));
        Ok(())
    }

    fn finish(self: Box<Self>) -> FoldResult<ArrayRef> {
        Ok(std::sync::Arc::new(BooleanArray::new(self.cells.values.into(), nulls(self.cells.valid))))
    }

    fn memory(&self) -> usize {
        self.cells.memory()
    }
}

/// Any other value, kept as its block and row.
#[derive(Debug)]
struct Places<C> {
    data_type: DataType,
    cells: Cells<(u32, u32)>,
    blocks: Vec<ArrayRef>,
    choice: PhantomData<C>,
}

impl<C: Choice> Accumulator for Places<C> {
    fn update(&mut self, rows: &Rows<'_>, column: &ArrayRef) -> FoldResult<()> {
        if *column.data_type() != self.data_type {
            return Err(wrong_type(column, &self.data_type.to_string()));
        }
        // One array a block, so that `rows.block` finds it.
        self.blocks.push(ArrayRef::clone(column));
        let block = rows.block;
        let order = |input, there| self.blocks.as_slice().order(input, there);
        self.cells.update::<C>(rows, column.logical_nulls().as_ref(), move |row| (block, row as u32), order);
        Ok(())
    }

    fn finish(self: Box<Self>) -> FoldResult<ArrayRef> {
        let Self { data_type, cells, blocks, .. } = *self;
        gather(&data_type, &blocks, cells.values.iter().zip(&cells.valid).map(|(&at, &valid)| valid.then_some(at)))
    }

    fn memory(&self) -> usize {
        self.cells.memory() + self.blocks.iter().map(|block| block.get_array_memory_size()).sum::<usize>()
    }
}

/// The values at `places` (block, row) of `blocks`; NULL for `None`.
pub(super) fn gather(
    data_type: &DataType,
    blocks: &[ArrayRef],
    places: impl ExactSizeIterator<Item = Option<(u32, u32)>>,
) -> FoldResult<ArrayRef> {
    if places.len() == 0 {
        return Ok(new_empty_array(data_type));
    }
    // NULL is the only row of one more block.
    let null = new_null_array(data_type, 1);
    let absent = (blocks.len(), 0);
    let indices: Vec<(usize, usize)> =
        places.map(|place| place.map_or(absent, |(block, row)| (block as usize, row as usize))).collect();
    let arrays: Vec<&dyn Array> = blocks.iter().chain(std::iter::once(&null)).map(AsRef::as_ref).collect();
    Ok(interleave(&arrays, &indices)?)
}

/// Comparison of values by their places; only text and bytes are ever compared (`Function::takes`).
trait ByPlace {
    fn order(&self, input: (u32, u32), there: (u32, u32)) -> Ordering;
}

impl ByPlace for [ArrayRef] {
    fn order(&self, input: (u32, u32), there: (u32, u32)) -> Ordering {
        bytes_at(self, input).cmp(bytes_at(self, there))
    }
}

fn bytes_at(blocks: &[ArrayRef], (block, row): (u32, u32)) -> &[u8] {
    let (array, row) = (&blocks[block as usize], row as usize);
    match array.data_type() {
        DataType::Utf8View => array.as_string_view().value(row).as_bytes(),
        DataType::BinaryView => array.as_binary_view().value(row),
        _ => &[],
    }
}
