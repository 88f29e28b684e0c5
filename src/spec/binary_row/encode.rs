//! Rows out of arrow columns, byte for byte as Java writes them: for bucket hashes, partitions, keys and statistics.

use arrow::array::{Array, ArrayRef, AsArray, BinaryViewArray};
use arrow::buffer::{BooleanBuffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{
    DataType as ArrowType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, Time32MillisecondType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType,
};

use super::ARITY_PREFIX;
use super::nested::{array_header, element_width};
use super::write::{Slot, begin_row, pad, set_null, too_long};
use crate::error::{Error, Result};
use crate::spec::types::{DataType, TypeKind};

/// Serialized rows, one after another.
#[derive(Clone, Debug, Default)]
pub struct RowBuffer {
    data: Vec<u8>,
    /// Where each row ends.
    ends: Vec<usize>,
}

impl RowBuffer {
    /// The number of rows.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Row `row` behind its arity, as manifests hold it.
    pub fn serialized(&self, row: usize) -> &[u8] {
        let start = if row == 0 { 0 } else { self.ends[row - 1] };
        &self.data[start..self.ends[row]]
    }

    /// Row `row` without its arity, which bucket hashes are made of.
    pub fn image(&self, row: usize) -> &[u8] {
        &self.serialized(row)[ARITY_PREFIX..]
    }

    /// The serialized rows in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..self.len()).map(|row| self.serialized(row))
    }
}

/// All rows of the columns. Errors as [`RowEncoder::new`] and [`RowEncoder::encode`].
pub fn encode_rows(columns: &[ArrayRef], types: &[DataType]) -> Result<RowBuffer> {
    let encoder = RowEncoder::new(columns, types)?;
    let arity = i32::try_from(types.len()).map_err(|_| too_long())?.to_be_bytes();
    let mut buffer = RowBuffer { data: Vec::new(), ends: Vec::with_capacity(encoder.len()) };
    for row in 0..encoder.len() {
        buffer.data.extend(arity);
        encoder.encode(row, &mut buffer.data)?;
        buffer.ends.push(buffer.data.len());
    }
    Ok(buffer)
}

/// Columns made ready to be written row by row.
pub struct RowEncoder {
    columns: Vec<Source>,
    types: Vec<DataType>,
    len: usize,
}

impl RowEncoder {
    /// Takes columns of equal length. Text and bytes may be views or not, or of a dictionary; timestamps may be of any
    /// unit and are cut to that of the type.
    ///
    /// Errors: `Invalid` when a column is not of its type or has another length.
    pub fn new(columns: &[ArrayRef], types: &[DataType]) -> Result<Self> {
        if columns.len() != types.len() {
            return Err(Error::internal(format!("{} columns for {} types", columns.len(), types.len())));
        }
        let len = columns.first().map_or(0, |column| column.len());
        if columns.iter().any(|column| column.len() != len) {
            return Err(Error::internal("the columns of rows have different lengths"));
        }
        let columns = columns
            .iter()
            .zip(types)
            .map(|(column, data_type)| Source::new(column, data_type))
            .collect::<Result<_>>()?;
        Ok(Self { columns, types: types.to_vec(), len })
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends the image of row `row`, without arity. Errors: `Invalid` when it would pass 2 GB, or a value does not
    /// fit its type.
    pub fn encode(&self, row: usize, out: &mut Vec<u8>) -> Result<()> {
        write_row(&self.columns, self.types.iter(), row, out)
    }
}

fn write_row<'a>(
    columns: &[Source],
    types: impl Iterator<Item = &'a DataType>,
    row: usize,
    out: &mut Vec<u8>,
) -> Result<()> {
    let base = out.len();
    let first = begin_row(out, columns.len());
    for (index, (column, data_type)) in columns.iter().zip(types).enumerate() {
        let mut slot = Slot { out, base, at: first + 8 * index };
        if column.is_null(row) {
            slot.reserve_for_null(data_type)?;
            set_null(out, base, index);
        } else {
            column.write(row, slot)?;
        }
    }
    Ok(())
}

