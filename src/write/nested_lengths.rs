//! Text and bytes inside of ARRAY, MAP, MULTISET and ROW that are longer than their type allows (`spec/data.md 12`).
//!
//! May import: `spec`.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::DataType as ArrowType;

use crate::spec::{DataType, TypeKind};

/// A value that is too long: what it is, and how long.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong {
    /// The beginning of the value.
    pub value: String,
    /// `5 characters`
    pub length: String,
    /// The type that holds less.
    pub data_type: String,
}

/// Whether values of a type have lengths somewhere inside.
pub(super) fn has_lengths_inside(data_type: &DataType) -> bool {
    let limited = |inner: &DataType| length(inner).is_some() || has_lengths_inside(inner);
    match &data_type.kind {
        TypeKind::Array(element) | TypeKind::Multiset(element) => limited(element),
        TypeKind::Map(key, value) => limited(key) || limited(value),
        TypeKind::Row(fields) => fields.iter().any(|field| limited(&field.data_type)),
        _ => false,
    }
}

/// The most characters or bytes of a type, and whether it is text.
fn length(data_type: &DataType) -> Option<(usize, bool)> {
    let (length, text) = match data_type.kind {
        TypeKind::Char(length) | TypeKind::VarChar(length) => (length, true),
        TypeKind::Binary(length) | TypeKind::VarBinary(length) => (length, false),
        _ => return None,
    };
    let length = length as usize;
    (length < i32::MAX as usize).then_some((length, text))
}

/// The first value that is too long, of those inside of `values`.
pub(super) fn too_long(values: &ArrayRef, data_type: &DataType) -> Option<TooLong> {
    if let Some((most, text)) = length(data_type) {
        return if text {
            too_many_characters(values, most, data_type)
        } else {
            too_many_bytes(values, most, data_type)
        };
    }
    if !has_lengths_inside(data_type) {
        return None;
    }
    match &data_type.kind {
        TypeKind::Array(element) => {
            let list = values.as_list_opt::<i32>()?;
            let (first, last) = (*list.offsets().first()? as usize, *list.offsets().last()? as usize);
            too_long(&list.values().slice(first, last - first), element)
        }
        TypeKind::Multiset(element) => entries(values, 0).and_then(|keys| too_long(&keys, element)),
        TypeKind::Map(key, value) => entries(values, 0)
            .and_then(|keys| too_long(&keys, key))
            .or_else(|| entries(values, 1).and_then(|values| too_long(&values, value))),
        TypeKind::Row(fields) => {
            let row = values.as_struct_opt()?;
            fields.iter().zip(row.columns()).find_map(|(field, column)| too_long(column, &field.data_type))
        }
        _ => None,
    }
}

/// The keys (0) or values (1) of maps.
fn entries(values: &ArrayRef, column: usize) -> Option<ArrayRef> {
    let map = values.as_map_opt()?;
    let (first, last) = (*map.offsets().first()? as usize, *map.offsets().last()? as usize);
    Some(map.entries().columns().get(column)?.slice(first, last - first))
}

fn too_many_characters(values: &ArrayRef, most: usize, data_type: &DataType) -> Option<TooLong> {
    let is_long = |text: &str| text.len() > most && text.chars().count() > most;
    let found = match values.data_type() {
        ArrowType::Utf8 => values.as_string::<i32>().iter().flatten().find(|text| is_long(text)),
        ArrowType::Utf8View => values.as_string_view().iter().flatten().find(|text| is_long(text)),
        _ => None,
    }?;
    Some(TooLong {
        value: found.chars().take(40).collect(),
        length: format!("{} characters", found.chars().count()),
        data_type: shown(data_type),
    })
}

fn too_many_bytes(values: &ArrayRef, most: usize, data_type: &DataType) -> Option<TooLong> {
    let found = match values.data_type() {
        ArrowType::Binary => values.as_binary::<i32>().iter().flatten().find(|bytes| bytes.len() > most),
        ArrowType::BinaryView => values.as_binary_view().iter().flatten().find(|bytes| bytes.len() > most),
        _ => None,
    }?;
    let value = found.iter().take(20).map(|byte| format!("{byte:02x}")).collect();
    Some(TooLong { value, length: format!("{} bytes", found.len()), data_type: shown(data_type) })
}

fn shown(data_type: &DataType) -> String {
    DataType { kind: data_type.kind.clone(), nullable: true }.to_string()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ListArray, StringArray, StructArray};
    use arrow::datatypes::{Field, Int32Type};

    use super::*;
    use crate::spec::DataField;

    #[test]
    fn too_long_when_text_is_deep_inside_then_it_is_found_and_what_is_sliced_away_is_not() {
        let text = DataType::nullable(TypeKind::VarChar(2));
        let row = DataType::nullable(TypeKind::Row(vec![DataField::new(0, "a", text.clone())]));
        let values: ArrayRef = Arc::new(StringArray::from(vec!["äö", "abc"]));
        let rows: ArrayRef =
            Arc::new(StructArray::from(vec![(Arc::new(Field::new("a", ArrowType::Utf8, true)), values)]));
        assert!(has_lengths_inside(&row));
        assert_eq!(too_long(&rows.slice(0, 1), &row), None);
        let found = too_long(&rows, &row).unwrap();
        assert_eq!(
            (found.value.as_str(), found.length.as_str(), found.data_type.as_str()),
            ("abc", "3 characters", "VARCHAR(2)")
        );
        let numbers: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>([Some([Some(1)])]));
        let array = DataType::nullable(TypeKind::Array(Box::new(DataType::nullable(TypeKind::Int))));
        assert!(!has_lengths_inside(&array));
        assert_eq!(too_long(&numbers, &array), None);
    }
}
