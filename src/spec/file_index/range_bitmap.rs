//! The range bitmap (`spec/data.md 10.5`): a sorted dictionary of the values, and the ranks of the rows as bit slices.
//!
//! ```text
//! header      rows, distinct values, least and greatest value, length of the dictionary
//! dictionary  chunks: first value and its rank; the other values of all chunks in one area
//! ranks       rows with a value, one slice a bit
//! ```
//!
//! A lookup reads chunk heads by binary search, then values of one chunk by binary search.

use std::borrow::Cow;
use std::ops::Range;

use roaring::RoaringBitmap;

use super::distinct::Ranked;
use super::input::Input;
use super::output::{length_of, put_length, put_rows};
use super::predicate::{IndexPredicate, above, below};
use super::slices::BitSlices;
use super::value::{Key, ValueType};
use super::{all_rows, check_rows};
use crate::error::{Error, Result};

/// The rows that may satisfy `predicate`; `None` when the index cannot tell. NULLs are in none but IS NULL.
pub(super) fn answer(
    payload: &[u8],
    values: ValueType,
    predicate: &IndexPredicate,
    rows: u32,
) -> Result<Option<RoaringBitmap>> {
    let index = RangeBitmap::parse(payload, values, rows)?;
    Ok(Some(match predicate {
        IndexPredicate::In(keys) => index.ranked(index.ranks_of(keys)?)?,
        IndexPredicate::NotIn(keys) => {
            let ranks = index.ranks_of(keys)?;
            let slices = index.slices()?;
            let mut found = slices.existing.clone();
            for rank in ranks {
                found -= slices.range(u64::from(rank.start)..=u64::from(rank.end - 1));
            }
            found
        }
        IndexPredicate::Range(low, high) => {
            let start = index.first_rank(|key| above(low, key))?;
            let end = index.first_rank(|key| !below(high, key))?;
            let nans = match values {
                ValueType::Float32 | ValueType::Float64 => index.first_rank(|key| key.is_nan())?..index.distinct,
                _ => index.distinct..index.distinct,
            };
            index.ranked([start..end, nans].into_iter().filter(|ranks| ranks.start < ranks.end))?
        }
        IndexPredicate::IsNull => all_rows(rows) - index.slices()?.existing,
        IndexPredicate::IsNotNull => index.slices()?.existing,
    }))
}

struct RangeBitmap<'a> {
    values: ValueType,
    rows: u32,
    /// The number of distinct values; their ranks are 0 to this.
    distinct: u32,
    dictionary: Dictionary<'a>,
    /// The part behind the dictionary.
    ranks: &'a [u8],
}

#[derive(Clone, Default)]
struct Dictionary<'a> {
    /// Where each chunk's head starts in `heads`, 4 bytes a chunk.
    starts: &'a [u8],
    heads: &'a [u8],
    keys: &'a [u8],
}

/// Values `rank..` of the dictionary.
struct Chunk<'a> {
    first: Key<'a>,
    rank: u32,
    /// Values after the first.
    more: usize,
    /// Where each of them starts in `keys`, 4 bytes a value; empty where all have the same width.
    offsets: &'a [u8],
    keys: &'a [u8],
}

impl<'a> RangeBitmap<'a> {
    fn parse(payload: &'a [u8], values: ValueType, rows: u32) -> Result<Self> {
        let mut input = Input::new(payload);
        let length = input.length()?;
        let mut header = Input::new(input.take(length)?);
        header.version("range bitmap", 1)?;
        check_rows(header.i32()?, rows)?;
        let distinct = u32::try_from(header.length()?).unwrap_or_default();
        if distinct > rows {
            return Err(Error::corrupt(format!("a range bitmap of {rows} rows has {distinct} distinct values")));
        }
        if distinct > 0 {
            values.read(&mut header)?;
            values.read(&mut header)?;
        }
        let length = header.length()?;
        let dictionary = Dictionary::parse(input.take(length)?)?;
        Ok(Self { values, rows, distinct, dictionary, ranks: input.rest() })
    }

