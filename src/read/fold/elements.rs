//! Functions of lists: `collect`, `nested_update`, `nested_partial_update` (`spec/data.md 5.3`).
//!
//! A list is kept as the places of its elements in the blocks. Elements and nested keys are compared by their arrow-row bytes,
//! so that floats are equal when their bits are, as in Java. Java keeps sets and keyed rows in hash order; here they keep the
//! order in which they came.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, StructArray};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, FieldRef};
use arrow_row::{RowConverter, Rows as Bytes, SortField};

use super::cells::gather;
use super::plan::ColumnPlan;
use super::steps::{Step, Steps};
use super::{Accumulator, FoldError, FoldResult, Rows, nulls, wrong_type};
use crate::error::Error;
use crate::options::NestedKeyNullStrategy;
use crate::table::aggregate::{Function, NestedUpdate};

/// An element: its block and its position in the block's elements.
type Place = (u32, u32);

/// The elements of all blocks, with the bytes they are compared by.
#[derive(Debug)]
pub(super) struct ElementStore {
    element: FieldRef,
    /// Fields of the element ROW that make its key; `None`: the whole element.
    keys: Option<Vec<usize>>,
    converter: RowConverter,
    blocks: Vec<ElementBlock>,
}

#[derive(Debug)]
struct ElementBlock {
    values: ArrayRef,
    bytes: Option<Bytes>,
}

impl ElementStore {
    pub(super) fn try_new(element: FieldRef, keys: Option<Vec<usize>>) -> FoldResult<Self> {
        let types = match &keys {
            None => vec![element.data_type().clone()],
            Some(keys) => struct_types(element.data_type(), keys)?,
        };
        let converter = RowConverter::new(types.into_iter().map(SortField::new).collect())?;
        Ok(Self { element, keys, converter, blocks: Vec::new() })
    }

    /// Keeps the elements that a block refers to; the result maps a range of them to places.
    pub(super) fn push(&mut self, values: &ArrayRef, used: Range<usize>) -> FoldResult<()> {
        if values.data_type() != self.element.data_type() {
            return Err(wrong_type(values, &self.element.data_type().to_string()));
        }
        self.blocks.push(ElementBlock { values: values.slice(used.start, used.len()), bytes: None });
        Ok(())
    }

    /// Makes the elements of all blocks comparable.
    pub(super) fn compare(&mut self) -> FoldResult<()> {
        for block in self.blocks.iter_mut().filter(|block| block.bytes.is_none()) {
            let columns = match &self.keys {
                None => vec![ArrayRef::clone(&block.values)],
                Some(keys) => struct_columns(&block.values, keys)?,
            };
            block.bytes = Some(self.converter.convert_columns(&columns)?);
        }
        Ok(())
    }

    pub(super) fn bytes(&self, (block, at): Place) -> &[u8] {
        // `compare` ran for all blocks before anything is compared.
        self.blocks[block as usize].bytes.as_ref().map_or(&[], |bytes| bytes.row(at as usize).data())
    }

    pub(super) fn values(&self, block: u32) -> &ArrayRef {
        &self.blocks[block as usize].values
    }

    pub(super) fn is_null(&self, (block, at): Place) -> bool {
        self.values(block).is_null(at as usize)
    }

    pub(super) fn arrays(&self) -> Vec<ArrayRef> {
        self.blocks.iter().map(|block| ArrayRef::clone(&block.values)).collect()
    }

    pub(super) fn memory(&self) -> usize {
        let block =
            |block: &ElementBlock| block.values.get_array_memory_size() + block.bytes.as_ref().map_or(0, Bytes::size);
        self.blocks.iter().map(block).sum()
    }
}

fn struct_types(data_type: &DataType, positions: &[usize]) -> FoldResult<Vec<DataType>> {
    let DataType::Struct(fields) = data_type else {
        return Err(Error::internal(format!("the elements are no rows but {data_type}")).into());
    };
    Ok(positions.iter().filter_map(|&at| fields.get(at)).map(|field| field.data_type().clone()).collect())
}

/// Fields of a struct column; NULL where the struct is.
fn struct_columns(values: &ArrayRef, positions: &[usize]) -> FoldResult<Vec<ArrayRef>> {
    let rows = values.as_struct_opt().ok_or_else(|| wrong_type(values, "rows"))?;
    Ok(positions.iter().filter_map(|&at| rows.columns().get(at)).map(ArrayRef::clone).collect())
}

