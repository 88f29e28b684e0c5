//! Many committers at a table whose store fails, and what became of it, held against a model.
//!
//! Actors commit, compact, overwrite and mark rows, each through a store of its own that fails, hangs, loses answers and
//! shows stale lists; some die half way and come back. They take turns one store operation at a time, by a seed, so that a
//! failure of a test can be played again: `TIDELAKE_SEED=<seed>`. `TIDELAKE_FAULT_COMMITS` says how many commits are made
//! (2000).
//!
//! The model (`model.rs`) reads all snapshots through a healthy store and knows what each actor asked for and was told.

mod actor;
mod model;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use parking_lot::Mutex;

use super::tests::{Shape, create};
use crate::house::Random;
use crate::store::StoreLocation;
use crate::store::testing::memory;

/// Commits of one table.
const COMMITS_A_TABLE: usize = 125;

/// How long the commits of one table may take: something waits for ever then.
const AT_MOST: Duration = Duration::from_secs(300);

/// Actors at one table.
const ACTORS: usize = 5;

/// What tables are tried. Waits are short, since the actors take turns.
const QUICK: [(&str, &str); 3] =
    [("commit.min-retry-wait", "0 ms"), ("commit.max-retry-wait", "0 ms"), ("manifest.merge-min-count", "5")];

/// Where stores hang, commits do not wait for ever.
const PATIENT: (&str, &str) = ("commit.timeout", "300 ms");

/// What kind of table the actors work at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Partitions, no buckets.
    Append,
    /// Rows of its files are marked as deleted.
    Vectors,
    /// Two buckets with sorted levels.
    Keyed,
    /// Rows have ids.
    Tracked,
}

async fn new_table(kind: Kind, faults: Faults) -> StoreLocation {
    let root = memory("wh/db.db/t");
    let (keys, more): (&[&str], &[(&str, &str)]) = match kind {
        Kind::Append => (&[], &[("manifest.full-compaction-threshold-size", "40 kb")]),
        Kind::Vectors => (&[], &[("deletion-vectors.enabled", "true")]),
        Kind::Keyed => (&["a", "b"], &[("bucket", "2"), ("manifest.full-compaction-threshold-size", "20 kb")]),
        Kind::Tracked => (&[], &[("row-tracking.enabled", "true")]),
    };
    let hangs = [PATIENT];
    let hangs = if faults.hangs { &hangs[..] } else { &[] };
    let options: Vec<_> = QUICK.iter().chain(more).chain(hangs).copied().collect();
    create(&root, &Shape { partition: &["a"], keys, options: &options }).await;
    root
}

/// What one actor shares with the store that it sees.
#[derive(Debug, Default)]
pub(super) struct Luck {
    random: Mutex<Option<Random>>,
    /// Whether its files may have stayed although it tried: a delete failed, or it died.
    untidy: AtomicBool,
    /// No faults: it is dead, or has to look around undisturbed.
    calm: AtomicBool,
}

/// What goes wrong at a table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Faults {
    /// An operation in so many fails; none for 0.
    one_in: usize,
    /// Some of them have no answer at all.
    hangs: bool,
    /// Actors die.
    kills: bool,
}

async fn play(seed: u64, kind: Kind, commits: usize, faults: Faults) {
    let mut random = Random(seed);
    let root = new_table(kind, faults).await;
    let log = Arc::new(model::Log::default());
    let left = Arc::new(std::sync::atomic::AtomicUsize::new(commits));
    let mut gates = Vec::new();
    let mut lives: Vec<Option<Pin<Box<dyn Future<Output = ()>>>>> = Vec::new();
    let mut actors: Vec<Arc<actor::Actor>> = Vec::new();
    for number in 0..ACTORS {
        let gate = Arc::new(AtomicBool::new(false));
        let actor = actor::Actor::new(number, kind, &root, Arc::clone(&gate), random.split(), &log, &left, faults);
        gates.push(gate);
        lives.push(Some(Box::pin(Arc::clone(&actor).live())));
        actors.push(actor);
    }
    loop {
        let alive: Vec<usize> = (0..ACTORS).filter(|number| lives[*number].is_some()).collect();
        if alive.is_empty() {
            break;
        }
        let number = alive[random.below(alive.len())];
        if faults.kills && random.once_in(400) && actors[number].is_busy() {
            actors[number].die();
            let life = lives[number].take();
            // Half of them are cancelled and clean up, which gives up what they were about. The others are gone from one moment
            // to the next, and their successors go on with it.
            let cancelled = random.once_in(2);
            if cancelled {
                drop(life);
            } else {
                std::mem::forget(life);
            }
            actors[number] = Arc::new(actors[number].successor(&root, !cancelled));
            lives[number] = Some(Box::pin(Arc::clone(&actors[number]).live()));
            continue;
        }
        let Some(life) = &mut lives[number] else { continue };
        gates[number].store(false, Ordering::SeqCst);
        loop {
            if let Poll::Ready(()) = futures::poll!(life.as_mut()) {
                lives[number] = None;
                break;
            }
            // Anything but a store operation is waited for, so that only the seed decides who is next.
            if gates[number].load(Ordering::SeqCst) {
                break;
            }
            std::thread::sleep(Duration::from_micros(20));
            tokio::task::yield_now().await;
        }
    }
    // What was cancelled may still be clearing away.
    tokio::time::sleep(Duration::from_millis(5)).await;
    model::check(&root, kind, &log).await;
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Plays tables of one kind, or the one of a given seed.
async fn history(kind: Kind) {
    let given = setting("TIDELAKE_SEED");
    let commits = setting("TIDELAKE_FAULT_COMMITS").unwrap_or(2000) as usize / 4;
    let tables = if given.is_some() { 1 } else { commits.div_ceil(COMMITS_A_TABLE) };
    let mut seeds = Random(uuid::Uuid::new_v4().as_u128() as u64);
    for _ in 0..tables {
        let seed = given.unwrap_or_else(|| seeds.next() >> 16);
        let mut random = Random(seed);
        let one_in = [0, 300, 60, 25][random.below(4)];
        let faults = Faults { one_in, hangs: random.once_in(5), kills: random.once_in(2) };
        eprintln!("play again: TIDELAKE_SEED={seed} ({kind:?}, {faults:?})");
        let played = Box::pin(play(random.next(), kind, COMMITS_A_TABLE, faults));
        assert!(tokio::time::timeout(AT_MOST, played).await.is_ok(), "the commits of seed {seed} come to no end");
    }
}

#[tokio::test]
async fn append_when_stores_fail_then_nothing_is_lost_or_doubled() {
    history(Kind::Append).await;
}

#[tokio::test]
async fn vectors_when_stores_fail_then_no_row_comes_back() {
    history(Kind::Vectors).await;
}

#[tokio::test]
async fn keyed_when_stores_fail_then_levels_stay_sorted() {
    history(Kind::Keyed).await;
}

#[tokio::test]
async fn tracked_when_stores_fail_then_row_ids_go_on() {
    history(Kind::Tracked).await;
}
