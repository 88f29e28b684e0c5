//! Column groups: files that hold different columns of the same rows (`spec/data.md 2`, data evolution).
//!
//! ```text
//! row ids      0 ........ 99   100 .... 199
//! id, a, b     |  file 1   |   |  file 4  |
//! a            |  file 2   |                 newer than file 1: its values of `a` count
//! pic (.blob)  | f. 3 | f.5|                 dedicated files may cover a part of the rows
//! ```

use super::PlannedFile;
use crate::error::{Error, Result};

/// Files of one range of row ids, which hold its columns between them.
#[derive(Debug)]
pub struct ColumnGroup {
    /// The files, newest first: a column is read from the first one that holds it.
    pub files: Vec<PlannedFile>,
    /// The rows of the group, the deleted ones counted.
    pub rows: u64,
    /// The id of its first row; `None` where the rows carry their ids, or have none.
    pub first_row_id: Option<u64>,
}

impl ColumnGroup {
    /// A file whose rows no other file holds columns of.
    ///
    /// # Errors
    /// Corrupt when it has more rows than a file can have.
    pub(super) fn single(file: PlannedFile) -> Result<Self> {
        let first_row_id = file.file.first_row_id().and_then(|id| u64::try_from(id).ok());
        Ok(Self { rows: rows_of(&file)?, first_row_id, files: vec![file] })
    }

    /// The position in the group of the first row of `file`.
    pub fn offset(&self, file: &PlannedFile) -> u64 {
        let first = file.file.first_row_id().and_then(|id| u64::try_from(id).ok());
        first.zip(self.first_row_id).map_or(0, |(first, start)| first.saturating_sub(start))
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.file.size()).sum()
    }
}

/// Whether a file holds one column apart from the others, so that it need not cover all rows of its group.
fn is_dedicated(file: &PlannedFile) -> bool {
    let name = file.file.name();
    name.ends_with(".blob") || name.contains(".vector.")
}

/// The rows of a file, of which a bit each is kept.
fn rows_of(file: &PlannedFile) -> Result<u64> {
    let rows = file.file.rows();
    if u32::try_from(rows).is_err() {
        return Err(at(file, &format!("the manifest says that the file has {rows} rows")));
    }
    Ok(rows)
}

/// Groups the files of one bucket by their row ids.
///
/// # Errors
/// Corrupt when row ids overflow, a dedicated file belongs to no other file, or files overlap without holding the same rows.
pub(super) fn column_groups(files: Vec<PlannedFile>) -> Result<Vec<ColumnGroup>> {
    let mut groups = Vec::new();
    let mut ranged = Vec::with_capacity(files.len());
    for file in files {
        match file.file.first_row_id() {
            None if is_dedicated(&file) => return Err(at(&file, "the file has no first row id")),
            None => groups.push(ColumnGroup::single(file)?),
            Some(first) => {
                let start = u64::try_from(first).map_err(|_| at(&file, "the first row id is negative"))?;
                let end = start.checked_add(rows_of(&file)?).filter(|end| i64::try_from(*end).is_ok());
                let end = end.ok_or_else(|| at(&file, "the row ids are too great"))?;
                ranged.push((start, end, file));
            }
        }
    }
    ranged.sort_by_key(|(start, end, _)| (*start, *end));
    let mut open: Vec<(u64, u64, PlannedFile)> = Vec::new();
    let mut reach = 0;
    for entry in ranged {
        if entry.0 >= reach && !open.is_empty() {
            groups.push(group(std::mem::take(&mut open))?);
        }
        reach = reach.max(entry.1);
        open.push(entry);
    }
    if !open.is_empty() {
        groups.push(group(open)?);
    }
    Ok(groups)
}

