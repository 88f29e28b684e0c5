//! Indexes that Java wrote, written again from their rows: byte for byte, but for the order of bitmaps, which is that of a
//! hash map there.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryViewArray, BooleanArray, Decimal128Array, Float32Array, Float64Array, Int16Array, Int32Array,
    Int64Array, StringArray, StringViewArray, TimestampMicrosecondArray, TimestampMillisecondArray,
    TimestampNanosecondArray,
};
use arrow::compute::concat;
use bytes::Bytes;
use proptest::prelude::*;
use roaring::RoaringBitmap;

use super::*;
use crate::spec::file_index::input::Input;
use crate::spec::file_index::tests::column;
use crate::spec::file_index::{Comparison, FileIndex, IndexAnswer, IndexPredicate};

fn write(kind: IndexKind, data_type: &str, options: &IndexOptions, array: &dyn Array) -> Vec<u8> {
    let mut writer = FileIndexWriter::new(kind, &DataType::parse(data_type).unwrap(), options).unwrap();
    // Rows come in batches.
    let (first, second) = (array.len() / 3, array.len() - array.len() / 3);
    writer.add(&array.slice(0, first)).unwrap();
    writer.add(&array.slice(first, second)).unwrap();
    assert!(writer.memory() > 0 || array.is_empty() || kind == IndexKind::BitSliced);
    writer.finish().unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The column `name` of the rows that the files of `testdata/file_index` were written for.
fn column_of_rows(name: &str) -> (&'static str, ArrayRef) {
    let (values, rows) = column(name);
    let data_type = match name {
        "n" => "BIGINT",
        "s" => "SMALLINT",
        "d" => "DOUBLE",
        "dt" => "DATE",
        "b" => "BOOLEAN",
        "t" => "TIMESTAMP(3)",
        _ => "STRING",
    };
    assert_eq!(written_as(IndexKind::RangeBitmap, &DataType::parse(data_type).unwrap().kind), Some(values));
    let null = arrow::array::new_null_array(rows.iter().flatten().next().unwrap().data_type(), 1);
    let rows: Vec<&dyn Array> = rows.iter().map(|row| row.as_ref().unwrap_or(&null).as_ref()).collect();
    (data_type, concat(&rows).unwrap())
}

/// A bitmap index of version 2 with its bitmaps in the order of their values.
fn in_order(payload: &[u8], values: ValueType) -> Vec<u8> {
    let mut input = Input::new(payload);
    let number = |at: usize| Input::at(payload, at).i32().unwrap();
    assert_eq!(input.u8().unwrap(), 2);
    input.take(8).unwrap();
    let mut out = payload.to_vec();
    let mut bitmaps = Vec::new();
    let mut end = 0;
    if input.flag().unwrap() {
        let (offset, length) = (input.i32().unwrap(), input.length().unwrap());
        assert!(offset <= 0);
        end = if offset < 0 { 0 } else { length };
    }
    for _ in 0..input.length().unwrap() {
        values.read(&mut input).unwrap();
        input.i32().unwrap();
    }
    let area = input.length().unwrap() + input.position();
    bitmaps.extend_from_slice(&payload[area..area + end]);
    while input.position() < area {
        for _ in 0..input.length().unwrap() {
            values.read(&mut input).unwrap();
            let at = input.position();
            input.take(8).unwrap();
            let (offset, length) = (number(at), number(at + 4));
            if offset < 0 {
                assert_eq!(length, -1);
                continue;
            }
            out[at..at + 4].copy_from_slice(&(bitmaps.len() as i32).to_be_bytes());
            bitmaps.extend_from_slice(&payload[area + offset as usize..][..length as usize]);
        }
    }
    assert_eq!(out.len(), area + bitmaps.len());
    out[area..].copy_from_slice(&bitmaps);
    out
}

/// Writes all indexes of a container again, and the container in the order in which Java has it.
fn check_container(
    java: &[u8],
    options: impl Fn(&str, IndexKind) -> IndexOptions,
    rows: impl Fn(&str) -> (&'static str, ArrayRef),
) {
    let index = FileIndex::parse(Bytes::copy_from_slice(java)).unwrap();
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for (name, indexes) in index.columns() {
        let (data_type, array) = rows(name);
        let (mut written, mut read) = (Vec::new(), Vec::new());
        for index in indexes {
            let kind = IndexKind::from_name(&index.index_type).unwrap();
            let payload = &java[index.payload.clone().unwrap()];
            let options = options(name, kind);
            let again = write(kind, data_type, &options, &array);
            let values = written_as(kind, &DataType::parse(data_type).unwrap().kind).unwrap();
            if kind == IndexKind::Bitmap && options.version == 2 {
                assert_eq!(hex(&again), hex(&in_order(payload, values)), "{name}");
            } else if kind == IndexKind::Bitmap {
                assert_eq!(again.len(), payload.len(), "{name}");
            } else {
                assert_eq!(hex(&again), hex(payload), "{name}");
            }
            read.push((kind, Some(payload.to_vec())));
            written.push((kind, Some(again)));
        }
        ours.push(ColumnPayloads { name: name.into(), indexes: written });
        theirs.push(ColumnPayloads { name: name.into(), indexes: read });
    }
    assert_eq!(hex(&write_container(&theirs).unwrap()), hex(java));
    assert_eq!(write_container(&ours).unwrap().len(), java.len());
}

#[test]
fn write_when_flink_wrote_bitmaps_then_same_bytes() {
    let all = |_: &str, _| IndexOptions::default();
    check_container(include_bytes!("../../testdata/file_index/bitmap-v2.index"), all, column_of_rows);
    let small = |_: &str, _| IndexOptions { block_size: 64, ..IndexOptions::default() };
    check_container(include_bytes!("../../testdata/file_index/bitmap-small-blocks.index"), small, column_of_rows);
    let flat = |_: &str, _| IndexOptions { version: 1, ..IndexOptions::default() };
    check_container(include_bytes!("../../testdata/file_index/bitmap-v1.index"), flat, column_of_rows);
}

#[test]
fn write_when_flink_wrote_range_bitmaps_then_same_bytes() {
    let all = |_: &str, _| IndexOptions::default();
    check_container(include_bytes!("../../testdata/file_index/range-bitmap.index"), all, column_of_rows);
}

#[test]
fn write_when_several_kinds_in_one_file_then_same_bytes() {
    let hundred = |_: &str, _| IndexOptions { items: 100, ..IndexOptions::default() };
    check_container(include_bytes!("../../testdata/file_index/mixed.index"), hundred, column_of_rows);
    check_container(include_bytes!("../../testdata/file_index/java14.index"), hundred, |name| match name {
        "b" => ("STRING", Arc::new(StringViewArray::from(vec![Some("a"), Some("b"), None, Some("a")]))),
        "m" => ("STRING", Arc::new(StringArray::from(vec![Some("x"), Some("y"), None, Some("x")]))),
        "r" => ("INT", Arc::new(Int32Array::from(vec![Some(1), Some(20), None, Some(300)]))),
        "i" => ("BIGINT", Arc::new(Int64Array::from(vec![Some(-5), Some(7), None, Some(0)]))),
        _ => ("STRING", Arc::new(StringArray::from(vec![Some("1"), None, None, None]))),
    });
}

/// What Java 1.4 writes for some values, kind by kind.
#[test]
fn write_when_java_14_wrote_edges_then_same_bytes() {
    use IndexKind::{BitSliced, Bitmap, BloomFilter, RangeBitmap};
    let nulls: ArrayRef = Arc::new(Int32Array::from(vec![None, None]));
    let none: ArrayRef = Arc::new(Int32Array::from(Vec::<i32>::new()));
    let digits: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), Some(2), None, Some(3), Some(3)]));
    let floats: ArrayRef = Arc::new(Float32Array::from(vec![
        Some(-0.0),
        Some(0.0),
        Some(f32::NAN),
        Some(f32::from_bits(0xffc0_0001)),
        Some(f32::INFINITY),
        Some(-1.0),
        None,
        Some(0.0),
    ]));
    let texts: ArrayRef =
        Arc::new(StringViewArray::from(vec![Some("a"), Some("b"), Some("b"), Some("c"), None, Some("")]));
    let signs: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![-3, -1, -1500, 1500]));
    let wide: ArrayRef = Arc::new(
        Decimal128Array::from(vec![Some(1), Some(2), None, Some(3), Some(3)]).with_precision_and_scale(30, 2).unwrap(),
    );
    let ten = IndexOptions { items: 10, ..IndexOptions::default() };
    let with_chunks = |bytes| IndexOptions { chunk_size: Some(bytes), ..IndexOptions::default() };
    let cases: [(IndexKind, &str, IndexOptions, &ArrayRef, &str); 17] = [
        (
            Bitmap,
            "INT",
            ten.clone(),
            &nulls,
            "02000000020000000001000000000000001400000000000000003a30000001000000000001001000000000000100",
        ),
        (
            Bitmap,
            "INT",
            IndexOptions { version: 1, ..ten.clone() },
            &nulls,
            "01000000020000000001000000003a30000001000000000001001000000000000100",
        ),
        (Bitmap, "INT", ten.clone(), &none, "020000000000000000000000000000000000"),
        (
            Bitmap,
            "INT",
            ten.clone(),
            &digits,
            "02000000050000000301fffffffd00000012000000010000000100000000000000280000000300000001ffffffffffffffff00000002fffffffeffffffff0000000300000000000000143a30000001000000000001001000000003000400",
        ),
        (
            Bitmap,
            "STRING",
            ten.clone(),
            &texts,
            "02000000060000000401fffffffb00000012000000010000000000000000000000370000000400000000fffffffaffffffff0000000161ffffffffffffffff000000016200000000000000140000000163fffffffcffffffff3a30000001000000000001001000000001000200",
        ),
        (
            Bitmap,
            "TIMESTAMP(9)",
            ten.clone(),
            &signs,
            "0200000004000000030000000001fffffffffffffffe000000000000003400000003fffffffffffffffefffffffdffffffffffffffffffffffff00000000000000140000000000000001fffffffcffffffff3a30000001000000000001001000000000000100",
        ),
        (BitSliced, "INT", ten.clone(), &nulls, "01000000020000"),
        (BitSliced, "INT", ten.clone(), &none, "01000000000000"),
        (
            BitSliced,
            "TIMESTAMP(9)",
            ten.clone(),
            &signs,
            "01000000040101000000000000000000000000000000013a3000000100000000000000100000000300000000013a30000001000000000000001000000003000101000000000000000000000000000000023a300000010000000000020010000000000001000200000000023a300000010000000000010010000000000001003a3000000100000000000000100000000200",
        ),
        (
            BitSliced,
            "DECIMAL(30, 2)",
            ten.clone(),
            &wide,
            "01000000050101000000000000000000000000000000033a3000000100000000000300100000000000010003000400000000023a3000000100000000000200100000000000030004003a30000001000000000002001000000001000300040000",
        ),
        (BloomFilter, "INT", ten.clone(), &nulls, "00000003000000000000"),
        (BloomFilter, "FLOAT", ten.clone(), &floats, "00000003091b05202020"),
        (
            RangeBitmap,
            "INT",
            with_chunks(0),
            &digits,
            "000000150100000005000000030000000100000003000000680000000d01000000030000000c0000004b0000000000000019000000320100000001000000000000000000000000000000000000000401000000020000000100000000000000000000000000000004010000000300000002000000000000000000000000000000040000001a01020000001800000010000000000000001200000012000000143a30000001000000000003001000000000000100030004003a30000001000000000000001000000001003a30000001000000000001001000000003000400",
        ),
        (
            RangeBitmap,
            "FLOAT",
            ten.clone(),
            &floats,
            "00000015010000000800000005bf8000007fc000000000003e0000000d010000000100000004000000190000000001bf800000000000000000000000000004000000100000000480000000000000007f8000007fc000000000002201030000001300000018000000000000001400000014000000160000002a000000143b3000000100000600020000000500070000003a300000010000000000010010000000000004003a3000000100000000000200100000000100040007003a30000001000000000001001000000002000300",
        ),
        (
            RangeBitmap,
            "STRING",
            ten.clone(),
            &texts,
            "00000016010000000600000004000000000000000163000000490000000d010000000100000004000000190000000001000000000000000000000000000000030000000c0000000f00000000000000050000000a0000000161000000016200000001630000001a01020000001a00000010000000000000001400000014000000163a300000010000000000040010000000000001000200030005003a300000010000000000010010000000000003003a300000010000000000020010000000010002000300",
        ),
        (
            RangeBitmap,
            "INT",
            ten.clone(),
            &(Arc::new(Int32Array::from(vec![1])) as ArrayRef),
            "0000001501000000010000000100000001000000010000002e0000000d010000000100000004000000190000000001000000010000000000000000000000000000000000000004000000120101000000120000000800000000000000083a30000001000000000000001000000000003a30000000000000",
        ),
        (
            RangeBitmap,
            "SMALLINT",
            with_chunks(16),
            &(Arc::new(Int16Array::from(vec![Some(1), Some(2), None, Some(3), Some(3)])) as ArrayRef),
            "0000001101000000050000000300010003000000300000000d01000000010000000400000017000000000100010000000000000000000000020000000400000002000200030000001a01020000001800000010000000000000001200000012000000143a30000001000000000003001000000000000100030004003a30000001000000000000001000000001003a30000001000000000001001000000003000400",
        ),
    ];
    for (kind, data_type, options, array, java) in cases {
        assert_eq!(hex(&write(kind, data_type, &options, array)), java, "{} {data_type}", kind.name());
    }
}

