//! Determines whether a thread is in a signal handler.
//!
//! A handler may map memory, and may have stopped this thread anywhere: within `malloc`, the loader, or a function that has a
//! lock of the C library. A report needs all of these.

use std::{
    cell::Cell,
    ffi::c_void,
    ops::Range,
    ptr,
    sync::atomic::{AtomicUsize, Ordering},
};

use super::small_stack::stack_of_thread;

/// The address that the kernel makes handlers return to, which is on the stack below each; 0 if it is not known.
/// Relaxed: stored before the program starts.
static RETURN: AtomicUsize = AtomicUsize::new(0);

const WORD: usize = size_of::<usize>();

/// The distance on the stack beyond which handlers are no longer searched for.
const MOST_BYTES: usize = 1 << 20;

thread_local! {
    /// Where the stack of this thread starts and ends; 0 until it was looked up.
    static STACK: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// Finds the address that handlers return to. On processors other than x86-64 it is in the kernel's own library.
#[cfg(target_arch = "x86_64")]
pub(crate) fn find() {
    /// `struct sigaction` of the kernel.
    #[repr(C)]
    struct OfKernel {
        handler: usize,
        flags: u64,
        restorer: usize,
        mask: u64,
    }
    const NUMBER: libc::c_int = libc::SIGWINCH;
    let mut before = std::mem::MaybeUninit::<libc::sigaction>::uninit();
    let mut found = OfKernel { handler: 0, flags: 0, restorer: 0, mask: 0 };
    // SAFETY: the program has not begun, so that nobody sees the other action; what is read was written, after success.
    unsafe {
        if libc::sigaction(NUMBER, ptr::null(), before.as_mut_ptr()) != 0 {
            return;
        }
        let before = before.assume_init();
        libc::sigaction(NUMBER, &raw const before, ptr::null_mut());
        libc::syscall(libc::SYS_rt_sigaction, NUMBER, 0_usize, &raw mut found, size_of::<u64>());
    }
    RETURN.store(found.restorer, Ordering::Relaxed);
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn find() {}

/// Returns whether this thread may be in a handler.
///
/// On its own stack it is if the stack has the address that handlers return to. Elsewhere, and before its stack is known, it may
/// be if it blocks a signal, as the kernel does for a handler.
pub(crate) fn may_be_here() -> bool {
    let local = 0_usize;
    let at = (&raw const local).addr();
    let (lowest, end) = STACK.get();
    let handlers_return = RETURN.load(Ordering::Relaxed);
    if handlers_return != 0 && (lowest..end).contains(&at) {
        return end - at > MOST_BYTES || has_word(at..end, handlers_return);
    }
    if blocks_signals() {
        return true;
    }
    if end == 0 {
        STACK.set(of_this_thread());
    }
    false
}

/// Returns whether a word is on this thread's stack.
fn has_word(stack: Range<usize>, word: usize) -> bool {
    let n = (stack.end - stack.start) / WORD;
    let first = ptr::with_exposed_provenance::<usize>(stack.start);
    // SAFETY: a part of this thread's own stack, all of which is in use.
    (0..n).any(|nth| unsafe { first.add(nth).read_volatile() } == word)
}

fn blocks_signals() -> bool {
    let mut mask = 0_u64;
    let nothing: *const c_void = ptr::null();
    // SAFETY: the kernel writes the mask, which has so many bytes.
    let status = unsafe {
        libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_BLOCK, nothing, &raw mut mask, size_of::<u64>())
    };
    status != 0 || mask != 0
}

/// Returns the start and the end of this thread's stack; it must not be in a handler.
fn of_this_thread() -> (usize, usize) {
    if let Some((lowest, n_bytes)) = stack_of_thread() {
        return (lowest, (lowest + n_bytes) & !(WORD - 1));
    }
    // The kernel puts the program's path after all frames of the first thread.
    // SAFETY: any value may be asked for.
    let end = unsafe { libc::getauxval(libc::AT_EXECFN) } as usize & !(WORD - 1);
    (end.saturating_sub(2 * MOST_BYTES), end.max(1))
}
