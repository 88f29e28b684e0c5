//! VARIANT columns: their binary form, its text, and files that hold parts of it in columns of their own (shredded).
//!
//! A value is a struct of two byte strings: `value`, and `metadata`, the dictionary of field names. A shredded file has
//! `typed_value` beside them: what of the value has that type is there, the rest is in `value`. Reading puts it together again.
//!
//! May import: `error`, `conform` beside it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, BinaryBuilder, StructArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    DataType as ArrowType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int64Type, TimeUnit,
    TimestampMicrosecondType,
};

use super::conform::{Place, struct_of};
use crate::error::{Error, Result};
use crate::spec::{DataType, TypeKind};

/// Deepest nesting that is read.
const MAX_DEPTH: usize = 128;

const PRIMITIVE: u8 = 0;
const SHORT_TEXT: u8 = 1;
const OBJECT: u8 = 2;
const ARRAY: u8 = 3;

fn broken() -> Error {
    Error::corrupt("a VARIANT value does not follow its encoding")
}

/// The struct of `value` and `metadata` from a file's struct, shredded or not.
pub(super) fn conform_variant(array: &StructArray) -> Result<ArrayRef> {
    let target = Place::Column.arrow_type(&DataType::nullable(TypeKind::Variant));
    let ArrowType::Struct(fields) = &target else { return Err(broken()) };
    let metadata = binary(array.column_by_name("metadata").ok_or_else(broken)?)?;
    let value = array.column_by_name("value").map(binary).transpose()?;
    let columns: Vec<ArrayRef> = match array.column_by_name("typed_value") {
        None => vec![Arc::new(value.ok_or_else(broken)?), Arc::new(metadata)],
        Some(typed) => {
            let mut values = BinaryBuilder::with_capacity(array.len(), 0);
            let shredded = Shredded { value, typed: Some(typed) };
            for row in 0..array.len() {
                if array.is_null(row) || metadata.is_null(row) {
                    values.append_value([]);
                    continue;
                }
                let names = Metadata::new(metadata.value(row))?.ids()?;
                match shredded.rebuild(row, &names, 0)? {
                    Some(value) => values.append_value(value),
                    // Neither: a variant null.
                    None => values.append_value([PRIMITIVE]),
                }
            }
            vec![Arc::new(values.finish()), Arc::new(metadata)]
        }
    };
    // NULL rows carry no bytes in a file; NOT NULL columns of ours need some.
    let columns = columns
        .into_iter()
        .map(|column| match column.nulls() {
            Some(nulls) if nulls.null_count() > 0 => filled(&column, array.nulls()),
            _ => Ok(column),
        })
        .collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(struct_of(fields, columns, array.nulls().cloned(), array.len())?))
}

fn filled(column: &ArrayRef, parent: Option<&NullBuffer>) -> Result<ArrayRef> {
    let values = column.as_binary::<i32>();
    let mut builder = BinaryBuilder::with_capacity(values.len(), 0);
    for row in 0..values.len() {
        if values.is_valid(row) {
            builder.append_value(values.value(row));
        } else if parent.is_some_and(|parent| parent.is_null(row)) {
            builder.append_value([]);
        } else {
            return Err(Error::corrupt("a VARIANT lacks its value or its metadata"));
        }
    }
    Ok(Arc::new(builder.finish()))
}

fn binary(array: &ArrayRef) -> Result<BinaryArray> {
    match array.data_type() {
        ArrowType::Binary | ArrowType::BinaryView | ArrowType::LargeBinary => {
            Ok(arrow::compute::cast(array, &ArrowType::Binary)?.as_binary::<i32>().clone())
        }
        other => Err(Error::corrupt(format!("the file holds {other} for the bytes of a VARIANT"))),
    }
}

/// The columns of one level of a shredded variant.
struct Shredded<'a> {
    value: Option<BinaryArray>,
    typed: Option<&'a ArrayRef>,
}

impl<'a> Shredded<'a> {
    fn of(array: &'a ArrayRef) -> Result<Self> {
        if !matches!(array.data_type(), ArrowType::Struct(_)) {
            return Err(broken());
        }
        let columns = array.as_struct();
        Ok(Self {
            value: columns.column_by_name("value").map(binary).transpose()?,
            typed: columns.column_by_name("typed_value"),
        })
    }

