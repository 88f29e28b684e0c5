//! One statement that writes: its rows are written and committed, once.
//!
//! ```text
//! committed already (SET paimon.commit.*)? -> 0 rows
//!   loop: run of the nodes below -> messages -> dead letters, columns, compaction, commit
//!     another commit gave the same keys their place first -> its files go, and the nodes run again
//! ```

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Weak};

use arrow::array::AsArray;
use arrow::datatypes::UInt64Type;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use futures::TryStreamExt;
use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

use super::commit::CommitPlan;
use crate::commit::{CommitOutcome, Committable, OverwriteScope, TableCommit, outcome_is_unknown};
use crate::compact;
use crate::error::{Error, ErrorKind};
use crate::maintain::upkeep;
use crate::options::CommitOptions;
use crate::table::Table;
use crate::write::{BucketMode, CommitMessage, RunSlot, WriteRun, WriteTarget};

/// A statement that is to be run.
pub(super) struct Statement {
    /// The nodes that write.
    pub input: Arc<dyn ExecutionPlan>,
    pub target: Arc<WriteTarget>,
    pub slot: Arc<RunSlot>,
    pub plan: Arc<CommitPlan>,
}

/// What a statement has written.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// Rows.
    pub rows: u64,
    /// The partitions that got some.
    pub partitions: Vec<Vec<u8>>,
    /// Why what was compacted with them is not in the table.
    pub compaction_failed: Option<String>,
}

impl Statement {
    /// Writes and commits.
    ///
    /// # Errors
    /// What writing and committing say; nothing of the statement is in the table then, unless the outcome is unknown
    /// ([`outcome_is_unknown`]).
    pub(super) async fn run(&self, context: &Arc<TaskContext>) -> Result<Written> {
        let _ends = RunEnds(&self.slot);
        let table = self.target.table();
        let most = CommitOptions::new(table.settings()).map_err(|error| table.at(error))?.max_retries;
        let (mut again, mut turn) = (0, None);
        let mut input = Arc::clone(&self.input);
        loop {
            let error = match Box::pin(self.attempt(&input, context)).await {
                Ok(written) => return Ok(written),
                Err(error) => error,
            };
            if again >= most || !self.can_run_again(&error) {
                return Err(error);
            }
            again += 1;
            input = reset_plan_states(input)?;
            // Statements of this process that lost once go one after the other.
            if turn.is_none() {
                turn = Some(second_turn(table).await);
            }
        }
    }

    /// Whether the statement only has to see what another one did to its keys, whose places are given as they come
    /// (`spec/data.md 3.5, 3.6`).
    fn can_run_again(&self, error: &DataFusionError) -> bool {
        let DataFusionError::External(error) = error else { return false };
        let Some(error) = error.downcast_ref::<Error>() else { return false };
        matches!(self.target.mode(), BucketMode::Dynamic | BucketMode::CrossPartition)
            && !self.target.replaces()
            // One that changes rows has to be planned again, to read them again.
            && self.plan.read_rows.is_none()
            && error.kind() == ErrorKind::Conflict
            // What is retryable was retried by the commit.
            && !error.is_retryable()
            && !outcome_is_unknown(error)
    }

    async fn attempt(&self, input: &Arc<dyn ExecutionPlan>, context: &Arc<TaskContext>) -> Result<Written> {
        let commit = TableCommit::new(Arc::clone(self.target.table()), self.target.user())?;
        if let Some(identifier) = self.plan.identifier
            && commit.is_committed(identifier).await?
        {
            return Ok(Written::default());
        }
        // The nodes below find the run when they are executed, so it begins first.
        let run = self.slot.start(&self.target, Arc::clone(context))?;
        let done = async {
            if let Some(letters) = &self.plan.dead_letters {
                letters.begin().await;
            }
            let (messages, rows) = gather(input.execute(0, Arc::clone(context))?).await?;
            let partitions = upkeep::partitions_of(&messages);
            let outcome = Box::pin(self.commit(commit, &run, messages)).await?;
            // Of a statement that changes rows, what was written is not what was changed.
            let rows = match self.plan.read_rows {
                Some(_) => run.changes().rows(),
                None => rows.saturating_sub(run.changes().beside()),
            };
            let compaction_failed = outcome.compaction_failed;
            Ok(if outcome.replayed { Written::default() } else { Written { rows, partitions, compaction_failed } })
        };
        let done = Box::pin(done).await;
        if done.is_err() {
            run.own_files().remove().await;
        }
        done
    }

