//! Prints a check of `memreel gate` as a line.

#![forbid(unsafe_code)]

use memreel_snapshot::analysis::{Check, Measure};

use crate::text::{Bytes, clean};

fn text(measure: Measure) -> String {
    match measure {
        Measure::Bytes(bytes) => Bytes(bytes).to_string(),
        Measure::Percent(percent) => format!("{percent:.1} %"),
        _ => String::new(),
    }
}

/// Returns what was measured and what is allowed.
pub(super) fn line(check: &Check) -> String {
    let of = if check.is_baseline { " (baseline)" } else { "" };
    // Two sizes may print as the same text.
    let more = match (check.actual, check.most) {
        (Measure::Bytes(actual), Measure::Bytes(most)) if actual > most => {
            format!(", {} more", Bytes(actual - most))
        }
        _ => String::new(),
    };
    format!("{} is {}, at most {}{of}{more}", clean(&check.what), text(check.actual), text(check.most))
}
