//! Numbers with a fraction on their way into a column of whole numbers.
//!
//! The engine cuts the fraction off. A value that is none of its column fails the statement; who wants it cut, or rounded, says
//! so: `CAST(x AS INT)`, `round(x)`.
//!
//! Imports `strict`'s words for values and the engine's functions.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Decimal128Type, Float32Type, Float64Type};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};

use super::strict::no_value;
use crate::error::Error;

/// `value`, which fails where it has a fraction and the column takes none.
pub(crate) fn whole_numbers(value: Expr, given: &DataType, to: &DataType, column: &str, table: &str) -> Expr {
    let has_fractions = match given {
        DataType::Float32 | DataType::Float64 => true,
        DataType::Decimal128(_, scale) => *scale > 0,
        _ => false,
    };
    if !has_fractions || !to.is_integer() {
        return value;
    }
    let into = super::conversions::shown(to);
    let signature = Signature::any(1, Volatility::Immutable);
    let whole = WholeNumbers { column: column.to_owned(), table: table.to_owned(), into, signature };
    ScalarUDF::from(whole).call(vec![value])
}

/// What is looked at where `expr` is such a value.
pub(super) fn looked_at(expr: &dyn PhysicalExpr) -> Option<&Arc<dyn PhysicalExpr>> {
    let call = expr.downcast_ref::<ScalarFunctionExpr>()?;
    call.fun().inner().downcast_ref::<WholeNumbers>()?;
    call.args().first()
}

/// Whether a value has a fraction.
pub(super) fn has_fraction(values: &dyn Array, row: usize) -> bool {
    if values.is_null(row) {
        return false;
    }
    match values.data_type() {
        DataType::Float32 => {
            let value = values.as_primitive::<Float32Type>().value(row);
            value.is_finite() && value.fract() != 0.0
        }
        DataType::Float64 => {
            let value = values.as_primitive::<Float64Type>().value(row);
            value.is_finite() && value.fract() != 0.0
        }
        DataType::Decimal128(_, scale) => match u32::try_from(*scale).ok().and_then(|scale| 10_i128.checked_pow(scale))
        {
            Some(unit) => values.as_primitive::<Decimal128Type>().value(row) % unit != 0,
            None => false,
        },
        _ => false,
    }
}

/// The function that looks, and gives what it is given.
#[derive(Debug, PartialEq, Eq, Hash)]
struct WholeNumbers {
    column: String,
    table: String,
    /// The column's type, as SQL writes it.
    into: String,
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
        match (0..values.len()).find(|row| has_fraction(values.as_ref(), *row)) {
            Some(row) => {
                let message = no_value(&self.column, &self.into, &values, row);
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
    use arrow::array::{Decimal128Array, Float64Array};

    use super::*;

    #[test]
    fn has_fraction_when_numbers_are_whole_or_none_then_false() {
        let floats = Float64Array::from(vec![Some(1.0), Some(-2.5), None, Some(f64::NAN), Some(1e300)]);
        let found: Vec<bool> = (0..floats.len()).map(|row| has_fraction(&floats, row)).collect();
        assert_eq!(found, [false, true, false, false, false]);
        let exact = Decimal128Array::from(vec![150, 200, -1]).with_precision_and_scale(5, 2).unwrap();
        let found: Vec<bool> = (0..exact.len()).map(|row| has_fraction(&exact, row)).collect();
        assert_eq!(found, [true, false, true]);
    }
}
