//! The memory available to a run.

/// The memory available to a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Bounds {
    /// A device that is never full.
    #[default]
    Ample,
    /// A device of this many bytes, minus what other processes hold. A request counts with the pages that it needs.
    Device(u64),
    /// A limit of this many bytes on what the process reserves. A request counts with its whole segment, even with
    /// expandable segments.
    Limit(u64),
}

impl Bounds {
    /// Returns the limit of the process in bytes, if it has one.
    #[must_use]
    pub fn limit_bytes(self) -> Option<u64> {
        if let Bounds::Limit(bytes) = self { Some(bytes) } else { None }
    }

    /// Returns the most bytes that can be reserved; `None` on a device that is never full.
    #[must_use]
    pub fn most_bytes(self) -> Option<u64> {
        match self {
            Bounds::Ample => None,
            Bounds::Device(bytes) | Bounds::Limit(bytes) => Some(bytes),
        }
    }
}
