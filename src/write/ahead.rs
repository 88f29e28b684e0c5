//! A writer of key-value files in a task of its own: rows are merged here while those before them are encoded there.
//!
//! May import: `error`, `spec`, rest of this room.

use arrow::array::{Int8Array, Int64Array, RecordBatch};
use datafusion::common::runtime::SpawnedTask;
use tokio::sync::mpsc;

use super::RollingWriter;
use crate::error::{Error, Result};
use crate::spec::DataFileMeta;

/// Batches that wait for the writer.
const BATCHES_AHEAD: usize = 1;

enum Message {
    Rows(Box<(RecordBatch, Int64Array, Int8Array)>),
    /// Without it nothing is completed: a write that was dropped just stops sending.
    Finish,
}

/// A [`RollingWriter`] at work. Dropped before [`Self::finish`], it gives its files up.
pub(super) struct WriteAhead {
    messages: mpsc::Sender<Message>,
    task: SpawnedTask<Result<Vec<DataFileMeta>>>,
}

impl WriteAhead {
    pub fn new(mut writer: RollingWriter) -> Self {
        let (messages, mut received) = mpsc::channel(BATCHES_AHEAD);
        let task = SpawnedTask::spawn(async move {
            while let Some(message) = received.recv().await {
                match message {
                    Message::Rows(rows) => {
                        let (rows, sequence, kinds) = *rows;
                        writer.write_key_values(&rows, &sequence, &kinds).await?;
                    }
                    Message::Finish => return writer.finish().await,
                }
            }
            Err(Error::internal("a write was given up"))
        });
        Self { messages, task }
    }

    /// As [`RollingWriter::write_key_values`]; the error may be that of an earlier batch.
    pub async fn write(&mut self, rows: RecordBatch, sequence: Int64Array, kinds: Int8Array) -> Result<()> {
        self.send(Message::Rows(Box::new((rows, sequence, kinds)))).await
    }

    async fn send(&mut self, message: Message) -> Result<()> {
        if self.messages.send(message).await.is_ok() {
            return Ok(());
        }
        // It ended before it was told to.
        match self.task.join_unwind_mut().await {
            Ok(Err(error)) => Err(error),
            Ok(Ok(_)) | Err(_) => Err(Error::internal("the task that writes data files has ended")),
        }
    }

    /// As [`RollingWriter::finish`].
    pub async fn finish(mut self) -> Result<Vec<DataFileMeta>> {
        self.send(Message::Finish).await?;
        match self.task.join_unwind().await {
            Ok(files) => files,
            Err(error) => Err(Error::internal("the task that writes data files was cancelled").with_source(error)),
        }
    }
}
