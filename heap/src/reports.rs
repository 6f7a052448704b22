//! The reports to `libmemreel_preload.so`.

use std::{
    cell::Cell,
    env,
    ffi::{CStr, c_void},
    io::Write,
    mem::{MaybeUninit, transmute},
    ptr,
    sync::atomic::{AtomicPtr, AtomicUsize, Ordering},
};

use super::{
    imports,
    libraries::{first_of, is_import, library_of},
    next,
};

/// A block whose free was reported: what the other library writes, and only it reads.
#[repr(C, align(8))]
pub(crate) struct Freed([MaybeUninit<u8>; 24]);

static ALLOCATED: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
static FREED: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
static STILL_HAS: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// The number of threads that report nothing now, or are watched: the flags of a thread are looked at only if there are
/// any.
static N_APART: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static IS_SILENT: Cell<bool> = const { Cell::new(false) };
    /// The last blocks that were reported while a thread was apart.
    static SEEN: Cell<Seen> = const { Cell::new(Seen { allocated: 0, freed: 0 }) };
}

/// The addresses of the last block that was allocated, and of the last one that was freed.
#[derive(Clone, Copy)]
struct Seen {
    allocated: usize,
    freed: usize,
}

/// Runs when the library is loaded, before the program.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = connect;

/// Finds the other library, if a recording was asked for. Until then nothing is reported.
extern "C" fn connect() {
    next::find_all();
    if env::var_os("MEMREEL_RECORD").is_none() && env::var_os("MEMREEL").is_none() {
        return;
    }
    let found = [c"memreel_heap_still_has", c"memreel_heap_freed", c"memreel_heap_allocated"].map(first_of);
    if found.contains(&ptr::null_mut()) {
        let missing = "memreel: the heap is not recorded: libmemreel_preload.so is not in LD_PRELOAD\n";
        let _ = std::io::stderr().write_all(missing.as_bytes());
        return;
    }
    // With half of the calls, blocks would overlap.
    let is_behind = |name: &CStr| {
        let first = first_of(name);
        library_of(first) != library_of(connect as *mut c_void) && !is_import(first)
    };
    if [c"malloc", c"calloc", c"realloc", c"free"].into_iter().any(is_behind) {
        let behind = "memreel: the heap is not recorded: another library's malloc is in front of memreel's\n";
        let _ = std::io::stderr().write_all(behind.as_bytes());
        return;
    }
    imports::report();
    // What is looked at first is set last.
    for (place, function) in [&STILL_HAS, &FREED, &ALLOCATED].into_iter().zip(found) {
        place.store(function, Ordering::Release);
    }
}

/// Returns whether requests are reported.
pub(crate) fn is_recording() -> bool {
    !ALLOCATED.load(Ordering::Acquire).is_null()
}

/// Runs what allocates and frees without a report.
pub(crate) fn silently<T>(work: impl FnOnce() -> T) -> T {
    N_APART.fetch_add(1, Ordering::Relaxed);
    let before = IS_SILENT.replace(true);
    let done = work();
    IS_SILENT.set(before);
    N_APART.fetch_sub(1, Ordering::Relaxed);
    done
}

/// Keeps the last blocks of this thread while it exists.
pub(crate) struct Watch;

impl Watch {
    pub(crate) fn begin() -> Watch {
        N_APART.fetch_add(1, Ordering::Relaxed);
        SEEN.set(Seen { allocated: 0, freed: 0 });
        Watch
    }

    /// Returns whether this block was reported as the last one that was allocated.
    pub(crate) fn saw_allocated(&self, block: *mut c_void) -> bool {
        SEEN.get().allocated == block.addr()
    }

    /// Returns whether this block was reported as the last one that was freed.
    pub(crate) fn saw_freed(&self, block: *mut c_void) -> bool {
        SEEN.get().freed == block.addr()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        N_APART.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns whether some thread is silent or watched.
#[inline]
fn is_one_apart() -> bool {
    N_APART.load(Ordering::Relaxed) != 0
}

/// Makes a report, unless this thread is silent, and keeps the block for its watch: last, because a report allocates too.
#[cold]
fn apart<T>(see: impl FnOnce(&mut Seen), report: impl FnOnce() -> T) -> Option<T> {
    let reported = (!IS_SILENT.get()).then(report);
    let mut seen = SEEN.get();
    see(&mut seen);
    SEEN.set(seen);
    reported
}

/// Reports an allocation, which may have failed. Returns the block.
#[inline]
pub(crate) fn allocated(block: *mut c_void, bytes: usize) -> *mut c_void {
    let function = ALLOCATED.load(Ordering::Acquire);
    if !function.is_null() && !block.is_null() {
        // SAFETY: `connect` found it under this name, whose type the other library fixes.
        let report = unsafe { transmute::<*mut c_void, extern "C" fn(*mut c_void, usize)>(function) };
        let report = || keeping_errno(|| report(block, bytes));
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
    type Report = unsafe extern "C" fn(*mut c_void, *mut Freed) -> bool;
    // SAFETY: as in `allocated`.
    let report = unsafe { transmute::<*mut c_void, Report>(function) };
    let mut freed = Freed([MaybeUninit::uninit(); 24]);
    // SAFETY: there is room for what the other library writes.
    let mut report = || keeping_errno(|| unsafe { report(block, &raw mut freed) });
    let is_recorded =
        if is_one_apart() { apart(|seen| seen.freed = block.addr(), report) == Some(true) } else { report() };
    is_recorded.then_some(freed)
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
        keeping_errno(|| unsafe { report(freed) });
    }
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
