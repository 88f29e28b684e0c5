//! Tests of the manifest encoder: real files again, and whatever entries there may be.

use proptest::prelude::*;

use super::*;
use crate::spec::avro::json::{raw_rows, schema_text};
use crate::spec::data_file::{DataFileMeta, EMPTY_ROW};
use crate::spec::manifest::DataFile;
use crate::spec::manifest::golden::entries_as_json;
use crate::spec::manifest_list::{decode_manifest_list, encode_manifest_list};

/// Manifests that Java 1.3 and 1.4 wrote, and the types of their partition columns.
fn java() -> Vec<(&'static [u8], Vec<DataType>)> {
    let types = |types: &[&str]| types.iter().map(|text| DataType::parse(text).unwrap()).collect();
    vec![
        (include_bytes!("../../testdata/flink13.manifest"), types(&["STRING"])),
        (include_bytes!("../../testdata/java14-columns.manifest"), vec![]),
        (include_bytes!("../../testdata/embedded-index.manifest"), vec![]),
        (include_bytes!("../../testdata/extra-files.manifest"), vec![]),
        (include_bytes!("../../testdata/snappy.manifest"), vec![]),
        (include_bytes!("../../testdata/bzip2.manifest"), vec![]),
        (include_bytes!("../../testdata/null.manifest"), vec![]),
    ]
}

/// Encodes decoded entries through their columns and through owned entries.
fn encode_both_ways(entries: &Arc<ManifestEntries>, types: &[DataType]) -> EncodedManifest {
    let mut by_column = ManifestEncoder::new(AvroCodec::NULL, types.to_vec()).unwrap();
    let mut by_entry = ManifestEncoder::new(AvroCodec::NULL, types.to_vec()).unwrap();
    for row in 0..entries.len() {
        let deleted = entries.kind[row] == 1;
        by_column.push_row(entries, row, deleted).unwrap();
        by_entry
            .push(&ManifestEntry::of(&DataFile { entries: Arc::clone(entries), row: row as u32 }, deleted))
            .unwrap();
    }
    assert_eq!(by_column.len(), entries.len());
    let (by_column, by_entry) = (by_column.finish().unwrap(), by_entry.finish().unwrap());
    assert_eq!(raw_rows(&by_column.bytes), raw_rows(&by_entry.bytes));
    assert_eq!(by_column.meta, by_entry.meta);
    by_column
}

#[test]
fn push_when_java_wrote_it_then_same_schema_and_rows() {
    for (java, types) in java() {
        let entries = Arc::new(ManifestEntries::decode(java).unwrap());
        let encoded = encode_both_ways(&entries, &types);
        assert_eq!(schema_text(&encoded.bytes), schema_text(java));
        assert_eq!(raw_rows(&encoded.bytes), raw_rows(java));
    }
}

#[test]
fn push_when_an_old_writer_made_it_then_same_entries() {
    let java = include_bytes!("../../testdata/spark09.manifest");
    let entries = Arc::new(ManifestEntries::decode(java).unwrap());
    let types = [DataType::parse("STRING").unwrap()];
    let encoded = encode_both_ways(&entries, &types[..usize::from(entries.partition.values[0].len() > 12)]);
    assert_eq!(entries_as_json(&ManifestEntries::decode(&encoded.bytes).unwrap()), entries_as_json(&entries));
}

fn entry(partition: &[u8], deleted: bool, file: DataFileMeta) -> ManifestEntry {
    ManifestEntry { deleted, partition: partition.into(), bucket: 3, total_buckets: 4, file: Arc::new(file) }
}

fn file() -> DataFileMeta {
    DataFileMeta {
        file_name: "data-0.parquet".to_owned(),
        file_size: 5,
        row_count: 10,
        min_key: EMPTY_ROW.to_vec(),
        max_key: EMPTY_ROW.to_vec(),
        key_stats: SimpleStats::empty(),
        value_stats: SimpleStats::empty(),
        min_sequence_number: 0,
        max_sequence_number: 9,
        schema_id: 2,
        level: 0,
        extra_files: vec![],
        creation_time: Some(1),
        delete_row_count: Some(0),
        embedded_index: None,
        file_source: Some(FileSource::Append),
        value_stats_cols: None,
        external_path: None,
        first_row_id: Some(100),
        write_cols: None,
    }
}

fn partition(values: &[Datum], types: &[DataType]) -> Vec<u8> {
    let mut row = BinaryRowWriter::new(types.len()).unwrap();
    for (index, (value, data_type)) in values.iter().zip(types).enumerate() {
        row.write(index, value, data_type).unwrap();
    }
    row.serialized().to_vec()
}

