use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryViewArray, Float64Array, Int32Array, Int64Array, StringArray, StringViewArray};
use arrow::compute::{CastOptions, cast, cast_with_options};

use super::*;
use crate::options::OptionValue;
use crate::spec::binary_row::BinaryRowWriter;
use crate::spec::datum::Datum;

fn types(texts: &[&str]) -> Vec<DataType> {
    texts.iter().map(|text| DataType::parse(text).unwrap()).collect()
}

/// A column out of texts.
fn column(texts: &[Option<&str>], data_type: &DataType) -> ArrayRef {
    if matches!(data_type.kind, TypeKind::VarBinary(_)) {
        let bytes = |text: &str| -> Vec<u8> {
            let digits = text.strip_prefix("0x").unwrap();
            (0..digits.len() / 2).map(|i| u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).unwrap()).collect()
        };
        return Arc::new(texts.iter().map(|text| text.map(bytes)).collect::<BinaryViewArray>());
    }
    let texts = StringViewArray::from_iter(texts.iter().copied());
    let options = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(&texts, &data_type.to_arrow(), &options).unwrap()
}

/// (types of the bucket key, buckets, function, (key, bucket) of each row)
type Table = (&'static [&'static str], i32, &'static str, &'static [(&'static [Option<&'static str>], i32)]);

