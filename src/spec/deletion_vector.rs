//! Deletion vectors: the positions of a data file's deleted rows, and the index files that hold them
//! (`spec/data.md 9.1`, `spec/metadata.md 8.2`).
//!
//! ```text
//! index file: [version = 1] record*
//! record:     [n: i32 BE] [magic] [bitmap] [CRC32 of magic and bitmap: i32 BE]      n = length of magic and bitmap
//! ```
//!
//! The two versions differ in the magic, the bitmap (32 or 64 bits) and in the length that the index manifest tells:
//! `n` for the first, `n + 8` for the second. Both may occur in one file.
//!
//! May import: `error`, `spec::index_manifest`.

use std::ops::Range;

use roaring::{RoaringBitmap, RoaringTreemap};

use super::index_manifest::DvRange;
use crate::error::{Error, Result};

/// First byte of an index file.
const FILE_VERSION: u8 = 1;
/// Magic of the 32-bit version, big-endian in the record.
const MAGIC_32: u32 = 1_581_511_376;
/// Magic of the 64-bit version, little-endian in the record.
const MAGIC_64: u32 = 1_681_511_377;
/// Bytes around magic and bitmap: the length before them, the checksum behind them.
pub const RECORD_FRAME: u64 = 8;
/// Greatest position of the 32-bit version.
const MAX_POSITION_32: u64 = i32::MAX as u64;

/// Positions of deleted rows of one data file, counted from 0 in the order of the file.
#[derive(Clone, Debug, PartialEq)]
pub enum DeletionVector {
    /// Option `deletion-vectors.bitmap64` = false.
    Bitmap32(RoaringBitmap),
    /// Option `deletion-vectors.bitmap64` = true.
    Bitmap64(RoaringTreemap),
}

impl DeletionVector {
    /// A vector without positions, of 64 bits or 32.
    pub fn new(bitmap64: bool) -> Self {
        if bitmap64 { Self::Bitmap64(RoaringTreemap::new()) } else { Self::Bitmap32(RoaringBitmap::new()) }
    }

    /// Reads a record. `bytes` start at the offset that the index manifest tells and hold at least the record: `length`
    /// + [`RECORD_FRAME`] bytes, or what is left of the file, are always enough. `length` is the manifest's.
    ///
    /// Errors: `Corrupt` when length, magic, checksum or bitmap are wrong.
    pub fn parse(bytes: &[u8], length: u64) -> Result<Self> {
        let (n, rest) = split_u32(bytes)?;
        let payload = rest.get(..n as usize).ok_or_else(too_short)?;
        let (crc, _) = split_u32(&rest[payload.len()..])?;
        let (magic, bitmap) = payload.split_first_chunk::<4>().ok_or_else(too_short)?;
        let (expected, bitmap64) = if u32::from_be_bytes(*magic) == MAGIC_32 {
            (u64::from(n), false)
        } else if u32::from_le_bytes(*magic) == MAGIC_64 {
            (u64::from(n) + RECORD_FRAME, true)
        } else {
            return Err(Error::corrupt(format!("the deletion vector has the unknown magic {magic:02x?}")));
        };
        if length != expected {
            return Err(Error::corrupt(format!(
                "the deletion vector is {expected} bytes long, its index manifest says {length}"
            )));
        }
        let actual = crc32fast::hash(payload);
        if actual != crc {
            return Err(Error::corrupt(format!(
                "the checksum of the deletion vector is {actual:08x}, the file says {crc:08x}"
            )));
        }
        Ok(if bitmap64 { Self::Bitmap64(read_treemap(bitmap)?) } else { Self::Bitmap32(read_bitmap32(bitmap)?) })
    }