    /// The value of a row in the binary form; `None` when there is none.
    fn rebuild(&self, row: usize, names: &BTreeMap<&str, u32>, depth: usize) -> Result<Option<Vec<u8>>> {
        if depth > MAX_DEPTH {
            return Err(Error::unsupported("a VARIANT is nested too deep"));
        }
        let value = self.value.as_ref().filter(|value| value.is_valid(row)).map(|value| value.value(row));
        let Some(typed) = self.typed.filter(|typed| typed.is_valid(row)) else {
            return Ok(value.map(<[u8]>::to_vec));
        };
        match typed.data_type() {
            ArrowType::Struct(_) => {
                let mut fields: BTreeMap<String, (u32, Vec<u8>)> = BTreeMap::new();
                if let Some(value) = value {
                    let by_id: BTreeMap<u32, &str> = names.iter().map(|(name, id)| (*id, *name)).collect();
                    for (id, bytes) in Node::new(value)?.fields()? {
                        let name = by_id.get(&id).ok_or_else(broken)?;
                        fields.insert((*name).to_owned(), (id, bytes.to_vec()));
                    }
                }
                let columns = typed.as_struct();
                for (name, column) in columns.column_names().into_iter().zip(columns.columns()) {
                    if column.is_null(row) {
                        continue;
                    }
                    if let Some(bytes) = Shredded::of(column)?.rebuild(row, names, depth + 1)? {
                        let id = names.get(name).ok_or_else(|| {
                            Error::corrupt(format!("the dictionary of a VARIANT lacks its field {name}"))
                        })?;
                        fields.insert(name.to_owned(), (*id, bytes));
                    }
                }
                Ok(Some(object(fields.into_values())))
            }
            ArrowType::List(_) => {
                let elements = typed.as_list::<i32>().value(row);
                let shredded = Shredded::of(&elements)?;
                let values = (0..elements.len())
                    .map(|at| Ok(shredded.rebuild(at, names, depth + 1)?.unwrap_or_else(|| vec![PRIMITIVE])))
                    .collect::<Result<Vec<_>>>()?;
                Ok(Some(list(&values)))
            }
            _ => scalar(typed, row).map(Some),
        }
    }
}

fn primitive(id: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![id << 2 | PRIMITIVE];
    out.extend_from_slice(bytes);
    out
}

