//! Functions of maps: `merge_map`, `merge_map_with_keytime` (`spec/data.md 5.3`).
//!
//! A map is kept as the places of its entries in the blocks; keys are compared by their arrow-row bytes. Entries keep the
//! order in which their keys came.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, MapArray};
use arrow::datatypes::{DataType, FieldRef};

use super::cells::gather;
use super::elements::{ElementStore, Ranges, lists_memory, offsets};
use super::plan::ColumnPlan;
use super::steps::Step;
use super::{Accumulator, FoldResult, Rows, nulls, wrong_type};
use crate::error::Error;
use crate::table::aggregate::Function;

type Place = (u32, u32);

#[derive(Debug)]
struct Maps {
    entry: FieldRef,
    ordered: bool,
    /// Position of the time in the value ROW: `merge_map_with_keytime`.
    time: Option<usize>,
    store: ElementStore,
    groups: Vec<Option<Vec<Place>>>,
}

pub(super) fn accumulator(plan: &ColumnPlan, groups: usize) -> FoldResult<Box<dyn Accumulator>> {
    let DataType::Map(entry, ordered) = plan.field.data_type.to_arrow() else {
        return Err(Error::internal(format!("column {} is no map", plan.field.name)).into());
    };
    let time = match plan.function {
        Function::MergeMapWithKeyTime { time } => Some(time),
        _ => None,
    };
    // An entry is a struct of key and value; its key is field 0.
    let store = ElementStore::try_new(FieldRef::clone(&entry), Some(vec![0]))?;
    Ok(Box::new(Maps { entry, ordered, time, store, groups: vec![None; groups] }))
}

/// What the value of an entry says about its time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Time<'a> {
    /// The value is NULL.
    NoValue,
    /// The value has no time.
    Unknown,
    At(&'a str),
}

impl Maps {
    fn time(&self, (block, at): Place, field: usize) -> Time<'_> {
        let row = at as usize;
        let values = self.store.values(block).as_struct().column(1);
        if values.is_null(row) {
            return Time::NoValue;
        }
        let times = values.as_struct_opt().and_then(|values| values.columns().get(field));
        match times.and_then(|times| times.as_string_opt::<i32>()) {
            Some(times) if times.is_valid(row) => Time::At(times.value(row)),
            _ => Time::Unknown,
        }
    }

    fn merge(&self, first: Vec<Place>, second: Vec<Place>) -> Vec<Place> {
        let mut index: HashMap<&[u8], usize> = HashMap::with_capacity(first.len() + second.len());
        let mut entries: Vec<Option<Place>> = Vec::with_capacity(first.len() + second.len());
        for place in first {
            put(&mut index, &mut entries, self.store.bytes(place), place);
        }
        for place in second {
            let key = self.store.bytes(place);
            let Some(field) = self.time else {
                put(&mut index, &mut entries, key, place);
                continue;
            };
            let there = index.get(key).and_then(|&at| entries[at]);
            match (self.time(place, field), there.map(|there| self.time(there, field))) {
                (Time::NoValue, _) => {
                    if let Some(at) = index.remove(key) {
                        entries[at] = None;
                    }
                }
                (Time::Unknown, _) => {}
                (Time::At(new), Some(Time::At(old))) if new <= old => {}
                (Time::At(_), _) => put(&mut index, &mut entries, key, place),
            }
        }
        entries.into_iter().flatten().collect()
    }
}

fn put<'a>(index: &mut HashMap<&'a [u8], usize>, entries: &mut Vec<Option<Place>>, key: &'a [u8], place: Place) {
    match index.get(key) {
        Some(&at) => entries[at] = Some(place),
        None => {
            index.insert(key, entries.len());
            entries.push(Some(place));
        }
    }
}

impl Accumulator for Maps {
    fn update(&mut self, rows: &Rows<'_>, column: &ArrayRef) -> FoldResult<()> {
        let maps = column.as_map_opt().ok_or_else(|| wrong_type(column, "maps"))?;
        let ranges = Ranges::new(maps.offsets(), maps.nulls(), rows.block);
        let entries: ArrayRef = Arc::new(maps.entries().clone());
        self.store.push(&entries, ranges.used())?;
        self.store.compare()?;
        rows.each(|row, group, step| {
            let input = ranges.places(row).map(|places| places.collect::<Vec<_>>());
            let there = self.groups[group].take();
            // A retract takes the keys, whatever their values (fixture agg_collect_retract_l0).
            let retract = |mut there: Vec<Place>, input: &[Place]| {
                let keys: HashSet<&[u8]> = input.iter().map(|&place| self.store.bytes(place)).collect();
                there.retain(|&place| !keys.contains(self.store.bytes(place)));
                there
            };
            self.groups[group] = match (step, there, input) {
                (Step::Set, _, input) => input,
                (Step::Clear, ..) => None,
                (Step::Add, Some(there), Some(input)) => Some(self.merge(there, input)),
                (Step::AddLate, Some(there), Some(input)) => Some(self.merge(input, there)),
                (Step::Add | Step::AddLate, there, input) => there.or(input),
                (Step::Retract, Some(there), Some(input)) => Some(retract(there, &input)),
                (Step::SetRetract, _, input) => input.map(|input| retract(input.clone(), &input)),
                (_, there, _) => there,
            };
            Ok(())
        })
    }

    fn finish(self: Box<Self>) -> FoldResult<ArrayRef> {
        let places: Vec<Option<Place>> = self.groups.iter().flatten().flatten().map(|&place| Some(place)).collect();
        let DataType::Struct(fields) = self.entry.data_type() else {
            return Err(Error::internal("the entries of a map are no struct").into());
        };
        // Key and value apart: an entry itself is never NULL, and `gather` knows NULL.
        let mut columns = Vec::with_capacity(2);
        for (position, field) in fields.iter().enumerate() {
            let blocks: Vec<ArrayRef> =
                self.store.arrays().iter().map(|rows| ArrayRef::clone(rows.as_struct().column(position))).collect();
            columns.push(gather(field.data_type(), &blocks, places.iter().copied())?);
        }
        let entries = arrow::array::StructArray::try_new(fields.clone(), columns, None)?;
        let offsets = offsets(self.groups.iter().map(|map| map.as_ref().map_or(0, Vec::len)))?;
        let valid = nulls(self.groups.iter().map(Option::is_some).collect());
        Ok(Arc::new(MapArray::try_new(self.entry, offsets, entries, valid, self.ordered)?))
    }

    fn memory(&self) -> usize {
        self.store.memory() + lists_memory(&self.groups)
    }
}