/// The offsets of a list or map column, shifted to the elements that were kept.
pub(super) struct Ranges<'a> {
    offsets: &'a [i32],
    validity: Option<&'a NullBuffer>,
    block: u32,
}

impl<'a> Ranges<'a> {
    pub(super) fn new(offsets: &'a OffsetBuffer<i32>, validity: Option<&'a NullBuffer>, block: u32) -> Self {
        Self { offsets, validity, block }
    }

    /// The elements that the column refers to.
    pub(super) fn used(&self) -> Range<usize> {
        match (self.offsets.first(), self.offsets.last()) {
            (Some(&first), Some(&last)) => first as usize..last as usize,
            _ => 0..0,
        }
    }

    /// The places of a row's elements; `None` for NULL.
    pub(super) fn places(&self, row: usize) -> Option<impl ExactSizeIterator<Item = Place> + Clone + use<>> {
        if self.validity.is_some_and(|validity| validity.is_null(row)) {
            return None;
        }
        let (block, first) = (self.block, self.offsets.first().copied().unwrap_or_default());
        let range = (self.offsets[row] - first) as u32..(self.offsets[row + 1] - first) as u32;
        Some(range.map(move |at| (block, at)))
    }
}

/// Offsets of lists of these lengths.
pub(super) fn offsets(lengths: impl Iterator<Item = usize>) -> FoldResult<OffsetBuffer<i32>> {
    let mut offsets = vec![0_i32];
    let mut end = 0_usize;
    for length in lengths {
        end += length;
        offsets
            .push(i32::try_from(end).map_err(|_| Error::unsupported("the lists of one fold have too many elements"))?);
    }
    Ok(OffsetBuffer::new(offsets.into()))
}

pub(super) fn accumulator(plan: &ColumnPlan, groups: usize) -> FoldResult<Box<dyn Accumulator>> {
    let DataType::List(element) = plan.field.data_type.to_arrow() else {
        return Err(Error::internal(format!("column {} is no list", plan.field.name)).into());
    };
    let name = plan.field.name.clone();
    let (function, keys) = match &plan.function {
        Function::Collect { distinct } => (ListFunction::Collect { distinct: *distinct }, None),
        Function::NestedUpdate(update) if update.keys.is_empty() => {
            (ListFunction::Append { limit: update.limit }, None)
        }
        Function::NestedUpdate(update) => {
            (ListFunction::Upsert(Upsert::try_new(update, &element)?), Some(update.keys.clone()))
        }
        Function::NestedPartialUpdate { keys } => return PartialRows::boxed(element, keys, groups),
        other => return Err(Error::internal(format!("{} is no function of lists", other.name())).into()),
    };
    let store = ElementStore::try_new(element, keys)?;
    Ok(Box::new(Lists { name, function, store, groups: vec![None; groups] }))
}

#[derive(Debug)]
enum ListFunction {
    Collect {
        distinct: bool,
    },
    /// `nested_update` without a key.
    Append {
        limit: usize,
    },
    Upsert(Upsert),
}

/// `nested_update` with a key.
#[derive(Debug)]
struct Upsert {
    update: NestedUpdate,
    /// The sequence fields of every block, comparable; none: the later row wins.
    sequence: Option<(RowConverter, Vec<Bytes>)>,
}

impl Upsert {
    fn try_new(update: &NestedUpdate, element: &FieldRef) -> FoldResult<Self> {
        let types = struct_types(element.data_type(), &update.sequence)?;
        let sequence = if types.is_empty() {
            None
        } else {
            Some((RowConverter::new(types.into_iter().map(SortField::new).collect())?, Vec::new()))
        };
        Ok(Self { update: update.clone(), sequence })
    }

    fn push(&mut self, values: &ArrayRef) -> FoldResult<()> {
        if let Some((converter, blocks)) = &mut self.sequence {
            blocks.push(converter.convert_columns(&struct_columns(values, &self.update.sequence)?)?);
        }
        Ok(())
    }

    /// Whether the row takes the place of `there`.
    fn replaces(&self, row: Place, there: Place) -> bool {
        let Some((_, blocks)) = &self.sequence else { return true };
        let sequence = |(block, at): Place| blocks.get(block as usize).map(|bytes| bytes.row(at as usize));
        sequence(row) >= sequence(there)
    }

