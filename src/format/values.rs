//! Columns from JSON values: how text formats hold each type.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryBuilder, BinaryViewBuilder, BooleanArray, ListArray, MapArray, PrimitiveArray, StringArray,
    StringViewArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType as ArrowType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, Time32MillisecondType,
};
use serde_json::Value;

use super::conform::{Place, beyond_arrow, struct_of, ticks_per_second, timestamps_from};
use super::literal;
use crate::error::{Error, Result};
use crate::spec::{DataType, TypeKind};

/// What a value that does not parse becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnBad {
    Null,
    Fail,
}

/// The values as an array of `data_type`.
///
/// # Errors
/// Invalid when one does not parse and `on_bad` says so, unsupported for a type that text formats don't have.
pub(super) fn array_of(values: &[&Value], data_type: &DataType, place: Place, on_bad: OnBad) -> Result<ArrayRef> {
    let texts = Texts { values, data_type, on_bad };
    let integer = |min: i64, max: i64| {
        let name = data_type.to_string();
        move |text: &str| literal::parse_integer(text, min, max, &name)
    };
    Ok(match &data_type.kind {
        TypeKind::Boolean => {
            Arc::new(texts.parse(|text| Ok(text.eq_ignore_ascii_case("true")))?.into_iter().collect::<BooleanArray>())
        }
        TypeKind::TinyInt => {
            let parse = integer(i8::MIN.into(), i8::MAX.into());
            Arc::new(texts.primitive::<Int8Type>(|text| parse(text).map(|value| value as i8))?)
        }
        TypeKind::SmallInt => {
            let parse = integer(i16::MIN.into(), i16::MAX.into());
            Arc::new(texts.primitive::<Int16Type>(|text| parse(text).map(|value| value as i16))?)
        }
        TypeKind::Int => {
            let parse = integer(i32::MIN.into(), i32::MAX.into());
            Arc::new(texts.primitive::<Int32Type>(|text| parse(text).map(|value| value as i32))?)
        }
        TypeKind::BigInt => Arc::new(texts.primitive::<Int64Type>(integer(i64::MIN, i64::MAX))?),
        TypeKind::Float => Arc::new(texts.primitive::<Float32Type>(literal::parse_float)?),
        TypeKind::Double => Arc::new(texts.primitive::<Float64Type>(literal::parse_double)?),
        TypeKind::Decimal(precision, scale) => Arc::new(
            texts
                .primitive::<Decimal128Type>(|text| literal::parse_decimal(text, *precision, *scale))?
                .with_precision_and_scale(*precision, *scale as i8)?,
        ),
        TypeKind::Char(_) | TypeKind::VarChar(_) => {
            let texts = texts.parse(|text| Ok(text.to_owned()))?;
            match place {
                Place::Column => Arc::new(texts.into_iter().collect::<StringViewArray>()),
                Place::Nested => Arc::new(texts.into_iter().collect::<StringArray>()),
            }
        }
        TypeKind::Binary(_) | TypeKind::VarBinary(_) => {
            let bytes = texts.parse(base64)?;
            match place {
                Place::Column => {
                    let mut builder = BinaryViewBuilder::with_capacity(bytes.len());
                    bytes.iter().for_each(|bytes| builder.append_option(bytes.as_deref()));
                    Arc::new(builder.finish())
                }
                Place::Nested => {
                    let mut builder = BinaryBuilder::new();
                    bytes.iter().for_each(|bytes| builder.append_option(bytes.as_deref()));
                    Arc::new(builder.finish())
                }
            }
        }
        TypeKind::Date => Arc::new(texts.primitive::<Date32Type>(literal::parse_date)?),
        TypeKind::Time(_) => Arc::new(texts.primitive::<Time32MillisecondType>(literal::parse_time)?),
        TypeKind::Timestamp(precision) | TypeKind::TimestampLtz(precision) => {
            let per_second = ticks_per_second(*precision);
            let name = data_type.to_string();
            let ticks = texts.primitive::<Int64Type>(|text| {
                let (seconds, nanos) = literal::parse_timestamp(text, &name)?;
                seconds
                    .checked_mul(per_second)
                    .and_then(|ticks| ticks.checked_add(nanos / (1_000_000_000 / per_second)))
                    .ok_or_else(|| beyond_arrow(text))
            })?;
            timestamps_from(&ticks, &place.arrow_type(data_type))?
        }
        TypeKind::Array(element) => {
            let lists = texts.containers(Value::as_array)?;
            let flat: Vec<&Value> = lists.iter().flatten().flat_map(|list| list.iter()).collect();
            let values = array_of(&flat, element, Place::Nested, on_bad)?;
            let ArrowType::List(field) = place.arrow_type(data_type) else { return Err(texts.unsupported()) };
            let (offsets, nulls) = lengths(lists.iter().map(|list| list.map(Vec::len)));
            Arc::new(ListArray::try_new(field, offsets, values, Some(nulls)).map_err(not_null)?)
        }
        TypeKind::Map(key, value) => {
            let maps = texts.containers(Value::as_object)?;
            let keys: Vec<Value> =
                maps.iter().flatten().flat_map(|map| map.keys().map(|key| Value::from(key.as_str()))).collect();
            let keys: Vec<&Value> = keys.iter().collect();
            let values: Vec<&Value> = maps.iter().flatten().flat_map(|map| map.values()).collect();
            // A key is never NULL: one that does not parse fails whatever the mode.
            let keys = array_of(&keys, key, Place::Nested, OnBad::Fail)?;
            let values = array_of(&values, value, Place::Nested, on_bad)?;
            let ArrowType::Map(entries, _) = place.arrow_type(data_type) else { return Err(texts.unsupported()) };
            let ArrowType::Struct(fields) = entries.data_type() else { return Err(texts.unsupported()) };
            let length = keys.len();
            let structs = struct_of(fields, vec![keys, values], None, length)?;
            let (offsets, nulls) = lengths(maps.iter().map(|map| map.map(serde_json::Map::len)));
            Arc::new(MapArray::try_new(entries, offsets, structs, Some(nulls), false).map_err(not_null)?)
        }
        TypeKind::Row(fields) => {
            let rows = texts.containers(Value::as_object)?;
            let ArrowType::Struct(arrow_fields) = place.arrow_type(data_type) else {
                return Err(texts.unsupported());
            };
            let columns = fields
                .iter()
                .map(|field| {
                    let values: Vec<&Value> = rows
                        .iter()
                        .map(|row| row.and_then(|row| row.get(&field.name)).unwrap_or(&Value::Null))
                        .collect();
                    array_of(&values, &field.data_type, Place::Nested, on_bad)
                        .map_err(|error| error.with("field", field.name.clone()))
                })
                .collect::<Result<Vec<_>>>()?;
            let nulls: NullBuffer = rows.iter().map(Option::is_some).collect::<Vec<_>>().into();
            Arc::new(struct_of(&arrow_fields, columns, Some(nulls), rows.len())?)
        }
        _ => return Err(texts.unsupported()),
    })
}

