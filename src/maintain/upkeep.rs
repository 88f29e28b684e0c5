//! What is due after a commit, by the table's options (`spec/metadata.md 7.3` 14): tags, old partitions, idle consumers, old
//! snapshots and changelogs. With `write-only` all of it is left to others.
//!
//! A commit does not do this: who commits calls [`after_commit`], as the SQL statements that write and the committers of
//! applications do.
//!
//! May import: `error`, `options`, `spec`, `store`, `table`, `plan`, `write`, `commit`.

use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::automatic_tags::{self, WallClock};
use super::consumers::expire_consumers;
use super::expire_changelogs::expire_changelogs;
use super::expire_partitions::{PartitionExpiry, expire_partitions, is_due};
use super::expire_snapshots::{Expired, expire_snapshots};
use super::mark_done::mark_partitions_done;
use crate::error::Result;
use crate::options::UpkeepOptions;
use crate::table::Table;
use crate::write::CommitMessage;

/// What was committed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Committed<'a> {
    /// Whether this was the end of a batch job.
    pub at_end: bool,
    /// The partitions that were written, as serialized rows.
    pub partitions: &'a [Vec<u8>],
}

/// The partitions that messages are about, each once.
pub fn partitions_of(messages: &[CommitMessage]) -> Vec<Vec<u8>> {
    let mut partitions: Vec<Vec<u8>> = messages.iter().map(|message| message.partition.clone()).collect();
    partitions.sort_unstable();
    partitions.dedup();
    partitions
}

/// Does what is due after a commit at `now`. A step that fails does not keep the others from being done.
///
/// # Errors
/// The first error of a step. The commit itself is not touched.
pub async fn after_commit(
    table: &Arc<Table>,
    now: DateTime<Utc>,
    clock: &WallClock<'_>,
    committed: Committed<'_>,
) -> Result<()> {
    let options = UpkeepOptions::new(table.settings()).map_err(|error| table.at(error))?;
    let mut done = Ok(());
    if options.write_only {
        return done;
    }
    let mut step = |result: Result<()>| {
        if done.is_ok() {
            done = result;
        }
    };
    step(automatic_tags::after_commit(table, now, clock).await.map(|_| ()));
    step(Box::pin(partitions(table, now, clock, committed, &options)).await);
    if let Some(time) = options.consumer_time {
        step(expire_consumers(table, now, time).await.map(|_| ()));
    }
    let millis = now.timestamp_millis();
    if options.in_background {
        let (table, options) = (Arc::clone(table), options.clone());
        tokio::spawn(async move {
            // There is nobody to tell; the next commit tries again.
            let _ = expire(&table, &options, millis).await;
        });
    } else {
        step(Box::pin(expire(table, &options, millis)).await.map(|_| ()));
    }
    done
}

/// Lets old partitions expire when it is time to, and marks those done that a batch job wrote.
async fn partitions(
    table: &Arc<Table>,
    now: DateTime<Utc>,
    clock: &WallClock<'_>,
    committed: Committed<'_>,
    options: &UpkeepOptions,
) -> Result<()> {
    if table.schema().partition_keys.is_empty() {
        return Ok(());
    }
    if committed.at_end && options.done_at_end && !committed.partitions.is_empty() {
        mark_partitions_done(table, committed.partitions, now.timestamp_millis()).await?;
    }
    let expiry = PartitionExpiry::of(table.settings()).map_err(|error| table.at(error))?;
    let Some(expiry) = expiry else { return Ok(()) };
    let forced = committed.at_end && options.partitions_at_end;
    if forced || is_due(table, now).map_err(|error| table.at(error))? {
        Box::pin(expire_partitions(table, &expiry, clock(None, now)?)).await?;
    }
    Ok(())
}

/// Lets snapshots and, where they outlive them, changelogs expire.
///
/// # Errors
/// As [`expire_snapshots`] and [`expire_changelogs`].
pub async fn expire(table: &Table, options: &UpkeepOptions, now: i64) -> Result<Expired> {
    let mut expired = Box::pin(expire_snapshots(table, options, now)).await?;
    if options.keeps_changelogs() {
        let changelogs = Box::pin(expire_changelogs(table, options, now)).await?;
        expired.files += changelogs.files;
        expired.bytes = expired.bytes.saturating_add(changelogs.bytes);
        expired.left += changelogs.left;
        expired.unread += changelogs.unread;
    }
    Ok(expired)
}