fn sized(id: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = primitive(id, &(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
    out
}

fn scalar(array: &ArrayRef, row: usize) -> Result<Vec<u8>> {
    Ok(match array.data_type() {
        ArrowType::Boolean => primitive(if array.as_boolean().value(row) { 1 } else { 2 }, &[]),
        ArrowType::Int8 | ArrowType::Int16 | ArrowType::Int32 | ArrowType::Int64 => {
            let wide = arrow::compute::cast(&array.slice(row, 1), &ArrowType::Int64)?;
            let value = wide.as_primitive::<Int64Type>().value(0);
            if let Ok(value) = i8::try_from(value) {
                primitive(3, &value.to_le_bytes())
            } else if let Ok(value) = i16::try_from(value) {
                primitive(4, &value.to_le_bytes())
            } else if let Ok(value) = i32::try_from(value) {
                primitive(5, &value.to_le_bytes())
            } else {
                primitive(6, &value.to_le_bytes())
            }
        }
        ArrowType::Float32 => primitive(14, &array.as_primitive::<Float32Type>().value(row).to_le_bytes()),
        ArrowType::Float64 => primitive(7, &array.as_primitive::<Float64Type>().value(row).to_le_bytes()),
        ArrowType::Decimal128(_, scale) => {
            let value = array.as_primitive::<Decimal128Type>().value(row);
            let scale = scale.to_le_bytes()[0];
            let (id, bytes) = if let (Ok(value), true) = (i32::try_from(value), value.unsigned_abs() < 1_000_000_000) {
                (8, value.to_le_bytes().to_vec())
            } else if let (Ok(value), true) = (i64::try_from(value), value.unsigned_abs() < 1_000_000_000_000_000_000) {
                (9, value.to_le_bytes().to_vec())
            } else {
                (10, value.to_le_bytes().to_vec())
            };
            let mut out = primitive(id, &[scale]);
            out.extend_from_slice(&bytes);
            out
        }
        ArrowType::Date32 => primitive(11, &array.as_primitive::<Date32Type>().value(row).to_le_bytes()),
        ArrowType::Timestamp(TimeUnit::Microsecond, zone) => {
            let value = array.as_primitive::<TimestampMicrosecondType>().value(row);
            primitive(if zone.is_some() { 12 } else { 13 }, &value.to_le_bytes())
        }
        ArrowType::Utf8 | ArrowType::Utf8View | ArrowType::LargeUtf8 => {
            let text = arrow::compute::cast(&array.slice(row, 1), &ArrowType::Utf8)?;
            let text = text.as_string::<i32>().value(0);
            if text.len() < 64 {
                let mut out = vec![(text.len() as u8) << 2 | SHORT_TEXT];
                out.extend_from_slice(text.as_bytes());
                out
            } else {
                sized(16, text.as_bytes())
            }
        }
        ArrowType::Binary | ArrowType::BinaryView | ArrowType::LargeBinary => {
            sized(15, binary(&array.slice(row, 1))?.value(0))
        }
        other => return Err(Error::unsupported(format!("a VARIANT shredded as {other} can't be read"))),
    })
}

/// Bytes that hold every number up to `most`.
fn width(most: usize) -> usize {
    match most {
        0..=0xff => 1,
        0x100..=0xffff => 2,
        0x1_0000..=0xff_ffff => 3,
        _ => 4,
    }
}

fn put(value: usize, width: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&(value as u32).to_le_bytes()[..width]);
}

/// An object from its fields, ordered by name.
fn object(fields: impl Iterator<Item = (u32, Vec<u8>)>) -> Vec<u8> {
    let fields: Vec<_> = fields.collect();
    let size: usize = fields.iter().map(|(_, bytes)| bytes.len()).sum();
    let offset_width = width(size);
    let id_width = width(fields.iter().map(|(id, _)| *id as usize).max().unwrap_or(0));
    let is_large = fields.len() > 0xff;
    let type_info = u8::from(is_large) << 4 | ((id_width - 1) as u8) << 2 | (offset_width - 1) as u8;
    let mut out = vec![type_info << 2 | OBJECT];
    put(fields.len(), if is_large { 4 } else { 1 }, &mut out);
    for (id, _) in &fields {
        put(*id as usize, id_width, &mut out);
    }
    put_values(fields.iter().map(|(_, bytes)| bytes.as_slice()), offset_width, &mut out);
    out
}

fn list(values: &[Vec<u8>]) -> Vec<u8> {
    let offset_width = width(values.iter().map(Vec::len).sum());
    let is_large = values.len() > 0xff;
    let type_info = u8::from(is_large) << 2 | (offset_width - 1) as u8;
    let mut out = vec![type_info << 2 | ARRAY];
    put(values.len(), if is_large { 4 } else { 1 }, &mut out);
    put_values(values.iter().map(Vec::as_slice), offset_width, &mut out);
    out
}

fn put_values<'a>(values: impl Iterator<Item = &'a [u8]> + Clone, offset_width: usize, out: &mut Vec<u8>) {
    let mut offset = 0;
    put(0, offset_width, out);
    for value in values.clone() {
        offset += value.len();
        put(offset, offset_width, out);
    }
    for value in values {
        out.extend_from_slice(value);
    }
}

fn number(bytes: &[u8], at: usize, width: usize) -> Result<usize> {
    let bytes = at.checked_add(width).and_then(|end| bytes.get(at..end)).ok_or_else(broken)?;
    Ok(bytes.iter().rev().fold(0, |value, byte| value << 8 | usize::from(*byte)))
}

/// The dictionary of field names.
struct Metadata<'a> {
    bytes: &'a [u8],
    width: usize,
    size: usize,
}

impl<'a> Metadata<'a> {
    fn new(bytes: &'a [u8]) -> Result<Self> {
        let header = *bytes.first().ok_or_else(broken)?;
        if header & 0x0f != 1 {
            return Err(Error::unsupported(format!("VARIANT version {} is not known", header & 0x0f)));
        }
        let width = usize::from(header >> 6) + 1;
        let size = number(bytes, 1, width)?;
        if size > bytes.len() {
            return Err(broken());
        }
        Ok(Self { bytes, width, size })
    }

    fn name(&self, id: usize) -> Result<&'a str> {
        if id >= self.size {
            return Err(broken());
        }
        let offset = |at: usize| number(self.bytes, 1 + self.width * (1 + at), self.width);
        let names = 1 + self.width * (2 + self.size);
        let (start, end) = (offset(id)?, offset(id + 1)?);
        let bytes = self.bytes.get(names + start..names + end).ok_or_else(broken)?;
        std::str::from_utf8(bytes).map_err(|_| broken())
    }

    fn ids(&self) -> Result<BTreeMap<&'a str, u32>> {
        (0..self.size).map(|id| Ok((self.name(id)?, id as u32))).collect()
    }
}