    /// The ranks of those of `keys` that occur.
    fn ranks_of(&self, keys: &[Key<'_>]) -> Result<Vec<Range<u32>>> {
        let mut ranks = Vec::with_capacity(keys.len());
        for key in keys {
            let start = self.first_rank(|value| value >= key)?;
            let end = self.first_rank(|value| value > key)?;
            if start < end {
                ranks.push(start..end);
            }
        }
        Ok(ranks)
    }

    /// The rank of the first value that `reached` holds for, which it does for all values after it. The number of values
    /// when there is none.
    fn first_rank(&self, reached: impl Fn(&Key<'_>) -> bool) -> Result<u32> {
        let chunks = self.dictionary.chunks();
        // The last chunk whose first value is not reached holds the border.
        let mut after = 0;
        let mut end = chunks;
        while after < end {
            let middle = after + (end - after) / 2;
            if reached(&self.dictionary.chunk(middle, self.values)?.first) {
                end = middle;
            } else {
                after = middle + 1;
            }
        }
        let Some(chunk) = after.checked_sub(1) else { return Ok(0) };
        let chunk = self.dictionary.chunk(chunk, self.values)?;
        let mut after = 0;
        let mut end = chunk.more;
        while after < end {
            let middle = after + (end - after) / 2;
            if reached(&chunk.key(middle, self.values)?) {
                end = middle;
            } else {
                after = middle + 1;
            }
        }
        let rank = u64::from(chunk.rank) + 1 + after as u64;
        match u32::try_from(rank) {
            Ok(rank) if rank <= self.distinct => Ok(rank),
            _ => Err(Error::corrupt(format!("a range bitmap of {} values has a value {rank}", self.distinct))),
        }
    }

    /// The rows whose value's rank is in one of `ranks`.
    fn ranked(&self, ranks: impl IntoIterator<Item = Range<u32>>) -> Result<RoaringBitmap> {
        let mut found = RoaringBitmap::new();
        let mut ranks = ranks.into_iter().peekable();
        if ranks.peek().is_none() {
            return Ok(found);
        }
        let slices = self.slices()?;
        for ranks in ranks {
            // The ranks of all values are all rows with a value, whatever the slices could hold beyond.
            if ranks == (0..self.distinct) {
                return Ok(slices.existing);
            }
            found |= slices.range(u64::from(ranks.start)..=u64::from(ranks.end.saturating_sub(1)));
        }
        Ok(found)
    }

    fn slices(&self) -> Result<BitSlices> {
        let mut input = Input::new(self.ranks);
        let length = input.length()?;
        let mut header = Input::new(input.take(length)?);
        header.version("ranks of a range bitmap", 1)?;
        let count = header.u8()?;
        if count > 64 {
            return Err(Error::corrupt(format!("the ranks of a range bitmap have {count} slices")));
        }
        let existing_length = header.length()?;
        let indexes_length = header.length()?;
        let mut indexes = Input::new(header.take(indexes_length)?);
        let existing = Input::new(input.take(existing_length)?).rows(self.rows)?;
        let area = input.rest();
        let mut slices = Vec::with_capacity(usize::from(count));
        for _ in 0..count {
            let (start, length) = (indexes.length()?, indexes.length()?);
            let mut slice = Input::at(area, start);
            slices.push(Input::new(slice.take(length)?).rows(self.rows)?);
        }
        Ok(BitSlices { existing, slices })
    }
}

impl<'a> Dictionary<'a> {
    fn parse(bytes: &'a [u8]) -> Result<Self> {
        if bytes.is_empty() {
            return Ok(Self::default());
        }
        let mut input = Input::new(bytes);
        let length = input.length()?;
        let mut header = Input::new(input.take(length)?);
        header.version("dictionary of a range bitmap", 1)?;
        let (chunks, starts, heads) = (header.length()?, header.length()?, header.length()?);
        if chunks.checked_mul(4) != Some(starts) {
            return Err(Error::corrupt(format!("{chunks} chunks of a range bitmap have {starts} bytes of offsets")));
        }
        Ok(Self { starts: input.take(starts)?, heads: input.take(heads)?, keys: input.rest() })
    }

    fn chunks(&self) -> usize {
        self.starts.len() / 4
    }

    fn chunk(&self, chunk: usize, values: ValueType) -> Result<Chunk<'a>> {
        let start = Input::at(self.starts, chunk * 4).length()?;
        let mut head = Input::at(self.heads, start);
        head.version("chunk of a range bitmap", 1)?;
        let first = values.read(&mut head)?;
        let rank = u32::try_from(head.length()?).unwrap_or_default();
        let mut area = Input::at(self.keys, head.length()?);
        let more = head.length()?;
        let (offsets, keys) = match values.width() {
            Some(width) => {
                let (length, said) = (head.length()?, head.length()?);
                if said != width || more.checked_mul(width) != Some(length) {
                    return Err(Error::corrupt(format!(
                        "{more} values of {said} bytes take {length} bytes of a range bitmap, not of {width} each"
                    )));
                }
                (&[][..], area.take(length)?)
            }
            None => {
                let (offsets, length) = (head.length()?, head.length()?);
                if more.checked_mul(4) != Some(offsets) {
                    return Err(Error::corrupt(format!(
                        "{more} values of a range bitmap have {offsets} bytes of offsets"
                    )));
                }
                (area.take(offsets)?, area.take(length)?)
            }
        };
        Ok(Chunk { first, rank, more, offsets, keys })
    }
}

impl<'a> Chunk<'a> {
    /// Value `at` after the first.
    fn key(&self, at: usize, values: ValueType) -> Result<Key<'a>> {
        match values.width() {
            Some(width) => values.read(&mut Input::at(self.keys, at * width)),
            None => {
                let start = Input::at(self.offsets, at * 4).length()?;
                let mut input = Input::at(self.keys, start);
                let length = input.length()?;
                Ok(Key::Bytes(Cow::Borrowed(input.take(length)?)))
            }
        }
    }
}