    async fn commit(
        &self,
        mut commit: TableCommit,
        run: &WriteRun,
        mut messages: Vec<CommitMessage>,
    ) -> crate::error::Result<CommitOutcome> {
        let plan = &self.plan;
        // First: a row must not be lost between two commits.
        if let Some(letters) = &plan.dead_letters {
            Box::pin(letters.commit(plan.identifier)).await?;
        }
        if let Some(evolution) = &plan.evolution {
            let table = Box::pin(evolution.apply(self.target.table())).await?;
            commit = TableCommit::new(table, self.target.user())?;
            if let Some(identifier) = plan.identifier
                && commit.is_committed(identifier).await?
            {
                run.own_files().remove().await;
                return Ok(CommitOutcome { replayed: true, ..CommitOutcome::default() });
            }
        }
        let (table, replaces) = (Arc::clone(commit.table()), self.target.replaces());
        Box::pin(compact::after_write(&table, &mut messages, replaces, run.context(), run.own_files())).await?;
        let mut commit = commit.owning(Arc::clone(run.own_files()));
        let mut committable = match plan.identifier {
            Some(identifier) => Committable::new(identifier, messages),
            None => Committable::batch(messages),
        };
        committable.operation = Some(plan.operation);
        match &plan.overwrite {
            None => {
                let known = run.keys_read_at();
                commit = match self.target.mode() {
                    BucketMode::CrossPartition => commit.known_keys(known),
                    _ => commit.read_snapshot(known),
                };
                if let Some(read) = plan.read_rows {
                    commit = commit.changed_rows_of(read).adding_absent(plan.adds_absent);
                }
                Box::pin(commit.commit(committable)).await
            }
            Some(scope) => {
                if self.target.mode() == BucketMode::CrossPartition && *scope != OverwriteScope::Table {
                    commit = commit.known_keys(run.keys_read_at());
                }
                Box::pin(commit.overwrite(scope, committable)).await
            }
        }
    }
}

/// Ends the run of a slot: a statement that is dropped half-way lets go of its files.
struct RunEnds<'a>(&'a RunSlot);

impl Drop for RunEnds<'_> {
    fn drop(&mut self) {
        self.0.clear();
    }
}

async fn gather(mut input: SendableRecordBatchStream) -> Result<(Vec<CommitMessage>, u64)> {
    let (mut messages, mut rows) = (Vec::new(), 0);
    while let Some(batch) = input.try_next().await? {
        rows += batch.column(1).as_primitive::<UInt64Type>().values().iter().sum::<u64>();
        for bytes in batch.column(0).as_binary::<i32>().iter().flatten() {
            messages.push(CommitMessage::from_bytes(bytes)?);
        }
    }
    Ok((messages, rows))
}

/// Who waits to run again, by where the table lies.
static AGAIN: LazyLock<Mutex<HashMap<String, Weak<tokio::sync::Mutex<()>>>>> = LazyLock::new(Mutex::default);

/// Waits until no other statement of this process runs a second time on the table; that ends when what is given is dropped.
async fn second_turn(table: &Table) -> OwnedMutexGuard<()> {
    let place = table.files().location_of(&table.files().snapshot_dir());
    let queue = {
        let mut queues = AGAIN.lock();
        match queues.get(&place).and_then(Weak::upgrade) {
            Some(queue) => queue,
            None => {
                queues.retain(|_, queue| queue.strong_count() > 0);
                let queue = Arc::new(tokio::sync::Mutex::new(()));
                queues.insert(place, Arc::downgrade(&queue));
                queue
            }
        }
    };
    queue.lock_owned().await
}
