//! Expiry of long-lived changelogs (`spec/metadata.md 10.2`): those that outlived their snapshots.
//!
//! May import: `error`, `options`, `spec`, `store`, `table`, `plan`.

use std::sync::Arc;

use super::doomed::{Doomed, Parts, Removed};
use super::expire_snapshots::{Expired, Protection, existing, finish, next_of_consumers};
use super::references::Locator;
use crate::error::Result;
use crate::options::{ChangelogProducer, UpkeepOptions};
use crate::spec::Snapshot;
use crate::table::Table;

/// Lets the long-lived changelogs expire that `options` no longer keep at `now`, epoch milliseconds. The last one stays.
///
/// # Errors
/// Errors of the store and of the changelogs' files.
pub async fn expire_changelogs(table: &Table, options: &UpkeepOptions, now: i64) -> Result<Expired> {
    let expired = async {
        let ids = table.changelogs().ids().await?;
        let (Some(first), Some(last)) = (ids.first().copied(), ids.last().copied()) else {
            return Ok(Expired::default());
        };
        let Some(latest) = table.snapshots().latest_id().await? else { return Ok(Expired::default()) };
        let keep = options.changelogs;
        let forced = latest.saturating_sub(keep.most).saturating_add(1).max(first);
        let mut end = latest.saturating_sub(keep.least).saturating_add(1);
        end = end.min(first.saturating_add(options.limit)).min(last);
        if end <= first {
            return Ok(Expired::default());
        }
        end = end.min(next_of_consumers(table).await?);
        let oldest_kept = now.saturating_sub(i64::try_from(keep.time.as_millis()).unwrap_or(i64::MAX));
        for changelog in existing(&table.changelogs(), forced..end.max(forced)).await? {
            if changelog.time_millis >= oldest_kept {
                end = changelog.id;
                break;
            }
        }
        Box::pin(expire(table, first, Some(end))).await
    };
    expired.await.map_err(|error| table.at(error))
}

/// Removes all long-lived changelogs.
///
/// # Errors
/// As [`expire_changelogs`].
pub async fn remove_changelogs(table: &Table) -> Result<Expired> {
    let expired = async {
        match table.changelogs().ids().await?.first() {
            Some(first) => Box::pin(expire(table, *first, None)).await,
            None => Ok(Expired::default()),
        }
    };
    expired.await.map_err(|error| table.at(error))
}

/// Lets the changelogs from `first` to before `end` go, all without an end.
async fn expire(table: &Table, first: i64, end: Option<i64>) -> Result<Expired> {
    let changelogs = table.changelogs();
    let all: Vec<i64> = changelogs.ids().await?;
    let last = all.last().map_or(first, |last| last + 1);
    let gone = existing(&changelogs, first..end.unwrap_or(last)).await?;
    let (Some(earliest), Some(latest)) = (table.snapshots().earliest().await?, table.snapshots().latest_id().await?)
    else {
        return Ok(Expired::default());
    };
    if gone.is_empty() {
        return Ok(Expired::default());
    }
    let mut locator = Locator::new(table);
    let mut doomed = Doomed::default();
    let (with, without): (Vec<Arc<Snapshot>>, Vec<Arc<Snapshot>>) =
        gone.iter().map(Arc::clone).partition(|changelog| changelog.changelog_manifest_list.is_some());
    doomed.add_deltas(table, &mut locator, &without, Removed::All).await;
    // Lists that went with their snapshots are nothing that is missing.
    doomed.unread = 0;
    let kept = match end {
        Some(end) => existing(&changelogs, end..last).await?,
        None => Vec::new(),
    };
    let next = kept.first().map(Arc::clone);
    if !doomed.is_empty() {
        // Snapshots between the two histories may have taken files back.
        let spared = async {
            doomed.spare_live(table, &earliest).await?;
            doomed.spare_changelogs(table, &kept).await
        };
        if spared.await.is_err() {
            doomed.clear();
            doomed.unread += 1;
        }
    }
    doomed.add_changelogs(table, &mut locator, &with).await;
    let mut protection = Protection::new(table, &earliest, latest).await;
    if let Some(next) = &next {
        protection.add_changelog(table, next).await;
    }
    for changelog in &gone {
        changelogs.delete(changelog.id).await?;
    }
    match &next {
        Some(next) => changelogs.hint_earliest(Some(next.id)).await?,
        None => {
            changelogs.hint_earliest(None).await?;
            changelogs.hint_latest(None).await?;
        }
    }
    // Those of a table without changelog files kept the lists of their state, those of others only that of their changelog.
    let has_no_changelogs = table.settings().changelog_producer == ChangelogProducer::None;
    let parts = Parts { state: has_no_changelogs, changelog: true, rest: false };
    let mut expired = finish(table, doomed, protection, &mut locator, &gone, parts).await;
    expired.snapshots = gone.len() as u64;
    Ok(expired)
}
