//! The result of resolving: which rows of each file are live, and which are versions of a key to be folded.

use std::sync::Arc;

use arrow::buffer::BooleanBuffer;

/// Rows of one file that are rows of the table as they stand.
#[derive(Clone, Debug, PartialEq)]
pub enum FileRows {
    /// All of them.
    All,
    /// None of them.
    None,
    /// Those whose bit is set; as many bits as the file has rows.
    Some(BooleanBuffer),
}

impl FileRows {
    /// The simplest form of `mask`.
    pub fn from_mask(mask: BooleanBuffer) -> Self {
        match mask.count_set_bits() {
            0 if !mask.is_empty() => Self::None,
            set if set == mask.len() => Self::All,
            _ => Self::Some(mask),
        }
    }

    /// Those of the rows that are not among `others`, which are rows of the same file.
    #[must_use]
    pub fn without(&self, others: &Self) -> Self {
        match (self, others) {
            (Self::None, _) | (_, Self::All) => Self::None,
            (own, Self::None) => own.clone(),
            (Self::All, Self::Some(others)) => Self::from_mask(!others),
            (Self::Some(own), Self::Some(others)) => Self::from_mask(own & &!others),
        }
    }

    /// How many of `rows` rows are live.
    pub fn count(&self, rows: u64) -> u64 {
        match self {
            Self::All => rows,
            Self::None => 0,
            Self::Some(mask) => mask.count_set_bits() as u64,
        }
    }

    /// The bits of a file of `rows` rows, where some but not all rows are live or none is.
    pub fn mask(&self, rows: u64) -> Option<BooleanBuffer> {
        match self {
            Self::All => None,
            Self::None => Some(BooleanBuffer::new_unset(rows as usize)),
            Self::Some(mask) => Some(mask.clone()),
        }
    }

    fn memory(&self) -> usize {
        match self {
            Self::Some(mask) => mask.len() / 8 + 64,
            _ => 16,
        }
    }
}

/// Versions of contested keys in one file.
#[derive(Clone, Debug)]
pub struct Contested {
    /// Rows of the file that are versions of contested keys.
    pub mask: BooleanBuffer,
    /// The key of each set bit: groups are numbered in key order through the whole section, so these ascend.
    pub groups: Vec<u32>,
    /// How many older versions each set bit's key has; `None` where the order of the files tells.
    pub ordinals: Option<Vec<u16>>,
}

/// The live rows of a section.
#[derive(Debug, Default)]
pub struct LiveRows {
    /// One a file of the section.
    pub files: Vec<Option<FileRows>>,
    /// One a file of the section; `None` where the file holds no contested key.
    pub contested: Vec<Option<Contested>>,
    /// The number of contested keys.
    pub groups: u32,
    /// Position of each file in merge order, oldest first.
    pub rank: Vec<u32>,
    /// Rows that are neither live nor contested.
    pub dead: u64,
}

impl LiveRows {
    /// The live rows of file `index`.
    pub fn of(&self, index: usize) -> &FileRows {
        self.files.get(index).and_then(Option::as_ref).unwrap_or(&FileRows::None)
    }

    /// Bytes held in memory.
    pub fn memory(&self) -> usize {
        self.files.iter().flatten().map(FileRows::memory).sum::<usize>()
            + self
                .contested
                .iter()
                .flatten()
                .map(|contested| contested.mask.len() / 8 + contested.groups.capacity() * 6)
                .sum::<usize>()
            + 128
    }
}

/// Shared live rows.
pub type LiveRowsRef = Arc<LiveRows>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_when_rows_are_taken_away_then_the_others_in_the_simplest_form() {
        let some = |bits: &[bool]| FileRows::Some(BooleanBuffer::from(bits.to_vec()));
        let (a, b) = (some(&[true, true, false]), some(&[true, false, false]));
        assert_eq!(FileRows::All.without(&FileRows::None), FileRows::All);
        assert_eq!(FileRows::All.without(&FileRows::All), FileRows::None);
        assert_eq!(FileRows::None.without(&a), FileRows::None);
        assert_eq!(FileRows::All.without(&a), some(&[false, false, true]));
        assert_eq!(a.without(&b), some(&[false, true, false]));
        assert_eq!(b.without(&a), FileRows::None);
        assert_eq!(a.without(&FileRows::None), a);
    }
}