/// The numbers that the files were made of whose sums stand below.
pub(super) fn numbers(seed: u64, rows: usize) -> impl Iterator<Item = u64> {
    let mut state = seed;
    std::iter::repeat_with(move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    })
    .take(rows)
}

/// 20,000 values between `-distinct / 2` and that, a tenth of them NULL.
fn column_of_numbers(seed: u64, distinct: i64) -> Vec<Option<i64>> {
    numbers(seed, 20_000).map(|n| (n % 10 != 0).then(|| (n / 10) as i64 % distinct - distinct / 2)).collect()
}

fn integers(seed: u64, distinct: i64) -> ArrayRef {
    Arc::new(Int32Array::from_iter(
        column_of_numbers(seed, distinct).into_iter().map(|value| value.map(|value| value as i32)),
    ))
}

fn longs(seed: u64, distinct: i64) -> ArrayRef {
    Arc::new(Int64Array::from(column_of_numbers(seed, distinct)))
}

fn words(seed: u64, distinct: i64) -> ArrayRef {
    let words = column_of_numbers(seed, distinct).into_iter().map(|value| value.map(|value| format!("v{value}")));
    Arc::new(StringViewArray::from_iter(words))
}

/// Lengths and sums of what Java 1.4 writes for many rows: dictionaries of several chunks, bitmaps of all kinds.
#[test]
fn write_when_java_14_wrote_many_rows_then_same_sums() {
    use IndexKind::{BitSliced, BloomFilter, RangeBitmap};
    let shorts: ArrayRef = Arc::new(Int16Array::from_iter(
        column_of_numbers(4, 300).into_iter().map(|value| value.map(|value| value as i16)),
    ));
    let filter = |items, fpp| IndexOptions { items, fpp, ..IndexOptions::default() };
    let chunks = IndexOptions { chunk_size: Some(100), ..IndexOptions::default() };
    for (kind, data_type, options, array, length, sum) in [
        (RangeBitmap, "BIGINT", IndexOptions::default(), longs(1, 5000), 150_678, 0xdc98_7cb6),
        (RangeBitmap, "STRING", IndexOptions::default(), words(2, 5000), 175_259, 0x9034_0a8f),
        (RangeBitmap, "INT", IndexOptions::default(), integers(3, 100_000), 188_852, 0x0cd3_4bf5),
        (RangeBitmap, "SMALLINT", IndexOptions::default(), shorts, 86_169, 0x9afd_52df),
        (RangeBitmap, "STRING", chunks, words(2, 5000), 183_869, 0x355e_8deb),
        (BitSliced, "BIGINT", IndexOptions::default(), longs(5, 100_000_000), 435_301, 0xbea1_39e6),
        (BloomFilter, "BIGINT", filter(20_000, 0.01), longs(6, 100_000_000), 23_967, 0x0450_6183),
        (BloomFilter, "STRING", filter(1000, 0.1), words(7, 5000), 604, 0x417e_15c3),
    ] {
        let bytes = write(kind, data_type, &options, &array);
        assert_eq!((bytes.len(), crc32fast::hash(&bytes)), (length, sum), "{} {data_type}", kind.name());
    }
}

