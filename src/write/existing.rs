//! What lies in the buckets that are written to: greatest sequence numbers, bucket counts, hash indexes.
//!
//! May import: `error`, `plan`, `spec`, `store`, `table`.

use std::collections::HashMap;
use std::sync::Arc;

use super::CommitMessage;
use crate::error::{Error, Result};
use crate::plan::live::{LiveRequest, index_entries, live_files};
use crate::spec::{IndexEntry, Snapshot};
use crate::table::Table;

/// The type of a hash index in an index manifest.
pub(crate) const HASH_INDEX: &str = "HASH";

/// One bucket of one partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BucketState {
    /// The greatest sequence number of its files of every level (`spec/data.md 1.10`).
    pub max_sequence: i64,
}

/// The live files of a snapshot, summed up by partition and bucket.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExistingBuckets {
    partitions: HashMap<Arc<[u8]>, PartitionState>,
    hashes: HashMap<(Arc<[u8]>, i32), IndexEntry>,
}

#[derive(Clone, Debug, Default)]
struct PartitionState {
    buckets: HashMap<i32, BucketState>,
    /// The number of buckets that the partition's files were written with, where it is fixed.
    total: Option<i32>,
}

impl ExistingBuckets {
    /// Those of `snapshot`; none without one.
    pub(crate) async fn load(table: &Arc<Table>, snapshot: Option<&Snapshot>, with_hashes: bool) -> Result<Self> {
        let mut existing = Self::default();
        let Some(snapshot) = snapshot else { return Ok(existing) };
        for planned in live_files(table, snapshot, LiveRequest::default()).await? {
            let file = &planned.file;
            let state = match existing.partitions.get_mut(file.partition()) {
                Some(state) => state,
                None => existing.partitions.entry(Arc::clone(file.partition())).or_default(),
            };
            if file.total_buckets() > 0 {
                state.total = Some(file.total_buckets());
            }
            let bucket = state.buckets.entry(file.bucket()).or_insert(BucketState { max_sequence: -1 });
            bucket.max_sequence = bucket.max_sequence.max(file.sequence_numbers().1);
        }
        if with_hashes {
            for entry in index_entries(table, snapshot).await?.iter().filter(|entry| entry.index_type == HASH_INDEX) {
                existing.hashes.insert((Arc::clone(&entry.partition), entry.bucket), entry.clone());
            }
        }
        Ok(existing)
    }

    /// Takes over what a round of a writer did, committed or not: the writer's next round comes after it.
    pub(crate) fn apply(&mut self, message: &CommitMessage) {
        let partition: Arc<[u8]> = Arc::from(message.partition.as_slice());
        let state = self.partitions.entry(Arc::clone(&partition)).or_default();
        if let Some(total) = message.total_buckets.filter(|total| *total > 0) {
            state.total = Some(total);
        }
        let bucket = state.buckets.entry(message.bucket).or_insert(BucketState { max_sequence: -1 });
        for file in &message.new_files {
            bucket.max_sequence = bucket.max_sequence.max(file.max_sequence_number);
        }
        for entry in message.new_index_files.iter().filter(|entry| entry.index_type == HASH_INDEX) {
            self.hashes.insert((Arc::clone(&partition), entry.bucket), entry.clone());
        }
    }

    /// The number that the next row of a bucket gets.
    pub(crate) fn next_sequence(&self, partition: &[u8], bucket: i32) -> i64 {
        let found = self.partitions.get(partition).and_then(|state| state.buckets.get(&bucket));
        found.map_or(0, |state| state.max_sequence + 1)
    }

    /// Refuses rows for a partition that has another number of buckets: its keys lie elsewhere (`spec/data.md 3.4`).
    pub(crate) fn check_total(&self, partition: &[u8], described: &str, total: i32) -> Result<()> {
        match self.partitions.get(partition).and_then(|state| state.total) {
            Some(existing) if total > 0 && existing != total => Err(Error::invalid(format!(
                "{described} was written with {existing} buckets, and 'bucket' is {total} now; INSERT OVERWRITE the \
                 partition (or reset 'bucket') before rows are added to it"
            ))),
            _ => Ok(()),
        }
    }

    /// The hash index of a bucket.
    pub(crate) fn hash_index(&self, partition: &Arc<[u8]>, bucket: i32) -> Option<&IndexEntry> {
        self.hashes.get(&(Arc::clone(partition), bucket))
    }

    /// The hash indexes of a partition, by bucket.
    pub(crate) fn hash_indexes(&self, partition: &[u8]) -> Vec<(i32, &IndexEntry)> {
        let mut found: Vec<(i32, &IndexEntry)> = self
            .hashes
            .iter()
            .filter(|((of, _), _)| **of == *partition)
            .map(|((_, bucket), entry)| (*bucket, entry))
            .collect();
        found.sort_by_key(|(bucket, _)| *bucket);
        found
    }
}
