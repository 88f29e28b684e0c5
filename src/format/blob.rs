//! Blob files: the values of one BLOB column, one after another, with an index of their lengths behind them.
//!
//! ```text
//! value  := magic CF 11 4E 58 | bytes | length of the whole value: i64 LE | CRC-32 of all before it: u32 LE
//! file   := value* | index | length of the index: i32 LE | version 1: u8
//! index  := a zigzag varint a row: its length less that of the row before (the first less 0); length -1 is NULL
//! ```
//!
//! Only the selected values are read.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryViewBuilder, RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use futures::{StreamExt, stream};
use object_store::ObjectStoreExt;

use super::parquet::nullable_fields;
use super::{BatchStream, FileRead, rows};
use crate::error::{Error, Result};
use crate::spec::TypeKind;
use crate::spec::types::arrow_schema;

const MAGIC: [u8; 4] = [0xCF, 0x11, 0x4E, 0x58];
const VERSION: u8 = 1;
/// Bytes of a value beside its own: magic, length, checksum.
const FRAME: u64 = 4 + 8 + 4;
/// Length of the index and version.
const FOOTER: u64 = 4 + 1;
/// A batch ends when its values have this many bytes.
const BATCH_BYTES: u64 = 16 << 20;

/// Where the value of each row lies; `None` is NULL.
type Values = Vec<Option<Range<u64>>>;

pub(super) async fn open(read: FileRead) -> Result<BatchStream> {
    match read.fields.as_slice() {
        [] => {}
        [field] if field.data_type.kind == TypeKind::Blob => {}
        [field, ..] => {
            return Err(Error::corrupt(format!("a blob file holds one BLOB column and not {}", field.name)));
        }
    }
    let values = index(&read).await?;
    rows::check_within(read.selection.as_deref(), values.len() as u64)?;
    let selected: Values = match &read.selection {
        None => values,
        Some(ranges) => {
            ranges.iter().flat_map(|range| values[range.start as usize..range.end as usize].iter().cloned()).collect()
        }
    };
    let schema = arrow_schema(&nullable_fields(&read.fields));
    let blobs = Blobs { read, values: selected, next: 0, schema };
    Ok(stream::try_unfold(blobs, |mut blobs| async move { Ok(blobs.next().await?.map(|batch| (batch, blobs))) })
        .boxed())
}

/// Reads the index.
async fn index(read: &FileRead) -> Result<Values> {
    let short = || Error::corrupt(format!("a file of {} bytes is no blob file", read.size));
    let footer_at = read.size.checked_sub(FOOTER).ok_or_else(short)?;
    let footer = read.store.get_range(&read.path, footer_at..read.size).await?;
    let Some((length, [version])) = footer.split_first_chunk::<4>() else { return Err(short()) };
    if *version != VERSION {
        return Err(Error::unsupported(format!("blob files of version {version} can't be read")));
    }
    let length = i32::from_le_bytes(*length);
    let index_at = u64::try_from(length).ok().and_then(|length| footer_at.checked_sub(length));
    let index_at = index_at.ok_or_else(|| Error::corrupt(format!("the index of {length} bytes is not in the file")))?;
    let index = if length == 0 { Bytes::new() } else { read.store.get_range(&read.path, index_at..footer_at).await? };
    locate(&index, index_at)
}

/// The places of the values, which end at `end`.
fn locate(index: &[u8], end: u64) -> Result<Values> {
    let mut values = Vec::new();
    let (mut rest, mut length, mut at) = (index, 0i64, 0u64);
    while !rest.is_empty() {
        let delta = varint(&mut rest)?;
        length = length.wrapping_add(delta);
        if length == -1 {
            values.push(None);
            continue;
        }
        let bytes = u64::try_from(length).ok().filter(|length| *length >= FRAME);
        let next = bytes.and_then(|bytes| at.checked_add(bytes)).filter(|next| *next <= end);
        let next = next.ok_or_else(|| {
            Error::corrupt(format!("the index has a value of {length} bytes at {at}, and {end} bytes hold them all"))
        })?;
        values.push(Some(at..next));
        at = next;
    }
    if at != end {
        return Err(Error::corrupt(format!("the values end at {at}, their index begins at {end}")));
    }
    Ok(values)
}

/// A zigzag varint of 64 bits.
fn varint(rest: &mut &[u8]) -> Result<i64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let Some((byte, tail)) = rest.split_first() else { break };
        *rest = tail;
        value |= u64::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return Ok((value >> 1) as i64 ^ -((value & 1) as i64));
        }
    }
    Err(Error::corrupt("the index ends within a number, or has one of more than 64 bits"))
}

struct Blobs {
    read: FileRead,
    values: Values,
    next: usize,
    schema: SchemaRef,
}

