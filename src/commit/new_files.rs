//! The metadata files that a commit writes: their names, and who takes them away when they are of no use.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use object_store::path::Path;
use uuid::Uuid;

use super::TableCommit;
use super::changes::Change;
use crate::error::Result;
use crate::plan::manifest_key;
use crate::spec::{
    DataType, IndexEntry, ManifestEncoder, ManifestEntries, ManifestMeta, encode_index_manifest, encode_manifest_list,
};
use crate::write::OwnFiles;

/// Manifests of fewer bytes are decoded and kept when they are written: the next commit merges them, the next query reads
/// them.
const KEPT_BELOW: usize = 1 << 20;

/// Entries between two looks at the size of a manifest that is being written (`spec/metadata.md 6`).
const SIZE_CHECK: usize = 1000;

/// File names of one committer: a UUID and a counter a kind (`spec/metadata.md 1.1`).
#[derive(Debug)]
pub(super) struct Names {
    uuid: Uuid,
    manifests: AtomicU64,
    lists: AtomicU64,
    indexes: AtomicU64,
    statistics: AtomicU64,
}

impl Names {
    pub(super) fn new() -> Self {
        let zero = AtomicU64::default;
        Self { uuid: Uuid::new_v4(), manifests: zero(), lists: zero(), indexes: zero(), statistics: zero() }
    }

    fn next(&self, kind: &str, counter: &AtomicU64) -> String {
        format!("{kind}-{}-{}", self.uuid, counter.fetch_add(1, Ordering::Relaxed))
    }

    pub(super) fn statistics(&self) -> String {
        self.next("stat", &self.statistics)
    }
}

/// A manifest list that was written.
#[derive(Clone, Debug)]
pub(super) struct List {
    pub name: String,
    pub size: i64,
}

/// Files that were written for one purpose. Dropped, it takes them away, unless somebody may refer to them by then.
pub(super) struct NewFiles<'a> {
    commit: &'a TableCommit,
    pub(super) own: Arc<OwnFiles>,
}

impl<'a> NewFiles<'a> {
    pub(super) fn new(commit: &'a TableCommit) -> Self {
        Self { commit, own: OwnFiles::new(Arc::clone(commit.table.files())) }
    }

    /// Writes a file of a name that was never used.
    pub(super) async fn put(&self, path: Path, bytes: Bytes) -> Result<()> {
        self.own.add(path.clone());
        self.commit.table.files().overwrite(&path, bytes).await
    }

    /// Writes manifests of about the target size.
    pub(super) async fn manifests(&self, entries: &[Change]) -> Result<Vec<ManifestMeta>> {
        let mut writer = ManifestWriter::new(self)?;
        for entry in entries {
            match entry.parts() {
                Ok(entry) => writer.encoder.push(entry)?,
                Err((entries, row)) => writer.encoder.push_row(entries, row, entry.deleted())?,
            }
            writer.roll().await?;
        }
        writer.finish().await
    }

    /// Writes a manifest list.
    pub(super) async fn list(&self, metas: &[ManifestMeta]) -> Result<List> {
        let files = self.commit.table.files();
        let name = self.commit.names.next("manifest-list", &self.commit.names.lists);
        let bytes = encode_manifest_list(metas, self.commit.codec)?;
        let size = bytes.len() as u64;
        let path = files.manifest_path(&name)?;
        self.commit.table.caches().keep(files.key(&path, size), Arc::new(metas.to_vec()), bytes.len() * 4);
        self.put(path, bytes).await?;
        Ok(List { name, size: size as i64 })
    }

    /// Writes an index manifest.
    pub(super) async fn index_manifest(&self, entries: Vec<IndexEntry>) -> Result<String> {
        let files = self.commit.table.files();
        let name = self.commit.names.next("index-manifest", &self.commit.names.indexes);
        let bytes = encode_index_manifest(&entries, self.commit.codec)?;
        let path = files.manifest_path(&name)?;
        self.commit.table.caches().keep(files.key(&path, 0), Arc::new(entries), bytes.len() * 4);
        self.put(path, bytes).await?;
        Ok(name)
    }
}

/// Writes manifests, a new one when the last one has reached the target size.
pub(super) struct ManifestWriter<'a> {
    files: &'a NewFiles<'a>,
    types: Vec<DataType>,
    pub(super) encoder: ManifestEncoder,
    metas: Vec<ManifestMeta>,
}

impl<'a> ManifestWriter<'a> {
    pub(super) fn new(files: &'a NewFiles<'a>) -> Result<Self> {
        let fields = files.commit.table.schema().partition_fields();
        let types: Vec<DataType> = fields.iter().map(|field| field.data_type.clone()).collect();
        let encoder = ManifestEncoder::new(files.commit.codec, types.clone())?;
        Ok(Self { files, types, encoder, metas: Vec::new() })
    }

    /// Ends the manifest if it is full; to be called after each entry.
    pub(super) async fn roll(&mut self) -> Result<()> {
        let target = self.files.commit.options.manifest_target_size;
        if !self.encoder.len().is_multiple_of(SIZE_CHECK) || (self.encoder.estimated_size() as u64) < target {
            return Ok(());
        }
        self.end().await
    }

    /// The manifests that were written; none without entries.
    pub(super) async fn finish(mut self) -> Result<Vec<ManifestMeta>> {
        if !self.encoder.is_empty() {
            self.end().await?;
        }
        Ok(self.metas)
    }

    async fn end(&mut self) -> Result<()> {
        let commit = self.files.commit;
        let next = ManifestEncoder::new(commit.codec, self.types.clone())?;
        let manifest = std::mem::replace(&mut self.encoder, next).finish()?;
        let bytes = manifest.bytes.clone();
        let meta = manifest.into_meta(commit.names.next("manifest", &commit.names.manifests));
        let key = manifest_key(&commit.table, &meta)?;
        if bytes.len() < KEPT_BELOW {
            let entries = ManifestEntries::decode_bytes(bytes.clone())?;
            let weight = entries.memory();
            commit.table.caches().keep(key, Arc::new(entries), weight);
        }
        self.files.put(commit.table.files().manifest_path(&meta.file_name)?, bytes).await?;
        self.metas.push(meta);
        Ok(())
    }
}
