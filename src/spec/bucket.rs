//! Which bucket a row lies in (`spec/data.md 3.1-3.3`, `spec/metadata.md 1.2`).
//!
//! May import: `error`, `spec::{types, binary_row}`.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{
    DataType as ArrowType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, Time32MillisecondType,
};

use crate::error::{Error, Result};
pub use crate::options::BucketFunction;
use crate::spec::binary_row::RowEncoder;
use crate::spec::types::{DataType, TypeKind};

impl BucketFunction {
    /// The bucket, of `buckets`, of each row of the bucket key columns, which may be of any arrow type that
    /// [`RowEncoder`] takes for their type.
    ///
    /// Errors: `Invalid` when there is no bucket or the columns do not fit the types or the function.
    pub fn buckets(self, columns: &[ArrayRef], types: &[DataType], buckets: i32) -> Result<Vec<i32>> {
        if buckets <= 0 {
            return Err(Error::invalid(format!("a row can't be put into one of {buckets} buckets")));
        }
        match self {
            Self::Default => {
                let mut hashes = row_hashes(columns, types)?;
                hashes.iter_mut().for_each(|hash| *hash = (*hash % buckets).abs());
                Ok(hashes)
            }
            Self::Mod => modulo(columns, types, buckets),
            Self::Hive => {
                let mut hashes = hive_hashes(columns, types)?;
                hashes.iter_mut().for_each(|hash| *hash = (*hash & i32::MAX) % buckets);
                Ok(hashes)
            }
        }
    }
}

/// The bucket, of `buckets`, that the default function gives to the image of a row. `buckets` must be positive.
pub fn bucket_of_row(image: &[u8], buckets: i32) -> i32 {
    (row_hash(image) % buckets.max(1)).abs()
}

/// The hash of the image of a row: what the default bucket function and the index of dynamic buckets use.
pub fn row_hash(image: &[u8]) -> i32 {
    murmur_words(image, 42)
}

/// [`row_hash`] of each row of the columns. Errors: `Invalid` when a column is not of its type.
pub fn row_hashes(columns: &[ArrayRef], types: &[DataType]) -> Result<Vec<i32>> {
    let encoder = RowEncoder::new(columns, types)?;
    let mut image = Vec::new();
    (0..encoder.len())
        .map(|row| {
            image.clear();
            encoder.encode(row, &mut image)?;
            Ok(row_hash(&image))
        })
        .collect()
}

/// Murmur3, 32 bits, over words of 4 bytes; the length of a row is a multiple of 8, so nothing is left over.
fn murmur_words(bytes: &[u8], seed: u32) -> i32 {
    let (words, _) = bytes.as_chunks::<4>();
    let mut hash = seed;
    for word in words {
        let word = u32::from_le_bytes(*word).wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
        hash = (hash ^ word).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64);
    }
    hash ^= bytes.len() as u32;
    hash = (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae35);
    (hash ^ hash >> 16) as i32
}

fn modulo(columns: &[ArrayRef], types: &[DataType], buckets: i32) -> Result<Vec<i32>> {
    let ([column], [data_type]) = (columns, types) else {
        return Err(Error::invalid("bucket-function.type mod takes a bucket key of one INT or BIGINT column"));
    };
    // A NULL has slot 0, which Java takes for the value.
    match (&data_type.kind, column.data_type()) {
        (TypeKind::Int, ArrowType::Int32) => {
            let values = column.as_primitive::<Int32Type>();
            Ok(values.iter().map(|value| value.unwrap_or(0).rem_euclid(buckets)).collect())
        }
        (TypeKind::BigInt, ArrowType::Int64) => {
            let values = column.as_primitive::<Int64Type>();
            Ok(values.iter().map(|value| value.unwrap_or(0).rem_euclid(buckets.into()) as i32).collect())
        }
        (_, arrow) => Err(Error::invalid(format!(
            "bucket-function.type mod takes an INT or BIGINT, not {data_type} (given as {arrow})"
        ))),
    }
}

fn hive_hashes(columns: &[ArrayRef], types: &[DataType]) -> Result<Vec<i32>> {
    if columns.len() != types.len() {
        return Err(Error::internal(format!("{} columns for {} types", columns.len(), types.len())));
    }
    let len = columns.first().map_or(0, |column| column.len());
    let mut hashes = vec![0_i32; len];
    for (column, data_type) in columns.iter().zip(types) {
        if column.len() != len {
            return Err(Error::internal("the columns of rows have different lengths"));
        }
        hive_column(column, data_type, |row, hash| {
            hashes[row] = hashes[row].wrapping_mul(31).wrapping_add(hash);
        })?;
    }
    Ok(hashes)
}

fn fold(value: i64) -> i32 {
    (value ^ (value as u64 >> 32) as i64) as i32
}

fn hive_bytes(bytes: &[u8]) -> i32 {
    bytes.iter().fold(0, |hash: i32, byte| hash.wrapping_mul(31).wrapping_add(i32::from(*byte as i8)))
}

