//! Index files of dynamic buckets (`spec/metadata.md 8.3`): the hashes of the trimmed primary keys of a bucket, each a
//! 32-bit number, big-endian, one after another.
//!
//! May import: `error`.

use crate::error::{Error, Result};

/// The bytes of an index file.
pub fn encode_hash_index(hashes: impl IntoIterator<Item = i32>) -> Vec<u8> {
    hashes.into_iter().flat_map(i32::to_be_bytes).collect()
}

/// The hashes of an index file, in its order.
///
/// # Errors
/// Corrupt when the last hash is cut.
pub fn decode_hash_index(bytes: &[u8]) -> Result<Vec<i32>> {
    let (hashes, rest) = bytes.as_chunks();
    if rest.is_empty() {
        Ok(hashes.iter().map(|hash| i32::from_be_bytes(*hash)).collect())
    } else {
        Err(Error::corrupt(format!("a hash index of {} bytes, which is no multiple of 4", bytes.len())))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int32Array};
    use proptest::prelude::*;

    use super::*;
    use crate::spec::bucket::row_hashes;
    use crate::spec::types::DataType;

    #[test]
    fn decode_when_java_wrote_it_then_the_hashes_of_the_keys() {
        // The index file of the bucket with the keys 9 and 8.
        let file = [0x54, 0x76, 0x55, 0x3f, 0x39, 0x85, 0xaf, 0x88];
        let keys: ArrayRef = Arc::new(Int32Array::from(vec![9, 8]));
        let hashes = row_hashes(&[keys], &[DataType::parse("INT NOT NULL").unwrap()]).unwrap();
        assert_eq!(decode_hash_index(&file).unwrap(), hashes);
        assert_eq!(encode_hash_index(hashes), file);
    }

    #[test]
    fn decode_when_cut_then_error() {
        assert!(decode_hash_index(&[]).unwrap().is_empty());
        assert!(decode_hash_index(&[0, 0, 0, 1, 2]).is_err());
    }

    proptest! {
        #[test]
        fn encode_when_any_hashes_then_decoded_again(hashes: Vec<i32>) {
            prop_assert_eq!(decode_hash_index(&encode_hash_index(hashes.iter().copied())).unwrap(), hashes);
        }
    }
}
