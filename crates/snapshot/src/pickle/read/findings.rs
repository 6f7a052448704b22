//! Reports errors that only a file's bytes show: rules 3, 5 and 7 (docs/snapshot-format.md 5), and the parts of 4 and 6
//! that the model cannot show.
//!
//! What the model also shows is left to `validate`, so that one defect is one finding.

#![forbid(unsafe_code)]

use std::fmt::Display;

use super::integer::MAX_SAFE;
use crate::words::{Finding, Report, Rule, Severity};

/// A file beyond this opens slowly, or not at all, in a browser.
const LARGE_FILE_BYTES: u64 = 300_000_000;

/// Findings in the order of the file, bounded in number.
#[derive(Debug)]
pub(super) struct Findings {
    report: Report,
    seen_opcodes: [bool; 256],
    has_mixed_memo: bool,
    has_unknown_line: bool,
}

impl Default for Findings {
    fn default() -> Self {
        Findings {
            report: Report::default(),
            seen_opcodes: [false; 256],
            has_mixed_memo: false,
            has_unknown_line: false,
        }
    }
}

impl Findings {
    /// Returns all findings in the order of the file.
    pub(super) fn into_list(self) -> Vec<Finding> {
        self.report.in_order("file")
    }

    #[cold]
    pub(super) fn at_byte(&mut self, rule: Rule, severity: Severity, offset: usize, what: impl Display) {
        self.report.add(rule, severity, format_args!("byte {offset}"), what);
    }

    pub(super) fn file_size(&mut self, n_bytes: u64) {
        if n_bytes > LARGE_FILE_BYTES {
            let what = format!(
                "the file has {} MB, but the web viewer is slow above 300 MB; record fewer events (max_entries)",
                n_bytes / 1_000_000
            );
            self.report.add(Rule::FileSize, Severity::Warning, "file", what);
        }
    }

    pub(super) fn protocol(&mut self, version: u8, offset: usize) {
        let what = match version {
            2..=4 => return,
            5 => {
                "pickle protocol 5, which web viewers from before June 2026 reject; `memreel fix` writes protocol 4"
            }
            _ => "a pickle protocol below 2, which the web viewer rejects; `memreel fix` writes protocol 4",
        };
        self.at_byte(Rule::PickleOpcodes, Severity::Error, offset, what);
    }

    /// Reports an opcode that the viewer throws on, once each.
    pub(super) fn opcode(&mut self, op: u8, name: &str, offset: usize) {
        if !std::mem::replace(&mut self.seen_opcodes[usize::from(op)], true) {
            let what = format!("the opcode {name}, on which the web viewer throws an error");
            self.at_byte(Rule::PickleOpcodes, Severity::Error, offset, what);
        }
    }

    pub(super) fn mixed_memo(&mut self, offset: usize) {
        if !std::mem::replace(&mut self.has_mixed_memo, true) {
            let what = "MEMOIZE and BINPUT in one file; the web viewer numbers them separately and fetches wrong \
                        values";
            self.at_byte(Rule::PickleOpcodes, Severity::Error, offset, what);
        }
    }

    /// Reports an integer beyond 64 bits, given its bytes, if it is PyTorch's number for an unknown line. The model has
    /// 0 in its place.
    #[cold]
    pub(super) fn big(&mut self, bytes: &[u8], offset: usize) {
        let is_unknown_line = *bytes == [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0];
        if is_unknown_line && !std::mem::replace(&mut self.has_unknown_line, true) {
            let what = "2^64 - 1, which PyTorch writes for an unknown line; web viewers from before June 2026 throw \
                        an error on it, and `memreel fix` writes 0 instead";
            self.at_byte(Rule::Integers, Severity::Warning, offset, what);
        }
    }

    pub(super) fn batch(&mut self, n: usize, offset: usize) {
        if n > 1000 {
            let severity = if n > 60_000 { Severity::Error } else { Severity::Warning };
            let what = format!(
                "{n} items in one APPENDS; every web viewer accepts 1,000, but none accepts more than 60,000"
            );
            self.at_byte(Rule::PickleOpcodes, severity, offset, what);
        }
    }

    /// Reports an integer that the file spends more bytes on than it needs; the model has only its value.
    #[inline]
    pub(super) fn long(&mut self, n_bytes: usize, int: i64, offset: usize) {
        if n_bytes > 8 && (-MAX_SAFE..=MAX_SAFE).contains(&int) {
            let what =
                format!("an integer of {n_bytes} bytes, which the web viewer cannot add to other integers");
            self.at_byte(Rule::Integers, Severity::Error, offset, what);
        }
    }

    pub(super) fn text(&mut self, bytes: &[u8], text: &str, offset: usize) {
        if text.len() != bytes.len() || text.as_bytes() != bytes {
            self.at_byte(
                Rule::Texts,
                Severity::Error,
                offset,
                "a str is not UTF-8; its invalid bytes are replaced with U+FFFD",
            );
        }
    }

    pub(super) fn shared_record(&mut self, place: &str) {
        let what = "this object also occurs elsewhere in the file, so the web viewer changes it twice";
        self.report.add(Rule::SharedRecords, Severity::Error, place, what);
    }
}
