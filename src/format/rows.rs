//! Row selections: ranges of positions in a file, and what they keep of a batch.

use std::ops::Range;

use arrow::array::{BooleanArray, BooleanBufferBuilder, RecordBatch};
use arrow::compute::filter_record_batch;

use crate::error::{Error, Result};

/// # Errors
/// Internal when ranges are not ascending and disjoint.
pub(super) fn check(ranges: &[Range<u64>]) -> Result<()> {
    let mut end = 0;
    for range in ranges {
        if range.start > range.end || range.start < end {
            return Err(Error::internal(format!("the row ranges {}..{} and ..{end} overlap", range.start, range.end)));
        }
        end = range.end;
    }
    Ok(())
}

/// # Errors
/// Corrupt when a range goes beyond the `rows` of the file.
pub(super) fn check_within(ranges: Option<&[Range<u64>]>, rows: u64) -> Result<()> {
    match ranges.and_then(<[_]>::last) {
        Some(last) if last.end > rows => {
            Err(Error::corrupt(format!("the file has {rows} rows, but row {} is selected", last.end - 1)))
        }
        _ => Ok(()),
    }
}

/// The parts of `ranges` inside `window`, with gaps below `gap` rows filled: what is worth skipping.
pub(super) fn coarse(ranges: &[Range<u64>], window: &Range<u64>, gap: u64) -> Vec<Range<u64>> {
    let mut merged: Vec<Range<u64>> = Vec::new();
    let first = ranges.partition_point(|range| range.end <= window.start);
    for range in &ranges[first..] {
        if range.start >= window.end {
            break;
        }
        let part = range.start.max(window.start)..range.end.min(window.end);
        if part.is_empty() {
            continue;
        }
        match merged.last_mut() {
            Some(last) if part.start - last.end < gap => last.end = part.end,
            _ => merged.push(part),
        }
    }
    merged
}

/// The rows of a batch that `ranges` keep; `start` is the position of its first row. `None` when it keeps none.
pub(super) fn keep(batch: RecordBatch, start: u64, ranges: Option<&[Range<u64>]>) -> Result<Option<RecordBatch>> {
    let Some(ranges) = ranges else { return Ok(Some(batch)) };
    let window = start..start + batch.num_rows() as u64;
    let kept = coarse(ranges, &window, 1);
    match kept.as_slice() {
        [] => Ok(None),
        [only] => Ok(Some(batch.slice((only.start - start) as usize, (only.end - only.start) as usize))),
        _ => {
            let mut mask = BooleanBufferBuilder::new(batch.num_rows());
            for range in &kept {
                mask.append_n((range.start - start) as usize - mask.len(), false);
                mask.append_n((range.end - range.start) as usize, true);
            }
            mask.append_n(batch.num_rows() - mask.len(), false);
            Ok(Some(filter_record_batch(&batch, &BooleanArray::new(mask.finish(), None))?))
        }
    }
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init)] // One range is a selection, too.
mod tests {
    use std::sync::Arc;

    use arrow::array::{AsArray, Int32Array};
    use arrow::datatypes::Int32Type;

    use super::*;

    #[test]
    fn keep_when_ranges_cross_the_batch_then_its_rows_only() {
        let batch = RecordBatch::try_from_iter([("a", Arc::new(Int32Array::from_iter_values(10..20)) as _)]).unwrap();
        let kept = |ranges: &[Range<u64>]| {
            keep(batch.clone(), 10, Some(ranges))
                .unwrap()
                .map(|batch| batch.column(0).as_primitive::<Int32Type>().values().to_vec())
        };
        assert_eq!(kept(&[0..12, 15..16, 19..40]), Some(vec![10, 11, 15, 19]));
        assert_eq!(kept(&[12..14]), Some(vec![12, 13]));
        assert_eq!(kept(&[0..10, 20..30]), None);
        assert_eq!(kept(&[]), None);
        assert_eq!(coarse(&[0..2, 3..4, 9..12], &(1..10), 2), vec![1..4, 9..10]);
    }

    #[test]
    fn check_when_ranges_overlap_or_leave_the_file_then_error() {
        assert!(check(&[0..2, 2..3]).is_ok());
        assert!(check(&[0..2, 1..3]).is_err());
        assert!(check_within(Some(&[0..2]), 2).is_ok());
        assert!(check_within(Some(&[0..3]), 2).is_err());
    }
}
