use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Int32Array, StringArray, TimestampMicrosecondArray, TimestampNanosecondArray,
    TimestampSecondArray,
};
use arrow::datatypes::{Int32Type, TimestampMicrosecondType};
use arrow::util::display::array_value_to_string;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::house::Random;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|byte| byte.is_ascii_hexdigit()).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn types(texts: &[&str]) -> Vec<DataType> {
    texts.iter().map(|text| DataType::parse(text).unwrap()).collect()
}

fn text(text: &str) -> Datum {
    Datum::Text(text.to_owned())
}

fn decimal(unscaled: i128, precision: u8, scale: u8) -> Datum {
    Datum::Decimal { unscaled, precision, scale }
}

fn timestamp(millis: i64, nanos: i32) -> Datum {
    Datum::Timestamp { millis, nanos }
}

fn write(values: &[Datum], types: &[DataType]) -> Vec<u8> {
    let mut row = BinaryRowWriter::new(values.len()).unwrap();
    for (index, (value, data_type)) in values.iter().zip(types).enumerate() {
        row.write(index, value, data_type).unwrap();
    }
    row.serialized().to_vec()
}

fn read(row: &[u8], types: &[DataType]) -> Vec<Datum> {
    let row = BinaryRow::from_serialized(row).unwrap();
    types.iter().enumerate().map(|(index, data_type)| row.datum(index, data_type).unwrap()).collect()
}

#[test]
fn row_when_worked_example_then_same_bytes_and_back() {
    let millis = 1_704_164_645_678;
    for (names, values, row) in [
        (&[][..], vec![], "00000000 0000000000000000"),
        (&["INT"], vec![Datum::Int(2)], "00000001 0000000000000000 0200000000000000"),
        (
            &["INT", "STRING"],
            vec![Datum::Int(2), text("Native full text")],
            "00000002 0000000000000000 0200000000000000 1000000018000000 4e61746976652066756c6c2074657874",
        ),
        (
            &["STRING", "INT"],
            vec![text("1"), Datum::Int(1)],
            "00000002 0000000000000000 3100000000000081 0100000000000000",
        ),
        (&["STRING"], vec![text("min_key")], "00000001 0000000000000000 6d696e5f6b657987"),
        (
            &["STRING", "INT"],
            vec![text("20240102"), Datum::Int(7)],
            "00000002 0000000000000000 0800000018000000 0700000000000000 3230323430313032",
        ),
        (
            &["STRING", "INT"],
            vec![Datum::Null, Datum::Int(8)],
            "00000002 0001000000000000 0000000000000000 0800000000000000",
        ),
        (
            &["DATE", "TIMESTAMP(6)", "BOOLEAN"],
            vec![Datum::Date(19_724), timestamp(millis, 901_000), Datum::Boolean(true)],
            "00000003 0000000000000000 0c4d000000000000 88bf0d0020000000 0100000000000000 2edb20c88c010000",
        ),
        (
            &["DECIMAL(30, 2)"],
            vec![decimal(1_234_567_890_123_456_789_012, 30, 2)],
            "00000001 0000000000000000 0900000010000000 42ed123b0bd8203a 1400000000000000",
        ),
        // The shortest bytes keep the sign: 0x80 needs a byte before it, -0x80 does not.
        (
            &["DECIMAL(19, 0)", "DECIMAL(19, 0)", "DECIMAL(19, 0)"],
            vec![decimal(128, 19, 0), decimal(-128, 19, 0), decimal(0, 19, 0)],
            "00000003 0000000000000000 0200000020000000 0100000030000000 0100000040000000 \
             00800000000000000000000000000000 80000000000000000000000000000000 00000000000000000000000000000000",
        ),
        (
            &["DECIMAL(30, 2)"],
            vec![Datum::Null],
            "00000001 0001000000000000 0000000010000000 0000000000000000 0000000000000000",
        ),
        (&["TIMESTAMP(9)"], vec![Datum::Null], "00000001 0001000000000000 0000000010000000 0000000000000000"),
        (&["TIMESTAMP(3)"], vec![Datum::Null], "00000001 0001000000000000 0000000000000000"),
    ] {
        let types = types(names);
        assert_eq!(write(&values, &types), hex(row), "{names:?}");
        assert_eq!(read(&hex(row), &types), values, "{names:?}");
    }
}

