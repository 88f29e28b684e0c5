//! After a restart or a failure: which commits are there already, and taking away the files of one that will not be.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;

use super::brought::Brought;
use super::scope::Scope;
use super::{BATCH_IDENTIFIER, Committable, TableCommit};
use crate::error::{Error, ErrorKind, Result};
use crate::spec::Snapshot;
use crate::write::CommitMessage;

/// Questions to the store at once.
const CONCURRENCY: usize = 16;

impl TableCommit {
    /// Leaves out the committables that are committed already, by the newest snapshot of the user, and gives the others in
    /// the order of their identifiers (`spec/metadata.md 7.5`). Those must be committed as they are: their files are there.
    ///
    /// # Errors
    /// Not found when a file of one that is still to be committed is gone; Io when the store failed.
    pub async fn filter_committed(&self, committables: Vec<Committable>) -> Result<Vec<Committable>> {
        let result = async {
            let mut left = committables;
            left.sort_by_key(|committable| committable.identifier);
            if left.is_empty() {
                return Ok(left);
            }
            if let Some(newest) = self.newest_known().await? {
                left.retain(|committable| committable.identifier > newest.commit_identifier);
            }
            self.check_files(&left).await?;
            Ok(left)
        };
        Box::pin(result).await.map_err(|error| self.table.at(error))
    }

    /// Whether the user has committed `identifier`, or a later one. When not, [`Self::commit`] of this identifier finds what
    /// another committer of the user does with it from now on.
    ///
    /// # Errors
    /// Invalid when the user's newest commit is that of a batch job, which has no number; Io when the store failed.
    pub async fn is_committed(&self, identifier: i64) -> Result<bool> {
        let newest = Box::pin(self.newest_known()).await.map_err(|error| self.table.at(error))?;
        match newest.map(|newest| newest.commit_identifier) {
            Some(BATCH_IDENTIFIER) if identifier != BATCH_IDENTIFIER => Err(self.table.at(Error::invalid(format!(
                "user '{}' has committed a batch job to the table, after which its numbers tell nothing; take a user of its own \
                 for commits with numbers",
                self.user
            )))),
            newest => Ok(newest.is_some_and(|newest| newest >= identifier)),
        }
    }

    /// The newest snapshot of the user. Commits after this look at what came since.
    async fn newest_known(&self) -> Result<Option<Arc<Snapshot>>> {
        let latest = self.latest(None).await?;
        *self.filtered_at.lock() = Some(latest.as_ref().map_or(0, |latest| latest.id));
        self.newest_of_user(latest).await
    }

    /// The newest snapshot of the user; older ones than strict mode looks at do not count.
    async fn newest_of_user(&self, latest: Option<Arc<Snapshot>>) -> Result<Option<Arc<Snapshot>>> {
        let Some(latest) = latest else { return Ok(None) };
        let oldest = self.safe_snapshot.lock().map_or(1, |safe| safe.saturating_add(1)).max(1);
        let snapshots = self.table.snapshots();
        let mut next = latest.id;
        while next >= oldest {
            let first = oldest.max(next - CONCURRENCY as i64 + 1);
            let finds: Vec<_> = (first..=next).rev().map(|id| snapshots.find(id)).collect();
            for found in futures::future::try_join_all(finds).await? {
                match found {
                    Some(snapshot) if snapshot.commit_user == self.user => return Ok(Some(snapshot)),
                    Some(_) => {}
                    None => return Ok(None),
                }
            }
            next = first - 1;
        }
        Ok(None)
    }

    async fn check_files(&self, committables: &[Committable]) -> Result<()> {
        let mut paths = Vec::new();
        for message in committables.iter().flat_map(|committable| &committable.messages) {
            for file in Brought::all(message) {
                paths.append(&mut self.paths_of(message, file)?);
            }
        }
        let files = self.table.files();
        let asked: Vec<_> = paths.iter().map(|path| files.exists(path)).collect();
        let there: Vec<bool> = futures::stream::iter(asked).buffered(CONCURRENCY).try_collect().await?;
        let missing: Vec<&Path> = paths.iter().zip(there).filter(|(_, there)| !there).map(|(path, _)| path).collect();
        match missing.first() {
            None => Ok(()),
            Some(path) => Err(Error::not_found(format!(
                "{} files that are to be committed are gone; the state that is restored is too old, or the files were \
                 cleaned as orphans",
                missing.len()
            ))
            .with("file", files.location_of(path))),
        }
    }

    /// Deletes the files that messages brought, which will never be committed: also those that belong to data files. Files
    /// that the latest snapshot refers to stay. What can't be deleted is left for orphan cleaning.
    ///
    /// # Errors
    /// Io when the outcome of a commit of this committer is unknown, or the store does not say what the table refers to;
    /// nothing is deleted then.
    pub async fn abort(&self, messages: &[CommitMessage]) -> Result<()> {
        let result = async {
            if self.unknown.load(Ordering::Relaxed) {
                return Err(Error::new(
                    ErrorKind::Io,
                    "nobody knows whether the files were committed: nothing is deleted; see which commits are there \
                     (filter_committed) and commit the others again",
                ));
            }
            let live = self.live_names(messages).await?;
            let mut paths = Vec::new();
            for message in messages {
                for file in Brought::all(message).into_iter().filter(|file| !live.contains(file.name())) {
                    paths.append(&mut self.paths_of(message, file)?);
                }
            }
            let files = self.table.files();
            let deletes: Vec<_> = paths.iter().map(|path| files.delete(path)).collect();
            // Quietly: the failure that led here is the one to report.
            let _: Vec<Result<()>> = futures::stream::iter(deletes).buffered(CONCURRENCY).collect().await;
            Ok(())
        };
        Box::pin(result).await.map_err(|error| self.table.at(error))
    }

    /// Names of the files that the latest snapshot refers to in the partitions of `messages`.
    async fn live_names(&self, messages: &[CommitMessage]) -> Result<HashSet<String>> {
        let scope = Scope::rows(self.table.schema(), messages.iter().map(|message| message.partition.as_slice()))?;
        let base = super::base::Base::read(&self.table, self.latest(None).await?).await?;
        let live = base.live(&self.table, &scope).await?;
        let indexes = base.indexes.iter().map(|index| index.file_name.clone());
        Ok(live.iter().map(|file| file.name().to_owned()).chain(indexes).collect())
    }
}
