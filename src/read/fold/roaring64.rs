//! 64-bit Roaring bitmaps in the serialisation of Java's `Roaring64Bitmap` (`rbm64`, `spec/data.md 5.3`).
//!
//! It is not the portable 64-bit format. All numbers are little-endian but where it says otherwise:
//!
//! ```text
//! 0                                                  an empty bitmap, or
//! 1  keys:i64  node..  containers
//! node        type:u8 (0..3 branch of 4, 16, 48, 256; 4 leaf)  children:i16  prefix length:u8  prefix  body; then its children
//!   body 4    the key bytes of the children, filled up to 4 with 0, last one first
//!   body 16   two words of 8 key bytes, last one first in each
//!   body 48   for each of 256 key bytes the number of the child or 0xff, last one first in each word of 8
//!   body 256  a bit for each key byte
//!   leaf      upper 48 bits of the values, big-endian:6 bytes  place of the container:i64
//! containers  1:i32  0xfe  slots:i32  slot..  used:i64  0:i32  last slot used:i32
//!   slot      0, or 1  type:u8 (0 run, 1 bitmap, 2 array)  cardinality:i32  values as in the portable format
//! ```
//!
//! Nodes lie in key order, so that a reader may skip the branches; a container holds the lower 16 bits.

use std::collections::BTreeMap;

use roaring::RoaringBitmap;

use crate::error::{Error, Result};

const LEAF: u8 = 4;
const KEY_BYTES: usize = 6;
/// Most values of an array container.
const ARRAY_LIMIT: u64 = 4096;
const BITMAP_BYTES: usize = 8192;

/// A set of unsigned 64-bit numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct Roaring64 {
    /// Upper 48 bits to slot.
    keys: BTreeMap<u64, usize>,
    /// Lower 16 bits. As many slots as Java's array has, so that the bytes are the same.
    slots: Vec<Option<RoaringBitmap>>,
    /// The slots that were given out.
    used: usize,
}

impl Roaring64 {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader(bytes);
        match reader.byte()? {
            0 => return Ok(Self::default()),
            1 => {}
            other => return Err(corrupt(&format!("the first byte is {other}"))),
        }
        let count = reader.size(8)?;
        let mut places = Vec::new();
        while places.len() < count {
            let kind = reader.byte()?;
            reader.take(2)?;
            let prefix = reader.byte()?;
            reader.take(prefix.into())?;
            match kind {
                0 => reader.take(4)?,
                1 => reader.take(16)?,
                2 => reader.take(256)?,
                3 => reader.take(32)?,
                LEAF => {
                    let key = reader.take(KEY_BYTES)?.iter().fold(0, |key, &byte| key << 8 | u64::from(byte));
                    places.push((key, reader.size(8)?));
                    continue;
                }
                other => return Err(corrupt(&format!("there is no node of type {other}"))),
            };
        }
        if reader.size(4)? != 1 {
            return Err(corrupt("it has not one array of containers"));
        }
        reader.byte()?;
        let slots = reader.size(4)?;
        let mut bitmap = Self::default();
        for _ in 0..slots {
            // A slot takes a byte at least, so the loop ends with the bytes.
            bitmap.slots.push(match reader.byte()? {
                0 => None,
                1 => Some(reader.container()?),
                other => return Err(corrupt(&format!("a slot is marked {other}"))),
            });
        }
        reader.take(12)?;
        bitmap.used = reader.size(4)?.saturating_add(1).min(bitmap.slots.len());
        let mut last = None;
        for (key, place) in places {
            if last.is_some_and(|last| last >= key) || !matches!(bitmap.slots.get(place), Some(Some(_))) {
                return Err(corrupt("a key is out of order or has no container"));
            }
            last = Some(key);
            bitmap.keys.insert(key, place);
        }
        Ok(bitmap)
    }

    /// Adds all numbers of `other`.
    pub(super) fn union(&mut self, other: &Self) {
        for (&key, &place) in &other.keys {
            let Some(Some(values)) = other.slots.get(place) else { continue };
            if let Some(mine) = self.keys.get(&key).and_then(|&place| self.slots.get_mut(place)) {
                let mine = mine.get_or_insert_with(RoaringBitmap::new);
                *mine |= values;
                mine.optimize();
            } else {
                let slot = self.add_slot();
                self.slots[slot] = Some(values.clone());
                self.keys.insert(key, slot);
            }
        }
    }

    /// The next free slot; the array grows by half, as in Java.
    fn add_slot(&mut self) -> usize {
        let slot = self.used;
        if slot >= self.slots.len() {
            self.slots.resize((self.slots.len() + self.slots.len() / 2).max(slot + 1), None);
        }
        self.used += 1;
        slot
    }

    pub(super) fn write(&mut self) -> Result<Vec<u8>> {
        if self.keys.is_empty() {
            return Ok(vec![0]);
        }
        let mut out = vec![1];
        out.extend_from_slice(&(self.keys.len() as u64).to_le_bytes());
        let leaves: Vec<([u8; KEY_BYTES], usize)> = self
            .keys
            .iter()
            .map(|(key, &place)| {
                let [_, _, key @ ..] = key.to_be_bytes();
                (key, place)
            })
            .collect();
        write_node(&mut out, &leaves, 0);
        out.extend_from_slice(&1_i32.to_le_bytes());
        out.push(0xfe);
        out.extend_from_slice(&(self.slots.len() as u32).to_le_bytes());
        for slot in &mut self.slots {
            match slot {
                None => out.push(0),
                Some(values) => {
                    values.optimize();
                    write_container(&mut out, values)?;
                }
            }
        }
        out.extend_from_slice(&(self.keys.len() as u64).to_le_bytes());
        out.extend_from_slice(&0_i32.to_le_bytes());
        out.extend_from_slice(&(self.used as u32).saturating_sub(1).to_le_bytes());
        Ok(out)
    }
}