/// As above; Java's bitmaps lie in another order, so that the sum is that of its bytes brought [`in_order`]. (Of version 1, ours: Java finds all
/// rows in it.)
#[test]
fn write_when_java_14_wrote_many_bitmaps_then_same_sums_in_order() {
    for (data_type, version, array, length, sum) in [
        ("INT", 2, integers(8, 300), 48_454, 0x1ef8_76dc),
        ("STRING", 2, words(9, 5000), 192_423, 0x099f_00d5),
        ("INT", 2, integers(10, 3), 28_660, 0xc196_eb9c),
        ("STRING", 1, words(9, 5000), 172_844, 0x112c_7533),
    ] {
        let bytes = write(IndexKind::Bitmap, data_type, &IndexOptions { version, ..IndexOptions::default() }, &array);
        assert_eq!(bytes.len(), length, "{data_type}");
        assert_eq!(crc32fast::hash(&bytes), sum, "{data_type}");
    }
}

#[test]
fn write_when_a_value_is_longer_than_a_block_then_a_block_of_its_own() {
    // Java refuses to write such values, and reads them.
    let texts: Vec<String> = vec!["b".repeat(20_000), "a".to_owned(), "c".repeat(17_000), "d".to_owned()];
    let array: ArrayRef = Arc::new(StringViewArray::from_iter_values(&texts));
    for kind in [IndexKind::Bitmap, IndexKind::RangeBitmap] {
        for size in [0, 16 << 10] {
            let options = IndexOptions { block_size: size, chunk_size: Some(size), ..IndexOptions::default() };
            let index = container(kind, write(kind, "STRING", &options, &array));
            for (row, text) in (0..).zip(&texts) {
                let literal: ArrayRef = Arc::new(StringViewArray::from_iter_values([text]));
                let predicate = IndexPredicate::compare(ValueType::Text, Comparison::Eq, &literal).unwrap();
                let answer = index.answer("c", ValueType::Text, &predicate, 4).unwrap();
                assert_eq!(answer, IndexAnswer::Rows(RoaringBitmap::from_iter([row])), "{}", kind.name());
            }
        }
    }
}

