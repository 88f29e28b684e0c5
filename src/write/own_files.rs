//! The files that one write has created and nobody refers to yet: they go when it fails or is dropped.
//!
//! May import: `error`, `store`.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use object_store::path::Path;
use parking_lot::Mutex;

use crate::store::{TableFiles, remove_unfinished};

/// How long a failed write waits for its files to go. A store that hangs must not hold up the error.
const PATIENCE: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 20 });

/// How long a store may take to make a file that nobody waits for any more.
const SETTLED: Duration = Duration::from_millis(200);

/// The files of one write (a statement, or one round of a writer) until they are committed.
///
/// Every file is named here before it is opened. [`Self::keep`] forgets them all, because a snapshot refers to them now or
/// may do so; [`Self::remove`] deletes them; dropped with files, it deletes them in the background, as far as there is a
/// runtime. What can't be deleted is an orphan for cleaning to find: never is anything deleted that was not created here.
///
/// While a snapshot is being created nobody knows whether it refers to the files: [`Self::hand_over`] puts them out of reach
/// of everything above until [`Self::take_back`].
#[derive(Debug)]
pub struct OwnFiles {
    files: Arc<TableFiles>,
    paths: Mutex<Paths>,
}

#[derive(Debug, Default)]
struct Paths {
    own: Vec<Path>,
    handed_over: Vec<Path>,
}

impl OwnFiles {
    /// No files yet, of the table of `files`.
    pub fn new(files: Arc<TableFiles>) -> Arc<Self> {
        Arc::new(Self { files, paths: Mutex::default() })
    }

    /// Notes a file that is about to be created.
    pub fn add(&self, path: Path) {
        self.paths.lock().own.push(path);
    }

    /// Deletes one file that was created here, because it is not wanted after all.
    pub async fn discard(&self, path: &Path) {
        let known = {
            let paths = &mut self.paths.lock().own;
            let known = paths.iter().position(|other| other == path);
            known.map(|at| paths.swap_remove(at)).is_some()
        };
        if known {
            // Best effort, as for all of them.
            let _ = self.files.delete(path).await;
        }
    }

    /// A snapshot may refer to the files from now on.
    pub fn hand_over(&self) {
        let mut paths = self.paths.lock();
        let mut own = std::mem::take(&mut paths.own);
        paths.handed_over.append(&mut own);
    }

    /// No snapshot refers to the files that were handed over.
    pub fn take_back(&self) {
        let mut paths = self.paths.lock();
        let mut back = std::mem::take(&mut paths.handed_over);
        paths.own.append(&mut back);
    }

    /// Keeps some of the files: a snapshot refers to them, whatever becomes of the others.
    pub fn keep_these(&self, paths: &[Path]) {
        let kept: HashSet<&Path> = paths.iter().collect();
        let mut own = self.paths.lock();
        own.own.retain(|path| !kept.contains(path));
        own.handed_over.retain(|path| !kept.contains(path));
    }

    /// Keeps the files: somebody else is responsible for them from now on.
    pub fn keep(&self) {
        *self.paths.lock() = Paths::default();
    }

    /// Deletes the files, as far as the store lets us. What it takes long over goes on in the background, and so does all of
    /// it when this is dropped half way.
    pub async fn remove(&self) {
        let own = std::mem::take(&mut self.paths.lock().own);
        let rest = Self { files: Arc::clone(&self.files), paths: Mutex::new(Paths { own, handed_over: Vec::new() }) };
        let _ = tokio::time::timeout(PATIENCE, async {
            loop {
                let Some(path) = rest.paths.lock().own.last().cloned() else { break };
                // A file that stays is an orphan: the error that made us delete is the one to report.
                let _ = self.files.delete(&path).await;
                rest.paths.lock().own.pop();
            }
        })
        .await;
    }
}

async fn remove(files: &TableFiles, paths: &[Path]) {
    for path in paths {
        // A file that stays is an orphan: the error that made us delete is the one to report.
        let _ = files.delete(path).await;
    }
}

impl Drop for OwnFiles {
    fn drop(&mut self) {
        let paths = std::mem::take(&mut self.paths.get_mut().own);
        if paths.is_empty() {
            return;
        }
        let files = Arc::clone(&self.files);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                remove(&files, &paths).await;
                // What was about to be made when its writer was dropped may be made only now.
                tokio::time::sleep(SETTLED).await;
                remove(&files, &paths).await;
                remove_unfinished(files.root(), paths).await;
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::testing::memory;

    #[tokio::test]
    async fn hand_over_when_dropped_then_files_stay_until_taken_back() {
        let files = Arc::new(TableFiles::new(memory("t"), None).unwrap());
        let path = files.snapshot_path(1);
        files.create(&path, "x").await.unwrap();
        let own = OwnFiles::new(Arc::clone(&files));
        own.add(path.clone());
        own.hand_over();
        own.remove().await;
        assert!(files.exists(&path).await.unwrap());
        own.take_back();
        own.remove().await;
        assert!(!files.exists(&path).await.unwrap());
        files.create(&path, "x").await.unwrap();
        own.add(path.clone());
        own.keep();
        own.take_back();
        own.remove().await;
        assert!(files.exists(&path).await.unwrap());
    }
}
