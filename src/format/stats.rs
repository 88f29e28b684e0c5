//! Statistics of the columns of a data file, gathered from the batches that go into it (`spec/data.md 11`,
//! `spec/metadata.md 4.4`): bounds and numbers of NULLs, as Java would have taken them from the file.
//!
//! What a format's statistics say of a type is Java's habit: no bounds of bytes, and in Parquet none of timestamps of more than 6
//! digits. Where a column holds NaN, Java's bounds of Parquet and ORC are not to be trusted (`spec/observed.md`, Statistics): there
//! are none here.
//!
//! May import: `error`, `options`, `spec`.

use arrow::array::{Array, ArrayRef, ArrowNumericType, AsArray, BinaryViewArray, BooleanArray};
use arrow::compute::{max, max_boolean, min, min_boolean};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType as ArrowType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, Time32MillisecondType, TimeUnit, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType,
};

use super::FileFormat;
use crate::error::{Error, Result};
use crate::options::StatsMode;
use crate::spec::binary_row::BinaryRowWriter;
use crate::spec::datum::Datum;
use crate::spec::{DataField, DataType, SimpleStats, TypeKind};

/// What is known of one column. Bounds are NULL where there are none.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ColumnSummary {
    pub min: Datum,
    pub max: Datum,
    /// None for a column without statistics.
    pub null_count: Option<i64>,
}

impl ColumnSummary {
    fn is_unknown(&self) -> bool {
        self.null_count.is_none() && self.min == Datum::Null && self.max == Datum::Null
    }
}

/// Gathers the statistics of columns, batch by batch.
#[derive(Debug)]
pub(crate) struct StatsCollector {
    columns: Vec<Column>,
    format: FileFormat,
}

#[derive(Debug)]
struct Column {
    data_type: DataType,
    mode: StatsMode,
    is_counted: bool,
    null_count: i64,
    bounds: Bounds,
}

/// The least and the greatest value so far.
#[derive(Debug)]
enum Bounds {
    /// A type without order, or statistics that leave it out.
    None,
    Boolean(Option<(bool, bool)>),
    /// Whole numbers, days, times, and ticks of timestamps.
    Int(Option<(i64, i64)>),
    Decimal(Option<(i128, i128)>),
    Float {
        bounds: Option<(f64, f64)>,
        has_nan: bool,
    },
    Bytes(Option<ByteBounds>),
}

#[derive(Debug)]
struct ByteBounds {
    min: Vec<u8>,
    max: Vec<u8>,
}

impl StatsCollector {
    /// A collector of columns of a file of this format, each with its mode. Of the columns at `keys` everything is gathered,
    /// for [`Self::summary`].
    pub fn new(fields: &[DataField], modes: &[StatsMode], keys: &[usize], format: FileFormat) -> Self {
        let columns = fields.iter().zip(modes).enumerate().map(|(index, (field, mode))| {
            let is_key = keys.contains(&index);
            Column {
                data_type: field.data_type.clone(),
                mode: *mode,
                is_counted: is_key || *mode != StatsMode::None,
                null_count: 0,
                bounds: match mode {
                    StatsMode::None | StatsMode::Counts if !is_key => Bounds::None,
                    _ => Bounds::of(&field.data_type, format),
                },
            }
        });
        Self { columns: columns.collect(), format }
    }

    /// Takes the next rows: the columns in order, in their arrow types.
    ///
    /// # Errors
    /// Internal when a column has another type.
    pub fn update(&mut self, columns: &[ArrayRef]) -> Result<()> {
        for (column, array) in self.columns.iter_mut().zip(columns) {
            column.update(array)?;
        }
        Ok(())
    }

    /// What is known now, a summary a column.
    pub fn finish(&self) -> Result<Vec<ColumnSummary>> {
        self.columns.iter().map(|column| column.summary(self.format, column.mode)).collect()
    }

    /// What is known of a key column, by another mode than its own.
    ///
    /// # Errors
    /// Internal when there is no such column.
    pub fn summary(&self, column: usize, mode: StatsMode) -> Result<ColumnSummary> {
        match self.columns.get(column) {
            Some(column) => column.summary(self.format, mode),
            None => Err(Error::internal(format!("there are no statistics of column {column}"))),
        }
    }
}

