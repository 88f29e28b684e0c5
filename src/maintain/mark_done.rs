//! Marking partitions as done (`spec/metadata.md 10.5`): a file `_SUCCESS` in the folder of each, for jobs that wait for it.
//!
//! May import: `error`, `options`, `spec`, `store`, `table`.

use object_store::path::Path;
use serde_json::{Value, json};

use crate::error::{Error, ErrorKind, Result};
use crate::spec::partition::partition_path;
use crate::store::TableFiles;
use crate::table::Table;

/// Marks partitions, given as serialized rows, by the actions of option `partition.mark-done-action`, at `now`, epoch
/// milliseconds.
///
/// # Errors
/// Unsupported for an action that needs a metastore or a class of Java, invalid for a table without partitions, Io when the
/// store failed.
pub async fn mark_partitions_done(table: &Table, partitions: &[Vec<u8>], now: i64) -> Result<()> {
    let marked = async {
        if table.schema().partition_keys.is_empty() {
            return Err(Error::invalid("the table has no partitions that could be marked as done"));
        }
        let actions = table.settings().value::<String>("partition.mark-done-action")?.unwrap_or_default();
        for action in actions.split(',').map(str::trim).filter(|action| !action.is_empty()) {
            if !action.eq_ignore_ascii_case("success-file") {
                return Err(Error::unsupported(format!(
                    "partition.mark-done-action {action} needs a metastore or a class of Java; there is success-file"
                )));
            }
        }
        for partition in partitions {
            write_success_file(table.files(), &success_path(table, partition)?, now).await?;
        }
        Ok(())
    };
    marked.await.map_err(|error: Error| table.at(error))
}

fn success_path(table: &Table, partition: &[u8]) -> Result<Path> {
    let options = table.settings();
    let fields = table.schema().partition_fields();
    let folder = partition_path(partition, &fields, options.partition_legacy_name, &options.partition_default_name)?;
    // Other engines look here whatever `data-file.path-directory` says.
    Ok(table.files().root().child(folder.trim_end_matches('/'))?.prefix().clone().join("_SUCCESS"))
}

/// Writes a file that says when something was done first and last (epoch milliseconds).
pub(super) async fn write_success_file(files: &TableFiles, path: &Path, now: i64) -> Result<()> {
    let created = match files.read(path).await {
        Ok(bytes) => serde_json::from_slice::<Value>(&bytes)
            .ok()
            .and_then(|document| document.get("creationTime")?.as_i64())
            .unwrap_or(now),
        Err(error) if error.kind() == ErrorKind::NotFound => now,
        Err(error) => return Err(error),
    };
    let document = json!({ "creationTime": created, "modificationTime": now });
    files.overwrite(path, document.to_string().into_bytes()).await
}
