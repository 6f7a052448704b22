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

/// A block whose free was reported: what the other library writes, and only it reads.
#[repr(C, align(8))]
pub(crate) struct Freed([MaybeUninit<u8>; 24]);

static ALLOCATED: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
static FREED: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
static STILL_HAS: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// The number of threads that report nothing now: the flag of a thread is looked at only if there are any.
static N_SILENT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static IS_SILENT: Cell<bool> = const { Cell::new(false) };
}

/// Runs when the library is loaded, before the program.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = connect;

/// Finds the other library, if a recording was asked for. Until then nothing is reported.
extern "C" fn connect() {
    if env::var_os("MEMREEL_RECORD").is_none() && env::var_os("MEMREEL").is_none() {
        return;
    }
    let find = |name: &CStr| {
        // SAFETY: the name ends in nul.
        unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }
    };
    let found = [c"memreel_heap_still_has", c"memreel_heap_freed", c"memreel_heap_allocated"].map(find);
    if found.contains(&ptr::null_mut()) {
        let missing = "memreel: the heap is not recorded: libmemreel_preload.so is not in LD_PRELOAD\n";
        let _ = std::io::stderr().write_all(missing.as_bytes());
        return;
    }
    // With half of the calls, blocks would overlap.
    let is_behind = |name: &CStr| {
        // SAFETY: the name ends in nul.
        let first = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
        library_of(first) != library_of(connect as *mut c_void) && !is_import(first)
    };
    if [c"malloc", c"calloc", c"realloc", c"free"].into_iter().any(is_behind) {
        let behind = "memreel: the heap is not recorded: another library's malloc is in front of memreel's\n";
        let _ = std::io::stderr().write_all(behind.as_bytes());
        return;
    }
    // What is looked at first is set last.
    for (place, function) in [&STILL_HAS, &FREED, &ALLOCATED].into_iter().zip(found) {
        place.store(function, Ordering::Release);
    }
}

/// Runs what allocates and frees without a report.
pub(crate) fn silently<T>(work: impl FnOnce() -> T) -> T {
    N_SILENT.fetch_add(1, Ordering::Relaxed);
    let before = IS_SILENT.replace(true);
    let done = work();
    IS_SILENT.set(before);
    N_SILENT.fetch_sub(1, Ordering::Relaxed);
    done
}

#[inline]
fn is_silent() -> bool {
    N_SILENT.load(Ordering::Relaxed) != 0 && IS_SILENT.get()
}

/// Returns whether an address is a program's way to a function of a library. In a program at a fixed address, such as
/// Debian's Python, it is what the name means everywhere.
fn is_import(address: *mut c_void) -> bool {
    /// `RTLD_DL_SYMENT` of `dlfcn.h`.
    const SYMBOL: libc::c_int = 1;
    // SAFETY: all its bytes are zero, which is a value of its fields.
    let mut found: libc::Dl_info = unsafe { std::mem::zeroed() };
    let mut symbol: *mut c_void = ptr::null_mut();
    // SAFETY: any address may be asked for; the results are written into `found` and `symbol`.
    let is_found = unsafe { libc::dladdr1(address, &raw mut found, &raw mut symbol, SYMBOL) } != 0;
    // SAFETY: the loader's own entry, which lives as long as the program.
    is_found && !symbol.is_null() && unsafe { (*symbol.cast::<libc::Elf64_Sym>()).st_shndx } == 0
}

/// Returns where the library is that an address is in.
fn library_of(address: *mut c_void) -> *mut c_void {
    // SAFETY: all its bytes are zero, which is a value of its fields.
    let mut found: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: any address may be asked for; the result is written into `found`.
    unsafe { libc::dladdr(address, &raw mut found) };
    found.dli_fbase
}

/// Reports an allocation, which may have failed. Returns the block.
#[inline]
pub(crate) fn allocated(block: *mut c_void, bytes: usize) -> *mut c_void {
    let function = ALLOCATED.load(Ordering::Acquire);
    if !function.is_null() && !block.is_null() && !is_silent() {
        // SAFETY: `connect` found it under this name, whose type the other library fixes.
        let report = unsafe { transmute::<*mut c_void, extern "C" fn(*mut c_void, usize)>(function) };
        keeping_errno(|| report(block, bytes));
    }
    block
}

/// Reports a free, before it. Returns the block if it was recorded.
#[inline]
pub(crate) fn freed(block: *mut c_void) -> Option<Freed> {
    let function = FREED.load(Ordering::Acquire);
    if function.is_null() || block.is_null() || is_silent() {
        return None;
    }
    type Report = unsafe extern "C" fn(*mut c_void, *mut Freed) -> bool;
    // SAFETY: as in `allocated`.
    let report = unsafe { transmute::<*mut c_void, Report>(function) };
    let mut freed = Freed([MaybeUninit::uninit(); 24]);
    // SAFETY: there is room for what the other library writes.
    let is_recorded = keeping_errno(|| unsafe { report(block, &raw mut freed) });
    is_recorded.then_some(freed)
}

/// Reports that a block whose free was reported is not free.
#[cold]
pub(crate) fn still_has(freed: &Freed) {
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