/// Writes the tree of `leaves` (at least one, sorted), whose first `depth` bytes are equal and known.
fn write_node(out: &mut Vec<u8>, leaves: &[([u8; KEY_BYTES], usize)], depth: usize) {
    if let [(key, place)] = leaves {
        out.extend_from_slice(&[LEAF, 0, 0, 0]);
        out.extend_from_slice(key);
        out.extend_from_slice(&(*place as u64).to_le_bytes());
        return;
    }
    let (Some((first, _)), Some((last, _))) = (leaves.first(), leaves.last()) else { return };
    // Sorted: what the first and the last share, all share. They differ, so the branch byte is within the key.
    let shared = first[depth..].iter().zip(&last[depth..]).take_while(|(a, b)| a == b).count();
    let branch = depth + shared;
    let children: Vec<_> = leaves.chunk_by(|(a, _), (b, _)| a[branch] == b[branch]).collect();
    let keys: Vec<u8> = children.iter().map(|child| child[0].0[branch]).collect();
    let (kind, body) = branch_body(&keys);
    out.push(kind);
    out.extend_from_slice(&(keys.len() as u16).to_le_bytes());
    out.push(shared as u8);
    out.extend_from_slice(&first[depth..branch]);
    out.extend_from_slice(&body);
    for child in children {
        write_node(out, child, branch + 1);
    }
}

fn branch_body(keys: &[u8]) -> (u8, Vec<u8>) {
    let words = |bytes: &mut [u8], word: usize| bytes.chunks_exact_mut(word).for_each(<[u8]>::reverse);
    match keys.len() {
        0..=4 => {
            let mut body = vec![0; 4];
            body[..keys.len()].copy_from_slice(keys);
            words(&mut body, 4);
            (0, body)
        }
        5..=16 => {
            let mut body = vec![0; 16];
            body[..keys.len()].copy_from_slice(keys);
            words(&mut body, 8);
            (1, body)
        }
        17..=48 => {
            let mut body = vec![0xff; 256];
            for (number, &key) in keys.iter().enumerate() {
                body[usize::from(key)] = number as u8;
            }
            words(&mut body, 8);
            (2, body)
        }
        _ => {
            let mut body = vec![0; 32];
            for &key in keys {
                body[usize::from(key / 8)] |= 1 << (key % 8);
            }
            (3, body)
        }
    }
}

