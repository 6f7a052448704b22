//! Blocks below a size are left out, with all their events.

use rustc_hash::FxHashMap;

use super::at::count;
use crate::{
    event::Action,
    inventory::BlockState,
    snapshot::{Block, Segment, Snapshot, Stacks, TraceEntry},
};

/// Drops the blocks for which less was asked than so many bytes.
///
/// Their memory is free then, so that markers that say how much was in use
/// (action `snapshot`) would be wrong and go too.
pub(super) fn drop_small(snapshot: &mut Snapshot, min_bytes: u64) {
    let Snapshot { segments, device_traces, host_segments, host_traces, .. } = snapshot;
    for (device, trace) in (0i64..).zip(device_traces) {
        let of_device = segments.iter_mut().filter(|segment| segment.device == device);
        drop_in(trace, of_device, min_bytes);
    }
    drop_in(host_traces, host_segments.iter_mut(), min_bytes);
}

fn drop_in<'a>(trace: &mut Vec<TraceEntry>, segments: impl Iterator<Item = &'a mut Segment>, min_bytes: u64) {
    // Whether the life that an address is in is kept: its first event decides.
    let mut open: FxHashMap<u64, bool> = FxHashMap::default();
    trace.retain(|entry| {
        let is_large = entry.size >= min_bytes;
        match entry.action {
            Some(Action::Alloc) => {
                open.insert(entry.address, is_large);
                is_large
            }
            Some(Action::FreeRequested) => *open.entry(entry.address).or_insert(is_large),
            Some(Action::FreeCompleted) => open.remove(&entry.address).unwrap_or(is_large),
            Some(Action::Annotate) => open.get(&entry.address).copied().unwrap_or(is_large),
            Some(Action::Snapshot) => false,
            _ => true,
        }
    });
    for segment in segments {
        let (mut address, mut n_dropped) = (segment.address, 0);
        for block in &mut segment.blocks {
            let is_large = open.get(&address).copied().unwrap_or(block.requested_size >= min_bytes);
            if block.state.is_some_and(BlockState::is_active) && !is_large {
                block.state = Some(BlockState::Inactive);
                block.stack = block.stack.and(Some(Stacks::EMPTY));
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

/// Free neighbours are one, as the allocator would have it.
fn join(next: &Block, block: &mut Block) -> bool {
    let is_joined = [block.state, next.state] == [Some(BlockState::Inactive); 2];
    if is_joined {
        block.size = block.size.saturating_add(next.size);
    }
    is_joined
}
