//! Deletion vectors: read from their index files, they are live rows that somebody else computed.

use std::sync::Arc;

use arrow::array::BooleanBufferBuilder;
use bytes::Bytes;
use roaring::RoaringBitmap;

use super::live_rows::FileRows;
use crate::error::{Error, Result};
use crate::plan::PlannedFile;
use crate::spec::deletion_vector::{DeletionVector, check_index_file_version};
use crate::table::Table;

/// The rows of a file that are deleted.
pub type DeletedRows = DeletionVector;

/// The deletion vector of `file`, if it has one.
///
/// # Errors
/// Errors of the store; corrupt when the record is not what the index manifest says.
pub async fn load(table: &Table, file: &PlannedFile) -> Result<Option<Arc<DeletedRows>>> {
    let Some(deletion) = &file.deletion else { return Ok(None) };
    let range = &deletion.range;
    let with_place = |error: Error| {
        error.with("index file", deletion.path.as_ref().to_owned()).with("data file", file.file.name().to_owned())
    };
    // One index file holds the vectors of many data files.
    let read = async {
        let bytes = table.files().read(&deletion.path).await?;
        let weight = bytes.len();
        Ok((bytes, weight))
    };
    let key = table.files().key(&deletion.path, 0);
    let bytes: Arc<Bytes> = table.caches().decoded(key, read).await.map_err(with_place)?.value;
    check_index_file_version(&bytes).map_err(with_place)?;
    let record = usize::try_from(range.offset).ok().and_then(|offset| bytes.get(offset..)).ok_or_else(|| {
        with_place(Error::corrupt(format!("offset {} lies outside of the file of {} bytes", range.offset, bytes.len())))
    })?;
    let length = u64::try_from(range.length)
        .map_err(|_| with_place(Error::corrupt(format!("the length {} is negative", range.length))))?;
    let vector = DeletionVector::parse(record, length).map_err(with_place)?;
    if let Some(cardinality) = range.cardinality
        && cardinality != vector.cardinality() as i64
    {
        return Err(with_place(Error::corrupt(format!(
            "the deletion vector marks {} rows, the index manifest says {cardinality}",
            vector.cardinality()
        ))));
    }
    Ok(Some(Arc::new(vector)))
}

/// The rows of a file of `rows` rows that are neither deleted nor ruled out: those of `candidates`, or all.
///
/// # Errors
/// Corrupt when a row beyond the end is marked.
pub fn live_rows(deleted: Option<&DeletedRows>, candidates: Option<&RoaringBitmap>, rows: u64) -> Result<FileRows> {
    let mut mask = BooleanBufferBuilder::new(rows as usize);
    mask.append_n(rows as usize, candidates.is_none());
    for position in candidates.into_iter().flatten() {
        if u64::from(position) >= rows {
            return Err(Error::corrupt(format!("a file index names row {position} of a file of {rows} rows")));
        }
        mask.set_bit(position as usize, true);
    }
    for position in deleted.into_iter().flat_map(DeletedRows::iter) {
        if position >= rows {
            return Err(Error::corrupt(format!("a deletion vector marks row {position} of a file of {rows} rows")));
        }
        mask.set_bit(position as usize, false);
    }
    Ok(FileRows::from_mask(mask.finish()))
}