const ALL_TYPES: [&str; 18] = [
    "BOOLEAN",
    "TINYINT",
    "SMALLINT",
    "INT",
    "BIGINT",
    "FLOAT",
    "DOUBLE",
    "DECIMAL(10, 2)",
    "DECIMAL(30, 4)",
    "STRING",
    "STRING",
    "BYTES",
    "DATE",
    "TIME(3)",
    "TIMESTAMP(3)",
    "TIMESTAMP(6)",
    "TIMESTAMP(9)",
    "TIMESTAMP(6) WITH LOCAL TIME ZONE",
];

/// A row of [`ALL_TYPES`] that Java wrote.
const FULL: &str = "0000001200000000000000000100000000000000ff00000000000000feff000000000000fdffffff00000000fcffffff\
    ffffffff0000c03f0000000000000000000004c039300000000000000a0000009800000073686f72740000850d000000\
    a800000009000000b80000000b4d000000000000fadc3700000000002edb20c88c01000088bf0d00c800000072c00d00\
    d000000088bf0d00d8000000e5db64e0ef5f9369500e00000000000061206c6f6e676572207465787400000001020304\
    0506070809000000000000002edb20c88c0100002edb20c88c0100002edb20c88c010000";

/// A row of [`ALL_TYPES`] that Java wrote, all NULL.
const NULLS: &str = "0000001200ffff0300000000000000000000000000000000000000000000000000000000000000000000000000000000\
    000000000000000000000000000000000000000000000000000000000000000098000000000000000000000000000000\
    00000000000000000000000000000000000000000000000000000000000000000000000000000000a800000000000000\
    b000000000000000b8000000000000000000000000000000000000000000000000000000000000000000000000000000\
    00000000";

fn full() -> Vec<Datum> {
    let millis = 1_704_164_645_678;
    vec![
        Datum::Boolean(true),
        Datum::TinyInt(-1),
        Datum::SmallInt(-2),
        Datum::Int(-3),
        Datum::BigInt(-4),
        Datum::Float(1.5),
        Datum::Double(-2.5),
        decimal(12_345, 10, 2),
        decimal(-123_456_789_012_345_678_901_234, 30, 4),
        text("short"),
        text("a longer text"),
        Datum::Bytes((1..10).collect()),
        Datum::Date(19_723),
        Datum::Time(3_661_050),
        timestamp(millis, 0),
        timestamp(millis, 901_000),
        timestamp(millis, 901_234),
        timestamp(millis, 901_000),
    ]
}

#[test]
fn row_when_java_wrote_all_types_then_same_values_and_same_bytes() {
    let types = types(&ALL_TYPES);
    assert_eq!(read(&hex(FULL), &types), full());
    assert_eq!(write(&full(), &types), hex(FULL));
    let nulls = vec![Datum::Null; types.len()];
    assert_eq!(read(&hex(NULLS), &types), nulls);
    assert_eq!(write(&nulls, &types), hex(NULLS));
}

#[test]
fn decode_column_when_all_types_then_values_nulls_and_same_bytes_again() {
    let types = types(&ALL_TYPES);
    let (full_row, null_row) = (hex(FULL), hex(NULLS));
    let rows = [Some(&full_row[..]), None, Some(&null_row), Some(&EMPTY_ROW), Some(&full_row)];
    let mut columns = Vec::new();
    for (index, (data_type, value)) in types.iter().zip(full()).enumerate() {
        let column = decode_column(rows, index, data_type).unwrap();
        let expected = value.to_array(data_type, 1).unwrap();
        assert_eq!((column.data_type(), column.len()), (&data_type.to_arrow(), 5));
        assert_eq!((column.slice(0, 1).as_ref(), column.slice(4, 1).as_ref()), (expected.as_ref(), expected.as_ref()));
        assert_eq!(column.null_count(), 3);
        columns.push(column);
    }
    let encoded = encode_rows(&columns, &types).unwrap();
    assert_eq!(encoded.len(), 5);
    assert_eq!(encoded.iter().collect::<Vec<_>>(), [&full_row, &null_row, &null_row, &null_row, &full_row]);
    assert_eq!(encoded.image(1), &null_row[4..]);
}

