//! Cleans texts of characters that a reader cannot see, because names in a snapshot come from anyone.

#![forbid(unsafe_code)]

use std::borrow::Cow;

use serde_json::Value;

/// Replaces invisible characters by their numbers, as `\u{202e}`. Line ends and tabs remain.
pub(crate) fn clean(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_hidden(c) {
            clean.extend(c.escape_unicode());
        } else {
            clean.push(c);
        }
    }
    Cow::Owned(clean)
}

/// Cleans every text in a value, including the keys.
pub(crate) fn clean_value(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(clean(&text).into_owned()),
        Value::Array(items) => items.into_iter().map(clean_value).collect(),
        Value::Object(pairs) => {
            pairs.into_iter().map(|(key, value)| (clean(&key).into_owned(), clean_value(value))).collect()
        }
        other => other,
    }
}

/// Whether a character is invisible or changes the order of others: controls, marks of direction, joiners, variation
/// selectors and tags, in which a text can be hidden from people and not from programs.
fn is_hidden(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        '\u{ad}'
        | '\u{34f}'
        | '\u{61c}'
        | '\u{115f}'..='\u{1160}'
        | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{fff9}'..='\u{fffb}'
        | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}' => true,
        _ => c.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_cannot_be_seen_is_a_number() {
        assert_eq!(clean("a\u{1b}[31mb\r\n\tc\u{7f}\u{9b}"), "a\\u{1b}[31mb\\u{d}\n\tc\\u{7f}\\u{9b}");
        assert_eq!(clean("\u{202e}x\u{e0041}\u{200b}"), "\\u{202e}x\\u{e0041}\\u{200b}");
        let plain = "größe ▓░ 名前 🦀";
        assert!(matches!(clean(plain), Cow::Borrowed(same) if same == plain));
    }

    #[test]
    fn keys_and_values_are_cleaned() {
        let value = json!({"a\u{1b}": ["\u{202e}", 1, {"b": "\u{0}"}]});
        assert_eq!(clean_value(value), json!({"a\\u{1b}": ["\\u{202e}", 1, {"b": "\\u{0}"}]}));
    }
}
