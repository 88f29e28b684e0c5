//! Dynamic buckets: a key keeps the bucket it was first given (`spec/data.md 3.5`, `spec/metadata.md 8.3`).
//!
//! May import: `error`, `spec`, `store`, `table`, `write::existing`.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use datafusion::execution::memory_pool::MemoryReservation;

use super::existing::ExistingBuckets;
use crate::error::{Error, Result};
use crate::spec::IndexEntry;
use crate::spec::hash_index::decode_hash_index;
use crate::table::Table;

/// The greatest bucket id there can be: Java keeps them in 16 bits.
const MOST_BUCKETS: i32 = 32_767;

/// Memory of one hash and its bucket in a map.
const HASH_BYTES: usize = 16;

/// The limits of dynamic buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DynamicBuckets {
    /// `dynamic-bucket.target-row-num`: keys of a bucket before the next one is begun.
    pub target_rows: u64,
    /// `dynamic-bucket.max-buckets`: most buckets of a partition; `None` for no limit.
    pub max_buckets: Option<i32>,
}

impl DynamicBuckets {
    /// Those of a table.
    pub(crate) fn of(table: &Table) -> Result<Self> {
        let options = table.settings();
        let target: i64 = options.value("dynamic-bucket.target-row-num")?.unwrap_or(2_000_000);
        let most: i32 = options.value("dynamic-bucket.max-buckets")?.unwrap_or(-1);
        Ok(Self { target_rows: target.max(1) as u64, max_buckets: (most >= 0).then_some(most.max(1)) })
    }
}

/// Which bucket each key hash of the partitions written to has.
#[derive(Debug)]
pub(crate) struct Assigner {
    limits: DynamicBuckets,
    /// Whether only the keys of this write are left in the end, known or not.
    replaces: bool,
    partitions: HashMap<Arc<[u8]>, PartitionHashes>,
}

#[derive(Debug, Default)]
struct PartitionHashes {
    bucket_of: HashMap<i32, i32>,
    /// Keys of each bucket.
    counts: HashMap<i32, u64>,
    /// New hashes of each bucket; all that the write brings where it replaces the others.
    added: HashMap<i32, Vec<i32>>,
    /// Known hashes that are among `added`.
    kept: HashSet<i32>,
    /// The bucket that new keys go to, until it is full.
    open: Option<i32>,
    /// Chooses among full buckets.
    spread: u32,
}

impl Assigner {
    pub(crate) fn new(limits: DynamicBuckets, replaces: bool) -> Self {
        Self { limits, replaces, partitions: HashMap::new() }
    }

    /// Whether the hashes of a partition were loaded.
    pub(crate) fn knows(&self, partition: &[u8]) -> bool {
        self.partitions.contains_key(partition)
    }

    /// Takes over the hashes that the index files of a partition hold.
    pub(crate) fn add_partition(
        &mut self,
        partition: &Arc<[u8]>,
        hashes: Vec<(i32, Vec<i32>)>,
        memory: &MemoryReservation,
    ) -> Result<()> {
        let mut state = PartitionHashes::default();
        for (bucket, hashes) in hashes {
            memory.try_grow(hashes.len() * HASH_BYTES)?;
            state.counts.insert(bucket, hashes.len() as u64);
            state.bucket_of.extend(hashes.into_iter().map(|hash| (hash, bucket)));
        }
        self.partitions.entry(Arc::clone(partition)).or_insert(state);
        Ok(())
    }

    /// Takes over how many keys the buckets of a partition hold, whichever those are.
    pub(crate) fn add_counts(&mut self, partition: &Arc<[u8]>, counts: HashMap<i32, u64>) {
        let state = PartitionHashes { counts, ..PartitionHashes::default() };
        self.partitions.entry(Arc::clone(partition)).or_insert(state);
    }

    /// The bucket of a key.
    ///
    /// # Errors
    /// Invalid when the partition has no bucket left, resources exhausted when the pool has no room for a new hash.
    pub(crate) fn assign(&mut self, partition: &[u8], hash: i32, memory: &MemoryReservation) -> Result<i32> {
        let limits = self.limits;
        let state = self
            .partitions
            .get_mut(partition)
            .ok_or_else(|| Error::internal("the hashes of a partition are not loaded"))?;
        if let Some(bucket) = state.bucket_of.get(&hash).copied() {
            if self.replaces && state.kept.insert(hash) {
                memory.try_grow(HASH_BYTES)?;
                state.added.entry(bucket).or_default().push(hash);
            }
            return Ok(bucket);
        }
        memory.try_grow(HASH_BYTES + 4)?;
        let bucket = state.next_bucket(limits)?;
        if self.replaces {
            state.kept.insert(hash);
        }
        state.bucket_of.insert(hash, bucket);
        *state.counts.entry(bucket).or_default() += 1;
        state.added.entry(bucket).or_default().push(hash);
        Ok(bucket)
    }

    /// A key has left a bucket.
    pub(crate) fn release(&mut self, partition: &[u8], bucket: i32) {
        if let Some(state) = self.partitions.get_mut(partition) {
            if let Some(count) = state.counts.get_mut(&bucket) {
                *count = count.saturating_sub(1);
            }
            // New keys go where there is room from the first bucket on.
            state.open = None;
        }
    }

