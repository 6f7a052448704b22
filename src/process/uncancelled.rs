//! Lets a cancelled thread (`pthread_cancel`) finish its work.

#[cfg(all(unix, not(miri)))]
use std::ffi::c_int;

#[cfg(all(unix, not(miri)))]
unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// Keeps a cancelled thread (`pthread_cancel`) from ending while this value exists. Opening a file is a cancellation
/// point: the thread's stack would be unwound through a function that is not one, such as `malloc`.
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
    /// Disables cancellation of this thread.
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