impl Blobs {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        let waiting = self.values.get(self.next..).unwrap_or_default();
        if waiting.is_empty() {
            return Ok(None);
        }
        let (mut rows, mut bytes) = (0, 0);
        for value in waiting.iter().take(self.read.batch_size.max(1)) {
            let length = value.as_ref().map_or(0, |range| range.end - range.start);
            if rows > 0 && bytes + length > BATCH_BYTES {
                break;
            }
            (rows, bytes) = (rows + 1, bytes + length);
        }
        let batch = &waiting[..rows];
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let columns: Vec<ArrayRef> = if self.read.fields.is_empty() {
            Vec::new()
        } else {
            let ranges: Vec<Range<u64>> = batch.iter().flatten().cloned().collect();
            let mut read = self.read.store.get_ranges(&self.read.path, &ranges).await?.into_iter();
            let mut column = BinaryViewBuilder::with_capacity(rows);
            for range in batch {
                match range {
                    None => column.append_null(),
                    Some(range) => {
                        let value = read.next().unwrap_or_default();
                        column.append_value(
                            content(&value).map_err(|error| error.with("offset", range.start.to_string()))?,
                        );
                    }
                }
            }
            vec![Arc::new(column.finish())]
        };
        self.next += rows;
        Ok(Some(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?))
    }
}

/// The bytes of a value, its frame checked.
fn content(value: &[u8]) -> Result<&[u8]> {
    let framed = value.strip_prefix(&MAGIC).and_then(|rest| {
        let (rest, checksum) = rest.split_last_chunk::<4>()?;
        let (content, length) = rest.split_last_chunk::<8>()?;
        Some((content, i64::from_le_bytes(*length), u32::from_le_bytes(*checksum)))
    });
    let Some((content, length, checksum)) = framed else {
        return Err(Error::corrupt("a blob does not begin and end as blobs do"));
    };
    if length != value.len() as i64 {
        return Err(Error::corrupt(format!("a blob of {} bytes says that it has {length}", value.len())));
    }
    if crc32fast::hash(&value[..value.len() - 4]) != checksum {
        return Err(Error::corrupt("the checksum of a blob is wrong"));
    }
    if i32::try_from(content.len()).is_err() {
        return Err(Error::unsupported(format!(
            "a blob of {} bytes can't be a value; 2 GB are the most",
            content.len()
        )));
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;
    use futures::TryStreamExt;
    use object_store::ObjectStore;
    use object_store::memory::InMemory;
    use object_store::path::Path;

    use super::*;
    use crate::error::ErrorKind;
    use crate::spec::{DataField, DataType};

    /// Three values as Java wrote them: 4 bytes, none, 16 bytes.
    const THREE: &str = "cf114e580001020314000000000000004239e730cf114e581000000000000000537fdf03cf114e58ffffffffffffffff\
                         ffffffffffffffff20000000000000004913bfad2807200300000001";
    /// Three values as Java wrote them: 01, NULL, 03.
    const WITH_NULL: &str = "cf114e580111000000000000003b57c92bcf114e5803110000000000000\
                             0bd7f3f052223240300000001";

    fn unhex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
        digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
    }

    async fn values(bytes: Vec<u8>, selection: Option<Vec<Range<u64>>>) -> Result<Vec<Option<Vec<u8>>>> {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let path = Path::from("data-1.blob");
        let size = bytes.len() as u64;
        store.put(&path, bytes.into()).await.unwrap();
        let field = DataField::new(2, "pic", DataType::nullable(TypeKind::Blob));
        let mut read = FileRead::new(store, path, size, vec![field]).unwrap();
        read.selection = selection;
        read.batch_size = 2;
        let batches: Vec<RecordBatch> = read.open().await?.try_collect().await?;
        Ok(batches
            .iter()
            .flat_map(|batch| batch.column(0).as_binary_view().iter().map(|value| value.map(<[u8]>::to_vec)))
            .collect())
    }

    #[tokio::test]
    async fn open_when_file_is_javas_then_its_values() {
        let all = values(unhex(THREE), None).await.unwrap();
        assert_eq!(all, [Some(vec![0, 1, 2, 3]), Some(vec![]), Some(vec![255; 16])]);
        let some = values(unhex(THREE), Some(vec![0..1, 2..3])).await.unwrap();
        assert_eq!(some, [Some(vec![0, 1, 2, 3]), Some(vec![255; 16])]);
        assert_eq!(values(unhex(WITH_NULL), None).await.unwrap(), [Some(vec![1]), None, Some(vec![3])]);
    }

    #[tokio::test]
    async fn open_when_any_byte_is_wrong_then_an_error_or_other_values_and_no_panic() {
        let good = unhex(THREE);
        for at in 0..good.len() {
            for flip in [1, 0x80, 0xFF] {
                let mut bytes = good.clone();
                bytes[at] ^= flip;
                let error = values(bytes, None).await.unwrap_err();
                assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Unsupported), "{at}: {error}");
            }
            assert!(values(good[..at].to_vec(), None).await.is_err());
        }
    }
}
