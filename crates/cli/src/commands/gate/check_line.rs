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
    let side = match (check.actual, check.most) {
        (Measure::Bytes(actual), Measure::Bytes(most)) if actual > most => {
            format!("{} over", Bytes(actual - most))
        }
        _ if check.is_passed => "within".to_owned(),
        _ => "over".to_owned(),
    };
    let (what, actual, most) = (clean(&check.what), text(check.actual), text(check.most));
    format!("{what} is {actual}, {side} the limit of {most}{of}")
}
