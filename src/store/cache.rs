//! Caches with a byte budget, shared by all tables of a session or process.
//!
//! A [`ByteCache`] drops what was used longest ago when its budget is full, and loads a value once however many ask for it at
//! the same time. [`Caches`] holds two of them: decoded files with immutable names (manifests, manifest lists), which are
//! right for ever, and small documents (snapshots, schemas, tags), which `store::documents` checks against the store before
//! it uses them again, since their names come back after a rollback.
//!
//! May import: `error`.

use std::any::{Any, TypeId};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::OnceCell;

use crate::error::{Error, Result};

/// What an immutable file is known by: its whole location and its size. The size guards against a name that was used twice.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FileKey {
    location: Arc<str>,
    size: u64,
}

impl FileKey {
    /// The file at `location` (scheme, authority and path) with `size` bytes.
    pub fn new(location: impl Into<Arc<str>>, size: u64) -> Self {
        Self { location: location.into(), size }
    }
}

/// A value out of a cache.
#[derive(Debug)]
pub struct Cached<V: ?Sized> {
    /// The value.
    pub value: Arc<V>,
    /// Whether it was there, or another caller was loading it already.
    pub hit: bool,
}

/// What a cache did and holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// Values that were there, or that another caller was loading already.
    pub hits: u64,
    /// Values that were loaded, or were not there.
    pub misses: u64,
    /// Values held.
    pub entries: usize,
    /// Their weight in bytes.
    pub bytes: usize,
}

/// A concurrent map of values by weight in bytes, least recently used out first.
pub struct ByteCache<K, V: ?Sized> {
    state: Mutex<State<K, V>>,
}

struct State<K, V: ?Sized> {
    budget: usize,
    entries: HashMap<K, Entry<V>>,
    /// Keys by the time of their last use.
    order: BTreeMap<u64, K>,
    clock: u64,
    bytes: usize,
    hits: u64,
    misses: u64,
    /// Values that are being loaded.
    loading: HashMap<K, Arc<OnceCell<Arc<V>>>>,
}

struct Entry<V: ?Sized> {
    value: Arc<V>,
    weight: usize,
    used: u64,
}

impl<K: Clone + Eq + Hash, V: ?Sized> ByteCache<K, V> {
    /// An empty cache for `budget` bytes. With 0 nothing is kept, but what is asked for at the same time is still loaded once.
    pub fn new(budget: usize) -> Self {
        Self {
            state: Mutex::new(State {
                budget,
                entries: HashMap::new(),
                order: BTreeMap::new(),
                clock: 0,
                bytes: 0,
                hits: 0,
                misses: 0,
                loading: HashMap::new(),
            }),
        }
    }

    /// Changes the budget; values that no longer fit go.
    pub fn set_budget(&self, budget: usize) {
        let mut state = self.state.lock();
        state.budget = budget;
        state.shrink();
    }

    /// What the cache did and holds.
    pub fn counts(&self) -> CacheCounts {
        let state = self.state.lock();
        CacheCounts { hits: state.hits, misses: state.misses, entries: state.entries.len(), bytes: state.bytes }
    }

    /// The value of `key`, if it is there.
    pub fn get(&self, key: &K) -> Option<Arc<V>> {
        let mut state = self.state.lock();
        let value = state.touch(key);
        state.count(value.is_some());
        value
    }

    /// Keeps a value of `weight` bytes, in place of one that is there. A value that is heavier than the budget is not kept.
    pub fn insert(&self, key: K, value: Arc<V>, weight: usize) {
        self.state.lock().insert(key, value, weight);
    }

    /// Forgets the value of `key`.
    pub fn remove(&self, key: &K) {
        self.state.lock().remove(key);
    }

    /// Forgets all values.
    pub fn clear(&self) {
        let mut state = self.state.lock();
        state.entries.clear();
        state.order.clear();
        state.bytes = 0;
    }

