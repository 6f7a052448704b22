//! Reads the calls of a traceback, which a log has before the error's message.

use std::sync::LazyLock;

use regex::Regex;

use super::{line::Line, message::LoggedCall};

/// A call as printed by Python, IPython and rich.
static CALL: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r#"\bFile "([^"]+)", line ([0-9]+), in (.+)$"#,
        r"|\bFile ([^ ]+):([0-9]+), in ([^(]+)",
        r"|([^ │]+\.py):([0-9]+) in ([^ │]+)",
    ))
    .expect("a constant")
});

/// The most calls that are kept, the innermost ones, and the most ranks.
const MAX_CALLS: usize = 64;
const MAX_RANKS: usize = 256;

/// A message belongs to a traceback whose last call is at most this number of lines before it. Ranks print at the same
/// time.
const NEAR_LINES: u64 = 8;
const NEAR_LINES_OF_RANK: u64 = 512;

/// The last traceback of each rank.
#[derive(Debug, Default)]
pub(super) struct Tracebacks(Vec<Traceback>);

#[derive(Debug)]
struct Traceback {
    rank: Option<String>,
    line: u64,
    /// Outermost first.
    calls: Vec<LoggedCall>,
}

impl Tracebacks {
    pub(super) fn add(&mut self, number: u64, line: &Line) {
        if line.text.contains("Traceback (most recent call last)") {
            self.0.retain(|of| of.rank != line.rank);
        } else if let Some(call) = call(&line.text) {
            let at = self.0.iter().position(|of| of.rank == line.rank).unwrap_or(self.0.len());
            if at == self.0.len() {
                if at == MAX_RANKS {
                    return;
                }
                self.0.push(Traceback { rank: line.rank.clone(), line: number, calls: Vec::new() });
            }
            let of = &mut self.0[at];
            of.line = number;
            if of.calls.len() == MAX_CALLS {
                of.calls.remove(0);
            }
            of.calls.push(call);
        }
    }

    /// Returns the calls of the traceback that ends in a message on this line, innermost first.
    pub(super) fn take(&mut self, number: u64, rank: Option<&str>) -> Vec<LoggedCall> {
        let near = if rank.is_some() { NEAR_LINES_OF_RANK } else { NEAR_LINES };
        let Some(at) = self.0.iter().position(|of| of.rank.as_deref() == rank) else { return Vec::new() };
        let Traceback { line, mut calls, .. } = self.0.swap_remove(at);
        if number - line > near {
            return Vec::new();
        }
        calls.reverse();
        calls
    }
}

fn call(text: &str) -> Option<LoggedCall> {
    let found = CALL.captures(text)?;
    let mut parts = found.iter().skip(1).flatten().map(|part| part.as_str());
    let (filename, line, name) = (parts.next()?, parts.next()?, parts.next()?);
    Some(LoggedCall { name: name.to_owned(), filename: filename.to_owned(), line: line.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_every_printer_are_read() {
        for (text, expected) in [
            (r#"File "/home/me/train.py", line 41, in forward"#, ("forward", "/home/me/train.py", 41)),
            (r#"File "<stdin>", line 1, in <module>"#, ("<module>", "<stdin>", 1)),
            ("File ~/train.py:12, in Net.forward(self, x)", ("Net.forward", "~/train.py", 12)),
            ("│ /home/me/train.py:7 in step │", ("step", "/home/me/train.py", 7)),
        ] {
            let found = call(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!((&*found.name, &*found.filename, found.line), expected, "{text}");
        }
        for text in ["INFO train.py:12 step 3", "File \"x\"", "loss 3 in 4"] {
            assert_eq!(call(text), None, "{text}");
        }
    }
}