#[test]
fn is_null_when_no_bytes_are_reserved_then_null_bit_decides() {
    // What other writers than Java leave for the NULL of a wide type: a slot of zeros and nothing behind it.
    let row = hex("00000002 0003000000000000 0000000000000000 0000000000000000");
    let types = types(&["DECIMAL(30, 2)", "TIMESTAMP(9)"]);
    assert_eq!(read(&row, &types), [Datum::Null, Datum::Null]);
    for (index, data_type) in types.iter().enumerate() {
        assert!(decode_column([Some(&row[..])], index, data_type).unwrap().is_null(0));
    }
    let reserved = hex("00000001 0001000000000000 0000000010000000 0000000000000000");
    assert!(compare_rows(&row[..], &write(&[Datum::Null, Datum::Null], &types), &types).unwrap().is_eq());
    assert!(BinaryRow::from_serialized(&reserved).unwrap().is_null(0));
}

#[test]
fn row_when_more_than_56_fields_then_wider_null_bits() {
    let types = vec![DataType::nullable(TypeKind::Int); 57];
    let values: Vec<_> = (0..57).map(|i| if i % 3 == 0 { Datum::Null } else { Datum::Int(i) }).collect();
    let row = write(&values, &types);
    assert_eq!(row.len(), 4 + 16 + 57 * 8);
    assert_eq!(read(&row, &types), values);
}

#[test]
fn decode_column_when_timestamp_does_not_fit_then_error() {
    let types = types(&["TIMESTAMP(9)"]);
    let row = write(&[timestamp(-62_135_596_800_000, 0)], &types);
    assert_eq!(decode_column([Some(&row[..])], 0, &types[0]).unwrap_err().kind(), crate::ErrorKind::Unsupported);
    assert!(decode_bounds([Some((&row[..], 0))], &types[0]).unwrap().is_null(0));
}

#[test]
fn encode_rows_when_other_arrow_forms_then_same_bytes() {
    let rows = |column: ArrayRef, data_type: &str| {
        encode_rows(&[column], &types(&[data_type])).unwrap().iter().map(<[u8]>::to_vec).collect::<Vec<_>>()
    };
    let nanos: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![-1, 1_001_001]));
    let micros: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![-1, 1_001]));
    let types_6 = types(&["TIMESTAMP(6)"]);
    let expected = [write(&[timestamp(-1, 999_000)], &types_6), write(&[timestamp(1, 1_000)], &types_6)];
    assert_eq!(rows(nanos, "TIMESTAMP(6)"), expected);
    assert_eq!(rows(micros, "TIMESTAMP(6)"), expected);
    let seconds: ArrayRef = Arc::new(TimestampSecondArray::from(vec![-1]));
    assert_eq!(rows(seconds, "TIMESTAMP(3)"), [write(&[timestamp(-1_000, 0)], &types(&["TIMESTAMP(3)"]))]);
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["a longer text"]));
    assert_eq!(rows(texts, "STRING"), [write(&[text("a longer text")], &types(&["STRING"]))]);
    let wrong: ArrayRef = Arc::new(Int32Array::from(vec![1]));
    assert!(encode_rows(&[wrong], &types(&["BIGINT"])).is_err());
}

#[test]
fn encode_rows_when_column_is_a_slice_then_its_rows() {
    let column = Int32Array::from(vec![Some(1), None, Some(3), None]).slice(1, 2);
    let types = types(&["INT"]);
    let encoded = encode_rows(&[Arc::new(column)], &types).unwrap();
    assert_eq!(read(encoded.serialized(0), &types), [Datum::Null]);
    assert_eq!(read(encoded.serialized(1), &types), [Datum::Int(3)]);
}

