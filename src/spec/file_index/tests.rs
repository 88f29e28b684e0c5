//! Indexes that Java wrote, asked everything and compared with the rows they were made of.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Float64Array, Int16Array, Int64Array, StringViewArray,
    TimestampMillisecondArray,
};
use arrow::compute::cast;
use arrow::datatypes::DataType as ArrowType;
use serde_json::Value;

use super::*;

/// Rows 1 to 40 of the tables that the files of `testdata/file_index` were written for, as JSON.
const ROWS: &str = include_str!("../testdata/file_index/rows.jsonl");
const BITMAP_V1: &[u8] = include_bytes!("../testdata/file_index/bitmap-v1.index");
const BITMAP_V2: &[u8] = include_bytes!("../testdata/file_index/bitmap-v2.index");
const BITMAP_SMALL_BLOCKS: &[u8] = include_bytes!("../testdata/file_index/bitmap-small-blocks.index");
const RANGE_BITMAP: &[u8] = include_bytes!("../testdata/file_index/range-bitmap.index");
const MIXED: &[u8] = include_bytes!("../testdata/file_index/mixed.index");
/// A bloom filter on `b` and `mp[x]`, a bitmap on `m`, a range bitmap on `r`, a bit-sliced index on `i`.
const JAVA14: &[u8] = include_bytes!("../testdata/file_index/java14.index");

const ALL_FILES: [&[u8]; 6] = [BITMAP_V1, BITMAP_V2, BITMAP_SMALL_BLOCKS, RANGE_BITMAP, MIXED, JAVA14];

/// What each kind does with NULLs of `<>` and NOT IN.
#[derive(Clone, Copy, PartialEq)]
enum Nulls {
    Stay,
    Go,
}

/// A column of the rows, as one literal a row.
pub(super) fn column(name: &str) -> (ValueType, Vec<Option<ArrayRef>>) {
    let rows: Vec<Value> = ROWS.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let values = rows.iter().map(|row| &row[name]);
    let text = |value: &Value| -> ArrayRef { Arc::new(StringViewArray::from_iter_values([value.as_str().unwrap()])) };
    let literal = |value: &Value| -> ArrayRef {
        match name {
            "n" => Arc::new(Int64Array::from(vec![value.as_i64().unwrap()])),
            "s" => Arc::new(Int16Array::from(vec![value.as_i64().unwrap() as i16])),
            "d" => Arc::new(Float64Array::from(vec![value.as_f64().unwrap()])),
            "b" => Arc::new(BooleanArray::from(vec![value.as_bool().unwrap()])),
            "dt" => cast(&text(value), &ArrowType::Date32).unwrap(),
            "t" => {
                // Java leaves out seconds that are zero.
                let seconds = format!("{}:00", value.as_str().unwrap());
                let text: ArrayRef = Arc::new(StringViewArray::from_iter_values([seconds]));
                cast(&text, &ArrowType::Timestamp(arrow::datatypes::TimeUnit::Millisecond, None)).unwrap()
            }
            _ => text(value),
        }
    };
    let value_type = match name {
        "n" => ValueType::Int64,
        "s" => ValueType::Int16,
        "d" => ValueType::Float64,
        "b" => ValueType::Boolean,
        "dt" => ValueType::Int32,
        "t" => ValueType::Millis,
        _ => ValueType::Text,
    };
    (value_type, values.map(|value| (!value.is_null()).then(|| literal(value))).collect())
}

/// Values that may not occur.
fn others(name: &str) -> Vec<ArrayRef> {
    match name {
        "n" => [i64::MIN, -3, 5, 100, i64::MAX].map(|value| Arc::new(Int64Array::from(vec![value])) as ArrayRef).into(),
        "s" => [i16::MIN, -4, 4, i16::MAX].map(|value| Arc::new(Int16Array::from(vec![value])) as ArrayRef).into(),
        "d" => {
            [-1e300, -0.0, 0.0, 0.1, 1e300].map(|value| Arc::new(Float64Array::from(vec![value])) as ArrayRef).into()
        }
        "b" => [true, false].map(|value| Arc::new(BooleanArray::from(vec![value])) as ArrayRef).into(),
        "dt" => [-1, 0, 19_800, 30_000].map(|value| Arc::new(Date32Array::from(vec![value])) as ArrayRef).into(),
        "t" => [-1, 0, 1].map(|value| Arc::new(TimestampMillisecondArray::from(vec![value])) as ArrayRef).into(),
        _ => ["", "a", "cedar", "m", "zz", "\u{1f600}"]
            .map(|value| Arc::new(StringViewArray::from_iter_values([value])) as ArrayRef)
            .into(),
    }
}