    /// The record as Java writes it, in the version of the bitmap.
    pub fn to_record(&self) -> Result<Vec<u8>> {
        let mut record = vec![0; 4];
        match self {
            Self::Bitmap32(bitmap) => {
                record.extend(MAGIC_32.to_be_bytes());
                write_bitmap(bitmap, &mut record)?;
            }
            Self::Bitmap64(treemap) => {
                record.extend(MAGIC_64.to_le_bytes());
                // Java writes every key up to the greatest, also those without positions.
                let count = treemap.max().map_or(0, |greatest| (greatest >> 32) + 1);
                record.extend(count.to_le_bytes());
                let empty = RoaringBitmap::new();
                let mut next = 0;
                for (key, bitmap) in treemap.bitmaps().filter(|(_, bitmap)| !bitmap.is_empty()) {
                    for absent in next..key {
                        record.extend(absent.to_le_bytes());
                        write_bitmap(&empty, &mut record)?;
                    }
                    record.extend(key.to_le_bytes());
                    write_bitmap(bitmap, &mut record)?;
                    next = key.saturating_add(1);
                }
            }
        }
        let n = i32::try_from(record.len() - 4).map_err(|_| Error::invalid("a deletion vector passes 2 GB"))?;
        record[..4].copy_from_slice(&n.to_be_bytes());
        let crc = crc32fast::hash(&record[4..]);
        record.extend(crc.to_be_bytes());
        Ok(record)
    }

    /// Whether row `position` is deleted.
    pub fn contains(&self, position: u64) -> bool {
        match self {
            Self::Bitmap32(bitmap) => u32::try_from(position).is_ok_and(|position| bitmap.contains(position)),
            Self::Bitmap64(treemap) => treemap.contains(position),
        }
    }

    /// Marks row `position`; whether it was live. Errors: `Invalid` when the position passes what the version holds.
    pub fn insert(&mut self, position: u64) -> Result<bool> {
        match self {
            Self::Bitmap32(bitmap) if position <= MAX_POSITION_32 => Ok(bitmap.insert(position as u32)),
            Self::Bitmap32(_) => Err(Error::invalid(format!(
                "row {position} is beyond the 32-bit deletion vectors of this table; set deletion-vectors.bitmap64"
            ))),
            Self::Bitmap64(treemap) => Ok(treemap.insert(position)),
        }
    }

    /// Marks all rows that `other` marks. Errors as [`Self::insert`].
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        match (&mut *self, other) {
            (Self::Bitmap32(mine), Self::Bitmap32(other)) => *mine |= other,
            (Self::Bitmap64(mine), Self::Bitmap64(other)) => *mine |= other,
            _ => {
                for position in other.iter() {
                    self.insert(position)?;
                }
            }
        }
        Ok(())
    }

    /// The number of deleted rows.
    pub fn cardinality(&self) -> u64 {
        match self {
            Self::Bitmap32(bitmap) => bitmap.len(),
            Self::Bitmap64(treemap) => treemap.len(),
        }
    }

    /// Whether no row is deleted.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Bitmap32(bitmap) => bitmap.is_empty(),
            Self::Bitmap64(treemap) => treemap.is_empty(),
        }
    }

    /// The deleted positions, ascending.
    pub fn iter(&self) -> Box<dyn Iterator<Item = u64> + '_> {
        match self {
            Self::Bitmap32(bitmap) => Box::new(bitmap.iter().map(u64::from)),
            Self::Bitmap64(treemap) => Box::new(treemap.iter()),
        }
    }

    /// The rows that are not deleted, of a file of `rows` rows, as ascending ranges without gaps of length 0 between
    /// them.
    pub fn live_ranges(&self, rows: u64) -> Vec<Range<u64>> {
        let mut live = Live { ranges: Vec::new(), next: 0, rows };
        match self {
            Self::Bitmap32(bitmap) => live.cut(0, bitmap),
            Self::Bitmap64(treemap) => {
                for (key, bitmap) in treemap.bitmaps() {
                    live.cut(u64::from(key) << 32, bitmap);
                }
            }
        }
        live.keep_to(rows);
        live.ranges
    }
}

/// Ranges of live rows while they are found.
struct Live {
    ranges: Vec<Range<u64>>,
    /// The first row that is not decided.
    next: u64,
    rows: u64,
}

impl Live {
    fn keep_to(&mut self, end: u64) {
        let end = end.min(self.rows);
        if self.next < end {
            self.ranges.push(self.next..end);
        }
    }

    fn cut(&mut self, base: u64, bitmap: &RoaringBitmap) {
        let mut runs = bitmap.iter();
        while self.next < self.rows
            && let Some(run) = runs.next_range()
        {
            self.keep_to(base + u64::from(*run.start()));
            self.next = base + u64::from(*run.end()) + 1;
        }
    }
}

#[cold]
fn too_short() -> Error {
    Error::corrupt("the deletion vector is longer than its file")
}