fn nested_types() -> Vec<DataType> {
    let row = json!({"type": "ROW", "fields": [
        {"id": 0, "name": "a", "type": "INT"}, {"id": 1, "name": "b", "type": "STRING"}, {"id": 2, "name": "c", "type": "TIMESTAMP(6)"}
    ]});
    [
        json!({"type": "ARRAY", "element": "INT"}),
        json!({"type": "ARRAY", "element": "STRING"}),
        json!({"type": "MAP", "key": "STRING NOT NULL", "value": "INT"}),
        row,
        json!({"type": "ARRAY", "element": "TIMESTAMP(9)"}),
        json!({"type": "ARRAY", "element": "DECIMAL(30, 2)"}),
        json!({"type": "ARRAY", "element": "BOOLEAN"}),
        json!({"type": "MULTISET", "element": "INT NOT NULL"}),
        json!({"type": "ARRAY", "element": {"type": "ARRAY", "element": "STRING"}}),
    ]
    .iter()
    .map(|json| DataType::from_json(json).unwrap())
    .collect()
}

/// A row of [`nested_types`] that Java wrote.
const NESTED: &str = "000000090000000000000000180000005000000030000000680000003c0000009800000040000000d800000020000000\
    180100002800000038010000100000006001000024000000700100003800000098010000030000000200000001000000\
    0000000003000000000000000300000002000000780000000000008100000000000000000d0000002000000061206c6f\
    6e67657220746578740000002800000002000000000000006b310000000000820a0000001800000061206c6f6e67206b\
    657900000000000002000000020000000100000000000000000000000004000000000000070000000000000011000000\
    2000000000000000380000006c6f6e676572207468616e20736576656e00000000000000000000000000000002000000\
    0200000072c00d001800000000000000000000002edb20c88c0100000200000002000000020000001800000000000000\
    000000000096000000000000000000000000000003000000020000000100000000000000100000000200000000000000\
    050000000600000002000000000000000200000001000000000000000300000002000000100000002000000000000000\
    000000000800000030000000010000000000000079000000000000810000000000000000";

#[test]
fn decode_column_when_java_wrote_nested_values_then_same_values_and_same_bytes_again() {
    let row = hex(NESTED);
    let types = nested_types();
    let expected = [
        "[1, , 3]",
        "[x, , a longer text]",
        "{k1: 1, a long key: }",
        "{a: 7, b: longer than seven, c: }",
        "[2024-01-02T03:04:05.678901234, ]",
        "[1.50, ]",
        "[true, , false]",
        "{5: 2, 6: 1}",
        "[[y], , []]",
    ];
    let mut columns = Vec::new();
    for (index, (data_type, expected)) in types.iter().zip(expected).enumerate() {
        let column = decode_column([Some(&row[..]), None, Some(&row)], index, data_type).unwrap();
        assert_eq!(column.data_type(), &data_type.to_arrow());
        assert_eq!(array_value_to_string(&column, 0).unwrap(), expected);
        assert_eq!(array_value_to_string(&column, 2).unwrap(), expected);
        assert!(column.is_null(1));
        columns.push(column);
    }
    let encoded = encode_rows(&columns, &types).unwrap();
    assert_eq!(encoded.serialized(0), row);
    assert_eq!(encoded.serialized(2), row);
    let nulls = read_nulls(encoded.serialized(1), types.len());
    assert!(nulls.iter().all(|null| *null));
}

fn read_nulls(row: &[u8], arity: usize) -> Vec<bool> {
    let row = BinaryRow::from_serialized(row).unwrap();
    (0..arity).map(|index| row.is_null(index)).collect()
}

