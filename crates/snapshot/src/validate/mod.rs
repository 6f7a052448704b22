//! The invariants of the format (`docs/snapshot-format.md` 5), with every finding, not only the first.
//!
//! Each file checks one noun, and its first line lists its rules; [`Rule`] documents them all. Where the page and
//! PyTorch's own dumps disagree, the dumps are right, and a comment explains it. `history` defines what a trace and its
//! segments mean; this room has the rules, their severities and their texts. Nothing here panics or recurses for any
//! model; sums saturate.

#![forbid(unsafe_code)]

mod backward;
mod blocks;
mod container;
mod ends;
mod entries;
mod forward;
mod frames;
mod issue;
mod keys;
mod memory;
mod other;
mod place;
mod segments;
mod timeline;
mod values;
mod walks;

use std::path::Path;

use crate::{
    model::{Snapshot, TopLevel},
    pickle::{self, Inspection},
    words::{Report, Result},
};

pub use crate::words::{Finding, Rule, Severity};

/// Checks a snapshot against the rules of the format (1, 2, 4 and 6 to 36).
///
/// The rules on a file's bytes (3, 5, and the parts of 4 and 6 that the model does not
/// show) are checked where the bytes are read. Findings are in the order of their rules;
/// beyond 20 of one rule and severity, the rest is one finding with their number. A bare
/// list of segments is checked against the rules for segments only.
///
/// ```
/// use memreel::{snapshot::Snapshot, validate::{Rule, validate}};
/// let snapshot: Snapshot = serde_json::from_str(r#"{"segments": [], "device_traces": []}"#)?;
/// let findings = validate(&snapshot);
/// assert_eq!(findings[0].rule, Rule::TraceForEveryDevice);
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
    report.by_rule("snapshot")
}

/// Checks a file: first its bytes, then the snapshot that they contain.
///
/// A file that is not a snapshot is not an error: it gives a finding.
///
/// ```no_run
/// use memreel::validate::{Severity, check_file};
/// let findings = check_file("snapshot.pickle")?;
/// assert!(findings.iter().all(|finding| finding.severity < Severity::Error));
/// # Ok::<(), memreel::Error>(())
/// ```
///
/// # Errors
/// [`is_io`](crate::words::Error::is_io) if the file cannot be read.
pub fn check_file(path: impl AsRef<Path>) -> Result<Vec<Finding>> {
    let Inspection { snapshot, mut findings } = pickle::inspect(path)?;
    if let Ok(snapshot) = snapshot {
        findings.extend(validate(&snapshot));
    }
    Ok(findings)
}
