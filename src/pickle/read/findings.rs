//! The invariants 3 to 7 of the format (docs/snapshot-format.md 5) that a file's bytes break.

#![forbid(unsafe_code)]

use super::{
    integer::MAX_SAFE,
    words::{Key, Word},
};
use crate::finding::{Finding, Severity};

/// The number of findings that are reported one by one.
const MAX_REPORTED: usize = 100;

/// A file beyond this opens slowly, or not at all, in a browser.
const LARGE_FILE_BYTES: usize = 300_000_000;

/// Findings in the order of the file, bounded in number.
#[derive(Debug)]
pub(super) struct Findings {
    reported: Vec<Finding>,
    /// Findings beyond the bound.
    n_more: usize,
    seen_opcodes: [bool; 256],
    has_mixed_memo: bool,
}

impl Default for Findings {
    fn default() -> Self {
        Findings { reported: Vec::new(), n_more: 0, seen_opcodes: [false; 256], has_mixed_memo: false }
    }
}

impl Findings {
    /// Returns all findings; the last one counts those beyond the bound.
    pub(super) fn into_list(mut self) -> Vec<Finding> {
        if self.n_more > 0 {
            let what = format!("and {} more findings of the rules 3 to 7", self.n_more);
            self.reported.push(Finding::new(3, Severity::Error, "file", what));
        }
        self.reported
    }

    pub(super) fn add(
        &mut self,
        rule: u8,
        severity: Severity,
        place: impl Into<String>,
        what: impl Into<String>,
    ) {
        if self.reported.len() < MAX_REPORTED {
            self.reported.push(Finding::new(rule, severity, place, what));
        } else {
            self.n_more += 1;
        }
    }

    #[cold]
    pub(super) fn at_byte(&mut self, rule: u8, severity: Severity, offset: usize, what: impl Into<String>) {
        if self.reported.len() < MAX_REPORTED {
            self.add(rule, severity, format!("byte {offset}"), what);
        } else {
            self.n_more += 1;
        }
    }

    pub(super) fn file_size(&mut self, n_bytes: usize) {
        if n_bytes > LARGE_FILE_BYTES {
            let what = format!(
                "{} MB; the web viewer is slow beyond 300 MB: record fewer events (max_entries)",
                n_bytes / 1_000_000
            );
            self.add(7, Severity::Warning, "file", what);
        }
    }

    pub(super) fn protocol(&mut self, version: u8, offset: usize) {
        let what = match version {
            2..=4 => return,
            5 => {
                "pickle protocol 5, which web viewers before June 2026 refuse; load the file and save it \
                 again here, or dump with protocol=4"
            }
            _ => "a pickle protocol below 2, which the web viewer refuses; dump with protocol=4",
        };
        self.at_byte(3, Severity::Error, offset, what);
    }

    /// Reports an opcode that the viewer throws on, once each.
    pub(super) fn opcode(&mut self, op: u8, name: &str, offset: usize) {
        if !std::mem::replace(&mut self.seen_opcodes[usize::from(op)], true) {
            let what = format!("the opcode {name}, on which the web viewer throws");
            self.at_byte(3, Severity::Error, offset, what);
        }
    }

    pub(super) fn mixed_memo(&mut self, offset: usize) {
        if !std::mem::replace(&mut self.has_mixed_memo, true) {
            let what =
                "MEMOIZE and BINPUT in one file: the web viewer numbers them apart and fetches wrong values";
            self.at_byte(3, Severity::Error, offset, what);
        }
    }

    pub(super) fn batch(&mut self, n: usize, offset: usize) {
        if n > 1000 {
            let severity = if n > 60_000 { Severity::Error } else { Severity::Warning };
            let what =
                format!("{n} items in one APPENDS; the web viewer always takes 1,000, and 60,000 at most");
            self.at_byte(3, severity, offset, what);
        }
    }

    #[inline]
    pub(super) fn long(&mut self, n_bytes: usize, int: i64, offset: usize) {
        if n_bytes > 8 {
            self.big(n_bytes, offset);
        } else if !(-MAX_SAFE..=MAX_SAFE).contains(&int) {
            self.at_byte(
                4,
                Severity::Error,
                offset,
                format!("{int} is beyond 2^53: the web viewer rounds it"),
            );
        }
    }

    pub(super) fn big(&mut self, n_bytes: usize, offset: usize) {
        let what = format!("an integer of {n_bytes} bytes, which the web viewer cannot add to others");
        self.at_byte(4, Severity::Error, offset, what);
    }

    pub(super) fn key(&mut self, word: &Word, offset: usize) {
        if word.key == Key::Proto {
            self.at_byte(6, Severity::Error, offset, "the key __proto__, which vanishes in the web viewer");
        }
    }

    pub(super) fn odd_key(&mut self, offset: usize) {
        self.at_byte(6, Severity::Error, offset, "a dict's key is not a text");
    }

    pub(super) fn text(&mut self, bytes: &[u8], text: &str, offset: usize) {
        if text.len() != bytes.len() || text.as_bytes() != bytes {
            self.at_byte(6, Severity::Error, offset, "a text is not UTF-8; invalid bytes become U+FFFD");
        }
        if text.starts_with('\u{feff}') {
            self.at_byte(
                6,
                Severity::Error,
                offset,
                "a text begins with a byte order mark, which the viewer drops",
            );
        }
    }

    pub(super) fn shared_record(&mut self, place: &str) {
        let what = "this very object is elsewhere in the file too; the web viewer changes it twice";
        self.add(5, Severity::Error, place, what);
    }
}