    /// Whether the row takes part: it is one, and its key is allowed.
    fn admits(&self, store: &ElementStore, row: Place) -> Result<bool, Error> {
        if store.is_null(row) {
            return Ok(false);
        }
        if self.update.null_keys == NestedKeyNullStrategy::Merge {
            return Ok(true);
        }
        let rows = store.values(row.0).as_struct();
        let null = self.update.keys.iter().any(|&key| rows.column(key).is_null(row.1 as usize));
        if null && self.update.null_keys == NestedKeyNullStrategy::Error {
            return Err(Error::invalid("a nested row has NULL in its nested key"));
        }
        Ok(!null)
    }

    /// `first` with the rows of `second` put over it. The limit holds new keys back, never an update (`spec/observed.md`).
    fn merge(&self, store: &ElementStore, first: &[Place], second: &[Place]) -> Result<Vec<Place>, Error> {
        let mut rows: Vec<Place> = Vec::with_capacity(first.len() + second.len());
        let mut index: HashMap<&[u8], usize> = HashMap::with_capacity(rows.capacity());
        for (at, &row) in first.iter().chain(second).enumerate() {
            if !self.admits(store, row)? {
                continue;
            }
            let key = store.bytes(row);
            match index.get(key) {
                Some(&place) if self.replaces(row, rows[place]) => rows[place] = row,
                Some(_) => {}
                None if at < first.len() || rows.len() < self.update.limit => {
                    index.insert(key, rows.len());
                    rows.push(row);
                }
                None => {}
            }
        }
        Ok(rows)
    }
}

/// `collect` and `nested_update`.
#[derive(Debug)]
struct Lists {
    name: String,
    function: ListFunction,
    store: ElementStore,
    groups: Vec<Option<Vec<Place>>>,
}

impl Lists {
    fn add(&self, first: Option<Vec<Place>>, second: Option<Vec<Place>>) -> Result<Option<Vec<Place>>, Error> {
        if let ListFunction::Collect { distinct: true } = self.function {
            // Also a single list becomes a set.
            return Ok(match (first, second) {
                (None, None) => None,
                (first, second) => {
                    let mut seen = HashSet::new();
                    let mut all = first.unwrap_or_default();
                    all.extend(second.unwrap_or_default());
                    all.retain(|&place| seen.insert(self.store.bytes(place)));
                    Some(all)
                }
            });
        }
        let (mut first, second) = match (first, second) {
            (Some(first), Some(second)) => (first, second),
            (first, second) => return Ok(first.or(second)),
        };
        Ok(Some(match &self.function {
            ListFunction::Collect { .. } => {
                first.extend(second);
                first
            }
            ListFunction::Append { limit } => {
                let room = limit.saturating_sub(first.len());
                if room > 0 {
                    first.retain(|&row| !self.store.is_null(row));
                    first.extend(second.into_iter().filter(|&row| !self.store.is_null(row)).take(room));
                }
                first
            }
            ListFunction::Upsert(upsert) => upsert.merge(&self.store, &first, &second)?,
        }))
    }

    fn retract(&self, there: Option<Vec<Place>>, input: Option<Vec<Place>>) -> Result<Option<Vec<Place>>, Error> {
        let (mut there, input) = match (there, input) {
            (Some(there), Some(input)) => (there, input),
            (there, _) => return Ok(there),
        };
        match &self.function {
            ListFunction::Collect { .. } => {
                // One equal element for each one taken back.
                let mut taken: HashMap<&[u8], usize> = HashMap::with_capacity(input.len());
                for &place in &input {
                    *taken.entry(self.store.bytes(place)).or_default() += 1;
                }
                there.retain(|&place| match taken.get_mut(self.store.bytes(place)) {
                    Some(count) if *count > 0 => {
                        *count -= 1;
                        false
                    }
                    _ => true,
                });
            }
            ListFunction::Append { .. } => {
                // Every equal row, however often it is there.
                let taken: HashSet<&[u8]> =
                    input.iter().filter(|&&row| !self.store.is_null(row)).map(|&row| self.store.bytes(row)).collect();
                there.retain(|&row| !self.store.is_null(row) && !taken.contains(self.store.bytes(row)));
            }
            ListFunction::Upsert(upsert) => {
                there = upsert.merge(&self.store, &there, &[])?;
                let mut taken = HashSet::with_capacity(input.len());
                for &row in &input {
                    if upsert.admits(&self.store, row)? {
                        taken.insert(self.store.bytes(row));
                    }
                }
                there.retain(|&row| !taken.contains(self.store.bytes(row)));
            }
        }
        Ok(Some(there))
    }