fn split_u32(bytes: &[u8]) -> Result<(u32, &[u8])> {
    let (number, rest) = bytes.split_first_chunk::<4>().ok_or_else(too_short)?;
    Ok((u32::from_be_bytes(*number), rest))
}

/// Reads a bitmap off the front of `bytes`.
fn read_bitmap(bytes: &mut &[u8]) -> Result<RoaringBitmap> {
    RoaringBitmap::deserialize_from(bytes)
        .map_err(|source| Error::corrupt("the bitmap of a deletion vector can't be read").with_source(source))
}

fn read_bitmap32(mut bytes: &[u8]) -> Result<RoaringBitmap> {
    let bitmap = read_bitmap(&mut bytes)?;
    if bytes.is_empty() { Ok(bitmap) } else { Err(left_over(bytes)) }
}

fn read_treemap(bytes: &[u8]) -> Result<RoaringTreemap> {
    let (count, mut rest) = bytes.split_first_chunk::<8>().ok_or_else(too_short)?;
    let count = u64::from_le_bytes(*count);
    let mut bitmaps = Vec::new();
    for _ in 0..count {
        let (key, bitmap) = rest.split_first_chunk::<4>().ok_or_else(too_short)?;
        let key = u32::from_le_bytes(*key);
        if bitmaps.last().is_some_and(|(last, _)| key <= *last) {
            return Err(Error::corrupt("the keys of a deletion vector do not ascend"));
        }
        rest = bitmap;
        bitmaps.push((key, read_bitmap(&mut rest)?));
    }
    if !rest.is_empty() {
        return Err(left_over(rest));
    }
    Ok(RoaringTreemap::from_bitmaps(bitmaps.into_iter().filter(|(_, bitmap)| !bitmap.is_empty())))
}

fn left_over(bytes: &[u8]) -> Error {
    Error::corrupt(format!("{} bytes follow the bitmap of a deletion vector", bytes.len()))
}

/// Writes the portable form, with runs where they are shorter, as Java does.
pub(super) fn write_bitmap(bitmap: &RoaringBitmap, out: &mut Vec<u8>) -> Result<()> {
    let mut bitmap = bitmap.clone();
    bitmap.optimize();
    out.reserve(bitmap.serialized_size());
    bitmap.serialize_into(out).map_err(|source| Error::internal("a bitmap can't be written").with_source(source))
}

/// The bytes of an index file with the vectors of the named data files, and where they lie in it.
///
/// Without vectors the file holds its version only: such a file replaces one whose vectors all vanished (`spec/data.md
/// 9.2`). Errors: `Invalid` when the file would pass 2 GB.
pub fn write_index_file<'a>(
    vectors: impl IntoIterator<Item = (&'a str, &'a DeletionVector)>,
) -> Result<(Vec<u8>, Vec<DvRange>)> {
    let (mut file, mut ranges) = (vec![FILE_VERSION], Vec::new());
    let number = |size: usize| i32::try_from(size).map_err(|_| Error::invalid("an index file passes 2 GB"));
    for (data_file, vector) in vectors {
        let record = vector.to_record()?;
        let length = match vector {
            DeletionVector::Bitmap32(_) => record.len() - RECORD_FRAME as usize,
            DeletionVector::Bitmap64(_) => record.len(),
        };
        ranges.push(DvRange {
            data_file: data_file.to_owned(),
            offset: number(file.len())?,
            length: number(length)?,
            cardinality: Some(
                i64::try_from(vector.cardinality())
                    .map_err(|_| Error::invalid("a deletion vector has too many rows"))?,
            ),
        });
        file.extend(record);
    }
    number(file.len())?;
    Ok((file, ranges))
}

