//! File indexes: what a writer noted about the values of some columns of a data file, to tell which rows a predicate can
//! match without reading them (`spec/data.md 10`).
//!
//! ```text
//! container (.index file, or bytes in the manifest)     mod.rs
//!   column name -> index type -> payload
//!     bloom-filter    may the file hold this value?     bloom.rs
//!     bitmap          rows of each value                bitmap.rs
//!     bsi             rows of each bit of a number      bsi.rs, slices.rs
//!     range-bitmap    rows of each bit of a rank        range_bitmap.rs, slices.rs
//! value, predicate    values and predicates in the form in which indexes hold them
//! distinct            the values of a column while an index is written
//! write, definition   columns -> payloads -> container, as the options of a table define
//! ```
//!
//! Every answer is a hint: it may name rows that do not match, it never leaves out a row that does. What an index cannot
//! answer is [`IndexAnswer::Remain`]. Payloads are read where they lie, and only as far as a predicate needs.
//!
//! May import: `error`, `options`, `spec::{types, deletion_vector}`.

mod bitmap;
mod bloom;
mod bsi;
mod definition;
mod distinct;
mod input;
mod output;
mod predicate;
mod range_bitmap;
mod slices;
mod value;
mod write;

use std::ops::Range;

use bytes::Bytes;
use roaring::RoaringBitmap;

pub use definition::{FileIndexDefinition, FileIndexesWriter};
pub use predicate::{Comparison, IndexPredicate};
pub use value::{Key, ValueType};
pub use write::{ColumnPayloads, FileIndexWriter, IndexOptions, write_container};

use self::input::Input;
use crate::error::{Error, Result};

/// First bytes of a container.
const MAGIC: i64 = 1_493_475_289_347_502;
/// The one version of the container.
const VERSION: i32 = 1;
/// Start of an index into which no row was ever fed.
const EMPTY: i32 = -1;
/// How the name of a file that holds a container ends, whatever stands before it.
pub const FILE_SUFFIX: &str = ".index";

/// What an index says about the rows of its file.
#[derive(Clone, Debug, PartialEq)]
pub enum IndexAnswer {
    /// Nothing: all rows may match.
    Remain,
    /// No row matches.
    Skip,
    /// Only these rows, counted from 0 in the order of the file, may match.
    Rows(RoaringBitmap),
}

impl IndexAnswer {
    fn of(rows: RoaringBitmap) -> Self {
        if rows.is_empty() { Self::Skip } else { Self::Rows(rows) }
    }

    /// The answer to both predicates at once.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Skip, _) | (_, Self::Skip) => Self::Skip,
            (Self::Remain, known) | (known, Self::Remain) => known,
            (Self::Rows(rows), Self::Rows(others)) => Self::of(rows & others),
        }
    }

    /// The answer to either predicate.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Remain, _) | (_, Self::Remain) => Self::Remain,
            (Self::Skip, known) | (known, Self::Skip) => known,
            (Self::Rows(rows), Self::Rows(others)) => Self::of(rows | others),
        }
    }
}

/// The kinds of index that this crate reads and writes. A container may hold others; they answer nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexKind {
    /// `bloom-filter`
    BloomFilter,
    /// `bitmap`
    Bitmap,
    /// `bsi`
    BitSliced,
    /// `range-bitmap`
    RangeBitmap,
}

impl IndexKind {
    /// The kind that the format calls `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// What the format calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::BloomFilter => "bloom-filter",
            Self::Bitmap => "bitmap",
            Self::BitSliced => "bsi",
            Self::RangeBitmap => "range-bitmap",
        }
    }

    /// All kinds.
    pub const ALL: [Self; 4] = [Self::BloomFilter, Self::Bitmap, Self::BitSliced, Self::RangeBitmap];

    /// Whether indexes of the kind hold such values.
    fn holds(self, values: ValueType) -> bool {
        use ValueType::{Boolean, Bytes, CutMicros, Decimal, Float32, Float64, Text};
        match self {
            Self::BloomFilter => !matches!(values, Boolean | Decimal { .. }),
            Self::Bitmap => !matches!(values, Bytes | Decimal { .. }),
            Self::BitSliced => !matches!(values, Boolean | Float32 | Float64 | Text | Bytes),
            Self::RangeBitmap => !matches!(values, Bytes | CutMicros),
        }
    }
}

/// One index of a column.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnIndex {
    /// What the format calls its type.
    pub index_type: String,
    /// Its bytes in the container; `None` when no row was ever fed into it.
    pub payload: Option<Range<usize>>,
}

/// A container: the indexes of one data file.
#[derive(Clone, Debug)]
pub struct FileIndex {
    bytes: Bytes,
    columns: Vec<(String, Vec<ColumnIndex>)>,
}

