//! `CARDINALITY(array)` and `CARDINALITY(map)`: the elements of the outer level, where the engine counts those of all levels.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int32Array, OffsetSizeTrait};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::DataType;
use datafusion::common::cast::{as_fixed_size_list_array, as_large_list_array, as_list_array, as_map_array};
use datafusion::common::{exec_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Cardinality {
    signature: Signature,
}

impl Cardinality {
    pub(super) fn new() -> Self {
        Self { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Cardinality {
    fn name(&self) -> &str {
        "cardinality"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments {
            [
                DataType::List(_)
                | DataType::LargeList(_)
                | DataType::FixedSizeList(..)
                | DataType::Map(..)
                | DataType::Null,
            ] => Ok(DataType::Int32),
            _ => plan_err!("cardinality takes an array or a map, not {arguments:?}"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let [array] = arrays.as_slice() else { return exec_err!("cardinality takes one argument") };
        let counts: ArrayRef = match array.data_type() {
            DataType::List(_) => counts(array, as_list_array(array)?.offsets()),
            DataType::LargeList(_) => counts(array, as_large_list_array(array)?.offsets()),
            DataType::Map(..) => counts(array, as_map_array(array)?.offsets()),
            DataType::FixedSizeList(..) => {
                let length = as_fixed_size_list_array(array)?.value_length();
                Arc::new(Int32Array::new(vec![length; array.len()].into(), array.nulls().cloned()))
            }
            DataType::Null => Arc::new(Int32Array::new_null(array.len())),
            other => return exec_err!("cardinality takes an array or a map, not {other}"),
        };
        Ok(ColumnarValue::Array(counts))
    }
}

fn counts<O: OffsetSizeTrait>(array: &ArrayRef, offsets: &OffsetBuffer<O>) -> ArrayRef {
    let lengths: Vec<i32> = offsets.lengths().map(|length| i32::try_from(length).unwrap_or(i32::MAX)).collect();
    Arc::new(Int32Array::new(lengths.into(), array.nulls().cloned()))
}
