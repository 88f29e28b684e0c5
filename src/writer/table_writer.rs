//! Batches of an application become files.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::DataFusionError;
use datafusion::common::runtime::SpawnedTask;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::compact;
use crate::error::{Error, Result};
use crate::plan::live::{LiveRequest, live_files};
use crate::table::Table;
use crate::write::{BucketMode, CommitMessage, LakeWriteExec, RunLegacy, RunSlot, WriteRun, WriteTarget};

/// Batches that wait to be taken by a writer.
const WAITING: usize = 2;

/// Writes batches into files of a table, round by round.
///
/// Nothing is visible before the messages of a round are committed. A writer that is dropped, or fails, takes the files of
/// the round with it; those of rounds that were prepared belong to who holds their messages.
pub struct TableWriter {
    target: Arc<WriteTarget>,
    context: Arc<TaskContext>,
    schema: SchemaRef,
    round: Option<Round>,
    legacy: Option<RunLegacy>,
    /// Files of earlier rounds, of which nobody has seen yet that they are committed: partition, bucket, name.
    uncommitted: HashSet<(Vec<u8>, i32, String)>,
    /// A round failed: what it wrote is gone, and the rounds after it would not be what the caller thinks.
    failed: bool,
}

struct Round {
    run: Arc<WriteRun>,
    batches: mpsc::Sender<RecordBatch>,
    task: SpawnedTask<Result<Vec<CommitMessage>>>,
}

impl fmt::Debug for TableWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableWriter").field("target", &self.target).finish_non_exhaustive()
    }
}

impl TableWriter {
    /// A writer that adds rows to `table`, for commits of `user`; memory and spill files are those of `context`.
    ///
    /// # Errors
    /// Unsupported for tables that can't be written, invalid when their options contradict each other.
    pub fn try_new(table: &Arc<Table>, user: &str, context: Arc<TaskContext>) -> Result<Self> {
        Self::create(table, user, context, false, false)
    }

    /// A writer of changes: behind the table's columns a batch has a column of row kinds, INT8: 0 +I, 1 -U, 2 +U, 3 -D
    /// (`spec/data.md 1.2`).
    ///
    /// # Errors
    /// As [`Self::try_new`].
    pub fn with_row_kinds(table: &Arc<Table>, user: &str, context: Arc<TaskContext>) -> Result<Self> {
        Self::create(table, user, context, false, true)
    }

    /// A writer of rows that take the place of others: its messages are for
    /// [`TableCommitter::overwrite`](super::TableCommitter::overwrite), and all of it is one round.
    ///
    /// # Errors
    /// As [`Self::try_new`].
    pub fn for_overwrite(table: &Arc<Table>, user: &str, context: Arc<TaskContext>) -> Result<Self> {
        Self::create(table, user, context, true, false)
    }

    /// A writer of rows of a table of postponed buckets that have theirs, and get `buckets` of them in each partition.
    ///
    /// # Errors
    /// As [`Self::try_new`].
    pub(crate) fn for_rescale(table: &Arc<Table>, buckets: i32, user: &str, context: Arc<TaskContext>) -> Result<Self> {
        Self::of(WriteTarget::of_rescaled(Arc::clone(table), buckets, user)?, context)
    }

    fn create(
        table: &Arc<Table>,
        user: &str,
        context: Arc<TaskContext>,
        replaces: bool,
        with_kinds: bool,
    ) -> Result<Self> {
        Self::of(WriteTarget::try_new(Arc::clone(table), replaces, with_kinds, user)?, context)
    }

    fn of(target: Arc<WriteTarget>, context: Arc<TaskContext>) -> Result<Self> {
        let (table, replaces, with_kinds) = (target.table(), target.replaces(), target.with_kinds());
        if target.mode() == BucketMode::CrossPartition && !replaces {
            return Err(table.at(Error::unsupported(
                "a table whose keys move between partitions is written by INSERT, which looks up where keys lie",
            )));
        }
        let mut fields: Vec<Arc<Field>> = target.table_schema().fields().iter().map(Arc::clone).collect();
        // NULLs are looked for when rows are written, with an error that names the column.
        fields.iter_mut().for_each(|field| *field = Arc::new(field.as_ref().clone().with_nullable(true)));
        if with_kinds {
            fields.push(Arc::new(Field::new("_VALUE_KIND", arrow::datatypes::DataType::Int8, false)));
        }
        let schema = Arc::new(Schema::new(fields));
        Ok(Self { target, context, schema, round: None, legacy: None, uncommitted: HashSet::new(), failed: false })
    }

    /// The columns of batches: those of the table, in order and by position, and the row kinds where the writer has them.
    /// Columns of other arrow types are cast if no value is lost.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Writes rows, after all that were written before.
    ///
    /// # Errors
    /// Invalid when a value does not fit its column; what went wrong in writing rows that were taken before. After an error
    /// the round is lost and its files are removed: prepare nothing, make a new writer.
    pub async fn write(&mut self, batch: RecordBatch) -> Result<()> {
        self.check()?;
        let batch = fitting(&batch, &self.schema).map_err(|error| self.target.table().at(error))?;
        if self.round.is_none() {
            self.round = Some(self.begin()?);
        }
        let taken = match &self.round {
            Some(round) => round.batches.send(batch).await.is_ok(),
            None => false,
        };
        if taken {
            return Ok(());
        }
        // The round ended before its input did: it failed, and says why.
        match self.end().await {
            Err(error) => Err(error),
            Ok(_) => Err(Error::internal("a round of a writer ended before its rows did")),
        }
    }

