//! The live files of a snapshot as writers and commits see them: every level and bucket, postponed ones too, and no filter but
//! on whole partitions.
//!
//! May import: `error`, `spec`, `store`, `table`, `plan::manifests`.

use std::collections::HashSet;
use std::sync::Arc;

use super::manifests::{Decoded, Identity, read_index_manifest, read_manifest_list, read_whole_manifests};
use crate::error::Result;
use crate::spec::manifest::DataFile;
use crate::spec::{IndexEntry, ManifestMeta, Snapshot};
use crate::table::Table;

/// The manifests that make up `snapshot`, base before delta (`spec/metadata.md 3.2`).
///
/// # Errors
/// Errors of the store and of the files' bytes name the file.
pub async fn manifests_of(table: &Arc<Table>, snapshot: &Snapshot) -> Result<Vec<ManifestMeta>> {
    let (base, delta) = futures::try_join!(
        read_manifest_list(table, &snapshot.base_manifest_list, snapshot.base_manifest_list_size),
        read_manifest_list(table, &snapshot.delta_manifest_list, snapshot.delta_manifest_list_size)
    )?;
    Ok(base.iter().chain(delta.iter()).cloned().collect())
}

/// The live files of `snapshot`, in the order in which they were added; only those of `partitions` (serialized BinaryRows) if
/// some are given.
///
/// # Errors
/// Errors of the store and of the files' bytes name the file.
pub async fn live_files(
    table: &Arc<Table>,
    snapshot: &Snapshot,
    partitions: Option<&HashSet<Arc<[u8]>>>,
) -> Result<Vec<DataFile>> {
    let metas: Vec<ManifestMeta> = manifests_of(table, snapshot)
        .await?
        .into_iter()
        .filter(|meta| meta.num_added_files > 0 || meta.num_deleted_files > 0)
        .collect();
    let decoded = read_whole_manifests(table, &metas).await?;
    let mut deleted: HashSet<Identity<'_>> = HashSet::new();
    for Decoded { entries, .. } in &decoded {
        if entries.kind.contains(&1) {
            let rows = (0..entries.len()).filter(|&row| entries.kind[row] == 1);
            deleted.extend(rows.map(|row| Identity { entries, row }));
        }
    }
    let mut files = Vec::new();
    for Decoded { entries, .. } in &decoded {
        let wanted: Option<Vec<bool>> = partitions
            .map(|wanted| entries.partition.values.iter().map(|partition| wanted.contains(partition)).collect());
        for row in 0..entries.len() {
            if entries.kind[row] == 1
                || wanted.as_ref().is_some_and(|wanted| !wanted[entries.partition.keys[row] as usize])
                || (!deleted.is_empty() && deleted.contains(&Identity { entries, row }))
            {
                continue;
            }
            files.push(DataFile { entries: Arc::clone(entries), row: row as u32 });
        }
    }
    Ok(files)
}

/// The index files of `snapshot` (`spec/metadata.md 8.1`).
///
/// # Errors
/// Errors of the store and of the file's bytes name the file.
pub async fn index_files(table: &Arc<Table>, snapshot: &Snapshot) -> Result<Arc<Vec<IndexEntry>>> {
    match &snapshot.index_manifest {
        Some(name) => read_index_manifest(table, name).await,
        None => Ok(Arc::default()),
    }
}
