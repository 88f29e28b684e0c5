//! What [`super::input::Input`] reads, appended to bytes.

use roaring::RoaringBitmap;

use crate::error::{Error, Result};
use crate::spec::deletion_vector::write_bitmap;

/// A length, count or place as the 32-bit number that it is in an index.
pub(super) fn length_of(length: usize) -> Result<i32> {
    i32::try_from(length).map_err(|_| Error::unsupported(format!("a file index of over 2 GB ({length} bytes or rows)")))
}

/// A length, count or place.
pub(super) fn put_length(length: usize, out: &mut Vec<u8>) -> Result<()> {
    out.extend(length_of(length)?.to_be_bytes());
    Ok(())
}

/// A portable Roaring bitmap, with runs where they are shorter.
pub(super) fn put_rows(rows: &RoaringBitmap, out: &mut Vec<u8>) -> Result<()> {
    write_bitmap(rows, out)
}

/// A text of `writeUTF`: its length in 16 bits, then "modified UTF-8", see [`super::input::Input::java_text`].
pub(super) fn put_java_text(text: &str, out: &mut Vec<u8>) -> Result<()> {
    let mut bytes = Vec::with_capacity(text.len());
    for unit in text.encode_utf16() {
        let follow = |unit: u16| 0x80 | (unit & 0x3f) as u8;
        match unit {
            0x01..=0x7f => bytes.push(unit as u8),
            0 | 0x80..=0x7ff => bytes.extend([0xc0 | (unit >> 6) as u8, follow(unit)]),
            _ => bytes.extend([0xe0 | (unit >> 12) as u8, follow(unit >> 6), follow(unit)]),
        }
    }
    let length = u16::try_from(bytes.len())
        .map_err(|_| Error::invalid(format!("a name of {} bytes is too long for a file index", bytes.len())))?;
    out.extend(length.to_be_bytes());
    out.extend(bytes);
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::input::Input;
    use super::*;

    proptest! {
        #[test]
        fn put_java_text_when_any_text_then_read_again(text in ".*") {
            let mut out = Vec::new();
            put_java_text(&text, &mut out).unwrap();
            let mut input = Input::new(&out);
            prop_assert_eq!(input.java_text().unwrap(), text);
            prop_assert!(input.rest().is_empty());
        }
    }

    #[test]
    fn put_java_text_when_zero_or_beyond_16_bits_then_as_java() {
        let mut out = Vec::new();
        put_java_text("m[\0\u{1f600}é", &mut out).unwrap();
        assert_eq!(
            out,
            [&[0, 12, b'm', b'[', 0xc0, 0x80, 0xed, 0xa0, 0xbd, 0xed, 0xb8, 0x80][..], &[0xc3, 0xa9]].concat()
        );
        assert!(put_java_text(&"x".repeat(1 << 16), &mut out).is_err());
    }
}