    /// Ends the round: all its rows are in files, and the messages about them can be committed, by
    /// [`TableCommitter`](super::TableCommitter), here or in another process. None when nothing was written.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub async fn prepare_commit(&mut self) -> Result<Vec<CommitMessage>> {
        self.check()?;
        if self.round.is_none() {
            return Ok(Vec::new());
        }
        let (run, mut messages) = self.end().await?;
        if let Err(error) = self.compact(&run, &mut messages).await {
            self.failed = true;
            run.own_files().remove().await;
            return Err(error);
        }
        run.own_files().keep();
        let compacts = compact::is_due_after_writes(self.target.table())?;
        for message in messages.iter().filter(|message| compacts && message.bucket >= 0) {
            let key = |name: &str| (message.partition.clone(), message.bucket, name.to_owned());
            let added = message.new_files.iter().chain(&message.compact_after);
            self.uncommitted.extend(added.map(|file| key(&file.file_name)));
            for file in &message.compact_before {
                if !message.compact_after.iter().any(|after| after.file_name == file.file_name) {
                    self.uncommitted.remove(&key(&file.file_name));
                }
            }
        }
        self.legacy = run.legacy(&messages);
        Ok(messages)
    }

    /// Compacts what the round has added to, as far as it is due. Not as long as files of earlier rounds are on their way: a
    /// compaction that does not know of them could drop deletes of their rows.
    async fn compact(&mut self, run: &WriteRun, messages: &mut [CommitMessage]) -> Result<()> {
        let (table, replaces) = (self.target.table(), self.target.replaces());
        if !self.uncommitted.is_empty() {
            let Some(snapshot) = table.snapshot(None).await? else { return Ok(()) };
            let live: HashSet<(Vec<u8>, i32, String)> = Box::pin(live_files(table, &snapshot, LiveRequest::default()))
                .await?
                .iter()
                .map(|planned| &planned.file)
                .map(|file| (file.partition().to_vec(), file.bucket(), file.name().to_owned()))
                .collect();
            if !self.uncommitted.is_subset(&live) {
                return Ok(());
            }
            self.uncommitted.clear();
        }
        Box::pin(compact::after_write(table, messages, replaces, &self.context, run.own_files())).await
    }

    fn check(&self) -> Result<()> {
        if self.failed {
            return Err(self.target.table().at(Error::invalid("the writer has failed before; make a new one")));
        }
        Ok(())
    }

    fn begin(&mut self) -> Result<Round> {
        let (sender, receiver) = mpsc::channel(WAITING);
        let rows = ReceivedRows { schema: Arc::clone(&self.schema), receiver: Mutex::new(Some(receiver)) };
        let source =
            StreamingTableExec::try_new(Arc::clone(&self.schema), vec![Arc::new(rows)], None, Vec::new(), false, None)?;
        let slot = Arc::new(RunSlot::default());
        let context = Arc::clone(&self.context);
        let run = match self.legacy.take() {
            Some(legacy) => WriteRun::follow(Arc::clone(&self.target), Arc::clone(&context), legacy)?,
            None => WriteRun::start(Arc::clone(&self.target), Arc::clone(&context))?,
        };
        slot.set(Arc::clone(&run));
        let partitions = context.session_config().target_partitions();
        let plan = LakeWriteExec::plan(Arc::new(source), None, &self.target, &slot, partitions)?;
        let task = SpawnedTask::spawn(LakeWriteExec::run(plan, context, slot));
        Ok(Round { run, batches: sender, task })
    }

    async fn end(&mut self) -> Result<(Arc<WriteRun>, Vec<CommitMessage>)> {
        let Some(Round { run, batches, task }) = self.round.take() else {
            return Err(Error::internal("a writer has no round to end"));
        };
        drop(batches);
        let written = match task.join().await {
            Ok(written) => written,
            Err(error) => Err(Error::internal("a task that writes failed").with_source(error)),
        };
        match written {
            Ok(messages) => Ok((run, messages)),
            Err(error) => {
                self.failed = true;
                run.own_files().remove().await;
                Err(error)
            }
        }
    }
}

/// The batch with the types of `schema`.
fn fitting(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    if batch.num_columns() != schema.fields().len() {
        return Err(Error::invalid(format!(
            "a batch has {} columns, and {} are expected: {}",
            batch.num_columns(),
            schema.fields().len(),
            schema.fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>().join(", ")
        )));
    }
    let strict = arrow::compute::CastOptions { safe: false, ..Default::default() };
    let columns = batch
        .columns()
        .iter()
        .zip(schema.fields())
        .map(|(column, field)| {
            arrow::compute::cast_with_options(column, field.data_type(), &strict).map_err(|error| {
                Error::invalid(format!(
                    "column {}: {} does not fit {}",
                    field.name(),
                    column.data_type(),
                    field.data_type()
                ))
                .with_source(error)
            })
        })
        .collect::<Result<_>>()?;
    Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
}

/// The rows that a writer is given, as the input of a plan.
struct ReceivedRows {
    schema: SchemaRef,
    receiver: Mutex<Option<mpsc::Receiver<RecordBatch>>>,
}

impl fmt::Debug for ReceivedRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReceivedRows")
    }
}

impl PartitionStream for ReceivedRows {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let receiver = self.receiver.lock().take();
        let rows = futures::stream::unfold(receiver, |receiver| async move {
            let mut receiver = receiver?;
            let batch = receiver.recv().await?;
            Some((Ok::<_, DataFusionError>(batch), Some(receiver)))
        });
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), rows))
    }
}
