//! Reconstructs what the allocator held when the history started: undoes every entry from the final state, last to
//! first.
//!
//! Segments come and go with their own entries. A block that was in use at the start either is freed by an entry or is
//! in the final state. Everything between such blocks was free. The call that was in progress at the first entry is
//! taken as recorded, and the state is the one after it (`calls`).

use super::{
    block_ends::block_ends,
    calls::Read,
    held::{Held, Key},
    kinds::Kinds,
    recorded_run::RecordedRun,
    reserved_ranges::{EarlyRange, ReservedRanges},
    step::Prior,
};
use crate::allocator::{Layout, ReservedRange, UsedBlock, divide};
use memreel_snapshot::{
    history::{ByDevice, Joining, Ranges, Span, change, insert_free, undo_segment_event},
    model::TraceEntry,
    words::{
        Action, Address, DeviceId, InventorySegment, PoolId, StackId,
        torch::{ABSURD_BYTES, kind_of_segment},
    },
};

/// The state with which a run starts.
#[derive(Clone, Debug)]
pub(super) enum Start {
    /// The recorded state.
    Recorded(Layout),
    /// The blocks in use are allocated again, by address, because the recorded state is not known.
    Anew {
        /// Why it is not known.
        reason: String,
    },
}

impl Start {
    /// Reconstructs the state before the first entry of a trace. Also returns the size of a device on which the
    /// reserved ranges of the run do not overlap, if they limit it.
    pub(super) fn new(
        records: &ByDevice<'_>,
        device: DeviceId,
        read: &Read,
        recorded: &RecordedRun,
    ) -> (Start, Option<u64>) {
        match (Undoing { records, device, read, recorded }).layout() {
            Ok((layout, total_bytes)) => (Start::Recorded(layout), total_bytes),
            Err(reason) => (Start::Anew { reason }, None),
        }
    }
}

struct Undoing<'a> {
    records: &'a ByDevice<'a>,
    device: DeviceId,
    read: &'a Read,
    recorded: &'a RecordedRun,
}