/// Files whose row ids overlap, in the order of these.
fn group(files: Vec<(u64, u64, PlannedFile)>) -> Result<ColumnGroup> {
    let mut range: Option<(u64, u64)> = None;
    for (start, end, file) in &files {
        match range {
            _ if is_dedicated(file) => {}
            None => range = Some((*start, *end)),
            Some(range) if range == (*start, *end) => {}
            Some((first, last)) => {
                return Err(at(file, &format!("the file has the rows {start}..{end}, another one {first}..{last}")));
            }
        }
    }
    let mut files = files;
    let Some((start, end)) = range else {
        let orphan = files.first().map_or_else(
            || Error::internal("a group without files"),
            |(_, _, file)| at(file, "no other file has the rows of this one"),
        );
        return Err(orphan);
    };
    if let Some((_, _, file)) = files.iter().find(|(first, last, _)| *first < start || *last > end) {
        return Err(at(file, &format!("the file has rows beyond {start}..{end}, those of the file beside it")));
    }
    // Of files that were committed together the later entry counts.
    files.reverse();
    files.sort_by_key(|(_, _, file)| std::cmp::Reverse(file.file.sequence_numbers().1));
    let files = files.into_iter().map(|(_, _, file)| file).collect();
    Ok(ColumnGroup { files, rows: end - start, first_row_id: Some(start) })
}

fn at(file: &PlannedFile, message: &str) -> Error {
    Error::corrupt(message.to_owned()).with("file", file.file.name().to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::plan::Partition;
    use crate::spec::manifest::{DataFile, ManifestEntries};

    fn file(name: &str, first_row_id: i64, rows: i64, sequence: i64) -> PlannedFile {
        let mut entries = ManifestEntries {
            kind: vec![0],
            bucket: vec![0],
            row_count: vec![rows],
            min_sequence_number: vec![sequence],
            max_sequence_number: vec![sequence],
            first_row_id: vec![first_row_id],
            ..ManifestEntries::default()
        };
        assert!(entries.file_name.push(name.as_bytes()));
        let partition = Partition { row: Arc::from([]), values: Vec::new(), path: String::new() };
        PlannedFile {
            file: DataFile { entries: Arc::new(entries), row: 0 },
            partition: Arc::new(partition),
            deletion: None,
            scan: true,
            candidates: None,
        }
    }

    fn names(groups: &[ColumnGroup]) -> Vec<Vec<&str>> {
        groups.iter().map(|group| group.files.iter().map(|file| file.file.name()).collect()).collect()
    }

    #[test]
    fn column_groups_when_row_ids_coincide_then_one_group_newest_first() {
        let files = vec![
            file("b.parquet", 3, 2, 3),
            file("a.parquet", 0, 3, 1),
            file("a2.parquet", 0, 3, 7),
            file("a1.parquet", 0, 3, 2),
            file("c.parquet", -1, 4, 9),
        ];
        let groups = column_groups(files).unwrap();
        assert_eq!(
            names(&groups),
            [vec!["c.parquet"], vec!["a2.parquet", "a1.parquet", "a.parquet"], vec!["b.parquet"]]
        );
        assert_eq!(groups.iter().map(|group| group.rows).collect::<Vec<_>>(), [4, 3, 2]);
        assert_eq!(groups.iter().map(|group| group.first_row_id).collect::<Vec<_>>(), [None, Some(0), Some(3)]);
    }

    #[test]
    fn column_groups_when_blob_files_cover_parts_then_they_belong_to_the_file_beside() {
        let files = vec![
            file("1.blob", 0, 2, 1),
            file("2.blob", 2, 3, 1),
            file("data.parquet", 0, 5, 1),
            file("next.parquet", 5, 1, 1),
        ];
        let groups = column_groups(files).unwrap();
        assert_eq!(groups.len(), 2);
        assert_eq!((groups[0].files.len(), groups[0].rows), (3, 5));
        let second = groups[0].files.iter().find(|file| file.file.name() == "2.blob").unwrap();
        assert_eq!(groups[0].offset(second), 2);
    }

    #[test]
    fn column_groups_when_rows_do_not_fit_then_corrupt() {
        for files in [
            vec![file("a.parquet", 0, 3, 1), file("b.parquet", 1, 2, 2)],
            vec![file("a.parquet", 0, 3, 1), file("b.parquet", 2, 3, 2)],
            vec![file("a.blob", 0, 3, 1)],
            vec![file("a.blob", -1, 3, 1)],
            vec![file("a.parquet", 0, 3, 1), file("a.blob", 2, 3, 1)],
            vec![file("a.parquet", i64::MAX, 3, 1)],
            vec![file("a.parquet", 0, i64::MAX, 1)],
        ] {
            let error = column_groups(files).unwrap_err();
            assert_eq!(error.kind(), crate::error::ErrorKind::Corrupt);
        }
    }
}