    /// The value of `key`; `load` gives it with its weight in bytes when it is not there. Callers that ask at the same time
    /// wait for one load. When that fails or is dropped, the next of them loads; a failure is not kept.
    ///
    /// # Errors
    /// Those of `load`.
    pub async fn get_or_load<F>(&self, key: K, load: F) -> Result<Cached<V>>
    where
        F: Future<Output = Result<(Arc<V>, usize)>>,
    {
        let loading = {
            let mut state = self.state.lock();
            if let Some(value) = state.touch(&key) {
                state.count(true);
                return Ok(Cached { value, hit: true });
            }
            let cell = Arc::clone(state.loading.entry(key.clone()).or_default());
            Loading { cache: self, key, cell }
        };
        let mut hit = true;
        let value = loading
            .cell
            .get_or_try_init(|| async {
                hit = false;
                let (value, weight) = load.await?;
                self.state.lock().insert(loading.key.clone(), Arc::clone(&value), weight);
                Ok::<_, Error>(value)
            })
            .await;
        self.state.lock().count(hit);
        Ok(Cached { value: Arc::clone(value?), hit })
    }
}

impl<K: Clone + Eq + Hash, V: ?Sized> State<K, V> {
    fn count(&mut self, hit: bool) {
        if hit {
            self.hits += 1;
        } else {
            self.misses += 1;
        }
    }

    fn touch(&mut self, key: &K) -> Option<Arc<V>> {
        let entry = self.entries.get_mut(key)?;
        self.clock += 1;
        if let Some(key) = self.order.remove(&entry.used) {
            self.order.insert(self.clock, key);
        }
        entry.used = self.clock;
        Some(Arc::clone(&entry.value))
    }

    fn insert(&mut self, key: K, value: Arc<V>, weight: usize) {
        self.remove(&key);
        if weight > self.budget {
            return;
        }
        self.clock += 1;
        self.bytes += weight;
        self.order.insert(self.clock, key.clone());
        self.entries.insert(key, Entry { value, weight, used: self.clock });
        self.shrink();
    }

    fn remove(&mut self, key: &K) {
        if let Some(entry) = self.entries.remove(key) {
            self.order.remove(&entry.used);
            self.bytes -= entry.weight;
        }
    }

    fn shrink(&mut self) {
        while self.bytes > self.budget {
            let Some((_, key)) = self.order.pop_first() else { return };
            if let Some(entry) = self.entries.remove(&key) {
                self.bytes -= entry.weight;
            }
        }
    }
}

impl<K: fmt::Debug + Clone + Eq + Hash, V: ?Sized> fmt::Debug for ByteCache<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.counts().fmt(f)
    }
}

/// One caller's part in a load. The last one that leaves takes the cell away, also when it is dropped half way.
struct Loading<'a, K: Clone + Eq + Hash, V: ?Sized> {
    cache: &'a ByteCache<K, V>,
    key: K,
    cell: Arc<OnceCell<Arc<V>>>,
}

impl<K: Clone + Eq + Hash, V: ?Sized> Drop for Loading<'_, K, V> {
    fn drop(&mut self) {
        let mut state = self.cache.state.lock();
        // Cells are handed out and given back under this lock, so that a cell with one owner is the map's alone.
        drop(std::mem::take(&mut self.cell));
        if state.loading.get(&self.key).is_some_and(|cell| Arc::strong_count(cell) == 1) {
            state.loading.remove(&self.key);
        }
    }
}

/// A value of any type.
type AnyValue = dyn Any + Send + Sync;

/// The caches that tables of one session or process share.
#[derive(Debug)]
pub struct Caches {
    decoded: ByteCache<(TypeId, FileKey), AnyValue>,
    documents: ByteCache<Arc<str>, AnyValue>,
}

/// Budget of decoded files unless told otherwise: 512 MB, a million manifest entries and more.
pub const DEFAULT_DECODED_BUDGET: usize = 512 << 20;

