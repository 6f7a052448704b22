//! Work that a cancelled thread (`pthread_cancel`) finishes.

#[cfg(all(unix, not(miri)))]
use std::ffi::c_int;

#[cfg(all(unix, not(miri)))]
unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// Keeps this thread from ending where it is cancelled (`pthread_cancel`), while it exists. To open a file is such a point:
/// the thread's stack would be unwound through a call of the program that is none, such as `malloc`.
///
/// ```
/// use memreel::integrate::Uncancelled;
///
/// let _uncancelled = Uncancelled::begin();
/// assert!(std::fs::read_dir(".").is_ok());
/// ```
#[derive(Debug)]
pub struct Uncancelled {
    #[cfg(all(unix, not(miri)))]
    before: c_int,
}

impl Uncancelled {
    /// Begins to keep this thread.
    #[must_use]
    pub fn begin() -> Uncancelled {
        #[cfg(all(unix, not(miri)))]
        {
            const DISABLE: c_int = 1;
            let mut before = 0;
            // SAFETY: the state before is written into a variable.
            unsafe { pthread_setcancelstate(DISABLE, &raw mut before) };
            Uncancelled { before }
        }
        #[cfg(not(all(unix, not(miri))))]
        Uncancelled {}
    }
}

#[cfg(all(unix, not(miri)))]
impl Drop for Uncancelled {
    fn drop(&mut self) {
        let mut disabled = 0;
        // SAFETY: as in `begin`, whose state this restores.
        unsafe { pthread_setcancelstate(self.before, &raw mut disabled) };
    }
}
