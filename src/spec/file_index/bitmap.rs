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

use super::distinct::Ranked;
use super::input::Input;
use super::output::{length_of, put_length, put_rows};
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

/// How a bitmap index is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// Version 1.
    Flat,
    /// Version 2, with blocks of so many bytes at most.
    Blocks(usize),
}

/// The bitmap index of these values. Bitmaps follow each other in the order of their values; Java's in none.
pub(super) fn write(values: ValueType, ranked: &Ranked, layout: Layout) -> Result<Vec<u8>> {
    let rows = RowsByRank::new(ranked);
    let (mut area, mut entries) = (Vec::new(), Vec::with_capacity(ranked.keys.len()));
    let nulls = if rows.nulls.is_empty() { None } else { Some(put_rows_of(&rows.nulls, &mut area)?) };
    for rank in 0..ranked.keys.len() {
        entries.push(put_rows_of(rows.of(rank), &mut area)?);
    }
    let mut out = vec![if layout == Layout::Flat { 1 } else { 2 }];
    put_length(ranked.rows(), &mut out)?;
    put_length(ranked.keys.len(), &mut out)?;
    out.push(nulls.is_some().into());
    if let Some(place) = nulls {
        out.extend(place.offset.to_be_bytes());
        if layout != Layout::Flat {
            // The length counts even where the row stands in place of the bitmap.
            put_length(place.length, &mut out)?;
        }
    }
    match layout {
        Layout::Flat => {
            for (key, place) in ranked.keys.iter().zip(&entries) {
                values.write(key, &mut out)?;
                out.extend(place.offset.to_be_bytes());
            }
        }
        Layout::Blocks(size) => put_blocks(values, ranked, &entries, size, &mut out)?,
    }
    out.extend(area);
    Ok(out)
}

/// The heads of the blocks, then the blocks.
fn put_blocks(values: ValueType, ranked: &Ranked, entries: &[Place], size: usize, out: &mut Vec<u8>) -> Result<()> {
    let (mut heads, mut count, mut blocks) = (Vec::new(), 0, Vec::new());
    let (mut block, mut block_entries) = (Vec::new(), 0);
    let mut entry = Vec::new();
    let end_block = |block: &mut Vec<u8>, block_entries: &mut usize, blocks: &mut Vec<u8>| -> Result<()> {
        put_length(*block_entries, blocks)?;
        blocks.append(block);
        *block_entries = 0;
        Ok(())
    };
    for (key, place) in ranked.keys.iter().zip(entries) {
        entry.clear();
        values.write(key, &mut entry)?;
        let key_length = entry.len();
        entry.extend(place.offset.to_be_bytes());
        let length = if place.offset < 0 { -1 } else { length_of(place.length)? };
        entry.extend(length.to_be_bytes());
        // A block counts the 4 bytes of its number of entries. An entry that is longer than a block has one for itself.
        if block_entries > 0 && 4 + block.len() + entry.len() > size {
            end_block(&mut block, &mut block_entries, &mut blocks)?;
        }
        if block_entries == 0 {
            heads.extend_from_slice(entry.get(..key_length).unwrap_or_default());
            put_length(blocks.len(), &mut heads)?;
            count += 1;
        }
        block.extend_from_slice(&entry);
        block_entries += 1;
    }
    if block_entries > 0 {
        end_block(&mut block, &mut block_entries, &mut blocks)?;
    }
    put_length(count, out)?;
    out.extend(heads);
    put_length(blocks.len(), out)?;
    out.extend(blocks);
    Ok(())
}

/// Bytes of a bitmap of one row, wherever the row is.
const SINGLE_ROW: usize = 18;

/// Where the rows of a value are told.
struct Place {
    /// Position of the bitmap in the area, or the one row as a negative number.
    offset: i32,
    /// Bytes of the bitmap, also of one that is not there.
    length: usize,
}

fn put_rows_of(rows: &[u32], area: &mut Vec<u8>) -> Result<Place> {
    if let [row] = rows {
        return Ok(Place { offset: !(*row as i32), length: SINGLE_ROW });
    }
    let start = area.len();
    let bitmap = RoaringBitmap::from_sorted_iter(rows.iter().copied())
        .map_err(|error| Error::internal("the rows of a value are not in order").with_source(error))?;
    put_rows(&bitmap, area)?;
    Ok(Place { offset: length_of(start)?, length: area.len() - start })
}

/// The rows of each value, in order.
struct RowsByRank {
    nulls: Vec<u32>,
    /// Where the rows of each value end in `rows`.
    ends: Vec<usize>,
    rows: Vec<u32>,
}

impl RowsByRank {
    fn new(ranked: &Ranked) -> Self {
        let mut ends = vec![0; ranked.keys.len()];
        for rank in ranked.ranks().flatten() {
            ends[rank] += 1;
        }
        let mut end = 0;
        for count in &mut ends {
            // Where they start, until the rows are put there.
            end += std::mem::replace(count, end);
        }
        let (mut nulls, mut rows) = (Vec::new(), vec![0; end]);
        for (row, rank) in (0..).zip(ranked.ranks()) {
            match rank {
                Some(rank) => {
                    rows[ends[rank]] = row;
                    ends[rank] += 1;
                }
                None => nulls.push(row),
            }
        }
        Self { nulls, ends, rows }
    }

    fn of(&self, rank: usize) -> &[u32] {
        let start = rank.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.rows[start..self.ends[rank]]
    }
}
