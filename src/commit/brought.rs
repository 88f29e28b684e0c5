//! The files that messages bring, and where they lie.

use std::collections::HashSet;

use object_store::path::Path;

use super::TableCommit;
use crate::error::Result;
use crate::spec::partition::partition_path;
use crate::spec::{DataFileMeta, IndexEntry};
use crate::write::CommitMessage;

/// A file that a message brings.
#[derive(Clone, Copy, Debug)]
pub(super) enum Brought<'a> {
    Data(&'a DataFileMeta),
    Index(&'a IndexEntry),
}

impl<'a> Brought<'a> {
    /// The files of all parts of a message; those that a compaction only moved to another level are not among them.
    pub(super) fn all(message: &'a CommitMessage) -> Vec<Self> {
        let moved: HashSet<&str> = message.compact_before.iter().map(|file| file.file_name.as_str()).collect();
        let written = message.compact_after.iter().filter(|file| !moved.contains(file.file_name.as_str()));
        let data = message.compact_changelog_files.iter().chain(written).map(Self::Data);
        Self::added(message).chain(data).chain(message.compact_new_index_files.iter().map(Self::Index)).collect()
    }

    /// The files that do not come from a compaction.
    fn added(message: &'a CommitMessage) -> impl Iterator<Item = Self> {
        let data = message.new_files.iter().chain(&message.changelog_files).map(Self::Data);
        data.chain(message.new_index_files.iter().map(Self::Index))
    }

    pub(super) fn name(self) -> &'a str {
        match self {
            Self::Data(file) => &file.file_name,
            Self::Index(file) => &file.file_name,
        }
    }
}

impl TableCommit {
    /// Where a file of a message lies, and what belongs to it.
    pub(super) fn paths_of(&self, message: &CommitMessage, file: Brought<'_>) -> Result<Vec<Path>> {
        let (schema, settings, files) = (self.table.schema(), self.table.settings(), self.table.files());
        let fields = schema.partition_fields();
        let (legacy, default_name) = (settings.partition_legacy_name, &settings.partition_default_name);
        let folder = partition_path(&message.partition, &fields, legacy, default_name)?;
        match file {
            Brought::Data(data) => {
                let path = files.data_path(&folder, message.bucket, &data.file_name, data.external_path.as_deref())?;
                let mut paths = Vec::with_capacity(1 + data.extra_files.len());
                for sibling in &data.extra_files {
                    paths.push(files.sibling_path(&path, sibling)?);
                }
                paths.push(path);
                Ok(paths)
            }
            Brought::Index(index) => {
                Ok(vec![files.index_path(&folder, index.bucket, &index.file_name, index.external_path.as_deref())?])
            }
        }
    }

    /// Where the files lie that messages bring and that do not come from a compaction.
    pub(super) fn paths_added(&self, messages: &[CommitMessage]) -> Result<Vec<Path>> {
        let mut paths = Vec::new();
        for message in messages {
            for file in Brought::added(message) {
                paths.append(&mut self.paths_of(message, file)?);
            }
        }
        Ok(paths)
    }
}
