//! Manifest lists (`spec/metadata.md 4.2`): which manifests make up a snapshot, and what each of them covers.
//!
//! May import: `error`, `spec::avro`.

use bytes::Bytes;

use super::avro::{Record, for_each_record, to_avro};
use super::manifest::check_file_name;
use crate::error::{Error, Result};

/// The version of an entry of a manifest list; a permanent id of the format.
const VERSION: i32 = 2;

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
    pub partition_stats: PartitionStats,
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

/// Statistics of the partition columns (`spec/metadata.md 4.4`), never truncated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartitionStats {
    /// Serialized BinaryRow of the minima.
    pub min: Vec<u8>,
    /// Serialized BinaryRow of the maxima.
    pub max: Vec<u8>,
    /// Null counts, one a partition column; empty when none were written.
    pub null_counts: Vec<Option<i64>>,
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
        partition_stats: PartitionStats {
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