/// Whether the files of a format have statistics of nested columns. They have none in Parquet; the collectors of the others count
/// NULLs.
fn counts_nested(format: FileFormat) -> bool {
    format != FileFormat::Parquet
}

impl Bounds {
    fn of(data_type: &DataType, format: FileFormat) -> Self {
        let is_parquet = format == FileFormat::Parquet;
        match &data_type.kind {
            TypeKind::Boolean => Self::Boolean(None),
            TypeKind::Timestamp(precision) | TypeKind::TimestampLtz(precision) if is_parquet && *precision > 6 => {
                Self::None
            }
            TypeKind::TinyInt
            | TypeKind::SmallInt
            | TypeKind::Int
            | TypeKind::BigInt
            | TypeKind::Date
            | TypeKind::Time(_)
            | TypeKind::Timestamp(_)
            | TypeKind::TimestampLtz(_) => Self::Int(None),
            TypeKind::Decimal(..) => Self::Decimal(None),
            TypeKind::Float | TypeKind::Double => Self::Float { bounds: None, has_nan: false },
            TypeKind::Char(_) | TypeKind::VarChar(_) => Self::Bytes(None),
            _ => Self::None,
        }
    }
}

impl Column {
    fn update(&mut self, array: &ArrayRef) -> Result<()> {
        if !self.is_counted {
            return Ok(());
        }
        self.null_count += array.logical_null_count() as i64;
        let wrong = || Error::internal(format!("{} was given for a column of {}", array.data_type(), self.data_type));
        match &mut self.bounds {
            Bounds::None => {}
            Bounds::Boolean(bounds) => {
                let array: &BooleanArray = array.as_boolean_opt().ok_or_else(wrong)?;
                widen(bounds, min_boolean(array).zip(max_boolean(array)));
            }
            Bounds::Int(bounds) => widen(bounds, int_bounds(array).ok_or_else(wrong)?),
            Bounds::Decimal(bounds) => {
                let array = array.as_primitive_opt::<Decimal128Type>().ok_or_else(wrong)?;
                widen(bounds, min(array).zip(max(array)));
            }
            Bounds::Float { bounds, has_nan } => {
                let found = match array.data_type() {
                    ArrowType::Float32 => {
                        let array = array.as_primitive::<Float32Type>();
                        *has_nan |= any_valid(array.values(), array.nulls(), |value| value.is_nan());
                        min(array).map(f64::from).zip(max(array).map(f64::from))
                    }
                    ArrowType::Float64 => {
                        let array = array.as_primitive::<Float64Type>();
                        *has_nan |= any_valid(array.values(), array.nulls(), |value| value.is_nan());
                        min(array).zip(max(array))
                    }
                    _ => return Err(wrong()),
                };
                // By the total order, as Java compares: -0.0 below 0.0, NaN above all.
                if let Some((low, high)) = found {
                    let (least, greatest) = bounds.get_or_insert((low, high));
                    if low.total_cmp(least).is_lt() {
                        *least = low;
                    }
                    if high.total_cmp(greatest).is_gt() {
                        *greatest = high;
                    }
                }
            }
            Bounds::Bytes(bounds) => {
                let views = match array.data_type() {
                    ArrowType::Utf8View => array.as_string_view().clone().to_binary_view(),
                    ArrowType::BinaryView => array.as_binary_view().clone(),
                    _ => return Err(wrong()),
                };
                widen_bytes(bounds, &views);
            }
        }
        Ok(())
    }

    fn summary(&self, format: FileFormat, mode: StatsMode) -> Result<ColumnSummary> {
        let is_nested = self.data_type.is_nested() || self.data_type.kind == TypeKind::Variant;
        if mode == StatsMode::None || (is_nested && !counts_nested(format)) {
            return Ok(ColumnSummary { min: Datum::Null, max: Datum::Null, null_count: None });
        }
        let bounds = match mode {
            StatsMode::None | StatsMode::Counts => None,
            StatsMode::Truncate(limit) => self.bounds(format, Some(limit))?,
            StatsMode::Full => self.bounds(format, None)?,
        };
        let (min, max) = bounds.unwrap_or((Datum::Null, Datum::Null));
        Ok(ColumnSummary { min, max, null_count: Some(self.null_count) })
    }