#[test]
fn decode_column_when_variant_or_vector_then_round_trip() {
    let vector = DataType::from_json(&json!({"type": "VECTOR", "element": "FLOAT NOT NULL", "length": 3})).unwrap();
    // Length 3, then the elements packed.
    let row = hex("00000001 0000000000000000 1000000010000000 03000000 0000803f 00000040 00004040");
    let column = decode_column([Some(&row[..])], 0, &vector).unwrap();
    assert_eq!(array_value_to_string(&column, 0).unwrap(), "[1.0, 2.0, 3.0]");
    assert_eq!(encode_rows(&[column], &[vector]).unwrap().serialized(0), row);
    let variant = DataType::nullable(TypeKind::Variant);
    // Length of the value, the value, the metadata.
    let row = hex("00000001 0000000000000000 0700000010000000 02000000 0c05 01 00");
    let column = decode_column([Some(&row[..]), None], 0, &variant).unwrap();
    assert_eq!(column.as_struct().column(0).as_binary::<i32>().value(0), [0x0c, 5]);
    assert_eq!(column.as_struct().column(1).as_binary::<i32>().value(0), [1]);
    assert!(column.is_null(1));
    assert_eq!(encode_rows(&[column], &[variant]).unwrap().serialized(0), row);
}

#[test]
fn decode_column_when_parts_overlap_then_error_instead_of_growth() {
    // An array of arrays whose elements all are one and the same array.
    let inner: Vec<u8> = [16_i32, 0].iter().flat_map(|n| n.to_le_bytes()).chain([0; 64]).collect();
    let count = 1_000_usize;
    let header = nested::array_header(count);
    let at = (header + count * 8) as u64;
    let mut array = (count as i32).to_le_bytes().to_vec();
    array.resize(header, 0);
    for _ in 0..count {
        array.extend((at << 32 | inner.len() as u64).to_le_bytes());
    }
    array.extend(&inner);
    let mut row = hex("00000001 0000000000000000");
    row.extend((16_u64 << 32 | array.len() as u64).to_le_bytes());
    row.extend(&array);
    let data_type =
        DataType::from_json(&json!({"type": "ARRAY", "element": {"type": "ARRAY", "element": "INT"}})).unwrap();
    let error = decode_column([Some(&row[..])], 0, &data_type).unwrap_err();
    assert_eq!(error.kind(), crate::ErrorKind::Corrupt);
}

#[test]
fn compare_rows_when_order_of_keys_then_sort_keys_agree() {
    for (name, ascending) in [
        ("BOOLEAN", vec![Datum::Null, Datum::Boolean(false), Datum::Boolean(true)]),
        (
            "TINYINT",
            vec![Datum::Null, Datum::TinyInt(-128), Datum::TinyInt(-1), Datum::TinyInt(0), Datum::TinyInt(127)],
        ),
        ("SMALLINT", vec![Datum::SmallInt(-300), Datum::SmallInt(-1), Datum::SmallInt(0), Datum::SmallInt(300)]),
        ("INT", vec![Datum::Null, Datum::Int(i32::MIN), Datum::Int(-1), Datum::Int(0), Datum::Int(i32::MAX)]),
        ("BIGINT", vec![Datum::BigInt(i64::MIN), Datum::BigInt(-1), Datum::BigInt(0), Datum::BigInt(i64::MAX)]),
        (
            "FLOAT",
            [f32::NEG_INFINITY, -1.0, -0.0, 0.0, f32::MIN_POSITIVE, 1.0, f32::INFINITY, f32::NAN]
                .map(Datum::Float)
                .to_vec(),
        ),
        (
            "DOUBLE",
            [f64::NEG_INFINITY, -1.0, -0.0, 0.0, f64::MIN_POSITIVE, 1.0, f64::INFINITY, f64::NAN]
                .map(Datum::Double)
                .to_vec(),
        ),
        ("DECIMAL(10, 2)", [-150, -1, 0, 150].map(|unscaled| decimal(unscaled, 10, 2)).to_vec()),
        ("DECIMAL(30, 2)", [-(1 << 90), -1, 0, 1, 128, 1 << 90].map(|unscaled| decimal(unscaled, 30, 2)).to_vec()),
        (
            "STRING",
            ["", "\0", "\0\u{1}", "\u{1}", "a", "a\0", "a\u{1}", "ab", "b", "\u{ff00}", "😀"].map(text).to_vec(),
        ),
        ("DATE", vec![Datum::Date(-1), Datum::Date(0), Datum::Date(1)]),
        ("TIME(3)", vec![Datum::Time(0), Datum::Time(1)]),
        ("TIMESTAMP(3)", vec![Datum::Null, timestamp(-1, 0), timestamp(0, 0)]),
        ("TIMESTAMP(9)", vec![Datum::Null, timestamp(-1, 0), timestamp(-1, 999_999), timestamp(0, 0), timestamp(0, 1)]),
    ] {
        let types = types(&[name]);
        let comparator = KeyComparator::new(&types).unwrap();
        let rows: Vec<_> = ascending.iter().map(|value| write(std::slice::from_ref(value), &types)).collect();
        let key = |row: &[u8]| {
            let mut key = Vec::new();
            sort_key(row, &types, &mut key).unwrap();
            key
        };
        for (i, a) in rows.iter().enumerate() {
            for (j, b) in rows.iter().enumerate() {
                assert_eq!(comparator.compare(a, b).unwrap(), i.cmp(&j), "{name} {i} {j}");
                assert_eq!(key(a).cmp(&key(b)), i.cmp(&j), "{name} {i} {j}");
            }
        }
    }
}

