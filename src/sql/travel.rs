//! Which snapshot the options of a table ask for: those of the table, of a hint and of `SET paimon.*`.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::options::TableOptions;
use crate::spec::Snapshot;
use crate::table::{Table, VersionSpec};

/// Whether `options` ask for something else than the latest snapshot.
pub(crate) fn is_asked(options: &TableOptions) -> bool {
    !options.scan.is_latest()
}

/// The snapshot that `options` ask for. The columns stay those of the table's schema (`spec/observed.md`, Reading).
///
/// # Errors
/// Not found when there is no such snapshot; unsupported, with the options, for reads that are not built.
pub(crate) async fn snapshot(table: &Table, options: &TableOptions) -> Result<Option<Arc<Snapshot>>> {
    let scan = &options.scan;
    if let Some(id) = scan.snapshot_id {
        return table.snapshot(Some(&VersionSpec::Snapshot(id))).await;
    }
    if let Some(tag) = &scan.tag_name {
        return table.snapshot(Some(&VersionSpec::Tag(tag.clone()))).await;
    }
    if let Some(millis) = scan.timestamp_millis {
        return table.snapshot_at(millis).await.map(Some);
    }
    if let Some(timestamp) = &scan.timestamp {
        return table.snapshot(Some(&VersionSpec::Timestamp(timestamp.clone()))).await;
    }
    let asked: Vec<&str> = options
        .iter()
        .map(|(key, _)| key)
        .filter(|key| key.starts_with("scan.") || key.starts_with("incremental"))
        .collect();
    Err(table.at(Error::unsupported(format!("reading by {} is not supported in this version", asked.join(", ")))))
}
