//! The allocator of the extension: its memory is memreel's own, which no recording of the process counts as the program's.
//!
//! Under `memreel record --heap`, the library that records calls of `malloc` has the function `memreel_own_work`. What a thread
//! allocates between its two calls is not recorded, and is counted as memreel's own memory.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    ffi::{CStr, c_void},
    mem::transmute,
    ptr,
    sync::atomic::{AtomicBool, AtomicPtr, Ordering},
};

const NAME: &CStr = c"memreel_own_work";

/// Whether the function was looked up. Until its address is stored, other threads allocate as if it were missing.
static IS_KNOWN: AtomicBool = AtomicBool::new(false);
static OWN_WORK: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

type OwnWork = extern "C" fn(bool) -> bool;

/// The system's allocator, between two calls of that function.
pub(crate) struct OwnMemory;

/// Marks this thread's allocations as memreel's own while it exists.
struct Marked {
    own_work: Option<OwnWork>,
    was_own: bool,
}

impl Marked {
    fn begin() -> Marked {
        let own_work = own_work();
        Marked { own_work, was_own: own_work.is_some_and(|own_work| own_work(true)) }
    }
}

impl Drop for Marked {
    fn drop(&mut self) {
        self.own_work.into_iter().for_each(|own_work| _ = own_work(self.was_own));
    }
}

/// Returns the function if this process records its heap.
fn own_work() -> Option<OwnWork> {
    if !IS_KNOWN.load(Ordering::Relaxed) && !IS_KNOWN.swap(true, Ordering::Relaxed) {
        // SAFETY: the name ends with a zero, and what is found is only called as what has this name.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, NAME.as_ptr()) };
        OWN_WORK.store(found, Ordering::Release);
    }
    let found = OWN_WORK.load(Ordering::Acquire);
    // SAFETY: the library fixes the type of the function with this name.
    (!found.is_null()).then(|| unsafe { transmute::<*mut c_void, OwnWork>(found) })
}

// SAFETY: every call is passed on to the system's allocator, with the caller's promises.
unsafe impl GlobalAlloc for OwnMemory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _marked = Marked::begin();
        // SAFETY: the caller's promise, here and below.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let _marked = Marked::begin();
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        let _marked = Marked::begin();
        // SAFETY: as above.
        unsafe { System.realloc(block, layout, bytes) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let _marked = Marked::begin();
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }
}
