//! Writers, compactors, taggers, branches, expirers and cleaners at one table, whose store fails, dies half way through and shows
//! stale lists: nothing that a snapshot, tag or branch refers to is ever missing, and after cleaning nothing is left over.
//!
//! `TIDELAKE_SEED=<seed>` plays a failure again, `TIDELAKE_UPKEEP_STEPS` says how many steps are played, of other seeds each time
//! (600 of the same seeds).

use std::time::Duration;

use chrono::DateTime;
use object_store::path::Path;
use parking_lot::Mutex;

use super::*;
use crate::house::Random;
use crate::maintain::branches::{create_branch, delete_branch};
use crate::maintain::expire_changelogs::{expire_changelogs, remove_changelogs};
use crate::maintain::expire_snapshots::expire_snapshots;
use crate::maintain::orphan_files::{OrphanRequest, remove_orphan_files};
use crate::maintain::rollback::{RollbackTarget, restore};
use crate::maintain::tags::{Retention, TagTarget, create_tag, delete_tag};
use crate::options::Keep;
use crate::store::chaos::{ChaosStore, Fate, Operation};

/// Steps at one table.
const STEPS_A_TABLE: usize = 150;

/// What is still going on after this was killed.
const PATIENCE: Duration = Duration::from_millis(200);

/// What the store does to the process of a step.
struct Luck {
    random: Random,
    trouble: usize,
    /// Whether a list was stale in this step: of several in a row one is.
    was_stale: bool,
    calm: bool,
}

/// The table's store as processes see it.
fn troubled(root: &StoreLocation, luck: &Arc<Mutex<Luck>>) -> StoreLocation {
    let luck = Arc::clone(luck);
    let decide = move |operation: Operation, _: &Path| {
        let luck = &mut *luck.lock();
        if luck.calm {
            return Fate::Works;
        }
        match luck.trouble {
            1 if luck.random.below(25) == 0 => Fate::Fails,
            2 if luck.random.below(40) == 0 => [Fate::FailsAfter, Fate::Hangs, Fate::HangsAfter][luck.random.below(3)],
            3 if operation == Operation::List && luck.random.below(4) == 0 && !luck.was_stale => {
                luck.was_stale = true;
                Fate::Stale
            }
            _ => Fate::Works,
        }
    };
    ChaosStore::over(root, Box::new(decide))
}

/// The table as a new process sees it, which meets one kind of trouble.
async fn process(store: &StoreLocation, luck: &Mutex<Luck>, random: &mut Random, branch: Option<&str>) -> Arc<Table> {
    luck.lock().calm = true;
    let identifier = Identifier::new("db", "t").with_branch(branch);
    let table = Table::open(store.clone(), identifier, Arc::default(), BTreeMap::new()).await.unwrap();
    *luck.lock() = Luck {
        random: Random(random.below(usize::MAX) as u64),
        trouble: random.below(4),
        was_stale: false,
        calm: false,
    };
    table
}

/// One step. Whether it works is the store's affair.
async fn step(
    root: &StoreLocation,
    store: &StoreLocation,
    luck: &Mutex<Luck>,
    random: &mut Random,
    number: usize,
) -> Result<()> {
    let retention = Retention { created: DateTime::UNIX_EPOCH.naive_utc(), retained: None };
    let healthy = open(root).await;
    let branches = healthy.branches().names().await?;
    let on_branch = (random.below(4) == 0).then(|| branches.first().cloned()).flatten();
    let table = process(store, luck, random, on_branch.as_deref()).await;
    let named = |kind: &str| format!("{kind}{number}");
    let tags = healthy.tags().names().await?;
    let tag = tags.get(random.below(tags.len())).cloned();
    match random.below(20) {
        0..=5 => add(&table, &[&named("f"), &named("g")]).await.map(|_| ()),
        6..=9 => {
            let live = live(&table).await?;
            let names: Vec<&str> = live.iter().map(|file| file.file_name.as_str()).collect();
            let count = names.len().min(1 + random.below(6));
            if count == 0 {
                return Ok(());
            }
            compact(&table, &names[..count], &named("c")).await.map(|_| ())
        }
        10 => create_tag(&table, &named("t"), TagTarget::Latest, retention).await.map(|_| ()),
        11 => match &tag {
            Some(tag) => delete_tag(&healthy, tag).await,
            None => Ok(()),
        },
        12 => match &tag {
            Some(tag) if branches.len() < 2 => create_branch(&healthy, &named("b"), Some(tag), false).await.map(|_| ()),
            _ => Ok(()),
        },
        13 => match branches.first() {
            Some(branch) if random.below(3) == 0 => delete_branch(&healthy, branch).await,
            _ => Ok(()),
        },
        14 => match &tag {
            Some(tag) => Box::pin(restore(&table, &RollbackTarget::Tag(tag.clone()))).await.map(|_| ()),
            None => Ok(()),
        },
        15..=17 => {
            let mut options = options(&table);
            let kept = 1 + random.below(5) as i64;
            options.snapshots = Keep { least: kept, ..options.snapshots };
            Box::pin(expire_snapshots(&table, &options, LATER)).await?;
            if options.keeps_changelogs() {
                Box::pin(expire_changelogs(&table, &options, LATER)).await?;
            }
            Ok(())
        }
        _ => {
            let request = OrphanRequest { older_than: LATER - 1, dry_run: false, parallelism: 2 };
            Box::pin(remove_orphan_files(&table, request, LATER)).await.map(|_| ())
        }
    }
}