fn not_null(error: arrow::error::ArrowError) -> Error {
    Error::corrupt("NULL where the type is NOT NULL").with_source(error)
}

fn lengths(lengths: impl Iterator<Item = Option<usize>> + Clone) -> (OffsetBuffer<i32>, NullBuffer) {
    let nulls: Vec<bool> = lengths.clone().map(|length| length.is_some()).collect();
    (OffsetBuffer::from_lengths(lengths.map(|length| length.unwrap_or(0))), nulls.into())
}

struct Texts<'a> {
    values: &'a [&'a Value],
    data_type: &'a DataType,
    on_bad: OnBad,
}

impl<'a> Texts<'a> {
    fn parse<T>(&self, parse: impl Fn(&str) -> Result<T>) -> Result<Vec<Option<T>>> {
        self.values
            .iter()
            .map(|value| {
                let parsed = match value {
                    Value::Null => return Ok(None),
                    Value::String(text) => parse(text),
                    Value::Bool(_) | Value::Number(_) => parse(&value.to_string()),
                    Value::Array(_) | Value::Object(_) => Err(self.bad(value)),
                };
                match parsed {
                    Ok(value) => Ok(Some(value)),
                    Err(_) if self.on_bad == OnBad::Null => Ok(None),
                    Err(error) => Err(error),
                }
            })
            .collect()
    }

    fn primitive<T: ArrowPrimitiveType>(&self, parse: impl Fn(&str) -> Result<T::Native>) -> Result<PrimitiveArray<T>> {
        Ok(self.parse(parse)?.into_iter().collect())
    }

    fn containers<T>(&self, container: impl Fn(&'a Value) -> Option<&'a T>) -> Result<Vec<Option<&'a T>>> {
        self.values
            .iter()
            .map(|value| match (container(value), value) {
                (Some(container), _) => Ok(Some(container)),
                (None, Value::Null) => Ok(None),
                (None, _) if self.on_bad == OnBad::Null => Ok(None),
                (None, _) => Err(self.bad(value)),
            })
            .collect()
    }

    fn bad(&self, value: &Value) -> Error {
        Error::invalid(format!("{value} can't be read as {}", self.data_type))
    }

    fn unsupported(&self) -> Error {
        Error::unsupported(format!("text formats have no {}", self.data_type))
    }
}

/// Standard base64, its padding may be left out.
fn base64(text: &str) -> Result<Vec<u8>> {
    let bad = || Error::invalid(format!("'{text}' is not base64"));
    let digits = text.trim_end_matches('=').as_bytes();
    let mut out = Vec::with_capacity(digits.len() * 3 / 4);
    for group in digits.chunks(4) {
        if group.len() == 1 {
            return Err(bad());
        }
        let mut bits = 0_u32;
        for at in 0..4 {
            let digit = match group.get(at) {
                None => 0,
                Some(byte @ b'A'..=b'Z') => byte - b'A',
                Some(byte @ b'a'..=b'z') => byte - b'a' + 26,
                Some(byte @ b'0'..=b'9') => byte - b'0' + 52,
                Some(b'+') => 62,
                Some(b'/') => 63,
                Some(_) => return Err(bad()),
            };
            bits = bits << 6 | u32::from(digit);
        }
        out.extend_from_slice(&bits.to_be_bytes()[1..group.len()]);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_when_padded_or_not_then_bytes() {
        for (text, bytes) in
            [("", &b""[..]), ("AP9B", b"\x00\xff\x41"), ("YQ==", b"a"), ("YWI=", b"ab"), ("YWI", b"ab")]
        {
            assert_eq!(base64(text).unwrap(), bytes, "{text}");
        }
        assert!(base64("A").is_err());
        assert!(base64("A*==").is_err());
    }
}
