//! Tests of the manifest decoder: real files, the same rows under other schemas, and broken bytes.

use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::{Value as Json, json};

use super::{ManifestEntries, ManifestFile};
use crate::house::Random;
use crate::spec::avro::json::{container, rows, schema};
use crate::spec::{index_manifest, manifest_list};

const FLINK13: &[u8] = include_bytes!("../testdata/flink13.manifest");
const JAVA14_COLUMNS: &[u8] = include_bytes!("../testdata/java14-columns.manifest");
const SPARK09: &[u8] = include_bytes!("../testdata/spark09.manifest");
const EMBEDDED_INDEX: &[u8] = include_bytes!("../testdata/embedded-index.manifest");
const EXTRA_FILES: &[u8] = include_bytes!("../testdata/extra-files.manifest");
const SNAPPY: &[u8] = include_bytes!("../testdata/snappy.manifest");
const BZIP2: &[u8] = include_bytes!("../testdata/bzip2.manifest");
const NULL: &[u8] = include_bytes!("../testdata/null.manifest");

const AVRO: [&[u8]; 8] = [FLINK13, JAVA14_COLUMNS, SPARK09, EMBEDDED_INDEX, EXTRA_FILES, SNAPPY, BZIP2, NULL];

/// The entries as JSON, in the shape of [`rows`].
pub(crate) fn entries_as_json(entries: &ManifestEntries) -> Vec<Json> {
    let texts = |texts: &[String]| Json::from_iter(texts.iter().map(|text| json!(text.as_bytes())));
    let known = |value: i64| (value != super::UNKNOWN).then_some(value);
    let stats = |stats: &super::StatsColumn, row: usize| {
        json!({"_MIN_VALUES": stats.min.get(row), "_MAX_VALUES": stats.max.get(row),
            "_NULL_COUNTS": stats.null_counts(row).iter().map(|count| known(*count)).collect::<Vec<_>>()})
    };
    let e = entries;
    let row = |row: usize| {
        json!({
            "_VERSION": 2, "_KIND": e.kind[row], "_PARTITION": e.partition.get(row).as_ref(),
            "_BUCKET": e.bucket[row], "_TOTAL_BUCKETS": e.total_buckets[row],
            "_FILE": {
                "_FILE_NAME": e.file_name.get(row), "_FILE_SIZE": e.file_size[row], "_ROW_COUNT": e.row_count[row],
                "_MIN_KEY": e.min_key.get(row), "_MAX_KEY": e.max_key.get(row),
                "_KEY_STATS": stats(&e.key_stats, row), "_VALUE_STATS": stats(&e.value_stats, row),
                "_MIN_SEQUENCE_NUMBER": e.min_sequence_number[row], "_MAX_SEQUENCE_NUMBER": e.max_sequence_number[row],
                "_SCHEMA_ID": e.schema_id[row], "_LEVEL": e.level[row], "_EXTRA_FILES": texts(e.extra_files.get(row)),
                "_CREATION_TIME": (e.creation_time[row] != i64::MIN).then_some(e.creation_time[row]),
                "_DELETE_ROW_COUNT": known(e.delete_row_count[row]),
                "_EMBEDDED_FILE_INDEX": e.embedded_index.as_ref().and_then(|column| column[row].as_deref()),
                "_FILE_SOURCE": known(e.file_source[row].into()),
                "_VALUE_STATS_COLS": e.value_stats_cols.get(row).as_deref().map(texts),
                "_EXTERNAL_PATH":
                    e.external_path.as_ref().and_then(|column| column[row].as_deref().map(str::as_bytes)),
                "_FIRST_ROW_ID": known(e.first_row_id[row]),
                "_WRITE_COLS": e.write_cols.get(row).as_deref().map(texts),
            },
        })
    };
    (0..entries.len()).map(row).collect()
}

/// Rows as a generic reader sees them, with null for the fields that the file does not have.
fn padded(mut rows: Vec<Json>) -> Vec<Json> {
    for row in &mut rows {
        for field in [
            "_VALUE_STATS_COLS",
            "_EXTERNAL_PATH",
            "_FIRST_ROW_ID",
            "_WRITE_COLS",
            "_EMBEDDED_FILE_INDEX",
            "_FILE_SOURCE",
        ] {
            row["_FILE"].as_object_mut().unwrap().entry(field).or_insert(Json::Null);
        }
    }
    rows
}

