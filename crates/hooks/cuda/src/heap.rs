//! The functions for `libmemreel_heap.so`, which wraps `malloc` and reports here.

use std::{
    ffi::c_void,
    sync::atomic::{AtomicBool, Ordering},
};

use memreel::integrate::{BlockMove, MallocReports};
use once_cell::race::OnceBox;

use super::{
    own_bytes,
    state::{State, record, record_unless, set_own_work},
};

static HEAP: OnceBox<MallocReports> = OnceBox::new();

/// Returns the heap, which the first report makes a device.
///
/// This allocates, and those allocations come here too, on this thread and on those that it starts: meanwhile nothing
/// is recorded. So it is opened before the program has other threads ([`memreel_heap_open`]). A child of `fork` has its
/// parent's heap.
#[inline]
fn reports(state: &'static State) -> Option<MallocReports> {
    static IS_OPENING: AtomicBool = AtomicBool::new(false);
    if let Some(heap) = HEAP.get() {
        return Some(*heap);
    }
    if IS_OPENING.swap(true, Ordering::Acquire) {
        return None;
    }
    let opened = state.heap();
    opened.into_iter().for_each(|heap| _ = HEAP.set(Box::new(heap)));
    // A process that cannot be recorded does not try again.
    IS_OPENING.store(opened.is_none(), Ordering::Release);
    opened
}

/// Opens the recording before the program starts.
#[unsafe(no_mangle)]
extern "C" fn memreel_heap_open() {
    record(reports);
}

/// Starts or ends work of memreel's own in another library, such as the Python package; returns whether it was under way.
#[unsafe(no_mangle)]
extern "C" fn memreel_own_work(is_own: bool) -> bool {
    set_own_work(is_own)
}

/// Reports that a block was allocated. `has_stack` if this thread's stack is the program's.
#[unsafe(no_mangle)]
extern "C" fn memreel_heap_allocated(block: *mut c_void, bytes: usize, has_stack: bool) {
    let allocated =
        |heap: MallocReports| heap.with_stacks(has_stack).allocated(block.addr() as u64, bytes as u64);
    record_unless(|| own_bytes::allocated(block), |state| _ = reports(state).map(allocated));
}

/// Reports that a block will be freed.
#[unsafe(no_mangle)]
extern "C" fn memreel_heap_freed(block: *mut c_void, has_stack: bool) {
    let freed = |heap: MallocReports| heap.with_stacks(has_stack).freed(block.addr() as u64);
    // What the program allocated may be freed in a report, by a library that memreel asks.
    let nested = || {
        if !HEAP.get().copied().is_some_and(freed) {
            own_bytes::freed(block);
        }
    };
    record_unless(nested, |state| _ = reports(state).map(freed));
}

/// Reports that a block may move. Returns the number of the request; 0 for a block that is not recorded.
#[unsafe(no_mangle)]
extern "C" fn memreel_heap_begins_move(block: *mut c_void) -> u32 {
    let number = |heap: MallocReports| heap.begin_move(block.addr() as u64).map_or(0, |of| of.number);
    let nested = || {
        let number = HEAP.get().copied().map_or(0, number);
        if number == 0 {
            own_bytes::freed(block);
        }
        number
    };
    record_unless(nested, |state| reports(state).map_or(0, number))
}

/// Reports that a block has moved, by the number that [`memreel_heap_begins_move`] returned.
#[unsafe(no_mangle)]
extern "C" fn memreel_heap_moved(block: *mut c_void, number: u32, has_stack: bool) {
    let of = BlockMove { address: block.addr() as u64, number };
    let moved = |heap: MallocReports| heap.with_stacks(has_stack).moved(of);
    let nested = || HEAP.get().copied().into_iter().for_each(moved);
    record_unless(nested, |state| _ = reports(state).map(moved));
}

/// Reports that the program mapped memory itself. `has_stack` as in [`memreel_heap_allocated`].
#[unsafe(no_mangle)]
extern "C" fn memreel_heap_mapped(address: *mut c_void, bytes: usize, has_stack: bool) {
    let mapped =
        |heap: MallocReports| heap.with_stacks(has_stack).mapped(address.addr() as u64, bytes as u64);
    record_unless(|| (), |state| _ = reports(state).map(mapped));
}

/// Reports that the program unmaps memory.
#[unsafe(no_mangle)]
extern "C" fn memreel_heap_unmapped(address: *mut c_void, bytes: usize) {
    let unmapped = |heap: MallocReports| heap.unmapped(address.addr() as u64, bytes as u64);
    record_unless(|| (), |state| _ = reports(state).map(unmapped));
}
