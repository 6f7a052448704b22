//! Why a request failed: what was asked, what was free, and what stood in the way.

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
    /// Enough was free in the allocator's segments for the request, but in pieces.
    Fragmented,
    /// Enough was free, but for other streams or in private pools.
    Elsewhere,
    /// What this process may hold is used up, while the device had enough for the request: a limit
    /// (`set_per_process_memory_fraction`), or a device that cannot give it in one piece.
    Limited,
    /// All of the free memory together would not have been enough.
    Full,
}

impl Verdict {
    /// `fragmented`, `free elsewhere`, `limited` or `full`.
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

/// A failed request with the figures of its moment.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct OomReport {
    /// The entry of the event.
    pub entry: usize,
    /// The moment just after it.
    pub moment: Moment,
    /// Whether nothing was allocated or freed afterwards, so that sizes are exact.
    pub is_last: bool,
    /// How many requests failed in all.
    pub n_ooms: usize,
    /// The request after rounding.
    pub requested_bytes: u64,
    /// What the device was asked for, with default settings.
    pub segment_bytes: u64,
    /// What the device had free.
    pub device_free_bytes: u64,
    /// On which stream.
    pub stream: StreamId,
    /// Who asked.
    pub stack: Option<StackIndex>,
    /// The figures of the moment.
    pub totals: Totals,
    /// Free bytes in segments that could serve the request: of its stream and kind, in no private pool.
    pub free_here_bytes: u64,
    /// The largest piece of these.
    pub largest_free_bytes: u64,
    /// Free bytes in other segments: other streams, the other kind of pool, private pools.
    pub free_elsewhere_bytes: u64,
    /// Of all free bytes in segments, those in whole pages of 2 MiB (small pool) or 20 MiB, which
    /// expandable segments could give back and map again: at least so much.
    pub free_pages_bytes: u64,
    /// Why it failed.
    pub verdict: Verdict,
}

impl OomReport {
    /// Whether the device had enough for the request and still refused. How much a limit left is not
    /// recorded; it was less than the request, and counts as nothing.
    #[must_use]
    pub fn is_limited(&self) -> bool {
        self.device_free_bytes >= self.segment_bytes
    }

    /// What of the device's free bytes could be had.
    fn usable_device_bytes(&self) -> u64 {
        if self.is_limited() { 0 } else { self.device_free_bytes }
    }

    /// What the process could hold at that moment: what it had reserved, and what the device had free
    /// for it. A limit for `whatif`.
    #[must_use]
    pub fn could_hold_bytes(&self) -> u64 {
        self.totals.reserved_bytes.saturating_add(self.usable_device_bytes())
    }

    /// Everything that was free and could be had, in segments and on the device.
    #[must_use]
    pub fn all_free_bytes(&self) -> u64 {
        self.free_here_bytes
            .saturating_add(self.free_elsewhere_bytes)
            .saturating_add(self.usable_device_bytes())
    }

    /// Whether it would have fit if blocks could be moved together.
    #[must_use]
    pub fn fits_compacted(&self) -> bool {
        self.free_here_bytes.saturating_add(self.usable_device_bytes()) >= self.requested_bytes
    }

    /// Whether it would surely have fit with expandable segments, blocks lying as they do. If not,
    /// it may still: under them blocks would be placed differently; `whatif` answers that.
    #[must_use]
    pub fn fits_expandable(&self) -> bool {
        self.free_pages_bytes.saturating_add(self.usable_device_bytes()) >= self.requested_bytes
    }
}

impl DeviceHistory<'_> {
    /// Returns a report on the last request that failed; `None` if none did.
    #[must_use]
    pub fn oom(&self) -> Option<OomReport> {
        oom(self)
    }
}

fn oom(history: &DeviceHistory<'_>) -> Option<OomReport> {
    let entries = history.entries();
    let is_oom = |entry: &crate::snapshot::TraceEntry| entry.action == Some(Action::Oom);
    let at = entries.iter().rposition(is_oom)?;
    let (entry, moment) = (&entries[at], Moment::after(at));
    let segments = history.layout(moment);
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
        moment,
        is_last: !entries[at + 1..].iter().any(|entry| entry.action.is_some_and(|a| a != Action::Snapshot)),
        n_ooms: entries.iter().filter(|entry| is_oom(entry)).count(),
        requested_bytes: entry.size,
        segment_bytes: segment_bytes(entry.size, LARGE_SEGMENT_BYTES),
        device_free_bytes: entry.device_free_bytes(),
        stream: entry.stream,
        stack: entry.stack,
        totals: history.totals_at(moment),
        free_here_bytes,
        largest_free_bytes: largest.unwrap_or(0),
        free_elsewhere_bytes: all_bytes - free_here_bytes,
        free_pages_bytes: segments.iter().map(free_pages_bytes).fold(0, u64::saturating_add),
        verdict: Verdict::Full,
    };
    report.verdict = verdict(&report);
    Some(report)
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

/// Whole pages in a segment's gaps, counted from its beginning.
fn free_pages_bytes(segment: &SegmentLayout<'_>) -> u64 {
    let page = page_bytes(segment.range.kind);
    let whole = |Gap { address, bytes }: &Gap| {
        let start = (*address - segment.range.address).next_multiple_of(page);
        let end = *address - segment.range.address + bytes;
        // The last page of a segment may be shorter, and is free with it.
        let end = if end == segment.range.bytes { end } else { end / page * page };
        end.saturating_sub(start)
    };
    segment.gaps.iter().map(whole).fold(0, u64::saturating_add)
}
