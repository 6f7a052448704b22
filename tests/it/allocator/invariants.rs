//! What holds of any allocator at any moment, by plain counting: for `programs` and `stress`.

use std::collections::BTreeMap;

use memreel::{
    Allocation, BlockState, PoolKind,
    allocator::{MemoryStats, PoolStat, Stat},
    integrate::InventorySegment,
};
use proptest::{prelude::*, test_runner::TestCaseError};

use super::model::{Stretch, Sums, Told};

pub(crate) type Checked = Result<(), TestCaseError>;

/// Segments do not overlap; each byte of one is in exactly one block; free blocks do not touch.
pub(crate) fn check_tiling(segments: &[InventorySegment]) -> Checked {
    let mut end = 0;
    for segment in segments {
        prop_assert!(segment.address.0 >= end, "segments overlap at {}", segment.address);
        end = segment.address.0;
        let mut was_free = false;
        for block in &segment.blocks {
            prop_assert_eq!(block.address.0, end, "a gap or an overlap");
            prop_assert!(block.size_bytes > 0 && block.size_bytes.is_multiple_of(512));
            prop_assert!(!block.state.is_active() || block.requested_bytes <= block.size_bytes);
            let is_free = !block.state.is_active();
            prop_assert!(!(was_free && is_free), "two free blocks touch at {}", block.address);
            (was_free, end) = (is_free, end + block.size_bytes);
        }
        prop_assert_eq!(end, segment.address.0 + segment.size_bytes);
    }
    Ok(())
}

/// What the program holds is what the allocator says it holds.
pub(crate) fn check_live(segments: &[InventorySegment], live: &[Allocation]) -> Checked {
    let blocks = segments.iter().flat_map(|segment| &segment.blocks);
    let held: Vec<_> = blocks
        .filter(|block| block.state == BlockState::ActiveAllocated)
        .map(|block| (block.address, block.size_bytes, block.requested_bytes))
        .collect();
    let mut live: Vec<_> = live.iter().map(|b| (b.address(), b.block_bytes(), b.bytes())).collect();
    live.sort_unstable();
    prop_assert_eq!(held, live);
    Ok(())
}

/// Statistics are recounts of the inventory.
pub(crate) fn check_recounts(stats: &MemoryStats, segments: &[InventorySegment]) -> Checked {
    for (i, expected) in recount(segments).into_iter().enumerate() {
        prop_assert_eq!(of_pools(stats, i, |stat| stat.current), expected);
        prop_assert_eq!(of_pools(stats, i, |stat| stat.allocated - stat.freed), expected);
        let peaks = of_pools(stats, i, |stat| stat.peak);
        prop_assert_eq!(larger(peaks, expected), peaks);
    }
    Ok(())
}

/// Each event about memory is about memory that is there, in a state that allows it.
pub(crate) fn check_pairs(events: &[Told]) -> Checked {
    let (mut memory, mut held, mut waiting) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    for &(action, address, bytes, ..) in events {
        match action {
            "segment_alloc" | "segment_map" => prop_assert_eq!(memory.insert(address, bytes), None),
            "segment_free" => prop_assert_eq!(memory.remove(&address), Some(bytes)),
            "segment_unmap" => take_pages(&mut memory, address, bytes)?,
            "alloc" => {
                prop_assert!(covers(&memory, address, bytes), "{:#x} lies in no segment", address);
                prop_assert_eq!(held.insert(address, bytes), None);
            }
            "free_requested" => {
                prop_assert_eq!(held.remove(&address), Some(bytes));
                waiting.insert(address, bytes);
            }
            "free_completed" => prop_assert_eq!(waiting.remove(&address), Some(bytes)),
            _ => {}
        }
    }
    Ok(())
}

/// Whether stretches of memory that touch cover these bytes.
fn covers(memory: &BTreeMap<u64, u64>, address: u64, bytes: u64) -> bool {
    let mut at = address;
    while at < address + bytes {
        match memory.range(..=at).next_back() {
            Some((start, len)) if start + len > at => at = start + len,
            _ => return false,
        }
    }
    true
}

