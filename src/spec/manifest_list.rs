//! Manifest lists (`spec/metadata.md 4.2`): which manifests make up a snapshot, and what each of them covers.
//!
//! May import: `error`, `spec::{avro, data_file, manifest}`.

use bytes::Bytes;

use super::avro::encode::{put_bytes, put_int, put_long, put_optional};
use super::avro::{AvroCodec, ContainerWriter, Record, for_each_record, to_avro};
use super::data_file::SimpleStats;
use super::manifest::{StatsParts, check_file_name};
use crate::error::{Error, Result};

/// The version of an entry of a manifest list; a permanent id of the format.
const VERSION: i32 = 2;

/// The schema of a manifest list, in the words of Java 1.4.
const SCHEMA: &str = concat!(
    r#"{"type":"record","name":"record","namespace":"org.apache.paimon.avro.generated","fields":["#,
    r#"{"name":"_VERSION","type":"int"},{"name":"_FILE_NAME","type":"string"},{"name":"_FILE_SIZE","type":"long"},"#,
    r#"{"name":"_NUM_ADDED_FILES","type":"long"},{"name":"_NUM_DELETED_FILES","type":"long"},"#,
    r#"{"name":"_PARTITION_STATS","type":{"type":"record","name":"record__PARTITION_STATS","fields":["#,
    r#"{"name":"_MIN_VALUES","type":"bytes"},{"name":"_MAX_VALUES","type":"bytes"},"#,
    r#"{"name":"_NULL_COUNTS","type":["null",{"type":"array","items":["null","long"]}],"default":null}]}},"#,
    r#"{"name":"_SCHEMA_ID","type":"long"},"#,
    r#"{"name":"_MIN_BUCKET","type":["null","int"],"default":null},"#,
    r#"{"name":"_MAX_BUCKET","type":["null","int"],"default":null},"#,
    r#"{"name":"_MIN_LEVEL","type":["null","int"],"default":null},"#,
    r#"{"name":"_MAX_LEVEL","type":["null","int"],"default":null},"#,
    r#"{"name":"_MIN_ROW_ID","type":["null","long"],"default":null},"#,
    r#"{"name":"_MAX_ROW_ID","type":["null","long"],"default":null}]}"#,
);

/// A manifest as a manifest list describes it. Ranges that are not recorded can't prune.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestMeta {
    /// File name, in the folder `manifest`.
    pub file_name: String,
    /// Size in bytes.
    pub file_size: i64,
    /// Exact number of ADD entries.
    pub num_added_files: i64,
    /// Exact number of DELETE entries.
    pub num_deleted_files: i64,
    /// Ranges of the partition columns over all entries.
    pub partition_stats: SimpleStats,
    /// Greatest schema id of the entries.
    pub schema_id: i64,
    /// Smallest bucket.
    pub min_bucket: Option<i32>,
    /// Greatest bucket.
    pub max_bucket: Option<i32>,
    /// Smallest level.
    pub min_level: Option<i32>,
    /// Greatest level.
    pub max_level: Option<i32>,
    /// Smallest row id; `None` as well when an entry has none.
    pub min_row_id: Option<i64>,
    /// Greatest row id; `None` as well when an entry has none.
    pub max_row_id: Option<i64>,
}

/// Decodes a manifest list, in its order. The order matters for adding and deleting.
///
/// # Errors
/// Bytes that are no manifest list, entries of another version, and file names that lead out of the folder.
pub fn decode_manifest_list(bytes: &[u8]) -> Result<Vec<ManifestMeta>> {
    let bytes = to_avro(Bytes::copy_from_slice(bytes))?;
    let mut metas = Vec::new();
    for_each_record(&bytes, |record| {
        metas.push(decode_meta(record)?);
        Ok(())
    })?;
    Ok(metas)
}

fn decode_meta(record: &Record<'_>) -> Result<ManifestMeta> {
    let version = record.int("_VERSION")?;
    if version != VERSION {
        return Err(Error::unsupported(format!("version {version} of a manifest list entry, only {VERSION} is known")));
    }
    let file_name = record.text("_FILE_NAME")?;
    check_file_name(&file_name)?;
    let stats = record.record("_PARTITION_STATS")?;
    Ok(ManifestMeta {
        file_name,
        file_size: record.count("_FILE_SIZE")?,
        num_added_files: record.count("_NUM_ADDED_FILES")?,
        num_deleted_files: record.count("_NUM_DELETED_FILES")?,
        partition_stats: SimpleStats {
            min: stats.bytes("_MIN_VALUES")?.to_vec(),
            max: stats.bytes("_MAX_VALUES")?.to_vec(),
            null_counts: stats.opt_longs("_NULL_COUNTS")?.unwrap_or_default(),
        },
        schema_id: record.long("_SCHEMA_ID")?,
        min_bucket: record.opt_int("_MIN_BUCKET")?,
        max_bucket: record.opt_int("_MAX_BUCKET")?,
        min_level: record.opt_int("_MIN_LEVEL")?,
        max_level: record.opt_int("_MAX_LEVEL")?,
        min_row_id: record.opt_long("_MIN_ROW_ID")?,
        max_row_id: record.opt_long("_MAX_ROW_ID")?,
    })
}

