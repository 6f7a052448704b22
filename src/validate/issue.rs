//! Something wrong that every record of a shape shares.

use crate::finding::{Rule, Severity};

/// A finding without its place.
#[derive(Debug)]
pub(super) struct Issue {
    pub(super) rule: Rule,
    pub(super) severity: Severity,
    pub(super) what: String,
}

impl Issue {
    pub(super) fn new(rule: Rule, severity: Severity, what: String) -> Issue {
        Issue { rule, severity, what }
    }
}
