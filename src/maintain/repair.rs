//! Repairing tables that lost files: entries of data files that are gone are taken out, and the hint EARLIEST is set right.
//!
//! May import: `error`, `spec`, `store`, `table`, `plan`, `write`, `commit`.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};

use crate::commit::{Committable, TableCommit};
use crate::error::{Error, Result};
use crate::plan::live::{LiveRequest, live_files};
use crate::spec::DataFileMeta;
use crate::table::Table;
use crate::write::CommitMessage;

/// Files that are looked for at once.
const PARALLELISM: usize = 16;

/// Takes the live data files out of the table that are not in the store, and gives their names. With `dry_run` they are only
/// named. What lay in them is lost already; with this, the rest can be read again.
///
/// # Errors
/// Io when the store failed, also for a file that may be there; else as [`TableCommit::commit`].
pub async fn remove_missing_files(table: &Arc<Table>, dry_run: bool, parallelism: usize) -> Result<Vec<String>> {
    let missing = async {
        let Some(snapshot) = table.snapshots().latest().await? else { return Ok(Vec::new()) };
        let files = Box::pin(live_files(table, &snapshot, LiveRequest::default())).await?;
        let asks: Vec<_> = files
            .into_iter()
            .map(|file| async move {
                let path = file.path(table.files())?;
                // Asked twice: an answer that is wrong for a moment must not lose a file.
                let is_there = table.files().exists(&path).await? || table.files().exists(&path).await?;
                Ok::<_, Error>((!is_there).then_some(file))
            })
            .collect();
        let parallelism = if parallelism == 0 { PARALLELISM } else { parallelism };
        let found: Vec<_> = futures::stream::iter(asks).buffered(parallelism).try_collect().await?;
        Ok(found.into_iter().flatten().collect())
    };
    let missing = Box::pin(missing).await.map_err(|error: Error| table.at(error))?;
    let names = missing.iter().map(|file| file.file.name().to_owned()).collect();
    if dry_run || missing.is_empty() {
        return Ok(names);
    }
    let mut messages: BTreeMap<(Vec<u8>, i32), CommitMessage> = BTreeMap::new();
    for file in &missing {
        let key = (file.partition.row.to_vec(), file.file.bucket());
        let message = messages.entry(key.clone()).or_insert_with(|| CommitMessage {
            partition: key.0,
            bucket: key.1,
            total_buckets: Some(file.file.total_buckets()),
            ..CommitMessage::default()
        });
        message.deleted_files.push(DataFileMeta::from(&file.file));
    }
    let commit = TableCommit::new(Arc::clone(table), TableCommit::new_user(table)?)?;
    Box::pin(commit.commit(Committable::batch(messages.into_values().collect()))).await?;
    Ok(names)
}

/// Makes `id` the earliest snapshot by the hint, which has to be true.
///
/// # Errors
/// Not found when there is no such snapshot, invalid when there is one before it or one after it is missing.
pub async fn repair_earliest_snapshot(table: &Table, id: i64) -> Result<()> {
    let repaired = async {
        let snapshots = table.snapshots();
        let ids = snapshots.ids().await?;
        if !ids.contains(&id) {
            return Err(Error::not_found(format!("snapshot {id} does not exist")));
        }
        if snapshots.find(id - 1).await?.is_some() {
            return Err(Error::invalid(format!("snapshot {} is there, so that {id} is not the earliest one", id - 1)));
        }
        let after: Vec<i64> = ids.into_iter().filter(|other| *other >= id).collect();
        if let Some(pair) = after.windows(2).find(|pair| pair[0] + 1 != pair[1]) {
            return Err(Error::invalid(format!("there is no snapshot between {} and {}", pair[0], pair[1])));
        }
        snapshots.hint_earliest(Some(id)).await
    };
    repaired.await.map_err(|error| table.at(error))
}
