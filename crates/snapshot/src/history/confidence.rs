//! The confidence in an answer that depends on what was there before the history.

use std::fmt;

use serde::{Serialize, Serializer};

/// The confidence in an answer that depends on what was there before the history.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Confidence {
    /// The history is whole.
    Sure,
    /// Less than a tenth of what was reserved at the peak was there before.
    High,
    /// Less than half of it was, or entries were lost.
    Fair,
    /// Half of it or more was, or more entries were lost than kept.
    Low,
}

impl Confidence {
    /// Returns `sure`, `high`, `fair` or `low`; texts for readers have `certain` for `sure`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Confidence::Sure => "sure",
            Confidence::High => "high",
            Confidence::Fair => "fair",
            Confidence::Low => "low",
        }
    }
}

impl Serialize for Confidence {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.name().serialize(serializer)
    }
}

impl fmt::Display for Confidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Confidence::Sure => "certain",
            lower => lower.name(),
        })
    }
}