/// Encodes a manifest list, in the order given. A list of nothing is a file too (`spec/metadata.md 3.1`).
///
/// # Errors
/// Internal when a block can't be compressed.
pub fn encode_manifest_list(metas: &[ManifestMeta], codec: AvroCodec) -> Result<Bytes> {
    let mut file = ContainerWriter::new(SCHEMA, codec)?;
    for meta in metas {
        file.append(|out| encode_meta(meta, out))?;
    }
    Ok(file.finish()?.into())
}

fn encode_meta(meta: &ManifestMeta, out: &mut Vec<u8>) {
    put_int(VERSION, out);
    put_bytes(meta.file_name.as_bytes(), out);
    put_long(meta.file_size, out);
    put_long(meta.num_added_files, out);
    put_long(meta.num_deleted_files, out);
    StatsParts::of(&meta.partition_stats).put(out);
    put_long(meta.schema_id, out);
    for number in [meta.min_bucket, meta.max_bucket, meta.min_level, meta.max_level] {
        put_optional(number, out, put_int);
    }
    for id in [meta.min_row_id, meta.max_row_id] {
        put_optional(id, out, put_long);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::spec::avro::json::{container, raw_rows, rows, schema, schema_text};

    const JAVA14: &[u8] = include_bytes!("testdata/java14.manifest-list");
    const SPARK09: &[u8] = include_bytes!("testdata/spark09.manifest-list");

    #[test]
    fn decode_when_java_14_wrote_it_then_known_values() {
        let metas = decode_manifest_list(JAVA14).unwrap();
        assert_eq!(metas.len(), 3);
        assert_eq!(
            metas[1],
            ManifestMeta {
                file_name: "manifest-4ac09952-3547-4ec1-b97e-d16c7ee7a201-0".to_owned(),
                file_size: 2094,
                num_added_files: 1,
                num_deleted_files: 0,
                partition_stats: SimpleStats { min: vec![0; 12], max: vec![0; 12], null_counts: vec![] },
                schema_id: 0,
                min_bucket: Some(0),
                max_bucket: Some(0),
                min_level: Some(0),
                max_level: Some(0),
                min_row_id: Some(2),
                max_row_id: Some(3),
            }
        );
        assert_eq!((metas[2].num_deleted_files, metas[2].min_row_id, metas[2].max_row_id), (1, None, None));
    }

    #[test]
    fn decode_when_spark_09_wrote_it_then_ranges_are_unknown() {
        let metas = decode_manifest_list(SPARK09).unwrap();
        assert_eq!(metas.iter().map(|meta| meta.file_size).collect::<Vec<_>>(), [1787, 1783, 1836, 1846]);
        assert_eq!((metas[0].min_bucket, metas[0].max_level, metas[0].min_row_id), (None, None, None));
    }

    #[test]
    fn decode_when_an_entry_is_wrong_then_error() {
        for (field, value) in [
            ("_VERSION", json!(1)),
            ("_FILE_NAME", json!(b"../x")),
            ("_FILE_NAME", json!([])),
            ("_FILE_SIZE", json!(-1)),
            ("_NUM_ADDED_FILES", json!(-1)),
            ("_MIN_BUCKET", json!(1i64 << 33)),
        ] {
            let mut rows = rows(JAVA14);
            rows[2][field] = value;
            let bytes = container(&schema(JAVA14), &rows, "null", <[u8]>::to_vec);
            assert!(decode_manifest_list(&bytes).is_err(), "{field}");
        }
        assert!(decode_manifest_list(b"").is_err());
        assert!(decode_manifest_list(b"{}").is_err());
    }

    #[test]
    fn encode_when_java_14_wrote_it_then_same_schema_and_rows() {
        let metas = decode_manifest_list(JAVA14).unwrap();
        let bytes = encode_manifest_list(&metas, AvroCodec::NULL).unwrap();
        assert_eq!(schema_text(&bytes), schema_text(JAVA14));
        assert_eq!(raw_rows(&bytes), raw_rows(JAVA14));
        assert_eq!(decode_manifest_list(&bytes).unwrap(), metas);
    }

    #[test]
    fn encode_when_ranges_are_unknown_then_still_unknown() {
        let metas = decode_manifest_list(SPARK09).unwrap();
        let bytes = encode_manifest_list(&metas, AvroCodec::parse("zstd", 1).unwrap()).unwrap();
        assert_eq!(decode_manifest_list(&bytes).unwrap(), metas);
    }

    #[test]
    fn encode_when_no_manifest_then_empty_list() {
        let bytes = encode_manifest_list(&[], AvroCodec::parse("zstd", 1).unwrap()).unwrap();
        assert_eq!(decode_manifest_list(&bytes).unwrap(), []);
        assert_eq!(schema_text(&bytes), schema_text(JAVA14));
    }
}
