//! Rows whose fields have no names of their column's, which become it by their places: `struct(1, 'a')` for `ROW<x INT, y STRING>`,
//! as in Flink and Spark. The engine casts by names only.
//!
//! Imports the engine's functions.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, make_array};
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::whole::share_names;

/// `value` with the names of `to` for fields that become those by their places.
pub(crate) fn by_position(value: Expr, given: &DataType, to: &DataType) -> Expr {
    let named = named(given, to);
    if named == *given {
        return value;
    }
    ScalarUDF::from(ByPosition { named, signature: Signature::any(1, Volatility::Immutable) }).call(vec![value])
}

/// `given` with the names of `to` where no field of a row has one of them and there are as many.
fn named(given: &DataType, to: &DataType) -> DataType {
    let inside = |given: &FieldRef, to: &FieldRef| -> FieldRef {
        Arc::new(given.as_ref().clone().with_data_type(named(given.data_type(), to.data_type())))
    };
    match (given, to) {
        (DataType::Struct(given), DataType::Struct(to)) if given.len() == to.len() && !share_names(given, to) => {
            let field = |(given, to): (&FieldRef, &FieldRef)| inside(given, to).as_ref().clone().with_name(to.name());
            DataType::Struct(given.iter().zip(to).map(field).collect())
        }
        (DataType::List(given), DataType::List(to)) => DataType::List(inside(given, to)),
        (DataType::Map(given, sorted), DataType::Map(to, _)) => DataType::Map(inside(given, to), *sorted),
        (given, _) => given.clone(),
    }
}

/// The function that gives fields other names.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ByPosition {
    named: DataType,
    signature: Signature,
}

impl ScalarUDFImpl for ByPosition {
    fn name(&self) -> &'static str {
        "by_position"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.named.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value] = args.args.as_slice() else { return exec_err!("by_position takes one argument") };
        Ok(match value {
            ColumnarValue::Scalar(value) => {
                ColumnarValue::Scalar(ScalarValue::try_from_array(&renamed(&value.to_array()?, &self.named)?, 0)?)
            }
            ColumnarValue::Array(values) => ColumnarValue::Array(renamed(values, &self.named)?),
        })
    }
}

/// The same values, of a type that differs in the names of fields alone.
fn renamed(values: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let children = |fields: Vec<&FieldRef>| {
        let data = values.to_data();
        let children = data.child_data().iter().zip(fields);
        let children =
            children.map(|(child, field)| Ok(renamed(&make_array(child.clone()), field.data_type())?.to_data()));
        Ok::<_, datafusion::error::DataFusionError>((data.clone(), children.collect::<Result<Vec<_>>>()?))
    };
    let (data, children) = match to {
        DataType::Struct(fields) => children(fields.iter().collect())?,
        DataType::List(element) | DataType::Map(element, _) => children(vec![element])?,
        _ => return Ok(Arc::clone(values)),
    };
    Ok(make_array(data.into_builder().data_type(to.clone()).child_data(children).build()?))
}

#[cfg(test)]
mod tests {
    use arrow::array::{AsArray, Int32Array, StructArray};
    use arrow::datatypes::Field;

    use super::*;

    fn row(names: [&str; 2]) -> DataType {
        DataType::Struct(names.map(|name| Field::new(name, DataType::Int32, true)).to_vec().into())
    }

    #[test]
    fn named_when_a_name_is_the_same_then_names_count_and_else_places() {
        assert_eq!(named(&row(["c0", "c1"]), &row(["x", "y"])), row(["x", "y"]));
        assert_eq!(named(&row(["y", "x"]), &row(["x", "y"])), row(["y", "x"]));
        assert_eq!(named(&row(["x", "z"]), &row(["x", "y"])), row(["x", "z"]));
    }

    #[test]
    fn renamed_when_values_are_sliced_then_they_stay_the_same() {
        let column = |from: i32| Arc::new(Int32Array::from(vec![from, from + 1, from + 2])) as ArrayRef;
        let DataType::Struct(fields) = row(["c0", "c1"]) else { panic!("a row") };
        let values: ArrayRef = Arc::new(StructArray::new(fields, vec![column(1), column(5)], None));
        let other = renamed(&values.slice(1, 2), &row(["x", "y"])).unwrap();
        assert_eq!(other.data_type(), &row(["x", "y"]));
        assert_eq!(other.as_struct().column(1).as_ref(), &Int32Array::from(vec![6, 7]));
    }
}
