//! Requests that almost failed: the device refused them, and they were served after the whole cache was given back.

use memreel_snapshot::{model::TraceEntry, words::Action};

/// A request that was served only after the allocator had given its cache back. The next one that is a little larger, or that
/// comes while a little more is in use, fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct CloseCall {
    /// The entry of its alloc.
    pub entry: usize,
    /// The first entry after the refusal: what was given back for it.
    pub first_release: usize,
    /// The requested bytes.
    pub requested_bytes: u64,
    /// The bytes of the segments and pages that were given back for it.
    pub released_bytes: u64,
}

impl CloseCall {
    /// Returns the close call of the request of an entry of a trace, which gave back what the entries from `first_release` to
    /// `last_release` release.
    pub(super) fn new(
        trace: &[TraceEntry],
        entry: usize,
        [first_release, last_release]: [usize; 2],
    ) -> CloseCall {
        let requested_bytes = trace[entry].size;
        let sizes = trace[first_release..=last_release]
            .iter()
            .filter(|entry| is_release(entry))
            .map(|entry| entry.size);
        CloseCall {
            entry,
            first_release,
            requested_bytes,
            released_bytes: sizes.fold(0, u64::saturating_add),
        }
    }
}

/// Returns whether an entry gives memory back to the device.
pub(super) fn is_release(entry: &TraceEntry) -> bool {
    matches!(entry.action, Some(Action::SegmentFree | Action::SegmentUnmap))
}
