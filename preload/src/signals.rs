//! Threads of this library handle no signal of the program.

use std::{mem, ptr};

/// All signals of this thread, blocked until this is dropped. A thread that is started meanwhile has them blocked.
#[derive(Debug)]
pub(crate) struct Blocked(libc::sigset_t);

/// Blocks all signals of this thread.
pub(crate) fn blocked() -> Blocked {
    // SAFETY: all bytes zero are a value of a set of signals, and each call fills a whole set.
    let (mut all, mut before) = unsafe { (mem::zeroed(), mem::zeroed()) };
    // SAFETY: the sets are this function's own.
    unsafe {
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
    }
    Blocked(before)
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: the set is the one that was in force.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, ptr::null_mut()) };
    }
}