#[test]
fn finish_when_entries_differ_then_ranges_over_all() {
    let types = ["INT", "STRING", "BYTES", "DOUBLE"].map(|text| DataType::parse(text).unwrap());
    let mut encoder = ManifestEncoder::new(AvroCodec::parse("zstd", 1).unwrap(), types.to_vec()).unwrap();
    for (number, text, deleted, change) in [
        (Datum::Int(-7), Datum::Text("b".to_owned()), false, (5, 2, Some(100))),
        (Datum::Null, Datum::Text("b".to_owned()), true, (1, 0, Some(50))),
        (Datum::Null, Datum::Text("b".to_owned()), false, (1, 0, Some(101))),
        (Datum::Int(300), Datum::Null, false, (9, 5, Some(70))),
    ] {
        let (schema_id, level, first_row_id) = change;
        let values = [number, text, Datum::Bytes(b"x".to_vec()), Datum::Null];
        let file = DataFileMeta { schema_id, level, first_row_id, ..file() };
        encoder.push(&entry(&partition(&values, &types), deleted, file)).unwrap();
    }
    assert_eq!((encoder.len(), encoder.is_empty()), (4, false));
    let estimated = encoder.estimated_size();
    let encoded = encoder.finish().unwrap();
    assert!(estimated > encoded.bytes.len());
    assert_eq!(ManifestEntries::decode(&encoded.bytes).unwrap().kind, [0, 1, 0, 0]);
    let bound = |number, text: &str| {
        partition(&[Datum::Int(number), Datum::Text(text.to_owned()), Datum::Null, Datum::Null], &types)
    };
    let file_size = encoded.bytes.len() as i64;
    let expected = ManifestMeta {
        file_name: "manifest-1".to_owned(),
        file_size,
        num_added_files: 3,
        num_deleted_files: 1,
        partition_stats: SimpleStats {
            min: bound(-7, "b"),
            max: bound(300, "b"),
            null_counts: vec![Some(2), Some(1), Some(0), Some(4)],
        },
        schema_id: 9,
        min_bucket: Some(3),
        max_bucket: Some(3),
        min_level: Some(0),
        max_level: Some(5),
        min_row_id: Some(50),
        max_row_id: Some(110),
    };
    assert_eq!(encoded.into_meta("manifest-1"), expected);
}

#[test]
fn finish_when_an_entry_has_no_row_id_then_no_range_of_them() {
    for ids in [[None, Some(1)], [Some(1), None]] {
        let mut encoder = ManifestEncoder::new(AvroCodec::NULL, vec![]).unwrap();
        for first_row_id in ids {
            encoder.push(&entry(&EMPTY_ROW, false, DataFileMeta { first_row_id, ..file() })).unwrap();
        }
        let meta = encoder.finish().unwrap().into_meta("x");
        assert_eq!((meta.min_row_id, meta.max_row_id), (None, None));
        assert_eq!(meta.partition_stats, SimpleStats::empty());
    }
}

#[test]
fn finish_when_no_entry_then_empty_manifest() {
    let encoded = ManifestEncoder::new(AvroCodec::NULL, vec![]).unwrap().finish().unwrap();
    assert!(ManifestEntries::decode(&encoded.bytes).unwrap().is_empty());
    let meta = encoded.into_meta("x");
    assert_eq!((meta.num_added_files, meta.min_bucket, meta.min_row_id), (0, None, None));
}

#[test]
fn finish_when_partition_is_of_another_table_then_error() {
    let mut encoder = ManifestEncoder::new(AvroCodec::NULL, vec![DataType::parse("INT").unwrap()]).unwrap();
    encoder.push(&entry(&EMPTY_ROW, false, file())).unwrap();
    assert!(encoder.finish().is_err());
}

#[test]
fn push_when_no_null_counts_were_written_then_null_and_not_a_list_too_short() {
    let row = partition(&[Datum::Int(1)], &[DataType::parse("INT").unwrap()]);
    let stats = |null_counts| SimpleStats { min: row.clone(), max: row.clone(), null_counts };
    for (stats, end) in [(stats(vec![]), &[0][..]), (stats(vec![None]), &[2, 2, 0, 0]), (SimpleStats::empty(), &[2, 0])]
    {
        let mut out = Vec::new();
        StatsParts::of(&stats).put(&mut out);
        assert_eq!(out[2 * (1 + stats.min.len())..], *end);
    }
}

fn any_stats() -> impl Strategy<Value = SimpleStats> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..20);
    // -1 is how columns say null.
    (bytes(), bytes(), prop::collection::vec(prop::option::of(0..i64::MAX), 0..4))
        .prop_map(|(min, max, null_counts)| SimpleStats { min, max, null_counts })
}

