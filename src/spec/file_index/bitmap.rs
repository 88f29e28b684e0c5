//! The bitmap index (`spec/data.md 10.3`): the rows of every value.
//!
//! ```text
//! version 1: rows, values, NULLs?, (value, place)*                           bitmaps
//! version 2: rows, values, NULLs?, (first value, block)*, blocks of (value, place, length)*, bitmaps
//! ```
//!
//! A place that is not negative is where the bitmap starts in the area of bitmaps; a negative place is a single row.

use std::ops::Range;

use roaring::RoaringBitmap;

use super::input::Input;
use super::predicate::IndexPredicate;
use super::value::{Key, ValueType};
use super::{all_rows, check_rows};
use crate::error::{Error, Result};

/// The rows that may satisfy `predicate`; `None` when the index cannot tell.
pub(super) fn answer(
    payload: &[u8],
    values: ValueType,
    predicate: &IndexPredicate,
    rows: u32,
) -> Result<Option<RoaringBitmap>> {
    if matches!(values, ValueType::Bytes | ValueType::Decimal { .. }) {
        return Ok(None);
    }
    if matches!(predicate, IndexPredicate::Range(..)) {
        return Ok(None);
    }
    let index = BitmapIndex::parse(payload, values, rows)?;
    Ok(Some(match predicate {
        IndexPredicate::In(keys) => index.union(keys)?,
        // NULLs stay: the filter of the engine leaves them out (`spec/data.md 10.3`).
        IndexPredicate::NotIn(keys) => all_rows(rows) - index.union(keys)?,
        IndexPredicate::IsNull => index.nulls()?,
        IndexPredicate::IsNotNull => all_rows(rows) - index.nulls()?,
        IndexPredicate::Range(..) => return Ok(None),
    }))
}

struct BitmapIndex<'a> {
    payload: &'a [u8],
    values: ValueType,
    rows: u32,
    /// Place of the bitmap of NULLs, if there are any.
    nulls: Option<i32>,
    entries: Entries<'a>,
    /// Where the bitmaps start.
    area: usize,
}

/// Where the values are found.
enum Entries<'a> {
    /// All of them one after the other, each with its place.
    Flat { count: usize, input: Input<'a> },
    /// In blocks, by their first value, each with place and length.
    Blocks { firsts: Vec<(Key<'a>, Range<usize>)> },
}

impl<'a> BitmapIndex<'a> {
    fn parse(payload: &'a [u8], values: ValueType, rows: u32) -> Result<Self> {
        let mut input = Input::new(payload);
        let version = input.u8()?;
        if !(1..=2).contains(&version) {
            return Err(Error::unsupported(format!("the bitmap index has version {version}, only 1 and 2 are known")));
        }
        check_rows(input.i32()?, rows)?;
        let count = input.length()?;
        let nulls = if input.flag()? {
            let place = input.i32()?;
            if version == 2 {
                input.i32()?;
            }
            Some(place)
        } else {
            None
        };
        let (entries, area) = if version == 1 {
            let entries = Entries::Flat { count, input: input.clone() };
            for _ in 0..count {
                values.read(&mut input)?;
                input.i32()?;
            }
            (entries, input.position())
        } else {
            read_blocks(payload, values, input)?
        };
        Ok(Self { payload, values, rows, nulls, entries, area })
    }

    fn union(&self, keys: &[Key<'_>]) -> Result<RoaringBitmap> {
        let mut found = RoaringBitmap::new();
        match &self.entries {
            Entries::Flat { count, input } => {
                let mut input = input.clone();
                for _ in 0..*count {
                    let value = self.values.read(&mut input)?;
                    let place = input.i32()?;
                    if keys.contains(&value) {
                        found |= self.at(place)?;
                    }
                }
            }
            Entries::Blocks { firsts } => {
                for key in keys {
                    let after = firsts.partition_point(|(first, _)| first <= key);
                    let Some((_, block)) = after.checked_sub(1).and_then(|block| firsts.get(block)) else { continue };
                    if let Some(place) = self.find(block, key)? {
                        found |= self.at(place)?;
                    }
                }
            }
        }
        Ok(found)
    }

    /// The place of `key` in a block.
    fn find(&self, block: &Range<usize>, key: &Key<'_>) -> Result<Option<i32>> {
        let mut input = Input::new(self.payload.get(block.clone()).unwrap_or_default());
        for _ in 0..input.length()? {
            let value = self.values.read(&mut input)?;
            let (place, _) = (input.i32()?, input.i32()?);
            if value == *key {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }

    fn nulls(&self) -> Result<RoaringBitmap> {
        self.nulls.map_or_else(|| Ok(RoaringBitmap::new()), |place| self.at(place))
    }

    fn at(&self, place: i32) -> Result<RoaringBitmap> {
        match usize::try_from(place) {
            Ok(offset) => Input::at(self.payload, self.area.saturating_add(offset)).rows(self.rows),
            Err(_) => {
                let row = !place as u32;
                if row >= self.rows {
                    return Err(Error::corrupt(format!("the bitmap index names row {row} of {} rows", self.rows)));
                }
                Ok(RoaringBitmap::from_iter([row]))
            }
        }
    }
}

fn read_blocks<'a>(payload: &'a [u8], values: ValueType, mut input: Input<'a>) -> Result<(Entries<'a>, usize)> {
    let count = input.length()?;
    let mut starts = Vec::new();
    for _ in 0..count {
        let first = values.read(&mut input)?;
        starts.push((first, input.length()?));
    }
    let length = input.length()?;
    let base = input.position();
    let area = base.saturating_add(length);
    if area > payload.len() {
        return Err(Error::corrupt(format!("the blocks of a bitmap index end at {area} of {} bytes", payload.len())));
    }
    let ends: Vec<usize> = starts.iter().skip(1).map(|(_, offset)| *offset).chain([length]).collect();
    let mut firsts: Vec<(Key<'a>, Range<usize>)> = Vec::with_capacity(starts.len());
    for ((first, start), end) in starts.into_iter().zip(ends) {
        if start > end || end > length || firsts.last().is_some_and(|(last, _)| *last >= first) {
            return Err(Error::corrupt("the blocks of a bitmap index are not in order"));
        }
        firsts.push((first, base + start..base + end));
    }
    Ok((Entries::Blocks { firsts }, area))
}