    /// The hashes that a bucket's index gets by this write; none if it got none.
    pub(crate) fn take_added(&mut self, partition: &[u8], bucket: i32) -> Vec<i32> {
        self.partitions.get_mut(partition).and_then(|state| state.added.remove(&bucket)).unwrap_or_default()
    }
}

impl PartitionHashes {
    /// The bucket of a key that has none yet.
    fn next_bucket(&mut self, limits: DynamicBuckets) -> Result<i32> {
        if let Some(open) = self.open
            && self.counts.get(&open).copied().unwrap_or_default() < limits.target_rows
        {
            return Ok(open);
        }
        // The smallest one with room, else the smallest id that is not used.
        let with_room = self.counts.iter().filter(|(_, count)| **count < limits.target_rows).map(|(bucket, _)| *bucket);
        if let Some(bucket) = with_room.min() {
            self.open = Some(bucket);
            return Ok(bucket);
        }
        let cap = limits.max_buckets.unwrap_or(MOST_BUCKETS).min(MOST_BUCKETS);
        if let Some(bucket) = (0..cap).find(|bucket| !self.counts.contains_key(bucket)) {
            self.open = Some(bucket);
            return Ok(bucket);
        }
        if limits.max_buckets.is_none() {
            return Err(Error::invalid(format!(
                "a partition has {MOST_BUCKETS} full buckets, and there can't be more; raise 'dynamic-bucket.target-row-num'"
            )));
        }
        // All are full: spread over them.
        let mut buckets: Vec<i32> = self.counts.keys().copied().collect();
        buckets.sort_unstable();
        self.spread = self.spread.wrapping_add(1);
        Ok(buckets[self.spread as usize % buckets.len()])
    }
}

/// The hashes that an index file holds.
pub(crate) async fn read_hashes(table: &Table, partition_path: &str, entry: &IndexEntry) -> Result<Vec<i32>> {
    let external = entry.external_path.as_deref();
    let path = table.files().index_path(partition_path, entry.bucket, &entry.file_name, external)?;
    let bytes = table.files().read(&path).await?;
    decode_hash_index(&bytes).map_err(|error| error.with("file", entry.file_name.clone()))
}

/// The hashes of the partition's buckets, as its index files hold them.
pub(crate) async fn partition_hashes(
    table: &Table,
    existing: &ExistingBuckets,
    partition: &[u8],
    partition_path: &str,
) -> Result<Vec<(i32, Vec<i32>)>> {
    let mut hashes = Vec::new();
    for (bucket, entry) in existing.hash_indexes(partition) {
        hashes.push((bucket, read_hashes(table, partition_path, entry).await?));
    }
    Ok(hashes)
}

#[cfg(test)]
mod tests {
    use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, UnboundedMemoryPool};

    use super::*;

    fn reservation() -> MemoryReservation {
        let pool: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
        MemoryConsumer::new("test").register(&pool)
    }

    #[test]
    fn assign_when_bucket_is_full_then_next_one_and_known_keys_stay() {
        let memory = reservation();
        let mut assigner = Assigner::new(DynamicBuckets { target_rows: 2, max_buckets: None }, false);
        let partition: Arc<[u8]> = Arc::from([0_u8].as_slice());
        assigner.add_partition(&partition, vec![(0, vec![10])], &memory).unwrap();
        let buckets: Vec<i32> =
            [11, 12, 10, 13, 14].map(|hash| assigner.assign(&partition, hash, &memory).unwrap()).to_vec();
        assert_eq!(buckets, [0, 1, 0, 1, 2]);
        assert_eq!(assigner.take_added(&partition, 0), [11]);
        assert_eq!(assigner.take_added(&partition, 0), Vec::<i32>::new());
    }

    #[test]
    fn assign_when_rows_are_replaced_then_known_keys_keep_their_bucket_and_the_index_has_what_is_written() {
        let memory = reservation();
        let mut assigner = Assigner::new(DynamicBuckets { target_rows: 2, max_buckets: None }, true);
        let partition: Arc<[u8]> = Arc::from([0_u8].as_slice());
        assigner.add_partition(&partition, vec![(0, vec![10, 11]), (1, vec![12])], &memory).unwrap();
        let buckets: Vec<i32> =
            [11, 20, 11, 20].map(|hash| assigner.assign(&partition, hash, &memory).unwrap()).to_vec();
        assert_eq!(buckets, [0, 1, 0, 1]);
        assert_eq!(assigner.take_added(&partition, 0), [11]);
        assert_eq!(assigner.take_added(&partition, 1), [20]);
    }

    #[test]
    fn assign_when_most_buckets_are_full_then_they_get_more_each_partition_by_itself() {
        let memory = reservation();
        let mut assigner = Assigner::new(DynamicBuckets { target_rows: 1, max_buckets: Some(2) }, false);
        for partition in [[1_u8], [2]] {
            let partition: Arc<[u8]> = Arc::from(partition.as_slice());
            assigner.add_partition(&partition, vec![], &memory).unwrap();
            let buckets: Vec<i32> = (0..6).map(|hash| assigner.assign(&partition, hash, &memory).unwrap()).collect();
            assert_eq!(buckets[..2], [0, 1]);
            assert!(buckets.iter().all(|bucket| *bucket < 2));
        }
    }
}
