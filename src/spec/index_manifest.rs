//! Index manifests (`spec/metadata.md 8.1`): the hash indexes, deletion vectors and global indexes of a snapshot.
//!
//! May import: `error`, `spec::avro`.

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::avro::encode::{put_array, put_bytes, put_int, put_long, put_optional};
use super::avro::{AvroCodec, ContainerWriter, Record, Value, for_each_record, to_avro};
use super::manifest::check_file_name;
use crate::error::{Error, Result};

/// The version of an entry of an index manifest; a permanent id of the format.
const VERSION: i32 = 1;

/// The schema of an index manifest, in the words of Java 1.4, with further fields of a global index.
macro_rules! schema {
    ($further:literal) => {
        concat!(
            r#"{"type":"record","name":"record","namespace":"org.apache.paimon.avro.generated","fields":["#,
            r#"{"name":"_VERSION","type":"int"},{"name":"_KIND","type":"int"},{"name":"_PARTITION","type":"bytes"},"#,
            r#"{"name":"_BUCKET","type":"int"},{"name":"_INDEX_TYPE","type":"string"},"#,
            r#"{"name":"_FILE_NAME","type":"string"},{"name":"_FILE_SIZE","type":"long"},"#,
            r#"{"name":"_ROW_COUNT","type":"long"},"#,
            r#"{"name":"_DELETIONS_VECTORS_RANGES","type":["null",{"type":"array","items":["null","#,
            r#"{"type":"record","name":"record__DELETIONS_VECTORS_RANGES","fields":["#,
            r#"{"name":"f0","type":"string"},{"name":"f1","type":"int"},{"name":"f2","type":"int"},"#,
            r#"{"name":"_CARDINALITY","type":["null","long"],"default":null}]}]}],"default":null},"#,
            r#"{"name":"_EXTERNAL_PATH","type":["null","string"],"default":null},"#,
            r#"{"name":"_GLOBAL_INDEX","type":["null",{"type":"record","name":"record__GLOBAL_INDEX","fields":["#,
            r#"{"name":"_ROW_RANGE_START","type":"long"},{"name":"_ROW_RANGE_END","type":"long"},"#,
            r#"{"name":"_INDEX_FIELD_ID","type":"int"},"#,
            r#"{"name":"_EXTRA_FIELD_IDS","type":["null",{"type":"array","items":"int"}],"default":null},"#,
            r#"{"name":"_INDEX_META","type":["null","bytes"],"default":null}"#,
            $further,
            r#"]}],"default":null}]}"#,
        )
    };
}
const SCHEMA: &str = schema!("");
/// With the field of 2.0, which Java 1.4 passes over.
const SCHEMA_WITH_SOURCE: &str = schema!(r#",{"name":"_SOURCE_META","type":["null","bytes"],"default":null}"#);

/// An index file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexEntry {
    /// 0 = ADD. An index manifest is a full list, so there is nothing else in it.
    pub kind: u8,
    /// Serialized BinaryRow of the partition.
    pub partition: Arc<[u8]>,
    /// Bucket.
    pub bucket: i32,
    /// `HASH`, `DELETION_VECTORS` or the name of a global index.
    pub index_type: String,
    /// File name.
    pub file_name: String,
    /// Size in bytes.
    pub file_size: i64,
    /// Hashes of a hash index, vectors of a file of deletion vectors; otherwise its own matter.
    pub row_count: i64,
    /// Where the deletion vector of each data file lies in a file of deletion vectors.
    pub dv_ranges: Option<Vec<DvRange>>,
    /// Absolute path of a file outside the table's folder.
    pub external_path: Option<String>,
    /// What a global index covers.
    pub global_index: Option<GlobalIndexMeta>,
}

/// Where a deletion vector lies (`spec/metadata.md 8.2`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DvRange {
    /// Name of the data file whose rows the vector marks.
    pub data_file: String,
    /// Position of the vector's length prefix in the index file.
    pub offset: i32,
    /// Length as the format counts it, which depends on the version of the vector.
    pub length: i32,
    /// Number of rows marked; not recorded by writers before 1.0.
    pub cardinality: Option<i64>,
}

