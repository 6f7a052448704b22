//! Warnings about a history, which users should read before its figures.

#![forbid(unsafe_code)]

use std::io;

use memreel_snapshot::{Snapshot, analysis::DeviceHistory, history::Absence};

use super::{bytes::Bytes, clean, fit::print_text, page::Page};

/// Prints what limits the figures of a history.
pub(crate) fn print_warnings(history: &DeviceHistory<'_>, out: &mut Page) -> io::Result<()> {
    warnings(history).iter().try_for_each(|warning| print_text(warning, out))
}

/// Returns what the first line about a file reports if the file has no history: which call was missing, and what has an
/// answer nevertheless. Empty if it has one.
pub(crate) fn absence(snapshot: &Snapshot) -> String {
    match Absence::of_file(snapshot) {
        None => String::new(),
        Some(absence @ Absence::Unused) => format!("; {absence}"),
        Some(absence) => {
            format!("; {absence}; `memreel top`, `at end`, `segments` and `fragmentation` answer for the end")
        }
    }
}

/// Returns the limitations of a history's figures, one line each.
pub(crate) fn warnings(history: &DeviceHistory<'_>) -> Vec<String> {
    let trust = history.trust();
    let mut all: Vec<String> = trust.warnings().into_iter().map(|text| format!("warning: {text}")).collect();
    all.extend(trust.unknown_before(Bytes).map(|text| format!("note: {text}")));
    all
}

/// Returns words on how the program failed, if the snapshot says so.
pub(crate) fn program_failure(snapshot: &Snapshot) -> Option<String> {
    snapshot.program_failure().map(|failure| format!("the program failed ({})", clean(failure)))
}
