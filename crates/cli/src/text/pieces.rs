//! Pieces of text that several commands print.

#![forbid(unsafe_code)]

use std::{
    borrow::Cow,
    fmt::{self, Display, Write},
};

use memreel_snapshot::{
    DeviceId,
    analysis::{Totals, base_name},
};

use super::bytes::Bytes;

/// The most bytes of a name that are shown, twice: those of its beginning and those of its end.
const HALF_SHOWN: usize = 2048;

/// Replaces control characters, which could move a terminal's cursor, and the middle of a text that no reader reads:
/// a file can have names of megabytes.
pub(crate) fn clean(text: &str) -> Cow<'_, str> {
    let text = cut(text);
    if text.chars().any(is_hidden) {
        Cow::Owned(text.chars().map(|c| if is_hidden(c) { '\u{fffd}' } else { c }).collect())
    } else {
        text
    }
}

/// Returns whether a character is a control character, or turns the direction of the text after it.
fn is_hidden(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn cut(text: &str) -> Cow<'_, str> {
    if text.len() <= 2 * HALF_SHOWN {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("{}…{}", first(text, HALF_SHOWN), last(text, HALF_SHOWN)))
}

/// Returns at most the first `n_bytes` bytes of a text.
fn first(text: &str, n_bytes: usize) -> &str {
    let mut end = n_bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Returns at most the last `n_bytes` bytes of a text.
fn last(text: &str, n_bytes: usize) -> &str {
    let mut start = text.len().saturating_sub(n_bytes);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}

/// Returns the name of a file without its folders, as it is shown.
pub(crate) fn clean_base_name(path: &str) -> Cow<'_, str> {
    clean(base_name(last(path, 2 * HALF_SHOWN)))
}

/// Cleans a text that displays, as [`clean`] does, and makes no more of it than is shown.
pub(crate) fn clean_display(text: impl Display) -> String {
    let mut ends = Ends::default();
    // The ends take every text.
    let _ = write!(ends, "{text}");
    let cut = if ends.n_left_out > 0 { "…" } else { "" };
    clean(&format!("{}{cut}{}", ends.first, ends.last)).into_owned()
}

/// The beginning and the end of a text.
#[derive(Default)]
struct Ends {
    first: String,
    last: String,
    n_left_out: usize,
}

impl Write for Ends {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = if self.last.is_empty() { HALF_SHOWN.saturating_sub(self.first.len()) } else { 0 };
        let n_first = first(text, room).len();
        self.first.push_str(&text[..n_first]);
        let rest = last(&text[n_first..], HALF_SHOWN);
        self.n_left_out += text.len() - n_first - rest.len();
        self.last.push_str(rest);
        if self.last.len() > 2 * HALF_SHOWN {
            let kept = last(&self.last, HALF_SHOWN).to_owned();
            self.n_left_out += self.last.len() - kept.len();
            self.last = kept;
        }
        Ok(())
    }
}

/// Returns a number with its noun: `1 block`, `2 blocks`.
pub(crate) fn count(n: impl TryInto<u64>, noun: &str) -> String {
    let n = n.try_into().unwrap_or(u64::MAX);
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}

/// Returns what a heading adds to the bytes in use if some of them are pending.
pub(crate) fn of_it_pending(totals: &Totals, device: DeviceId) -> String {
    match pending(totals, device) {
        None => String::new(),
        Some((bytes, waiting)) => format!("; {bytes} of it {waiting}"),
    }
}

/// Returns what is allocated, and what is pending.
pub(crate) fn used_and_pending(totals: &Totals, device: DeviceId) -> String {
    match pending(totals, device) {
        None => format!("{} in use", Bytes(totals.active_bytes)),
        Some((bytes, waiting)) => format!("{} in use, {bytes} {waiting}", Bytes(totals.allocated_bytes)),
    }
}

/// Returns the pending bytes, and what they wait for; `None` if there are none.
fn pending(totals: &Totals, device: DeviceId) -> Option<(Bytes, &'static str)> {
    let bytes = totals.active_bytes.saturating_sub(totals.allocated_bytes);
    // What copies to and from host memory is recorded as events.
    let waiting = match device {
        DeviceId::HOST => "freed and waiting for events",
        _ => "freed and waiting for a stream",
    };
    (bytes > 0).then_some((Bytes(bytes), waiting))
}

/// Returns a share in percent, as wide as a column.
#[allow(clippy::cast_precision_loss)]
pub(crate) fn percent(part: u64, of: u64) -> String {
    format!("{:5.1} %", part as f64 / of.max(1) as f64 * 100.0)
}

/// Returns a file's name as a shell reads it: in quotes if it has characters with a meaning.
pub(crate) fn shell_word(name: &str) -> String {
    if name.starts_with('-') {
        // A command would take it for an option.
        return shell_word(&format!("./{name}"));
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_loses_its_middle() {
        let long = format!("a{}z\n", "ä".repeat(10_000));
        let shown = clean(&long);
        assert!(shown.len() < 4200 && shown.starts_with("aä") && shown.ends_with("äz\u{fffd}"), "{shown}");
        for n in [0, 1, 2000, 4096, 4097, 5000] {
            let text = "é/".repeat(n);
            assert_eq!(clean_display(&text).contains('…'), clean(&text).contains('…'), "{n}");
            let pieces = text.chars().map(String::from).collect::<Vec<_>>();
            assert!(clean_display(format_args!("{}", pieces.concat())).len() <= 3 * 2048 + 3, "{n}");
        }
        assert_eq!(clean_display("short"), "short");
        assert_eq!(clean_display(&long), shown, "the ends of one piece");
        // A text that comes in pieces of any length has the ends of the whole, each at least as long as is shown.
        for n_bytes in [1, 7, 2047, 2048, 2049, 5000] {
            let text: String = ('a'..='z').cycle().take(20_000).collect();
            let mut ends = Ends::default();
            text.as_bytes().chunks(n_bytes).for_each(|piece| {
                ends.write_str(std::str::from_utf8(piece).unwrap()).unwrap();
            });
            assert_eq!(
                (ends.first.len(), ends.first.len() + ends.n_left_out + ends.last.len()),
                (2048, 20_000)
            );
            let shown = last(&ends.last, 2048);
            assert!(text.starts_with(&ends.first) && text.ends_with(shown), "{n_bytes}");
            assert!((2048..=4096).contains(&ends.last.len()), "{n_bytes}: {}", ends.last.len());
        }
        assert_eq!(clean_base_name(&format!("{}/m.py", "x".repeat(10_000))), "m.py");
    }
}