    fn bounds(&self, format: FileFormat, limit: Option<usize>) -> Result<Option<(Datum, Datum)>> {
        let both = |low: Datum, high: Datum| Some((low, high));
        Ok(match &self.bounds {
            Bounds::Boolean(Some((low, high))) => both(Datum::Boolean(*low), Datum::Boolean(*high)),
            Bounds::Int(Some((low, high))) => both(self.int(*low)?, self.int(*high)?),
            Bounds::Decimal(Some((low, high))) => {
                let TypeKind::Decimal(precision, scale) = self.data_type.kind else { return Ok(None) };
                let datum = |unscaled| Datum::Decimal { unscaled, precision, scale };
                both(datum(*low), datum(*high))
            }
            Bounds::Float { bounds: Some((low, high)), has_nan } => {
                let (low, high) = match format {
                    FileFormat::Parquet | FileFormat::Orc if *has_nan => return Ok(None),
                    // By comparison, in which there is one NaN, above everything.
                    _ if *has_nan => (if low.is_nan() { f64::NAN } else { *low }, f64::NAN),
                    _ => (*low, *high),
                };
                if self.data_type.kind == TypeKind::Float {
                    both(Datum::Float(low as f32), Datum::Float(high as f32))
                } else {
                    both(Datum::Double(low), Datum::Double(high))
                }
            }
            Bounds::Bytes(Some(ByteBounds { min, max })) => {
                let (Ok(min), Ok(max)) = (std::str::from_utf8(min), std::str::from_utf8(max)) else {
                    return Err(Error::internal("a bound of text is not UTF-8"));
                };
                let (min, max) = match limit {
                    None => (min, Some(max.to_owned())),
                    Some(limit) => (prefix(min, limit), upper_bound(max, limit)),
                };
                max.map(|max| (Datum::Text(min.to_owned()), Datum::Text(max)))
            }
            _ => None,
        })
    }

    fn int(&self, value: i64) -> Result<Datum> {
        let narrow = || Error::internal(format!("the bound {value} does not fit {}", self.data_type));
        let int = || i32::try_from(value).map_err(|_| narrow());
        Ok(match self.data_type.kind {
            TypeKind::TinyInt => Datum::TinyInt(i8::try_from(value).map_err(|_| narrow())?),
            TypeKind::SmallInt => Datum::SmallInt(i16::try_from(value).map_err(|_| narrow())?),
            TypeKind::Int => Datum::Int(int()?),
            TypeKind::Date => Datum::Date(int()?),
            TypeKind::Time(_) => Datum::Time(int()?),
            TypeKind::Timestamp(precision) | TypeKind::TimestampLtz(precision) => {
                let per_milli = match precision {
                    0..=3 => 1,
                    4..=6 => 1_000,
                    _ => 1_000_000,
                };
                let nanos = value.rem_euclid(per_milli) * (1_000_000 / per_milli);
                Datum::Timestamp { millis: value.div_euclid(per_milli), nanos: nanos as i32 }
            }
            _ => Datum::BigInt(value),
        })
    }
}

fn widen<T: PartialOrd + Copy>(bounds: &mut Option<(T, T)>, found: Option<(T, T)>) {
    let Some((low, high)) = found else { return };
    let (least, greatest) = bounds.get_or_insert((low, high));
    if low < *least {
        *least = low;
    }
    if high > *greatest {
        *greatest = high;
    }
}

fn any_valid<T: Copy>(values: &[T], nulls: Option<&arrow::buffer::NullBuffer>, is: impl Fn(T) -> bool) -> bool {
    match nulls.filter(|nulls| nulls.null_count() > 0) {
        None => values.iter().any(|value| is(*value)),
        Some(nulls) => nulls.valid_indices().any(|row| is(values[row])),
    }
}