fn container(kind: IndexKind, payload: Vec<u8>) -> FileIndex {
    let columns = [ColumnPayloads { name: "c".into(), indexes: vec![(kind, Some(payload))] }];
    FileIndex::parse(write_container(&columns).unwrap().into()).unwrap()
}

#[test]
fn new_when_kind_and_type_or_options_do_not_fit_then_error() {
    use IndexKind::{BitSliced, Bitmap, BloomFilter, RangeBitmap};
    let new = |kind, data_type: &str, options: &IndexOptions| {
        FileIndexWriter::new(kind, &DataType::parse(data_type).unwrap(), options).map(drop)
    };
    let options = IndexOptions::default();
    for (kind, refused, taken) in [
        (
            BloomFilter,
            &["BOOLEAN", "DECIMAL(8, 2)", "VARIANT"][..],
            &["CHAR(4)", "BINARY(4)", "BYTES", "TIME(3)", "TIMESTAMP(9)"][..],
        ),
        (Bitmap, &["BYTES", "BINARY(4)", "DECIMAL(8, 2)"], &["CHAR(4)", "BOOLEAN", "TIMESTAMP(9)", "DOUBLE"]),
        (
            BitSliced,
            &["STRING", "BOOLEAN", "FLOAT", "DOUBLE", "BYTES"],
            &["DECIMAL(8, 2)", "DECIMAL(38, 2)", "TIMESTAMP(9)"],
        ),
        (RangeBitmap, &["BYTES", "TIMESTAMP(9)", "DECIMAL(30, 2)"], &["CHAR(4)", "BOOLEAN", "DECIMAL(18, 2)", "FLOAT"]),
    ] {
        for data_type in refused {
            let error = new(kind, data_type, &options).unwrap_err().to_string();
            assert!(error.contains(kind.name()), "{error}");
        }
        for data_type in taken {
            new(kind, data_type, &options).unwrap();
        }
    }
    for (items, fpp) in [(10, 0.0), (i64::MAX, 0.1), (1_000_000_000, 0.1)] {
        let error = new(BloomFilter, "INT", &IndexOptions { items, fpp, ..options.clone() }).unwrap_err().to_string();
        assert!(error.contains("items") && error.contains("fpp"), "{error}");
    }
    new(BloomFilter, "INT", &IndexOptions { items: 1, fpp: 5e-324, ..options.clone() }).unwrap();
    assert!(new(Bitmap, "INT", &IndexOptions { version: 3, ..options }).is_err());
}

