//! Reports a failed request: its size, the free memory at that moment, and why that was not used.
//!
//! Whether it would have succeeded under other settings is a question for a replay (`memreel::whatif`), because blocks
//! would have other addresses. This report has the figures that a replay needs.

use serde::{Serialize, Serializer};

use crate::{
    analysis::{DeviceHistory, Gap, SegmentLayout, Totals, frames::ADDRESSES, owners::time_of},
    history::Moment,
    model::{Snapshot, StackIndex, TraceEntry, Value},
    words::{
        Action, PoolId, StreamId, UsageReport,
        torch::{LARGE_SEGMENT_BYTES, page_bytes, pool_kind, segment_bytes},
    },
};

/// Why a request failed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Verdict {
    /// Segments that the request could use had a free piece that was large enough. `max_split_size_mb` keeps large
    /// blocks whole; or the request was for a private pool that the file does not name.
    Unused,
    /// Segments that the request could use had enough free bytes, alone or together with the device's, but in pieces.
    Fragmented,
    /// These bytes and those of the device were enough for the request, but not for the segment or the pages
    /// that it needs.
    RoundedUp,
    /// Enough bytes were free, but for other streams, in the other kind of pool or in other pools.
    Elsewhere,
    /// Enough bytes were free or in pending blocks.
    Pending,
    /// The device had enough free bytes and still refused: the process reached a limit
    /// (`set_per_process_memory_fraction`), or the device could not provide them in one piece.
    Limited,
    /// The device is large enough for the request and the blocks in use, but too much of it is held by other processes,
    /// or by this one outside the allocator.
    Occupied,
    /// All free memory together was less than the request.
    Full,
    /// The request was for addresses to map memory at, rather than for memory: the process has reserved too many.
    Addresses,
}

impl Verdict {
    /// Returns `free and not used`, `fragmented`, `rounded up`, `free elsewhere`, `pending`, `limited`, `occupied`,
    /// `full` or `addresses`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Unused => "free and not used",
            Verdict::Fragmented => "fragmented",
            Verdict::RoundedUp => "rounded up",
            Verdict::Elsewhere => "free elsewhere",
            Verdict::Pending => "pending",
            Verdict::Limited => "limited",
            Verdict::Occupied => "occupied",
            Verdict::Full => "full",
            Verdict::Addresses => "addresses",
        }
    }
}

impl Serialize for Verdict {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.name().serialize(serializer)
    }
}

/// A failed request with the figures at that moment. [`OomRequest`](super::OomRequest) is what of it is printed as JSON.
#[derive(Clone, PartialEq, Eq, Debug)]
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
    /// The size of the segment that was requested from the device, in bytes, with default settings; with expandable
    /// segments, of the pages that a new range needs.
    pub segment_bytes: u64,
    /// Whether the run had expandable segments.
    pub is_expandable: bool,
    /// Whether the run had a `max_split_size_mb`; `None` if the file does not have its settings.
    pub has_max_split: Option<bool>,
    /// The pool of the request. `None` if the file does not name it (before PyTorch 2.12) and has private
    /// pools; then the figures are those of the default pool.
    pub pool: Option<PoolId>,
    /// The bytes that the device had free.
    pub device_free_bytes: u64,
    /// All bytes of the device, if they are known ([`OomReport::of_device`]); a file does not have them.
    pub device_total_bytes: Option<u64>,
    /// The stream of the request.
    pub stream: StreamId,
    /// The stack of the request; `None` if it was not recorded.
    pub stack: Option<StackIndex>,
    /// The figures of the moment just after the event.
    pub totals: Totals,
    /// The requested bytes of pending blocks.
    pub pending_bytes: u64,
    /// The number of these blocks.
    pub n_pending: usize,
    /// The free bytes in segments that the request could use: those of its stream, kind of pool and pool.
    pub free_here_bytes: u64,
    /// The size of the largest piece of these, in bytes.
    pub largest_free_bytes: u64,
    /// Whether a piece that was large enough became free while the request waited for its stream, after its search:
    /// PyTorch does not search again (pytorch#189504).
    pub is_freed_late: bool,
    /// The free bytes in other segments: on other streams, in the other kind of pool, in other pools.
    pub free_elsewhere_bytes: u64,
    /// The free bytes in whole pages of 2 MiB (small pool) or 20 MiB, which expandable segments could
    /// unmap and map again. It is a lower bound.
    pub free_pages_bytes: u64,
    /// The bytes that the driver's pools of this process kept free, from the last report before; 0 if there is none.
    pub pool_slack_bytes: u64,
    /// The bytes of addresses that the process had reserved, if the request was for addresses rather than memory.
    pub reserved_address_bytes: Option<u64>,
    /// Why the request failed.
    pub verdict: Verdict,
}

