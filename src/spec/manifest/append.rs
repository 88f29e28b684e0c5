//! Columns of several parts of a manifest, put together.

use std::collections::HashMap;
use std::hash::Hash;

use super::{BytesColumn, Dictionary, EntryHeads, ManifestEntries, StatsColumn};
use crate::error::{Error, Result};

impl BytesColumn {
    fn append(&mut self, other: &Self) -> Result<()> {
        if other.equal > 0 && (self.is_empty() || (self.equal > 0 && self.data == other.data)) {
            self.equal += other.equal;
            self.data.clone_from(&other.data);
            return Ok(());
        }
        let bytes = self.data.len() * self.equal.max(1) + other.data.len() * other.equal.max(1);
        if u32::try_from(bytes).is_err() || !self.spell_out() {
            return Err(too_big());
        }
        let mut end = self.data.len();
        self.ends.reserve_exact(other.len());
        self.ends.extend((0..other.len()).map(|row| {
            end += other.get(row).len();
            end as u32
        }));
        self.data.reserve_exact(bytes - self.data.len());
        for _ in 0..other.equal.max(1) {
            self.data.extend_from_slice(&other.data);
        }
        Ok(())
    }

    fn shrink(&mut self) {
        self.ends.shrink_to_fit();
        self.data.shrink_to_fit();
    }
}

impl StatsColumn {
    fn append(&mut self, other: &Self) -> Result<()> {
        self.min.append(&other.min)?;
        self.max.append(&other.max)?;
        let offset = u32::try_from(self.null_counts.len()).map_err(|_| too_big())?;
        if u32::try_from(self.null_counts.len() + other.null_counts.len()).is_err() {
            return Err(too_big());
        }
        self.null_counts.extend_from_slice(&other.null_counts);
        self.null_count_ends.extend(other.null_count_ends.iter().map(|end| end + offset));
        Ok(())
    }

    fn shrink(&mut self) {
        self.min.shrink();
        self.max.shrink();
        self.null_counts.shrink_to_fit();
        self.null_count_ends.shrink_to_fit();
    }
}

impl<T: Clone + Eq + Hash> Dictionary<T> {
    fn append(&mut self, other: Self) {
        let mut known: HashMap<T, u32> = self.values.iter().cloned().zip(0..).collect();
        let keys: Vec<u32> = other
            .values
            .into_iter()
            .map(|value| {
                *known.entry(value).or_insert_with_key(|value| {
                    self.values.push(value.clone());
                    (self.values.len() - 1) as u32
                })
            })
            .collect();
        // Every key of a dictionary is a position in its values.
        self.keys.extend(other.keys.iter().map(|key| keys[*key as usize]));
    }
}

impl<T: Clone> Dictionary<T> {
    /// The entries `rows`, with the values that they use.
    pub(super) fn take(&self, rows: &[u32]) -> Self {
        let mut moved = vec![u32::MAX; self.values.len()];
        let mut taken = Self { values: Vec::new(), keys: Vec::with_capacity(rows.len()) };
        for row in rows {
            let key = self.keys[*row as usize] as usize;
            if moved[key] == u32::MAX {
                moved[key] = taken.values.len() as u32;
                taken.values.push(self.values[key].clone());
            }
            taken.keys.push(moved[key]);
        }
        taken
    }
}

impl EntryHeads {
    /// Adds the entries of `other` behind.
    pub(super) fn append(&mut self, other: Self) {
        self.kind.extend_from_slice(&other.kind);
        self.partition.append(other.partition);
        self.bucket.extend_from_slice(&other.bucket);
        self.total_buckets.extend_from_slice(&other.total_buckets);
    }
}

impl ManifestEntries {
    /// Adds the entries of `other` behind.
    pub(super) fn append(&mut self, other: Self) -> Result<()> {
        let (rows, added) = (self.len(), other.len());
        self.kind.extend_from_slice(&other.kind);
        self.partition.append(other.partition);
        self.bucket.extend_from_slice(&other.bucket);
        self.total_buckets.extend_from_slice(&other.total_buckets);
        self.file_name.append(&other.file_name)?;
        self.file_size.extend_from_slice(&other.file_size);
        self.row_count.extend_from_slice(&other.row_count);
        self.min_key.append(&other.min_key)?;
        self.max_key.append(&other.max_key)?;
        self.key_stats.append(&other.key_stats)?;
        self.value_stats.append(&other.value_stats)?;
        self.min_sequence_number.extend_from_slice(&other.min_sequence_number);
        self.max_sequence_number.extend_from_slice(&other.max_sequence_number);
        self.schema_id.extend_from_slice(&other.schema_id);
        self.level.extend_from_slice(&other.level);
        self.extra_files.append(other.extra_files);
        self.creation_time.extend_from_slice(&other.creation_time);
        self.delete_row_count.extend_from_slice(&other.delete_row_count);
        append_optional(&mut self.embedded_index, rows, other.embedded_index, added);
        self.file_source.extend_from_slice(&other.file_source);
        self.value_stats_cols.append(other.value_stats_cols);
        append_optional(&mut self.external_path, rows, other.external_path, added);
        self.first_row_id.extend_from_slice(&other.first_row_id);
        self.write_cols.append(other.write_cols);
        Ok(())
    }

    /// Gives back memory that columns reserved and did not need.
    pub(super) fn shrink(&mut self) {
        for column in [&mut self.file_name, &mut self.min_key, &mut self.max_key] {
            column.shrink();
        }
        self.key_stats.shrink();
        self.value_stats.shrink();
    }
}

fn append_optional<T: Clone>(
    column: &mut Option<Vec<Option<T>>>,
    rows: usize,
    other: Option<Vec<Option<T>>>,
    added: usize,
) {
    if column.is_none() && other.is_none() {
        return;
    }
    let column = column.get_or_insert_default();
    column.resize(rows, None);
    column.extend(other.unwrap_or_default());
    column.resize(rows + added, None);
}

fn too_big() -> Error {
    Error::unsupported("a manifest with more than 4 GB in one column")
}
