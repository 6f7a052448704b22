//! The reports to `libmemreel_preload.so`.

use std::{
    ffi::c_void,
    mem::{MaybeUninit, transmute},
    ptr,
    sync::atomic::{AtomicPtr, Ordering},
};

use super::{
    apart::{self, apart, is_one_apart},
    handler, small_stack,
};

/// A block whose free was reported: what the other library writes, and only it reads.
#[repr(C, align(8))]
pub(crate) struct Freed([MaybeUninit<u8>; 24]);

static ALLOCATED: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
static FREED: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
static STILL_HAS: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
static MAPPED: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
static UNMAPPED: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// The functions of the other library, in the order in which [`begin`] takes them.
pub(crate) const FUNCTIONS: [&std::ffi::CStr; 6] = [
    c"memreel_heap_open",
    c"memreel_heap_still_has",
    c"memreel_heap_freed",
    c"memreel_heap_allocated",
    c"memreel_heap_unmapped",
    c"memreel_heap_mapped",
];

/// Begins to report. The recording is opened now, while there are no other threads: what they allocate meanwhile would not
/// be recorded. Memory that the program maps itself is reported if `has_mapped`.
pub(crate) fn begin(
    [open, still_has, freed, allocated, unmapped, mapped]: [*mut c_void; 6],
    has_mapped: bool,
) {
    apart::begin();
    // What is looked at first is set last.
    for (place, function) in [(&STILL_HAS, still_has), (&FREED, freed), (&ALLOCATED, allocated)] {
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

/// Reports a free, before it. Returns the block if it was recorded.
#[inline]
pub(crate) fn freed(block: *mut c_void) -> Option<Freed> {
    let function = FREED.load(Ordering::Acquire);
    if function.is_null() || block.is_null() {
        return None;
    }
    type Report = unsafe extern "C" fn(*mut c_void, *mut Freed, bool) -> bool;
    // SAFETY: as in `allocated`.
    let report = unsafe { transmute::<*mut c_void, Report>(function) };
    let mut freed = Freed([MaybeUninit::uninit(); 24]);
    // SAFETY: there is room for what the other library writes.
    let mut report =
        || made(|has_stack| unsafe { report(block, &raw mut freed, has_stack) }).unwrap_or(false);
    let is_recorded =
        if is_one_apart() { apart(|seen| seen.freed = block.addr(), report) == Some(true) } else { report() };
    is_recorded.then_some(freed)
}

/// Reports that the program mapped memory itself. `bytes` is asked for only then.
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

/// A block that may move: its free was reported, and is taken back unless it moves.
pub(crate) struct Kept(Option<Freed>);

impl Kept {
    #[inline]
    pub(crate) fn unless_moved(block: *mut c_void) -> Kept {
        Kept(freed(block))
    }

    #[inline]
    pub(crate) fn has_moved(mut self) {
        self.0 = None;
    }
}

impl Drop for Kept {
    #[inline]
    fn drop(&mut self) {
        if let Some(freed) = &self.0 {
            still_has(freed);
        }
    }
}

/// Reports that a block whose free was reported is not free.
#[cold]
fn still_has(freed: &Freed) {
    let function = STILL_HAS.load(Ordering::Acquire);
    if !function.is_null() {
        // SAFETY: as in `allocated`.
        let report = unsafe { transmute::<*mut c_void, unsafe extern "C" fn(*const Freed)>(function) };
        // SAFETY: the other library wrote it.
        let _made = made(|_| unsafe { report(freed) });
    }
}

/// Makes a report, with the stack of this thread if that has room for it; `None` if it could not be made.
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
    let done = work();
    // SAFETY: as above.
    unsafe { *errno = before };
    done
}