impl FileIndex {
    /// Reads the directory of a container (`spec/data.md 10.1`). Payloads stay as they are.
    ///
    /// # Errors
    /// Corrupt when the bytes are no container, unsupported for another version of it.
    pub fn parse(bytes: Bytes) -> Result<Self> {
        let mut input = Input::new(&bytes);
        let magic = input.i64()?;
        if magic != MAGIC {
            return Err(Error::corrupt(format!("the file index has the magic {magic}, not {MAGIC}")));
        }
        let version = input.i32()?;
        if version != VERSION {
            return Err(Error::unsupported(format!("the file index has version {version}, only {VERSION} is known")));
        }
        let head = input.length()?;
        let head = bytes.get(..head).ok_or_else(|| {
            Error::corrupt(format!("the head of the file index is {head} bytes long, all of it {}", bytes.len()))
        })?;
        let mut input = Input::at(head, input.position());
        let mut columns = Vec::new();
        for _ in 0..input.length()? {
            let name = input.java_text()?;
            let mut indexes = Vec::new();
            for _ in 0..input.length()? {
                let index_type = input.java_text()?;
                let (start, length) = (input.i32()?, input.i32()?);
                let payload = if start == EMPTY { None } else { Some(payload_range(start, length, bytes.len())?) };
                indexes.push(ColumnIndex { index_type, payload });
            }
            columns.push((name, indexes));
        }
        Ok(Self { bytes, columns })
    }

    /// Columns, or `column[key]` for a key of a map, with their indexes, in the order of the container.
    pub fn columns(&self) -> impl Iterator<Item = (&str, &[ColumnIndex])> {
        self.columns.iter().map(|(name, indexes)| (name.as_str(), indexes.as_slice()))
    }

    /// Bytes held in memory, roughly.
    pub fn memory(&self) -> usize {
        self.bytes.len() + self.columns.len() * 128
    }

    /// What all indexes of `column` together say about `predicate` on values of type `values`, for a data file of `rows`
    /// rows. A column without an index remains.
    ///
    /// # Errors
    /// Corrupt when an index that was asked does not follow the format or belongs to a file of another number of rows.
    pub fn answer(
        &self,
        column: &str,
        values: ValueType,
        predicate: &IndexPredicate,
        rows: u32,
    ) -> Result<IndexAnswer> {
        let mut answer = IndexAnswer::Remain;
        for (_, indexes) in self.columns.iter().filter(|(name, _)| name == column) {
            for index in indexes {
                if answer == IndexAnswer::Skip {
                    return Ok(answer);
                }
                let said = self.ask(index, values, predicate, rows).map_err(|error| {
                    error.with("index", index.index_type.as_str()).with("column", column.to_owned())
                })?;
                answer = answer.and(said);
            }
        }
        Ok(answer)
    }

    fn ask(
        &self,
        index: &ColumnIndex,
        values: ValueType,
        predicate: &IndexPredicate,
        rows: u32,
    ) -> Result<IndexAnswer> {
        let Some(payload) = &index.payload else {
            // No row was fed, so there is none with a value (`spec/data.md 10.1`).
            return Ok(match predicate {
                IndexPredicate::In(_) | IndexPredicate::Range(..) | IndexPredicate::IsNotNull => IndexAnswer::Skip,
                IndexPredicate::NotIn(_) | IndexPredicate::IsNull => IndexAnswer::Remain,
            });
        };
        let kind = IndexKind::from_name(&index.index_type).filter(|kind| kind.holds(values));
        let Some(kind) = kind else { return Ok(IndexAnswer::Remain) };
        let payload = self.bytes.get(payload.clone()).unwrap_or_default();
        let found = match kind {
            IndexKind::BloomFilter => return bloom::answer(payload, predicate),
            IndexKind::Bitmap => bitmap::answer(payload, values, predicate, rows)?,
            IndexKind::BitSliced => bsi::answer(payload, predicate, rows)?,
            IndexKind::RangeBitmap => range_bitmap::answer(payload, values, predicate, rows)?,
        };
        Ok(found.map_or(IndexAnswer::Remain, IndexAnswer::of))
    }
}

fn payload_range(start: i32, length: i32, all: usize) -> Result<Range<usize>> {
    let range = usize::try_from(start).ok().zip(usize::try_from(length).ok()).and_then(|(start, length)| {
        let end = start.checked_add(length)?;
        (end <= all).then_some(start..end)
    });
    range.ok_or_else(|| {
        Error::corrupt(format!(
            "an index starts at {start} with length {length}, outside of the {all} bytes of its file"
        ))
    })
}

/// The rows 0 to `rows`, without the last.
fn all_rows(rows: u32) -> RoaringBitmap {
    let mut all = RoaringBitmap::new();
    all.insert_range(0..rows);
    all
}

/// An index tells how many rows it was made of: with another number than its file's it is not of this file.
fn check_rows(index: i32, file: u32) -> Result<()> {
    if u32::try_from(index) == Ok(file) {
        return Ok(());
    }
    Err(Error::corrupt(format!("the index was made of {index} rows, its data file has {file}")))
}

#[cfg(test)]
mod tests;
