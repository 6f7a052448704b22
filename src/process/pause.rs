//! Sleeps inside the program's own calls.
#![forbid(unsafe_code)]

use std::{hint, thread, time::Duration};

/// Sleeps. A thread that is cancelled (`pthread_cancel`) does not end here, as it may in std's sleep: its stack would
/// be unwound through the program's call that waits here, such as `malloc`.
pub(crate) fn sleep(time: Duration) {
    // A signal ends it early, and callers sleep in loops.
    #[cfg(all(target_os = "linux", not(miri)))]
    if let Ok(time) = time.try_into() {
        let _ = rustix::thread::nanosleep(&time);
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    thread::sleep(time);
}

/// Waits for the `n`th time for something that another thread has for a few nanoseconds.
pub(crate) fn again(n: u32) {
    match n {
        0..100 => hint::spin_loop(),
        100..200 => thread::yield_now(),
        // A thread with a higher priority would keep the lock's owner off the processor, and so would thousands that
        // wake again and again.
        _ => sleep(Duration::from_micros(50 << ((n - 200) / 4).min(6))),
    }
}