/// A value in its binary form.
struct Node<'a> {
    bytes: &'a [u8],
    basic: u8,
    info: u8,
}

impl<'a> Node<'a> {
    fn new(bytes: &'a [u8]) -> Result<Self> {
        let header = *bytes.first().ok_or_else(broken)?;
        Ok(Self { bytes, basic: header & 3, info: header >> 2 })
    }

    fn payload<const N: usize>(&self, at: usize) -> Result<[u8; N]> {
        self.bytes.get(at..at + N).and_then(|bytes| bytes.try_into().ok()).ok_or_else(broken)
    }

    fn sized(&self) -> Result<&'a [u8]> {
        let length = number(self.bytes, 1, 4)?;
        self.bytes.get(5..5 + length).ok_or_else(broken)
    }

    /// Ids and values of an object.
    fn fields(&self) -> Result<Vec<(u32, &'a [u8])>> {
        if self.basic != OBJECT {
            return Err(broken());
        }
        let offset_width = usize::from(self.info & 3) + 1;
        let id_width = usize::from(self.info >> 2 & 3) + 1;
        let count_width = if self.info >> 4 & 1 == 1 { 4 } else { 1 };
        let count = number(self.bytes, 1, count_width)?;
        let ids = 1 + count_width;
        let offsets = count.checked_mul(id_width).map(|size| ids + size).ok_or_else(broken)?;
        let values = self.values(offsets, count, offset_width)?;
        values
            .into_iter()
            .enumerate()
            .map(|(at, value)| Ok((number(self.bytes, ids + at * id_width, id_width)? as u32, value)))
            .collect()
    }

    fn elements(&self) -> Result<Vec<&'a [u8]>> {
        let offset_width = usize::from(self.info & 3) + 1;
        let count_width = if self.info >> 2 & 1 == 1 { 4 } else { 1 };
        let count = number(self.bytes, 1, count_width)?;
        self.values(1 + count_width, count, offset_width)
    }

    fn values(&self, offsets: usize, count: usize, width: usize) -> Result<Vec<&'a [u8]>> {
        let data = count
            .checked_add(1)
            .and_then(|offsets| offsets.checked_mul(width))
            .and_then(|size| offsets.checked_add(size))
            .filter(|data| *data <= self.bytes.len())
            .ok_or_else(broken)?;
        (0..count)
            .map(|at| {
                let start = number(self.bytes, offsets + at * width, width)?;
                // Values of an object need not lie in the order of its names: each knows its own end.
                self.bytes.get(data + start..).filter(|bytes| !bytes.is_empty()).ok_or_else(broken)
            })
            .map(|value| value.and_then(|bytes| Ok(&bytes[..Node::new(bytes)?.length()?.min(bytes.len())])))
            .collect()
    }

    /// How many bytes the value takes.
    fn length(&self) -> Result<usize> {
        Ok(match self.basic {
            SHORT_TEXT => 1 + usize::from(self.info),
            OBJECT | ARRAY => {
                let (count_width, id_width) = if self.basic == OBJECT {
                    (if self.info >> 4 & 1 == 1 { 4 } else { 1 }, usize::from(self.info >> 2 & 3) + 1)
                } else {
                    (if self.info >> 2 & 1 == 1 { 4 } else { 1 }, 0)
                };
                let offset_width = usize::from(self.info & 3) + 1;
                let count = number(self.bytes, 1, count_width)?;
                let offsets = count.checked_mul(id_width).map(|ids| 1 + count_width + ids).ok_or_else(broken)?;
                let last = count.checked_mul(offset_width).map(|size| offsets + size).ok_or_else(broken)?;
                last + offset_width + number(self.bytes, last, offset_width)?
            }
            _ => match self.info {
                0..=2 => 1,
                3 => 2,
                4 => 3,
                5 | 11 | 14 => 5,
                6 | 7 | 12 | 13 | 17..=19 => 9,
                8 => 6,
                9 => 10,
                10 => 18,
                15 | 16 => 5 + number(self.bytes, 1, 4)?,
                20 => 17,
                other => return Err(Error::unsupported(format!("VARIANT type {other} is not known"))),
            },
        })
    }
}

