//! What `libmemreel_heap.so` calls: it is in front of `malloc` and reports here.

use std::{
    ffi::c_void,
    sync::atomic::{AtomicBool, Ordering},
};

use memreel::integrate::{FreedBlock, MallocReports};
use once_cell::race::OnceBox;

use super::{
    own_bytes,
    state::{State, record, record_unless},
};

/// Room for a block whose free was reported, which the other library keeps and does not read.
const FREED_BYTES: usize = 24;
const _: () = assert!(size_of::<FreedBlock>() <= FREED_BYTES && align_of::<FreedBlock>() <= 8);

static HEAP: OnceBox<MallocReports> = OnceBox::new();

/// Returns the heap, which the first report makes a device.
///
/// That allocates, and those allocations come here too, on this thread and on those that are started: meanwhile nothing
/// is recorded. So it is opened before the program has other threads ([`memreel_heap_open`]). A child of `fork` has the
/// heap of its parent.
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
    // A process that cannot be recorded is not asked again.
    IS_OPENING.store(opened.is_none(), Ordering::Release);
    opened
}

/// Opens the recording before the program begins.
#[unsafe(no_mangle)]
extern "C" fn memreel_heap_open() {
    record(reports);
}

/// Reports that a block was allocated. `has_stack` if this thread's stack is the program's.
#[unsafe(no_mangle)]
extern "C" fn memreel_heap_allocated(block: *mut c_void, bytes: usize, has_stack: bool) {
    let allocated =
        |heap: MallocReports| heap.with_stacks(has_stack).allocated(block.addr() as u64, bytes as u64);
    record_unless(|| own_bytes::allocated(block), |state| _ = reports(state).map(allocated));
}

/// Reports that a block will be freed. Returns whether it is a recorded one, which is then written into `freed`.
///
/// # Safety
/// `freed` has room for [`FREED_BYTES`] bytes, at a multiple of 8.
#[unsafe(no_mangle)]
unsafe extern "C" fn memreel_heap_freed(block: *mut c_void, freed: *mut c_void, has_stack: bool) -> bool {
    let freed_block = |heap: MallocReports| heap.with_stacks(has_stack).freed(block.addr() as u64);
    // What the program allocated may be freed in a report, by a library that memreel asks.
    let nested = || {
        let found = HEAP.get().copied().and_then(freed_block);
        if found.is_none() {
            own_bytes::freed(block);
        }
        found
    };
    let found = record_unless(nested, |state| reports(state).and_then(freed_block));
    if let Some(found) = found {
        // SAFETY: the caller's promise.
        unsafe { freed.cast::<FreedBlock>().write(found) };
    }
    found.is_some()
}

/// Reports that a block whose free was reported is not free.
///
/// # Safety
/// [`memreel_heap_freed`] has written `freed`.
#[unsafe(no_mangle)]
unsafe extern "C" fn memreel_heap_still_has(freed: *const c_void) {
    // SAFETY: the caller's promise.
    let freed = unsafe { freed.cast::<FreedBlock>().read() };
    record(|state| reports(state).map(|heap| heap.still_has(freed)));
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