/// A column as it is read while rows are written.
struct Source {
    nulls: Option<NullBuffer>,
    values: Values,
}

enum Values {
    Boolean(BooleanBuffer),
    Int8(ScalarBuffer<i8>),
    Int16(ScalarBuffer<i16>),
    Int32(ScalarBuffer<i32>),
    Int64(ScalarBuffer<i64>),
    Float32(ScalarBuffer<f32>),
    Float64(ScalarBuffer<f64>),
    Decimal(ScalarBuffer<i128>, u8),
    Timestamp(ScalarBuffer<i64>, TimeUnit, u8),
    Bytes(BinaryViewArray),
    Variant { value: BinaryViewArray, metadata: BinaryViewArray },
    Array(OffsetBuffer<i32>, Box<Source>, usize),
    Vector(OffsetBuffer<i32>, Box<Source>, usize),
    Map { offsets: OffsetBuffer<i32>, entries: Box<[(Source, usize); 2]> },
    Row(Vec<Source>, Vec<DataType>),
}

fn cast(column: &dyn Array, to: &ArrowType) -> Result<ArrayRef> {
    Ok(cast_with_options(column, to, &CastOptions { safe: false, ..CastOptions::default() })?)
}

impl Source {
    fn new(column: &dyn Array, data_type: &DataType) -> Result<Self> {
        if let ArrowType::Dictionary(_, values) = column.data_type() {
            return Self::new(&cast(column, values)?, data_type);
        }
        let given = column.data_type();
        let wrong =
            || Error::invalid(format!("a column of arrow type {given} does not hold values of type {data_type}"));
        let values = match (&data_type.kind, given) {
            (TypeKind::Boolean, ArrowType::Boolean) => Values::Boolean(column.as_boolean().values().clone()),
            (TypeKind::TinyInt, ArrowType::Int8) => Values::Int8(column.as_primitive::<Int8Type>().values().clone()),
            (TypeKind::SmallInt, ArrowType::Int16) => {
                Values::Int16(column.as_primitive::<Int16Type>().values().clone())
            }
            (TypeKind::Int, ArrowType::Int32) => Values::Int32(column.as_primitive::<Int32Type>().values().clone()),
            (TypeKind::BigInt, ArrowType::Int64) => Values::Int64(column.as_primitive::<Int64Type>().values().clone()),
            (TypeKind::Float, ArrowType::Float32) => {
                Values::Float32(column.as_primitive::<Float32Type>().values().clone())
            }
            (TypeKind::Double, ArrowType::Float64) => {
                Values::Float64(column.as_primitive::<Float64Type>().values().clone())
            }
            (TypeKind::Date, ArrowType::Date32) => Values::Int32(column.as_primitive::<Date32Type>().values().clone()),
            (TypeKind::Time(_), ArrowType::Time32(TimeUnit::Millisecond)) => {
                Values::Int32(column.as_primitive::<Time32MillisecondType>().values().clone())
            }
            (TypeKind::Time(_), ArrowType::Time32(_) | ArrowType::Time64(_)) => {
                return Self::new(&cast(column, &ArrowType::Time32(TimeUnit::Millisecond))?, data_type);
            }
            (TypeKind::Decimal(precision, scale), ArrowType::Decimal128(_, given)) if *given == *scale as i8 => {
                Values::Decimal(column.as_primitive::<Decimal128Type>().values().clone(), *precision)
            }
            (
                TypeKind::Decimal(precision, scale),
                ArrowType::Decimal32(_, given) | ArrowType::Decimal64(_, given) | ArrowType::Decimal256(_, given),
            ) if *given == *scale as i8 => {
                return Self::new(&cast(column, &ArrowType::Decimal128(*precision, *given))?, data_type);
            }
            (TypeKind::Timestamp(precision) | TypeKind::TimestampLtz(precision), ArrowType::Timestamp(unit, _)) => {
                let values = match unit {
                    TimeUnit::Second => column.as_primitive::<TimestampSecondType>().values(),
                    TimeUnit::Millisecond => column.as_primitive::<TimestampMillisecondType>().values(),
                    TimeUnit::Microsecond => column.as_primitive::<TimestampMicrosecondType>().values(),
                    TimeUnit::Nanosecond => column.as_primitive::<TimestampNanosecondType>().values(),
                };
                Values::Timestamp(values.clone(), *unit, *precision)
            }
            (TypeKind::Char(_) | TypeKind::VarChar(_), ArrowType::Utf8View) => {
                Values::Bytes(column.as_string_view().clone().to_binary_view())
            }
            (TypeKind::Char(_) | TypeKind::VarChar(_), ArrowType::Utf8 | ArrowType::LargeUtf8) => {
                return Self::new(&cast(column, &ArrowType::Utf8View)?, data_type);
            }
            (
                TypeKind::Binary(_)
                | TypeKind::VarBinary(_)
                | TypeKind::Blob
                | TypeKind::Geometry(_)
                | TypeKind::Geography(_),
                _,
            ) => Values::Bytes(binary(column).ok_or_else(wrong)??),
            (TypeKind::Variant, ArrowType::Struct(_)) => {
                let array = column.as_struct();
                let part = |name: &str| -> Result<BinaryViewArray> {
                    binary(array.column_by_name(name).ok_or_else(wrong)?).ok_or_else(wrong)?
                };
                Values::Variant { value: part("value")?, metadata: part("metadata")? }
            }
            (TypeKind::Array(inner), ArrowType::List(_)) => {
                let (array, width) = (column.as_list::<i32>(), element_width(inner));
                Values::Array(array.offsets().clone(), Box::new(Self::new(array.values(), inner)?), width)
            }
            (TypeKind::Vector(inner, _), ArrowType::List(_)) => {
                let (array, width) = (column.as_list::<i32>(), element_width(inner));
                Values::Vector(array.offsets().clone(), Box::new(Self::new(array.values(), inner)?), width)
            }
            (TypeKind::Map(key, value), ArrowType::Map(..)) => map(column, key, value)?,
            (TypeKind::Multiset(key), ArrowType::Map(..)) => map(column, key, &DataType::not_null(TypeKind::Int))?,
            (TypeKind::Row(fields), ArrowType::Struct(_)) if column.as_struct().num_columns() == fields.len() => {
                let columns = column.as_struct().columns().iter().zip(fields);
                Values::Row(
                    columns.map(|(column, field)| Self::new(column, &field.data_type)).collect::<Result<_>>()?,
                    fields.iter().map(|field| field.data_type.clone()).collect(),
                )
            }
            _ => return Err(wrong()),
        };
        Ok(Self { nulls: column.logical_nulls(), values })
    }

    fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }

    /// Writes the value of a row where it is not NULL.
    fn write(&self, row: usize, mut slot: Slot<'_>) -> Result<()> {
        match &self.values {
            Values::Boolean(values) => slot.put([u8::from(values.value(row))]),
            Values::Int8(values) => slot.put(values[row].to_le_bytes()),
            Values::Int16(values) => slot.put(values[row].to_le_bytes()),
            Values::Int32(values) => slot.put(values[row].to_le_bytes()),
            Values::Int64(values) => slot.put(values[row].to_le_bytes()),
            Values::Float32(values) => slot.put(values[row].to_le_bytes()),
            Values::Float64(values) => slot.put(values[row].to_le_bytes()),
            Values::Decimal(values, precision) => slot.decimal(values[row], *precision)?,
            Values::Timestamp(values, unit, precision) => {
                let (millis, nanos) = split_timestamp(values[row], *unit)?;
                let nanos = if *precision <= 6 { nanos - nanos % 1_000 } else { nanos };
                slot.timestamp(millis, nanos, *precision)?;
            }
            Values::Bytes(values) => slot.bytes(values.value(row))?,
            Values::Variant { value, metadata } => {
                let (value, metadata) = (value.value(row), metadata.value(row));
                payload(slot, |out| {
                    out.extend(i32::try_from(value.len()).map_err(|_| too_long())?.to_le_bytes());
                    out.extend_from_slice(value);
                    out.extend_from_slice(metadata);
                    Ok(())
                })?;
            }
            Values::Array(offsets, child, width) => {
                payload(slot, |out| write_array(child, *width, range(offsets, row), out))?;
            }
            Values::Vector(offsets, child, width) => payload(slot, |out| {
                let (base, range) = (out.len(), range(offsets, row));
                let first = base + 4;
                out.extend((range.len() as i32).to_le_bytes());
                out.resize(first + range.len() * width, 0);
                for (i, element) in range.enumerate() {
                    if child.is_null(element) {
                        return Err(Error::invalid("an element of a vector is NULL"));
                    }
                    child.write(element, Slot { out, base, at: first + i * width })?;
                }
                Ok(())
            })?,
            Values::Map { offsets, entries } => payload(slot, |out| {
                let (base, [(keys, key_width), (items, item_width)]) = (out.len(), &**entries);
                out.extend([0; 4]);
                write_array(keys, *key_width, range(offsets, row), out)?;
                let len = i32::try_from(out.len() - base - 4).map_err(|_| too_long())?;
                out[base..base + 4].copy_from_slice(&len.to_le_bytes());
                write_array(items, *item_width, range(offsets, row), out)
            })?,
            Values::Row(columns, types) => payload(slot, |out| write_row(columns, types.iter(), row, out))?,
        }
        Ok(())
    }
}

