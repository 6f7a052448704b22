//! A sleep within the program's own calls.
#![forbid(unsafe_code)]

use std::time::Duration;

/// Sleeps. A thread that is cancelled (`pthread_cancel`) does not end here, as it may in std's sleep: its stack would be
/// unwound through the call of the program that waits here, such as `malloc`.
pub(crate) fn sleep(time: Duration) {
    // A signal ends it early, and callers sleep in loops.
    #[cfg(all(target_os = "linux", not(miri)))]
    if let Ok(time) = time.try_into() {
        let _ = rustix::thread::nanosleep(&time);
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    std::thread::sleep(time);
}
