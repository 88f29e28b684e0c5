//! Default values of columns: text in the schema, filled in when rows are written (`spec/metadata.md 2.7`).
//!
//! May import: `error`, `format`, `read`, `spec`.

use std::sync::Arc;

use arrow::array::{ArrayRef, StringViewArray};

use crate::error::{Error, Result};
use crate::format::conform::Place;
use crate::read::evolution::cast::cast;
use crate::spec::{DataField, DataType, TypeKind};

/// The default value of a column, as an array of one row.
///
/// # Errors
/// Invalid when the text is no value of the column's type.
pub fn default_value(field: &DataField) -> Result<Option<ArrayRef>> {
    let Some(text) = &field.default_value else { return Ok(None) };
    let named = |error: Error| {
        Error::invalid(format!("the default value '{text}' of column {} is no {}", field.name, field.data_type))
            .with_source(error)
    };
    let array: ArrayRef = Arc::new(StringViewArray::from(vec![text.as_str()]));
    if matches!(field.data_type.kind, TypeKind::VarChar(_)) {
        return Ok(Some(array));
    }
    cast(&array, &DataType::string(), &field.data_type, Place::Column).map(Some).map_err(named)
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;
    use arrow::datatypes::Int32Type;

    use super::*;

    #[test]
    fn default_value_when_text_is_of_the_type_then_one_row_else_error() {
        let mut field = DataField::new(0, "a", DataType::nullable(TypeKind::Int));
        assert!(default_value(&field).unwrap().is_none());
        field.default_value = Some("7".to_owned());
        assert_eq!(default_value(&field).unwrap().unwrap().as_primitive::<Int32Type>().value(0), 7);
        field.default_value = Some("x".to_owned());
        assert!(default_value(&field).unwrap_err().to_string().contains("column a"));
    }
}
