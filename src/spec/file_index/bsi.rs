//! The bit-sliced index (`spec/data.md 10.4`): numbers in sign and magnitude, each part as bit slices.
//!
//! ```text
//! 1, rows, positive?, [part], negative?, [part]      part: 1, min, max, rows with a number, slices
//! ```
//!
//! Slices hold what a magnitude lies above `min`, which writers leave at 0.

use std::ops::{Bound, RangeInclusive};

use roaring::RoaringBitmap;

use super::input::Input;
use super::output::{put_length, put_rows};
use super::predicate::IndexPredicate;
use super::slices::BitSlices;
use super::value::Key;
use super::{all_rows, check_rows};
use crate::error::{Error, Result};

/// The rows that may satisfy `predicate`; `None` when the index cannot tell. NULLs are in none but IS NULL.
pub(super) fn answer(payload: &[u8], predicate: &IndexPredicate, rows: u32) -> Result<Option<RoaringBitmap>> {
    let index = BitSlicedIndex::parse(payload, rows)?;
    Ok(Some(match predicate {
        IndexPredicate::In(keys) => index.union(keys),
        IndexPredicate::NotIn(keys) => index.existing() - index.union(keys),
        IndexPredicate::Range(low, high) => index.range(low, high),
        IndexPredicate::IsNull => all_rows(rows) - index.existing(),
        IndexPredicate::IsNotNull => index.existing(),
    }))
}

struct BitSlicedIndex {
    positive: Part,
    negative: Part,
}

/// The numbers of one sign, by magnitude.
#[derive(Default)]
struct Part {
    min: u64,
    max: u64,
    slices: BitSlices,
}

impl BitSlicedIndex {
    fn parse(payload: &[u8], rows: u32) -> Result<Self> {
        let mut input = Input::new(payload);
        input.version("bit-sliced index", 1)?;
        check_rows(input.i32()?, rows)?;
        let positive = if input.flag()? { Part::parse(&mut input, rows)? } else { Part::default() };
        let negative = if input.flag()? { Part::parse(&mut input, rows)? } else { Part::default() };
        Ok(Self { positive, negative })
    }

    fn existing(&self) -> RoaringBitmap {
        &self.positive.slices.existing | &self.negative.slices.existing
    }

    fn union(&self, keys: &[Key<'_>]) -> RoaringBitmap {
        let mut found = RoaringBitmap::new();
        for key in keys {
            if let Key::Integer(value) = key {
                found |= self.between(*value..=*value);
            }
        }
        found
    }

    fn range(&self, low: &Bound<Key<'_>>, high: &Bound<Key<'_>>) -> RoaringBitmap {
        let low = match low {
            Bound::Included(Key::Integer(value)) => Some(*value),
            Bound::Excluded(Key::Integer(value)) => value.checked_add(1),
            _ => Some(i64::MIN),
        };
        let high = match high {
            Bound::Included(Key::Integer(value)) => Some(*value),
            Bound::Excluded(Key::Integer(value)) => value.checked_sub(1),
            _ => Some(i64::MAX),
        };
        // Beyond the last number there is none.
        low.zip(high).map_or_else(RoaringBitmap::new, |(low, high)| self.between(low..=high))
    }

    fn between(&self, range: RangeInclusive<i64>) -> RoaringBitmap {
        let (low, high) = range.into_inner();
        let mut found = RoaringBitmap::new();
        if low > high {
            return found;
        }
        if high >= 0 {
            found |= self.positive.magnitudes(low.max(0).unsigned_abs()..=high.unsigned_abs());
        }
        if low < 0 {
            found |= self.negative.magnitudes(high.min(-1).unsigned_abs()..=low.unsigned_abs());
        }
        found
    }
}

/// An index while numbers are added to it.
#[derive(Default)]
pub(super) struct BitSlicedWriter {
    rows: u32,
    positive: Part,
    negative: Part,
}

impl BitSlicedWriter {
    /// Adds the number of the next row.
    ///
    /// # Errors
    /// Invalid for the least 64-bit number, which has no magnitude that Java could read.
    pub(super) fn add(&mut self, number: Option<i64>) -> Result<()> {
        if let Some(number) = number {
            if number == i64::MIN {
                return Err(Error::invalid(format!("a bit-sliced index can't hold {number}; take a range-bitmap")));
            }
            let part = if number < 0 { &mut self.negative } else { &mut self.positive };
            part.slices.push(self.rows, number.unsigned_abs())?;
            part.max = part.max.max(number.unsigned_abs());
        }
        self.rows += 1;
        Ok(())
    }

    pub(super) fn memory(&self) -> usize {
        self.positive.slices.memory() + self.negative.slices.memory()
    }

    pub(super) fn finish(self) -> Result<Vec<u8>> {
        let mut out = vec![1];
        put_length(self.rows as usize, &mut out)?;
        for part in [self.positive, self.negative] {
            out.push((!part.slices.existing.is_empty()).into());
            if part.slices.existing.is_empty() {
                continue;
            }
            out.push(1);
            out.extend(part.min.to_be_bytes());
            out.extend(part.max.to_be_bytes());
            put_rows(&part.slices.existing, &mut out)?;
            put_length(part.slices.slices.len(), &mut out)?;
            for slice in &part.slices.slices {
                put_rows(slice, &mut out)?;
            }
        }
        Ok(out)
    }
}

impl Part {
    fn parse(input: &mut Input<'_>, rows: u32) -> Result<Self> {
        input.version("part of the bit-sliced index", 1)?;
        let (min, max) = (input.i64()?, input.i64()?);
        let (Ok(min), Ok(max)) = (u64::try_from(min), u64::try_from(max)) else {
            return Err(Error::corrupt(format!("magnitudes of a bit-sliced index lie between {min} and {max}")));
        };
        let existing = input.rows(rows)?;
        let count = input.i32()?;
        if !(0..=64).contains(&count) {
            return Err(Error::corrupt(format!("a bit-sliced index has {count} slices")));
        }
        let slices = (0..count).map(|_| input.rows(rows)).collect::<Result<_>>()?;
        Ok(Self { min, max, slices: BitSlices { existing, slices } })
    }

    fn magnitudes(&self, range: RangeInclusive<u64>) -> RoaringBitmap {
        let (low, high) = range.into_inner();
        let (low, high) = (low.max(self.min), high.min(self.max));
        if low > high {
            return RoaringBitmap::new();
        }
        self.slices.range(low - self.min..=high - self.min)
    }
}
