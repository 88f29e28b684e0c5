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
    pub(super) fn single(file: PlannedFile) -> Self {
        let first_row_id = file.file.first_row_id().and_then(|id| u64::try_from(id).ok());
        Self { rows: file.file.rows(), first_row_id, files: vec![file] }
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
            None => groups.push(ColumnGroup::single(file)),
            Some(first) => {
                let start = u64::try_from(first).map_err(|_| at(&file, "the first row id is negative"))?;
                let end = start.checked_add(file.file.rows()).filter(|end| i64::try_from(*end).is_ok());
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
        let orphan = files.first().map_or_else(|| Error::internal("a group without files"), |(_, _, file)| {
            at(file, "no other file has the rows of this one")
        });
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