/// All ways to decode a manifest, which must agree.
fn decode(bytes: &[u8]) -> Vec<Json> {
    let once = entries_as_json(&ManifestEntries::decode(bytes).unwrap());
    let file = ManifestFile::open(Bytes::copy_from_slice(bytes)).unwrap();
    assert_eq!(entries_as_json(&file.entries(None).unwrap()), once);
    assert_eq!(file.heads().len(), once.len());
    let odd = (0..once.len() as u32).filter(|row| row % 2 == 1).collect::<Vec<_>>();
    let some = entries_as_json(&file.entries(Some(&odd)).unwrap());
    assert_eq!(some, once.iter().skip(1).step_by(2).cloned().collect::<Vec<_>>());
    once
}

fn plain(schema: &Json, rows: &[Json]) -> Vec<u8> {
    container(schema, rows, "null", <[u8]>::to_vec)
}

#[test]
fn decode_when_real_file_then_same_as_the_generic_reader() {
    for bytes in AVRO {
        let decoded = decode(bytes);
        assert!(!decoded.is_empty());
        assert_eq!(decoded, padded(rows(bytes)));
    }
}

#[test]
fn decode_when_flink_upgraded_files_then_known_values() {
    let entries = ManifestEntries::decode(FLINK13).unwrap();
    assert_eq!(entries.kind, [1, 0, 1, 0, 1, 0]);
    assert_eq!(entries.partition.keys, [0, 0, 1, 1, 2, 2]);
    assert_eq!(entries.bucket, [0, 0, 1, 1, 1, 1]);
    assert_eq!(entries.total_buckets, [2; 6]);
    assert_eq!(entries.level, [0, 4, 0, 4, 0, 5]);
    assert_eq!(entries.file_size, [1495, 1495, 1495, 1495, 1509, 1509]);
    assert_eq!(entries.min_sequence_number, [6, 6, 4, 4, 0, 0]);
    assert_eq!(entries.creation_time[0], 1_795_985_336_354);
    assert_eq!(entries.file_name.get(4), b"data-c3dca20d-8d98-46dd-999e-c74de8d24143-0.parquet");
    assert_eq!(entries.min_key.get(5), b"\0\0\0\x01\0\0\0\0\0\0\0\0d\0\0\0\0\0\0\0");
    assert_eq!(entries.value_stats.null_counts(3), [0; 4]);
    assert_eq!(entries.delete_row_count, [0; 6]);
    assert_eq!(entries.first_row_id, [super::UNKNOWN; 6]);
    assert!(entries.write_cols.get(0).is_none() && entries.embedded_index.is_none());
}

#[test]
fn decode_when_optional_fields_are_set_then_known_values() {
    let entries = ManifestEntries::decode(JAVA14_COLUMNS).unwrap();
    assert_eq!((entries.first_row_id[0], entries.schema_id[0], entries.total_buckets[0]), (3, 1, -1));
    assert_eq!(entries.write_cols.get(0).as_deref(), Some(&["a".to_owned()][..]));
    assert!(entries.value_stats_cols.get(0).is_none());

    let entries = ManifestEntries::decode(EMBEDDED_INDEX).unwrap();
    assert_eq!(entries.value_stats_cols.get(0).as_deref(), Some(&["id".to_owned()][..]));
    assert!(entries.embedded_index.unwrap()[0].as_ref().unwrap().starts_with(b"\0\x05NN\xd0\x1a5\xae"));

    let entries = ManifestEntries::decode(EXTRA_FILES).unwrap();
    assert_eq!(**entries.extra_files.get(0), ["data-11884fdf-4c93-4dd3-8416-103b9ea14eb4-0.parquet.index"]);
    assert_eq!(entries.value_stats_cols.get(0).as_deref(), Some(&[][..]));

    // Written before the fields of 1.0 and later were there.
    let entries = ManifestEntries::decode(SPARK09).unwrap();
    assert_eq!(entries.kind, [0, 1]);
    assert_eq!((entries.row_count[1], entries.file_source[1], entries.first_row_id[1]), (3, 0, super::UNKNOWN));
    assert!(entries.value_stats_cols.get(1).is_none());
}

