//! The invariants of the format (snapshot-format.md 5); returns every finding, not the first.
//!
//! Each file checks one noun, and its doc says which rules. Where the page and
//! PyTorch's own dumps disagree, the dumps are right, and the file says so.
//! Nothing here panics or recurses, whatever the model holds; sums saturate.

#![forbid(unsafe_code)]

mod backward;
mod blocks;
mod container;
mod ends;
mod entries;
mod forward;
mod frames;
mod keys;
mod memory;
mod other;
mod place;
mod ranges;
mod report;
mod segments;
mod timeline;
mod values;

use std::fmt;

use self::report::Report;
use super::{Snapshot, TopLevel};

/// How bad a finding is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Severity {
    /// Only differs from what PyTorch writes.
    Pytorch,
    /// Makes a misleading picture.
    Warning,
    /// Some reader throws, or is badly wrong.
    Error,
}

impl Severity {
    /// `P`, `W` or `E`.
    #[must_use]
    pub fn letter(self) -> char {
        match self {
            Severity::Pytorch => 'P',
            Severity::Warning => 'W',
            Severity::Error => 'E',
        }
    }
}

/// One broken invariant.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Finding {
    /// The invariant's number, 1 to 36.
    pub rule: u8,
    /// How bad it is.
    pub severity: Severity,
    /// Where, such as `device_traces[0][17]` or `byte 88`.
    pub place: String,
    /// What is wrong, and where it helps, what to do.
    pub what: String,
}

impl Finding {
    pub(crate) fn new(
        rule: u8,
        severity: Severity,
        place: impl Into<String>,
        what: impl Into<String>,
    ) -> Finding {
        Finding { rule, severity, place: place.into(), what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{} {}: {}", self.severity.letter(), self.rule, self.place, self.what)
    }
}

/// Checks what a snapshot says (invariants 1, 2, 4 and 6 to 36).
///
/// The rules on a file's bytes (3, 5, and what of 4 and 6 the model cannot
/// show) are checked where the bytes are read. Findings come in the order of
/// their rules; beyond 20 of one rule and severity, the rest is one finding
/// that says how many. A bare list of segments is held to the rules for
/// segments alone.
///
/// ```
/// use memreel::snapshot::{Snapshot, validate::validate};
/// let snapshot: Snapshot = serde_json::from_str(r#"{"segments": [], "device_traces": []}"#)?;
/// let findings = validate(&snapshot);
/// assert_eq!(findings[0].rule, 2);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[must_use]
pub fn validate(snapshot: &Snapshot) -> Vec<Finding> {
    let mut report = Report::default();
    container::check(snapshot, &mut report);
    let memory = segments::check(snapshot, &mut report);
    if snapshot.top_level == TopLevel::Dictionary {
        entries::check(snapshot, &memory, &mut report);
        other::check(snapshot, &mut report);
    }
    report.finish()
}
