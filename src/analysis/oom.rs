//! Why a request failed: its size, the free memory at that moment, and what kept it from being used.

use serde::{Serialize, Serializer};

use super::{
    layout::{Gap, SegmentLayout},
    state::{DeviceHistory, Totals},
};
use crate::{
    event::{Action, PoolId, StreamId},
    history::Moment,
    snapshot::StackIndex,
    torch::{LARGE_SEGMENT_BYTES, page_bytes, pool_kind, segment_bytes},
};

/// Why a request failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Verdict {
    /// Segments that could serve the request had enough free bytes, but in pieces.
    Fragmented,
    /// Enough bytes were free, but for other streams, in the other kind of pool or in private pools.
    Elsewhere,
    /// The device had enough free bytes and still refused: the process reached a limit
    /// (`set_per_process_memory_fraction`), or the device could not provide them in one piece.
    Limited,
    /// All free memory together was less than the request.
    Full,
}

impl Verdict {
    /// Returns `fragmented`, `free elsewhere`, `limited` or `full`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Fragmented => "fragmented",
            Verdict::Elsewhere => "free elsewhere",
            Verdict::Limited => "limited",
            Verdict::Full => "full",
        }
    }
}

impl Serialize for Verdict {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.name().serialize(serializer)
    }
}

/// A failed request with the figures of its moment.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct OomReport {
    /// The index of the event's entry in the trace.
    pub entry: usize,
    /// Whether no block was allocated or freed afterwards, so that all sizes are exact.
    pub is_last: bool,
    /// The number of requests of the history that failed.
    pub n_ooms: usize,
    /// The size of the request after rounding, in bytes.
    pub requested_bytes: u64,
    /// The size of the segment for which the device was asked, in bytes, with default settings.
    pub segment_bytes: u64,
    /// The bytes that the device had free.
    pub device_free_bytes: u64,
    /// The stream of the request.
    pub stream: StreamId,
    /// The stack of the request; `None` if it was not recorded.
    pub stack: Option<StackIndex>,
    /// The figures of the moment just after the event.
    pub totals: Totals,
    /// The free bytes in segments that could serve the request: those of its stream and kind of pool,
    /// and not of a private pool.
    pub free_here_bytes: u64,
    /// The size of the largest piece of these, in bytes.
    pub largest_free_bytes: u64,
    /// The free bytes in other segments: of other streams, of the other kind of pool, of private pools.
    pub free_elsewhere_bytes: u64,
    /// The free bytes in whole pages of 2 MiB (small pool) or 20 MiB, which expandable segments could
    /// unmap and map again. It is a lower bound.
    pub free_pages_bytes: u64,
    /// Why the request failed.
    pub verdict: Verdict,
}

impl OomReport {
    /// Returns whether the device had enough for the request and still refused. The bytes that the limit
    /// left are not recorded; they were fewer than the request, and count as 0.
    #[must_use]
    pub fn is_limited(&self) -> bool {
        self.device_free_bytes >= self.segment_bytes
    }

    /// Returns the free bytes of the device that the process could have used.
    fn usable_device_bytes(&self) -> u64 {
        if self.is_limited() { 0 } else { self.device_free_bytes }
    }

    /// Returns the bytes that the process could hold at that moment: those that it had reserved, and those
    /// that the device had free for it. It is a useful limit for a replay.
    #[must_use]
    pub fn could_hold_bytes(&self) -> u64 {
        self.totals.reserved_bytes.saturating_add(self.usable_device_bytes())
    }

    /// Returns all free bytes that the process could have used, in segments and on the device.
    #[must_use]
    pub fn all_free_bytes(&self) -> u64 {
        self.free_here_bytes
            .saturating_add(self.free_elsewhere_bytes)
            .saturating_add(self.usable_device_bytes())
    }

    /// Returns whether the request would have fit if blocks could be moved together.
    #[must_use]
    pub fn fits_compacted(&self) -> bool {
        self.free_here_bytes.saturating_add(self.usable_device_bytes()) >= self.requested_bytes
    }

    /// Returns whether the request would certainly have fit with expandable segments and the same
    /// addresses of blocks. If not, it may still fit, because blocks would have other addresses; a
    /// replay shows that.
    #[must_use]
    pub fn fits_expandable(&self) -> bool {
        self.free_pages_bytes.saturating_add(self.usable_device_bytes()) >= self.requested_bytes
    }
}

impl DeviceHistory<'_> {
    /// Returns a report on the last request that failed; `None` if none did.
    #[must_use]
    pub fn oom(&self) -> Option<OomReport> {
        let entries = self.entries();
        let is_oom = |entry: &crate::snapshot::TraceEntry| entry.action == Some(Action::Oom);
        let at = entries.iter().rposition(is_oom)?;
        let (entry, moment) = (&entries[at], Moment::after(at));
        let segments = self.layout(moment);
        let serves = |segment: &&SegmentLayout<'_>| {
            let range = &segment.range;
            let kind = pool_kind(entry.size);
            range.stream == entry.stream
                && range.kind.is_none_or(|found| found == kind)
                && range.pool.is_none_or(|pool| pool == PoolId::DEFAULT)
        };
        let sum = |free: u64, segment: &SegmentLayout<'_>| free.saturating_add(segment.free_bytes());
        let free_here_bytes = segments.iter().filter(serves).fold(0, sum);
        let all_bytes = segments.iter().fold(0, sum);
        let largest = segments.iter().filter(serves).map(SegmentLayout::largest_gap_bytes).max();
        let mut report = OomReport {
            entry: at,
            is_last: !entries[at + 1..]
                .iter()
                .any(|entry| entry.action.is_some_and(|a| a != Action::Snapshot)),
            n_ooms: entries.iter().filter(|entry| is_oom(entry)).count(),
            requested_bytes: entry.size,
            segment_bytes: segment_bytes(entry.size, LARGE_SEGMENT_BYTES),
            device_free_bytes: entry.device_free_bytes(),
            stream: entry.stream,
            stack: entry.stack,
            totals: self.totals_at(moment),
            free_here_bytes,
            largest_free_bytes: largest.unwrap_or(0),
            free_elsewhere_bytes: all_bytes - free_here_bytes,
            free_pages_bytes: segments.iter().map(free_pages_bytes).fold(0, u64::saturating_add),
            verdict: Verdict::Full,
        };
        report.verdict = verdict(&report);
        Some(report)
    }
}

fn verdict(report: &OomReport) -> Verdict {
    if report.fits_compacted() {
        Verdict::Fragmented
    } else if report.all_free_bytes() >= report.requested_bytes {
        Verdict::Elsewhere
    } else if report.is_limited() {
        Verdict::Limited
    } else {
        Verdict::Full
    }
}

/// Returns the bytes of the whole pages in a segment's gaps; pages are counted from its beginning.
fn free_pages_bytes(segment: &SegmentLayout<'_>) -> u64 {
    let page = page_bytes(segment.range.kind);
    let whole = |Gap { address, bytes }: &Gap| {
        let start = (*address - segment.range.address).next_multiple_of(page);
        let end = *address - segment.range.address + bytes;
        // The last page of a segment may be shorter than the others.
        let end = if end == segment.range.bytes { end } else { end / page * page };
        end.saturating_sub(start)
    };
    segment.gaps.iter().map(whole).fold(0, u64::saturating_add)
}
