//! The deletion vectors of a bucket of a key table (`spec/data.md 9.2`): one index file, written anew when a vector changes.
//!
//! May import: `error`, `read`, `spec`, rest of this room.

use std::collections::{BTreeMap, HashMap, HashSet};

use uuid::Uuid;

use super::bucket::BucketFiles;
use super::rules::Rules;
use crate::error::Result;
use crate::spec::IndexEntry;
use crate::spec::deletion_vector::{DeletionVector, write_index_file};

/// The type of index files that mark rows as deleted.
pub(super) const DELETION_VECTORS: &str = "DELETION_VECTORS";

/// What a compaction changes of the vectors.
#[derive(Debug, Default)]
pub(super) struct VectorChanges {
    /// Files that are gone, and their vectors with them.
    pub removed: HashSet<String>,
    /// Rows of files that are deleted.
    pub marks: HashMap<String, Vec<u64>>,
}

impl VectorChanges {
    /// Writes the index file with the changes: what is new, and what it replaces.
    ///
    /// # Errors
    /// Io when the store failed, invalid for a row that vectors of 32 bits can't mark.
    pub(super) async fn write(
        self,
        rules: &Rules,
        bucket: &BucketFiles,
    ) -> Result<Option<(IndexEntry, Option<IndexEntry>)>> {
        let had_vectors =
            bucket.files.iter().any(|file| file.deletion.is_some() && self.removed.contains(file.file.name()));
        if self.marks.is_empty() && !had_vectors {
            return Ok(None);
        }
        let mut vectors: BTreeMap<String, DeletionVector> = BTreeMap::new();
        for file in bucket.files.iter().filter(|file| !self.removed.contains(file.file.name())) {
            if let Some(known) = rules.reader.deleted(file).await? {
                vectors.insert(file.file.name().to_owned(), known.as_ref().clone());
            }
        }
        for (file, rows) in self.marks {
            if self.removed.contains(&file) {
                continue;
            }
            let vector = vectors.entry(file).or_insert_with(|| DeletionVector::new(rules.bitmap64));
            for row in rows {
                vector.insert(row)?;
            }
        }
        let (bytes, ranges) = write_index_file(vectors.iter().map(|(file, vector)| (file.as_str(), vector)))?;
        let files = rules.table.files();
        let file_name = format!("index-{}-0", Uuid::new_v4());
        let path = files.index_path(&bucket.partition.path, bucket.bucket, &file_name, None)?;
        rules.own.add(path.clone());
        let file_size = bytes.len() as i64;
        files.overwrite(&path, bytes).await?;
        let entry = IndexEntry {
            kind: 0,
            partition: std::sync::Arc::clone(&bucket.partition.row),
            bucket: bucket.bucket,
            index_type: DELETION_VECTORS.to_owned(),
            file_name,
            file_size,
            row_count: ranges.len() as i64,
            dv_ranges: Some(ranges),
            external_path: None,
            global_index: None,
        };
        Ok(Some((entry, bucket.index.clone())))
    }
}
