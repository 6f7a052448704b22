//! The options of recording as JSON, under the names of `torch.cuda.memory._record_memory_history`.
#![forbid(unsafe_code)]

use serde_json::Value;

use memreel::{
    Error, Result,
    recorder::{Enabled, Recording},
};

/// Reads options such as `{"enabled": "all", "max_entries": 1000}`; missing keys have their defaults.
pub(super) fn history(text: &str) -> Result<Recording> {
    const EXAMPLE: &str = r#"use an object such as {"enabled": "all"}"#;
    let wrong = |what: String| Error::misuse(format!("memreel_record: the options are {what}; {EXAMPLE}"));
    let document: Value = serde_json::from_str(text).map_err(|error| wrong(format!("not JSON ({error})")))?;
    let options = document.as_object().ok_or_else(|| wrong(format!("{document}")))?;
    options.iter().try_fold(Recording::all(), |history, (key, value)| option(history, key, value))
}

fn option(history: Recording, key: &str, value: &Value) -> Result<Recording> {
    // JSON's null stands for PyTorch's None, and each option parses "None".
    let word = || match value {
        Value::Null => Ok("None"),
        value => value.as_str().ok_or_else(|| refuse(key, value, "a text or null")),
    };
    let number = || value.as_u64().ok_or_else(|| refuse(key, value, "a whole number"));
    match key {
        "enabled" => Ok(history.enabled(word()?.parse::<Enabled>()?)),
        "context" => Ok(history.context(word()?.parse()?)),
        "stacks" => Ok(history.stacks(word()?.parse()?)),
        "max_entries" => Ok(history.max_entries(usize::try_from(number()?).unwrap_or(usize::MAX))),
        "clear_history" => {
            let clear = value.as_bool().ok_or_else(|| refuse(key, value, "true or false"))?;
            Ok(history.clear_history(clear))
        }
        "skip_actions" => {
            let names = value.as_array().ok_or_else(|| refuse(key, value, "a list of actions"))?;
            let action = |name: &Value| {
                name.as_str().ok_or_else(|| refuse(key, name, "the name of an action"))?.parse()
            };
            Ok(history.skip_actions(names.iter().map(action).collect::<Result<Vec<_>>>()?))
        }
        "min_size_bytes" => Ok(history.min_size(number()?)),
        "sample_bytes" => Ok(history.sample_every(number()?)),
        _ => Err(Error::misuse(format!("memreel_record: {key:?} is not an option; use {OPTIONS}"))),
    }
}

const OPTIONS: &str =
    "enabled, context, stacks, max_entries, clear_history, skip_actions, min_size_bytes or sample_bytes";

fn refuse(key: &str, value: &Value, wanted: &str) -> Error {
    Error::misuse(format!("memreel_record: {key} is {value}; use {wanted}"))
}