/// Bytes as views, when the column holds bytes.
fn binary(column: &dyn Array) -> Option<Result<BinaryViewArray>> {
    match column.data_type() {
        ArrowType::BinaryView => Some(Ok(column.as_binary_view().clone())),
        ArrowType::Binary | ArrowType::LargeBinary | ArrowType::FixedSizeBinary(_) => {
            Some(cast(column, &ArrowType::BinaryView).map(|views| views.as_binary_view().clone()))
        }
        _ => None,
    }
}

fn map(column: &dyn Array, key: &DataType, value: &DataType) -> Result<Values> {
    let array = column.as_map();
    let entries = [
        (Source::new(array.keys(), key)?, element_width(key)),
        (Source::new(array.values(), value)?, element_width(value)),
    ];
    Ok(Values::Map { offsets: array.offsets().clone(), entries: Box::new(entries) })
}

fn range(offsets: &OffsetBuffer<i32>, row: usize) -> std::ops::Range<usize> {
    offsets[row] as usize..offsets[row + 1] as usize
}

/// Appends a nested value and points the slot at it; its length is told without the padding behind it.
fn payload(mut slot: Slot<'_>, write: impl FnOnce(&mut Vec<u8>) -> Result<()>) -> Result<()> {
    let start = slot.out.len();
    slot.point(0)?;
    write(slot.out)?;
    let len = i32::try_from(slot.out.len() - start).map_err(|_| too_long())?;
    slot.put(len.to_le_bytes());
    pad(slot.out, slot.base);
    Ok(())
}

/// Appends a BinaryArray.
fn write_array(child: &Source, width: usize, range: std::ops::Range<usize>, out: &mut Vec<u8>) -> Result<()> {
    let (base, header) = (out.len(), array_header(range.len()));
    out.extend((range.len() as i32).to_le_bytes());
    out.resize(base + (header + range.len() * width).next_multiple_of(8), 0);
    for (i, element) in range.enumerate() {
        if child.is_null(element) {
            out[base + 4 + i / 8] |= 1 << (i % 8);
        } else {
            child.write(element, Slot { out, base, at: base + header + i * width })?;
        }
    }
    Ok(())
}

/// Milliseconds, and nanoseconds within the millisecond.
fn split_timestamp(value: i64, unit: TimeUnit) -> Result<(i64, i32)> {
    Ok(match unit {
        TimeUnit::Second => {
            let millis = value.checked_mul(1_000);
            (millis.ok_or_else(|| Error::invalid(format!("the second {value} is too far from 1970")))?, 0)
        }
        TimeUnit::Millisecond => (value, 0),
        TimeUnit::Microsecond => (value.div_euclid(1_000), value.rem_euclid(1_000) as i32 * 1_000),
        TimeUnit::Nanosecond => (value.div_euclid(1_000_000), value.rem_euclid(1_000_000) as i32),
    })
}