/// What a global index covers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GlobalIndexMeta {
    /// Row id of the first row.
    pub row_range_start: i64,
    /// Row id of the last row.
    pub row_range_end: i64,
    /// Id of the indexed field.
    pub index_field_id: i32,
    /// Ids of further fields.
    pub extra_field_ids: Option<Vec<i32>>,
    /// The index's own description.
    pub index_meta: Option<Vec<u8>>,
    /// The index's own description of what it was built from.
    pub source_meta: Option<Vec<u8>>,
}

/// Decodes an index manifest, in its order.
///
/// # Errors
/// Bytes that are no index manifest, entries of another version, DELETE entries, and file names that lead out of the
/// folder.
pub fn decode_index_manifest(bytes: &[u8]) -> Result<Vec<IndexEntry>> {
    let bytes = to_avro(Bytes::copy_from_slice(bytes))?;
    let mut entries: Vec<IndexEntry> = Vec::new();
    for_each_record(&bytes, |record| {
        let mut entry = decode_entry(record)?;
        if let Some(last) = entries.last().filter(|last| last.partition == entry.partition) {
            entry.partition = Arc::clone(&last.partition);
        }
        entries.push(entry);
        Ok(())
    })?;
    Ok(entries)
}

fn decode_entry(record: &Record<'_>) -> Result<IndexEntry> {
    let version = record.int("_VERSION")?;
    if version != VERSION {
        return Err(Error::unsupported(format!(
            "version {version} of an index manifest entry, only {VERSION} is known"
        )));
    }
    let kind = record.int("_KIND")?;
    if kind != 0 {
        return Err(Error::corrupt(format!("an index manifest lists what is, but an entry is of kind {kind}")));
    }
    let file_name = record.text("_FILE_NAME")?;
    check_file_name(&file_name)?;
    let ranges = record.opt_array("_DELETIONS_VECTORS_RANGES")?;
    Ok(IndexEntry {
        kind: 0,
        partition: record.bytes("_PARTITION")?.into(),
        bucket: record.int("_BUCKET")?,
        index_type: record.text("_INDEX_TYPE")?,
        file_name,
        file_size: record.count("_FILE_SIZE")?,
        row_count: record.count("_ROW_COUNT")?,
        dv_ranges: ranges.map(|ranges| ranges.iter().map(decode_range).collect()).transpose()?,
        external_path: record.opt_text("_EXTERNAL_PATH")?,
        global_index: record.opt_record("_GLOBAL_INDEX")?.map(decode_global_index).transpose()?,
    })
}

fn decode_range(value: &Value<'_>) -> Result<DvRange> {
    let Value::Record(range) = value else {
        return Err(Error::corrupt("a deletion vector without a range"));
    };
    let (offset, length) = (range.int("f1")?, range.int("f2")?);
    if offset < 0 || length < 0 {
        return Err(Error::corrupt(format!("a deletion vector of {length} bytes at byte {offset}")));
    }
    Ok(DvRange { data_file: range.text("f0")?, offset, length, cardinality: range.opt_long("_CARDINALITY")? })
}

fn decode_global_index(record: &Record<'_>) -> Result<GlobalIndexMeta> {
    let id = |id: Option<i64>| {
        id.and_then(|id| i32::try_from(id).ok()).ok_or_else(|| Error::corrupt("a global index of no field"))
    };
    let extra_field_ids = record.opt_longs("_EXTRA_FIELD_IDS")?;
    Ok(GlobalIndexMeta {
        row_range_start: record.long("_ROW_RANGE_START")?,
        row_range_end: record.long("_ROW_RANGE_END")?,
        index_field_id: record.int("_INDEX_FIELD_ID")?,
        extra_field_ids: extra_field_ids.map(|ids| ids.into_iter().map(id).collect()).transpose()?,
        index_meta: record.opt_bytes("_INDEX_META")?.map(<[u8]>::to_vec),
        source_meta: record.opt_bytes("_SOURCE_META")?.map(<[u8]>::to_vec),
    })
}

