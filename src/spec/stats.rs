//! Statistics of one column over many files (`spec/metadata.md 4.4`, `spec/data.md 11`, `spec/observed.md` Statistics),
//! as arrays that pruning compares at once.
//!
//! A bound is never a value: it may be cut, or missing. What can't be trusted is NULL, which means unknown and must
//! keep the file.
//!
//! May import: `error`, `spec::{types, manifest, binary_row}`.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray, StringViewArray, UInt64Array, new_null_array,
};
use arrow::datatypes::{Float32Type, Float64Type};

use crate::error::Result;
use crate::spec::binary_row::{BoundsOf, decode_bounds};
use crate::spec::manifest::StatsColumn;
use crate::spec::types::{DataType, TypeKind};

/// Bounds and null counts of one column, a row for each file.
#[derive(Clone, Debug)]
pub struct ColumnStats {
    /// Lower bounds in the column's arrow type; NULL = unknown, or a column of NULLs only.
    pub min: ArrayRef,
    /// Upper bounds in the column's arrow type; NULL = unknown, or a column of NULLs only.
    pub max: ArrayRef,
    /// Numbers of NULLs; NULL = unknown, and then the bounds are unknown too.
    pub null_count: UInt64Array,
}

/// The statistics of one column. `rows` gives for each file its row in `stats` and the column's position in the
/// statistics of that row (which differs where only some columns are stored, `_VALUE_STATS_COLS`); `None` where it has
/// none.
///
/// What makes a bound unknown: no null count, or -1; NaN in either bound; a value that the arrow type can't hold; a
/// type without order. Zeros are widened (-0.0 below, 0.0 above), since a comparison may take both for one. The bounds
/// of FLOAT and DOUBLE do not speak of NaN: a file within them may hold NaN all the same. The lower bound of CHAR is
/// cut so that it holds with and without padding.
///
/// Errors: `Corrupt` when the bytes of a row are malformed.
pub fn column_stats(
    stats: &StatsColumn,
    rows: impl IntoIterator<Item = (usize, Option<usize>)>,
    data_type: &DataType,
) -> Result<ColumnStats> {
    let rows: Vec<_> = rows.into_iter().collect();
    let null_count: UInt64Array =
        rows.iter().map(|(row, position)| u64::try_from(*stats.null_counts(*row).get((*position)?)?).ok()).collect();
    if data_type.is_nested() || data_type.kind == TypeKind::Variant {
        let unknown = new_null_array(&data_type.to_arrow(), rows.len());
        return Ok(ColumnStats { min: Arc::clone(&unknown), max: unknown, null_count });
    }
    let known = |index: usize| -> Option<(usize, usize)> {
        let (row, position) = rows[index];
        position.filter(|_| null_count.is_valid(index)).map(|position| (row, position))
    };
    let min = (0..rows.len()).map(|index| -> BoundsOf<'_> { known(index).map(|(row, at)| (stats.min.get(row), at)) });
    let min = decode_bounds(min, data_type)?;
    let max = (0..rows.len()).map(|index| -> BoundsOf<'_> { known(index).map(|(row, at)| (stats.max.get(row), at)) });
    let max = decode_bounds(max, data_type)?;
    let (min, max) = match data_type.kind {
        TypeKind::Float => widen::<Float32Type>(&min, &max, (-0.0, 0.0), |value| value.is_nan(), |value| value == 0.0),
        TypeKind::Double => widen::<Float64Type>(&min, &max, (-0.0, 0.0), |value| value.is_nan(), |value| value == 0.0),
        TypeKind::Char(_) => (cut_padding(&min), max),
        _ => (min, max),
    };
    Ok(ColumnStats { min, max, null_count })
}

/// Drops both bounds where one is NaN, and widens zeros.
fn widen<T: ArrowPrimitiveType>(
    min: &ArrayRef,
    max: &ArrayRef,
    (below, above): (T::Native, T::Native),
    is_nan: impl Fn(T::Native) -> bool,
    is_zero: impl Fn(T::Native) -> bool,
) -> (ArrayRef, ArrayRef) {
    let (min, max) = (min.as_primitive::<T>(), max.as_primitive::<T>());
    let nan = |value: Option<T::Native>| value.is_some_and(&is_nan);
    let trusted = |(a, b)| if nan(a) || nan(b) { (None, None) } else { (a, b) };
    let (min, max): (Vec<_>, Vec<_>) = min.iter().zip(max).map(trusted).unzip();
    let zero = |zero| {
        let is_zero = &is_zero;
        move |value: Option<T::Native>| value.map(|value| if is_zero(value) { zero } else { value })
    };
    (
        Arc::new(min.into_iter().map(zero(below)).collect::<PrimitiveArray<T>>()),
        Arc::new(max.into_iter().map(zero(above)).collect::<PrimitiveArray<T>>()),
    )
}

/// A lower bound for values with and without padding: cut before the first character that sorts below a blank, then
/// without blanks. (An upper bound with its padding holds for both anyway.)
fn cut_padding(min: &ArrayRef) -> ArrayRef {
    let cut = |text: &'_ str| -> usize {
        let end = text.bytes().position(|byte| byte < b' ').unwrap_or(text.len());
        text.as_bytes()[..end].iter().rposition(|byte| *byte != b' ').map_or(0, |last| last + 1)
    };
    // Blanks and control characters are bytes of their own in UTF-8, so the cut is at a character.
    let cut = min.as_string_view().iter().map(|text| text.map(|text| text.get(..cut(text)).unwrap_or_default()));
    Arc::new(cut.collect::<StringViewArray>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::binary_row::BinaryRowWriter;
    use crate::spec::datum::Datum;

    /// Statistics of files whose columns are all of one type: for each file, (min, max, null count) of its columns.
    fn stats(data_type: &DataType, files: &[&[(Datum, Datum, i64)]]) -> StatsColumn {
        let mut stats = StatsColumn::default();
        for file in files {
            let mut min = BinaryRowWriter::new(file.len()).unwrap();
            let mut max = BinaryRowWriter::new(file.len()).unwrap();
            for (index, (low, high, nulls)) in file.iter().enumerate() {
                min.write(index, low, data_type).unwrap();
                max.write(index, high, data_type).unwrap();
                stats.null_counts.push(*nulls);
            }
            assert!(stats.min.push(min.serialized()) && stats.max.push(max.serialized()));
            stats.null_count_ends.push(stats.null_counts.len() as u32);
        }
        stats
    }

    fn nullable(text: &str) -> DataType {
        DataType::parse(text).unwrap()
    }

    #[test]
    fn column_stats_when_positions_differ_then_each_file_by_its_own() {
        let data_type = nullable("BIGINT");
        let bounds = |min, max, nulls| (Datum::BigInt(min), Datum::BigInt(max), nulls);
        let stats = stats(
            &data_type,
            &[&[bounds(1, 2, 0), bounds(3, 4, 5)], &[bounds(7, 8, 9)], &[], &[(Datum::Null, Datum::Null, 4)]],
        );
        let found =
            column_stats(&stats, [(0, Some(1)), (1, Some(0)), (1, None), (2, Some(0)), (3, Some(0))], &data_type)
                .unwrap();
        let min = found.min.as_primitive::<arrow::datatypes::Int64Type>();
        let max = found.max.as_primitive::<arrow::datatypes::Int64Type>();
        assert_eq!(min.iter().collect::<Vec<_>>(), [Some(3), Some(7), None, None, None]);
        assert_eq!(max.iter().collect::<Vec<_>>(), [Some(4), Some(8), None, None, None]);
        assert_eq!(found.null_count.iter().collect::<Vec<_>>(), [Some(5), Some(9), None, None, Some(4)]);
    }

    #[test]
    fn column_stats_when_null_count_is_unknown_then_bounds_are_too() {
        let data_type = nullable("INT");
        let stats = stats(&data_type, &[&[(Datum::Int(1), Datum::Int(2), -1)]]);
        let found = column_stats(&stats, [(0, Some(0))], &data_type).unwrap();
        assert!(found.min.is_null(0) && found.max.is_null(0) && found.null_count.is_null(0));
    }

    #[test]
    fn column_stats_when_nan_then_unknown_and_zeros_are_widened() {
        let data_type = nullable("DOUBLE");
        let bounds = |min, max| [(Datum::Double(min), Datum::Double(max), 0)];
        let files = [bounds(1.0, f64::NAN), bounds(f64::NAN, f64::NAN), bounds(0.0, -0.0), bounds(-0.0, 1.5)];
        let stats = stats(&data_type, &files.iter().map(|file| &file[..]).collect::<Vec<_>>());
        let found = column_stats(&stats, (0..4).map(|row| (row, Some(0))), &data_type).unwrap();
        let bits = |array: &ArrayRef| -> Vec<_> {
            array.as_primitive::<Float64Type>().iter().map(|value| value.map(f64::to_bits)).collect()
        };
        let zero = |value: f64| Some(value.to_bits());
        assert_eq!(bits(&found.min), [None, None, zero(-0.0), zero(-0.0)]);
        assert_eq!(bits(&found.max), [None, None, zero(0.0), zero(1.5)]);
    }

    #[test]
    fn column_stats_when_bound_does_not_fit_arrow_then_unknown() {
        let data_type = nullable("TIMESTAMP(9)");
        let early = Datum::Timestamp { millis: -62_135_596_800_000, nanos: 0 };
        let late = Datum::Timestamp { millis: 5, nanos: 6 };
        let stats = stats(&data_type, &[&[(early, late, 0)]]);
        let found = column_stats(&stats, [(0, Some(0))], &data_type).unwrap();
        assert!(found.min.is_null(0));
        assert_eq!(found.max.as_primitive::<arrow::datatypes::TimestampNanosecondType>().value(0), 5_000_006);
    }

    #[test]
    fn column_stats_when_text_is_not_utf8_then_unknown() {
        let (text, bytes) = (nullable("STRING"), nullable("BYTES"));
        let stats = stats(&bytes, &[&[(Datum::Bytes(vec![0x61]), Datum::Bytes(vec![0xed, 0xa0, 0x80]), 0)]]);
        let found = column_stats(&stats, [(0, Some(0))], &text).unwrap();
        assert_eq!(found.min.as_string_view().value(0), "a");
        assert!(found.max.is_null(0));
    }

    #[test]
    fn column_stats_when_char_then_lower_bound_holds_without_padding() {
        let data_type = nullable("CHAR(5)");
        let text = |text: &str| Datum::Text(text.to_owned());
        let stats = stats(
            &data_type,
            &[
                &[(text("ab   "), text("cd   "), 0)],
                &[(text("ab\t  "), text("é    "), 0)],
                &[(text("a b\u{1}c"), text("x"), 0)],
                &[(text("     "), text("x"), 0)],
            ],
        );
        let found = column_stats(&stats, (0..4).map(|row| (row, Some(0))), &data_type).unwrap();
        assert_eq!(found.min.as_string_view().iter().flatten().collect::<Vec<_>>(), ["ab", "ab", "a b", ""]);
        assert_eq!(found.max.as_string_view().iter().flatten().collect::<Vec<_>>(), ["cd   ", "é    ", "x", "x"]);
    }

    #[test]
    fn column_stats_when_nested_type_then_null_counts_only() {
        let data_type = nullable("INT ARRAY");
        let stats = stats(&nullable("INT"), &[&[(Datum::Null, Datum::Null, 3)]]);
        let found = column_stats(&stats, [(0, Some(0))], &data_type).unwrap();
        assert!(found.min.is_null(0));
        assert_eq!(found.null_count.value(0), 3);
    }

    #[test]
    fn column_stats_when_row_is_malformed_then_error() {
        let mut stats = stats(&nullable("INT"), &[]);
        assert!(stats.min.push(&[0, 0, 0, 1]) && stats.max.push(&[0, 0, 0, 1]));
        stats.null_counts.push(0);
        stats.null_count_ends.push(1);
        assert!(column_stats(&stats, [(0, Some(0))], &nullable("INT")).is_err());
    }
}
