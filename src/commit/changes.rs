//! What a snapshot adds and removes: entries of its delta, of its changelog, and changes of the indexes.

use std::collections::HashSet;
use std::sync::Arc;

use super::Committable;
use super::scope::Scope;
use crate::error::{Error, Result};
use crate::spec::manifest::{DataFile, ManifestEntries};
use crate::spec::{DataFileMeta, FileIdentityRef, FileSource, IndexEntry, ManifestEntry, TableSchema};

/// The type of index entries that mark rows of data files as deleted.
pub(super) const DELETION_VECTORS: &str = "DELETION_VECTORS";

/// The type of index entries that say which keys a bucket has.
pub(super) const HASH: &str = "HASH";

/// An entry of the delta or of the changelog of a snapshot.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// As a writer describes the file.
    Made(ManifestEntry),
    /// A file that is in a manifest already, by reference: an overwrite may remove a million.
    Known {
        /// Whether it is removed.
        deleted: bool,
        /// The file.
        file: DataFile,
    },
}

impl Change {
    pub(super) fn deleted(&self) -> bool {
        match self {
            Self::Made(entry) => entry.deleted,
            Self::Known { deleted, .. } => *deleted,
        }
    }

    pub(super) fn partition(&self) -> &Arc<[u8]> {
        match self {
            Self::Made(entry) => &entry.partition,
            Self::Known { file, .. } => file.partition(),
        }
    }

    pub(super) fn bucket(&self) -> i32 {
        match self {
            Self::Made(entry) => entry.bucket,
            Self::Known { file, .. } => file.bucket(),
        }
    }

    pub(super) fn total_buckets(&self) -> i32 {
        match self {
            Self::Made(entry) => entry.total_buckets,
            Self::Known { file, .. } => file.total_buckets(),
        }
    }

    pub(super) fn level(&self) -> i32 {
        match self {
            Self::Made(entry) => entry.file.level,
            Self::Known { file, .. } => file.level(),
        }
    }

    pub(super) fn rows(&self) -> i64 {
        match self {
            Self::Made(entry) => entry.file.row_count,
            Self::Known { file, .. } => i64::try_from(file.rows()).unwrap_or(i64::MAX),
        }
    }

    pub(super) fn name(&self) -> &str {
        match self {
            Self::Made(entry) => &entry.file.file_name,
            Self::Known { file, .. } => file.name(),
        }
    }

    pub(super) fn identity(&self) -> FileIdentityRef<'_> {
        match self {
            Self::Made(entry) => FileIdentityRef::of_entry(entry),
            Self::Known { file, .. } => FileIdentityRef::of(file),
        }
    }

    pub(super) fn max_sequence_number(&self) -> i64 {
        match self {
            Self::Made(entry) => entry.file.max_sequence_number,
            Self::Known { file, .. } => file.sequence_numbers().1,
        }
    }

    /// The entry with a file that can be changed.
    pub(super) fn file_mut(&mut self) -> &mut DataFileMeta {
        if let Self::Known { deleted, file } = self {
            *self = Self::Made(ManifestEntry::of(file, *deleted));
        }
        match self {
            Self::Made(entry) => Arc::make_mut(&mut entry.file),
            Self::Known { .. } => unreachable!("it was made into an entry of its own"),
        }
    }

    /// The columns and the row of an entry that is in a manifest already, or the entry.
    pub(super) fn parts(&self) -> Result<&ManifestEntry, (&ManifestEntries, usize)> {
        match self {
            Self::Made(entry) => Ok(entry),
            Self::Known { file, .. } => Err((&file.entries, file.row as usize)),
        }
    }
}

/// What one snapshot changes.
#[derive(Clone, Debug, Default)]
pub(super) struct Changes {
    /// Entries of the delta, in order.
    pub entries: Vec<Change>,
    /// Entries of the changelog.
    pub changelog: Vec<Change>,
    /// Index files that come.
    pub new_indexes: Vec<IndexEntry>,
    /// Index files that go.
    pub dropped_indexes: Vec<IndexEntry>,
    /// The snapshot in whose files keys were looked up, so that none may have moved to other files since.
    pub looked_up: Option<i64>,
}

impl Changes {
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
            && self.changelog.is_empty()
            && self.new_indexes.is_empty()
            && self.dropped_indexes.is_empty()
    }

    /// Whether anything is removed, so that what was read before may be gone by now.
    pub(super) fn removes(&self) -> bool {
        self.entries.iter().any(Change::deleted)
            || self.new_indexes.iter().chain(&self.dropped_indexes).any(|entry| entry.index_type == DELETION_VECTORS)
    }

    /// The partitions that are touched.
    pub(super) fn scope(&self, schema: &TableSchema) -> Result<Scope> {
        let indexes = self.new_indexes.iter().chain(&self.dropped_indexes).map(|entry| &*entry.partition);
        Scope::rows(schema, self.entries.iter().map(|entry| &**entry.partition()).chain(indexes))
    }
}

/// What the messages of a committable add and remove, and what they compacted: two snapshots (`spec/metadata.md 7.2`).
///
/// # Errors
/// Invalid when a message can't be of this table.
pub(super) fn changes_of(schema: &TableSchema, buckets: i32, committable: &Committable) -> Result<(Changes, Changes)> {
    let (mut append, mut compact) = (Changes::default(), Changes::default());
    let mut partitions: HashSet<Arc<[u8]>> = HashSet::new();
    let arity = u32::try_from(schema.partition_keys.len()).unwrap_or(u32::MAX);
    for message in &committable.messages {
        if message.partition.get(..4) != Some(&arity.to_be_bytes()) {
            return Err(Error::invalid(format!(
                "a commit message is for a table with other partition columns than {:?}",
                schema.partition_keys
            )));
        }
        let partition = match partitions.get(message.partition.as_slice()) {
            Some(partition) => Arc::clone(partition),
            None => {
                let partition: Arc<[u8]> = message.partition.as_slice().into();
                partitions.insert(Arc::clone(&partition));
                partition
            }
        };
        let total_buckets = message.total_buckets.unwrap_or(buckets);
        let add = |to: &mut Vec<Change>, files: &[DataFileMeta], deleted: bool| {
            to.extend(files.iter().map(|file| {
                Change::Made(ManifestEntry {
                    deleted,
                    partition: Arc::clone(&partition),
                    bucket: message.bucket,
                    total_buckets,
                    file: Arc::new(file.clone()),
                })
            }));
        };
        add(&mut append.entries, &message.deleted_files, true);
        add(&mut append.entries, &message.new_files, false);
        add(&mut append.changelog, &message.changelog_files, false);
        append.new_indexes.extend_from_slice(&message.new_index_files);
        append.dropped_indexes.extend_from_slice(&message.deleted_index_files);
        add(&mut compact.entries, &message.compact_before, true);
        add(&mut compact.entries, &message.compact_after, false);
        add(&mut compact.changelog, &message.compact_changelog_files, false);
        compact.new_indexes.extend_from_slice(&message.compact_new_index_files);
        compact.dropped_indexes.extend_from_slice(&message.compact_deleted_index_files);
        if let Some(snapshot) = message.compact_looked_up {
            compact.looked_up = Some(compact.looked_up.map_or(snapshot, |other| other.min(snapshot)));
        }
    }
    Ok((append, compact))
}

/// Whether a file gets row ids at the commit (`spec/metadata.md 7.3` 8).
pub(super) fn wants_row_ids(file: &DataFileMeta) -> bool {
    file.file_source == Some(FileSource::Append)
        && file.first_row_id.is_none()
        && !file.write_cols.iter().flatten().any(|name| name == crate::spec::types::ROW_ID)
}
