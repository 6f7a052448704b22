//! `stack_contains(stack, 'text')` and `top_frame(stack)`: functions of the column `stack`, and of `site`.

use std::sync::Arc;

use datafusion::{
    arrow::{
        array::{ArrayRef, AsArray, BooleanArray, DictionaryArray, StringArray},
        compute::cast,
        datatypes::{DataType, UInt32Type},
    },
    common::exec_err,
    error::Result,
    logical_expr::{
        ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
    },
};

use crate::columns::{Kind, Texts};

/// Returns the function that says whether a stack's text has a part.
pub(crate) fn stack_contains() -> ScalarUDF {
    ScalarUDF::from(StackContains(Signature::any(2, Volatility::Immutable)))
}

/// Returns the function that returns the innermost frame.
pub(crate) fn top_frame() -> ScalarUDF {
    let signature = Signature::one_of(vec![TypeSignature::Any(1)], Volatility::Immutable);
    ScalarUDF::from(TopFrame(signature))
}

/// The type of a column of texts where each text is there once.
pub(super) fn coded_type() -> DataType {
    Kind::Text.data_type(Texts::Coded)
}

/// A column of texts: each text once, and the number of the text in each row.
pub(super) fn coded(texts: &ArrayRef) -> Result<DictionaryArray<UInt32Type>> {
    Ok(cast(texts, &coded_type())?.as_dictionary::<UInt32Type>().clone())
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct StackContains(Signature);

impl ScalarUDFImpl for StackContains {
    fn name(&self) -> &'static str {
        "stack_contains"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [stacks, ColumnarValue::Scalar(part)] = &arguments.args[..] else {
            return exec_err!("stack_contains takes a stack and a text in quotes");
        };
        let Some(part) = part.try_as_str() else {
            return exec_err!("the second argument of stack_contains is a text in quotes, not {part}");
        };
        let stacks = coded(&stacks.to_array(arguments.number_rows)?)?;
        let texts = stacks.values().as_string::<i32>();
        // Each text is searched once, however many rows have it.
        let has: Vec<bool> =
            texts.iter().map(|text| text.zip(part).is_some_and(|(text, part)| text.contains(part))).collect();
        let answer = |key: Option<u32>| Some(has[key? as usize]).filter(|_| part.is_some());
        Ok(ColumnarValue::Array(Arc::new(stacks.keys().iter().map(answer).collect::<BooleanArray>())))
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct TopFrame(Signature);

impl ScalarUDFImpl for TopFrame {
    fn name(&self) -> &'static str {
        "top_frame"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    /// A frame has the type of its stack.
    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(match &arguments[0] {
            DataType::Dictionary(..) => coded_type(),
            _ => DataType::Utf8,
        })
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let stacks = coded(&arguments.args[0].to_array(arguments.number_rows)?)?;
        let first = |text: &str| text.split('\n').next().unwrap_or_default().to_owned();
        let frames: StringArray =
            stacks.values().as_string::<i32>().iter().map(|text| text.map(first)).collect();
        let frames = DictionaryArray::<UInt32Type>::try_new(stacks.keys().clone(), Arc::new(frames))?;
        Ok(ColumnarValue::Array(cast(&frames, arguments.return_type())?))
    }
}