async fn play(seed: u64, outlived: bool) {
    let mut random = Random(seed);
    let long = [("changelog.num-retained.max", "7"), ("snapshot.num-retained.max", "5")];
    let quick = [("commit.min-retry-wait", "0 ms"), ("commit.max-retry-wait", "0 ms"), ("commit.timeout", "100 ms")];
    let more = [("manifest.merge-min-count", "4")];
    let changelogs: &[(&str, &str)] = if outlived { &long } else { &[] };
    let all: Vec<_> = quick.iter().chain(&more).chain(changelogs).copied().collect();
    let root = create(&all, &[]).await;
    let table = open(&root).await;
    let luck = Arc::new(Mutex::new(Luck { random: Random(0), trouble: 0, was_stale: false, calm: true }));
    let store = troubled(&root, &luck);
    for number in 0..STEPS_A_TABLE {
        // A process that hangs is killed.
        let _ = tokio::time::timeout(PATIENCE, Box::pin(step(&root, &store, &luck, &mut random, number))).await;
        // What was cancelled may still be clearing away.
        tokio::time::sleep(Duration::from_millis(1)).await;
        let _ = leaked(&table).await;
    }
    for branch in table.branches().names().await.unwrap() {
        delete_branch(&table, &branch).await.unwrap();
    }
    for tag in table.tags().names().await.unwrap() {
        delete_tag(&table, &tag).await.unwrap();
    }
    let table = open(&root).await;
    // What removes a file names it, until manifests are written anew without either.
    let committer = TableCommit::new(Arc::clone(&table), TableCommit::new_user(&table).unwrap()).unwrap();
    Box::pin(committer.compact_manifests()).await.unwrap();
    expire_snapshots(&table, &options(&table), LATER).await.unwrap();
    remove_changelogs(&table).await.unwrap();
    let request = OrphanRequest { older_than: LATER - 1, dry_run: false, parallelism: 0 };
    remove_orphan_files(&table, request, LATER).await.unwrap();
    assert_eq!(leaked(&table).await, BTreeSet::new());
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

async fn simulate(outlived: bool) {
    let given = setting("TIDELAKE_SEED");
    let steps = setting("TIDELAKE_UPKEEP_STEPS").unwrap_or(600) as usize / 2;
    let tables = if given.is_some() { 1 } else { steps.div_ceil(STEPS_A_TABLE) };
    let long = setting("TIDELAKE_UPKEEP_STEPS").is_some();
    for table in 0..tables as u64 {
        let fresh = || if long { uuid::Uuid::new_v4().as_u128() as u64 >> 16 } else { table + 1 };
        let seed = given.unwrap_or_else(fresh);
        eprintln!("play again: TIDELAKE_SEED={seed} (changelogs outlive snapshots: {outlived})");
        Box::pin(play(seed, outlived)).await;
    }
}

#[tokio::test]
async fn upkeep_when_stores_fail_then_nothing_needed_is_lost() {
    simulate(false).await;
}

#[tokio::test]
async fn upkeep_when_changelogs_outlive_snapshots_then_nothing_needed_is_lost() {
    simulate(true).await;
}
