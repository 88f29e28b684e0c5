//! Making, replacing, renaming, deleting and expiring tags (`spec/metadata.md 9.1`).

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, NaiveDateTime, Utc};

use super::mark_done::write_success_file;
use crate::error::{Error, ErrorKind, Result};
use crate::spec::Snapshot;
use crate::store::Tag;
use crate::table::{Table, is_automatic_tag};

/// Which snapshot a tag keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagTarget {
    /// The latest one.
    Latest,
    /// The one of this id, which may have expired if another tag keeps it.
    Snapshot(i64),
    /// The first one that was committed at this time or later, epoch milliseconds.
    SinceTime(i64),
    /// The first one whose watermark is this or later.
    SinceWatermark(i64),
}

/// The folder, beside the tags, of the files that say which of them are there (`spec/metadata.md 1`).
const SUCCESS_DIR: &str = "tag-success-file";

/// How long a tag is kept, and since when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// The moment by the wall clock of whoever makes the tag.
    pub created: NaiveDateTime,
    /// How long it is kept; option `tag.default-time-retained` where it is not said.
    pub retained: Option<Duration>,
}

/// Makes tag `name` of a snapshot, and says which one.
///
/// # Errors
/// Already exists when there is such a tag; invalid when the name can't be one, or is one that this table's tags get by
/// themselves; not found when there is no such snapshot.
pub async fn create_tag(table: &Table, name: &str, target: TagTarget, retention: Retention) -> Result<Arc<Snapshot>> {
    let made = async {
        check_name(table, name)?;
        let snapshot = target_of(table, target).await?;
        let tag = tag(table, name, &snapshot, retention)?;
        if !table.tags().create(&tag).await? {
            return Err(Error::new(
                ErrorKind::AlreadyExists,
                format!("tag {name} exists already; replace_tag replaces it"),
            ));
        }
        mark_created(table, name).await?;
        Ok(snapshot)
    };
    made.await.map_err(|error| table.at(error))
}

/// Leaves a file that says that tag `name` is there, where `tag.create-success-file` asks for it.
///
/// # Errors
/// Io when the store failed.
pub(super) async fn mark_created(table: &Table, name: &str) -> Result<()> {
    if !table.settings().value::<bool>("tag.create-success-file")?.unwrap_or(false) {
        return Ok(());
    }
    let path = table.files().tag_dir().join(SUCCESS_DIR).join(format!("{name}_SUCCESS"));
    write_success_file(table.files(), &path, Utc::now().timestamp_millis()).await
}

/// Lets tag `name` keep another snapshot, or keep it for another time, and says which one.
///
/// # Errors
/// Not found when there is no such tag or snapshot.
pub async fn replace_tag(table: &Table, name: &str, target: TagTarget, retention: Retention) -> Result<Arc<Snapshot>> {
    let replaced = async {
        find(table, name).await?;
        let snapshot = target_of(table, target).await?;
        table.tags().replace(&tag(table, name, &snapshot, retention)?).await?;
        Ok(snapshot)
    };
    replaced.await.map_err(|error: Error| table.at(error))
}

/// Renames a tag.
///
/// # Errors
/// Not found when there is no tag `name`, already exists when there is a tag `target`.
pub async fn rename_tag(table: &Table, name: &str, target: &str) -> Result<()> {
    let renamed = async {
        check_name(table, target)?;
        let tag = find(table, name).await?;
        let renamed = Tag { name: target.to_owned(), ..tag.as_ref().clone() };
        if !table.tags().create(&renamed).await? {
            return Err(Error::new(ErrorKind::AlreadyExists, format!("tag {target} exists already")));
        }
        table.tags().delete(name).await
    };
    renamed.await.map_err(|error| table.at(error))
}

/// Deletes a tag. Data files that only it kept stay until orphan files are removed.
///
/// # Errors
/// Not found when there is no such tag.
pub async fn delete_tag(table: &Table, name: &str) -> Result<()> {
    let deleted = async {
        find(table, name).await?;
        table.tags().delete(name).await
    };
    deleted.await.map_err(|error| table.at(error))
}

/// Deletes the tags whose retention is over at `now`, and those that were made before `older_than` (both by the wall clock that
/// tags are made by); gives their names. `local` tells what that clock shows at an instant: a tag without retention does not
/// say when it was made, so that the time of its file counts.
///
/// # Errors
/// Corrupt when a file is not a tag, Io when the store failed.
pub async fn expire_tags(
    table: &Table,
    now: NaiveDateTime,
    older_than: Option<NaiveDateTime>,
    local: &(dyn Fn(DateTime<Utc>) -> NaiveDateTime + Sync),
) -> Result<Vec<String>> {
    let expired = async {
        let tags = table.tags();
        let mut expired = Vec::new();
        for tag in tags.list().await? {
            let over = match (tag.create_time, tag.time_retained) {
                (Some(created), Some(retained)) => {
                    let retained = chrono::Duration::from_std(retained).unwrap_or(chrono::Duration::MAX);
                    created.checked_add_signed(retained).is_some_and(|end| now > end)
                }
                _ => false,
            };
            let old = match older_than {
                None => false,
                Some(limit) => match tag.create_time {
                    Some(created) => created < limit,
                    None => tags.modified(&tag.name).await?.is_some_and(|modified| local(modified) < limit),
                },
            };
            if over || old {
                tags.delete(&tag.name).await?;
                expired.push(tag.name.clone());
            }
        }
        Ok(expired)
    };
    expired.await.map_err(|error: Error| table.at(error))
}

pub(super) fn tag(table: &Table, name: &str, snapshot: &Snapshot, retention: Retention) -> Result<Tag> {
    let retained = match retention.retained {
        Some(retained) => Some(retained),
        None => table.settings().value::<Duration>("tag.default-time-retained")?,
    };
    Ok(Tag {
        name: name.to_owned(),
        snapshot: snapshot.clone(),
        // Without a retention the time is left out, which old readers do not know (`spec/metadata.md 9.1`).
        create_time: retained.map(|_| retention.created),
        time_retained: retained,
    })
}

fn check_name(table: &Table, name: &str) -> Result<()> {
    if name.trim().is_empty() {
        return Err(Error::invalid("the name of a tag can't be blank"));
    }
    table.files().tag_path(name)?;
    if is_automatic_tag(table.settings(), name)? {
        return Err(Error::invalid(format!(
            "{name} is the name of a tag that this table makes by itself (tag.automatic-creation); use another one"
        )));
    }
    Ok(())
}

async fn find(table: &Table, name: &str) -> Result<Arc<Tag>> {
    match table.tags().find(name).await? {
        Some(tag) => Ok(tag),
        None => Err(table.missing_tag(name).await),
    }
}

async fn target_of(table: &Table, target: TagTarget) -> Result<Arc<Snapshot>> {
    let snapshots = table.snapshots();
    match target {
        TagTarget::Latest => snapshots
            .latest()
            .await?
            .ok_or_else(|| Error::not_found("the table has no snapshot yet, so that there is nothing to tag")),
        TagTarget::Snapshot(id) => table.snapshot_or_tagged(id).await,
        TagTarget::SinceTime(millis) => match snapshots.at_or_after(millis).await? {
            Some(snapshot) => Ok(snapshot),
            None => Err(table.no_later_snapshot(millis).await),
        },
        TagTarget::SinceWatermark(watermark) => table.snapshot_at_watermark(watermark).await,
    }
}
