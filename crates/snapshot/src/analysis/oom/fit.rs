//! Whether a request would succeed under other settings.

use std::fmt;

use serde::{Serialize, Serializer};

/// Whether a request would succeed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Fit {
    /// It would succeed, and so would the earlier requests that succeeded when they were recorded.
    Yes,
    /// It would fail, or so would an earlier request that succeeded when it was recorded.
    No,
    /// It depends on what the history does not show: the addresses of segments, the bytes that a limit left,
    /// or the blocks and private pools from before the history.
    Perhaps,
}

impl Fit {
    /// Returns `yes`, `no` or `perhaps`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Fit::Yes => "yes",
            Fit::No => "no",
            Fit::Perhaps => "perhaps",
        }
    }
}

impl fmt::Display for Fit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for Fit {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        self.name().serialize(serializer)
    }
}
