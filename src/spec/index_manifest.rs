//! Index manifests (`spec/metadata.md 8.1`): the hash indexes, deletion vectors and global indexes of a snapshot.
//!
//! May import: `error`, `spec::avro`.

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::avro::{Record, Value, for_each_record, to_avro};
use super::manifest::check_file_name;
use crate::error::{Error, Result};

/// The version of an entry of an index manifest; a permanent id of the format.
const VERSION: i32 = 1;

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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::spec::avro::json::{container, rows, schema};

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
}