/// Keys, and the bucket folders that Java put them into.
#[rustfmt::skip]
const TABLES: &[Table] = &[
    // append_tinyint
    (&["TINYINT"], 4, "default", &[
        (&[Some("-127")], 0),
        (&[Some("-3")], 2),
        (&[Some("-1")], 3),
        (&[Some("0")], 3),
        (&[Some("1")], 2),
        (&[Some("2")], 0),
        (&[Some("3")], 1),
        (&[Some("4")], 2),
        (&[Some("127")], 3),
        (&[None], 0),
    ]),
    // append_smallint
    (&["SMALLINT"], 5, "default", &[
        (&[Some("-32767")], 1),
        (&[Some("-300")], 4),
        (&[Some("-1")], 2),
        (&[Some("0")], 4),
        (&[Some("1")], 3),
        (&[Some("2")], 4),
        (&[Some("3")], 0),
        (&[Some("300")], 2),
        (&[Some("32767")], 4),
        (&[None], 4),
    ]),
    // append_bigint
    (&["BIGINT"], 7, "default", &[
        (&[Some("-9223372036854775807")], 0),
        (&[Some("-4294967296")], 5),
        (&[Some("-7")], 0),
        (&[Some("-1")], 0),
        (&[Some("0")], 1),
        (&[Some("1")], 5),
        (&[Some("2")], 4),
        (&[Some("7")], 3),
        (&[Some("4294967296")], 3),
        (&[Some("9223372036854775807")], 0),
        (&[None], 3),
    ]),
    // append_string
    (&["STRING"], 3, "default", &[
        (&[Some("")], 0),
        (&[Some("a")], 0),
        (&[Some("b")], 0),
        (&[Some("abc")], 2),
        (&[Some("abcdef")], 0),
        (&[Some("abcdefg")], 0),
        (&[Some("abcdefgh")], 2),
        (&[Some("hello world")], 2),
        (&[Some("ß")], 1),
        (&[Some("水")], 2),
        (&[Some("häzel")], 0),
        (&[Some("😀")], 0),
        (&[Some("😀😀")], 2),
        (&[Some(" ")], 1),
        (&[Some("a long string of more than thirty-two bytes")], 0),
        (&[None], 2),
    ]),
    // append_char
    (&["CHAR(9)"], 4, "default", &[
        (&[Some("ab       ")], 0),
        (&[Some("abcd     ")], 3),
        (&[Some("zz       ")], 0),
        (&[Some("abcdefgh ")], 1),
        (&[Some("abcdefghi")], 2),
        (&[Some("ß        ")], 2),
        (&[None], 0),
    ]),
    // append_varchar
    (&["VARCHAR(12)"], 5, "default", &[
        (&[Some("ab")], 1),
        (&[Some("abcd")], 0),
        (&[Some("zz")], 1),
        (&[Some("abcdefg")], 3),
        (&[Some("abcdefgh")], 3),
        (&[Some("abcdefghijkl")], 0),
        (&[Some("ß")], 4),
        (&[None], 4),
    ]),
    // append_decimal_compact
    (&["DECIMAL(12, 3)"], 7, "default", &[
        (&[Some("-123456789.001")], 3),
        (&[Some("-1.500")], 0),
        (&[Some("-0.001")], 0),
        (&[Some("0.000")], 1),
        (&[Some("0.001")], 5),
        (&[Some("1.000")], 2),
        (&[Some("1.500")], 6),
        (&[Some("12.340")], 6),
        (&[Some("123456789.999")], 2),
        (&[None], 3),
    ]),
    // append_decimal_18
    (&["DECIMAL(18, 0)"], 3, "default", &[
        (&[Some("-999999999999999999")], 2),
        (&[Some("-1")], 1),
        (&[Some("0")], 0),
        (&[Some("1")], 1),
        (&[Some("7")], 1),
        (&[Some("999999999999999999")], 1),
        (&[None], 2),
    ]),
    // append_decimal_19
    (&["DECIMAL(19, 2)"], 5, "default", &[
        (&[Some("-12345678901234567.89")], 3),
        (&[Some("-0.01")], 0),
        (&[Some("0.00")], 0),
        (&[Some("0.01")], 2),
        (&[Some("1.27")], 3),
        (&[Some("1.28")], 3),
        (&[Some("12345678901234567.89")], 2),
        (&[None], 0),
    ]),
    // append_date
    (&["DATE"], 7, "default", &[
        (&[Some("0001-01-01")], 1),
        (&[Some("1900-01-01")], 2),
        (&[Some("1969-12-31")], 6),
        (&[Some("1970-01-01")], 1),
        (&[Some("1970-01-02")], 5),
        (&[Some("2024-01-01")], 6),
        (&[Some("2024-02-29")], 1),
        (&[Some("9999-12-31")], 3),
        (&[None], 3),
    ]),
    // append_time
    (&["TIME(0)"], 3, "default", &[
        (&[Some("00:00:00")], 0),
        (&[Some("00:00:01")], 2),
        (&[Some("12:34:56")], 2),
        (&[Some("23:59:59")], 1),
        (&[None], 2),
    ]),
    // append_ts0
    (&["TIMESTAMP(0)"], 4, "default", &[
        (&[Some("0001-01-01T00:00:00")], 1),
        (&[Some("1969-12-31T23:59:59")], 3),
        (&[Some("1970-01-01T00:00:00")], 3),
        (&[Some("2024-02-29T12:00:00")], 1),
        (&[Some("9999-12-31T23:59:59")], 2),
        (&[None], 0),
    ]),
    // append_ts3
    (&["TIMESTAMP(3)"], 5, "default", &[
        (&[Some("1969-12-31T23:59:59.999")], 2),
        (&[Some("1970-01-01T00:00:00.001")], 3),
        (&[Some("2024-01-01T00:00:00")], 1),
        (&[Some("2024-02-29T12:00:00.120")], 2),
        (&[Some("9999-12-31T23:59:59.999")], 4),
        (&[None], 4),
    ]),
    // append_ts6
    (&["TIMESTAMP(6)"], 7, "default", &[
        // As inserted; its ORC file holds it a second later (spec/observed.md, Files).
        (&[Some("1969-12-31T23:59:59.999999")], 3),
        (&[Some("1970-01-01T00:00:00.000001")], 2),
        (&[Some("2024-01-01T00:00:00.123456")], 6),
        (&[Some("2024-01-01T00:00:00")], 4),
        (&[Some("2024-02-29T12:00:00.120034")], 5),
        (&[None], 0),
    ]),
    // append_ts9
    (&["TIMESTAMP(9)"], 3, "default", &[
        (&[Some("1969-12-31T23:59:59.999999999")], 2),
        (&[Some("1970-01-01T00:00:00.000000001")], 2),
        (&[Some("2024-01-01T00:00:00.123456789")], 0),
        (&[Some("2024-02-29T12:00:00.120034005")], 1),
        (&[Some("2024-02-29T12:00:00")], 0),
        (&[None], 2),
    ]),
    // append_ltz6 (the first as inserted, as above)
    (&["TIMESTAMP(6) WITH LOCAL TIME ZONE"], 5, "default", &[
        (&[Some("1969-12-31T23:59:59.999999")], 4),
        (&[Some("1970-01-01T00:00:00.000001")], 0),
        (&[Some("2024-01-01T00:00:00.123456")], 2),
        (&[Some("2024-02-29T12:00:00.120034")], 1),
        (&[None], 1),
    ]),
    // append_boolean
    (&["BOOLEAN"], 7, "default", &[
        (&[Some("true")], 5),
        (&[Some("false")], 1),
        (&[None], 3),
    ]),
    // append_binary
    (&["VARBINARY(20)"], 3, "default", &[
        (&[Some("0x")], 0),
        (&[Some("0x00")], 0),
        (&[Some("0x01")], 1),
        (&[Some("0x0102")], 2),
        (&[Some("0x7f")], 1),
        (&[Some("0x80")], 0),
        (&[Some("0xff")], 0),
        (&[Some("0xffffffffffffff")], 1),
        (&[Some("0x0102030405060708")], 0),
        (&[Some("0x010203040506070809")], 2),
        (&[None], 2),
    ]),
    // append_float
    (&["FLOAT"], 5, "default", &[
        (&[Some("-1.5")], 1),
        (&[Some("-0.0")], 4),
        (&[Some("0.0")], 4),
        (&[Some("1.5")], 4),
        (&[Some("3.5")], 1),
        (&[Some("3.4e+38")], 4),
        (&[Some("1.4e-45")], 3),
        (&[Some("NaN")], 4),
        (&[Some("Infinity")], 2),
        (&[Some("-Infinity")], 1),
        (&[None], 4),
    ]),
    // append_double
    (&["DOUBLE"], 7, "default", &[
        (&[Some("-1.5e+300")], 6),
        (&[Some("-0.0")], 5),
        (&[Some("0.0")], 1),
        (&[Some("0.5")], 5),
        (&[Some("3.5")], 1),
        (&[Some("NaN")], 0),
        (&[Some("Infinity")], 1),
        (&[Some("-Infinity")], 4),
        (&[Some("5e-324")], 5),
        (&[Some("1.5e+300")], 2),
        (&[None], 3),
    ]),
    // pk_int
    (&["INT"], 4, "default", &[
        (&[Some("-2147483647")], 2),
        (&[Some("-2")], 1),
        (&[Some("0")], 3),
        (&[Some("2")], 0),
        (&[Some("5")], 0),
        (&[Some("42")], 1),
        (&[Some("2147483647")], 1),
        (&[Some("-100")], 0),
        (&[Some("-1")], 3),
        (&[Some("1")], 2),
        (&[Some("3")], 1),
        (&[Some("7")], 3),
        (&[Some("1000")], 1),
    ]),
    // pk_decimal_wide
    (&["DECIMAL(38, 10)"], 5, "default", &[
        (&[Some("-1234567890123456789012345678.0000000001")], 0),
        (&[Some("-0.0000000001")], 0),
        (&[Some("0.0000000001")], 2),
        (&[Some("255.0000000000")], 0),
        (&[Some("9999999999999999999999999999.9999999999")], 0),
        (&[Some("-1.0000000000")], 1),
        (&[Some("0.0000000000")], 0),
        (&[Some("1.0000000000")], 4),
        (&[Some("256.0000000000")], 2),
    ]),
    // pk_ltz3
    (&["TIMESTAMP(3) WITH LOCAL TIME ZONE"], 5, "default", &[
        (&[Some("1969-12-31T23:59:59.999")], 2),
        (&[Some("2024-01-01T00:00:00")], 1),
        (&[Some("1970-01-01T00:00:00.001")], 3),
        (&[Some("2024-02-29T12:00:00.120")], 2),
    ]),
    // pk_bytes
    (&["BYTES"], 5, "default", &[
        (&[Some("0x00")], 3),
        (&[Some("0x80")], 2),
        (&[Some("0x00000000000000")], 2),
        (&[Some("0x0102")], 4),
        (&[Some("0xff")], 1),
        (&[Some("0x0000000000000000")], 2),
    ]),
    // pk_multi
    (&["STRING", "INT", "DECIMAL(25, 5)", "TIMESTAMP(9)"], 5, "default", &[
        (&[Some("a"), Some("1"), Some("1.50000"), Some("2024-01-01T00:00:00.123456789")], 1),
        (&[Some(""), Some("-1"), Some("-123456789012345.00001"), Some("1969-12-31T23:59:59.999999999")], 0),
        (&[Some("a longer string 水"), Some("0"), Some("0.00000"), Some("1970-01-01T00:00:00")], 1),
        (&[Some("key4"), Some("4"), Some("4.00000"), Some("2004-04-04T04:04:04")], 4),
        (&[Some("key5"), Some("5"), Some("5.00000"), Some("2005-05-05T05:05:05.500")], 3),
        (&[Some("key6"), Some("6"), Some("6.00000"), Some("2006-06-06T06:06:06")], 0),
    ]),
    // pk_bucket_key_subset
    (&["STRING"], 4, "default", &[
        (&[Some("a")], 2),
        (&[Some("")], 3),
        (&[Some("a longer string 水")], 2),
        (&[Some("key4")], 2),
        (&[Some("key5")], 1),
        (&[Some("key6")], 1),
    ]),
    // append_multi
    (&["STRING", "INT", "DECIMAL(25, 5)", "TIMESTAMP(9)"], 5, "default", &[
        (&[Some("a"), Some("1"), Some("1.50000"), Some("2024-01-01T00:00:00.123456789")], 1),
        (&[Some(""), Some("-1"), Some("-123456789012345.00001"), Some("1969-12-31T23:59:59.999999999")], 0),
        (&[Some("a longer string 水"), Some("0"), Some("0.00000"), Some("1970-01-01T00:00:00")], 1),
        (&[Some("key4"), Some("4"), Some("4.00000"), Some("2004-04-04T04:04:04")], 4),
        (&[Some("key5"), Some("5"), Some("5.00000"), Some("2005-05-05T05:05:05.500")], 3),
        (&[Some("key6"), Some("6"), Some("6.00000"), Some("2006-06-06T06:06:06")], 0),
        (&[None, Some("7"), None, Some("2007-07-07T07:07:07")], 4),
        (&[Some("key8"), None, Some("8.00000"), None], 2),
        (&[None, None, None, None], 0),
    ]),
    // append_multi_order
    (&["INT", "STRING"], 5, "default", &[
        (&[Some("1"), Some("a")], 2),
        (&[Some("-1"), Some("")], 4),
        (&[Some("0"), Some("a longer string 水")], 4),
        (&[Some("4"), Some("key4")], 1),
        (&[Some("5"), Some("key5")], 4),
        (&[Some("6"), Some("key6")], 2),
        (&[Some("7"), None], 2),
        (&[None, Some("key8")], 2),
        (&[None, None], 1),
    ]),
    // pk_mod_int
    (&["INT"], 5, "mod", &[
        (&[Some("-2147483647")], 3),
        (&[Some("-8")], 2),
        (&[Some("-3")], 2),
        (&[Some("-2")], 3),
        (&[Some("-1")], 4),
        (&[Some("0")], 0),
        (&[Some("1")], 1),
        (&[Some("2")], 2),
        (&[Some("3")], 3),
        (&[Some("7")], 2),
        (&[Some("8")], 3),
        (&[Some("2147483647")], 2),
    ]),
    // pk_mod_bigint
    (&["BIGINT"], 5, "mod", &[
        (&[Some("-9223372036854775807")], 3),
        (&[Some("-8")], 2),
        (&[Some("-3")], 2),
        (&[Some("-2")], 3),
        (&[Some("-1")], 4),
        (&[Some("0")], 0),
        (&[Some("1")], 1),
        (&[Some("2")], 2),
        (&[Some("3")], 3),
        (&[Some("7")], 2),
        (&[Some("8")], 3),
        (&[Some("9223372036854775807")], 2),
    ]),
    // append_mod_bigint
    (&["BIGINT"], 5, "mod", &[
        (&[Some("-9223372036854775807")], 3),
        (&[Some("-8")], 2),
        (&[Some("-3")], 2),
        (&[Some("-2")], 3),
        (&[Some("-1")], 4),
        (&[Some("0")], 0),
        (&[Some("1")], 1),
        (&[Some("2")], 2),
        (&[Some("3")], 3),
        (&[Some("7")], 2),
        (&[Some("8")], 3),
        (&[Some("9223372036854775807")], 2),
    ]),
];