impl Undoing<'_> {
    fn layout(&self) -> Result<(Layout, Option<u64>), String> {
        if self.read.n_streams_shared + self.read.pools.n_shared() > 0 {
            return Err("there are too many streams or private pools".into());
        }
        let trace = self.records.snapshot().trace(self.device);
        let kinds = Kinds::new(trace, self.read, self.recorded);
        let held = self.held(trace, &kinds)?;
        let held_bytes = held.iter().fold(0_u64, |sum, (start, span)| sum.saturating_add(span.end - start));
        let first = &trace[..self.read.first_entry];
        let start_bytes =
            first.iter().fold(i128::from(self.recorded.start_bytes), |sum, of| sum + change(of));
        if i128::from(held_bytes) != start_bytes || held_bytes >= ABSURD_BYTES {
            return Err("the segments and their events do not add up".into());
        }
        let mut ranges = ReservedRanges::new(&held, self.recorded.reserved_peak_bytes);
        for (number, entry) in trace.iter().enumerate().skip(self.read.first_entry) {
            let key = || self.key(number, entry, &kinds);
            match entry.action {
                Some(Action::SegmentMap) if entry.size > 0 => ranges.map(key(), entry.address, entry.end()),
                Some(Action::SegmentUnmap) => ranges.unmap(key(), entry.address, entry.end()),
                _ => {}
            }
        }
        let layout = Layout { segments: self.segments(&held)?, ranges: self.ranges(&ranges, &held)? };
        Ok((layout, ranges.total_bytes()))
    }

    /// Undoes the segment events.
    fn held(&self, trace: &[TraceEntry], kinds: &Kinds) -> Result<Ranges<Held>, String> {
        let mut held = Ranges::default();
        for (_, segment) in self.records.segments(self.device).filter(|(_, segment)| segment.total_size > 0) {
            let kind = segment.kind.unwrap_or_else(|| kind_of_segment(segment.total_size));
            let key = Key { stream: segment.stream, kind, pool: self.read.pools.known(segment.pool) };
            let value = Held { key, is_expandable: segment.is_expandable };
            if !insert_free(&mut held, segment.address, segment.total_size, value, Joining::Joined) {
                return Err("segments overlap".into());
            }
        }
        let entries = trace.iter().enumerate().skip(self.read.first_entry).rev();
        for (number, entry) in entries.filter(|(_, entry)| is_of_segment(entry)) {
            let is_expandable = matches!(entry.action, Some(Action::SegmentMap | Action::SegmentUnmap));
            let value = Held { key: self.key(number, entry, kinds), is_expandable };
            undo_segment_event(&mut held, entry, value, Joining::Joined)
                .map_err(|_| format!("event {number} contradicts the segments"))?;
        }
        Ok(held)
    }

    fn key(&self, number: usize, entry: &TraceEntry, kinds: &Kinds) -> Key {
        let pool = self.read.pools.of_entry(self.records.snapshot(), number, entry);
        Key { stream: entry.stream, kind: kinds.of(number, entry), pool }
    }

    /// Places the blocks that were in use into the segments.
    fn segments(&self, held: &Ranges<Held>) -> Result<Vec<InventorySegment>, String> {
        let entries = &self.records.snapshot().trace(self.device)[self.read.first_entry..];
        let ends = block_ends(&self.read.priors, entries, &self.recorded.settings);
        let mut priors: Vec<&Prior> = self.read.priors.iter().collect();
        priors.sort_by_key(|prior| prior.address);
        let mut next = 0;
        let mut segments = Vec::new();
        for (start, Span { end, value }) in held.iter() {
            let first = next;
            next += priors[first..].partition_point(|prior| prior.address < end);
            let used = &priors[first..next];
            if used.iter().any(|prior| prior.address < start || prior.stream != value.key.stream) {
                return Err("blocks are in no segment of their stream".into());
            }
            let used: Vec<UsedBlock> =
                used.iter().map(|prior| used_block(prior, ends.get(&prior.address).copied())).collect();
            let mut segment = InventorySegment {
                address: start,
                size_bytes: end - start,
                stream: value.key.stream,
                kind: value.key.kind,
                pool: self.pool(value.key),
                is_expandable: value.is_expandable,
                stack: StackId::NONE,
                blocks: Vec::new(),
            };
            segment.blocks = divide(&segment, &used, &self.recorded.settings)
                .ok_or_else(|| format!("the blocks of the segment at {start:#x} do not fit into it"))?;
            segments.push(segment);
        }
        if next < priors.len() {
            return Err("blocks are in no segment".into());
        }
        Ok(segments)
    }

    fn ranges(&self, found: &ReservedRanges, held: &Ranges<Held>) -> Result<Vec<ReservedRange>, String> {
        let mut ranges: Vec<ReservedRange> = Vec::new();
        for EarlyRange { key, base, end, room_bytes } in found.early() {
            let page_bytes = self.recorded.settings.page_bytes(key.kind);
            let pieces = held.beginning_in(base, end);
            let mut edges = pieces.flat_map(|(start, span)| [start, span.end]);
            if edges.any(|edge| !(edge - base).is_multiple_of(page_bytes)) {
                return Err(format!("the segment at {base:#x} does not consist of pages"));
            }
            let segment = held.beginning_in(end, Address(u64::MAX)).next().map(|(start, _)| start - base);
            ranges.push(ReservedRange {
                base,
                room_bytes: segment.map_or(room_bytes, |bytes| bytes.min(room_bytes)),
                mapped_bytes: end - base,
                page_bytes,
                stream: key.stream,
                kind: key.kind,
                pool: self.pool(key),
            });
        }
        ranges.sort_by_key(|range| range.base);
        // The base of a range may have been found only after the range below it was released.
        for index in 1..ranges.len() {
            let gap_bytes = ranges[index].base - ranges[index - 1].base;
            let below = &mut ranges[index - 1];
            below.room_bytes = below.room_bytes.min(gap_bytes);
            if below.mapped_bytes > gap_bytes {
                return Err(format!("the ranges at {:#x} and after it overlap", below.base));
            }
        }
        Ok(ranges)
    }

    fn pool(&self, key: Key) -> PoolId {
        key.pool.checked_sub(1).map_or(PoolId::DEFAULT, |index| self.read.pools.ids[usize::from(index)])
    }
}

fn used_block(prior: &Prior, end: Option<Address>) -> UsedBlock {
    let Prior { address, bytes: requested_bytes, block_bytes: size_bytes, .. } = *prior;
    UsedBlock { address, requested_bytes, size_bytes, end }
}

fn is_of_segment(entry: &TraceEntry) -> bool {
    entry.size > 0
        && matches!(
            entry.action,
            Some(Action::SegmentAlloc | Action::SegmentMap | Action::SegmentFree | Action::SegmentUnmap)
        )
}
