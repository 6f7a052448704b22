//! Checks of a snapshot that was taken while other threads worked.

use memreel::{
    Snapshot,
    validate::{Severity, validate},
};

/// Fails if a snapshot breaks a rule. A ring that lost events and a scope that is open break none.
pub(crate) fn assert_sound(snapshot: &Snapshot) {
    let mut findings = validate(snapshot);
    findings.retain(|finding| finding.severity == Severity::Error);
    assert!(findings.is_empty(), "{findings:?}");
}