impl OomReport {
    /// Returns whether the device had enough for the request and still refused. The bytes left within the limit are not
    /// recorded; they were fewer than the request, and count as 0.
    #[must_use]
    pub fn is_limited(&self) -> bool {
        self.reserved_address_bytes.is_none() && self.device_free_bytes >= self.segment_bytes
    }

    /// Returns the report with the size of the device, which shows what other processes hold.
    #[must_use]
    pub fn of_device(mut self, total_bytes: u64) -> OomReport {
        self.device_total_bytes = Some(total_bytes);
        self.verdict = verdict(&self);
        self
    }

    /// Returns the bytes of the device that are neither free nor held by this allocator, if its size is known: those of
    /// other processes, and of this one outside the allocator, such as CUDA's context and libraries.
    #[must_use]
    pub fn outside_bytes(&self) -> Option<u64> {
        let inside_bytes = self.device_free_bytes.saturating_add(self.totals.reserved_bytes);
        self.device_total_bytes.map(|total_bytes| total_bytes.saturating_sub(inside_bytes))
    }

    /// Returns whether others hold a good part of the device, without which the request would have succeeded. A context
    /// and its libraries take less than a tenth of most devices.
    pub(super) fn is_occupied(&self) -> bool {
        let outside_bytes = self.outside_bytes().unwrap_or(0);
        // If the device had enough, others did not take it.
        !self.is_limited()
            && outside_bytes > self.device_total_bytes.unwrap_or(0) / 10
            && self.all_free_bytes().saturating_add(outside_bytes) >= self.requested_bytes
    }

    /// Returns the free bytes of the device that the process could have used.
    pub(super) fn usable_device_bytes(&self) -> u64 {
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

    /// Returns the most bytes that the process could hold at that moment. Like [`OomReport::could_hold_bytes`], but
    /// with the most that a limit can have left.
    #[must_use]
    pub fn could_hold_at_most_bytes(&self) -> u64 {
        let left_bytes = if self.is_limited() { self.segment_bytes.saturating_sub(1) } else { 0 };
        self.could_hold_bytes().saturating_add(left_bytes)
    }

    /// Returns whether the request would have fit if blocks could be moved together: in the free bytes of its
    /// segments, or in a segment made of these and of the free bytes of the device.
    #[must_use]
    pub fn fits_compacted(&self) -> bool {
        let device_bytes = self.usable_device_bytes();
        let (from_device, needed) = if self.is_expandable {
            let page = page_bytes(Some(pool_kind(self.requested_bytes)));
            (device_bytes / page * page, self.requested_bytes)
        } else {
            (device_bytes, self.segment_bytes)
        };
        self.free_here_bytes >= self.requested_bytes
            || self.free_here_bytes.saturating_add(from_device) >= needed
    }

    /// Returns why free memory was not used; `None` if there was too little of it.
    pub(super) fn verdict_of_free(&self) -> Option<Verdict> {
        let requested_bytes = self.requested_bytes;
        let with_device = self.free_here_bytes.saturating_add(self.usable_device_bytes());
        if self.largest_free_bytes >= requested_bytes {
            Some(Verdict::Unused)
        } else if self.fits_compacted() {
            Some(Verdict::Fragmented)
        } else if with_device >= requested_bytes {
            Some(Verdict::RoundedUp)
        } else if self.all_free_bytes() >= requested_bytes {
            Some(Verdict::Elsewhere)
        } else if self.all_free_bytes().saturating_add(self.pending_bytes) >= requested_bytes {
            Some(Verdict::Pending)
        } else {
            None
        }
    }

    /// Returns whether no setting would have satisfied the request: together with the blocks in use, it needs more than
    /// the process could hold.
    #[must_use]
    pub fn never_fits(&self) -> bool {
        self.totals.active_bytes.saturating_add(self.requested_bytes) > self.could_hold_at_most_bytes()
    }
}

impl DeviceHistory<'_> {
    /// Returns a report on the last failed request; `None` if none failed.
    #[must_use]
    pub fn oom(&self) -> Option<OomReport> {
        self.oom_at(self.entries().iter().rposition(is_oom)?)
    }

