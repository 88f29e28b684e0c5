//! Values for columns with NOT NULL inside: in the fields of a ROW, the elements of an ARRAY, the values of a MAP.
//!
//! The engine refuses to cast what may be NULL to what may not, whatever the values are. Here the cast goes to the same type
//! without NOT NULL inside, and the values are looked at when they are there.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, FixedSizeListArray, ListArray, MapArray, StructArray};
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{DFSchema, Result, ScalarValue, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// `expr` as a value of exactly the type `target`.
pub(crate) fn cast_exactly(expr: Expr, target: &DataType, schema: &DFSchema) -> Result<Expr> {
    let relaxed = relaxed(target);
    let cast = expr.cast_to(&relaxed, schema)?;
    Ok(if relaxed == *target { cast } else { ScalarUDF::from(NotNullInside::new(target.clone())).call(vec![cast]) })
}

/// Whether a type has NOT NULL inside.
pub(super) fn has_not_null(data_type: &DataType) -> bool {
    relaxed(data_type) != *data_type
}

/// The type without NOT NULL inside. What is never NULL by the format (keys and entries of a MAP) stays so.
fn relaxed(data_type: &DataType) -> DataType {
    let nullable = |field: &FieldRef| {
        Arc::new(field.as_ref().clone().with_data_type(relaxed(field.data_type())).with_nullable(true))
    };
    match data_type {
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(nullable).collect()),
        DataType::List(element) => DataType::List(nullable(element)),
        DataType::FixedSizeList(element, length) => DataType::FixedSizeList(nullable(element), *length),
        DataType::Map(entries, sorted) => match entries.data_type() {
            DataType::Struct(fields) if fields.len() == 2 => {
                let key = fields[0].as_ref().clone().with_data_type(relaxed(fields[0].data_type()));
                let pair = DataType::Struct(vec![Arc::new(key), nullable(&fields[1])].into());
                DataType::Map(Arc::new(entries.as_ref().clone().with_data_type(pair)), *sorted)
            }
            _ => data_type.clone(),
        },
        other => other.clone(),
    }
}

/// The function that looks.
#[derive(Debug, PartialEq, Eq, Hash)]
struct NotNullInside {
    target: DataType,
    signature: Signature,
}

impl NotNullInside {
    fn new(target: DataType) -> Self {
        Self { target, signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for NotNullInside {
    fn name(&self) -> &'static str {
        "not_null_inside"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(self.target.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value] = args.args.as_slice() else { return exec_err!("not_null_inside takes one argument") };
        let array = exactly(&value.to_array(args.number_rows)?, &self.target)?;
        Ok(match value {
            ColumnarValue::Scalar(_) => ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?),
            ColumnarValue::Array(_) => ColumnarValue::Array(array),
        })
    }
}

/// The same values as an array of `target`, which differs in NOT NULL inside alone.
fn exactly(array: &ArrayRef, target: &DataType) -> Result<ArrayRef> {
    if array.data_type() == target {
        return Ok(Arc::clone(array));
    }
    Ok(match target {
        DataType::Struct(fields) => {
            let parts = array.as_struct();
            let columns = fields.iter().zip(parts.columns()).map(|(field, column)| {
                let column = exactly(column, field.data_type())?;
                // Under a ROW that is NULL itself nothing is looked at.
                let missing = (0..column.len()).any(|row| parts.is_valid(row) && column.is_null(row));
                if !field.is_nullable() && missing {
                    return exec_err!("the field {} is NOT NULL, and a value has NULL there", field.name());
                }
                Ok(column)
            });
            Arc::new(StructArray::try_new(fields.clone(), columns.collect::<Result<_>>()?, parts.nulls().cloned())?)
        }
        DataType::List(element) => {
            let list = array.as_list::<i32>();
            let values = elements(list.values(), element)?;
            Arc::new(ListArray::try_new(Arc::clone(element), list.offsets().clone(), values, list.nulls().cloned())?)
        }
        DataType::FixedSizeList(element, length) => {
            let list = array.as_fixed_size_list();
            let values = elements(list.values(), element)?;
            Arc::new(FixedSizeListArray::try_new(Arc::clone(element), *length, values, list.nulls().cloned())?)
        }
        DataType::Map(entries, sorted) => {
            let map = array.as_map();
            let DataType::Struct(fields) = entries.data_type() else { return exec_err!("a map has no entries") };
            let columns = fields.iter().zip(map.entries().columns()).map(|(field, column)| elements(column, field));
            let pairs = StructArray::try_new(fields.clone(), columns.collect::<Result<_>>()?, None)?;
            Arc::new(MapArray::try_new(
                Arc::clone(entries),
                map.offsets().clone(),
                pairs,
                map.nulls().cloned(),
                *sorted,
            )?)
        }
        _ => Arc::clone(array),
    })
}

fn elements(values: &ArrayRef, field: &FieldRef) -> Result<ArrayRef> {
    let values = exactly(values, field.data_type())?;
    if !field.is_nullable() && values.null_count() > 0 {
        return exec_err!("an {} is NOT NULL, and a value has NULL there", field.name());
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use arrow::array::Int32Array;
    use arrow::datatypes::Field;

    use super::*;

    fn row(nullable: bool) -> DataType {
        DataType::Struct(vec![Arc::new(Field::new("x", DataType::Int32, nullable))].into())
    }

    #[test]
    fn relaxed_when_a_type_has_not_null_inside_then_without() {
        let list = |nullable| DataType::List(Arc::new(Field::new("element", row(nullable), nullable)));
        assert_eq!(relaxed(&list(false)), list(true));
        assert!(has_not_null(&list(false)) && !has_not_null(&list(true)));
        assert!(!has_not_null(&DataType::Int32));
    }

    #[test]
    fn exactly_when_a_field_is_null_then_error_unless_the_whole_is() {
        let fields = |nullable| match row(nullable) {
            DataType::Struct(fields) => fields,
            _ => unreachable!(),
        };
        let rows = |values: Vec<Option<i32>>, valid: Vec<bool>| -> ArrayRef {
            let column: ArrayRef = Arc::new(Int32Array::from(values));
            Arc::new(StructArray::new(fields(true), vec![column], Some(valid.into())))
        };
        let fine = exactly(&rows(vec![Some(1), None], vec![true, false]), &row(false)).unwrap();
        assert_eq!((fine.data_type(), fine.null_count()), (&row(false), 1));
        let error = exactly(&rows(vec![Some(1), None], vec![true, true]), &row(false)).unwrap_err();
        assert!(error.to_string().contains("the field x is NOT NULL"), "{error}");
    }
}
