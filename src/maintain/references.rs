//! What snapshots refer to, file by file: for those who delete what nothing refers to.
//!
//! Manifests are looked at one after the other and not kept: a table of a million files is walked in the memory of a few
//! manifests.
//!
//! May import: `error`, `options`, `spec`, `store`, `table`, `plan`.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;

use crate::error::{Error, ErrorKind, Result};
use crate::plan::{manifest_key, read_index_manifest, read_manifest_file, read_manifest_list};
use crate::spec::manifest::ManifestEntries;
use crate::spec::partition::partition_path;
use crate::spec::{DataField, ManifestMeta, Snapshot};
use crate::store::{Snapshots, TableFiles, Tags};
use crate::table::Table;

/// Manifests read and decoded at once.
pub(super) const CONCURRENCY: usize = 8;

/// The kind of an entry that removes a file.
pub(super) const DELETE: u8 = 1;

/// The entries of a manifest. What is in no cache is not put into one.
///
/// # Errors
/// Not found when it is gone, corrupt when it can't be read, Io when the store failed.
pub(super) async fn manifest_entries(table: &Table, meta: &ManifestMeta) -> Result<Arc<ManifestEntries>> {
    if let Some(entries) = table.caches().cached(&manifest_key(table, meta)?) {
        return Ok(entries);
    }
    let bytes = read_manifest_file(table, &meta.file_name, Some(meta.file_size)).await?;
    let decoded = tokio::task::spawn_blocking(move || ManifestEntries::decode_bytes(bytes)).await;
    let decoded = decoded.map_err(|error| Error::internal("decoding a manifest failed").with_source(error))?;
    decoded.map(Arc::new).map_err(|error| error.with("manifest", meta.file_name.clone()))
}

/// The entries of several manifests, in order.
///
/// # Errors
/// As [`manifest_entries`].
pub(super) async fn all_entries(table: &Table, metas: &[ManifestMeta]) -> Result<Vec<Arc<ManifestEntries>>> {
    let reads: Vec<_> = metas.iter().map(|meta| manifest_entries(table, meta)).collect();
    futures::stream::iter(reads).buffered(CONCURRENCY).try_collect().await
}

/// The manifests of everything up to a snapshot and those of its own changes.
///
/// # Errors
/// Not found when a list is gone, corrupt when it can't be read, Io when the store failed.
pub(super) async fn state_manifests(table: &Table, snapshot: &Snapshot) -> Result<Vec<ManifestMeta>> {
    let (base, delta) = futures::try_join!(
        Box::pin(read_manifest_list(table, &snapshot.base_manifest_list, snapshot.base_manifest_list_size)),
        Box::pin(read_manifest_list(table, &snapshot.delta_manifest_list, snapshot.delta_manifest_list_size))
    )?;
    Ok(base.iter().chain(delta.iter()).cloned().collect())
}

/// The manifests of what a snapshot changed.
///
/// # Errors
/// As [`state_manifests`].
pub(super) async fn delta_manifests(table: &Table, snapshot: &Snapshot) -> Result<Arc<Vec<ManifestMeta>>> {
    read_manifest_list(table, &snapshot.delta_manifest_list, snapshot.delta_manifest_list_size).await
}

/// The manifests of a snapshot's changelog; none when it has none.
///
/// # Errors
/// As [`state_manifests`].
pub(super) async fn changelog_manifests(table: &Table, snapshot: &Snapshot) -> Result<Arc<Vec<ManifestMeta>>> {
    match &snapshot.changelog_manifest_list {
        Some(name) => read_manifest_list(table, name, snapshot.changelog_manifest_list_size).await,
        None => Ok(Arc::default()),
    }
}

/// Finds the files that entries of manifests name.
pub(super) struct Locator<'a> {
    files: &'a TableFiles,
    fields: Vec<&'a DataField>,
    legacy_names: bool,
    default_name: &'a str,
    folders: HashMap<Arc<[u8]>, String>,
}

impl<'a> Locator<'a> {
    pub(super) fn new(table: &'a Table) -> Self {
        let options = table.settings();
        Self {
            files: table.files(),
            fields: table.schema().partition_fields(),
            legacy_names: options.partition_legacy_name,
            default_name: &options.partition_default_name,
            folders: HashMap::new(),
        }
    }

    /// The folder of a partition below the table's.
    pub(super) fn partition(&mut self, row: &Arc<[u8]>) -> Result<&str> {
        if !self.folders.contains_key(row) {
            let path = partition_path(row, &self.fields, self.legacy_names, self.default_name)?;
            self.folders.insert(Arc::clone(row), path);
        }
        Ok(self.folders.get(row).map_or("", String::as_str))
    }

    /// The data file of an entry, and the files that belong to it.
    ///
    /// # Errors
    /// Corrupt when the entry can't be a file, unsupported when it lies in another store.
    pub(super) fn files(&mut self, entries: &ManifestEntries, row: usize) -> Result<Vec<Path>> {
        let name = std::str::from_utf8(entries.file_name.get(row))
            .map_err(|error| Error::corrupt("the name of a file is no text").with_source(error))?;
        let external = entries.external_path.as_ref().and_then(|column| column[row].as_deref());
        let files = self.files;
        let bucket = entries.bucket[row];
        let folder = self.partition(entries.partition.get(row))?;
        let path = files.data_path(folder, bucket, name, external)?;
        let mut paths = Vec::with_capacity(1 + entries.extra_files.get(row).len());
        for extra in entries.extra_files.get(row).iter() {
            paths.push(files.sibling_path(&path, extra)?);
        }
        paths.insert(0, path);
        Ok(paths)
    }

