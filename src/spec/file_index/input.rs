//! Big-endian bytes as Java's `DataOutput` writes them, read from a slice: every length is checked against what is left.

use roaring::RoaringBitmap;

use crate::error::{Error, Result};

/// A place in the bytes of an index.
#[derive(Clone, Debug)]
pub(super) struct Input<'a> {
    data: &'a [u8],
    at: usize,
}

impl<'a> Input<'a> {
    /// The start of `data`.
    pub(super) fn new(data: &'a [u8]) -> Self {
        Self { data, at: 0 }
    }

    /// Byte `at` of `data`; its end when `at` lies behind it.
    pub(super) fn at(data: &'a [u8], at: usize) -> Self {
        Self { data, at: at.min(data.len()) }
    }

    /// Bytes read so far.
    pub(super) fn position(&self) -> usize {
        self.at
    }

    /// The bytes that are left.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.data.get(self.at..).unwrap_or_default()
    }

    /// The next `length` bytes.
    pub(super) fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let taken = self.rest().get(..length).ok_or_else(|| {
            Error::corrupt(format!(
                "{length} bytes should follow byte {} of an index, {} do",
                self.at,
                self.rest().len()
            ))
        })?;
        self.at += length;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let taken = self.take(N)?;
        let mut array = [0; N];
        array.copy_from_slice(taken);
        Ok(array)
    }

    pub(super) fn u8(&mut self) -> Result<u8> {
        Ok(u8::from_be_bytes(self.array()?))
    }

    pub(super) fn i8(&mut self) -> Result<i8> {
        Ok(i8::from_be_bytes(self.array()?))
    }

    pub(super) fn i16(&mut self) -> Result<i16> {
        Ok(i16::from_be_bytes(self.array()?))
    }

    pub(super) fn i32(&mut self) -> Result<i32> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    pub(super) fn i64(&mut self) -> Result<i64> {
        Ok(i64::from_be_bytes(self.array()?))
    }

    /// A BOOLEAN of one byte.
    pub(super) fn flag(&mut self) -> Result<bool> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(Error::corrupt(format!("a flag of an index is {other}, neither 0 nor 1"))),
        }
    }

    /// An `i32` that counts something.
    pub(super) fn length(&mut self) -> Result<usize> {
        let length = self.i32()?;
        usize::try_from(length).map_err(|_| Error::corrupt(format!("a length in an index is {length}")))
    }

    /// A byte that must be `version`.
    pub(super) fn version(&mut self, what: &'static str, version: u8) -> Result<()> {
        let found = self.u8()?;
        if found == version {
            return Ok(());
        }
        Err(Error::unsupported(format!("the {what} has version {found}, only {version} is known")))
    }

    /// A text of `writeUTF`: its length in 16 bits, then "modified UTF-8", where NUL takes two bytes and a character
    /// beyond U+FFFF is a pair of surrogates of three bytes each.
    pub(super) fn java_text(&mut self) -> Result<String> {
        let length = usize::from(u16::from_be_bytes(self.array()?));
        let bytes = self.take(length)?;
        let wrong = || Error::corrupt(format!("a name in an index is no text: {bytes:02x?}"));
        let mut units = Vec::with_capacity(length);
        let mut rest = bytes;
        while let [first, tail @ ..] = rest {
            let follow = |byte: &u8| if byte & 0xc0 == 0x80 { Ok(u16::from(byte & 0x3f)) } else { Err(wrong()) };
            let first = u16::from(*first);
            let (unit, tail) = match (first, tail) {
                (0x01..=0x7f, tail) => (first, tail),
                (0xc0..=0xdf, [second, tail @ ..]) => ((first & 0x1f) << 6 | follow(second)?, tail),
                (0xe0..=0xef, [second, third, tail @ ..]) => {
                    ((first & 0x0f) << 12 | follow(second)? << 6 | follow(third)?, tail)
                }
                _ => return Err(wrong()),
            };
            units.push(unit);
            rest = tail;
        }
        String::from_utf16(&units).map_err(|_| wrong())
    }

    /// A portable Roaring bitmap of rows below `rows`.
    pub(super) fn rows(&mut self, rows: u32) -> Result<RoaringBitmap> {
        let mut rest = self.rest();
        check_containers(rest, rows)?;
        let before = rest.len();
        let bitmap = RoaringBitmap::deserialize_from(&mut rest)
            .map_err(|source| Error::corrupt("a bitmap of an index can't be read").with_source(source))?;
        self.at += before - rest.len();
        match bitmap.max() {
            Some(max) if max >= rows => {
                Err(Error::corrupt(format!("a bitmap of an index holds row {max} of a file of {rows} rows")))
            }
            _ => Ok(bitmap),
        }
    }
}

/// Refuses bitmaps with more containers than `rows` rows can fill, before anything is allocated for them.
fn check_containers(bytes: &[u8], rows: u32) -> Result<()> {
    const WITH_RUNS: u16 = 12347;
    let mut words = bytes.chunks_exact(4).map(|word| [word[0], word[1], word[2], word[3]]);
    let containers = match words.next() {
        Some([low, high, ..]) if u16::from_le_bytes([low, high]) == WITH_RUNS => {
            let cookie = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            (cookie >> 16) + 1
        }
        Some(_) => words.next().map_or(0, u32::from_le_bytes),
        None => 0,
    };
    if containers > rows.div_ceil(1 << 16) {
        return Err(Error::corrupt(format!("a bitmap of an index has {containers} containers for {rows} rows")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn java_text_when_modified_utf8_then_text() {
        let bytes = [&[0, 12, b'm', b'[', 0xc0, 0x80, 0xed, 0xa0, 0xbd, 0xed, 0xb8, 0x80][..], &[0xc3, 0xa9]].concat();
        assert_eq!(Input::new(&bytes).java_text().unwrap(), "m[\0\u{1f600}é");
        for wrong in [&[0, 2, 0xc3][..], &[0, 1, 0x80], &[0, 2, 0xc3, b'a'], &[0, 3, 0xed, 0xa0, 0xbd], &[0, 1, 0]] {
            assert!(Input::new(wrong).java_text().is_err(), "{wrong:02x?}");
        }
    }

    #[test]
    fn rows_when_beyond_the_file_then_corrupt() {
        let mut bytes = Vec::new();
        RoaringBitmap::from_iter([1, 70_000]).serialize_into(&mut bytes).unwrap();
        bytes.push(7);
        let mut input = Input::new(&bytes);
        assert_eq!(input.rows(70_001).unwrap().len(), 2);
        assert_eq!(input.rest(), [7]);
        assert!(Input::new(&bytes).rows(70_000).is_err());
        assert!(Input::new(&bytes).rows(100).unwrap_err().to_string().contains("containers"));
        assert!(Input::new(&bytes[..9]).rows(70_001).is_err());
    }
}
