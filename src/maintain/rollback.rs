//! Going back to an earlier state (`spec/metadata.md 7.8`).
//!
//! [`rollback`] takes the snapshots after it away: their ids come back with the next commits. [`restore`] commits that state as
//! a new snapshot and takes nothing away. Data files stay in both cases.

use std::sync::Arc;

use crate::commit::TableCommit;
use crate::error::{Error, Result};
use crate::spec::Snapshot;
use crate::store::Snapshots;
use crate::table::Table;

/// The state to go back to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RollbackTarget {
    /// The snapshot of this id.
    Snapshot(i64),
    /// The snapshot that this tag keeps, which may have expired.
    Tag(String),
    /// The latest snapshot that was committed at this time or before, epoch milliseconds.
    Time(i64),
    /// The latest snapshot whose watermark is this or earlier.
    Watermark(i64),
}

/// From which snapshot to which a table went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rollback {
    /// The latest snapshot before.
    pub previous: i64,
    /// The latest snapshot now.
    pub current: i64,
}

/// Takes away all snapshots, long-lived changelogs and tags after `target`.
///
/// # Errors
/// Not found when there is no such state.
pub async fn rollback(table: &Table, target: &RollbackTarget) -> Result<Rollback> {
    let done = async {
        let target = find(table, target).await?;
        let snapshots = table.snapshots();
        let latest = latest(table).await?;
        if snapshots.find(target.id).await?.is_none() {
            // The tag outlived it; it is the only snapshot before the others again.
            snapshots.create(&target).await?;
            snapshots.hint_earliest(Some(target.id)).await?;
        }
        // Whoever believes the hint now finds the end; whoever does not still lists what is there.
        snapshots.hint_latest(Some(target.id)).await?;
        // The latest first: what is left is a table at all times.
        for id in snapshots.ids().await?.into_iter().rev().take_while(|id| *id > target.id) {
            snapshots.delete(id).await?;
        }
        cut_changelogs(&table.changelogs(), target.id).await?;
        for tag in table.tags().list().await? {
            if tag.snapshot.id > target.id {
                table.tags().delete(&tag.name).await?;
            }
        }
        Ok(Rollback { previous: latest.id.max(target.id), current: target.id })
    };
    done.await.map_err(|error: Error| table.at(error))
}

/// Takes the long-lived changelogs after snapshot `last` away: new snapshots come by their ids.
pub(super) async fn cut_changelogs(changelogs: &Snapshots, last: i64) -> Result<()> {
    let kept = changelogs.ids().await?;
    if kept.last().is_some_and(|id| *id > last) {
        let end = kept.iter().rev().find(|id| **id <= last).copied();
        for id in kept.into_iter().rev().take_while(|id| *id > last) {
            changelogs.delete(id).await?;
        }
        // None left is written so (`spec/metadata.md 7.8`).
        changelogs.hint_latest(Some(end.unwrap_or(-1))).await?;
    }
    Ok(())
}

/// Commits the state `target` as a new snapshot.
///
/// # Errors
/// Not found when there is no such state, or its files are gone; else as [`TableCommit::commit`].
pub async fn restore(table: &Arc<Table>, target: &RollbackTarget) -> Result<Rollback> {
    let done = async {
        let target = find(table, target).await?;
        let latest = latest(table).await?;
        let user = TableCommit::new_user(table)?;
        let outcome = Box::pin(TableCommit::new(Arc::clone(table), user)?.restore(target)).await?;
        let current = outcome.snapshot().map_or(latest.id, |snapshot| snapshot.id);
        Ok(Rollback { previous: latest.id, current })
    };
    Box::pin(done).await.map_err(|error: Error| {
        if error.context().iter().any(|(key, _)| *key == "table") { error } else { table.at(error) }
    })
}

async fn latest(table: &Table) -> Result<Arc<Snapshot>> {
    table
        .snapshots()
        .latest()
        .await?
        .ok_or_else(|| Error::not_found("the table has no snapshot yet, so that it can't go back to one"))
}

async fn find(table: &Table, target: &RollbackTarget) -> Result<Arc<Snapshot>> {
    let snapshots = table.snapshots();
    match target {
        RollbackTarget::Snapshot(id) => match snapshots.find(*id).await? {
            Some(snapshot) => Ok(snapshot),
            None => Err(table.missing_snapshot(*id).await),
        },
        RollbackTarget::Tag(name) => match table.tags().find(name).await? {
            Some(tag) => Ok(Arc::new(tag.snapshot.clone())),
            None => Err(table.missing_tag(name).await),
        },
        RollbackTarget::Time(millis) => table.snapshot_not_after(*millis).await,
        RollbackTarget::Watermark(watermark) => table.snapshot_below_watermark(*watermark).await,
    }
}