    /// An index file.
    ///
    /// # Errors
    /// As [`Self::files`].
    pub(super) fn index(&mut self, entry: &crate::spec::IndexEntry) -> Result<Path> {
        let files = self.files;
        let folder = self.partition(&entry.partition)?;
        files.index_path(folder, entry.bucket, &entry.file_name, entry.external_path.as_deref())
    }
}

/// One branch of a table, the main one among them.
pub(super) struct Branch {
    /// The name; `None` for the main one.
    pub name: Option<String>,
    pub snapshots: Snapshots,
    pub changelogs: Snapshots,
    pub tags: Tags,
    pub files: Arc<TableFiles>,
}

impl Branch {
    fn new(table: &Table, name: Option<String>) -> Result<Self> {
        let files = Arc::new(table.files().with_branch(name.as_deref())?);
        let caches = table.caches();
        Ok(Self {
            name,
            snapshots: Snapshots::new(Arc::clone(&files), Arc::clone(caches)),
            changelogs: Snapshots::changelogs(Arc::clone(&files), Arc::clone(caches)),
            tags: Tags::new(Arc::clone(&files), Arc::clone(caches)),
            files,
        })
    }

    /// All branches of a table, the main one first. The folder is listed twice: a store that leaves one out for a moment
    /// would have its files deleted.
    ///
    /// # Errors
    /// Io when the store failed.
    pub(super) async fn all(table: &Table) -> Result<Vec<Self>> {
        let branches = table.branches();
        let mut names: Vec<String> = branches.names().await?;
        for name in branches.names().await? {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        std::iter::once(None).chain(names.into_iter().map(Some)).map(|name| Self::new(table, name)).collect()
    }

    /// The states that tags keep. Listed twice, as branches are.
    ///
    /// # Errors
    /// Corrupt when a file is not a tag, Io when the store failed.
    pub(super) async fn tagged(&self) -> Result<Vec<Snapshot>> {
        tagged(&self.tags).await
    }
}

/// The snapshots that tags keep, each once, by id.
///
/// # Errors
/// As [`Branch::tagged`].
pub(super) async fn tagged(tags: &Tags) -> Result<Vec<Snapshot>> {
    let mut found = tags.list().await?;
    found.extend(tags.list().await?);
    let mut states: Vec<Snapshot> = found.iter().map(|tag| tag.snapshot.clone()).collect();
    let mut seen = HashSet::new();
    states.retain(|snapshot| seen.insert((snapshot.id, snapshot.delta_manifest_list.clone())));
    states.sort_by_key(|snapshot| snapshot.id);
    Ok(states)
}

/// The metadata files and index files of a snapshot, by their names. They lie in folders that all branches share.
#[derive(Debug, Default)]
pub(super) struct MetadataNames(HashSet<String>);

impl MetadataNames {
    /// Adds all of a snapshot, its changelog too.
    ///
    /// # Errors
    /// As reading its lists.
    pub(super) async fn add(&mut self, table: &Table, snapshot: &Snapshot) -> Result<()> {
        let manifests = state_manifests(table, snapshot).await?;
        let changelog = changelog_manifests(table, snapshot).await?;
        self.0.extend(manifests.iter().chain(changelog.iter()).map(|meta| meta.file_name.clone()));
        self.0.insert(snapshot.base_manifest_list.clone());
        self.0.insert(snapshot.delta_manifest_list.clone());
        self.0.extend(snapshot.changelog_manifest_list.clone());
        self.add_indexes(table, snapshot).await
    }

    /// Adds what there still is of a long-lived changelog, whose snapshot took some of it away.
    ///
    /// # Errors
    /// As [`Self::add`], but for what is gone.
    pub(super) async fn add_changelog(&mut self, table: &Table, changelog: &Snapshot) -> Result<()> {
        for read in
            [state_manifests(table, changelog).await, changelog_manifests(table, changelog).await.map(|m| m.to_vec())]
        {
            match read {
                Ok(metas) => self.0.extend(metas.into_iter().map(|meta| meta.file_name)),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        self.0.insert(changelog.base_manifest_list.clone());
        self.0.insert(changelog.delta_manifest_list.clone());
        self.0.extend(changelog.changelog_manifest_list.clone());
        Ok(())
    }

    /// Adds the index manifest, the index files and the statistics of a snapshot.
    ///
    /// # Errors
    /// As reading its index manifest.
    pub(super) async fn add_indexes(&mut self, table: &Table, snapshot: &Snapshot) -> Result<()> {
        if let Some(name) = &snapshot.index_manifest {
            let entries = read_index_manifest(table, name).await?;
            self.0.extend(entries.iter().map(|entry| entry.file_name.clone()));
            self.0.insert(name.clone());
        }
        self.0.extend(snapshot.statistics.clone());
        Ok(())
    }

    /// Notes a name; false when it is known.
    pub(super) fn insert(&mut self, name: &str) -> bool {
        self.0.insert(name.to_owned())
    }
}
