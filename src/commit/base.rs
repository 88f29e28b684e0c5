//! The snapshot that a commit builds on, and its files as far as they are asked for.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};
use parking_lot::Mutex;

use super::scope::Scope;
use crate::error::{Error, Result};
use crate::plan::{manifest_key, read_index_manifest, read_manifest_file, read_manifest_list};
use crate::spec::{DataFile, FileIdentityRef, IndexEntry, ManifestEntries, ManifestFile, ManifestMeta, Snapshot};
use crate::table::Table;

/// Manifests read and decoded at once.
const CONCURRENCY: usize = 8;

/// A manifest of which fewer entries than this share are asked for is not decoded whole, and not kept.
const WHOLE_ABOVE: f64 = 0.25;

/// The kind of an entry that removes a file.
pub(super) const DELETE: u8 = 1;

/// A snapshot, or a table that has none yet, with its manifests and indexes.
#[derive(Debug)]
pub(super) struct Base {
    pub snapshot: Option<Arc<Snapshot>>,
    /// The manifests of all entries, in order (`spec/metadata.md 3.2`).
    pub manifests: Vec<ManifestMeta>,
    /// The index files.
    pub indexes: Arc<Vec<IndexEntry>>,
    /// What was decoded in part and is in no cache; attempts after a lost race ask for the same again.
    partly: Mutex<HashMap<String, Arc<ManifestEntries>>>,
}

impl Base {
    /// Reads what `snapshot` is made of.
    pub(super) async fn read(table: &Table, snapshot: Option<Arc<Snapshot>>) -> Result<Self> {
        let Some(snapshot) = snapshot else {
            return Ok(Self {
                snapshot: None,
                manifests: Vec::new(),
                indexes: Arc::default(),
                partly: Mutex::default(),
            });
        };
        let indexes = async {
            match &snapshot.index_manifest {
                Some(name) => read_index_manifest(table, name).await,
                None => Ok(Arc::default()),
            }
        };
        let (base, delta, indexes) = futures::try_join!(
            Box::pin(read_manifest_list(table, &snapshot.base_manifest_list, snapshot.base_manifest_list_size)),
            Box::pin(read_manifest_list(table, &snapshot.delta_manifest_list, snapshot.delta_manifest_list_size)),
            Box::pin(indexes)
        )?;
        let manifests = base.iter().chain(delta.iter()).cloned().collect();
        Ok(Self { snapshot: Some(snapshot), manifests, indexes, partly: Mutex::default() })
    }

    /// Some manifests, whatever they belong to.
    pub(super) fn of_manifests(manifests: Vec<ManifestMeta>) -> Self {
        Self { snapshot: None, manifests, indexes: Arc::default(), partly: Mutex::default() }
    }

    /// The id of the snapshot, 0 when there is none.
    pub(super) fn id(&self) -> i64 {
        self.snapshot.as_ref().map_or(0, |snapshot| snapshot.id)
    }

    /// The entries of the partitions of `scope`, in order, as far as manifests may have some; entries of other partitions
    /// may be among them.
    pub(super) async fn entries(&self, table: &Table, scope: &Scope) -> Result<Vec<Arc<ManifestEntries>>> {
        let kept = scope.manifests(&self.manifests)?;
        let metas = self.manifests.iter().zip(kept).filter(|(_, kept)| *kept).map(|(meta, _)| meta);
        let reads: Vec<_> = metas.map(|meta| self.manifest(table, meta, scope)).collect();
        futures::stream::iter(reads).buffered(CONCURRENCY).try_collect().await
    }

    /// The entries of one manifest, all of them or only those of `scope`.
    pub(super) async fn manifest(
        &self,
        table: &Table,
        meta: &ManifestMeta,
        scope: &Scope,
    ) -> Result<Arc<ManifestEntries>> {
        let partly = (!scope.is_all()).then(|| self.partly.lock().get(&meta.file_name).cloned()).flatten();
        if let Some(entries) = partly {
            return Ok(entries);
        }
        let (entries, whole) = Box::pin(read_manifest(table, meta, scope)).await?;
        if !whole {
            self.partly.lock().insert(meta.file_name.clone(), Arc::clone(&entries));
        }
        Ok(entries)
    }

    /// The live files of the partitions of `scope`, in order.
    pub(super) async fn live(&self, table: &Table, scope: &Scope) -> Result<Vec<DataFile>> {
        live_files(&self.entries(table, scope).await?, scope)
    }
}

/// The ADD entries of the partitions of `scope` that no DELETE entry cancels (`spec/metadata.md 4.5`).
pub(super) fn live_files(manifests: &[Arc<ManifestEntries>], scope: &Scope) -> Result<Vec<DataFile>> {
    let mut deleted = HashSet::new();
    for entries in manifests {
        let rows = (0..entries.len()).filter(|row| entries.kind[*row] == DELETE);
        deleted.extend(rows.map(|row| FileIdentityRef::of_row(entries, row)));
    }
    let mut live = Vec::new();
    for entries in manifests {
        let allowed = scope.allows(&entries.partition.values)?;
        for row in 0..entries.len() {
            if entries.kind[row] != DELETE
                && allowed[entries.partition.keys[row] as usize]
                && (deleted.is_empty() || !deleted.contains(&FileIdentityRef::of_row(entries, row)))
            {
                live.push(DataFile { entries: Arc::clone(entries), row: row as u32 });
            }
        }
    }
    Ok(live)
}

/// A manifest, decoded: whole, or only the entries of `scope`.
async fn read_manifest(table: &Table, meta: &ManifestMeta, scope: &Scope) -> Result<(Arc<ManifestEntries>, bool)> {
    let key = manifest_key(table, meta)?;
    if let Some(entries) = table.caches().cached(&key) {
        return Ok((entries, true));
    }
    let at = |error: Error| error.with("manifest", meta.file_name.clone());
    let bytes = read_manifest_file(table, &meta.file_name, Some(meta.file_size)).await?;
    let decoded = tokio::task::spawn_blocking(move || ManifestFile::open(bytes));
    let file = decoded.await.map_err(|error| Error::internal("decoding a manifest failed").with_source(error))?;
    let file = file.map_err(at)?;
    let heads = file.heads();
    let allowed = scope.allows(&heads.partition.values).map_err(at)?;
    let rows: Vec<u32> =
        (0..heads.len() as u32).filter(|row| allowed[heads.partition.keys[*row as usize] as usize]).collect();
    if (rows.len() as f64) < heads.len() as f64 * WHOLE_ABOVE {
        return Ok((Arc::new(file.entries(Some(&rows)).map_err(at)?), false));
    }
    let entries = Arc::new(file.entries(None).map_err(at)?);
    table.caches().keep(key, Arc::clone(&entries), entries.memory());
    Ok((entries, true))
}