const COMPARISONS: [Comparison; 6] =
    [Comparison::Eq, Comparison::NotEq, Comparison::Lt, Comparison::LtEq, Comparison::Gt, Comparison::GtEq];

fn holds(comparison: Comparison, value: &Key<'_>, literal: &Key<'_>) -> bool {
    match comparison {
        Comparison::Eq => value == literal,
        Comparison::NotEq => value != literal,
        Comparison::Lt => value < literal,
        Comparison::LtEq => value <= literal,
        Comparison::Gt => value > literal,
        Comparison::GtEq => value >= literal,
    }
}

/// Asks everything about a column; the answers must be exact, but for what the kind cannot answer.
fn check(file: &[u8], name: &str, nulls: Nulls, ranges: bool) {
    let index = FileIndex::parse(Bytes::copy_from_slice(file)).unwrap();
    let (values, column) = column(name);
    let rows = column.len() as u32;
    let keys: Vec<Option<Key<'_>>> =
        column.iter().map(|literal| literal.as_ref().map(|literal| values.key(literal).unwrap())).collect();
    let select = |null: bool, keep: &dyn Fn(&Key<'_>) -> bool| -> RoaringBitmap {
        (0..rows).filter(|row| keys[*row as usize].as_ref().map_or(null, keep)).collect()
    };
    let ask = |predicate: &IndexPredicate| index.answer(name, values, predicate, rows).unwrap();
    let null_stays = nulls == Nulls::Stay;
    let literals: Vec<ArrayRef> = column.iter().flatten().map(Arc::clone).chain(others(name)).collect();
    for literal in &literals {
        let key = values.key(literal).unwrap();
        for comparison in COMPARISONS {
            let predicate = IndexPredicate::compare(values, comparison, literal);
            let zero = key.zeros().is_some();
            if comparison == Comparison::NotEq && zero {
                assert_eq!(predicate, None);
                continue;
            }
            let predicate = predicate.unwrap();
            let null = null_stays && comparison == Comparison::NotEq;
            // The two zeros are one value here.
            let plain = |key: &Key<'static>| key.zeros().map_or_else(|| key.clone(), |zeros| zeros[0].clone());
            let expected = select(null, &|value| {
                let owned = match value {
                    Key::Float64(value) => plain(&Key::Float64(*value)),
                    other => return holds(comparison, other, &key),
                };
                let comparison = match comparison {
                    Comparison::Lt if zero => Comparison::LtEq,
                    Comparison::Gt if zero => Comparison::GtEq,
                    other => other,
                };
                holds(
                    comparison,
                    &owned,
                    &plain(&match &key {
                        Key::Float64(value) => Key::Float64(*value),
                        _ => unreachable!(),
                    }),
                )
            });
            let expected = match predicate {
                IndexPredicate::Range(..) if !ranges => IndexAnswer::Remain,
                _ => IndexAnswer::of(expected),
            };
            assert_eq!(ask(&predicate), expected, "{name} {comparison:?} {key:?}");
        }
    }
    let some: Vec<ArrayRef> = literals.iter().step_by(7).map(Arc::clone).collect();
    let some_keys: Vec<Key<'_>> = some.iter().map(|literal| values.key(literal).unwrap()).collect();
    let predicate = IndexPredicate::is_in(values, &some).unwrap();
    assert_eq!(ask(&predicate), IndexAnswer::of(select(false, &|value| some_keys.contains(value))), "{name} IN");
    if let Some(predicate) = IndexPredicate::is_not_in(values, &some) {
        // Zeros rule out nothing.
        let expected = select(null_stays, &|value| value.zeros().is_some() || !some_keys.contains(value));
        assert_eq!(ask(&predicate), IndexAnswer::of(expected), "{name} NOT IN");
    }
    assert_eq!(ask(&IndexPredicate::IsNull), IndexAnswer::of(select(true, &|_| false)), "{name} IS NULL");
    assert_eq!(ask(&IndexPredicate::IsNotNull), IndexAnswer::of(select(false, &|_| true)), "{name} IS NOT NULL");
    assert!(index.answer(name, values, &IndexPredicate::IsNull, rows + 1).is_err(), "another number of rows");
}

