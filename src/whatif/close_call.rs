//! Requests that almost failed: the device refused them, and they succeeded after the whole cache was released.

use memreel_snapshot::{model::TraceEntry, words::Action};

/// A request that succeeded only after the allocator had released its cache. The next request fails if it is a little
/// larger, or if a little more memory is in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct CloseCall {
    /// The entry of its alloc.
    pub entry: usize,
    /// The first entry after the refusal: the first release for it.
    pub first_release: usize,
    /// The requested bytes.
    pub requested_bytes: u64,
    /// The bytes of the segments and pages that were released for it.
    pub released_bytes: u64,
}

impl CloseCall {
    /// Returns the close call of a request's entry in a trace; the entries from `first_release` to `last_release`
    /// released memory for it.
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

/// Returns whether an entry returns memory to the device.
pub(super) fn is_release(entry: &TraceEntry) -> bool {
    matches!(entry.action, Some(Action::SegmentFree | Action::SegmentUnmap))
}
