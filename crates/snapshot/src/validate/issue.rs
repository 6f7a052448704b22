//! A finding that every record of a shape shares.

use std::fmt::Display;

use crate::words::{Report, Rule, Severity};

/// A finding without its place in the file.
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

    /// Reports issues at the place of one record.
    pub(super) fn report_all<'i>(
        issues: impl IntoIterator<Item = &'i Issue>,
        place: impl Display + Copy,
        report: &mut Report,
    ) {
        for issue in issues {
            report.add(issue.rule, issue.severity, place, &issue.what);
        }
    }
}