#[test]
fn compare_rows_when_nan_has_other_bits_then_equal() {
    let types = types(&["DOUBLE"]);
    let (a, b) = (write(&[Datum::Double(f64::NAN)], &types), write(&[Datum::Double(-f64::NAN)], &types));
    assert_ne!(a, b);
    assert!(compare_rows(&a, &b, &types).unwrap().is_eq());
    let (mut key_a, mut key_b) = (Vec::new(), Vec::new());
    sort_key(&a, &types, &mut key_a).unwrap();
    sort_key(&b, &types, &mut key_b).unwrap();
    assert_eq!(key_a, key_b);
}

#[test]
fn compare_rows_when_fields_are_missing_or_nested_then_error() {
    let int = types(&["INT"]);
    assert!(compare_rows(&EMPTY_ROW, &EMPTY_ROW, &int).is_err());
    assert!(compare_rows(&EMPTY_ROW, &EMPTY_ROW, &[]).unwrap().is_eq());
    assert!(KeyComparator::new(&nested_types()).is_err());
}

#[test]
fn read_when_bytes_are_random_then_no_panic() {
    let mut source = Random(7);
    let mut random = move || source.next();
    let mut types = types(&ALL_TYPES);
    types.extend(nested_types());
    types.push(DataType::nullable(TypeKind::Variant));
    let seeds = [hex(FULL), hex(NULLS), hex(NESTED)];
    for round in 0..6_000 {
        let mut row = seeds[round % 3].clone();
        for _ in 0..random() % 12 {
            let at = random() as usize % row.len();
            row[at] = match random() % 4 {
                0 => random() as u8,
                1 => 0,
                2 => 0xff,
                _ => row[at] ^ 1 << (random() % 8),
            };
        }
        row.truncate(if random() % 3 == 0 { random() as usize % row.len() } else { row.len() });
        for index in 0..20 {
            let data_type = &types[random() as usize % types.len()];
            let _ = decode_column([Some(&row[..]), None], index, data_type);
            let _ = decode_bounds([Some((&row[..], index))], data_type);
            if let Ok(row) = BinaryRow::from_serialized(&row) {
                let _ = row.datum(index, data_type);
            }
            let _ = compare_rows(&row, &seeds[0], std::slice::from_ref(data_type));
            let _ = sort_key(&row, std::slice::from_ref(data_type), &mut Vec::new());
        }
    }
}

