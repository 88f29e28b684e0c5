//! Representation: an array as a file's reader gives it becomes the arrow type of its Paimon type.
//!
//! Readers differ in what they call the same values: list elements are `item`, `element` or `array`, map entries
//! `key_value` or `entries`, TIME is an integer in ORC, TINYINT an INT in Avro, a map with keys that are no text is an Avro
//! array of records, LTZ and NTZ carry each other's names in Avro (`spec/data.md 1.5`), decimals come in any width. Values never
//! change here; a value that the target can't hold is an error.
//!
//! May import: `error`, `spec`, and `variant` beside it.

use std::fmt::Write as _;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Decimal128Array, FixedSizeListArray, Int64Array, ListArray, MapArray, PrimitiveArray,
    RecordBatch, RecordBatchOptions, StructArray, new_null_array,
};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{
    DataType as ArrowType, Field, FieldRef, Fields, Int32Type, SchemaRef, Time32MillisecondType, TimeUnit,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
};

use super::variant;
use crate::error::{Error, Result};
use crate::spec::{DataField, DataType, TypeKind};

/// Whether an array stands at the top of a batch (text and bytes are views there) or inside a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    /// A column of a batch.
    Column,
    /// An element, key, value or field.
    Nested,
}

impl Place {
    /// The arrow type of `data_type` at this place.
    pub(crate) fn arrow_type(self, data_type: &DataType) -> ArrowType {
        match self {
            Self::Column => data_type.to_arrow(),
            Self::Nested => data_type.to_arrow_nested(),
        }
    }
}