#[test]
fn add_when_value_can_not_be_held_then_error() {
    let mut writer =
        FileIndexWriter::new(IndexKind::BitSliced, &DataType::parse("BIGINT").unwrap(), &IndexOptions::default())
            .unwrap();
    assert!(writer.add(&Int64Array::from(vec![i64::MIN])).is_err());
    assert!(writer.add(&Int32Array::from(vec![1])).is_err(), "another type");
    let wide = DataType::parse("DECIMAL(30, 2)").unwrap();
    let mut writer = FileIndexWriter::new(IndexKind::BitSliced, &wide, &IndexOptions::default()).unwrap();
    let decimals = Decimal128Array::from(vec![99_999_999_999_999_999_999]).with_precision_and_scale(30, 2).unwrap();
    assert!(writer.add(&decimals).unwrap_err().to_string().contains("64 bits"));
}

#[test]
fn write_container_when_no_row_was_fed_then_empty_index() {
    let columns = [ColumnPayloads {
        name: "a".into(),
        indexes: vec![(IndexKind::Bitmap, None), (IndexKind::BitSliced, Some(vec![1]))],
    }];
    let index = FileIndex::parse(write_container(&columns).unwrap().into()).unwrap();
    let (_, indexes) = index.columns().next().unwrap();
    assert_eq!((indexes[0].payload.clone(), indexes[1].payload.as_ref().map(|range| range.len())), (None, Some(1)));
    assert!(FileIndex::parse(write_container(&[]).unwrap().into()).unwrap().columns().next().is_none());
}