    /// Returns a report on the failed request of an entry; `None` if the entry is not an `oom`.
    #[must_use]
    pub fn oom_at(&self, at: usize) -> Option<OomReport> {
        let entries = self.entries();
        let (entry, moment) = (entries.get(at).filter(|entry| is_oom(entry))?, Moment::after(at));
        let segments = self.layout(moment);
        let wanted = self.wanted_by(at)?;
        let (kind, pool) = (wanted.kind, wanted.pool);
        let serves = |segment: &&SegmentLayout<'_>| wanted.is_served_by(&segment.range);
        let setting = |key| self.shared().records.setting(key);
        let is_expandable = match setting("expandable_segments") {
            Some(Value::Bool(is_expandable)) => *is_expandable,
            _ => segments.iter().any(|segment| segment.range.is_expandable),
        };
        let has_max_split = setting("max_split_size").and_then(Value::as_int).map(|bytes| bytes >= 0);
        let totals = self.totals_at(moment);
        let usage = self.usage_before(entry);
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
            segment_bytes: match is_expandable {
                true => entry.size.checked_next_multiple_of(page_bytes(Some(kind))).unwrap_or(entry.size),
                false => segment_bytes(entry.size, LARGE_SEGMENT_BYTES),
            },
            is_expandable,
            has_max_split,
            pool,
            device_free_bytes: entry.device_free_bytes(),
            device_total_bytes: None,
            stream: entry.stream,
            stack: entry.stack,
            totals,
            pending_bytes: totals.active_bytes.saturating_sub(totals.allocated_bytes),
            n_pending: self.lives_at(moment).filter(|life| !life.is_allocated_at(moment)).count(),
            free_here_bytes,
            largest_free_bytes: largest.unwrap_or(0),
            is_freed_late: is_freed_late(
                &entries[..at],
                entry.size,
                has_max_split,
                segments.iter().filter(serves),
            ),
            free_elsewhere_bytes: all_bytes - free_here_bytes,
            free_pages_bytes: segments.iter().map(free_pages_bytes).fold(0, u64::saturating_add),
            pool_slack_bytes: usage.map_or(0, |usage| usage.pool_slack_bytes),
            reserved_address_bytes: asked_for_addresses(self.snapshot(), entry)
                .then(|| usage.map_or(0, |usage| usage.reserved_address_bytes)),
            verdict: Verdict::Full,
        };
        report.verdict = verdict(&report);
        Some(report)
    }

    /// Returns the device's last report before an entry; `None` without a report.
    fn usage_before(&self, entry: &TraceEntry) -> Option<UsageReport> {
        let usage = self.snapshot().usage().into_iter().find(|usage| usage.device == self.device())?;
        let n_before = usage.reports.partition_point(|report| time_of(report) <= entry.time_us);
        usage.reports.get(n_before.saturating_sub(1)).map(|timed| timed.report)
    }
}

/// Returns whether a failed request was for addresses to map memory at, rather than for memory.
#[must_use]
pub fn asked_for_addresses(snapshot: &Snapshot, entry: &TraceEntry) -> bool {
    let mut frames = entry.stack.into_iter().flat_map(|stack| snapshot.stacks.frames(stack));
    frames.next().is_some_and(|frame| *frame.name == *ADDRESSES)
}

/// Returns whether a request that failed after these entries waited for the free of a block in a large enough gap. The
/// frees that it waits for, and the segments that it then gives back, come directly before the failure. A block that
/// the program had just freed counts too, unless `max_split_size_mb` kept it from being used.
fn is_freed_late<'s>(
    before: &[TraceEntry],
    requested_bytes: u64,
    has_max_split: Option<bool>,
    mut segments: impl Iterator<Item = &'s SegmentLayout<'s>>,
) -> bool {
    let is_of_wait =
        |entry: &&TraceEntry| matches!(entry.action, Some(Action::FreeCompleted | Action::SegmentFree));
    let n_waited = before.iter().rev().take_while(is_of_wait).count();
    let (before, waited) = before.split_at(before.len() - n_waited);
    let just_freed = before
        .last()
        .filter(|entry| has_max_split != Some(false) && entry.action == Some(Action::FreeRequested));
    let is_late = |entry: &TraceEntry| {
        entry.action == Some(Action::FreeCompleted)
            && just_freed.is_none_or(|requested| requested.address != entry.address)
    };
    segments.any(|segment| {
        segment.gaps.iter().filter(|gap| gap.bytes >= requested_bytes).any(|gap| {
            let range = gap.address..gap.address.saturating_add(gap.bytes);
            waited.iter().any(|entry| is_late(entry) && range.contains(&entry.address))
        })
    })
}

fn is_oom(entry: &TraceEntry) -> bool {
    entry.action == Some(Action::Oom)
}

pub(super) fn verdict(report: &OomReport) -> Verdict {
    match report.verdict_of_free() {
        _ if report.reserved_address_bytes.is_some() => Verdict::Addresses,
        Some(verdict) => verdict,
        None if report.is_limited() => Verdict::Limited,
        None if report.is_occupied() => Verdict::Occupied,
        None => Verdict::Full,
    }
}

/// Returns the bytes of the whole pages in a segment's gaps; pages are counted from its start.
fn free_pages_bytes(segment: &SegmentLayout<'_>) -> u64 {
    let page = page_bytes(segment.range.kind);
    let whole = |Gap { address, bytes }: &Gap| {
        let start = *address - segment.range.address;
        let end = start.saturating_add(*bytes);
        let start = start.checked_next_multiple_of(page).unwrap_or(end);
        // The last page of a segment may be shorter than the others.
        let end = if end == segment.range.bytes { end } else { end / page * page };
        end.saturating_sub(start)
    };
    segment.gaps.iter().map(whole).fold(0, u64::saturating_add)
}
