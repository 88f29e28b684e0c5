//! How rows find their bucket (`spec/data.md 3.4`), and whether a table can be written at all.
//!
//! May import: `error`, `options`, `spec`, `table`.

use crate::error::{Error, Result};
use crate::options::{BucketFunction, MergeEngine};
use crate::table::Table;

/// The bucket id of rows that a compaction will give one (`spec/data.md 3.7`).
pub const POSTPONE_BUCKET: i32 = -2;

/// How a row's bucket is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BucketMode {
    /// By the hash of the bucket key, into a fixed number of buckets.
    Fixed {
        /// The number of buckets.
        buckets: i32,
        /// The hash.
        function: BucketFunction,
    },
    /// A key keeps the bucket that it was first given; the hashes of the keys of each bucket lie in an index file.
    Dynamic,
    /// The same over all partitions: a key that comes with another partition leaves the one it was in.
    CrossPartition,
    /// Rows wait in one folder for a compaction to give them a bucket.
    Postpone,
    /// Append tables without buckets.
    Unaware,
}

impl BucketMode {
    /// The mode of a table.
    ///
    /// # Errors
    /// Invalid when the option `bucket` is no number that the format knows for such a table.
    pub fn of(table: &Table) -> Result<Self> {
        let (schema, options) = (table.schema(), table.settings());
        let has_key = schema.has_primary_key();
        match options.bucket {
            buckets if buckets > 0 => {
                if schema.bucket_key_fields().is_empty() {
                    return Err(Error::invalid(format!(
                        "the table has {buckets} buckets and neither primary key nor 'bucket-key'; set 'bucket-key', or \
                         'bucket' = '-1' when it is created"
                    )));
                }
                Ok(Self::Fixed { buckets, function: options.bucket_function })
            }
            -1 if !has_key => Ok(Self::Unaware),
            -1 if schema.partition_keys.iter().all(|key| schema.primary_keys.contains(key)) => Ok(Self::Dynamic),
            -1 => Ok(Self::CrossPartition),
            POSTPONE_BUCKET if has_key => Ok(Self::Postpone),
            other => Err(Error::invalid(format!("'bucket' = '{other}' is no number of buckets for this table"))),
        }
    }

    /// The number of buckets that manifest entries record (`spec/metadata.md 1.2`).
    pub fn total_buckets(self) -> i32 {
        match self {
            Self::Fixed { buckets, .. } => buckets,
            Self::Postpone => POSTPONE_BUCKET,
            Self::Dynamic | Self::CrossPartition | Self::Unaware => -1,
        }
    }
}

/// Refuses tables whose rules for writing this version does not keep.
///
/// # Errors
/// Unsupported, naming what it is and what to do.
pub fn check_writable(table: &Table) -> Result<()> {
    let options = table.settings();
    let refused =
        |what: &str, remedy: &str| Err(table.at(Error::unsupported(format!("{what} can't be written; {remedy}"))));
    if options.chain_table {
        return refused("a chain table ('chain-table.enabled')", "write it with the engine that made it");
    }
    if options.pk_clustering_override {
        return refused(
            "a key table that is sorted by other columns ('pk-clustering-override')",
            "write it with Flink",
        );
    }
    if options.table_type != "table" {
        return refused("a table of this 'type'", "only 'type' = 'table' can be written");
    }
    if options.merge_engine == MergeEngine::FirstRow && !options.sequence_fields.is_empty() {
        return refused("a first-row table with 'sequence.field'", "reset the option");
    }
    Ok(())
}
