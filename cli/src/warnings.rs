//! Warnings about a history, which readers of its figures should see first.

#![forbid(unsafe_code)]

use std::io::{self, Write};

use memreel::analysis::DeviceHistory;

use crate::{bytes::Bytes, text::count};

/// Prints what limits the figures of a history.
pub(crate) fn print_warnings(history: &DeviceHistory<'_>, out: &mut impl Write) -> io::Result<()> {
    warnings(history).iter().try_for_each(|warning| writeln!(out, "{warning}"))
}

/// Returns what limits the figures of a history, one line each.
pub(crate) fn warnings(history: &DeviceHistory<'_>) -> Vec<String> {
    let trust = history.trust();
    let mut all: Vec<String> = trust.warnings().into_iter().map(|text| format!("warning: {text}")).collect();
    if trust.n_entries == 0 {
        all.push("note: no history was recorded; the figures are those of the end".to_owned());
    } else if !trust.is_whole() && (trust.n_before > 0 || trust.reserved_before_bytes > 0 || trust.has_lost) {
        let lost = match trust.n_lost {
            0 if trust.has_lost => " (older entries were lost)".to_owned(),
            0 => String::new(),
            n => format!(" ({n} older entries were lost)"),
        };
        let nameless = match trust.n_nameless {
            0 => String::new(),
            n => format!("; {n} of them without a stack"),
        };
        all.push(format!(
            "note: the history begins with {} in {}{lost}{nameless}; what happened before it is unknown",
            Bytes(trust.bytes_before),
            count(trust.n_before, "block"),
        ));
    }
    all
}
