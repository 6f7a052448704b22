//! Blocks the signals of a thread.

use std::mem::MaybeUninit;

/// Signals that a fault of the thread itself raises. They are never blocked, so that the program's handlers receive
/// them.
const OF_FAULTS: [libc::c_int; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGABRT];

/// Blocks this thread's signals while it exists. A thread that is created meanwhile has them blocked for its life.
pub(crate) struct Blocked {
    before: libc::sigset_t,
}

impl Blocked {
    pub(crate) fn new() -> Blocked {
        let mut all = MaybeUninit::uninit();
        let mut before = MaybeUninit::uninit();
        // SAFETY: `sigfillset` writes the set before it is used, and `pthread_sigmask`, which cannot fail with these
        // arguments, writes the mask that there was.
        unsafe {
            libc::sigfillset(all.as_mut_ptr());
            for signal in OF_FAULTS {
                libc::sigdelset(all.as_mut_ptr(), signal);
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
            Blocked { before: before.assume_init() }
        }
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: the mask was written by `pthread_sigmask` in `Blocked::new`.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut()) };
    }
}
