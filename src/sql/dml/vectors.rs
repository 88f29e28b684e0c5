//! Deletion vectors of append tables (`spec/data.md 9.2`, `spec/metadata.md 8.2`): the index files that name the data files of
//! a statement are written anew, each vector with the rows that go now as well.
//!
//! Imports `spec`, `plan`, `store`, `write` and `table`.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use uuid::Uuid;

use crate::error::{Error, Result};
use crate::plan::read_index_manifest;
use crate::spec::deletion_vector::{DeletionVector, check_index_file_version, write_index_file};
use crate::spec::{IndexEntry, Snapshot};
use crate::table::Table;
use crate::write::OwnFiles;

/// The type of index files that mark rows as deleted.
const DELETION_VECTORS: &str = "DELETION_VECTORS";

/// A bucket of a partition.
pub(super) struct Bucket {
    /// Serialized BinaryRow of the partition.
    pub partition: Arc<[u8]>,
    /// Its folder below the table.
    pub path: String,
    /// The bucket.
    pub number: i32,
    /// The names of its data files.
    pub live: HashSet<String>,
}

/// What becomes of the vectors of data files: the new one, or none where the file goes.
pub(super) type Changes = BTreeMap<String, Option<DeletionVector>>;

/// Index files that come, and those that they replace.
#[derive(Debug, Default)]
pub(super) struct Replaced {
    pub new: Vec<IndexEntry>,
    pub old: Vec<IndexEntry>,
}

/// The vectors of a snapshot.
pub(super) struct Vectors {
    table: Arc<Table>,
    entries: Arc<Vec<IndexEntry>>,
}

impl Vectors {
    /// Those of `snapshot`.
    ///
    /// # Errors
    /// Errors of the store, corrupt when the index manifest is none.
    pub(super) async fn read(table: &Arc<Table>, snapshot: Option<&Snapshot>) -> Result<Self> {
        let entries = match snapshot.and_then(|snapshot| snapshot.index_manifest.as_deref()) {
            Some(name) => read_index_manifest(table, name).await?,
            None => Arc::default(),
        };
        Ok(Self { table: Arc::clone(table), entries })
    }

    /// Writes the index files of a bucket anew where `changes` ask for it.
    ///
    /// # Errors
    /// Io when the store failed, corrupt when an index file is not what the manifest says.
    pub(super) async fn change(&self, bucket: &Bucket, changes: Changes, own: &OwnFiles) -> Result<Replaced> {
        let mut replaced = Replaced::default();
        let of_bucket = |entry: &&IndexEntry| {
            entry.index_type == DELETION_VECTORS && entry.bucket == bucket.number && entry.partition == bucket.partition
        };
        // A table with buckets has one file for each; one without has several, of which the others stay.
        let has_buckets = self.table.settings().bucket > 0;
        let touched = |entry: &&IndexEntry| {
            has_buckets || entry.dv_ranges.iter().flatten().any(|range| changes.contains_key(&range.data_file))
        };
        let known =
            |entry: &IndexEntry| entry.dv_ranges.iter().flatten().any(|range| changes.contains_key(&range.data_file));
        let comes = changes.values().any(Option::is_some);
        if !comes && !self.entries.iter().filter(of_bucket).any(known) {
            return Ok(replaced);
        }
        let mut vectors: BTreeMap<String, DeletionVector> = BTreeMap::new();
        for entry in self.entries.iter().filter(of_bucket).filter(touched) {
            vectors.extend(self.vectors_of(bucket, entry).await?);
            replaced.old.push(entry.clone());
        }
        // Old writers leave vectors of files that are gone.
        vectors.retain(|file, _| bucket.live.contains(file));
        for (file, vector) in changes {
            match vector {
                Some(vector) => vectors.insert(file, vector),
                None => vectors.remove(&file),
            };
        }
        let target = match has_buckets {
            true => u64::MAX,
            false => self.table.settings().deletion_vector_file_size,
        };
        for (number, part) in parts(vectors, target)?.into_iter().enumerate() {
            replaced.new.push(self.write(bucket, number, &part, own).await?);
        }
        Ok(replaced)
    }

    async fn vectors_of(&self, bucket: &Bucket, entry: &IndexEntry) -> Result<HashMap<String, DeletionVector>> {
        let files = self.table.files();
        let path = files.index_path(&bucket.path, bucket.number, &entry.file_name, entry.external_path.as_deref())?;
        let named = |error: Error| error.with("index file", path.as_ref().to_owned());
        let bytes = files.read(&path).await.map_err(named)?;
        check_index_file_version(&bytes).map_err(named)?;
        let outside = || Error::corrupt("a deletion vector lies outside of its file");
        entry
            .dv_ranges
            .iter()
            .flatten()
            .map(|range| {
                let record =
                    usize::try_from(range.offset).ok().and_then(|offset| bytes.get(offset..)).ok_or_else(outside)?;
                let length = u64::try_from(range.length).map_err(|_| outside())?;
                Ok((range.data_file.clone(), DeletionVector::parse(record, length)?))
            })
            .collect::<Result<_>>()
            .map_err(named)
    }

    async fn write(
        &self,
        bucket: &Bucket,
        number: usize,
        vectors: &BTreeMap<String, DeletionVector>,
        own: &OwnFiles,
    ) -> Result<IndexEntry> {
        let (bytes, ranges) = write_index_file(vectors.iter().map(|(file, vector)| (file.as_str(), vector)))?;
        let files = self.table.files();
        let file_name = format!("index-{}-{number}", Uuid::new_v4());
        let path = files.index_path(&bucket.path, bucket.number, &file_name, None)?;
        own.add(path.clone());
        let file_size = bytes.len() as i64;
        files.overwrite(&path, bytes).await?;
        Ok(IndexEntry {
            kind: 0,
            partition: Arc::clone(&bucket.partition),
            bucket: bucket.number,
            index_type: DELETION_VECTORS.to_owned(),
            file_name,
            file_size,
            row_count: ranges.len() as i64,
            dv_ranges: Some(ranges),
            external_path: None,
            global_index: None,
        })
    }
}

/// The vectors in files of about `target` bytes.
fn parts(vectors: BTreeMap<String, DeletionVector>, target: u64) -> Result<Vec<BTreeMap<String, DeletionVector>>> {
    let mut parts: Vec<BTreeMap<String, DeletionVector>> = Vec::new();
    let mut size = 0;
    for (file, vector) in vectors {
        let bytes = vector.to_record()?.len() as u64;
        match parts.last_mut() {
            Some(part) if size + bytes <= target => {
                size += bytes;
                part.insert(file, vector);
            }
            _ => {
                size = bytes;
                parts.push(BTreeMap::from([(file, vector)]));
            }
        }
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_when_vectors_pass_the_size_then_several_files() {
        let vectors: BTreeMap<String, DeletionVector> = (0..5)
            .map(|file| {
                let mut vector = DeletionVector::new(false);
                vector.insert(file).unwrap();
                (format!("f{file}"), vector)
            })
            .collect();
        let one = vectors["f0"].to_record().unwrap().len() as u64;
        let counts =
            |target| -> Vec<usize> { parts(vectors.clone(), target).unwrap().iter().map(BTreeMap::len).collect() };
        assert_eq!(counts(u64::MAX), [5]);
        assert_eq!(counts(2 * one), [2, 2, 1]);
        assert_eq!(counts(0), [1; 5]);
    }
}