/// Bounds of a column of numbers; None when the array is none.
fn int_bounds(array: &ArrayRef) -> Option<Option<(i64, i64)>> {
    fn of<T: ArrowNumericType>(array: &ArrayRef) -> Option<Option<(i64, i64)>>
    where
        <T as ArrowPrimitiveType>::Native: Into<i64>,
    {
        let array = array.as_primitive_opt::<T>()?;
        Some(min(array).map(Into::into).zip(max(array).map(Into::into)))
    }
    match array.data_type() {
        ArrowType::Int8 => of::<Int8Type>(array),
        ArrowType::Int16 => of::<Int16Type>(array),
        ArrowType::Int32 => of::<Int32Type>(array),
        ArrowType::Int64 => of::<Int64Type>(array),
        ArrowType::Date32 => of::<Date32Type>(array),
        ArrowType::Time32(TimeUnit::Millisecond) => of::<Time32MillisecondType>(array),
        ArrowType::Timestamp(TimeUnit::Millisecond, _) => of::<TimestampMillisecondType>(array),
        ArrowType::Timestamp(TimeUnit::Microsecond, _) => of::<TimestampMicrosecondType>(array),
        ArrowType::Timestamp(TimeUnit::Nanosecond, _) => of::<TimestampNanosecondType>(array),
        _ => None,
    }
}

/// The first four bytes as a number that sorts as they do; shorter values are filled with zeros.
fn head(bytes: &[u8]) -> u32 {
    let mut head = [0; 4];
    let length = bytes.len().min(4);
    head[..length].copy_from_slice(&bytes[..length]);
    u32::from_be_bytes(head)
}

/// Most values lie between the bounds by their first four bytes, which a view holds itself.
fn widen_bytes(bounds: &mut Option<ByteBounds>, array: &BinaryViewArray) {
    let Some(first) = (0..array.len()).find(|row| array.is_valid(*row)) else { return };
    let bounds = bounds.get_or_insert_with(|| {
        let value = array.value(first).to_vec();
        ByteBounds { min: value.clone(), max: value }
    });
    let (mut low, mut high) = (head(&bounds.min), head(&bounds.max));
    let views = array.views();
    let mut take = |row: usize| {
        // Bytes 4 to 8 of a view are the value's first, whatever its length.
        let found = ((views[row] >> 32) as u32).swap_bytes();
        if found > low && found < high {
            return;
        }
        let value = array.value(row);
        if found <= low && value < bounds.min.as_slice() {
            bounds.min.clear();
            bounds.min.extend_from_slice(value);
            low = found;
        }
        if found >= high && value > bounds.max.as_slice() {
            bounds.max.clear();
            bounds.max.extend_from_slice(value);
            high = found;
        }
    };
    match array.nulls().filter(|nulls| nulls.null_count() > 0) {
        None => (first..array.len()).for_each(&mut take),
        Some(nulls) => nulls.valid_indices().for_each(&mut take),
    }
}

/// The first `limit` characters.
fn prefix(text: &str, limit: usize) -> &str {
    text.char_indices().nth(limit).map_or(text, |(end, _)| &text[..end])
}

/// The shortest text of at most `limit` characters that is not below any text which starts like this one; None when there is
/// none.
fn upper_bound(text: &str, limit: usize) -> Option<String> {
    let cut = prefix(text, limit);
    if cut.len() == text.len() {
        return Some(text.to_owned());
    }
    cut.char_indices().rev().find_map(|(start, last)| {
        let next = match last {
            // What follows are surrogates, which are no characters.
            '\u{d7ff}' => '\u{e000}',
            other => char::from_u32(u32::from(other) + 1)?,
        };
        let mut bound = cut[..start].to_owned();
        bound.push(next);
        Some(bound)
    })
}

