//! Several sorts at once in little memory.
//!
//! The engine's sorts take what memory there is, each for itself: rows until they have to spill, then as many of their spilled
//! runs as they can read again at once. A sort that has just given back what its merge had reserved may find it taken by the
//! next one, and fails; so does whoever merges the rows of all. [`sharing`] gives every sort below a writer its share of a
//! limited pool, and of that a part which rows are not gathered in; three eighths of the pool are left to others. All of it stays
//! accounted for in the engine's pool.
//!
//! May import: the engine's memory pools.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use datafusion::common::{Result, resources_datafusion_err};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use parking_lot::Mutex;

/// The sorts have so many ..
const PARTS_OF_SORTS: usize = 5;
/// .. of these parts of the pool. Writers, what merges the sorted rows, and copies that nobody accounts for need the rest.
const PARTS: usize = 8;
/// The part of a share in which no rows are gathered, so that there is memory to merge them.
const PART_TO_MERGE: usize = 3;
/// The part of a share that a sort reserves for its merge at once.
const PART_RESERVED: usize = 8;

/// `context` for a plan with `sorts` sorts that run at once; the same where memory has no limit.
pub(super) fn sharing(context: Arc<TaskContext>, sorts: usize) -> Arc<TaskContext> {
    let pool = context.memory_pool();
    let MemoryLimit::Finite(limit) = pool.memory_limit() else { return context };
    let share = limit / PARTS * PARTS_OF_SORTS / sorts.max(1);
    let pool = Arc::new(SortShares { pool: Arc::clone(pool), share, sorts: Mutex::default() });
    let runtime = RuntimeEnvBuilder::from_runtime_env(&context.runtime_env()).with_memory_pool(pool);
    let Ok(runtime) = runtime.build_arc() else { return context };
    let mut config = context.session_config().clone();
    let reserved = &mut config.options_mut().execution.sort_spill_reservation_bytes;
    *reserved = (*reserved).min(share / PART_RESERVED);
    Arc::new(TaskContext::new(
        context.task_id(),
        context.session_id(),
        config,
        context.scalar_functions().clone(),
        context.higher_order_functions().clone(),
        context.aggregate_functions().clone(),
        context.window_functions().clone(),
        runtime,
    ))
}

/// The engine's pool, of which no sort has more than its share.
struct SortShares {
    pool: Arc<dyn MemoryPool>,
    /// Bytes of a sort.
    share: usize,
    sorts: Mutex<Sorts>,
}

/// The sorts by their consumers' ids: one gathers rows, one merges them.
#[derive(Default)]
struct Sorts {
    roles: HashMap<usize, (usize, Role)>,
    /// Bytes in use: gathered rows, merges.
    uses: HashMap<usize, [usize; 2]>,
    /// Of each number of a partition, the last sort whose other consumer is still to come.
    incomplete: HashMap<String, usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Gather = 0,
    Merge = 1,
}

/// Whether a consumer is one of a sort, and of which partition.
fn role(consumer: &MemoryConsumer) -> Option<(Role, &str)> {
    let name = consumer.name();
    let gathers = name.strip_prefix("ExternalSorter[").map(|partition| (Role::Gather, partition));
    gathers.or_else(|| name.strip_prefix("ExternalSorterMerge[").map(|partition| (Role::Merge, partition)))
}

impl Sorts {
    fn register(&mut self, consumer: &MemoryConsumer) {
        let Some((role, partition)) = role(consumer) else { return };
        let sort = match role {
            Role::Gather => {
                self.incomplete.insert(partition.to_owned(), consumer.id());
                consumer.id()
            }
            Role::Merge => self.incomplete.remove(partition).unwrap_or_else(|| consumer.id()),
        };
        self.roles.insert(consumer.id(), (sort, role));
        self.uses.entry(sort).or_default();
    }

    fn unregister(&mut self, consumer: &MemoryConsumer) {
        let Some((sort, _)) = self.roles.remove(&consumer.id()) else { return };
        if self.roles.values().all(|(other, _)| *other != sort) {
            self.uses.remove(&sort);
            self.incomplete.retain(|_, waiting| *waiting != sort);
        }
    }

