//! The lengths of `CAST(x AS BINARY(n))` and `CAST(x AS VARBINARY(n))`: longer values are cut, and BINARY is filled with zeros.
//! The front end writes calls of it; it is not meant to be called by hand.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BinaryViewBuilder};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::common::cast::as_binary_view_array;
use datafusion::common::{ScalarValue, exec_err};
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

/// `flink_binary(bytes, length, fill)`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct FlinkBinary {
    signature: Signature,
}

impl FlinkBinary {
    pub(super) fn new() -> Self {
        let arguments = vec![DataType::BinaryView, DataType::Int64, DataType::Boolean];
        Self { signature: Signature::exact(arguments, Volatility::Immutable) }
    }
}

/// Longer constants than this are refused: a length is a limit, not a wish for memory.
const MAX_FILLED: usize = 1 << 20;

impl ScalarUDFImpl for FlinkBinary {
    fn name(&self) -> &str {
        "flink_binary"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(DataType::BinaryView)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [
            values,
            ColumnarValue::Scalar(ScalarValue::Int64(Some(length))),
            ColumnarValue::Scalar(ScalarValue::Boolean(Some(fill))),
        ] = args.args.as_slice()
        else {
            return exec_err!("flink_binary takes bytes, a constant length and whether to fill");
        };
        let length = usize::try_from(*length).unwrap_or(0);
        if *fill && length > MAX_FILLED {
            return exec_err!("BINARY({length}) is too long to fill; at most {MAX_FILLED} bytes");
        }
        let array = cast(&values.to_array(args.number_rows)?, &DataType::BinaryView)?;
        let array = as_binary_view_array(&array)?;
        let mut out = BinaryViewBuilder::with_capacity(array.len());
        for value in array {
            out.append_option(value.map(|bytes| {
                let mut bytes = bytes[..bytes.len().min(length)].to_vec();
                if *fill {
                    bytes.resize(length, 0);
                }
                bytes
            }));
        }
        let out: ArrayRef = Arc::new(out.finish());
        match values {
            ColumnarValue::Scalar(_) => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&out, 0)?)),
            ColumnarValue::Array(_) => Ok(ColumnarValue::Array(out)),
        }
    }
}