/// The statistics of these columns as they are stored.
///
/// # Errors
/// Internal when a bound is not of its column's type.
pub(crate) fn simple_stats<'a>(
    columns: impl ExactSizeIterator<Item = (&'a DataType, &'a ColumnSummary)>,
) -> Result<SimpleStats> {
    let mut min = BinaryRowWriter::new(columns.len())?;
    let mut max = BinaryRowWriter::new(columns.len())?;
    let mut null_counts = Vec::with_capacity(columns.len());
    for (index, (data_type, summary)) in columns.enumerate() {
        min.write(index, &summary.min, data_type)?;
        max.write(index, &summary.max, data_type)?;
        null_counts.push(summary.null_count);
    }
    Ok(SimpleStats { min: min.serialized().to_vec(), max: max.serialized().to_vec(), null_counts })
}

/// The statistics of these columns, and the names of the columns that they cover; None for all of them. With `dense`, columns
/// of which nothing is known are left out.
///
/// # Errors
/// As [`simple_stats`].
pub(crate) fn value_stats(
    fields: &[DataField],
    summaries: &[ColumnSummary],
    dense: bool,
) -> Result<(SimpleStats, Option<Vec<String>>)> {
    let known: Vec<(&DataField, &ColumnSummary)> =
        fields.iter().zip(summaries).filter(|(_, summary)| !(dense && summary.is_unknown())).collect();
    let stats = simple_stats(known.iter().map(|(field, summary)| (&field.data_type, *summary)))?;
    let names = (known.len() < fields.len()).then(|| known.iter().map(|(field, _)| field.name.clone()).collect());
    Ok((stats, names))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Float64Array, Int32Array, StringViewArray};

    use super::*;

    fn field(kind: TypeKind) -> DataField {
        DataField::new(0, "c", DataType::nullable(kind))
    }

    fn summary(kind: TypeKind, mode: StatsMode, format: FileFormat, batches: Vec<ArrayRef>) -> ColumnSummary {
        let mut collector = StatsCollector::new(&[field(kind)], &[mode], &[], format);
        for batch in batches {
            collector.update(&[batch]).unwrap();
        }
        collector.finish().unwrap().remove(0)
    }

    fn texts(values: &[Option<&str>]) -> ArrayRef {
        Arc::new(values.iter().copied().collect::<StringViewArray>())
    }

    fn text_bounds(values: &[Option<&str>], mode: StatsMode) -> Option<(String, String)> {
        let kind = TypeKind::VarChar(100);
        match summary(kind, mode, FileFormat::Parquet, vec![texts(values)]) {
            ColumnSummary { min: Datum::Text(min), max: Datum::Text(max), .. } => Some((min, max)),
            _ => None,
        }
    }

    #[test]
    fn truncate_when_text_is_longer_then_prefix_and_next_prefix() {
        let bounds = |values: &[Option<&str>], limit| text_bounds(values, StatsMode::Truncate(limit));
        let pair = |low: &str, high: &str| Some((low.to_owned(), high.to_owned()));
        let native = Some("Native full text index");
        assert_eq!(bounds(&[native, None], 16), pair("Native full text", "Native full texu"));
        assert_eq!(bounds(&[Some("abc"), Some("b")], 16), pair("abc", "b"));
        // A carry to the left, and characters outside of the basic plane.
        assert_eq!(bounds(&[Some("a\u{10ffff}x")], 2), pair("a\u{10ffff}", "b"));
        assert_eq!(bounds(&[Some("派蒙🙂z")], 3), pair("派蒙🙂", "派蒙🙃"));
        // Surrogates are no characters.
        assert_eq!(bounds(&[Some("\u{d7ff}\u{d7ff}")], 1), pair("\u{d7ff}", "\u{e000}"));
        // No bound above: neither is told.
        assert_eq!(bounds(&[Some("\u{10ffff}\u{10ffff}")], 1), None);
        assert_eq!(text_bounds(&[Some("abcdef"), Some("b")], StatsMode::Full), pair("abcdef", "b"));
    }

    #[test]
    fn text_when_values_share_their_first_bytes_then_exact_bounds() {
        let values: Vec<String> =
            (0..500).map(|i| format!("key-{:05}{}", i * 7919 % 1000, "x".repeat(i % 9))).collect();
        let expected = (values.iter().min().unwrap().clone(), values.iter().max().unwrap().clone());
        let mut found = StatsCollector::new(&[field(TypeKind::VarChar(99))], &[StatsMode::Full], &[], FileFormat::Orc);
        for chunk in values.chunks(37) {
            let batch: Vec<Option<&str>> =
                [None].into_iter().chain(chunk.iter().map(|text| Some(text.as_str()))).collect();
            found.update(&[texts(&batch)]).unwrap();
        }
        let found = found.finish().unwrap().remove(0);
        assert_eq!((found.min, found.max), (Datum::Text(expected.0), Datum::Text(expected.1)));
        assert_eq!(found.null_count, Some(14));
        assert_eq!(text_bounds(&[Some(""), Some("\0"), Some("a\0"), Some("a")], StatsMode::Full).unwrap().1, "a\0");
    }

    #[test]
    fn modes_when_none_or_counts_then_no_bounds() {
        let batch = || vec![Arc::new(Int32Array::from(vec![Some(1), None])) as ArrayRef];
        let of = |mode| summary(TypeKind::Int, mode, FileFormat::Parquet, batch());
        let unknown = ColumnSummary { min: Datum::Null, max: Datum::Null, null_count: None };
        assert_eq!(of(StatsMode::None), unknown);
        assert_eq!(of(StatsMode::Counts), ColumnSummary { null_count: Some(1), ..unknown });
        let full = ColumnSummary { min: Datum::Int(1), max: Datum::Int(1), null_count: Some(1) };
        assert_eq!(of(StatsMode::Full), full);
        assert_eq!(of(StatsMode::Truncate(1)), full);
    }

    #[test]
    fn floats_when_nan_or_zero_then_no_bounds_or_the_total_order() {
        let of = |format, values: &[f64]| {
            let batches =
                values.chunks(1).map(|chunk| Arc::new(Float64Array::from(chunk.to_vec())) as ArrayRef).collect();
            let found = summary(TypeKind::Double, StatsMode::Full, format, batches);
            match (found.min, found.max) {
                (Datum::Double(min), Datum::Double(max)) => Some((min.to_bits(), max.to_bits())),
                _ => None,
            }
        };
        let bits = |low: f64, high: f64| Some((low.to_bits(), high.to_bits()));
        assert_eq!(of(FileFormat::Parquet, &[-0.0]), bits(-0.0, -0.0));
        assert_eq!(of(FileFormat::Orc, &[0.0, -0.0, f64::INFINITY]), bits(-0.0, f64::INFINITY));
        assert_eq!(of(FileFormat::Avro, &[0.0, -0.0]), bits(-0.0, 0.0));
        assert_eq!(of(FileFormat::Avro, &[0.0]), bits(0.0, 0.0));
        assert_eq!(of(FileFormat::Parquet, &[1.0, f64::NAN]), None);
        assert_eq!(of(FileFormat::Orc, &[1.0, f64::NAN]), None);
        assert_eq!(of(FileFormat::Avro, &[1.0, f64::NAN]), bits(1.0, f64::NAN));
    }

    #[test]
    fn value_stats_when_dense_then_unknown_columns_are_left_out() {
        let fields = [
            DataField::new(0, "a", DataType::nullable(TypeKind::Int)),
            DataField::new(1, "b", DataType::nullable(TypeKind::Int)),
        ];
        let known = ColumnSummary { min: Datum::Int(1), max: Datum::Int(2), null_count: Some(0) };
        let unknown = ColumnSummary { min: Datum::Null, max: Datum::Null, null_count: None };
        let (stats, names) = value_stats(&fields, &[unknown.clone(), known.clone()], true).unwrap();
        assert_eq!((stats.null_counts, names), (vec![Some(0)], Some(vec!["b".to_owned()])));
        let (stats, names) = value_stats(&fields, &[unknown, known.clone()], false).unwrap();
        assert_eq!((stats.null_counts, names), (vec![None, Some(0)], None));
        assert_eq!(value_stats(&fields, &[known.clone(), known], true).unwrap().1, None);
    }
}