#[test]
fn answer_when_java_wrote_bitmaps_then_the_rows_of_the_table() {
    for name in ["w", "n", "dt", "b", "s"] {
        check(BITMAP_V2, name, Nulls::Stay, false);
    }
    for name in ["w", "n"] {
        check(BITMAP_V1, name, Nulls::Stay, false);
        check(BITMAP_SMALL_BLOCKS, name, Nulls::Stay, false);
    }
}

#[test]
fn answer_when_java_wrote_range_bitmaps_then_the_rows_of_the_table() {
    for name in ["w", "n", "d", "dt", "b", "s", "txt", "t"] {
        check(RANGE_BITMAP, name, Nulls::Go, true);
    }
}

#[test]
fn answer_when_several_kinds_in_one_file_then_each_answers() {
    check(MIXED, "s", Nulls::Stay, false);
    check(MIXED, "b", Nulls::Stay, false);
    check(MIXED, "n", Nulls::Go, true);
    let index = FileIndex::parse(Bytes::from_static(MIXED)).unwrap();
    let (values, words) = column("w");
    for word in words.iter().flatten() {
        let predicate = IndexPredicate::compare(values, Comparison::Eq, word).unwrap();
        assert_eq!(index.answer("w", values, &predicate, 40).unwrap(), IndexAnswer::Remain);
    }
    let skipped = (0..100).filter(|i| {
        let absent: ArrayRef = Arc::new(StringViewArray::from_iter_values([format!("absent {i}")]));
        let predicate = IndexPredicate::compare(values, Comparison::Eq, &absent).unwrap();
        index.answer("w", values, &predicate, 40).unwrap() == IndexAnswer::Skip
    });
    assert!(skipped.count() > 80);
    assert_eq!(index.answer("dt", ValueType::Int32, &IndexPredicate::IsNull, 40).unwrap(), IndexAnswer::Remain);
}

#[test]
fn answer_when_bit_sliced_then_numbers_of_both_signs() {
    let index = FileIndex::parse(Bytes::from_static(JAVA14)).unwrap();
    // i = -5, 7, NULL, 0
    let ask = |predicate: &IndexPredicate| match index.answer("i", ValueType::Int64, predicate, 4).unwrap() {
        IndexAnswer::Rows(rows) => rows.iter().collect::<Vec<_>>(),
        IndexAnswer::Skip => Vec::new(),
        IndexAnswer::Remain => panic!("{predicate:?}"),
    };
    let compare = |comparison, value: i64| {
        let literal: ArrayRef = Arc::new(Int64Array::from(vec![value]));
        ask(&IndexPredicate::compare(ValueType::Int64, comparison, &literal).unwrap())
    };
    let numbers = [(0, -5), (1, 7), (3, 0)];
    for literal in (-9..10).chain([i64::MIN, i64::MAX]) {
        for comparison in COMPARISONS {
            let expected: Vec<u32> = numbers
                .iter()
                .filter(|(_, number)| holds(comparison, &Key::Integer(*number), &Key::Integer(literal)))
                .map(|(row, _)| *row)
                .collect();
            assert_eq!(compare(comparison, literal), expected, "{comparison:?} {literal}");
        }
    }
    assert_eq!(ask(&IndexPredicate::IsNull), [2]);
    assert_eq!(ask(&IndexPredicate::IsNotNull), [0, 1, 3]);
    assert_eq!(ask(&IndexPredicate::In(vec![Key::Integer(7), Key::Integer(-5), Key::Integer(3)])), [0, 1]);
}

#[test]
fn parse_when_java_wrote_the_container_then_its_directory() {
    let index = FileIndex::parse(Bytes::from_static(JAVA14)).unwrap();
    let listed: Vec<String> = index
        .columns()
        .flat_map(|(name, indexes)| indexes.iter().map(move |index| format!("{name} {}", index.index_type)))
        .collect();
    assert_eq!(listed, ["r range-bitmap", "b bloom-filter", "i bsi", "mp[x] bloom-filter", "m bitmap"]);
    let ask = |text: &'static str| {
        let literal: ArrayRef = Arc::new(StringViewArray::from_iter_values([text]));
        let predicate = IndexPredicate::compare(ValueType::Text, Comparison::Eq, &literal).unwrap();
        index.answer("mp[x]", ValueType::Text, &predicate, 4).unwrap()
    };
    assert_eq!((ask("1"), ask("2")), (IndexAnswer::Remain, IndexAnswer::Skip));
}

