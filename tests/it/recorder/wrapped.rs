//! Allocators that are wrapped, and so report to a ledger.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

use memreel::{
    Action, Address, Allocate, BlockState, DeviceId, Recorded, Snapshot,
    recorder::{Context, Recorder, Recording},
    snapshot::{Dialect, collect},
};

fn recorder() -> Recorder {
    let recorder = Recorder::new();
    recorder.record_history(&Recording::all().context(Context::None));
    recorder
}

/// The actions and sizes of the events of blocks.
fn events(snapshot: &Snapshot) -> Vec<(Action, u64)> {
    let all = snapshot.device_traces[0].iter().map(|entry| (entry.action.unwrap(), entry.size));
    all.filter(|(action, _)| !matches!(action, Action::SegmentAlloc | Action::SegmentFree)).collect()
}

fn live(snapshot: &Snapshot) -> Vec<u64> {
    let blocks = snapshot.segments.iter().flat_map(|segment| &segment.blocks);
    blocks.filter(|block| block.state == Some(BlockState::ActiveAllocated)).map(|block| block.size).collect()
}

/// Slots of 1 MiB, by their number.
struct Slots(Cell<u64>);

impl Allocate for Slots {
    type Block = u64;
    type Error = &'static str;

    fn allocate(&self, bytes: u64) -> Result<u64, &'static str> {
        if bytes > 1 << 20 {
            return Err("too large");
        }
        Ok(self.0.replace(self.0.get() + 1))
    }

    fn deallocate(&self, slot: u64) {
        assert_eq!(slot, 0, "only the first is freed");
    }

    fn address_of(&self, slot: &u64) -> Address {
        Address((1 + slot) << 20)
    }
}

#[test]
fn an_allocator_with_blocks_of_its_own_is_recorded() {
    let recorder = recorder();
    let slots = Recorded::new(Slots(Cell::new(0)), &recorder, 0);
    let [first, second] = [slots.allocate(1000).unwrap(), slots.allocate(2000).unwrap()];
    assert_eq!((slots.allocate(2 << 20), slots.address_of(&second)), (Err("too large"), Address(2 << 20)));
    slots.deallocate(first);
    let snapshot = collect(&recorder, [slots.ledger()], Dialect::default());
    let freed = [(Action::FreeRequested, 1000), (Action::FreeCompleted, 1000)];
    assert_eq!(events(&snapshot), [[(Action::Alloc, 1000), (Action::Alloc, 2000)], freed].concat());
    assert_eq!(live(&snapshot), [2000]);
}

/// The system's allocator, without memory for more than a megabyte.
struct Small;

// SAFETY: all requests are passed on to the system's allocator, but those for which there is no memory.
unsafe impl GlobalAlloc for Small {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() > 1 << 20 {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(block, layout) }
    }
}

#[test]
fn an_allocator_of_pointers_is_recorded() {
    let recorder = recorder();
    let heap = Recorded::new(Small, &recorder, DeviceId(0));
    let layout = |bytes| Layout::from_size_align(bytes, 64).unwrap();
    // SAFETY: layouts with a size; each block is freed once, with its own.
    unsafe {
        let block = heap.alloc(layout(100));
        let grown = heap.realloc(block, layout(100), 5000);
        assert!(heap.realloc(grown, layout(5000), 2 << 20).is_null());
        assert!(heap.alloc(layout(2 << 20)).is_null());
        let zeroed = heap.alloc_zeroed(layout(300));
        assert_eq!((*zeroed, zeroed.addr() % 64), (0, 0));
        let mut sizes = live(&collect(&recorder, [&heap], Dialect::default()));
        sizes.sort_unstable();
        assert_eq!(sizes, [300, 5000], "a failure leaves the block");
        heap.dealloc(grown, layout(5000));
        heap.dealloc(zeroed, layout(300));
    }
    let snapshot = collect(&recorder, [&heap], Dialect::default());
    assert!(live(&snapshot).is_empty());
    let n_allocs = events(&snapshot).iter().filter(|(action, _)| *action == Action::Alloc).count();
    assert_eq!((n_allocs, heap.ledger().n_contradictions()), (4, 0));
}