#[test]
fn decode_when_codec_differs_then_same_entries() {
    let (schema, expected) = (schema(FLINK13), decode(FLINK13));
    let deflate = |plain: &[u8]| {
        use std::io::Write;
        let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(plain).unwrap();
        encoder.finish().unwrap()
    };
    for bytes in [
        plain(&schema, &rows(FLINK13)),
        container(&schema, &rows(FLINK13), "deflate", deflate),
        container(&schema, &rows(FLINK13), "zstandard", |plain| zstd::bulk::compress(plain, 3).unwrap()),
    ] {
        assert_eq!(decode(&bytes), expected);
    }
    assert!(ManifestEntries::decode(&container(&schema, &rows(FLINK13), "lzo", <[u8]>::to_vec)).is_err());
}

/// Applies `change` to the fields of every record of a schema.
fn change_records(schema: &mut Json, change: &mut impl FnMut(&mut Vec<Json>)) {
    match schema {
        Json::Array(list) => list.iter_mut().for_each(|inner| change_records(inner, change)),
        Json::Object(object) => {
            if let Some(Json::Array(fields)) = object.get_mut("fields") {
                fields.iter_mut().for_each(|field| change_records(&mut field["type"], change));
                change(fields);
            } else if let Some(inner) = object.get_mut("items") {
                change_records(inner, change);
            }
        }
        _ => {}
    }
}

#[test]
fn decode_when_fields_are_reordered_then_same_entries() {
    for bytes in AVRO {
        let mut schema = schema(bytes);
        change_records(&mut schema, &mut |fields| fields.reverse());
        assert_eq!(decode(&plain(&schema, &rows(bytes))), decode(bytes));
    }
}

#[test]
fn decode_when_fields_are_unknown_then_passed_over() {
    for bytes in AVRO {
        let mut schema = schema(bytes);
        change_records(&mut schema, &mut |fields| {
            let list = json!({"type": "array", "items": ["null", "long"]});
            fields.insert(1, json!({"name": "_NEW", "type": ["null", list, "string"]}));
            fields.push(json!({"name": "_LAST", "type": ["null", "double"]}));
        });
        assert_eq!(decode(&plain(&schema, &rows(bytes))), decode(bytes));
    }
}

#[test]
fn decode_when_everything_is_nullable_in_any_order_then_same_entries() {
    for bytes in AVRO {
        for null_first in [true, false] {
            // As writers before 0.9 did it, down to the whole entry.
            let mut schema = schema(bytes);
            change_records(&mut schema, &mut |fields| {
                for field in fields {
                    let inner = match field["type"].take() {
                        Json::Array(branches) => branches[1].clone(),
                        inner => inner,
                    };
                    field["type"] = if null_first { json!(["null", inner]) } else { json!([inner, "null"]) };
                }
            });
            let schema = if null_first { json!(["null", schema]) } else { json!([schema, "null"]) };
            assert_eq!(decode(&plain(&schema, &rows(bytes))), decode(bytes));
        }
    }
}

#[test]
fn decode_when_values_are_not_allowed_then_error_and_never_a_row() {
    let (schema, good) = (schema(FLINK13), rows(FLINK13));
    let text = |text: &str| json!(text.as_bytes());
    for (pointer, value) in [
        ("/_VERSION", json!(3)),
        ("/_KIND", json!(2)),
        ("/_KIND", json!(-1)),
        ("/_BUCKET", json!(1i64 << 40)),
        ("/_FILE/_FILE_NAME", text("")),
        ("/_FILE/_FILE_NAME", text("..")),
        ("/_FILE/_FILE_NAME", text("../../secret")),
        ("/_FILE/_FILE_NAME", json!([0xff, 0x20, 0x20])),
        ("/_FILE/_EXTRA_FILES", json!([text("a/b")])),
        ("/_FILE/_FILE_SIZE", json!(-1)),
        ("/_FILE/_ROW_COUNT", json!(-1)),
        ("/_FILE/_DELETE_ROW_COUNT", json!(-1)),
        ("/_FILE/_FILE_SOURCE", json!(9)),
        ("/_FILE/_EXTERNAL_PATH", json!([0xff])),
    ] {
        let mut bad = good.clone();
        *bad[3].pointer_mut(pointer).unwrap() = value;
        let bytes = plain(&schema, &bad);
        assert!(ManifestEntries::decode(&bytes).is_err(), "{pointer}");
        let file = ManifestFile::open(Bytes::from(bytes));
        assert!(file.and_then(|file| file.entries(None)).is_err(), "{pointer}");
    }
}

