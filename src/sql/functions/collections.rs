//! Flink's functions that make maps and multisets: `STR_TO_MAP(text [, between entries, between key and value])`, and the
//! multiset of an array, which the front end writes for `COLLECT(x)`.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::builder::{MapBuilder, StringBuilder};
use arrow::array::{Array, ArrayRef, Int32Array, MapArray, StructArray, UInt32Array};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, Field, Fields};
use arrow::row::{RowConverter, SortField};
use datafusion::common::cast::{as_list_array, as_string_array};
use datafusion::common::{exec_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

fn map_type(key: &DataType, value: &DataType) -> DataType {
    let fields = Fields::from(vec![Field::new("key", key.clone(), false), Field::new("value", value.clone(), true)]);
    DataType::Map(Arc::new(Field::new("entries", DataType::Struct(fields), false)), false)
}

/// `str_to_map`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct StrToMap {
    signature: Signature,
}

impl StrToMap {
    pub(super) fn new() -> Self {
        let texts = |count| datafusion::logical_expr::TypeSignature::String(count);
        Self { signature: Signature::one_of(vec![texts(1), texts(3)], Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for StrToMap {
    fn name(&self) -> &str {
        "str_to_map"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(map_type(&DataType::Utf8, &DataType::Utf8))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let texts = arrays.iter().map(|array| Ok(cast(array, &DataType::Utf8)?)).collect::<Result<Vec<_>>>()?;
        let column = |i: usize| texts.get(i).map(|texts| as_string_array(texts)).transpose();
        let Some(text) = column(0)? else { return exec_err!("str_to_map takes a text") };
        let (between, within) = (column(1)?, column(2)?);
        let mut maps = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
        for row in 0..text.len() {
            let separator = |array: Option<&arrow::array::StringArray>, usual: &str| match array {
                None => Some(usual.to_owned()),
                Some(array) => (!array.is_null(row)).then(|| array.value(row).to_owned()),
            };
            let (Some(between), Some(within)) = (separator(between, ","), separator(within, "=")) else {
                maps.append(false)?;
                continue;
            };
            if text.is_null(row) {
                maps.append(false)?;
                continue;
            }
            let mut seen: Vec<(&str, &str)> = Vec::new();
            // What has no value is no entry; of a key that comes again the last value counts.
            for (key, value) in
                text.value(row).split(between.as_str()).filter_map(|entry| entry.split_once(within.as_str()))
            {
                match seen.iter_mut().find(|(known, _)| *known == key) {
                    Some((_, known)) => *known = value,
                    None => seen.push((key, value)),
                }
            }
            for (key, value) in seen {
                maps.keys().append_value(key);
                maps.values().append_value(value);
            }
            maps.append(true)?;
        }
        let maps: ArrayRef = Arc::new(maps.finish());
        Ok(ColumnarValue::Array(cast(&maps, &map_type(&DataType::Utf8, &DataType::Utf8))?))
    }
}

/// `flink_multiset(array)`: how often each element is in it. NULL elements are not counted.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Multiset {
    signature: Signature,
}

impl Multiset {
    pub(super) fn new() -> Self {
        Self { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Multiset {
    fn name(&self) -> &str {
        "flink_multiset"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments {
            [DataType::List(element)] => Ok(map_type(element.data_type(), &DataType::Int32)),
            _ => plan_err!("flink_multiset takes an array, not {arguments:?}"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let [array] = arrays.as_slice() else { return exec_err!("flink_multiset takes one argument") };
        let lists = as_list_array(array)?;
        let values = lists.values();
        let converter = RowConverter::new(vec![SortField::new(values.data_type().clone())])?;
        let rows = converter.convert_columns(&[Arc::clone(values)])?;
        let (mut places, mut counts, mut lengths) = (Vec::new(), Vec::new(), Vec::new());
        for list in 0..lists.len() {
            let (start, end) = (lists.value_offsets()[list] as usize, lists.value_offsets()[list + 1] as usize);
            let first = places.len();
            let mut known = HashMap::new();
            for place in (start..end).filter(|place| !lists.is_null(list) && !values.is_null(*place)) {
                let at = *known.entry(rows.row(place)).or_insert_with(|| {
                    places.push(place as u32);
                    counts.push(0);
                    counts.len() - 1
                });
                counts[at] += 1;
            }
            lengths.push(places.len() - first);
        }
        let keys = take(values, &UInt32Array::from(places), None)?;
        let DataType::Map(entries, _) = map_type(values.data_type(), &DataType::Int32) else {
            return exec_err!("flink_multiset gives no map");
        };
        let DataType::Struct(fields) = entries.data_type() else { return exec_err!("a map has no entries") };
        let columns: Vec<ArrayRef> = vec![keys, Arc::new(Int32Array::from(counts))];
        let pairs = StructArray::try_new(fields.clone(), columns, None)?;
        let offsets = OffsetBuffer::from_lengths(lengths);
        let maps = MapArray::try_new(Arc::clone(&entries), offsets, pairs, lists.nulls().cloned(), false)?;
        Ok(ColumnarValue::Array(Arc::new(maps)))
    }
}