#[test]
fn buckets_when_tables_of_java_then_its_folders() {
    for (key, buckets, function, rows) in TABLES {
        let types = types(key);
        let columns: Vec<_> = types
            .iter()
            .enumerate()
            .map(|(i, data_type)| column(&rows.iter().map(|(key, _)| key[i]).collect::<Vec<_>>(), data_type))
            .collect();
        let expected: Vec<_> = rows.iter().map(|(_, bucket)| *bucket).collect();
        let function = BucketFunction::from_text(function).unwrap();
        assert_eq!(function.buckets(&columns, &types, *buckets).unwrap(), expected, "{key:?}");
    }
}

fn hash(values: &[(&str, Datum)]) -> i32 {
    let mut row = BinaryRowWriter::new(values.len()).unwrap();
    for (index, (data_type, value)) in values.iter().enumerate() {
        row.write(index, value, &DataType::parse(data_type).unwrap()).unwrap();
    }
    row_hash(row.image())
}

#[test]
fn row_hash_when_worked_examples_then_their_hashes() {
    let text = |text: &str| Datum::Text(text.to_owned());
    let decimal = |unscaled, precision| Datum::Decimal { unscaled, precision, scale: 2 };
    let timestamp = |millis, nanos| Datum::Timestamp { millis, nanos };
    for (expected, data_type, value) in [
        (1_465_514_398, "INT", Datum::Int(1)),
        (1_465_514_398, "BIGINT", Datum::BigInt(1)),
        (1_465_514_398, "BOOLEAN", Datum::Boolean(true)),
        (-300_363_099, "INT", Datum::Int(0)),
        (1_340_390_384, "INT", Datum::Int(2)),
        (-771_300_025, "INT", Datum::Int(3)),
        (1_447_522_506, "INT", Datum::Int(4)),
        (260_196_596, "INT", Datum::Int(5)),
        (907_821_237, "INT", Datum::Int(42)),
        (-1_748_325_344, "INT", Datum::Null),
        (1_145_478_327, "BIGINT", Datum::BigInt(-7)),
        (-101_922_419, "STRING", text("abc")),
        (161_593_394, "STRING", text("hello world")),
        (516_084_738, "DOUBLE", Datum::Double(3.5)),
        (-1_096_042_293, "DECIMAL(10, 2)", decimal(1234, 10)),
        (881_144_972, "DECIMAL(30, 2)", decimal(1_234_567_890_123_456_789_012, 30)),
        (-1_439_008_885, "DATE", Datum::Date(19_723)),
        (-603_952_476, "TIMESTAMP(3)", timestamp(1_704_067_200_000, 0)),
        (941_252_157, "TIMESTAMP(6)", timestamp(1_704_067_200_123, 456_000)),
        (-308_248_439, "BYTES", Datum::Bytes(vec![1, 2])),
    ] {
        assert_eq!(hash(&[(data_type, value.clone())]), expected, "{data_type} {value:?}");
    }
    assert_eq!(hash(&[("INT", Datum::Int(1)), ("STRING", text("a"))]), -948_407_462);
    let hashes: Vec<_> =
        (0..10).map(|i| hash(&[("INT", Datum::Int(i)), ("STRING", text(&format!("key{i}")))])).collect();
    let expected = [
        1_473_980_876,
        1_382_591_585,
        -330_634_827,
        -1_361_981_776,
        2_131_932_211,
        -1_013_218_079,
        1_850_372_562,
        -120_158_791,
        -1_853_551_328,
        1_030_594_723,
    ];
    assert_eq!(hashes, expected);
    let buckets: Vec<_> = hashes.iter().map(|hash| (hash % 4).abs()).collect();
    assert_eq!(buckets, [0, 1, 3, 0, 3, 3, 2, 3, 0, 3]);
}

