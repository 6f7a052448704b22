//! Segments for an allocator that does not report its own: runs of adjacent pages.

use crate::recorder::Log;
use memreel_snapshot::words::{
    Action, Address, BlockState, Event, InventoryBlock, InventorySegment, PoolId, StackId, StreamId,
    torch::kind_of_segment,
};

const PAGE_BYTES: u64 = 4096;
/// The number of runs that are collected before they are joined.
const N_UNJOINED: usize = 1 << 16;

/// Returns a segment for each run of adjacent pages with a live block or one that an event is about.
///
/// `live` has the live blocks, in any order. If no block is in use at the first event, a `segment_alloc` of each
/// segment is put before it: the pages exist from then on, because the system does not report when it got them.
/// Otherwise the segments are from before the history.
pub(super) fn segments(live: Vec<InventorySegment>, log: &mut Log) -> Vec<InventorySegment> {
    let mut blocks: Vec<InventoryBlock> = live.into_iter().flat_map(|segment| segment.blocks).collect();
    blocks.sort_unstable_by_key(|block| block.address);
    let mut runs = Runs::default();
    blocks.iter().for_each(|block| runs.add(block.address, block.size_bytes));
    let mut n_allocated = 0_i64;
    for span in log.spans() {
        n_allocated += match span.action {
            Action::Alloc => 1,
            Action::FreeCompleted => -1,
            Action::FreeRequested => 0,
            _ => continue,
        };
        runs.add(span.address, span.bytes);
    }
    let begins_empty = log.n_lost() == 0 && i64::try_from(blocks.len()) == Ok(n_allocated);
    let mut segments = tiled(&runs.joined(), &blocks);
    if begins_empty {
        name(&mut segments, log);
        log.begin_with(&segments.iter().map(opening).collect::<Vec<_>>());
    }
    segments
}

/// Ranges of whole pages, from the first address to one past the last.
#[derive(Debug, Default)]
struct Runs {
    all: Vec<(u64, u64)>,
    /// How many of them are in order and not adjacent to each other.
    n_joined: usize,
}

impl Runs {
    fn add(&mut self, address: Address, bytes: u64) {
        let start = address.0 / PAGE_BYTES * PAGE_BYTES;
        let end = address.0.saturating_add(bytes.max(1));
        let end = end.checked_next_multiple_of(PAGE_BYTES).unwrap_or(end);
        if self.all.last().is_some_and(|(from, to)| *from <= start && end <= *to) {
            return;
        }
        self.all.push((start, end));
        if self.all.len() > 2 * self.n_joined + N_UNJOINED {
            self.join();
        }
    }

    fn join(&mut self) {
        self.all.sort_unstable();
        self.all.dedup_by(|next, before| {
            let is_adjacent = next.0 <= before.1;
            if is_adjacent {
                before.1 = before.1.max(next.1);
            }
            is_adjacent
        });
        self.n_joined = self.all.len();
    }

    fn joined(mut self) -> Vec<(u64, u64)> {
        self.join();
        self.all
    }
}

/// Returns a segment for each run: its live blocks, and inactive blocks between them. Both lists are in order.
fn tiled(runs: &[(u64, u64)], blocks: &[InventoryBlock]) -> Vec<InventorySegment> {
    let mut rest = blocks;
    let mut segments = Vec::with_capacity(runs.len());
    for (start, end) in runs {
        let (inside, behind) = rest.split_at(rest.partition_point(|block| block.address.0 < *end));
        rest = behind;
        segments.push(segment(*start, *end, inside));
    }
    segments
}

fn segment(start: u64, end: u64, live: &[InventoryBlock]) -> InventorySegment {
    let mut blocks = Vec::with_capacity(2 * live.len() + 1);
    let mut at = start;
    for block in live {
        blocks.extend(gap(at, block.address.0));
        blocks.push(*block);
        at = block.address.0 + block.size_bytes;
    }
    blocks.extend(gap(at, end));
    InventorySegment {
        address: Address(start),
        size_bytes: end - start,
        stream: StreamId::DEFAULT,
        kind: kind_of_segment(end - start),
        pool: PoolId::DEFAULT,
        is_expandable: false,
        stack: StackId::NONE,
        blocks,
    }
}

/// Returns the inactive block between two addresses, if there is room for one.
fn gap(from: u64, to: u64) -> Option<InventoryBlock> {
    (to > from).then(|| InventoryBlock {
        address: Address(from),
        size_bytes: to - from,
        requested_bytes: 0,
        state: BlockState::Inactive,
        stack: StackId::NONE,
    })
}

/// Gives each segment the stack of the first event in it: the request that needed it.
fn name(segments: &mut [InventorySegment], log: &Log) {
    let mut is_named = vec![false; segments.len()];
    let mut n_unnamed = segments.len();
    for span in log.spans().filter(|span| span.action == Action::Alloc) {
        if n_unnamed == 0 {
            return;
        }
        let place = segments.partition_point(|segment| segment.address <= span.address) - 1;
        if !is_named[place] {
            is_named[place] = true;
            n_unnamed -= 1;
            segments[place].stack = span.stack;
        }
    }
}

fn opening(segment: &InventorySegment) -> Event {
    Event {
        action: Action::SegmentAlloc,
        address: segment.address,
        size_bytes: segment.size_bytes,
        stream: segment.stream,
        pool: segment.pool,
        stack: segment.stack,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjacent_pages_are_one_run() {
        let mut runs = Runs::default();
        for (address, bytes) in [(0x5010, 16), (0x5020, 16), (0x1ff0, 32), (0x3000, 4096), (0x9fff, 1)] {
            runs.add(Address(address), bytes);
        }
        assert_eq!(runs.joined(), [(0x1000, 0x4000), (0x5000, 0x6000), (0x9000, 0xa000)]);
    }

    #[test]
    fn runs_are_joined_while_they_are_collected() {
        let mut runs = Runs::default();
        for n in (0..5 * N_UNJOINED as u64).rev() {
            runs.add(Address(n * PAGE_BYTES), 8);
        }
        assert!(runs.all.len() <= 2 * N_UNJOINED, "{}", runs.all.len());
        assert_eq!(runs.joined(), [(0, 5 * N_UNJOINED as u64 * PAGE_BYTES)]);
    }

    #[test]
    fn a_segment_has_no_gaps() {
        let block = |address, size_bytes| InventoryBlock {
            address: Address(address),
            size_bytes,
            requested_bytes: size_bytes,
            state: BlockState::ActiveAllocated,
            stack: StackId::NONE,
        };
        let segments = tiled(&[(0x1000, 0x3000)], &[block(0x1010, 0x10), block(0x1020, 0x1000)]);
        let blocks: Vec<_> = segments[0]
            .blocks
            .iter()
            .map(|block| (block.address.0, block.size_bytes, block.state.is_active()))
            .collect();
        let wanted =
            [(0x1000, 0x10, false), (0x1010, 0x10, true), (0x1020, 0x1000, true), (0x2020, 0xfe0, false)];
        assert_eq!(blocks, wanted);
    }
}
