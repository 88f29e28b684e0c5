//! Numbers with a fraction on their way into a column of whole numbers.
//!
//! The engine cuts the fraction off. A value that is none of its column fails the statement; who wants it cut, or rounded, says
//! so: `CAST(x AS INT)`, `round(x)`.
//!
//! Imports `strict`'s words for values and the engine's functions.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Decimal128Type, FieldRef, Fields, Float32Type, Float64Type};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};

use super::conversions::shown;
use super::strict::no_value;
use crate::error::Error;

/// `value`, which fails where it has a fraction and the column takes none.
pub(crate) fn whole_numbers(value: Expr, given: &DataType, to: &DataType, column: &str, table: &str) -> Expr {
    if !may_lose_fractions(given, to) {
        return value;
    }
    let signature = Signature::any(1, Volatility::Immutable);
    let whole = WholeNumbers { column: column.to_owned(), table: table.to_owned(), into: to.clone(), signature };
    ScalarUDF::from(whole).call(vec![value])
}

/// Whether values of `given` can have fractions, somewhere inside, that `to` has no place for.
fn may_lose_fractions(given: &DataType, to: &DataType) -> bool {
    match (given, to) {
        (DataType::Float32 | DataType::Float64, to) => to.is_integer(),
        (DataType::Decimal128(_, scale), to) => *scale > 0 && to.is_integer(),
        (DataType::List(given), DataType::List(to)) | (DataType::Map(given, _), DataType::Map(to, _)) => {
            may_lose_fractions(given.data_type(), to.data_type())
        }
        (DataType::Struct(given), DataType::Struct(to)) => {
            fields_of(given, to).any(|(at, to)| may_lose_fractions(given[at].data_type(), to.data_type()))
        }
        _ => false,
    }
}

/// The fields of `to` with the places of those of `given` that become them: by name where some have the same, else by position.
pub(super) fn fields_of<'a>(given: &'a Fields, to: &'a Fields) -> impl Iterator<Item = (usize, &'a FieldRef)> {
    let by_name = share_names(given, to);
    to.iter().enumerate().filter_map(move |(at, field)| {
        let place = if by_name { given.iter().position(|given| given.name() == field.name()) } else { Some(at) };
        place.filter(|place| *place < given.len()).map(|place| (place, field))
    })
}

/// Whether some fields of both are of one name.
pub(super) fn share_names(given: &Fields, to: &Fields) -> bool {
    given.iter().any(|given| to.iter().any(|to| to.name() == given.name()))
}

/// What is looked at where `expr` is such a value.
pub(super) fn looked_at(expr: &dyn PhysicalExpr) -> Option<&Arc<dyn PhysicalExpr>> {
    let call = expr.downcast_ref::<ScalarFunctionExpr>()?;
    call.fun().inner().downcast_ref::<WholeNumbers>()?;
    call.args().first()
}

/// Whether a value has a fraction, somewhere inside, that `to` has no place for.
pub(super) fn has_fraction(values: &dyn Array, to: &DataType, row: usize) -> bool {
    if values.is_null(row) {
        return false;
    }
    let any = |values: &dyn Array, to: &DataType| (0..values.len()).any(|row| has_fraction(values, to, row));
    match (values.data_type(), to) {
        (DataType::Float32, to) if to.is_integer() => {
            let value = values.as_primitive::<Float32Type>().value(row);
            value.is_finite() && value.fract() != 0.0
        }
        (DataType::Float64, to) if to.is_integer() => {
            let value = values.as_primitive::<Float64Type>().value(row);
            value.is_finite() && value.fract() != 0.0
        }
        (DataType::List(_), DataType::List(to)) => any(&values.as_list::<i32>().value(row), to.data_type()),
        (DataType::Map(..), DataType::Map(to, _)) => any(&values.as_map().value(row), to.data_type()),
        (DataType::Struct(given), DataType::Struct(to)) => {
            let columns = values.as_struct().columns();
            fields_of(given, to).any(|(at, to)| has_fraction(&columns[at], to.data_type(), row))
        }
        (DataType::Decimal128(_, scale), to) if to.is_integer() => {
            match u32::try_from(*scale).ok().and_then(|scale| 10_i128.checked_pow(scale)) {
                Some(unit) => values.as_primitive::<Decimal128Type>().value(row) % unit != 0,
                None => false,
            }
        }
        _ => false,
    }
}

/// The function that looks, and gives what it is given.
#[derive(Debug, PartialEq, Eq, Hash)]
struct WholeNumbers {
    column: String,
    table: String,
    /// The column's type.
    into: DataType,
    signature: Signature,
}

impl ScalarUDFImpl for WholeNumbers {
    fn name(&self) -> &'static str {
        "whole_numbers"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments {
            [argument] => Ok(argument.clone()),
            _ => exec_err!("whole_numbers takes one argument"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value] = args.args.as_slice() else { return exec_err!("whole_numbers takes one argument") };
        let values: ArrayRef = match value {
            ColumnarValue::Scalar(value) => value.to_array()?,
            ColumnarValue::Array(values) => Arc::clone(values),
        };
        match (0..values.len()).find(|row| has_fraction(values.as_ref(), &self.into, *row)) {
            Some(row) => {
                let message = no_value(&self.column, &shown(&self.into), &values, row);
                Err(Error::invalid(format!("{message}; CAST cuts the fraction, round rounds it"))
                    .with("table", self.table.clone())
                    .into())
            }
            None => Ok(value.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Decimal128Array, Float64Array, ListArray};
    use arrow::datatypes::Field;

    use super::*;

    #[test]
    fn has_fraction_when_numbers_are_whole_or_none_then_false() {
        let floats = Float64Array::from(vec![Some(1.0), Some(-2.5), None, Some(f64::NAN), Some(1e300)]);
        let found: Vec<bool> = (0..floats.len()).map(|row| has_fraction(&floats, &DataType::Int32, row)).collect();
        assert_eq!(found, [false, true, false, false, false]);
        let exact = Decimal128Array::from(vec![150, 200, -1]).with_precision_and_scale(5, 2).unwrap();
        let found: Vec<bool> = (0..exact.len()).map(|row| has_fraction(&exact, &DataType::Int64, row)).collect();
        assert_eq!(found, [true, false, true]);
    }

    #[test]
    fn has_fraction_when_it_is_inside_then_only_where_it_is_lost() {
        let list = |element| DataType::List(Arc::new(Field::new("element", element, true)));
        let values = ListArray::from_iter_primitive::<Float64Type, _, _>([Some([Some(1.0)]), Some([Some(1.5)]), None]);
        let found = |to: &DataType| (0..3).map(|row| has_fraction(&values, to, row)).collect::<Vec<_>>();
        assert_eq!(found(&list(DataType::Int32)), [false, true, false]);
        assert_eq!(found(&list(DataType::Float32)), [false, false, false]);
        assert!(may_lose_fractions(values.data_type(), &list(DataType::Int32)));
        assert!(!may_lose_fractions(values.data_type(), &list(DataType::Float32)));
    }
}
