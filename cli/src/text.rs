//! Pieces of text that several commands print.

#![forbid(unsafe_code)]

use std::borrow::Cow;

use memreel::analysis::Totals;

use crate::bytes::Bytes;

/// Replaces control characters, which could move a terminal's cursor.
pub(crate) fn clean(text: &str) -> Cow<'_, str> {
    if text.chars().any(char::is_control) {
        Cow::Owned(text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect())
    } else {
        Cow::Borrowed(text)
    }
}

/// Returns a number with its noun: `1 block`, `2 blocks`.
pub(crate) fn count(n: impl TryInto<u64>, noun: &str) -> String {
    let n = n.try_into().unwrap_or(u64::MAX);
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}

/// Returns what a heading adds to the bytes in use if some of them wait for a stream.
pub(crate) fn of_it_pending(totals: &Totals) -> String {
    match totals.active_bytes.saturating_sub(totals.allocated_bytes) {
        0 => String::new(),
        bytes => format!("; {} of it freed and waiting for a stream", Bytes(bytes)),
    }
}

/// Returns a share in percent, as wide as a column.
#[allow(clippy::cast_precision_loss)]
pub(crate) fn percent(part: u64, of: u64) -> String {
    format!("{:5.1} %", part as f64 / of.max(1) as f64 * 100.0)
}

/// Returns a file's name as a shell reads it: in quotes if it has characters with a meaning.
pub(crate) fn shell_word(name: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "_-./+=:,@%".contains(c);
    if !name.is_empty() && name.chars().all(is_plain) {
        name.to_owned()
    } else {
        format!("'{}'", clean(name).replace('\'', "'\\''"))
    }
}

/// Escapes a text for the content and the attributes of XML, and cleans it as [`clean`] does.
pub(crate) fn escape_xml(text: &str) -> String {
    clean(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