/// Checks the first byte of an index file. Errors: `Corrupt` when the version is not known.
pub fn check_index_file_version(file: &[u8]) -> Result<()> {
    match file.first() {
        Some(&FILE_VERSION) => Ok(()),
        Some(version) => {
            Err(Error::corrupt(format!("the deletion vector index file has the unknown version {version}")))
        }
        None => Err(Error::corrupt("the deletion vector index file is empty")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::house::Random;

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
        digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
    }

    fn vector(bitmap64: bool, positions: impl IntoIterator<Item = u64>) -> DeletionVector {
        let mut vector = DeletionVector::new(bitmap64);
        for position in positions {
            vector.insert(position).unwrap();
        }
        vector
    }

    #[test]
    fn record_when_golden_of_java_then_same_bytes_and_back() {
        for (record, bitmap64, positions) in [
            ("0000000c5e43f2d03a300000000000005de5c7e9", false, vec![]),
            ("0000000cd1d339640000000000000000bf18480c", true, vec![]),
            ("000000185e43f2d03a30000001000000000001001000000001000200c3366892", false, vec![1, 2]),
            ("000000185e43f2d03a30000001000000000001001000000002000300c898f63d", false, vec![2, 3]),
            ("00000022d1d339640100000000000000000000003a3000000100000000000000100000000100eebd85f4", true, vec![1]),
            ("0000001a5e43f2d03a300000010000000000020010000000000001000200dd861c02", false, (0..3).collect()),
            ("000000135e43f2d03b3000000100000300010000000300c8610ecb", false, (0..4).collect()),
            ("0000001fd1d339640100000000000000000000003b30000001000003000100000003003d2a1e35", true, (0..4).collect()),
            (
                "0000001d5e43f2d03b300100030000ffff01009f8601000000ffff010000009f868691cdc1",
                false,
                (0..100_000).collect(),
            ),
            (
                "0000006b5e43f2d03b3006007f0000ffff0100ffff0200ffff0300ffff0400ffff0500ffff06007f1a3d000000430000004900\
                 00004f000000550000005b0000006100000001000000ffff01000000ffff01000000ffff01000000ffff01000000ffff010000\
                 00ffff010000007f1a688645b1",
                false,
                (0..400_000).collect(),
            ),
            (
                "00000052d1d339640400000000000000000000003a3000000100000000000000100000000500010000003a3000000000000002\
                 0000003a30000000000000030000003a30000001000000000001001000000007000800ca3e9d77",
                true,
                vec![5, (3 << 32) + 7, (3 << 32) + 8],
            ),
            (
                "000000345e43f2d03a3000000400000000000000010000000200000035770000280000002a0000002c0000002e000000010070\
                 11e022009475b441e8",
                false,
                vec![1, 70_000, 140_000, 2_000_000_000],
            ),
        ] {
            let bytes = hex(record);
            let length = if bitmap64 { bytes.len() as u64 } else { bytes.len() as u64 - 8 };
            let parsed = DeletionVector::parse(&bytes, length).unwrap();
            assert_eq!(parsed, vector(bitmap64, positions.iter().copied()), "{record}");
            assert_eq!(parsed.iter().collect::<Vec<_>>(), positions);
            assert_eq!(parsed.cardinality(), positions.len() as u64);
            assert_eq!(vector(bitmap64, positions).to_record().unwrap(), bytes, "{record}");
        }
    }

    #[test]
    fn parse_when_more_bytes_follow_then_they_are_ignored() {
        let mut bytes = hex("000000185e43f2d03a30000001000000000001001000000001000200c3366892");
        bytes.extend([1, 2, 3]);
        assert_eq!(DeletionVector::parse(&bytes, 24).unwrap(), vector(false, [1, 2]));
    }

    #[test]
    fn parse_when_a_byte_is_wrong_then_error() {
        let bytes = hex("000000185e43f2d03a30000001000000000001001000000001000200c3366892");
        assert!(DeletionVector::parse(&bytes, 32).unwrap_err().to_string().contains("index manifest says 32"));
        for at in 0..bytes.len() {
            let mut wrong = bytes.clone();
            wrong[at] ^= 1;
            assert!(DeletionVector::parse(&wrong, 24).is_err(), "byte {at}");
        }
        for len in 0..bytes.len() {
            assert!(DeletionVector::parse(&bytes[..len], 24).is_err(), "length {len}");
        }
    }

    #[test]
    fn parse_when_random_bytes_with_right_frame_then_no_panic() {
        let mut source = Random(7);
        let mut random = move || source.next();
        for round in 0..20_000 {
            let bitmap64 = round % 2 == 0;
            let mut payload = if bitmap64 { MAGIC_64.to_le_bytes().to_vec() } else { MAGIC_32.to_be_bytes().to_vec() };
            if bitmap64 {
                payload.extend((random() % 4).to_le_bytes());
                payload.extend([0; 4]);
            }
            payload.extend(
                if random() % 2 == 0 { 12_346_u32 } else { 12_347 | (random() as u32 % 8) << 16 }.to_le_bytes(),
            );
            payload.extend(
                (0..random() % 60).map(|_| if random() % 3 == 0 { random() as u8 } else { random() as u8 % 3 }),
            );
            let mut bytes = (payload.len() as u32).to_be_bytes().to_vec();
            bytes.extend(&payload);
            bytes.extend(crc32fast::hash(&payload).to_be_bytes());
            let length = payload.len() as u64 + if bitmap64 { 8 } else { 0 };
            if let Ok(vector) = DeletionVector::parse(&bytes, length) {
                let deleted = vector.iter().filter(|position| *position < 1_000_000).count() as u64;
                let live: u64 = vector.live_ranges(1_000_000).iter().map(|range| range.end - range.start).sum();
                assert_eq!(live + deleted, 1_000_000);
            }
        }
    }

    #[test]
    fn live_ranges_when_edges_and_runs_then_gaps_between_them() {
        let ranges = |positions: &[u64], rows| -> Vec<(u64, u64)> {
            let live = vector(true, positions.iter().copied()).live_ranges(rows);
            live.into_iter().map(|range| (range.start, range.end)).collect()
        };
        assert_eq!(ranges(&[], 3), [(0, 3)]);
        assert_eq!(ranges(&[], 0), []);
        assert_eq!(ranges(&[0, 1, 4], 6), [(2, 4), (5, 6)]);
        assert_eq!(ranges(&[5], 6), [(0, 5)]);
        assert_eq!(ranges(&[7, 9], 6), [(0, 6)]);
        assert_eq!(ranges(&[u64::from(u32::MAX), 1 << 32], 1 << 33), [(0, (1 << 32) - 1), ((1 << 32) + 1, 1 << 33)]);
        assert_eq!(vector(false, [0, 1, 4]).live_ranges(6), [2..4, 5..6]);
    }

    #[test]
    fn insert_when_32_bits_are_passed_then_error() {
        let mut narrow = DeletionVector::new(false);
        assert!(narrow.insert(i32::MAX as u64).unwrap());
        assert!(!narrow.insert(i32::MAX as u64).unwrap());
        assert!(narrow.insert(1 << 31).is_err());
        assert!(!narrow.contains(1 << 33));
        assert!(narrow.merge(&vector(true, [1 << 40])).is_err());
        narrow.merge(&vector(true, [8])).unwrap();
        assert!(narrow.contains(8));
    }

    #[test]
    fn write_index_file_when_both_versions_then_offsets_and_lengths_of_the_manifest() {
        let (narrow, wide) = (vector(false, [1, 2]), vector(true, [1]));
        let (file, ranges) = write_index_file([("a", &narrow), ("b", &wide)]).unwrap();
        check_index_file_version(&file).unwrap();
        let range = |data_file: &str, offset, length, cardinality| DvRange {
            data_file: data_file.to_owned(),
            offset,
            length,
            cardinality: Some(cardinality),
        };
        assert_eq!(ranges, [range("a", 1, 24, 2), range("b", 33, 42, 1)]);
        for (range, vector) in ranges.iter().zip([narrow, wide]) {
            assert_eq!(DeletionVector::parse(&file[range.offset as usize..], range.length as u64).unwrap(), vector);
        }
        assert_eq!(write_index_file([]).unwrap(), (vec![1], vec![]));
    }

    #[test]
    fn write_index_file_when_golden_of_the_specification_then_same_bytes() {
        let golden = "01 00000018 5e43f2d0 3a300000 01000000 00000100 10000000 01000200 c3366892";
        assert_eq!(write_index_file([("f", &vector(false, [1, 2]))]).unwrap().0, hex(golden));
    }

    proptest! {
        #[test]
        fn record_when_any_positions_then_round_trip(
            positions in prop::collection::btree_set(prop_oneof![0_u64..300, 60_000..70_000_u64, 0..=MAX_POSITION_32], 0..200),
            far in prop::collection::btree_set(0_u64..1 << 36, 0..20),
        ) {
            for bitmap64 in [false, true] {
                let mut vector = vector(bitmap64, positions.iter().copied());
                if bitmap64 {
                    vector.merge(&self::vector(true, far.iter().copied())).unwrap();
                }
                let record = vector.to_record().unwrap();
                let length = record.len() as u64 - if bitmap64 { 0 } else { 8 };
                prop_assert_eq!(DeletionVector::parse(&record, length).unwrap(), vector);
            }
        }
    }
}