#[test]
fn decode_when_required_field_is_missing_then_error_names_it() {
    for name in ["_VERSION", "_PARTITION", "_FILE", "_FILE_NAME", "_LEVEL", "_MIN_VALUES"] {
        let mut schema = schema(FLINK13);
        change_records(&mut schema, &mut |fields| fields.retain(|field| field["name"] != name));
        let error = ManifestEntries::decode(&plain(&schema, &rows(FLINK13))).unwrap_err();
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[test]
fn entries_when_rows_are_out_of_order_or_range_then_error() {
    let file = ManifestFile::open(Bytes::from_static(FLINK13)).unwrap();
    for rows in [&[1, 0][..], &[2, 2], &[6]] {
        assert!(file.entries(Some(rows)).is_err());
    }
    assert!(file.entries(Some(&[])).unwrap().is_empty());
}

#[test]
fn decode_when_manifest_is_big_then_threads_give_the_same_as_one() {
    let (schema, few) = (schema(EMBEDDED_INDEX), rows(EMBEDDED_INDEX));
    let many: Vec<Json> = (0..6_000)
        .map(|index: u32| {
            let mut row = few[0].clone();
            row["_KIND"] = json!(index % 2);
            row["_PARTITION"] = json!((index / 700 % 5).to_be_bytes());
            row["_FILE"]["_FILE_NAME"] = json!(format!("data-{index}.parquet").as_bytes());
            row["_FILE"]["_EXTRA_FILES"] = json!([format!("data-{}.index", index / 2).as_bytes()]);
            row["_FILE"]["_EXTERNAL_PATH"] = if index < 5_000 { Json::Null } else { json!(b"s3://there/x") };
            row["_FILE"]["_MIN_KEY"] = json!((index / 4_000).to_be_bytes());
            row
        })
        .collect();
    let bytes = plain(&schema, &many);
    assert!(bytes.len() > 2 * (512 << 10));
    assert_eq!(decode(&bytes), many);
}

#[test]
fn decode_when_bytes_are_broken_then_error_or_rows_but_soon_and_no_panic() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    // Plain blocks let the mutations through to the entries.
    let mut files: Vec<Vec<u8>> = AVRO.iter().map(|bytes| plain(&schema(bytes), &rows(bytes))).collect();
    files.extend(AVRO.iter().map(|bytes| bytes.to_vec()));
    for bytes in [
        &include_bytes!("../testdata/java14.manifest-list")[..],
        include_bytes!("../testdata/java14-vectors.index-manifest"),
        include_bytes!("../testdata/java14-btree.index-manifest"),
    ] {
        files.push(bytes.to_vec());
        files.push(plain(&schema(bytes), &rows(bytes)));
    }
    for round in 0..4_000 {
        let file = &files[round % files.len()];
        let mut broken = file.clone();
        // Most of a file is its schema: every other mutation hits the rows.
        let from = if (round / files.len()).is_multiple_of(2) { 0 } else { file.len() * 3 / 4 };
        match random.below(4) {
            0 => broken.truncate(from + random.below(file.len() - from)),
            1 => {
                let (at, len) = (from + random.below(file.len() - from), random.below(12));
                broken.splice(at..(at + len).min(file.len()), []);
            }
            2 => {
                let at = from + random.below(file.len() - from);
                broken.splice(at..at, [0xff, 0xff, 0xff, 0xff, 0x7f]);
            }
            _ => {
                for _ in 0..=random.below(3) {
                    let at = from + random.below(file.len() - from);
                    broken[at] ^= 1 << random.below(8);
                }
            }
        }
        let start = Instant::now();
        let _ = ManifestEntries::decode(&broken);
        if let Ok(manifest) = ManifestFile::open(Bytes::from(broken.clone())) {
            let _ = manifest.entries(None);
        }
        let _ = manifest_list::decode_manifest_list(&broken);
        let _ = index_manifest::decode_index_manifest(&broken);
        assert!(start.elapsed() < Duration::from_secs(10), "round {round}");
    }
}
