//! A broken rule: which one, how severe, where and why.

use std::fmt;

use super::{rule::Rule, severity::Severity};

/// One broken rule of the format.
///
/// It prints as `E27 device_traces[0][17]: ...`: severity, the rule's number, the place, the error.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Finding {
    /// The rule that is broken.
    pub rule: Rule,
    /// The severity.
    pub severity: Severity,
    /// The place, such as `device_traces[0][17]` or `byte 88`.
    pub place: String,
    /// The error and, where it helps, what to do.
    pub what: String,
}

impl Finding {
    pub(crate) fn new(
        rule: Rule,
        severity: Severity,
        place: impl Into<String>,
        what: impl Into<String>,
    ) -> Finding {
        Finding { rule, severity, place: place.into(), what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{} {}: {}", self.severity.letter(), self.rule.number(), self.place, self.what)
    }
}