/// The batch whose columns are `fields`, in their order and representation, found in `batch` by name. A column that the
/// file lacks is NULL, as for a Java reader; that is an error only where NULL is no value.
///
/// # Errors
/// Corrupt when a column is missing or holds something else than its type.
pub(crate) fn conform_batch(batch: &RecordBatch, fields: &[DataField], schema: &SchemaRef) -> Result<RecordBatch> {
    let mut columns = Vec::with_capacity(fields.len());
    for field in fields {
        let column = match batch.column_by_name(&field.name) {
            Some(column) => conform(column, &field.data_type, Place::Column)
                .map_err(|error| error.with("column", field.name.clone()))?,
            None if field.data_type.nullable => new_null_array(&field.data_type.to_arrow(), batch.num_rows()),
            None => return Err(Error::corrupt(format!("the file lacks the column {}", field.name))),
        };
        columns.push(column);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
        .map_err(|error| Error::corrupt("the columns of the file do not fit its schema").with_source(error))
}

/// The array in the representation of `data_type` at `place`.
///
/// # Errors
/// Corrupt when the array holds something else than the type, or a value that arrow can't hold in it.
pub(crate) fn conform(array: &ArrayRef, data_type: &DataType, place: Place) -> Result<ArrayRef> {
    let target = place.arrow_type(data_type);
    if array.data_type() == &target {
        return Ok(Arc::clone(array));
    }
    let mismatch = || Error::corrupt(format!("the file holds {} where the schema says {data_type}", array.data_type()));
    match (&data_type.kind, array.data_type()) {
        (_, ArrowType::Null) => Ok(new_null_array(&target, array.len())),
        (_, ArrowType::Dictionary(..) | ArrowType::RunEndEncoded(..)) => {
            let plain = match array.data_type() {
                ArrowType::Dictionary(_, values) => values.as_ref().clone(),
                ArrowType::RunEndEncoded(_, values) => values.data_type().clone(),
                _ => return Err(mismatch()),
            };
            conform(&exact_cast(array, &plain)?, data_type, place)
        }
        (TypeKind::Time(_), from) => conform_time(array, from)?.ok_or_else(mismatch),
        (TypeKind::Timestamp(precision) | TypeKind::TimestampLtz(precision), _) => {
            conform_timestamp(array, *precision, &target)?.ok_or_else(mismatch)
        }
        (TypeKind::Date, ArrowType::Int32) => {
            Ok(Arc::new(array.as_primitive::<Int32Type>().reinterpret_cast::<arrow::datatypes::Date32Type>()))
        }
        (TypeKind::Variant, ArrowType::Struct(_)) => variant::conform_variant(array.as_struct()),
        (TypeKind::Array(element) | TypeKind::Vector(element, _), from) => {
            let list = as_list(array, from)?.ok_or_else(mismatch)?;
            let ArrowType::List(field) = &target else { return Err(mismatch()) };
            let values = conform(list.values(), element, Place::Nested)?;
            Ok(Arc::new(list_of(field, &list, values)?))
        }
        (TypeKind::Map(key, value), from) => conform_map(array, from, key, value, &target)?.ok_or_else(mismatch),
        (TypeKind::Multiset(element), from) => {
            conform_map(array, from, element, &DataType::not_null(TypeKind::Int), &target)?.ok_or_else(mismatch)
        }
        (TypeKind::Row(fields), ArrowType::Struct(_)) => conform_row(array.as_struct(), fields, &target),
        (TypeKind::Row(_), _) => Err(mismatch()),
        (kind, from) if castable(kind, from) => exact_cast(array, &target),
        _ => Err(mismatch()),
    }
}

/// The list with other values of the same length.
pub(crate) fn list_of(field: &FieldRef, list: &ListArray, values: ArrayRef) -> Result<ListArray> {
    ListArray::try_new(Arc::clone(field), list.offsets().clone(), values, list.nulls().cloned())
        .map_err(|error| Error::corrupt("NULL in an array whose elements are NOT NULL").with_source(error))
}

/// The map with other keys and values of the same length.
pub(crate) fn map_of(target: &ArrowType, map: &MapArray, keys: ArrayRef, values: ArrayRef) -> Result<MapArray> {
    let ArrowType::Map(entries, _) = target else {
        return Err(Error::internal(format!("{target} is not a map")));
    };
    let ArrowType::Struct(fields) = entries.data_type() else {
        return Err(Error::internal(format!("{target} has no entries")));
    };
    let structs = struct_of(fields, vec![keys, values], None, map.entries().len())?;
    MapArray::try_new(Arc::clone(entries), map.offsets().clone(), structs, map.nulls().cloned(), false)
        .map_err(|error| Error::corrupt("a map does not follow its type").with_source(error))
}

/// A struct from its columns.
pub(crate) fn struct_of(
    fields: &Fields,
    columns: Vec<ArrayRef>,
    nulls: Option<arrow::buffer::NullBuffer>,
    length: usize,
) -> Result<StructArray> {
    StructArray::try_new_with_length(fields.clone(), columns, nulls, length)
        .map_err(|error| Error::corrupt("a row does not follow its type").with_source(error))
}

fn castable(kind: &TypeKind, from: &ArrowType) -> bool {
    match kind {
        TypeKind::TinyInt | TypeKind::SmallInt | TypeKind::Int | TypeKind::BigInt => from.is_integer(),
        TypeKind::Float => matches!(from, ArrowType::Float16),
        TypeKind::Double => matches!(from, ArrowType::Float16 | ArrowType::Float32),
        TypeKind::Decimal(_, scale) => match from {
            ArrowType::Decimal32(_, found)
            | ArrowType::Decimal64(_, found)
            | ArrowType::Decimal128(_, found)
            | ArrowType::Decimal256(_, found) => i32::from(*found) <= i32::from(*scale),
            _ => false,
        },
        TypeKind::Char(_) | TypeKind::VarChar(_) => matches!(
            from,
            ArrowType::Utf8
                | ArrowType::LargeUtf8
                | ArrowType::Utf8View
                | ArrowType::Binary
                | ArrowType::LargeBinary
                | ArrowType::BinaryView
        ),
        TypeKind::Binary(_)
        | TypeKind::VarBinary(_)
        | TypeKind::Blob
        | TypeKind::Geometry(_)
        | TypeKind::Geography(_) => matches!(
            from,
            ArrowType::Binary
                | ArrowType::LargeBinary
                | ArrowType::BinaryView
                | ArrowType::FixedSizeBinary(_)
                | ArrowType::Utf8
                | ArrowType::LargeUtf8
                | ArrowType::Utf8View
        ),
        TypeKind::Date => matches!(from, ArrowType::Date64),
        _ => false,
    }
}

/// An arrow cast that fails instead of giving NULL.
fn exact_cast(array: &ArrayRef, target: &ArrowType) -> Result<ArrayRef> {
    let options = CastOptions { safe: false, ..Default::default() };
    cast_with_options(array, target, &options)
        .map_err(|error| Error::corrupt(format!("a value does not fit {target}")).with_source(error))
}

fn conform_time(array: &ArrayRef, from: &ArrowType) -> Result<Option<ArrayRef>> {
    let millis: ArrayRef = match from {
        ArrowType::Int32 => Arc::new(array.as_primitive::<Int32Type>().reinterpret_cast::<Time32MillisecondType>()),
        ArrowType::Time32(_) | ArrowType::Time64(_) => exact_cast(array, &ArrowType::Time32(TimeUnit::Millisecond))?,
        _ => return Ok(None),
    };
    Ok(Some(millis))
}

/// Ticks of any timestamp array, and how many of them make a second. The zone is ignored: NTZ is kept as if it were UTC, and
/// Avro names the two the other way round.
pub(crate) fn timestamp_ticks(array: &dyn Array) -> Option<(Int64Array, i64)> {
    let ArrowType::Timestamp(unit, _) = array.data_type() else { return None };
    Some(match unit {
        TimeUnit::Second => (array.as_primitive::<TimestampSecondType>().reinterpret_cast(), 1),
        TimeUnit::Millisecond => (array.as_primitive::<TimestampMillisecondType>().reinterpret_cast(), 1_000),
        TimeUnit::Microsecond => (array.as_primitive::<TimestampMicrosecondType>().reinterpret_cast(), 1_000_000),
        TimeUnit::Nanosecond => (array.as_primitive::<TimestampNanosecondType>().reinterpret_cast(), 1_000_000_000),
    })
}

/// How many ticks of the arrow unit make a second.
pub(crate) fn ticks_per_second(precision: u8) -> i64 {
    match precision {
        0..=3 => 1_000,
        4..=6 => 1_000_000,
        _ => 1_000_000_000,
    }
}

/// Ticks as the timestamp array of `target`.
pub(crate) fn timestamps_from(ticks: &Int64Array, target: &ArrowType) -> Result<ArrayRef> {
    let ArrowType::Timestamp(unit, zone) = target else {
        return Err(Error::internal(format!("{target} is not a timestamp")));
    };
    let zone = zone.clone();
    fn typed<T: arrow::datatypes::ArrowTimestampType>(ticks: &Int64Array) -> PrimitiveArray<T> {
        ticks.reinterpret_cast::<T>()
    }
    Ok(match unit {
        TimeUnit::Second => Arc::new(typed::<TimestampSecondType>(ticks).with_timezone_opt(zone)),
        TimeUnit::Millisecond => Arc::new(typed::<TimestampMillisecondType>(ticks).with_timezone_opt(zone)),
        TimeUnit::Microsecond => Arc::new(typed::<TimestampMicrosecondType>(ticks).with_timezone_opt(zone)),
        TimeUnit::Nanosecond => Arc::new(typed::<TimestampNanosecondType>(ticks).with_timezone_opt(zone)),
    })
}

/// The error for an instant beyond what arrow's nanoseconds hold (1677-09-21 to 2262-04-11): never a wrapped value.
pub(crate) fn beyond_arrow(what: impl std::fmt::Display) -> Error {
    Error::unsupported(format!(
        "a timestamp of more than 6 digits lies beyond the range of 64-bit nanoseconds (years 1678 to 2261): {what}"
    ))
}

fn conform_timestamp(array: &ArrayRef, precision: u8, target: &ArrowType) -> Result<Option<ArrayRef>> {
    let wanted = ticks_per_second(precision);
    let ticks: Int64Array = if let Some((ticks, found)) = timestamp_ticks(array) {
        rescale(&ticks, found, wanted)?
    } else {
        match array.data_type() {
            // The ORC reader's exact form: nanoseconds as DECIMAL(38, 9).
            ArrowType::Decimal128(_, 9) => {
                let nanos: &Decimal128Array = array.as_primitive();
                let divisor = i128::from(1_000_000_000 / wanted);
                nanos.try_unary::<_, arrow::datatypes::Int64Type, Error>(|value| {
                    i64::try_from(value.div_euclid(divisor))
                        .map_err(|_| beyond_arrow(format!("{value} ns since 1970-01-01")))
                })?
            }
            // An Avro long without a logical type.
            ArrowType::Int64 => array.as_primitive::<arrow::datatypes::Int64Type>().clone(),
            _ => return Ok(None),
        }
    };
    timestamps_from(&ticks, target).map(Some)
}

/// Ticks in another unit; towards the past where digits are lost.
fn rescale(ticks: &Int64Array, found: i64, wanted: i64) -> Result<Int64Array> {
    if found == wanted {
        return Ok(ticks.clone());
    }
    if found > wanted {
        let divisor = found / wanted;
        return Ok(ticks.unary(|value| value.div_euclid(divisor)));
    }
    let factor = wanted / found;
    ticks.try_unary(|value| {
        value.checked_mul(factor).ok_or_else(|| beyond_arrow(format!("{value} ticks of 1/{found} s since 1970-01-01")))
    })
}

fn as_list(array: &ArrayRef, from: &ArrowType) -> Result<Option<ListArray>> {
    Ok(Some(match from {
        ArrowType::List(_) => array.as_list::<i32>().clone(),
        ArrowType::LargeList(field) => exact_cast(array, &ArrowType::List(Arc::clone(field)))?.as_list::<i32>().clone(),
        ArrowType::FixedSizeList(field, _) => {
            let fixed: &FixedSizeListArray = array.as_fixed_size_list();
            let list: ArrayRef = Arc::new(fixed.clone());
            exact_cast(&list, &ArrowType::List(Arc::clone(field)))?.as_list::<i32>().clone()
        }
        _ => return Ok(None),
    }))
}

fn conform_map(
    array: &ArrayRef,
    from: &ArrowType,
    key: &DataType,
    value: &DataType,
    target: &ArrowType,
) -> Result<Option<ArrayRef>> {
    let map = match from {
        ArrowType::Map(..) => array.as_map().clone(),
        // Avro: an array of records of key and value, where the keys are no text.
        ArrowType::List(element) => {
            let ArrowType::Struct(fields) = element.data_type() else { return Ok(None) };
            let [key_field, value_field] = fields.as_ref() else { return Ok(None) };
            let list = array.as_list::<i32>();
            let entries = list.values().as_struct();
            let key_field = Field::new("key", key_field.data_type().clone(), false);
            let fields = Fields::from(vec![Arc::new(key_field), Arc::clone(value_field)]);
            let structs = struct_of(&fields, entries.columns().to_vec(), None, entries.len())?;
            let entries = Arc::new(Field::new("entries", ArrowType::Struct(fields), false));
            MapArray::try_new(entries, list.offsets().clone(), structs, list.nulls().cloned(), false)
                .map_err(|error| Error::corrupt("a map does not follow its type").with_source(error))?
        }
        _ => return Ok(None),
    };
    let keys = conform(map.keys(), key, Place::Nested)?;
    let values = conform(map.values(), value, Place::Nested)?;
    Ok(Some(Arc::new(map_of(target, &map, keys, values)?)))
}

fn conform_row(array: &StructArray, fields: &[DataField], target: &ArrowType) -> Result<ArrayRef> {
    let ArrowType::Struct(arrow_fields) = target else {
        return Err(Error::internal(format!("{target} is not a row")));
    };
    let mut columns = Vec::with_capacity(fields.len());
    for field in fields {
        let column = match array.column_by_name(&field.name) {
            Some(column) => conform(column, &field.data_type, Place::Nested)
                .map_err(|error| error.with("field", field.name.clone()))?,
            None if field.data_type.nullable => new_null_array(&field.data_type.to_arrow_nested(), array.len()),
            None => return Err(Error::corrupt(format!("the file lacks the field {} of a row", field.name))),
        };
        columns.push(column);
    }
    Ok(Arc::new(struct_of(arrow_fields, columns, array.nulls().cloned(), array.len())?))
}

/// The text of a float as Java gives it: plain digits from 0.001 to below ten million, else one digit before the point and an
/// exponent. `shortest` is the shortest digits that read back, as Rust's `{:e}` writes them.
pub(crate) fn float_text(value: f64, shortest: &str, out: &mut String) {
    if value.is_nan() {
        return out.push_str("NaN");
    }
    if value.is_infinite() {
        return out.push_str(if value > 0.0 { "Infinity" } else { "-Infinity" });
    }
    let (sign, rest) = match shortest.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", shortest),
    };
    out.push_str(sign);
    let (mantissa, exponent) = rest.split_once('e').unwrap_or((rest, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let magnitude = value.abs();
    if magnitude == 0.0 {
        return out.push_str("0.0");
    }
    if (1e-3..1e7).contains(&magnitude) {
        if exponent < 0 {
            out.push_str("0.");
            out.extend(std::iter::repeat_n('0', (-exponent - 1) as usize));
            out.push_str(&digits);
        } else {
            let whole = exponent as usize + 1;
            let padded = format!("{digits:0<whole$}");
            let (before, after) = padded.split_at(whole);
            out.push_str(before);
            out.push('.');
            out.push_str(if after.is_empty() { "0" } else { after });
        }
        return;
    }
    let (first, others) = digits.split_at(1);
    let _ = write!(out, "{first}.{}E{exponent}", if others.is_empty() { "0" } else { others });
}
