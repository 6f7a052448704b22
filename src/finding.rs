//! One broken invariant of the format, and how bad it is: the words of the pickle reader and of `validate`.

#![forbid(unsafe_code)]

use std::fmt;

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
