//! Work of this library that a cancelled thread (`pthread_cancel`) finishes.

use std::ffi::c_int;

const DISABLE: c_int = 1;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// While it exists, this thread does not end where it is cancelled: opening a file is such a point, and the thread's stack
/// would be unwound through a call of the program that is none, such as `malloc`.
pub(crate) struct Uncancelled {
    before: c_int,
}

impl Uncancelled {
    pub(crate) fn begin() -> Uncancelled {
        let mut before = 0;
        // SAFETY: the state before is written into a variable.
        unsafe { pthread_setcancelstate(DISABLE, &raw mut before) };
        Uncancelled { before }
    }
}

impl Drop for Uncancelled {
    fn drop(&mut self) {
        let mut disabled = 0;
        // SAFETY: as in `begin`, whose state this restores.
        unsafe { pthread_setcancelstate(self.before, &raw mut disabled) };
    }
}