    /// Whether the rows compare elements at all.
    fn compares(&self, steps: &Steps) -> bool {
        match self.function {
            ListFunction::Collect { distinct: true } | ListFunction::Upsert(_) => true,
            ListFunction::Collect { .. } | ListFunction::Append { .. } => steps.first_retract().is_some(),
        }
    }
}

impl Accumulator for Lists {
    fn update(&mut self, rows: &Rows<'_>, column: &ArrayRef) -> FoldResult<()> {
        let lists = column.as_list_opt::<i32>().ok_or_else(|| wrong_type(column, "lists"))?;
        let ranges = Ranges::new(lists.offsets(), lists.nulls(), rows.block);
        self.store.push(lists.values(), ranges.used())?;
        if let ListFunction::Upsert(upsert) = &mut self.function {
            upsert.push(self.store.values(rows.block))?;
        }
        if self.compares(rows.steps) {
            self.store.compare()?;
        }
        rows.each(|row, group, step| {
            let input = ranges.places(row).map(|places| places.collect::<Vec<_>>());
            let there = self.groups[group].take();
            let late_first = !matches!(self.function, ListFunction::Collect { .. });
            let list = match step {
                Step::Skip => Ok(there),
                Step::Set => Ok(input),
                Step::Clear => Ok(None),
                // A late list of `collect` is still put behind (`spec/data.md 5.3`).
                Step::AddLate if late_first => self.add(input, there),
                Step::Add | Step::AddLate => self.add(there, input),
                Step::Retract => self.retract(there, input),
                Step::SetRetract => self.retract(input.clone(), input),
            };
            self.groups[group] = list.map_err(|error| named(&self.name, group, error))?;
            Ok(())
        })
    }

    fn finish(self: Box<Self>) -> FoldResult<ArrayRef> {
        let places: Vec<Option<Place>> = self.groups.iter().flatten().flatten().map(|&place| Some(place)).collect();
        let values = gather(self.store.element.data_type(), &self.store.arrays(), places.into_iter())?;
        let offsets = offsets(self.groups.iter().map(|list| list.as_ref().map_or(0, Vec::len)))?;
        let valid = nulls(self.groups.iter().map(Option::is_some).collect());
        Ok(Arc::new(ListArray::try_new(self.store.element, offsets, values, valid)?))
    }

    fn memory(&self) -> usize {
        self.store.memory() + lists_memory(&self.groups)
    }
}

pub(super) fn lists_memory(groups: &[Option<Vec<Place>>]) -> usize {
    size_of_val(groups) + groups.iter().flatten().map(|list| list.capacity() * size_of::<Place>()).sum::<usize>()
}

pub(super) fn named(name: &str, group: usize, error: Error) -> FoldError {
    FoldError::at(group as u32, error.with("column", name))
}

/// The rows of a list while `nested_partial_update` folds it.
#[derive(Clone, Debug)]
enum PartialList {
    /// As it came.
    Whole(Vec<Place>),
    /// One row after the other: a place with its key, then the place of each field's value (`None`: NULL).
    Fields(Vec<Option<Place>>),
}

/// `nested_partial_update`: rows of one key take each other's fields that are not NULL.
#[derive(Debug)]
struct PartialRows {
    store: ElementStore,
    fields: usize,
    groups: Vec<Option<PartialList>>,
}

impl PartialRows {
    fn boxed(element: FieldRef, keys: &[usize], groups: usize) -> FoldResult<Box<dyn Accumulator>> {
        let DataType::Struct(fields) = element.data_type() else {
            return Err(Error::internal("nested_partial_update needs rows").into());
        };
        let fields = fields.len();
        let store = ElementStore::try_new(element, Some(keys.to_vec()))?;
        Ok(Box::new(Self { store, fields, groups: vec![None; groups] }))
    }

    fn field_place(&self, row: Place, field: usize) -> Option<Place> {
        let rows = self.store.values(row.0).as_struct();
        rows.column(field).is_valid(row.1 as usize).then_some(row)
    }