/// A container is what a portable 32-bit bitmap of one container holds behind its header.
fn write_container(out: &mut Vec<u8>, values: &RoaringBitmap) -> Result<()> {
    let mut portable = Vec::with_capacity(values.serialized_size());
    values
        .serialize_into(&mut portable)
        .map_err(|error| Error::internal("a bitmap could not be written").with_source(error))?;
    let cardinality = values.len();
    let (kind, header) = match portable.first() {
        Some(0x3b) => (0, 9),
        _ if cardinality > ARRAY_LIMIT => (1, 16),
        _ => (2, 16),
    };
    let body = portable.get(header..).ok_or_else(|| Error::internal("a bitmap is shorter than its header"))?;
    out.extend_from_slice(&[1, kind]);
    out.extend_from_slice(&(cardinality as u32).to_le_bytes());
    out.extend_from_slice(body);
    Ok(())
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or_else(|| corrupt("it ends too early"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8> {
        Ok(self.take(1)?.iter().copied().sum())
    }

    /// A little-endian number of `width` bytes that counts something.
    fn size(&mut self, width: usize) -> Result<usize> {
        let value = self.take(width)?.iter().rev().fold(0_u64, |value, &byte| value << 8 | u64::from(byte));
        u32::try_from(value).map(|value| value as usize).map_err(|_| corrupt("a count is out of range"))
    }

    fn container(&mut self) -> Result<RoaringBitmap> {
        let kind = self.byte()?;
        let cardinality = self.size(4)?;
        if !(1..=1 << 16).contains(&cardinality) {
            return Err(corrupt(&format!("a container has {cardinality} values")));
        }
        let last = (cardinality as u32 - 1).to_le_bytes();
        let mut portable = Vec::new();
        match kind {
            0 => {
                portable.extend_from_slice(&[0x3b, 0x30, 0, 0, 1, 0, 0, last[0], last[1]]);
                let runs = self.take(2)?;
                portable.extend_from_slice(runs);
                let runs = runs.iter().rev().fold(0, |runs, &byte| runs << 8 | usize::from(byte));
                portable.extend_from_slice(self.take(4 * runs)?);
            }
            1 | 2 => {
                portable.extend_from_slice(&[0x3a, 0x30, 0, 0, 1, 0, 0, 0, 0, 0, last[0], last[1], 16, 0, 0, 0]);
                let array = cardinality as u64 <= ARRAY_LIMIT;
                // Java may keep a small bitmap or a big array; the portable format has neither.
                match (kind, array) {
                    (1, false) => portable.extend_from_slice(self.take(BITMAP_BYTES)?),
                    (2, true) => portable.extend_from_slice(self.take(2 * cardinality)?),
                    (1, true) => return Ok(RoaringBitmap::from_lsb0_bytes(0, self.take(BITMAP_BYTES)?)),
                    _ => {
                        let values = self.take(2 * cardinality)?;
                        return Ok(values.chunks_exact(2).map(|v| u32::from(v[1]) << 8 | u32::from(v[0])).collect());
                    }
                }
            }
            other => return Err(corrupt(&format!("there is no container of type {other}"))),
        }
        RoaringBitmap::deserialize_from(portable.as_slice())
            .map_err(|error| corrupt("a container can't be read").with_source(error))
    }
}

fn corrupt(what: &str) -> Error {
    Error::corrupt(format!("a 64-bit bitmap can't be read: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    }

    fn set(values: &[u64]) -> Roaring64 {
        let mut set = Roaring64::default();
        for &value in values {
            let slot = match set.keys.get(&(value >> 16)) {
                Some(&slot) => slot,
                None => {
                    let slot = set.add_slot();
                    set.keys.insert(value >> 16, slot);
                    slot
                }
            };
            set.slots[slot].get_or_insert_default().insert(value as u32 & 0xffff);
        }
        set
    }

    fn values(set: &Roaring64) -> Vec<u64> {
        let of = |(&key, &slot): (&u64, &usize)| {
            set.slots[slot].iter().flatten().map(|low| key << 16 | u64::from(low)).collect::<Vec<_>>()
        };
        set.keys.iter().flat_map(of).collect()
    }

    /// Written by Java: {1, 5, 9}; {5, 6, 0x12a05f200}; {7, 1 << 40}.
    const A: &str = "01010000000000000004000000000000000000000000000000000001000000fe0100000001020300000001000500090001000000000000000000000000000000";
    const B: &str = "010200000000000000000200030000000000010004000000000000000000000000000000000004000000000000012a05010000000000000001000000fe020000000102020000000500060001020100000000f202000000000000000000000001000000";
    const C: &str = "0102000000000000000002000200000000010004000000000000000000010000000000000004000000000001000000000000000000000001000000fe020000000102010000000000010201000000070002000000000000000000000001000000";

    #[test]
    fn parse_when_bytes_of_java_then_values() {
        assert_eq!(values(&Roaring64::parse(&bytes(A)).unwrap()), [1, 5, 9]);
        assert_eq!(values(&Roaring64::parse(&bytes(B)).unwrap()), [5, 6, 5_000_000_000]);
        assert_eq!(values(&Roaring64::parse(&bytes(C)).unwrap()), [7, 1 << 40]);
    }

    #[test]
    fn write_when_bytes_of_java_then_same_bytes() {
        for hex in [A, B, C, "00"] {
            assert_eq!(Roaring64::parse(&bytes(hex)).unwrap().write().unwrap(), bytes(hex));
        }
    }

    #[test]
    fn union_when_java_made_the_same_then_same_bytes() {
        let mut union = Roaring64::parse(&bytes(A)).unwrap();
        union.union(&Roaring64::parse(&bytes(B)).unwrap());
        let expected = "010200000000000000000200030000000000010004000000000000000000000000000000000004000000000000012a05010000000000000001000000fe02000000010204000000010005000600090001020100000000f202000000000000000000000001000000";
        assert_eq!(union.write().unwrap(), bytes(expected));
        let mut union = Roaring64::parse(&bytes(B)).unwrap();
        union.union(&Roaring64::parse(&bytes(C)).unwrap());
        let expected = "01030000000000000000020002000000000100000200000000010004000000000000000000000000000000000004000000000000012a05010000000000000004000000000001000000020000000000000001000000fe0300000001020300000005000600070001020100000000f2010201000000000003000000000000000000000002000000";
        assert_eq!(union.write().unwrap(), bytes(expected));
    }

    #[test]
    fn union_when_dense_then_run_container_as_in_java() {
        let mut union = set(&(0..10).collect::<Vec<_>>());
        union.union(&set(&(10..20).collect::<Vec<_>>()));
        let expected = "01010000000000000004000000000000000000000000000000000001000000fe0100000001001400000001000000130001000000000000000000000000000000";
        assert_eq!(union.write().unwrap(), bytes(expected));
    }

    #[test]
    fn write_when_nodes_of_every_width_then_read_again() {
        for children in [1_u64, 2, 4, 5, 16, 17, 48, 49, 256] {
            let numbers: Vec<u64> = (0..children)
                .flat_map(|child| [child << 40 | 0x7fff, child << 40 | 0x1234_0000, child << 40 | 0x12_3456_0001])
                .chain((0..5000).map(|low| 0xffff_ffff_0000_0000 | (low * 3)))
                .chain([u64::MAX])
                .collect();
            let mut sorted = numbers.clone();
            sorted.sort_unstable();
            sorted.dedup();
            let written = set(&numbers).write().unwrap();
            assert_eq!(values(&Roaring64::parse(&written).unwrap()), sorted, "{children} children");
        }
    }

    #[test]
    fn parse_when_bytes_are_damaged_then_no_panic() {
        let good = bytes(B);
        for at in 0..good.len() {
            assert!(Roaring64::parse(&good[..at]).is_err(), "cut at {at}");
            for change in [1, 0x80, 0xff] {
                let mut bad = good.clone();
                bad[at] ^= change;
                if let Ok(mut read) = Roaring64::parse(&bad) {
                    read.union(&Roaring64::parse(&good).unwrap());
                    read.write().unwrap();
                }
            }
        }
    }
}
