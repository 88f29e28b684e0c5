//! Messages of writers become snapshots.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use chrono_tz::Tz;

use crate::commit::{BATCH_IDENTIFIER, CommitOutcome, Committable, OverwriteScope, TableCommit};
use crate::error::{Error, Result};
use crate::maintain::upkeep::{Committed, after_commit, partitions_of};
use crate::table::Table;
use crate::write::CommitMessage;

/// Commits what [`TableWriter`](super::TableWriter)s prepared, under the name of one user.
///
/// A stream that is to survive restarts keeps its user and counts its identifiers; a batch job takes a new user (a UUID) each
/// time and [`Self::commit_batch`].
#[derive(Debug)]
pub struct TableCommitter {
    commit: TableCommit,
}

impl TableCommitter {
    /// Commits to `table` as `user`.
    ///
    /// # Errors
    /// Invalid when the options of the table for commits can't be read.
    pub fn try_new(table: &Arc<Table>, user: impl Into<String>) -> Result<Self> {
        Ok(Self { commit: TableCommit::new(Arc::clone(table), user)? })
    }

    /// Commits one round of a stream, once: when this user has committed `identifier` or a later one before, nothing
    /// happens, and the outcome has no snapshots. Files that a repetition wrote anew are left for orphan cleaning then: from
    /// here they can't be told from those that were committed.
    ///
    /// # Errors
    /// Invalid when the commit conflicts with others', corrupt when a file of the messages is gone, Io when the store failed;
    /// nothing is visible then, and the same call can be repeated.
    pub async fn commit(&self, identifier: i64, messages: Vec<CommitMessage>) -> Result<CommitOutcome> {
        let committable = Committable::new(identifier, messages);
        let left = Box::pin(self.commit.filter_committed(vec![committable])).await?;
        let Some(committable) = left.into_iter().next() else { return Ok(CommitOutcome::default()) };
        let partitions = partitions_of(&committable.messages);
        let mut outcome = Box::pin(self.commit.commit(committable)).await?;
        outcome.upkeep_failed = self.upkeep(Committed { at_end: false, partitions: &partitions }).await;
        Ok(outcome)
    }

    /// Commits the messages of a batch job.
    ///
    /// # Errors
    /// As [`Self::commit`].
    pub async fn commit_batch(&self, messages: Vec<CommitMessage>) -> Result<CommitOutcome> {
        let partitions = partitions_of(&messages);
        let mut outcome = Box::pin(self.commit.commit(Committable::new(BATCH_IDENTIFIER, messages))).await?;
        outcome.upkeep_failed = self.upkeep(Committed { at_end: true, partitions: &partitions }).await;
        Ok(outcome)
    }

    /// Commits rows that take the place of others.
    ///
    /// # Errors
    /// As [`Self::commit`].
    pub async fn overwrite(&self, scope: &OverwriteScope, messages: Vec<CommitMessage>) -> Result<CommitOutcome> {
        let partitions = partitions_of(&messages);
        let mut outcome = Box::pin(self.commit.overwrite(scope, Committable::new(BATCH_IDENTIFIER, messages))).await?;
        outcome.upkeep_failed = self.upkeep(Committed { at_end: true, partitions: &partitions }).await;
        Ok(outcome)
    }

    /// What is due after a commit, by the table's options. The rows are there: what fails here is left to the next commit, and
    /// why it failed is told.
    async fn upkeep(&self, committed: Committed<'_>) -> Option<String> {
        let clock = |zone: Option<&str>, instant: DateTime<Utc>| match zone.map(str::parse::<Tz>) {
            None => Ok(instant.naive_utc()),
            Some(Ok(zone)) => Ok(instant.with_timezone(&zone).naive_local()),
            Some(Err(_)) => Err(Error::invalid("an option names no time zone")),
        };
        let done = Box::pin(after_commit(self.commit.table(), Utc::now(), &clock, committed)).await;
        done.err().map(|error| error.to_string())
    }

    /// Removes the files of messages that will not be committed.
    ///
    /// # Errors
    /// Invalid when the messages are committed already: their files are the table's.
    pub async fn abort(&self, messages: &[CommitMessage]) -> Result<()> {
        Box::pin(self.commit.abort(messages)).await
    }

    /// The commit path underneath, for everything else that it can do.
    pub fn table_commit(&self) -> &TableCommit {
        &self.commit
    }
}
