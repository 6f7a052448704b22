//! Removes blocks below a size, with all their events.

use super::past_segments::count;
use crate::{
    history::{Contradiction, FinalBlock, Forward, State, Step, active_blocks},
    model::{
        Block, RecordedDevices, RecordedSettings, Segment, Snapshot, SnapshotSource, StackTable, TraceEntry,
        UseCounts,
    },
    words::{Action, Address, BlockState, DeviceId},
};

/// A source without the blocks of fewer than `min_bytes` requested bytes.
///
/// The memory of those blocks is free in what is left. Entries with the action `snapshot` record how much was
/// in use, which would now be wrong, so they are left out too.
pub(super) struct MinSize<'a> {
    base: Box<dyn SnapshotSource + 'a>,
    head: Snapshot,
    n_entries: Vec<usize>,
    uses: UseCounts,
    min_bytes: u64,
}

impl<'a> MinSize<'a> {
    pub(super) fn new(base: Box<dyn SnapshotSource + 'a>, min_bytes: u64) -> MinSize<'a> {
        let mut head = base.head().without_traces();
        let (mut n_entries, mut uses) = (Vec::new(), UseCounts::default());
        for device in DeviceId::first(base.n_traces()) {
            let (mut lives, mut n_kept) = (LargeLives::new(min_bytes), 0);
            base.for_each_entry(device, &mut |entry| {
                if lives.keep(entry) {
                    n_kept += 1;
                    uses.add(entry);
                }
            });
            n_entries.push(n_kept);
            let is_own = |segment: &&mut Segment| segment.device == device;
            lives.clear(head.segments.iter_mut().filter(is_own));
        }
        // A device without a trace has no events, but its blocks have sizes all the same.
        let has_no_trace =
            |segment: &&mut Segment| segment.device.index().is_none_or(|index| index >= base.n_traces());
        LargeLives::new(min_bytes).clear(head.segments.iter_mut().filter(has_no_trace));
        let mut lives = LargeLives::new(min_bytes);
        head.host_traces.retain(|entry| lives.keep(entry));
        lives.clear(head.host_segments.iter_mut());
        mark(&mut head, base.n_traces(), min_bytes);
        MinSize { base, head, n_entries, uses, min_bytes }
    }
}

impl SnapshotSource for MinSize<'_> {
    fn head(&self) -> &Snapshot {
        &self.head
    }

    fn n_traces(&self) -> usize {
        self.base.n_traces()
    }

    fn for_each_entry(&self, device: DeviceId, look: &mut dyn FnMut(&TraceEntry)) {
        let mut lives = LargeLives::new(self.min_bytes);
        self.base.for_each_entry(device, &mut |entry| {
            if lives.keep(entry) {
                look(entry);
            }
        });
    }

    fn n_entries(&self, device: DeviceId) -> usize {
        device.get_in(&self.n_entries).copied().unwrap_or(0)
    }

    fn use_counts(&self) -> UseCounts {
        self.uses.clone()
    }

    fn check(&self) -> std::io::Result<()> {
        self.base.check()
    }
}

/// Writes the minimum size into the settings, as a recorder with such a filter does, so that readers do not take the
/// figures for exact.
fn mark(head: &mut Snapshot, n_traces: usize, min_bytes: u64) {
    let settings = RecordedDevices::new(head);
    let marked = |device| {
        let recorded = settings.of(device);
        (device, RecordedSettings { min_size_bytes: recorded.min_size_bytes.max(min_bytes), ..recorded })
    };
    let devices: Vec<_> = DeviceId::first(n_traces).map(marked).collect();
    RecordedSettings::store(head, &devices);
}

/// Decides which lives of blocks are kept, entry by entry: the first entry of a life has its size.
struct LargeLives {
    walk: Forward,
    min_bytes: u64,
}

impl LargeLives {
    fn new(min_bytes: u64) -> LargeLives {
        LargeLives { walk: Forward::default(), min_bytes }
    }

    fn keep(&mut self, entry: &TraceEntry) -> bool {
        let bytes = match self.walk.step(entry) {
            Step::Begin { .. } => entry.size,
            Step::Request { began_bytes, .. } | Step::End { began_bytes, .. } => began_bytes,
            Step::Contradiction(Contradiction::RequestOfFree) => {
                self.walk.begin_requested(entry);
                entry.size
            }
            Step::Contradiction(_) => self.bytes_at(entry.address).unwrap_or(entry.size),
            Step::Other => match entry.action {
                Some(Action::Annotate) => self.bytes_at(entry.address).unwrap_or(entry.size),
                Some(Action::Snapshot) => return false,
                _ => return true,
            },
        };
        bytes >= self.min_bytes
    }

    /// The size that the block in use at an address began with, in bytes.
    fn bytes_at(&self, address: Address) -> Option<u64> {
        let spot = self.walk.spot(address).filter(|spot| spot.state != State::Free);
        spot.map(|spot| spot.began_bytes)
    }

    /// Frees the small blocks of segments, as they are after the last entry.
    fn clear<'s>(&self, segments: impl Iterator<Item = &'s mut Segment>) {
        for segment in segments {
            let bytes = |found: &FinalBlock<'_>| {
                self.bytes_at(found.block.address).unwrap_or(found.block.requested_size)
            };
            let small = active_blocks(segment).filter(|found| bytes(found) < self.min_bytes);
            let small: Vec<usize> = small.map(|found| found.number).collect();
            for number in &small {
                let block = &mut segment.blocks[*number];
                block.state = Some(BlockState::Inactive);
                block.stack = block.stack.and(Some(StackTable::EMPTY));
            }
            if !small.is_empty() {
                segment.blocks.dedup_by(|next, block| join(next, block));
                count(segment);
            }
        }
    }
}

/// Joins free neighbours, as the allocator does.
fn join(next: &Block, block: &mut Block) -> bool {
    let is_joined = [block.state, next.state] == [Some(BlockState::Inactive); 2];
    if is_joined {
        block.size = block.size.saturating_add(next.size);
    }
    is_joined
}
