//! The reports to `libmemreel_preload.so`.

use std::{
    ffi::c_void,
    mem::transmute,
    ptr,
    sync::atomic::{AtomicPtr, Ordering},
};

use super::{
    apart::{self, apart, is_one_apart},
    handler,
    sanitizers::unseen,
    small_stack,
};

static ALLOCATED: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
static FREED: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
static BEGINS_MOVE: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
static MOVED: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
static MAPPED: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
static UNMAPPED: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// The functions of the other library, in the order in which [`begin`] takes them.
pub(crate) const FUNCTIONS: [&std::ffi::CStr; 7] = [
    c"memreel_heap_open",
    c"memreel_heap_begins_move",
    c"memreel_heap_moved",
    c"memreel_heap_freed",
    c"memreel_heap_allocated",
    c"memreel_heap_unmapped",
    c"memreel_heap_mapped",
];

/// Starts to report. The recording is opened now, while there are no other threads, because their allocations meanwhile
/// would not be recorded. Memory that the program maps itself is reported if `has_mapped`.
pub(crate) fn begin(
    [open, begins_move, has_moved, freed, allocated, unmapped, mapped]: [*mut c_void; 7],
    has_mapped: bool,
) {
    apart::begin();
    // What is checked first is set last.
    let blocks = [(&MOVED, has_moved), (&BEGINS_MOVE, begins_move), (&FREED, freed), (&ALLOCATED, allocated)];
    for (place, function) in blocks {
        place.store(function, Ordering::Release);
    }
    for (place, function) in [(&UNMAPPED, unmapped), (&MAPPED, mapped)].into_iter().filter(|_| has_mapped) {
        place.store(function, Ordering::Release);
    }
    // SAFETY: as in `allocated`.
    let open = unsafe { transmute::<*mut c_void, extern "C" fn()>(open) };
    keeping_errno(|| open());
}

/// Returns whether requests are reported.
pub(crate) fn is_recording() -> bool {
    !ALLOCATED.load(Ordering::Acquire).is_null()
}

/// Reports an allocation, which may have failed. Returns the block.
#[inline]
pub(crate) fn allocated(block: *mut c_void, bytes: usize) -> *mut c_void {
    let function = ALLOCATED.load(Ordering::Acquire);
    if !function.is_null() && !block.is_null() {
        // SAFETY: `begin` got it under this name, whose type the other library fixes.
        let report = unsafe { transmute::<*mut c_void, extern "C" fn(*mut c_void, usize, bool)>(function) };
        let report = || _ = made(|has_stack| report(block, bytes, has_stack));
        if is_one_apart() {
            apart(|seen| seen.allocated = block.addr(), report);
        } else {
            report();
        }
    }
    block
}

/// Reports a free, before it.
#[inline]
pub(crate) fn freed(block: *mut c_void) {
    let function = FREED.load(Ordering::Acquire);
    if !function.is_null() && !block.is_null() {
        // SAFETY: as in `allocated`.
        let report = unsafe { transmute::<*mut c_void, extern "C" fn(*mut c_void, bool)>(function) };
        see_freed(block, || _ = made(|has_stack| report(block, has_stack)));
    }
}

/// Makes a report about a block that will be freed, and remembers it for this thread's watch.
#[inline]
fn see_freed<T: Default>(block: *mut c_void, report: impl FnOnce() -> T) -> T {
    if is_one_apart() {
        apart(|seen| seen.freed = block.addr(), report).unwrap_or_default()
    } else {
        report()
    }
}

/// Reports that the program mapped memory itself. `bytes` is called only then.
pub(crate) fn mapped(address: *mut c_void, bytes: impl FnOnce() -> usize) {
    let function = MAPPED.load(Ordering::Acquire);
    if !function.is_null() && !keeping_errno(handler::may_be_here) {
        // SAFETY: as in `allocated`.
        let report = unsafe { transmute::<*mut c_void, extern "C" fn(*mut c_void, usize, bool)>(function) };
        let _made = made(|has_stack| report(address, bytes(), has_stack));
    }
}

/// Reports that the program unmaps memory.
pub(crate) fn unmapped(address: *mut c_void, bytes: usize) {
    let function = UNMAPPED.load(Ordering::Acquire);
    if !function.is_null() && !keeping_errno(handler::may_be_here) {
        // SAFETY: as in `allocated`.
        let report = unsafe { transmute::<*mut c_void, extern "C" fn(*mut c_void, usize)>(function) };
        let _made = made(|_| report(address, bytes));
    }
}

/// A block that a request may move. Nothing is recorded unless it does ([`Move::has_moved`]): a request that fails, or ends
/// with an exception, changes nothing.
pub(crate) struct Move {
    block: *mut c_void,
    /// 0 for a block that is not recorded.
    number: u32,
}

impl Move {
    #[inline]
    pub(crate) fn begin(block: *mut c_void) -> Move {
        let function = BEGINS_MOVE.load(Ordering::Acquire);
        if function.is_null() || block.is_null() {
            return Move { block, number: 0 };
        }
        // SAFETY: as in `allocated`.
        let report = unsafe { transmute::<*mut c_void, extern "C" fn(*mut c_void) -> u32>(function) };
        let number = see_freed(block, || made(|_| report(block)).unwrap_or_default());
        Move { block, number }
    }

    /// Reports that the block has moved, or has another size where it is.
    #[inline]
    pub(crate) fn has_moved(self) {
        let function = MOVED.load(Ordering::Acquire);
        if !function.is_null() && self.number != 0 {
            // SAFETY: as in `allocated`.
            let report = unsafe { transmute::<*mut c_void, extern "C" fn(*mut c_void, u32, bool)>(function) };
            let _made = made(|has_stack| report(self.block, self.number, has_stack));
        }
    }
}

/// Makes a report, with the stack of this thread if it has room for a capture; `None` if it could not be made.
#[inline]
fn made<T>(report: impl FnOnce(bool) -> T) -> Option<T> {
    if small_stack::is_here() {
        return small_stack::elsewhere(|| keeping_errno(|| report(false)));
    }
    Some(keeping_errno(|| report(true)))
}

/// Calls the other library, whose errors are not the program's.
#[inline]
fn keeping_errno<T>(work: impl FnOnce() -> T) -> T {
    // SAFETY: the C library's error number of this thread.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { *errno };
    let done = unseen(work);
    // SAFETY: as above.
    unsafe { *errno = before };
    done
}
