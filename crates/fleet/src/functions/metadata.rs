//! `metadata(scope, 'key')`: a value of the JSON that PyTorch 2.15 makes of a dictionary in `user_metadata`.

use std::sync::Arc;

use datafusion::{
    arrow::{
        array::{ArrayRef, AsArray, DictionaryArray, StringArray},
        compute::cast,
        datatypes::{DataType, UInt32Type},
    },
    common::exec_err,
    error::Result,
    logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility},
};
use serde_json::{Map, Value};

use super::stacks::{coded, coded_type};

/// Returns the function that reads one key of a JSON object.
pub(crate) fn metadata() -> ScalarUDF {
    ScalarUDF::from(Metadata(Signature::any(2, Volatility::Immutable)))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Metadata(Signature);

impl ScalarUDFImpl for Metadata {
    fn name(&self) -> &'static str {
        "metadata"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    /// A value has the type of its text.
    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(match &arguments[0] {
            DataType::Dictionary(..) => coded_type(),
            _ => DataType::Utf8,
        })
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [texts, ColumnarValue::Scalar(key)] = &arguments.args[..] else {
            return exec_err!("metadata takes a text and a key in quotes: metadata(scope, 'step')");
        };
        let Some(Some(key)) = key.try_as_str() else {
            return exec_err!("the second argument of metadata is a key in quotes, not {key}");
        };
        let texts = coded(&texts.to_array(arguments.number_rows)?)?;
        // Each text is read once, however many rows have it.
        let values = texts.values().as_string::<i32>().iter().map(|text| value(text?, key));
        let values: ArrayRef = Arc::new(values.collect::<StringArray>());
        let values = DictionaryArray::<UInt32Type>::try_new(texts.keys().clone(), values)?;
        Ok(ColumnarValue::Array(cast(&values, arguments.return_type())?))
    }
}

/// Returns the value of a key as text: a string as it is, anything else as JSON. `None` if the text is not an object.
fn value(text: &str, key: &str) -> Option<String> {
    let object: Map<String, Value> = text.starts_with('{').then(|| serde_json::from_str(text).ok())??;
    match object.get(key)? {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_objects_have_keys() {
        let text = r#"{"step": 3, "phase": "forward", "none": null, "list": [1, 2]}"#;
        let all = ["step", "phase", "none", "list", "other"].map(|key| value(text, key));
        assert_eq!(
            all.each_ref().map(Option::as_deref),
            [Some("3"), Some("forward"), None, Some("[1,2]"), None]
        );
        assert_eq!(["step", "", "{", "[3]"].map(|text| value(text, "step")), [None, None, None, None]);
    }
}
