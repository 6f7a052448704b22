//! Parses the objects of an answer that was requested with `json`.

#![forbid(unsafe_code)]

use serde_json::Value;

use crate::clean::clean_value;

/// The first objects of an answer.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Objects {
    pub(crate) objects: Vec<Value>,
    /// The same as text, one object per line.
    pub(crate) text: String,
}

/// Reads as many lines as have at most this number of characters together. Invisible characters become numbers.
pub(crate) fn objects(lines: &str, max_chars: usize) -> Objects {
    let mut read = Objects { objects: Vec::new(), text: String::new() };
    let mut n_chars = 0;
    for line in lines.split_inclusive('\n') {
        let Ok(object) = serde_json::from_str(line).map(clean_value) else { break };
        let line = format!("{object}\n");
        n_chars += line.chars().count();
        if n_chars > max_chars {
            break;
        }
        read.text.push_str(&line);
        read.objects.push(object);
    }
    read
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn whole_objects_are_read() {
        let text = "{\"a\":\"\\u001b\"}\n{\"b\":18446744073709551615}\n{\"c\":";
        let all = objects(text, 1000);
        assert_eq!(all.objects, [json!({"a": "\\u{1b}"}), json!({"b": u64::MAX})]);
        assert_eq!(all.text, "{\"a\":\"\\\\u{1b}\"}\n{\"b\":18446744073709551615}\n");
        assert_eq!(objects(text, all.text.len()).objects.len(), 2);
        assert_eq!(objects(text, all.text.len() - 1).objects.len(), 1);
        assert_eq!(objects(text, 3).objects.len(), 0);
    }
}