fn take_pages(memory: &mut BTreeMap<u64, u64>, address: u64, bytes: u64) -> Checked {
    prop_assert!(covers(memory, address, bytes), "{:#x} was not mapped", address);
    let end = address + bytes;
    let touched: Vec<(u64, u64)> =
        memory.range(..end).filter(|(at, len)| **at + **len > address).map(|(at, len)| (*at, *len)).collect();
    for (at, len) in touched {
        memory.remove(&at);
        if at < address {
            memory.insert(at, address - at);
        }
        if at + len > end {
            memory.insert(end, at + len - end);
        }
    }
    Ok(())
}

/// The sums of the inventory: of all, of small pools, of large ones.
fn recount(segments: &[InventorySegment]) -> [Sums; 3] {
    let mut both = [Sums::default(); 2];
    for segment in segments {
        let sums = &mut both[usize::from(segment.kind == PoolKind::Large)];
        sums.segment += i64::from(!segment.is_expandable);
        sums.reserved_bytes += segment.size_bytes.cast_signed();
        for block in &segment.blocks {
            let bytes = block.size_bytes.cast_signed();
            if block.state == BlockState::ActiveAllocated {
                sums.allocation += 1;
                sums.allocated_bytes += bytes;
            }
            if block.state.is_active() {
                sums.active += 1;
                sums.active_bytes += bytes;
                sums.requested_bytes += block.requested_bytes.cast_signed();
            } else if !segment.is_expandable && block.size_bytes < segment.size_bytes {
                sums.inactive_split += 1;
                sums.inactive_split_bytes += bytes;
            }
        }
    }
    let [small, large] = both;
    [sum(small, large), small, large]
}

/// One number of each statistic: 0 of all pools, 1 of the small, 2 of the large ones.
pub(crate) fn of_pools(stats: &MemoryStats, which: usize, number: impl Fn(Stat) -> i64) -> Sums {
    let of = |stat: PoolStat| number([stat.all, stat.small_pool, stat.large_pool][which]);
    Sums {
        allocation: of(stats.allocation),
        segment: of(stats.segment),
        active: of(stats.active),
        inactive_split: of(stats.inactive_split),
        allocated_bytes: of(stats.allocated_bytes),
        reserved_bytes: of(stats.reserved_bytes),
        active_bytes: of(stats.active_bytes),
        inactive_split_bytes: of(stats.inactive_split_bytes),
        requested_bytes: of(stats.requested_bytes),
    }
}

fn each(a: Sums, b: Sums, join: impl Fn(i64, i64) -> i64) -> Sums {
    Sums {
        allocation: join(a.allocation, b.allocation),
        segment: join(a.segment, b.segment),
        active: join(a.active, b.active),
        inactive_split: join(a.inactive_split, b.inactive_split),
        allocated_bytes: join(a.allocated_bytes, b.allocated_bytes),
        reserved_bytes: join(a.reserved_bytes, b.reserved_bytes),
        active_bytes: join(a.active_bytes, b.active_bytes),
        inactive_split_bytes: join(a.inactive_split_bytes, b.inactive_split_bytes),
        requested_bytes: join(a.requested_bytes, b.requested_bytes),
    }
}

pub(crate) fn sum(a: Sums, b: Sums) -> Sums {
    each(a, b, |a, b| a + b)
}

pub(crate) fn larger(a: Sums, b: Sums) -> Sums {
    each(a, b, i64::max)
}

/// A segment as the model sees it.
pub(crate) fn stretch(segment: &InventorySegment) -> Stretch {
    let block = |block: &memreel::integrate::InventoryBlock| {
        // What a free block says of its last request depends on that order too.
        let requested = if block.state.is_active() { block.requested_bytes } else { 0 };
        (block.size_bytes, requested, block.state)
    };
    let blocks = segment.blocks.iter().map(block).collect();
    let is_small = segment.kind == PoolKind::Small;
    (segment.address.0, segment.stream.handle(), segment.pool, is_small, segment.is_expandable, blocks)
}