/// Java's `BigDecimal.hashCode` without trailing zeros.
fn hive_decimal(mut unscaled: i128, mut scale: u8) -> i32 {
    if unscaled == 0 {
        return 0;
    }
    while scale > 0 && unscaled % 10 == 0 {
        unscaled /= 10;
        scale -= 1;
    }
    let magnitude = unscaled.unsigned_abs().to_be_bytes();
    let (words, _) = magnitude.as_chunks::<4>();
    let words = words.iter().map(|word| u32::from_be_bytes(*word)).skip_while(|word| *word == 0);
    let hash = words.fold(0_i32, |hash, word| hash.wrapping_mul(31).wrapping_add(word as i32));
    let signed = if unscaled < 0 { hash.wrapping_neg() } else { hash };
    signed.wrapping_mul(31).wrapping_add(scale.into())
}

/// The bits of a float with one zero and one NaN.
fn float_bits(value: f32) -> i32 {
    let value = if value == 0.0 { 0.0 } else { value };
    (if value.is_nan() { 0x7fc0_0000 } else { value.to_bits() }) as i32
}

/// The bits of a double with one zero and one NaN.
fn double_bits(value: f64) -> i64 {
    let value = if value == 0.0 { 0.0 } else { value };
    (if value.is_nan() { 0x7ff8_0000_0000_0000 } else { value.to_bits() }) as i64
}

/// Calls `add` with each row and its hash, 0 for NULL.
fn hive_column(column: &ArrayRef, data_type: &DataType, mut add: impl FnMut(usize, i32)) -> Result<()> {
    macro_rules! hash {
        ($values:expr, $hash:expr) => {{
            let values = $values;
            for row in 0..values.len() {
                add(row, if values.is_null(row) { 0 } else { $hash(values.value(row)) });
            }
        }};
    }
    let wrong = || {
        let arrow = column.data_type();
        Error::invalid(format!("a column of arrow type {arrow} does not hold values of type {data_type}"))
    };
    match (&data_type.kind, column.data_type()) {
        (TypeKind::Boolean, ArrowType::Boolean) => hash!(column.as_boolean(), i32::from),
        (TypeKind::TinyInt, ArrowType::Int8) => hash!(column.as_primitive::<Int8Type>(), i32::from),
        (TypeKind::SmallInt, ArrowType::Int16) => hash!(column.as_primitive::<Int16Type>(), i32::from),
        (TypeKind::Int, ArrowType::Int32) => hash!(column.as_primitive::<Int32Type>(), |value| value),
        (TypeKind::Date, ArrowType::Date32) => hash!(column.as_primitive::<Date32Type>(), |value| value),
        (TypeKind::Time(_), ArrowType::Time32(arrow::datatypes::TimeUnit::Millisecond)) => {
            hash!(column.as_primitive::<Time32MillisecondType>(), |value| value);
        }
        (TypeKind::BigInt, ArrowType::Int64) => hash!(column.as_primitive::<Int64Type>(), fold),
        (TypeKind::Float, ArrowType::Float32) => hash!(column.as_primitive::<Float32Type>(), float_bits),
        (TypeKind::Double, ArrowType::Float64) => {
            hash!(column.as_primitive::<Float64Type>(), |value| fold(double_bits(value)));
        }
        (TypeKind::Decimal(_, scale), ArrowType::Decimal128(_, given)) if *given == *scale as i8 => {
            hash!(column.as_primitive::<Decimal128Type>(), |value| hive_decimal(value, *scale));
        }
        (TypeKind::Char(_) | TypeKind::VarChar(_), ArrowType::Utf8View) => {
            hash!(column.as_string_view(), |value: &str| hive_bytes(value.as_bytes()));
        }
        (TypeKind::Char(_) | TypeKind::VarChar(_), ArrowType::Utf8) => {
            hash!(column.as_string::<i32>(), |value: &str| hive_bytes(value.as_bytes()));
        }
        (TypeKind::Binary(_) | TypeKind::VarBinary(_), ArrowType::BinaryView) => {
            hash!(column.as_binary_view(), hive_bytes);
        }
        (TypeKind::Binary(_) | TypeKind::VarBinary(_), ArrowType::Binary) => {
            hash!(column.as_binary::<i32>(), hive_bytes)
        }
        (
            TypeKind::Boolean
            | TypeKind::TinyInt
            | TypeKind::SmallInt
            | TypeKind::Int
            | TypeKind::Date
            | TypeKind::Time(_)
            | TypeKind::BigInt
            | TypeKind::Float
            | TypeKind::Double
            | TypeKind::Decimal(..)
            | TypeKind::Char(_)
            | TypeKind::VarChar(_)
            | TypeKind::Binary(_)
            | TypeKind::VarBinary(_),
            _,
        ) => return Err(wrong()),
        _ => {
            return Err(Error::unsupported(format!("bucket-function.type hive can't hash values of type {data_type}")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
