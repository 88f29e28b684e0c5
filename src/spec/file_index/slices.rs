//! Numbers as bit slices: the rows whose number has bit `i`, for each `i`. What bsi and range-bitmap indexes are made of.

use std::ops::RangeInclusive;

use roaring::RoaringBitmap;

use crate::error::{Error, Result};

/// The numbers of rows.
#[derive(Debug, Default)]
pub(super) struct BitSlices {
    /// Rows that have a number.
    pub(super) existing: RoaringBitmap,
    /// Rows whose number has bit `i`, lowest bit first; 64 at most.
    pub(super) slices: Vec<RoaringBitmap>,
}

/// Rows by how their number compares with another.
struct Compared {
    less: RoaringBitmap,
    equal: RoaringBitmap,
    greater: RoaringBitmap,
}

impl BitSlices {
    /// Adds a row, which comes after all that were added, and its number.
    ///
    /// # Errors
    /// Internal when it does not come after them.
    pub(super) fn push(&mut self, row: u32, number: u64) -> Result<()> {
        let unordered = |error| Error::internal("the rows of an index are not in order").with_source(error);
        let bits = u64::BITS - number.leading_zeros();
        if self.slices.len() < bits as usize {
            self.slices.resize_with(bits as usize, RoaringBitmap::new);
        }
        let mut left = number;
        while left != 0 {
            // Below the number of slices: it is the place of a bit of the number.
            self.slices[left.trailing_zeros() as usize].try_push(row).map_err(unordered)?;
            left &= left - 1;
        }
        self.existing.try_push(row).map_err(unordered)
    }

    /// Bytes held in memory, roughly.
    pub(super) fn memory(&self) -> usize {
        self.slices.iter().chain([&self.existing]).map(RoaringBitmap::serialized_size).sum()
    }

    /// Rows whose number is `number`.
    pub(super) fn equal(&self, number: u64) -> RoaringBitmap {
        if self.overflows(number) {
            return RoaringBitmap::new();
        }
        let mut equal = self.existing.clone();
        // The highest bits first: they tell most.
        for (bit, slice) in self.slices.iter().enumerate().rev() {
            if equal.is_empty() {
                break;
            }
            if number >> bit & 1 == 1 {
                equal &= slice;
            } else {
                equal -= slice;
            }
        }
        equal
    }

    /// Rows whose number lies in `range`.
    pub(super) fn range(&self, range: RangeInclusive<u64>) -> RoaringBitmap {
        let (low, high) = range.into_inner();
        if low > high || self.overflows(low) {
            return RoaringBitmap::new();
        }
        if low == high {
            return self.equal(low);
        }
        let mut found = if low == 0 {
            self.existing.clone()
        } else {
            let compared = self.compare(low);
            compared.greater | compared.equal
        };
        if !self.overflows(high) && high != self.greatest() {
            let compared = self.compare(high);
            found &= compared.less | compared.equal;
        }
        found
    }

    /// Whether `number` has bits above all slices, so that every row's number is below it.
    fn overflows(&self, number: u64) -> bool {
        number > self.greatest()
    }

    /// The greatest number that the slices can hold.
    fn greatest(&self) -> u64 {
        match self.slices.len() {
            0 => 0,
            bits @ 1..=63 => (1 << bits) - 1,
            _ => u64::MAX,
        }
    }

    fn compare(&self, number: u64) -> Compared {
        let mut compared =
            Compared { less: RoaringBitmap::new(), equal: self.existing.clone(), greater: RoaringBitmap::new() };
        for (bit, slice) in self.slices.iter().enumerate().rev() {
            if number >> bit & 1 == 1 {
                compared.less |= &compared.equal - slice;
                compared.equal &= slice;
            } else {
                compared.greater |= &compared.equal & slice;
                compared.equal -= slice;
            }
        }
        compared
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_when_all_bounds_are_tried_then_as_counted() {
        let numbers = [5_u64, 0, 7, 3, 3, 6, 1];
        let mut slices = BitSlices::default();
        (0..).zip(numbers).try_for_each(|(row, number)| slices.push(row, number)).unwrap();
        assert_eq!(slices.slices.len(), 3);
        for low in 0..10 {
            for high in 0..10 {
                let expected: RoaringBitmap =
                    (0..7).filter(|row| (low..=high).contains(&numbers[*row as usize])).collect();
                assert_eq!(slices.range(low..=high), expected, "{low}..={high}");
            }
            let expected: RoaringBitmap = (0..7).filter(|row| numbers[*row as usize] == low).collect();
            assert_eq!(slices.equal(low), expected, "{low}");
        }
        assert_eq!(slices.range(4..=u64::MAX).len(), 3);
    }
}
