//! Handles checkers that are linked into the program and would check memreel's work too: ThreadSanitizer, which does
//! not see its locks, and MemorySanitizer, which does not see its writes.

use std::{
    cell::Cell,
    ffi::{CStr, c_char, c_int, c_void},
    mem::transmute,
    ptr,
    sync::atomic::{AtomicBool, AtomicPtr, Ordering},
};

use super::{
    code::Code,
    libraries::{first_of, library_of},
};

/// A function that each checker has, and those that make it ignore a thread and observe it again.
const THREADS: (&CStr, [&CStr; 2], [&CStr; 2]) = (
    c"__tsan_init",
    [c"AnnotateIgnoreReadsBegin", c"AnnotateIgnoreWritesBegin"],
    [c"AnnotateIgnoreWritesEnd", c"AnnotateIgnoreReadsEnd"],
);
const MEMORY: (&CStr, [&CStr; 2]) = (
    c"__msan_init",
    [c"__msan_scoped_disable_interceptor_checks", c"__msan_scoped_enable_interceptor_checks"],
);

/// Whether the program has one. Relaxed: it is set before the program has threads, after the functions.
static IS_THERE: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Whether a checker may not know this thread yet.
    static IS_NEW: Cell<bool> = const { Cell::new(false) };
}

/// The functions to be called before a report, and those after it.
static BEFORE: [AtomicPtr<c_void>; 3] = [const { AtomicPtr::new(ptr::null_mut()) }; 3];
static AFTER: [AtomicPtr<c_void>; 3] = [const { AtomicPtr::new(ptr::null_mut()) }; 3];

/// The code of the library that is reported to.
static OF_MEMREEL: Code = Code::unknown();

/// Finds the checkers of the program. Other libraries may have functions of these names, so one that only a checker has is
/// asked for first.
pub(crate) fn find() {
    let store = |places: &[AtomicPtr<c_void>], names: &[&CStr]| {
        for (place, name) in places.iter().zip(names) {
            place.store(first_of(name), Ordering::Relaxed);
        }
    };
    let [has_threads, has_memory] = [THREADS.0, MEMORY.0].map(|name| !first_of(name).is_null());
    if has_threads {
        store(&BEFORE, &THREADS.1);
        store(&AFTER, &THREADS.2);
    }
    if has_memory {
        store(&BEFORE[2..], &MEMORY.1[..1]);
        store(&AFTER[2..], &MEMORY.1[1..]);
    }
    if has_threads || has_memory {
        // SAFETY: the loader has mapped the library there, whose functions were found.
        unsafe { OF_MEMREEL.find(library_of(first_of(c"memreel_heap_allocated")).addr()) };
    }
    IS_THERE.store(has_threads || has_memory, Ordering::Relaxed);
}

/// Runs memreel's work without a checker observing it.
#[inline]
pub(crate) fn unseen<T>(work: impl FnOnce() -> T) -> T {
    if !IS_THERE.load(Ordering::Relaxed) || IS_NEW.get() {
        return work();
    }
    BEFORE.iter().for_each(call);
    let done = work();
    AFTER.iter().for_each(call);
    done
}

/// Runs what an allocator does for a caller. What memreel allocates outside of a report, as at the end of a thread, is its work
/// too.
#[inline]
pub(crate) fn unseen_of_memreel<T>(caller: usize, work: impl FnOnce() -> T) -> T {
    if IS_THERE.load(Ordering::Relaxed) && OF_MEMREEL.has(caller) { unseen(work) } else { work() }
}

/// Runs what a checker calls for a new thread before it knows it: its functions may not be called meanwhile.
pub(crate) fn in_new_thread<T>(work: impl FnOnce() -> T) -> T {
    if !IS_THERE.load(Ordering::Relaxed) {
        return work();
    }
    let before = IS_NEW.replace(true);
    let done = work();
    IS_NEW.set(before);
    done
}

fn call(function: &AtomicPtr<c_void>) {
    let function = function.load(Ordering::Relaxed);
    if !function.is_null() {
        // SAFETY: the names fix the type; those of MemorySanitizer take no arguments and leave these alone.
        let function = unsafe { transmute::<*mut c_void, extern "C" fn(*const c_char, c_int)>(function) };
        function(c"memreel".as_ptr(), 0);
    }
}
