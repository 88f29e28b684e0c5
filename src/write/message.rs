//! What a writer did to one bucket (`spec/metadata.md 7.1`): the only thing that goes from writers to the commit.
//!
//! May import: `error`, `spec`.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::spec::{DataFileMeta, IndexEntry};

/// The files that a writer or a compaction made and made obsolete in one bucket of one partition.
///
/// The first group becomes a snapshot of kind APPEND (OVERWRITE where it deletes), the second one a snapshot of kind
/// COMPACT. Serialisable: a message may be made in one process and committed in another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitMessage {
    /// Serialized BinaryRow of the partition.
    pub partition: Vec<u8>,
    /// Bucket; -2 for the postpone bucket.
    pub bucket: i32,
    /// Buckets of the partition; `None` means as the table's option `bucket` says.
    pub total_buckets: Option<i32>,
    /// Files that bring rows.
    pub new_files: Vec<DataFileMeta>,
    /// Files whose rows are gone.
    pub deleted_files: Vec<DataFileMeta>,
    /// Changelog files of the new rows.
    pub changelog_files: Vec<DataFileMeta>,
    /// Index files (hash indexes, deletion vectors) that come with the new rows.
    pub new_index_files: Vec<IndexEntry>,
    /// Index files that the new ones replace.
    pub deleted_index_files: Vec<IndexEntry>,
    /// Files that a compaction read.
    pub compact_before: Vec<DataFileMeta>,
    /// Files that a compaction wrote, or moved to another level.
    pub compact_after: Vec<DataFileMeta>,
    /// Changelog files of the compaction.
    pub compact_changelog_files: Vec<DataFileMeta>,
    /// Index files that come with the compaction.
    pub compact_new_index_files: Vec<IndexEntry>,
    /// Index files that the compaction made obsolete.
    pub compact_deleted_index_files: Vec<IndexEntry>,
    /// The snapshot whose files of the bucket the compaction looked keys up in (0 for a table that had none); `None` for one
    /// that depends on nothing but the files that it read.
    #[serde(default)]
    pub compact_looked_up: Option<i64>,
}

impl CommitMessage {
    /// Whether the message changes nothing.
    pub fn is_empty(&self) -> bool {
        self.has_no_data() && self.has_no_compaction()
    }

    /// Whether the message has nothing for a snapshot of kind APPEND.
    pub fn has_no_data(&self) -> bool {
        self.new_files.is_empty()
            && self.deleted_files.is_empty()
            && self.changelog_files.is_empty()
            && self.new_index_files.is_empty()
            && self.deleted_index_files.is_empty()
    }

    /// Whether the message has nothing for a snapshot of kind COMPACT.
    pub fn has_no_compaction(&self) -> bool {
        self.compact_before.is_empty()
            && self.compact_after.is_empty()
            && self.compact_changelog_files.is_empty()
            && self.compact_new_index_files.is_empty()
            && self.compact_deleted_index_files.is_empty()
    }

    /// The message as bytes, for another process of the same version.
    ///
    /// # Errors
    /// Internal when it can't be serialised, which no message that a writer made can be.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(self)
            .map_err(|error| Error::internal("a commit message can't be written").with_source(error))
    }

    /// The message that [`Self::to_bytes`] wrote.
    ///
    /// # Errors
    /// Corrupt when the bytes are no message.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        serde_json::from_slice(bytes)
            .map_err(|error| Error::corrupt("the bytes are no commit message of this version").with_source(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn from_bytes_when_a_message_was_written_then_the_same() {
        let message =
            CommitMessage { partition: vec![0, 255], bucket: 3, total_buckets: Some(4), ..Default::default() };
        let bytes = message.to_bytes().unwrap();
        assert_eq!(CommitMessage::from_bytes(&bytes).unwrap(), message);
        assert!(CommitMessage::from_bytes(&bytes[1..]).is_err());
    }
}
