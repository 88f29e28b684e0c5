//! Committers of one process take turns at a table instead of racing for the same snapshot id.
//!
//! It saves lost races and is no part of the protocol: other processes do not queue here, and a committer that has waited
//! long goes ahead.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

use crate::table::Table;

/// How long a committer lets others go first. A commit takes milliseconds; one that hangs must not hold up all others.
const PATIENCE: Duration = Duration::from_secs(5);

/// Queues by table and branch, and by the caches that it was opened with where its address may stand for several stores: folders
/// of this machine are the same to all sessions.
type Queues = HashMap<(usize, String), Weak<tokio::sync::Mutex<()>>>;

static QUEUES: LazyLock<Mutex<Queues>> = LazyLock::new(Mutex::default);

/// Waits for the turn; it ends when what is given is dropped. `None` when others took too long.
pub(super) async fn turn(table: &Table) -> Option<OwnedMutexGuard<()>> {
    let files = table.files();
    let opened_with = match files.root().url().scheme() {
        "file" => 0,
        _ => Arc::as_ptr(table.caches()) as usize,
    };
    let key = (opened_with, files.location_of(&files.snapshot_dir()));
    let queue = {
        let mut queues = QUEUES.lock();
        match queues.get(&key).and_then(Weak::upgrade) {
            Some(queue) => queue,
            None => {
                queues.retain(|_, queue| queue.strong_count() > 0);
                let queue = Arc::new(tokio::sync::Mutex::new(()));
                queues.insert(key, Arc::downgrade(&queue));
                queue
            }
        }
    };
    tokio::time::timeout(PATIENCE, queue.lock_owned()).await.ok()
}