/// Encodes an index manifest, in the order given.
///
/// # Errors
/// Internal when a block can't be compressed.
pub fn encode_index_manifest(entries: &[IndexEntry], codec: AvroCodec) -> Result<Bytes> {
    let has_source = |entry: &IndexEntry| entry.global_index.as_ref().is_some_and(|index| index.source_meta.is_some());
    let with_source = entries.iter().any(has_source);
    let mut file = ContainerWriter::new(if with_source { SCHEMA_WITH_SOURCE } else { SCHEMA }, codec)?;
    for entry in entries {
        file.append(|out| encode_entry(entry, with_source, out))?;
    }
    Ok(file.finish()?.into())
}

fn encode_entry(entry: &IndexEntry, with_source: bool, out: &mut Vec<u8>) {
    put_int(VERSION, out);
    put_int(entry.kind.into(), out);
    put_bytes(&entry.partition, out);
    put_int(entry.bucket, out);
    put_bytes(entry.index_type.as_bytes(), out);
    put_bytes(entry.file_name.as_bytes(), out);
    put_long(entry.file_size, out);
    put_long(entry.row_count, out);
    put_optional(entry.dv_ranges.as_ref(), out, |ranges, out| {
        put_array(ranges.iter(), out, |range, out| {
            put_optional(Some(range), out, |range, out| {
                put_bytes(range.data_file.as_bytes(), out);
                put_int(range.offset, out);
                put_int(range.length, out);
                put_optional(range.cardinality, out, put_long);
            });
        });
    });
    put_optional(entry.external_path.as_ref(), out, |path, out| put_bytes(path.as_bytes(), out));
    put_optional(entry.global_index.as_ref(), out, |index, out| {
        put_long(index.row_range_start, out);
        put_long(index.row_range_end, out);
        put_int(index.index_field_id, out);
        put_optional(index.extra_field_ids.as_ref(), out, |ids, out| {
            put_array(ids.iter(), out, |id, out| put_int(*id, out));
        });
        put_optional(index.index_meta.as_deref(), out, put_bytes);
        if with_source {
            put_optional(index.source_meta.as_deref(), out, put_bytes);
        }
    });
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::spec::avro::json::{container, raw_rows, rows, schema, schema_text};

    const VECTORS: &[u8] = include_bytes!("testdata/java14-vectors.index-manifest");

    #[test]
    fn decode_when_deletion_vectors_then_ranges() {
        let entries = decode_index_manifest(VECTORS).unwrap();
        assert_eq!(entries.len(), 2);
        assert_eq!(
            entries[1],
            IndexEntry {
                kind: 0,
                partition: [0; 12].into(),
                bucket: 0,
                index_type: "DELETION_VECTORS".to_owned(),
                file_name: "index-007cd851-b6e5-48b9-b64a-315b7c188114-1".to_owned(),
                file_size: 33,
                row_count: 1,
                dv_ranges: Some(vec![DvRange {
                    data_file: "data-8c9dfba0-ecfa-478b-9964-35bfb9ae03cd-0.parquet".to_owned(),
                    offset: 1,
                    length: 24,
                    cardinality: Some(2),
                }]),
                external_path: None,
                global_index: None,
            }
        );
    }

    #[test]
    fn decode_when_old_writer_then_fields_that_came_later_are_none() {
        let entries = decode_index_manifest(include_bytes!("testdata/spark09-vectors.index-manifest")).unwrap();
        assert_eq!(entries[0].dv_ranges.as_ref().unwrap()[0].cardinality, None);
        assert_eq!((entries[0].file_size, entries[1].file_size), (31, 33));
        assert_ne!(entries[0].partition, entries[1].partition);
    }

    #[test]
    fn decode_when_global_index_then_its_range() {
        let entries = decode_index_manifest(include_bytes!("testdata/java14-btree.index-manifest")).unwrap();
        let index = entries[1].global_index.as_ref().unwrap();
        assert_eq!((index.row_range_start, index.row_range_end, index.index_field_id), (0, 4, 2));
        assert_eq!((index.extra_field_ids.as_ref(), index.source_meta.as_ref()), (None, None));
        assert_eq!(index.index_meta.as_ref().unwrap().len(), 25);
        assert_eq!((entries[1].index_type.as_str(), entries[1].dv_ranges.as_ref()), ("btree", None));
    }

    #[test]
    fn decode_when_ranges_are_plain_records_then_same() {
        let mut schema = schema(VECTORS);
        let items = schema.pointer_mut("/fields/8/type/1/items").unwrap();
        *items = items[1].clone();
        let bytes = container(&schema, &rows(VECTORS), "null", <[u8]>::to_vec);
        assert_eq!(decode_index_manifest(&bytes).unwrap(), decode_index_manifest(VECTORS).unwrap());
    }

    #[test]
    fn decode_when_an_entry_is_wrong_then_error() {
        for (pointer, value) in [
            ("/_VERSION", json!(2)),
            ("/_KIND", json!(1)),
            ("/_FILE_NAME", json!(b"a/b")),
            ("/_ROW_COUNT", json!(-1)),
            ("/_DELETIONS_VECTORS_RANGES/0", json!(null)),
            ("/_DELETIONS_VECTORS_RANGES/0/f1", json!(-1)),
        ] {
            let mut rows = rows(VECTORS);
            *rows[1].pointer_mut(pointer).unwrap() = value;
            let bytes = container(&schema(VECTORS), &rows, "null", <[u8]>::to_vec);
            assert!(decode_index_manifest(&bytes).is_err(), "{pointer}");
        }
    }

    #[test]
    fn encode_when_java_14_wrote_it_then_same_schema_and_rows() {
        for java in [VECTORS, include_bytes!("testdata/java14-btree.index-manifest")] {
            let entries = decode_index_manifest(java).unwrap();
            let bytes = encode_index_manifest(&entries, AvroCodec::NULL).unwrap();
            assert_eq!(schema_text(&bytes), schema_text(java));
            assert_eq!(raw_rows(&bytes), raw_rows(java));
            assert_eq!(decode_index_manifest(&bytes).unwrap(), entries);
        }
    }

    #[test]
    fn encode_when_no_index_then_empty_list() {
        let bytes = encode_index_manifest(&[], AvroCodec::NULL).unwrap();
        assert_eq!(decode_index_manifest(&bytes).unwrap(), []);
    }

    fn entry() -> impl Strategy<Value = IndexEntry> {
        let bytes = || prop::collection::vec(any::<u8>(), 0..20);
        let range = ("[a-z]{0,9}", 0..i32::MAX, 0..i32::MAX, any::<Option<i64>>())
            .prop_map(|(data_file, offset, length, cardinality)| DvRange { data_file, offset, length, cardinality });
        let global_index = (
            any::<(i64, i64, i32)>(),
            prop::option::of(prop::collection::vec(any::<i32>(), 0..4)),
            prop::option::of(bytes()),
            prop::option::of(bytes()),
        )
            .prop_map(|((start, end, index_field_id), extra_field_ids, index_meta, source_meta)| GlobalIndexMeta {
                row_range_start: start,
                row_range_end: end,
                index_field_id,
                extra_field_ids,
                index_meta,
                source_meta,
            });
        (
            (bytes(), any::<i32>(), "[A-Z]{0,9}", "[a-z]{1,9}", 0..i64::MAX, 0..i64::MAX),
            prop::option::of(prop::collection::vec(range, 0..4)),
            prop::option::of("[a-z:/]{0,9}"),
            prop::option::of(global_index),
        )
            .prop_map(|(head, dv_ranges, external_path, global_index)| {
                let (partition, bucket, index_type, file_name, file_size, row_count) = head;
                IndexEntry {
                    kind: 0,
                    partition: partition.into(),
                    bucket,
                    index_type,
                    file_name,
                    file_size,
                    row_count,
                    dv_ranges,
                    external_path,
                    global_index,
                }
            })
    }

    proptest! {
        #[test]
        fn encode_when_any_entries_then_decoded_again(entries in prop::collection::vec(entry(), 0..6)) {
            let bytes = encode_index_manifest(&entries, AvroCodec::NULL).unwrap();
            prop_assert_eq!(decode_index_manifest(&bytes).unwrap(), entries);
        }
    }
}