/// Any value of a type of [`ALL_TYPES`].
fn any_value(data_type: &DataType) -> BoxedStrategy<Datum> {
    let value = match data_type.kind {
        TypeKind::Boolean => any::<bool>().prop_map(Datum::Boolean).boxed(),
        TypeKind::TinyInt => any::<i8>().prop_map(Datum::TinyInt).boxed(),
        TypeKind::SmallInt => any::<i16>().prop_map(Datum::SmallInt).boxed(),
        TypeKind::Int => any::<i32>().prop_map(Datum::Int).boxed(),
        TypeKind::BigInt => any::<i64>().prop_map(Datum::BigInt).boxed(),
        TypeKind::Float => any::<f32>().prop_map(Datum::Float).boxed(),
        TypeKind::Double => any::<f64>().prop_map(Datum::Double).boxed(),
        TypeKind::Decimal(precision, scale) => {
            let bound = 10_i128.pow(precision.into());
            prop_oneof![-200..200_i128, 1 - bound..bound]
                .prop_map(move |value| decimal(value, precision, scale))
                .boxed()
        }
        TypeKind::VarChar(_) => "[\\x00-\\x02a-cé😀]{0,12}".prop_map(Datum::Text).boxed(),
        TypeKind::VarBinary(_) => prop::collection::vec(any::<u8>(), 0..12).prop_map(Datum::Bytes).boxed(),
        TypeKind::Date => any::<i32>().prop_map(Datum::Date).boxed(),
        TypeKind::Time(_) => (0..86_400_000).prop_map(Datum::Time).boxed(),
        TypeKind::Timestamp(precision) | TypeKind::TimestampLtz(precision) => {
            let nanos = match precision {
                0..=3 => Just(0).boxed(),
                4..=6 => (0..1_000).prop_map(|micros| micros * 1_000).boxed(),
                _ => (0..1_000_000).boxed(),
            };
            (-9_000_000_000_000..9_000_000_000_000_i64, nanos)
                .prop_map(|(millis, nanos)| timestamp(millis, nanos))
                .boxed()
        }
        _ => unreachable!("no type of the list"),
    };
    prop_oneof![1 => Just(Datum::Null), 5 => value].boxed()
}

fn any_row() -> impl Strategy<Value = Vec<Datum>> {
    types(&ALL_TYPES).iter().map(any_value).collect::<Vec<_>>()
}

proptest! {
    #[test]
    fn row_when_any_values_then_round_trip(rows in prop::collection::vec(any_row(), 1..8)) {
        let types = types(&ALL_TYPES);
        let written: Vec<_> = rows.iter().map(|row| write(row, &types)).collect();
        for (row, bytes) in rows.iter().zip(&written) {
            prop_assert_eq!(&read(bytes, &types), row);
        }
        let columns: Vec<_> = types
            .iter()
            .enumerate()
            .map(|(index, data_type)| decode_column(written.iter().map(|row| Some(&row[..])), index, data_type).unwrap())
            .collect();
        let encoded = encode_rows(&columns, &types).unwrap();
        prop_assert_eq!(encoded.iter().collect::<Vec<_>>(), written);
    }

    #[test]
    fn sort_key_when_any_rows_then_order_of_values(a in any_row(), b in any_row(), equal in 0_usize..18) {
        let types = types(&ALL_TYPES);
        let mut b = b;
        b[..equal].clone_from_slice(&a[..equal]);
        let (row_a, row_b) = (write(&a, &types), write(&b, &types));
        let (mut key_a, mut key_b) = (Vec::new(), Vec::new());
        sort_key(&row_a, &types, &mut key_a).unwrap();
        sort_key(&row_b, &types, &mut key_b).unwrap();
        prop_assert_eq!(key_a.cmp(&key_b), a.cmp(&b));
        prop_assert_eq!(compare_rows(&row_a, &row_b, &types).unwrap(), a.cmp(&b));
    }
}

#[test]
fn decode_column_when_many_rows_then_every_value() {
    let types = types(&["INT", "TIMESTAMP(6)"]);
    let rows: Vec<_> = (0..5_000).map(|i| write(&[Datum::Int(i), timestamp(i.into(), 1_000)], &types)).collect();
    let cells = || rows.iter().map(|row| Some(&row[..]));
    let numbers = decode_column(cells(), 0, &types[0]).unwrap();
    assert!(numbers.as_primitive::<Int32Type>().values().iter().copied().eq(0..5_000));
    let times = decode_column(cells(), 1, &types[1]).unwrap();
    assert_eq!(times.as_primitive::<TimestampMicrosecondType>().value(4_999), 4_999_001);
}
