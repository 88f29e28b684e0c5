//! Avro's binary encoding, read from a slice: nothing is copied, every length is checked against what is left.

use crate::error::{Error, Result};

/// A place in Avro-encoded bytes.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<'a> {
    data: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// The start of `data`.
    pub(crate) fn new(data: &'a [u8]) -> Self {
        Self { data, at: 0 }
    }

    /// Byte `at` of `data`; its end when `at` lies behind it.
    pub(crate) fn at(data: &'a [u8], at: usize) -> Self {
        Self { data, at: at.min(data.len()) }
    }

    /// Bytes read so far.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    /// The bytes that are left.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.data.get(self.at..).unwrap_or_default()
    }

    /// Whether nothing is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.at >= self.data.len()
    }

    /// The bytes from `start`, a former position, to here.
    pub(crate) fn since(&self, start: usize) -> &'a [u8] {
        self.data.get(start..self.at).unwrap_or_default()
    }

    /// Whether `encoded` comes next; it is passed over then. Avro values end where their own bytes say, so a value
    /// that starts with the whole encoding of another one is that other one.
    #[inline]
    pub(crate) fn take_if_next(&mut self, encoded: &[u8]) -> bool {
        let next = self.rest().starts_with(encoded);
        if next {
            self.at += encoded.len();
        }
        next
    }

    /// The next `len` bytes.
    #[inline]
    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        match self.rest().get(..len) {
            Some(bytes) => {
                self.at += len;
                Ok(bytes)
            }
            None => Err(self.too_long(len as i64)),
        }
    }

    /// An `int` or `long`: a zigzag varint of at most ten bytes.
    #[inline]
    pub(crate) fn long(&mut self) -> Result<i64> {
        match self.data.get(self.at) {
            Some(&byte) if byte < 0x80 => {
                self.at += 1;
                Ok(i64::from(byte >> 1) ^ -i64::from(byte & 1))
            }
            _ => self.long_of_many_bytes(),
        }
    }

    fn long_of_many_bytes(&mut self) -> Result<i64> {
        let mut value = 0u64;
        for (index, &byte) in self.rest().iter().take(10).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte < 0x80 {
                if index == 9 && byte > 1 {
                    break;
                }
                self.at += index + 1;
                return Ok((value >> 1) as i64 ^ -((value & 1) as i64));
            }
        }
        Err(Error::corrupt(format!("no number at byte {} of {}", self.at, self.data.len())))
    }

    /// An `int`.
    #[inline]
    pub(crate) fn int(&mut self) -> Result<i32> {
        let value = self.long()?;
        i32::try_from(value).map_err(|_| Error::corrupt(format!("{value} is no 32-bit number")))
    }

    /// A `bytes` or `string`.
    #[inline]
    pub(crate) fn bytes(&mut self) -> Result<&'a [u8]> {
        let len = self.long()?;
        match usize::try_from(len) {
            Ok(len) => self.take(len),
            Err(_) => Err(self.too_long(len)),
        }
    }

    /// The head of the next block of an array or map: how many items it has, 0 at the end of the array or map. An item
    /// has at least one byte: [`super::Schema`] refuses others.
    #[inline]
    pub(crate) fn items(&mut self) -> Result<usize> {
        let mut count = self.long()?;
        if count < 0 {
            // The size in bytes follows, for readers who skip; the items tell as much.
            self.long()?;
            count = count.checked_neg().ok_or_else(|| self.too_long(count))?;
        }
        match usize::try_from(count) {
            Ok(count) if count <= self.data.len() - self.at => Ok(count),
            _ => Err(self.too_long(count)),
        }
    }

    #[cold]
    fn too_long(&self, len: i64) -> Error {
        let left = self.data.len() - self.at;
        Error::corrupt(format!("a length of {len} at byte {} where {left} bytes are left", self.at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_when_encoded_by_the_book_then_value() {
        for (bytes, value) in [
            (&[0u8][..], 0i64),
            (&[1], -1),
            (&[2], 1),
            (&[0x7f], -64),
            (&[0x80, 1], 64),
            (&[0xff; 10], 0), // replaced below: too long
            (&[0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1], i64::MAX),
            (&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1], i64::MIN),
        ] {
            let read = Cursor::new(bytes).long();
            if bytes == [0xff; 10] { assert!(read.is_err()) } else { assert_eq!(read.unwrap(), value) }
        }
    }

    #[test]
    fn reading_when_lengths_pass_the_end_then_error() {
        assert!(Cursor::new(&[]).long().is_err());
        assert!(Cursor::new(&[0x80]).long().is_err());
        assert!(Cursor::new(&[4, b'a']).bytes().is_err());
        assert!(Cursor::new(&[1]).bytes().is_err());
        assert!(Cursor::new(&[6, 0]).items().is_err());
        assert!(Cursor::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0]).items().is_err());
        assert!(Cursor::new(&[0x80, 0x80, 0x80, 0x80, 0x20]).int().is_err());
    }
}