/// The range bitmap of these values, whose dictionary has chunks of so many bytes of keys after the first.
pub(super) fn write(values: ValueType, ranked: &Ranked, chunk_size: usize) -> Result<Vec<u8>> {
    let dictionary = write_dictionary(values, &ranked.keys, chunk_size)?;
    let mut header = vec![1];
    put_length(ranked.rows(), &mut header)?;
    put_length(ranked.keys.len(), &mut header)?;
    for key in ranked.keys.first().into_iter().chain(ranked.keys.last()) {
        values.write(key, &mut header)?;
    }
    put_length(dictionary.len(), &mut header)?;
    let mut out = Vec::new();
    put_part(header, &mut out)?;
    out.extend(dictionary);
    put_ranks(ranked, &mut out)?;
    Ok(out)
}

/// Appends bytes behind their length.
fn put_part(part: Vec<u8>, out: &mut Vec<u8>) -> Result<()> {
    put_length(part.len(), out)?;
    out.extend(part);
    Ok(())
}

fn write_dictionary(values: ValueType, keys: &[Key<'_>], chunk_size: usize) -> Result<Vec<u8>> {
    let (mut starts, mut heads, mut area, mut chunks) = (Vec::new(), Vec::new(), Vec::new(), 0);
    let mut rank = 0;
    while let Some(first) = keys.get(rank) {
        put_length(heads.len(), &mut starts)?;
        heads.push(1);
        values.write(first, &mut heads)?;
        put_length(rank, &mut heads)?;
        put_length(area.len(), &mut heads)?;
        rank += 1;
        let (mut offsets, mut more, mut count) = (Vec::new(), Vec::new(), 0);
        while let Some(key) = keys.get(rank) {
            let before = more.len();
            values.write(key, &mut more)?;
            if more.len() > chunk_size {
                more.truncate(before);
                break;
            }
            if values.width().is_none() {
                put_length(before, &mut offsets)?;
            }
            count += 1;
            rank += 1;
        }
        put_length(count, &mut heads)?;
        match values.width() {
            Some(width) => {
                put_length(more.len(), &mut heads)?;
                put_length(width, &mut heads)?;
            }
            None => {
                put_length(offsets.len(), &mut heads)?;
                put_length(more.len(), &mut heads)?;
            }
        }
        area.extend(offsets);
        area.extend(more);
        chunks += 1;
    }
    let mut header = vec![1];
    for length in [chunks, starts.len(), heads.len()] {
        put_length(length, &mut header)?;
    }
    let mut out = Vec::new();
    put_part(header, &mut out)?;
    out.extend(starts);
    out.extend(heads);
    out.extend(area);
    Ok(out)
}

fn put_ranks(ranked: &Ranked, out: &mut Vec<u8>) -> Result<()> {
    let mut ranks = BitSlices::default();
    for (row, rank) in (0..).zip(ranked.ranks()) {
        if let Some(rank) = rank {
            ranks.push(row, rank as u64)?;
        }
    }
    // One slice for a single value. Without values Java takes the logarithm of -1, which has 64 bits.
    let count = if ranked.keys.is_empty() { 64 } else { ranks.slices.len().max(1) };
    ranks.slices.resize_with(count, RoaringBitmap::new);
    let (mut existing, mut indexes, mut area) = (Vec::new(), Vec::new(), Vec::new());
    put_rows(&ranks.existing, &mut existing)?;
    for slice in &ranks.slices {
        let start = area.len();
        put_rows(slice, &mut area)?;
        indexes.extend([length_of(start)?, length_of(area.len() - start)?].map(i32::to_be_bytes).concat());
    }
    let mut header = vec![1, count as u8];
    put_length(existing.len(), &mut header)?;
    put_part(indexes, &mut header)?;
    put_part(header, out)?;
    out.extend(existing);
    out.extend(area);
    Ok(())
}