/// The JSON text of a VARIANT, as Java writes it.
///
/// # Errors
/// Corrupt when the bytes do not follow the encoding, unsupported for a type or version that is not known.
pub fn variant_to_json(metadata: &[u8], value: &[u8]) -> Result<String> {
    let mut out = String::new();
    json(&Metadata::new(metadata)?, value, &mut out, 0)?;
    Ok(out)
}

fn quoted(text: &str, out: &mut String) {
    out.push_str(&serde_json::Value::from(text).to_string());
}

fn json(metadata: &Metadata<'_>, bytes: &[u8], out: &mut String, depth: usize) -> Result<()> {
    if depth > MAX_DEPTH {
        return Err(Error::unsupported("a VARIANT is nested too deep"));
    }
    let node = Node::new(bytes)?;
    match node.basic {
        OBJECT => {
            out.push('{');
            for (at, (id, value)) in node.fields()?.into_iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                quoted(metadata.name(id as usize)?, out);
                out.push(':');
                json(metadata, value, out, depth + 1)?;
            }
            out.push('}');
        }
        ARRAY => {
            out.push('[');
            for (at, value) in node.elements()?.into_iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                json(metadata, value, out, depth + 1)?;
            }
            out.push(']');
        }
        SHORT_TEXT => {
            let text = bytes.get(1..1 + usize::from(node.info)).ok_or_else(broken)?;
            quoted(std::str::from_utf8(text).map_err(|_| broken())?, out);
        }
        _ => scalar_json(&node, out)?,
    }
    Ok(())
}

fn scalar_json(node: &Node<'_>, out: &mut String) -> Result<()> {
    let decimal = |unscaled: i128, out: &mut String| -> Result<()> {
        let scale = usize::from(node.payload::<1>(1)?[0]);
        let digits = format!("{:0>width$}", unscaled.unsigned_abs(), width = scale + 1);
        let (before, after) = digits.split_at(digits.len() - scale);
        let _ = write!(out, "{}{before}", if unscaled < 0 { "-" } else { "" });
        if scale > 0 {
            let _ = write!(out, ".{after}");
        }
        Ok(())
    };
    let micros = |zone: &str, out: &mut String| -> Result<()> {
        let time = chrono::DateTime::from_timestamp_micros(i64::from_le_bytes(node.payload(1)?)).ok_or_else(broken)?;
        let _ = write!(out, "\"{}{zone}\"", time.format("%Y-%m-%d %H:%M:%S%.f"));
        Ok(())
    };
    match node.info {
        0 => out.push_str("null"),
        1 => out.push_str("true"),
        2 => out.push_str("false"),
        3 => _ = write!(out, "{}", i8::from_le_bytes(node.payload(1)?)),
        4 => _ = write!(out, "{}", i16::from_le_bytes(node.payload(1)?)),
        5 => _ = write!(out, "{}", i32::from_le_bytes(node.payload(1)?)),
        6 => _ = write!(out, "{}", i64::from_le_bytes(node.payload(1)?)),
        7 => {
            let value = f64::from_le_bytes(node.payload(1)?);
            float_json(value, &format!("{value:e}"), out);
        }
        14 => {
            let value = f32::from_le_bytes(node.payload(1)?);
            float_json(f64::from(value), &format!("{value:e}"), out);
        }
        8 => decimal(i32::from_le_bytes(node.payload(2)?).into(), out)?,
        9 => decimal(i64::from_le_bytes(node.payload(2)?).into(), out)?,
        10 => decimal(i128::from_le_bytes(node.payload(2)?), out)?,
        11 => {
            let days = i32::from_le_bytes(node.payload(1)?);
            let date = chrono::DateTime::from_timestamp(i64::from(days) * 86_400, 0).ok_or_else(broken)?;
            let _ = write!(out, "\"{}\"", date.format("%Y-%m-%d"));
        }
        12 => micros("+00:00", out)?,
        13 => micros("", out)?,
        16 => quoted(std::str::from_utf8(node.sized()?).map_err(|_| broken())?, out),
        other => return Err(Error::unsupported(format!("VARIANT type {other} has no JSON text here"))),
    }
    Ok(())
}

/// JSON has no NaN and no infinity: they are texts.
fn float_json(value: f64, shortest: &str, out: &mut String) {
    if value.is_finite() {
        super::conform::float_text(value, shortest, out);
    } else {
        out.push('"');
        super::conform::float_text(value, shortest, out);
        out.push('"');
    }
}
