//! Avro's binary encoding, written: what [`super::Cursor`] reads.

/// An `int` or `long`.
#[inline]
pub(crate) fn put_long(value: i64, out: &mut Vec<u8>) {
    let mut value = ((value << 1) ^ (value >> 63)) as u64;
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// An `int`.
#[inline]
pub(crate) fn put_int(value: i32, out: &mut Vec<u8>) {
    put_long(value.into(), out);
}

/// A `bytes` or `string`.
#[inline]
pub(crate) fn put_bytes(value: &[u8], out: &mut Vec<u8>) {
    put_long(value.len() as i64, out);
    out.extend_from_slice(value);
}

/// A union of null, which comes first, and the type that `put` writes.
#[inline]
pub(crate) fn put_optional<T>(value: Option<T>, out: &mut Vec<u8>, put: impl FnOnce(T, &mut Vec<u8>)) {
    match value {
        Some(value) => {
            put_long(1, out);
            put(value, out);
        }
        None => put_long(0, out),
    }
}

/// An array in one block, as Java writes it.
#[inline]
pub(crate) fn put_array<T>(
    items: impl ExactSizeIterator<Item = T>,
    out: &mut Vec<u8>,
    mut put: impl FnMut(T, &mut Vec<u8>),
) {
    if items.len() > 0 {
        put_long(items.len() as i64, out);
        items.for_each(|item| put(item, out));
    }
    put_long(0, out);
}

/// An array of `string`.
pub(crate) fn put_texts(texts: &[String], out: &mut Vec<u8>) {
    put_array(texts.iter(), out, |text, out| put_bytes(text.as_bytes(), out));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Cursor;
    use super::*;

    fn read_back(value: i64) -> bool {
        let mut out = Vec::new();
        put_long(value, &mut out);
        let mut cursor = Cursor::new(&out);
        cursor.long().unwrap() == value && cursor.is_empty()
    }

    #[test]
    fn put_long_when_at_the_edges_then_read_back() {
        for value in [0, 1, -1, 63, 64, -64, -65, i64::MAX, i64::MIN, i64::MAX - 1, i64::MIN + 1] {
            assert!(read_back(value), "{value}");
        }
    }

    proptest! {
        #[test]
        fn put_long_when_any_value_then_read_back(value: i64, shift in 0u32..64) {
            prop_assert!(read_back(value >> shift));
        }
    }
}
