//! The bloom filter (`spec/data.md 10.2`): the number of hash functions, then the bits.

use twox_hash::XxHash64;

use super::IndexAnswer;
use super::input::Input;
use super::predicate::IndexPredicate;
use super::value::Key;
use crate::error::{Error, Result};

/// Writers take no more than a few hash functions; a filter with more than these, which would take long to ask, is not one
/// of theirs.
const MAX_FUNCTIONS: u32 = 1024;

/// What a bloom filter says: it can rule out values, nothing else.
pub(super) fn answer(payload: &[u8], predicate: &IndexPredicate) -> Result<IndexAnswer> {
    let IndexPredicate::In(keys) = predicate else { return Ok(IndexAnswer::Remain) };
    let filter = BloomFilter::parse(payload)?;
    Ok(if keys.iter().any(|key| filter.may_hold(hash(key))) { IndexAnswer::Remain } else { IndexAnswer::Skip })
}

struct BloomFilter<'a> {
    functions: u32,
    bits: &'a [u8],
}

impl<'a> BloomFilter<'a> {
    fn parse(payload: &'a [u8]) -> Result<Self> {
        let mut input = Input::new(payload);
        let functions = input.i32()?;
        let bits = input.rest();
        match u32::try_from(functions) {
            Ok(functions @ 1..=MAX_FUNCTIONS) if !bits.is_empty() && bits.len() <= (i32::MAX as usize) / 8 => {
                Ok(Self { functions, bits })
            }
            _ => {
                Err(Error::corrupt(format!("a bloom filter has {functions} hash functions over {} bytes", bits.len())))
            }
        }
    }

    fn may_hold(&self, hash: u64) -> bool {
        places(hash, self.functions, self.bits.len()).all(|bit| self.bits[bit / 8] & (1 << (bit % 8)) != 0)
    }
}

/// The bits of a hash in a filter of `bytes` bytes, one for each of so many hash functions.
fn places(hash: u64, functions: u32, bytes: usize) -> impl Iterator<Item = usize> {
    let (low, high) = (hash as i32, (hash >> 32) as i32);
    let count = bytes as u32 * 8;
    let mut combined = low;
    (0..functions).map(move |_| {
        combined = combined.wrapping_add(high);
        place(combined, count)
    })
}

/// The bit of `count` bits that a combined hash stands for.
fn place(combined: i32, count: u32) -> usize {
    let positive = if combined < 0 { !combined } else { combined };
    (positive as u32 % count) as usize
}

/// A filter while values are added to it.
pub(super) struct BloomWriter {
    functions: u32,
    bits: Vec<u8>,
}

impl BloomWriter {
    /// A filter for so many values and such a share of false positives.
    ///
    /// # Errors
    /// Invalid when it would take over 2^31 bits.
    pub(super) fn new(items: i64, fpp: f64) -> Result<Self> {
        let (items, ln2) = (items as f64, std::f64::consts::LN_2);
        let bits = (-items * fpp.ln() / (ln2 * ln2)) as i32;
        // Up to the next byte, a whole one where it is even.
        let Some(bits) = bits.checked_add(8 - bits % 8).filter(|bits| *bits > 0) else {
            return Err(Error::invalid(format!(
                "a bloom filter for {items} values with the share {fpp} of false positives has over 2^31 bits; \
                 lower items or raise fpp"
            )));
        };
        let functions = (f64::from(bits) / items * ln2).round().clamp(1.0, f64::from(MAX_FUNCTIONS)) as u32;
        Ok(Self { functions, bits: vec![0; bits as usize / 8] })
    }

    pub(super) fn add(&mut self, key: &Key<'_>) {
        for bit in places(hash(key), self.functions, self.bits.len()) {
            self.bits[bit / 8] |= 1 << (bit % 8);
        }
    }

    pub(super) fn memory(&self) -> usize {
        self.bits.capacity()
    }

    pub(super) fn finish(self) -> Vec<u8> {
        let mut payload = self.functions.to_be_bytes().to_vec();
        payload.extend(self.bits);
        payload
    }
}

/// The 64-bit hash of a value: Wang's of its number, XXH64 of its bytes.
pub(super) fn hash(key: &Key<'_>) -> u64 {
    match key {
        Key::Bytes(bytes) => XxHash64::oneshot(0, bytes),
        number => wang(number.bits()),
    }
}

/// Wang's hash, with right shifts that keep the sign.
fn wang(value: i64) -> u64 {
    let mut key = (!value).wrapping_add(value << 21);
    key ^= key >> 24;
    key = key.wrapping_add(key << 3).wrapping_add(key << 8);
    key ^= key >> 14;
    key = key.wrapping_add(key << 2).wrapping_add(key << 4);
    key ^= key >> 28;
    key.wrapping_add(key << 31) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_when_golden_values_then_golden_hashes() {
        assert_eq!(hash(&Key::Integer(-123_456_789)), 0xe60f_1a14_2420_2ebd);
        assert_eq!(hash(&Key::Bytes("Paimon-派蒙".as_bytes().into())), 0xb09c_177e_1aaf_64c1);
        assert_eq!(hash(&Key::Bytes(b"".as_slice().into())), 0xef46_db37_51d8_e999);
        assert_eq!(hash(&Key::Float64(f64::NAN)), hash(&Key::Float64(-f64::NAN)));
        assert_ne!(hash(&Key::Float32(0.0)), hash(&Key::Float32(-0.0)));
    }

    #[test]
    fn answer_when_golden_filter_then_only_its_values_may_be_there() {
        // BIGINT, items = 10, fpp = 0.1: -1, 0, 1, 42.
        let payload = [0, 0, 0, 3, 0x81, 0x82, 0x81, 0x00, 0x50, 0x01];
        let ask = |value| answer(&payload, &IndexPredicate::In(vec![Key::Integer(value)])).unwrap();
        for value in [-1, 0, 1, 42] {
            assert_eq!(ask(value), IndexAnswer::Remain, "{value}");
        }
        assert!((100..200).filter(|value| ask(*value) == IndexAnswer::Skip).count() > 80);
        let both = IndexPredicate::In(vec![Key::Integer(100), Key::Integer(42)]);
        assert_eq!(answer(&payload, &both).unwrap(), IndexAnswer::Remain);
        assert_eq!(answer(&payload, &IndexPredicate::IsNull).unwrap(), IndexAnswer::Remain);
    }

    #[test]
    fn answer_when_filter_is_broken_then_error() {
        let any = IndexPredicate::In(vec![Key::Integer(1)]);
        for payload in [&[][..], &[0, 0, 0], &[0, 0, 0, 3], &[0, 0, 0, 0, 1], &[0xff, 0, 0, 0, 1], &[0x7f, 0, 0, 0, 1]]
        {
            assert!(answer(payload, &any).is_err(), "{payload:?}");
        }
    }
}
