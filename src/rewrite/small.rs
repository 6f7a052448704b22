//! Blocks below a size are left out, with all their events.

use rustc_hash::FxHashMap;

use super::at::count;
use crate::{
    event::{Action, Address, DeviceId},
    inventory::BlockState,
    snapshot::{Block, Segment, Snapshot, SnapshotSource, StackTable, TraceEntry, UseCounts},
};

/// A document without the blocks for which less was asked than so many bytes.
///
/// Their memory is free then, so that markers that say how much was in use
/// (action `snapshot`) would be wrong and go too.
pub(super) struct Large<'a> {
    base: Box<dyn SnapshotSource + 'a>,
    head: Snapshot,
    n_entries: Vec<usize>,
    uses: UseCounts,
    min_bytes: u64,
}

impl<'a> Large<'a> {
    pub(super) fn of(base: Box<dyn SnapshotSource + 'a>, min_bytes: u64) -> Large<'a> {
        let mut head = base.head().without_traces();
        let (mut n_entries, mut uses) = (Vec::new(), UseCounts::default());
        for device in DeviceId::first(base.n_traces()) {
            let (mut lives, mut n_kept) = (Lives::new(min_bytes), 0);
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
        Lives::new(min_bytes).clear(head.segments.iter_mut().filter(has_no_trace));
        let mut lives = Lives::new(min_bytes);
        head.host_traces.retain(|entry| lives.keep(entry));
        lives.clear(head.host_segments.iter_mut());
        Large { base, head, n_entries, uses, min_bytes }
    }
}

impl SnapshotSource for Large<'_> {
    fn head(&self) -> &Snapshot {
        &self.head
    }

    fn n_traces(&self) -> usize {
        self.base.n_traces()
    }

    fn for_each_entry(&self, device: DeviceId, look: &mut dyn FnMut(&TraceEntry)) {
        let mut lives = Lives::new(self.min_bytes);
        self.base.for_each_entry(device, &mut |entry| {
            if lives.keep(entry) {
                look(entry);
            }
        });
    }

    fn n_entries(&self, device: DeviceId) -> usize {
        device.of(&self.n_entries).copied().unwrap_or(0)
    }

    fn use_counts(&self) -> UseCounts {
        self.uses.clone()
    }

    fn check(&self) -> std::io::Result<()> {
        self.base.check()
    }
}

/// Which lives of blocks are kept, as their events come.
struct Lives {
    /// Whether the life that an address is in is kept: its first event decides.
    open: FxHashMap<Address, bool>,
    min_bytes: u64,
}

impl Lives {
    fn new(min_bytes: u64) -> Lives {
        Lives { open: FxHashMap::default(), min_bytes }
    }

    fn keep(&mut self, entry: &TraceEntry) -> bool {
        let is_large = entry.size >= self.min_bytes;
        match entry.action {
            Some(Action::Alloc) => {
                self.open.insert(entry.address, is_large);
                is_large
            }
            Some(Action::FreeRequested) => *self.open.entry(entry.address).or_insert(is_large),
            Some(Action::FreeCompleted) => self.open.remove(&entry.address).unwrap_or(is_large),
            Some(Action::Annotate) => self.open.get(&entry.address).copied().unwrap_or(is_large),
            Some(Action::Snapshot) => false,
            _ => true,
        }
    }

    /// Frees the small blocks of segments, as they are behind the last event.
    fn clear<'s>(&self, segments: impl Iterator<Item = &'s mut Segment>) {
        for segment in segments {
            let (mut address, mut n_dropped) = (segment.address, 0);
            for block in &mut segment.blocks {
                let is_kept = self.open.get(&address).copied();
                let is_large = is_kept.unwrap_or(block.requested_size >= self.min_bytes);
                if block.state.is_some_and(BlockState::is_active) && !is_large {
                    block.state = Some(BlockState::Inactive);
                    block.stack = block.stack.and(Some(StackTable::EMPTY));
                    n_dropped += 1;
                }
                address = address.saturating_add(block.size);
            }
            if n_dropped > 0 {
                segment.blocks.dedup_by(|next, block| join(next, block));
                count(segment);
            }
        }
    }
}

/// Free neighbours are one, as the allocator would have it.
fn join(next: &Block, block: &mut Block) -> bool {
    let is_joined = [block.state, next.state] == [Some(BlockState::Inactive); 2];
    if is_joined {
        block.size = block.size.saturating_add(next.size);
    }
    is_joined
}