    /// `second` over `first`, row by row of one key.
    fn merge(&self, first: PartialList, second: PartialList) -> PartialList {
        let width = self.fields + 1;
        let mut rows: Vec<Option<Place>> = Vec::new();
        let mut index: HashMap<&[u8], usize> = HashMap::new();
        for list in [first, second] {
            for row in self.as_fields(list).chunks_exact(width) {
                let Some(key) = row[0] else { continue };
                match index.get(self.store.bytes(key)) {
                    Some(&at) => {
                        for (there, &value) in rows[at + 1..at + width].iter_mut().zip(&row[1..]) {
                            *there = value.or(*there);
                        }
                    }
                    None => {
                        index.insert(self.store.bytes(key), rows.len());
                        rows.extend_from_slice(row);
                    }
                }
            }
        }
        PartialList::Fields(rows)
    }

    /// NULL rows fall away.
    fn as_fields(&self, list: PartialList) -> Vec<Option<Place>> {
        match list {
            PartialList::Fields(fields) => fields,
            PartialList::Whole(places) => places
                .into_iter()
                .filter(|&row| !self.store.is_null(row))
                .flat_map(|row| {
                    std::iter::once(Some(row)).chain((0..self.fields).map(move |field| self.field_place(row, field)))
                })
                .collect(),
        }
    }
}

impl Accumulator for PartialRows {
    fn update(&mut self, rows: &Rows<'_>, column: &ArrayRef) -> FoldResult<()> {
        let lists = column.as_list_opt::<i32>().ok_or_else(|| wrong_type(column, "lists"))?;
        let ranges = Ranges::new(lists.offsets(), lists.nulls(), rows.block);
        self.store.push(lists.values(), ranges.used())?;
        self.store.compare()?;
        rows.each(|row, group, step| {
            let input = ranges.places(row).map(|places| PartialList::Whole(places.collect()));
            let there = self.groups[group].take();
            self.groups[group] = match (step, there, input) {
                (Step::Set, _, input) => input,
                (Step::Clear, ..) => None,
                (Step::Add, Some(there), Some(input)) => Some(self.merge(there, input)),
                (Step::AddLate, Some(there), Some(input)) => Some(self.merge(input, there)),
                (Step::Add | Step::AddLate, there, input) => there.or(input),
                (_, there, _) => there,
            };
            Ok(())
        })
    }

    fn finish(self: Box<Self>) -> FoldResult<ArrayRef> {
        let width = self.fields + 1;
        let mut lengths = Vec::with_capacity(self.groups.len());
        let mut rows_valid = Vec::new();
        let mut columns: Vec<Vec<Option<Place>>> = vec![Vec::new(); self.fields];
        for list in &self.groups {
            match list {
                None => lengths.push(0),
                Some(PartialList::Whole(places)) => {
                    lengths.push(places.len());
                    for &row in places {
                        let null = self.store.is_null(row);
                        rows_valid.push(!null);
                        for (field, column) in columns.iter_mut().enumerate() {
                            column.push(if null { None } else { self.field_place(row, field) });
                        }
                    }
                }
                Some(PartialList::Fields(fields)) => {
                    lengths.push(fields.len() / width);
                    for row in fields.chunks_exact(width) {
                        rows_valid.push(true);
                        for (column, &value) in columns.iter_mut().zip(&row[1..]) {
                            column.push(value);
                        }
                    }
                }
            }
        }
        let DataType::Struct(fields) = self.store.element.data_type() else {
            return Err(Error::internal("nested_partial_update needs rows").into());
        };
        let mut arrays = Vec::with_capacity(self.fields);
        for (field, places) in columns.into_iter().enumerate() {
            let blocks: Vec<ArrayRef> =
                self.store.arrays().iter().map(|rows| ArrayRef::clone(rows.as_struct().column(field))).collect();
            arrays.push(gather(fields[field].data_type(), &blocks, places.into_iter())?);
        }
        let rows =
            StructArray::try_new_with_length(fields.clone(), arrays, nulls(rows_valid.clone()), rows_valid.len())?;
        let valid = nulls(self.groups.iter().map(Option::is_some).collect());
        let element = FieldRef::clone(&self.store.element);
        Ok(Arc::new(ListArray::try_new(element, offsets(lengths.into_iter())?, Arc::new(rows), valid)?))
    }

    fn memory(&self) -> usize {
        let list = |list: &PartialList| match list {
            PartialList::Whole(places) => places.capacity() * size_of::<Place>(),
            PartialList::Fields(fields) => fields.capacity() * size_of::<Option<Place>>(),
        };
        self.store.memory()
            + self.groups.capacity() * size_of::<Option<PartialList>>()
            + self.groups.iter().flatten().map(list).sum::<usize>()
    }
}
