//! Reports of a signal handler whose own stack (`sigaltstack`) has little room: they are made on a stack of this library.

use std::{
    cell::{Cell, UnsafeCell},
    ffi::{c_int, c_void},
    sync::atomic::{AtomicBool, Ordering},
};

use super::next;

/// The room that a report may need on the stack that it is made on.
const ROOM_BYTES: usize = 32 << 10;

/// Whether a thread ever set a stack for its handlers: what a thread has is looked at only then.
static IS_SET: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// The lowest part of the stack that this thread's handlers run on: where it begins, and its bytes.
    static LOWEST: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// The C library's function.
///
/// # Safety
/// As in the C library.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn sigaltstack(new: *const libc::stack_t, old: *mut libc::stack_t) -> c_int {
    // SAFETY: the caller's promise.
    let status = next::sigaltstack().map_or(-1, |next| unsafe { next(new, old) });
    if status == 0 && !new.is_null() {
        // SAFETY: the caller's promise.
        let libc::stack_t { ss_sp: at, ss_flags: flags, ss_size: n_bytes } = unsafe { *new };
        let is_off = flags & libc::SS_DISABLE != 0;
        LOWEST.set(if is_off { (0, 0) } else { (at.addr(), n_bytes.min(ROOM_BYTES)) });
        IS_SET.store(true, Ordering::Relaxed);
    }
    status
}

/// Returns whether this thread is in a handler whose own stack has little room left.
#[inline]
pub(crate) fn is_here() -> bool {
    IS_SET.load(Ordering::Relaxed) && is_on_lowest()
}

#[inline(never)]
fn is_on_lowest() -> bool {
    let local = 0_u8;
    let (at, n_bytes) = LOWEST.get();
    (&raw const local).addr().wrapping_sub(at) < n_bytes
}

/// A stack of this library, which takes memory when it is used.
#[repr(C, align(4096))]
struct Stack {
    bytes: UnsafeCell<[u8; STACK_BYTES]>,
    is_taken: AtomicBool,
}

const STACK_BYTES: usize = 256 << 10;

// SAFETY: the bytes belong to the thread that changed `is_taken` from false to true.
unsafe impl Sync for Stack {}

/// Handlers of several threads may report at one time.
static STACKS: [Stack; 4] =
    [const { Stack { bytes: UnsafeCell::new([0; STACK_BYTES]), is_taken: AtomicBool::new(false) } }; 4];

/// Runs a report on a stack of this library; `None`, and nothing is reported, if all are in use.
///
/// No signal may come meanwhile: its handler would begin at the top of the stack that this thread's handlers run on, because
/// the thread is not on it now, and this handler's frames are there.
#[cold]
#[inline(never)]
pub(crate) fn elsewhere<T, F: FnOnce() -> T>(report: F) -> Option<T> {
    let stack = STACKS.iter().find(|stack| !stack.is_taken.swap(true, Ordering::Acquire))?;
    let mut before = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    let mut work = Work { report: Some(report), done: None };
    // SAFETY: the sets are written before they are read; `start` gets a `Work` of its type and returns.
    unsafe {
        let mut all = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        call_on(stack.bytes.get().cast::<u8>().add(STACK_BYTES), start::<T, F>, (&raw mut work).cast());
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut());
    }
    stack.is_taken.store(false, Ordering::Release);
    work.done
}

/// A report, and what it returned.
struct Work<T, F> {
    report: Option<F>,
    done: Option<T>,
}

/// # Safety
/// `work` is a `Work` of this type, which nothing else uses.
unsafe extern "C" fn start<T, F: FnOnce() -> T>(work: *mut c_void) {
    // SAFETY: the caller's promise.
    let work = unsafe { &mut *work.cast::<Work<T, F>>() };
    work.done = work.report.take().map(|report| report());
}

/// Calls a function on another stack, which ends at `end`.
///
/// # Safety
/// The memory below `end`, which is a multiple of 16, is enough for the function and nothing else uses it; the function may
/// be called with `argument`.
#[cfg(target_arch = "x86_64")]
unsafe fn call_on(end: *mut u8, function: unsafe extern "C" fn(*mut c_void), argument: *mut c_void) {
    // SAFETY: the function keeps r12, as every function of C does, so the stack pointer is what it was.
    unsafe {
        std::arch::asm!(
            "mov r12, rsp",
            "mov rsp, {end}",
            "call {function}",
            "mov rsp, r12",
            end = in(reg) end,
            function = in(reg) function,
            in("rdi") argument,
            out("r12") _,
            clobber_abi("C"),
        );
    }
}

/// Nothing is reported on other machines.
///
/// # Safety
/// None is needed.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn call_on(_: *mut u8, _: unsafe extern "C" fn(*mut c_void), _: *mut c_void) {}
