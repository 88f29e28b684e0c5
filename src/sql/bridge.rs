//! Async work for the engine's hooks that are not async (listing schemas and tables).
//!
//! The work runs on threads of its own, so that a caller on any runtime, also a current-thread one, may wait for it.

use std::future::Future;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use crate::error::{Error, Result};

static RUNTIME: OnceLock<std::io::Result<Runtime>> = OnceLock::new();

/// Waits for `work`, whatever runtime the caller is on.
///
/// # Errors
/// Those of `work`; internal when its threads cannot be had.
pub(crate) fn wait_for<T, F>(work: F) -> Result<T>
where
    T: Send + 'static,
    F: Future<Output = Result<T>> + Send + 'static,
{
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(error) => return Err(Error::internal(format!("no threads for catalog work: {error}"))),
    };
    let (sender, receiver) = mpsc::sync_channel(1);
    runtime.spawn(async move {
        // A receiver that is gone does not want the answer.
        let _ = sender.send(work.await);
    });
    receiver.recv().map_err(|_| Error::internal("catalog work was dropped"))?
}

/// Runs `work` without anyone who waits for it: what is left to clean after a statement that was given up.
pub(crate) fn in_background<F>(work: F)
where
    F: Future<Output = ()> + Send + 'static,
{
    if let Ok(runtime) = runtime() {
        UNDER_WAY.fetch_add(1, Ordering::SeqCst);
        runtime.spawn(async move {
            let _done = Done;
            work.await;
        });
    }
}

/// Work without anyone who waits for it, so far.
static UNDER_WAY: AtomicUsize = AtomicUsize::new(0);

struct Done;

impl Drop for Done {
    fn drop(&mut self) {
        UNDER_WAY.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Waits until what statements left to clean that were given up is gone, or `patience` ends. A process that ends before leaves
/// it to orphan cleaning.
///
/// Files are removed by tasks of the runtime that this is called in: it has to be one in which nothing else goes on.
pub async fn cleaned_up(patience: Duration) {
    let tasks = tokio::runtime::Handle::current().metrics();
    let waiting = async {
        while UNDER_WAY.load(Ordering::SeqCst) > 0 || tasks.num_alive_tasks() > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let _ = tokio::time::timeout(patience, waiting).await;
}

fn runtime() -> &'static std::io::Result<Runtime> {
    RUNTIME.get_or_init(|| {
        Builder::new_multi_thread().worker_threads(2).thread_name("tidelake-bridge").enable_all().build()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn wait_for_when_on_a_current_thread_runtime_then_no_deadlock() {
        let answer = wait_for(async {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            Ok(7)
        });
        assert_eq!(answer.unwrap(), 7);
    }
}
