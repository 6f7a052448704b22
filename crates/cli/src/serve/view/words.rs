//! Calls in the page's form: short names, and files without folders.

#![forbid(unsafe_code)]

use std::borrow::Cow;

use memreel_snapshot::{
    analysis::{DeviceHistory, base_name},
    history::Life,
    model::Frame,
};

use crate::text::names::short;

/// The most characters of a name.
const ROOM: usize = 120;

/// The most characters of a name of a file, of a scope or of a block. A snapshot can have names of megabytes.
const MAX_CHARS: usize = 300;

/// Returns a text without its middle, if it has many characters.
pub(super) fn cut(text: &str) -> Cow<'_, str> {
    // A character has at most four bytes.
    if text.len() <= MAX_CHARS || text.chars().nth(MAX_CHARS).is_none() {
        return Cow::Borrowed(text);
    }
    let first: String = text.chars().take(MAX_CHARS / 2).collect();
    let mut last: Vec<char> = text.chars().rev().take(MAX_CHARS / 2 - 1).collect();
    last.reverse();
    Cow::Owned(format!("{first}…{}", last.iter().collect::<String>()))
}

/// Returns a file without its folders.
pub(super) fn base(filename: &str) -> Cow<'_, str> {
    cut(base_name(filename))
}

/// Returns a call: `train.py:12 forward`.
pub(super) fn call(frame: &Frame) -> String {
    let (file, name) = (base(&frame.filename), short(&frame.name, ROOM));
    match &*file {
        "" | "??" => name,
        file if frame.line == 0 => format!("{file} {name}"),
        file => format!("{file}:{} {name}", frame.line),
    }
}

/// Returns a function: `forward (train.py)`.
pub(super) fn function(frame: &Frame) -> String {
    let (file, name) = (base(&frame.filename), short(&frame.name, ROOM));
    if matches!(&*file, "" | "??") { name } else { format!("{name} ({file})") }
}

/// Returns the call that allocated a block; empty if it is not known.
pub(super) fn site(history: &DeviceHistory<'_>, life: &Life) -> String {
    life.stack.and_then(|stack| history.shown_frames().innermost(stack)).map_or_else(String::new, call)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_lose_their_middle() {
        let long: String = (0..100_000).map(|at| char::from(b'a' + u8::try_from(at % 26).unwrap())).collect();
        let short = cut(&long);
        assert_eq!(short.chars().count(), MAX_CHARS);
        assert!(
            short.starts_with("abc") && short.contains('…') && long.ends_with(&short[short.len() - 20..])
        );
        assert_eq!(cut("short"), "short");
        let wide = "é".repeat(MAX_CHARS);
        assert_eq!(cut(&wide), wide);
    }
}
