//! Why a rank is an outlier.

use std::{cmp::Ordering, fmt};

use serde::Serialize;

use crate::analysis::Bytes;

/// A difference between a rank and the usual one.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
#[non_exhaustive]
pub enum Why {
    /// Requests failed, but not in most ranks.
    OutOfMemory {
        /// The number of requests that failed.
        n_ooms: usize,
        /// The bytes of the first of them.
        bytes: u64,
        /// The site of the first of them.
        site: String,
        /// The number of ranks without a failure.
        n_others: usize,
    },
    /// The most active memory.
    Peak {
        /// The bytes of the rank.
        bytes: u64,
        /// The bytes of the median rank.
        usual_bytes: u64,
    },
    /// The most reserved memory.
    Reserved {
        /// The bytes of the rank.
        bytes: u64,
        /// The bytes of the median rank.
        usual_bytes: u64,
    },
    /// The reserved memory in no block at the peak.
    Waste {
        /// The bytes of the rank.
        bytes: u64,
        /// The bytes of the median rank.
        usual_bytes: u64,
    },
    /// The active memory at the end.
    End {
        /// The bytes of the rank.
        bytes: u64,
        /// The bytes of the median rank.
        usual_bytes: u64,
    },
    /// The peak of a step, the first that is far from the usual one.
    Step {
        /// The step.
        name: String,
        /// The bytes of the rank.
        bytes: u64,
        /// The bytes of the median rank.
        usual_bytes: u64,
    },
    /// The peak of a stretch of time, the first that is far from the usual one.
    Clock {
        /// The start, in microseconds since the rank's first event.
        since_us: u64,
        /// The bytes of the rank.
        bytes: u64,
        /// The bytes of the median rank.
        usual_bytes: u64,
    },
    /// The memory of a site at the peak.
    Site {
        /// The innermost calls.
        name: String,
        /// That of the rank.
        bytes: u64,
        /// That of the median rank.
        usual_bytes: u64,
    },
    /// The memory of an owner at the peak.
    Owner {
        /// The owner.
        name: String,
        /// That of the rank.
        bytes: u64,
        /// That of the median rank.
        usual_bytes: u64,
    },
}

impl Why {
    /// Returns by how many bytes the rank differs; of a failure none.
    #[must_use]
    pub fn apart_bytes(&self) -> u64 {
        self.figures().map_or(0, |(bytes, usual_bytes)| bytes.abs_diff(usual_bytes))
    }

    /// Returns its kind in one word, as in JSON.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Why::OutOfMemory { .. } => "out_of_memory",
            Why::Peak { .. } => "peak",
            Why::Reserved { .. } => "reserved",
            Why::Waste { .. } => "waste",
            Why::End { .. } => "end",
            Why::Step { .. } => "step",
            Why::Clock { .. } => "clock",
            Why::Site { .. } => "site",
            Why::Owner { .. } => "owner",
        }
    }

    /// Returns where the difference starts: the name of a step, or a time since the rank's first event, as in
    /// `12.583 s`. `None` for a figure of the whole history.
    #[must_use]
    pub fn begin(&self) -> Option<String> {
        match self {
            Why::Step { name, .. } => Some(name.clone()),
            Why::Clock { since_us, .. } => {
                Some(format!("{}.{:03} s", since_us / 1_000_000, since_us / 1000 % 1000))
            }
            _ => None,
        }
    }

    /// Returns the bytes of the rank and of the median rank; `None` for a failure.
    #[must_use]
    pub fn figures(&self) -> Option<(u64, u64)> {
        match self {
            Why::OutOfMemory { .. } => None,
            Why::Peak { bytes, usual_bytes }
            | Why::Reserved { bytes, usual_bytes }
            | Why::Waste { bytes, usual_bytes }
            | Why::End { bytes, usual_bytes }
            | Why::Step { bytes, usual_bytes, .. }
            | Why::Clock { bytes, usual_bytes, .. }
            | Why::Site { bytes, usual_bytes, .. }
            | Why::Owner { bytes, usual_bytes, .. } => Some((*bytes, *usual_bytes)),
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::OutOfMemory { n_ooms, bytes, site, n_others } => {
                let requests = if *n_ooms == 1 { "request" } else { "requests" };
                let first = if *n_ooms == 1 { "for" } else { "the first for" };
                write!(f, "out of memory: {n_ooms} {requests} failed, {first} {}", Bytes(*bytes))?;
                if !site.is_empty() {
                    write!(f, " by {site}")?;
                }
                return match *n_others {
                    1 => f.write_str("; none on the other rank"),
                    n => write!(f, "; none on the {n} other ranks"),
                };
            }
            Why::Peak { .. } => f.write_str("peak")?,
            Why::Reserved { .. } => f.write_str("reserved memory")?,
            Why::Waste { .. } => f.write_str("reserved memory not in any block")?,
            Why::End { .. } => f.write_str("memory at the end")?,
            Why::Step { .. } => {
                write!(f, "first difference, in the peak of {}", self.begin().unwrap_or_default())?
            }
            Why::Clock { .. } => {
                write!(f, "first difference, in the peak after {}", self.begin().unwrap_or_default())?;
            }
            Why::Site { name, .. } => write!(f, "held at the peak by {name}")?,
            Why::Owner { name, .. } => write!(f, "reserved at the peak by {name}")?,
        }
        let (bytes, usual_bytes) = self.figures().unwrap_or_default();
        if usual_bytes == 0 && bytes > 0 {
            return write!(f, ": {}, none on a typical rank", Bytes(bytes));
        }
        let side = match bytes.cmp(&usual_bytes) {
            Ordering::Less => "less",
            _ => "more",
        };
        let apart_bytes = bytes.abs_diff(usual_bytes);
        write!(
            f,
            ": {}, {} {side} than on a typical rank ({})",
            Bytes(bytes),
            Bytes(apart_bytes),
            Bytes(usual_bytes)
        )
    }
}