#[test]
fn bucket_of_row_when_hash_is_negative_then_absolute_remainder() {
    let mut row = BinaryRowWriter::new(1).unwrap();
    row.write(0, &Datum::Text("abc".into()), &DataType::string()).unwrap();
    assert_eq!((bucket_of_row(row.image(), 4), bucket_of_row(row.image(), 16)), (3, 3));
}

#[test]
fn buckets_when_mod_then_never_negative() {
    let buckets = |column: ArrayRef, data_type: &str| BucketFunction::Mod.buckets(&[column], &types(&[data_type]), 5);
    assert_eq!(buckets(Arc::new(Int32Array::from(vec![1, 7, -2])), "INT").unwrap(), [1, 2, 3]);
    assert_eq!(buckets(Arc::new(Int64Array::from(vec![8, 0, -3])), "BIGINT").unwrap(), [3, 0, 2]);
    assert!(buckets(Arc::new(StringArray::from(vec!["a"])), "STRING").is_err());
}

#[test]
fn buckets_when_hive_then_those_of_java() {
    const N: i32 = 1_000_003;
    for (data_type, expected) in [
        ("BOOLEAN", &[(Some("true"), 1), (Some("false"), 0), (None, 0)][..]),
        ("TINYINT", &[(Some("-128"), 477_079)]),
        ("SMALLINT", &[(Some("-300"), 476_907)]),
        ("INT", &[(Some("-7"), 477_200), (None, 0)]),
        ("BIGINT", &[(Some("-7"), 6), (Some("5000000000"), 30_590), (Some("-9223372036854775808"), 0)]),
        ("DATE", &[(Some("2024-01-01"), 19_723), (Some("1969-12-31"), 477_206)]),
        ("TIME(3)", &[(Some("23:59:59.999"), 399_741)]),
        ("DECIMAL(10, 2)", &[(Some("1234.50"), 382_696), (Some("0.00"), 0), (Some("-100.00"), 474_107)]),
        ("DECIMAL(5, 5)", &[(Some("0.00001"), 36)]),
        ("DECIMAL(38, 10)", &[(Some("1234567890123456789012345678.0123456789"), 898_690)]),
        ("DECIMAL(38, 0)", &[(Some("-99999999999999999999999999999999999999"), 197_105)]),
        ("DECIMAL(38, 38)", &[(Some("0.00000000000000000000000000000000000001"), 69)]),
        ("DECIMAL(30, 2)", &[(Some("-1.50"), 476_743), (Some("12345678901234567890.12"), 184_301)]),
        ("DECIMAL(20, 3)", &[(Some("1200.000"), 37_200)]),
        ("DECIMAL(20, 0)", &[(Some("4294967296"), 961)]),
        (
            "STRING",
            &[(Some(""), 0), (Some("日本語"), 985_373), (Some("hello world"), 100_670), (Some("a/b=c:%"), 495_639)],
        ),
        ("CHAR(4)", &[(Some("ab  "), 984_923)]),
        ("BYTES", &[(Some("0x"), 0), (Some("0xff41"), 34), (Some("0x0102030405060708"), 66_152)]),
        (
            "FLOAT",
            &[(Some("0"), 0), (Some("-0.0"), 0), (Some("1"), 350_021), (Some("-1.5"), 544_313), (Some("NaN"), 282_915)],
        ),
        ("DOUBLE", &[(Some("-0.0"), 0), (Some("0.1"), 629_446), (Some("NaN"), 952_922), (Some("-Infinity"), 428_634)]),
    ] {
        let types = types(&[data_type]);
        let (keys, buckets): (Vec<_>, Vec<_>) = expected.iter().copied().unzip();
        let column = column(&keys, &types[0]);
        assert_eq!(BucketFunction::Hive.buckets(&[column], &types, N).unwrap(), buckets, "{data_type}");
    }
    let columns: [ArrayRef; 2] = [Arc::new(Int32Array::from(vec![3])), Arc::new(StringArray::from(vec!["a"]))];
    assert_eq!(BucketFunction::Hive.buckets(&columns, &types(&["INT", "STRING"]), N).unwrap(), [3 * 31 + 97]);
    let timestamps = column(&[Some("2024-01-01T00:00:00")], &types(&["TIMESTAMP(3)"])[0]);
    assert!(BucketFunction::Hive.buckets(&[timestamps], &types(&["TIMESTAMP(3)"]), N).is_err());
}

#[test]
fn buckets_when_columns_are_views_or_not_then_same() {
    let texts = StringArray::from(vec![Some("a"), None, Some("longer than seven")]);
    let views = cast(&texts, &ArrowType::Utf8View).unwrap();
    let dictionary =
        cast(&texts, &ArrowType::Dictionary(Box::new(ArrowType::Int32), Box::new(ArrowType::Utf8))).unwrap();
    let types = types(&["STRING"]);
    let expected = BucketFunction::Default.buckets(&[Arc::new(texts)], &types, 1000).unwrap();
    for column in [views, dictionary] {
        assert_eq!(BucketFunction::Default.buckets(&[column], &types, 1000).unwrap(), expected);
    }
}

#[test]
fn buckets_when_column_or_number_is_wrong_then_error() {
    let column: ArrayRef = Arc::new(Float64Array::from(vec![1.0]));
    for function in [BucketFunction::Default, BucketFunction::Mod, BucketFunction::Hive] {
        assert!(function.buckets(&[Arc::clone(&column)], &types(&["INT"]), 4).is_err());
        assert!(function.buckets(&[Arc::clone(&column)], &types(&["DOUBLE"]), 0).is_err());
    }
}