/// Arrays of each type that a kind takes, with the values given.
fn arrays(values: &[Option<i64>]) -> Vec<(&'static str, ArrayRef)> {
    let map = |to: fn(i64) -> i64| values.iter().map(move |value| value.map(to));
    let text = |value: i64| format!("{}{value}", "x".repeat(value.unsigned_abs() as usize % 9));
    let texts: Vec<Option<String>> = values.iter().map(|value| value.map(text)).collect();
    vec![
        ("BOOLEAN", Arc::new(BooleanArray::from_iter(values.iter().map(|value| value.map(|value| value % 2 == 0))))),
        (
            "SMALLINT",
            Arc::new(Int16Array::from_iter(map(|value| value % 30_000).map(|value| value.map(|value| value as i16)))),
        ),
        ("BIGINT", Arc::new(Int64Array::from_iter(map(|value| value)))),
        (
            "DECIMAL(18, 3)",
            Arc::new(
                Decimal128Array::from_iter(values.iter().map(|value| value.map(i128::from)))
                    .with_precision_and_scale(18, 3)
                    .unwrap(),
            ),
        ),
        ("TIMESTAMP(3)", Arc::new(TimestampMillisecondArray::from_iter(map(|value| value)))),
        ("TIMESTAMP(6)", Arc::new(TimestampMicrosecondArray::from_iter(map(|value| value)))),
        ("TIMESTAMP(9)", Arc::new(TimestampNanosecondArray::from_iter(map(|value| value * 1000)))),
        (
            "DOUBLE",
            Arc::new(Float64Array::from_iter(values.iter().map(|value| value.map(|value| value as f64 / 4.0 + 0.1)))),
        ),
        ("STRING", Arc::new(StringArray::from(texts.clone()))),
        ("BYTES", Arc::new(BinaryViewArray::from_iter(texts.iter().map(|text| text.as_ref().map(String::as_bytes))))),
    ]
}