/// Budget of documents: 16 MB, thousands of snapshots.
const DOCUMENT_BUDGET: usize = 16 << 20;

impl Default for Caches {
    fn default() -> Self {
        Self::new(DEFAULT_DECODED_BUDGET)
    }
}

impl Caches {
    /// Empty caches with room for `budget` bytes of decoded files.
    pub fn new(budget: usize) -> Self {
        Self { decoded: ByteCache::new(budget), documents: ByteCache::new(DOCUMENT_BUDGET) }
    }

    /// Changes the budget of decoded files.
    pub fn set_budget(&self, budget: usize) {
        self.decoded.set_budget(budget);
    }

    /// An immutable file decoded as a `T`; `load` gives it with its weight in bytes when it is not there.
    ///
    /// # Errors
    /// Those of `load`.
    pub async fn decoded<T, F>(&self, key: FileKey, load: F) -> Result<Cached<T>>
    where
        T: Any + Send + Sync,
        F: Future<Output = Result<(T, usize)>>,
    {
        let load = async {
            let (value, weight) = load.await?;
            Ok((Arc::new(value) as Arc<AnyValue>, weight))
        };
        let cached = self.decoded.get_or_load((TypeId::of::<T>(), key), load).await?;
        let value =
            cached.value.downcast().map_err(|_| Error::internal("a cached file has another type than its key"))?;
        Ok(Cached { value, hit: cached.hit })
    }

    /// An immutable file decoded as a `T`, if it is there.
    pub fn cached<T: Any + Send + Sync>(&self, key: &FileKey) -> Option<Arc<T>> {
        self.decoded.get(&(TypeId::of::<T>(), key.clone()))?.downcast().ok()
    }

    /// Keeps an immutable file decoded as a `T`, which weighs `weight` bytes.
    pub fn keep<T: Any + Send + Sync>(&self, key: FileKey, value: Arc<T>, weight: usize) {
        self.decoded.insert((TypeId::of::<T>(), key), value, weight);
    }

    /// What the cache of decoded files did and holds.
    pub fn decoded_counts(&self) -> CacheCounts {
        self.decoded.counts()
    }

    /// What the cache of documents did and holds. A hit is one that the store had yet to confirm.
    pub fn document_counts(&self) -> CacheCounts {
        self.documents.counts()
    }

    /// Forgets everything.
    pub fn clear(&self) {
        self.decoded.clear();
        self.documents.clear();
    }

    pub(crate) fn document<T: Any + Send + Sync>(&self, location: &Arc<str>) -> Option<Arc<T>> {
        self.documents.get(location)?.downcast().ok()
    }

    pub(crate) fn insert_document<T: Any + Send + Sync>(&self, location: Arc<str>, value: Arc<T>, weight: usize) {
        self.documents.insert(location, value, weight);
    }

