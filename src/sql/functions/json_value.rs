//! `JSON_VALUE(text, '$.path')`: the scalar at a path of a JSON text, as text. NULL where there is none, where it is an object or
//! an array, and where the text is no JSON, as Flink's default is. Paths are `$`, `.name`, `['name']` and `[index]`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, StringViewBuilder};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::common::cast::as_string_view_array;
use datafusion::common::{ScalarValue, exec_err};
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};
use serde_json::Value;

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct JsonValue {
    signature: Signature,
}

impl JsonValue {
    pub(super) fn new() -> Self {
        Self { signature: Signature::exact(vec![DataType::Utf8View, DataType::Utf8View], Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for JsonValue {
    fn name(&self) -> &str {
        "json_value"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [values, ColumnarValue::Scalar(path)] = args.args.as_slice() else {
            return exec_err!("json_value takes a text and a constant path");
        };
        let Some(Some(path)) = path.try_as_str() else {
            return Ok(ColumnarValue::Scalar(ScalarValue::Utf8View(None)));
        };
        let Some(steps) = steps(path) else {
            return exec_err!("'{path}' is not a path such as $.name or $.list[0]");
        };
        let array = cast(&values.to_array(args.number_rows)?, &DataType::Utf8View)?;
        let array = as_string_view_array(&array)?;
        let mut out = StringViewBuilder::with_capacity(array.len());
        for text in array {
            out.append_option(text.and_then(|text| scalar(text, &steps)));
        }
        let out: ArrayRef = Arc::new(out.finish());
        match values {
            ColumnarValue::Scalar(_) => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&out, 0)?)),
            ColumnarValue::Array(_) => Ok(ColumnarValue::Array(out)),
        }
    }
}

#[derive(Debug, PartialEq)]
enum Step {
    Field(String),
    Index(usize),
}

fn steps(path: &str) -> Option<Vec<Step>> {
    let path = path.trim();
    let path = path.strip_prefix("lax ").unwrap_or(path).trim_start();
    let mut rest = path.strip_prefix('$')?;
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if let Some(name) = rest.strip_prefix('.') {
            let end = name.find(['.', '[']).unwrap_or(name.len());
            if end == 0 {
                return None;
            }
            steps.push(Step::Field(name[..end].to_owned()));
            rest = &name[end..];
        } else if let Some(name) = rest.strip_prefix("['") {
            let (name, after) = name.split_once("']")?;
            steps.push(Step::Field(name.to_owned()));
            rest = after;
        } else {
            let (index, after) = rest.strip_prefix('[')?.split_once(']')?;
            steps.push(Step::Index(index.trim().parse().ok()?));
            rest = after;
        }
    }
    Some(steps)
}

fn scalar(text: &str, steps: &[Step]) -> Option<String> {
    let document: Value = serde_json::from_str(text).ok()?;
    let found = steps.iter().try_fold(&document, |value, step| match step {
        Step::Field(name) => value.get(name.as_str()),
        Step::Index(index) => value.get(*index),
    })?;
    match found {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(found.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalar_when_paths_lead_to_scalars_then_their_text() {
        let text = r#"{"a": {"b c": [1, "x", null, true]}, "n": 1.50}"#;
        for (path, expected) in [
            ("$.a['b c'][1]", Some("x")),
            ("$.a['b c'][0]", Some("1")),
            ("lax $.a['b c'][3]", Some("true")),
            ("$.a['b c'][2]", None),
            ("$.a", None),
            ("$.nothing.at.all", None),
            ("$.n", Some("1.5")),
        ] {
            assert_eq!(scalar(text, &steps(path).unwrap()).as_deref(), expected, "{path}");
        }
        assert_eq!(scalar("no json", &[]), None);
        assert!(["a", "$a", "$.", "$[x]", "$['a"].iter().all(|path| steps(path).is_none()));
    }
}