/// What every predicate on every value of the column must answer, at least.
fn check_answers(kind: IndexKind, data_type: &str, options: &IndexOptions, array: &ArrayRef) {
    let parsed = DataType::parse(data_type).unwrap();
    let Ok(_) = FileIndexWriter::new(kind, &parsed, options) else { return };
    let values = ValueType::of(&parsed.kind).unwrap();
    let rows = array.len() as u32;
    let index = container(kind, write(kind, data_type, options, array));
    let mut keys = Vec::new();
    values
        .for_each(array, |key| {
            keys.push(key);
            Ok(())
        })
        .unwrap();
    let mut by_key: BTreeMap<&Key<'_>, RoaringBitmap> = BTreeMap::new();
    for (row, key) in (0..).zip(&keys) {
        if let Some(key) = key {
            by_key.entry(key).or_default().insert(row);
        }
    }
    let nulls: RoaringBitmap = (0..rows).filter(|row| keys[*row as usize].is_none()).collect();
    let ask = |predicate: &IndexPredicate| index.answer("c", values, predicate, rows).unwrap();
    for (key, expected) in &by_key {
        let answer = ask(&IndexPredicate::In(vec![Key::clone(key).into_owned()]));
        let expected =
            if kind == IndexKind::BloomFilter { IndexAnswer::Remain } else { IndexAnswer::Rows(expected.clone()) };
        assert_eq!(answer, expected, "{} {data_type} {key:?}", kind.name());
    }
    if kind != IndexKind::BloomFilter {
        let expected = if nulls.is_empty() { IndexAnswer::Skip } else { IndexAnswer::Rows(nulls) };
        assert_eq!(ask(&IndexPredicate::IsNull), expected, "{} {data_type}", kind.name());
    }
    if matches!(kind, IndexKind::BitSliced | IndexKind::RangeBitmap) {
        for key in by_key.keys().step_by(3) {
            let expected: RoaringBitmap =
                by_key.iter().filter(|(other, _)| *other >= key).flat_map(|(_, rows)| rows).collect();
            let from = std::ops::Bound::Included(Key::clone(key).into_owned());
            let answer = ask(&IndexPredicate::Range(from, std::ops::Bound::Unbounded));
            assert_eq!(answer, IndexAnswer::Rows(expected), "{} {data_type} from {key:?}", kind.name());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn write_when_any_values_then_the_reader_finds_their_rows(
        values in prop::collection::vec(prop::option::weighted(0.8, prop_oneof![-20..20i64, -1_000_000_000..1_000_000_000i64]), 0..200),
        size in 0..200u64,
        version in 1..=2,
    ) {
        let options = IndexOptions { items: 50, fpp: 0.05, version, block_size: size, chunk_size: Some(size) };
        for (data_type, array) in arrays(&values) {
            for kind in IndexKind::ALL {
                check_answers(kind, data_type, &options, &array);
            }
        }
    }

    #[test]
    fn answer_when_bytes_of_a_written_index_flip_then_error_or_answer_without_panic(
        values in prop::collection::vec(prop::option::weighted(0.8, -20..20i64), 1..60),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 0..8), 1..4),
        cut in prop::option::weighted(0.2, any::<prop::sample::Index>()),
        version in 1..=2,
    ) {
        let options = IndexOptions { items: 50, fpp: 0.05, version, block_size: 64, chunk_size: Some(20) };
        let rows = values.len() as u32;
        for (data_type, array) in arrays(&values) {
            let parsed = DataType::parse(data_type).unwrap();
            let values = ValueType::of(&parsed.kind).unwrap();
            for kind in IndexKind::ALL {
                if FileIndexWriter::new(kind, &parsed, &options).is_err() {
                    continue;
                }
                let payload = Some(write(kind, data_type, &options, &array));
                let mut bytes =
                    write_container(&[ColumnPayloads { name: "c".into(), indexes: vec![(kind, payload)] }]).unwrap();
                for (at, bit) in &flips {
                    let at = at.index(bytes.len());
                    bytes[at] ^= 1u8 << bit;
                }
                if let Some(cut) = cut {
                    bytes.truncate(cut.index(bytes.len()));
                }
                let Ok(index) = FileIndex::parse(bytes.into()) else { continue };
                let key = values.key(&array).unwrap_or(Key::Integer(0));
                for predicate in [
                    IndexPredicate::In(vec![key.clone()]),
                    IndexPredicate::NotIn(vec![key.clone()]),
                    IndexPredicate::Range(std::ops::Bound::Excluded(key), std::ops::Bound::Unbounded),
                    IndexPredicate::IsNull,
                    IndexPredicate::IsNotNull,
                ] {
                    if let Ok(IndexAnswer::Rows(found)) = index.answer("c", values, &predicate, rows) {
                        prop_assert!(found.max() < Some(rows));
                    }
                }
            }
        }
    }
}