#[test]
fn answer_when_no_row_was_fed_then_no_value_matches() {
    let mut file = Vec::new();
    file.extend(MAGIC.to_be_bytes());
    file.extend([0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, b'a', 0, 0, 0, 1, 0, 6]);
    file.extend(b"bitmap");
    file.extend([0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0]);
    let length = (file.len() as i32).to_be_bytes();
    file[12..16].copy_from_slice(&length);
    let index = FileIndex::parse(Bytes::from(file)).unwrap();
    let ask = |predicate| index.answer("a", ValueType::Int32, &predicate, 4).unwrap();
    assert_eq!(ask(IndexPredicate::In(vec![Key::Integer(1)])), IndexAnswer::Skip);
    assert_eq!(ask(IndexPredicate::IsNotNull), IndexAnswer::Skip);
    assert_eq!(ask(IndexPredicate::IsNull), IndexAnswer::Remain);
    assert_eq!(ask(IndexPredicate::NotIn(vec![Key::Integer(1)])), IndexAnswer::Remain);
}

#[test]
fn compare_when_literal_is_nan_null_zero_or_cut_then_never_narrower() {
    let double = |value: f64| -> ArrayRef { Arc::new(Float64Array::from(vec![value])) };
    let values = ValueType::Float64;
    for comparison in COMPARISONS {
        assert_eq!(IndexPredicate::compare(values, comparison, &double(f64::NAN)), None);
        let null: ArrayRef = Arc::new(Float64Array::from(vec![None::<f64>]));
        assert_eq!(IndexPredicate::compare(values, comparison, &null), None);
    }
    let zeros = IndexPredicate::compare(values, Comparison::Eq, &double(0.0)).unwrap();
    assert_eq!(zeros, IndexPredicate::In(vec![Key::Float64(-0.0), Key::Float64(0.0)]));
    let nanos: ArrayRef = Arc::new(arrow::array::TimestampNanosecondArray::from(vec![-1]));
    let values = ValueType::CutMicros;
    assert_eq!(IndexPredicate::compare(values, Comparison::NotEq, &nanos), None);
    assert_eq!(
        IndexPredicate::compare(values, Comparison::Lt, &nanos),
        Some(IndexPredicate::Range(std::ops::Bound::Unbounded, std::ops::Bound::Included(Key::Integer(-1))))
    );
}

/// A small generator, so that a failure can be run again.
struct Seed(u64);

impl Seed {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % below.max(1)
    }
}

#[test]
fn answer_when_bytes_are_wrong_then_error_or_answer_without_panic() {
    let mut seed = Seed(7);
    let value_types = [ValueType::Int64, ValueType::Text, ValueType::Int16, ValueType::Boolean, ValueType::Float64];
    let predicates = [
        IndexPredicate::In(vec![Key::Integer(3), Key::Bytes(b"cedar".as_slice().into()), Key::Float64(1.0)]),
        IndexPredicate::NotIn(vec![Key::Integer(3), Key::Bytes(b"cedar".as_slice().into())]),
        IndexPredicate::Range(
            std::ops::Bound::Excluded(Key::Integer(-3)),
            std::ops::Bound::Included(Key::Bytes(b"jade".as_slice().into())),
        ),
        IndexPredicate::IsNull,
        IndexPredicate::IsNotNull,
    ];
    for round in 0..6_000 {
        let file = ALL_FILES[round % ALL_FILES.len()];
        let mut bytes = file.to_vec();
        for _ in 0..=seed.next(3) {
            let at = seed.next(bytes.len());
            match seed.next(4) {
                0 => bytes[at] ^= 1 << seed.next(8),
                1 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][seed.next(5)],
                2 => bytes.truncate(at.max(1)),
                _ => {
                    bytes.remove(at);
                    if bytes.is_empty() {
                        bytes.push(0);
                    }
                }
            }
        }
        let Ok(index) = FileIndex::parse(Bytes::from(bytes)) else { continue };
        let names: Vec<String> = index.columns().map(|(name, _)| name.to_owned()).collect();
        for name in &names {
            let values = value_types[seed.next(value_types.len())];
            for predicate in &predicates {
                let rows = if file.len() == JAVA14.len() { 4 } else { 40 };
                if let Ok(IndexAnswer::Rows(found)) = index.answer(name, values, predicate, rows) {
                    assert!(found.max() < Some(rows));
                }
            }
        }
    }
}