    pub(crate) fn remove_document(&self, location: &Arc<str>) {
        self.documents.remove(location);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    #[test]
    fn insert_when_budget_is_full_then_the_longest_unused_goes() {
        let cache = ByteCache::new(100);
        for key in 0..4 {
            cache.insert(key, Arc::new(key), 25);
        }
        assert_eq!(cache.get(&0).as_deref(), Some(&0));
        cache.insert(4, Arc::new(4), 30);
        assert_eq!(
            [0, 1, 2, 3, 4].map(|key| cache.get(&key).is_some()),
            [true, false, false, true, true],
            "0 was used, 1 and 2 make room"
        );
        let counts = cache.counts();
        assert_eq!((counts.entries, counts.bytes, counts.hits, counts.misses), (3, 80, 4, 2));
        cache.insert(4, Arc::new(5), 10);
        assert_eq!(cache.counts().bytes, 60);
        cache.insert(9, Arc::new(9), 101);
        assert_eq!(cache.get(&9), None);
        cache.set_budget(25);
        assert_eq!(cache.counts().entries, 1);
        cache.clear();
        assert_eq!(cache.counts().bytes, 0);
    }

    #[tokio::test]
    async fn get_or_load_when_many_ask_at_once_then_loaded_once() {
        let cache = Arc::new(ByteCache::<&str, usize>::new(100));
        let loads = Arc::new(AtomicUsize::new(0));
        let asks = (0..10).map(|_| {
            let (cache, loads) = (Arc::clone(&cache), Arc::clone(&loads));
            tokio::spawn(async move {
                let load = async {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    Ok((Arc::new(loads.fetch_add(1, Ordering::SeqCst)), 1))
                };
                cache.get_or_load("k", load).await.unwrap()
            })
        });
        let answers: Vec<_> = futures::future::join_all(asks).await.into_iter().map(Result::unwrap).collect();
        assert!(answers.iter().all(|answer| *answer.value == 0));
        assert_eq!(answers.iter().filter(|answer| !answer.hit).count(), 1);
        let counts = cache.counts();
        assert_eq!((loads.load(Ordering::SeqCst), counts.hits, counts.misses), (1, 9, 1));
        assert!(cache.state.lock().loading.is_empty());
    }

    #[tokio::test]
    async fn get_or_load_when_load_fails_or_is_dropped_then_the_next_loads() {
        let cache = ByteCache::<&str, i32>::new(100);
        let failed = cache.get_or_load("k", async { Err(Error::corrupt("no")) }).await;
        assert!(failed.is_err());
        let never = cache.get_or_load("k", futures::future::pending());
        assert!(tokio::time::timeout(Duration::from_millis(5), never).await.is_err());
        assert!(cache.state.lock().loading.is_empty());
        let waits = cache.get_or_load("k", async {
            tokio::time::sleep(Duration::from_millis(5)).await;
            Err(Error::corrupt("no"))
        });
        let takes_over = cache.get_or_load("k", async { Ok((Arc::new(7), 1)) });
        let (failed, loaded) = tokio::join!(waits, takes_over);
        assert!(failed.is_err());
        assert_eq!(*loaded.unwrap().value, 7);
        assert!(cache.state.lock().loading.is_empty());
        assert!(cache.get_or_load("k", async { Err(Error::corrupt("no")) }).await.unwrap().hit);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn get_or_load_when_callers_race_then_no_load_is_left_behind() {
        let cache = Arc::new(ByteCache::<u32, u32>::new(0));
        for round in 0..200 {
            let asks = (0..8).map(|_| {
                let cache = Arc::clone(&cache);
                tokio::spawn(async move {
                    let load = async {
                        tokio::task::yield_now().await;
                        Ok((Arc::new(round), 1))
                    };
                    *cache.get_or_load(1, load).await.unwrap().value
                })
            });
            let answers = futures::future::join_all(asks).await;
            assert!(answers.into_iter().all(|answer| answer.unwrap() == round));
            assert!(cache.state.lock().loading.is_empty());
        }
    }

    #[tokio::test]
    async fn decoded_when_one_file_is_decoded_as_two_types_then_both_are_kept() {
        let caches = Caches::new(1000);
        let key = FileKey::new("memory://x/m", 5);
        for expected_hit in [false, true] {
            let text = caches.decoded(key.clone(), async { Ok(("text".to_owned(), 4)) }).await.unwrap();
            let number = caches.decoded(key.clone(), async { Ok((4_u64, 8)) }).await.unwrap();
            assert_eq!((text.value.as_str(), *number.value), ("text", 4));
            assert_eq!((text.hit, number.hit), (expected_hit, expected_hit));
        }
        let other_size = caches.decoded(FileKey::new("memory://x/m", 6), async { Ok((6_u64, 8)) }).await.unwrap();
        assert_eq!(*other_size.value, 6);
        assert_eq!(caches.decoded_counts().bytes, 20);
    }
}