    /// The bytes that a consumer's sort uses.
    fn of(&mut self, consumer: &MemoryConsumer) -> Option<(&mut [usize; 2], Role)> {
        let (sort, role) = *self.roles.get(&consumer.id())?;
        Some((self.uses.get_mut(&sort)?, role))
    }
}

impl SortShares {
    /// Whether a sort may have `additional` bytes. Something it always may have: a row can be larger than a share.
    fn allows(&self, uses: [usize; 2], role: Role, additional: usize) -> bool {
        let [gathered, merged] = uses;
        match role {
            Role::Gather => gathered == 0 || gathered + additional <= self.share - self.share / PART_TO_MERGE,
            Role::Merge => merged == 0 || gathered + merged + additional <= self.share,
        }
    }
}

impl MemoryPool for SortShares {
    fn name(&self) -> &str {
        self.pool.name()
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.sorts.lock().register(consumer);
        self.pool.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.pool.unregister(consumer);
        self.sorts.lock().unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        if let Some((uses, role)) = self.sorts.lock().of(reservation.consumer()) {
            uses[role as usize] += additional;
        }
        self.pool.grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.pool.shrink(reservation, shrink);
        if let Some((uses, role)) = self.sorts.lock().of(reservation.consumer()) {
            uses[role as usize] = uses[role as usize].saturating_sub(shrink);
        }
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let consumer = reservation.consumer();
        let mut sorts = self.sorts.lock();
        let Some((uses, role)) = sorts.of(consumer) else {
            drop(sorts);
            return self.pool.try_grow(reservation, additional);
        };
        if !self.allows(*uses, role, additional) {
            return Err(resources_datafusion_err!(
                "{} would have more than its share of the memory that sorted rows are written in: {} bytes",
                consumer.name(),
                self.share
            ));
        }
        self.pool.try_grow(reservation, additional)?;
        uses[role as usize] += additional;
        Ok(())
    }

    fn reserved(&self) -> usize {
        self.pool.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.pool.memory_limit()
    }
}

impl fmt::Debug for SortShares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SortShares").field("pool", &self.pool).field("share", &self.share).finish_non_exhaustive()
    }
}

impl fmt::Display for SortShares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} with {} bytes for each sort", self.pool, self.share)
    }
}

#[cfg(test)]
mod tests {
    use datafusion::execution::memory_pool::FairSpillPool;

    use super::*;

    #[test]
    fn try_grow_when_a_sort_has_its_share_then_no_more_and_others_have_theirs() {
        let pool =
            Arc::new(SortShares { pool: Arc::new(FairSpillPool::new(1000)), share: 300, sorts: Mutex::default() });
        let pool: Arc<dyn MemoryPool> = pool;
        let sort = |partition: usize| {
            let rows = MemoryConsumer::new(format!("ExternalSorter[{partition}]")).with_can_spill(true).register(&pool);
            (rows, MemoryConsumer::new(format!("ExternalSorterMerge[{partition}]")).register(&pool))
        };
        let ((rows, merge), (other_rows, other_merge)) = (sort(0), sort(1));
        let other = MemoryConsumer::new("SortPreservingMergeExec[0]").register(&pool);
        rows.try_grow(200).unwrap();
        assert!(rows.try_grow(1).is_err(), "the rest is to merge them");
        merge.try_grow(100).unwrap();
        assert!(merge.try_grow(1).is_err());
        rows.free();
        merge.try_grow(200).unwrap();
        assert!(merge.try_grow(1).is_err(), "no rows are gathered, and the share is the same");
        other_rows.try_grow(190).unwrap();
        other_merge.try_grow(110).unwrap();
        other.try_grow(400).unwrap();
        assert!(other.try_grow(1).is_err(), "the pool has no more");
        assert_eq!(pool.reserved(), 1000);
        drop((rows, merge, other_rows, other_merge, other));
        assert_eq!(pool.reserved(), 0);
    }

    #[test]
    fn try_grow_when_one_batch_is_larger_than_a_share_then_it_is_let_through() {
        let pool =
            Arc::new(SortShares { pool: Arc::new(FairSpillPool::new(1000)), share: 30, sorts: Mutex::default() });
        let pool: Arc<dyn MemoryPool> = pool;
        let rows = MemoryConsumer::new("ExternalSorter[0]").with_can_spill(true).register(&pool);
        rows.try_grow(500).unwrap();
        assert!(rows.try_grow(1).is_err());
    }
}