fn any_file() -> impl Strategy<Value = DataFileMeta> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..20);
    let texts = || prop::collection::vec("[a-zé]{1,9}", 0..4);
    let count = || 0..i64::MAX;
    (
        ("[a-zé]{1,9}", count(), count(), bytes(), bytes(), any_stats(), any_stats()),
        (any::<i64>(), any::<i64>(), count(), any::<i32>(), texts()),
        (prop::option::of(-5..i64::MAX), prop::option::of(count()), prop::option::of(bytes()), 0..3usize),
        (
            prop::option::of(texts()),
            prop::option::of("[a-z:/é]{1,20}"),
            prop::option::of(count()),
            prop::option::of(texts()),
        ),
    )
        .prop_map(|(first, second, third, fourth)| {
            let (file_name, file_size, row_count, min_key, max_key, key_stats, value_stats) = first;
            let (min_sequence_number, max_sequence_number, schema_id, level, extra_files) = second;
            let (creation_time, delete_row_count, embedded_index, file_source) = third;
            let (value_stats_cols, external_path, first_row_id, write_cols) = fourth;
            DataFileMeta {
                file_name,
                file_size,
                row_count,
                min_key,
                max_key,
                key_stats,
                value_stats,
                min_sequence_number,
                max_sequence_number,
                schema_id,
                level,
                extra_files,
                creation_time,
                delete_row_count,
                embedded_index,
                file_source: [None, Some(FileSource::Append), Some(FileSource::Compact)][file_source],
                value_stats_cols,
                external_path,
                first_row_id,
                write_cols,
            }
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn push_when_any_entries_then_decoded_again(
        files in prop::collection::vec((any::<bool>(), any::<[i32; 3]>(), any_file()), 0..40),
    ) {
        let types = [DataType::parse("INT").unwrap()];
        let entries: Vec<ManifestEntry> = files
            .into_iter()
            .map(|(deleted, [number, bucket, total_buckets], file)| ManifestEntry {
                deleted,
                partition: partition(&[Datum::Int(number % 3)], &types).into(),
                bucket,
                total_buckets,
                file: Arc::new(file),
            })
            .collect();
        let mut encoder = ManifestEncoder::new(AvroCodec::parse("zstd", 1).unwrap(), types.to_vec()).unwrap();
        entries.iter().for_each(|entry| encoder.push(entry).unwrap());
        let encoded = encoder.finish().unwrap();
        let decoded = Arc::new(ManifestEntries::decode(&encoded.bytes).unwrap());
        let again: Vec<_> = (0..decoded.len())
            .map(|row| {
                let file = DataFile { entries: Arc::clone(&decoded), row: row as u32 };
                ManifestEntry::of(&file, decoded.kind[row] == 1)
            })
            .collect();
        prop_assert_eq!(&again, &entries);
        prop_assert_eq!(raw_rows(&encode_both_ways(&decoded, &types).bytes), raw_rows(&encoded.bytes));
        let meta = encoded.into_meta("m");
        let list = encode_manifest_list(std::slice::from_ref(&meta), AvroCodec::NULL);
        prop_assert_eq!(decode_manifest_list(&list.unwrap()).unwrap(), [meta]);
    }

    #[test]
    fn decode_when_bytes_of_what_was_written_flip_then_error_or_rows_without_panic(
        files in prop::collection::vec(any_file(), 1..6),
        codec in prop::sample::select(vec!["null", "deflate", "snappy", "zstd", "bzip2"]),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 0..8), 1..4),
        cut in prop::option::weighted(0.2, any::<prop::sample::Index>()),
    ) {
        let codec = AvroCodec::parse(codec, 1).unwrap();
        let types = [DataType::parse("INT").unwrap()];
        let mut encoder = ManifestEncoder::new(codec, types.to_vec()).unwrap();
        for file in files {
            encoder.push(&entry(&partition(&[Datum::Int(1)], &types), false, file)).unwrap();
        }
        let encoded = encoder.finish().unwrap();
        let manifest = encoded.bytes.to_vec();
        let list = encode_manifest_list(&[encoded.into_meta("m")], codec).unwrap().to_vec();
        for mut bytes in [manifest, list] {
            for (at, bit) in &flips {
                let at = at.index(bytes.len());
                bytes[at] ^= 1u8 << bit;
            }
            if let Some(cut) = cut {
                bytes.truncate(cut.index(bytes.len()));
            }
            let _ = ManifestEntries::decode(&bytes);
            let _ = decode_manifest_list(&bytes);
            let _ = crate::spec::decode_index_manifest(&bytes);
            if let Ok(file) = crate::spec::ManifestFile::open(bytes.into()) {
                let _ = file.entries(None);
            }
        }
    }
}
