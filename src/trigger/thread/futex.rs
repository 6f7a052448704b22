//! A number that threads wait for, and that a signal handler may change.
#![forbid(unsafe_code)]

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use rustix::thread::futex::{self, Flags, Timespec};

/// A number whose changes wake the threads that wait for them.
#[derive(Debug, Default)]
pub(in crate::trigger) struct Futex(AtomicU32);

impl Futex {
    pub(in crate::trigger) const fn new() -> Futex {
        Futex(AtomicU32::new(0))
    }

    pub(in crate::trigger) fn get(&self) -> u32 {
        self.0.load(Ordering::Acquire)
    }

    /// Adds one and returns the sum. It may be called in a signal handler: it is one instruction and one system call.
    pub(in crate::trigger) fn increase(&self) -> u32 {
        let sum = self.0.fetch_add(1, Ordering::AcqRel).wrapping_add(1);
        self.wake();
        sum
    }

    pub(in crate::trigger) fn set(&self, number: u32) {
        self.0.store(number, Ordering::Release);
        self.wake();
    }

    fn wake(&self) {
        let _ = futex::wake(&self.0, Flags::PRIVATE, u32::MAX >> 1);
    }

    /// Waits until the number is not `seen`, or until the time has passed. It may return earlier.
    pub(in crate::trigger) fn wait(&self, seen: u32, time: Option<Duration>) {
        let time = time.and_then(|time| Timespec::try_from(time).ok());
        let _ = futex::wait(&self.0, Flags::PRIVATE, seen, time.as_ref());
    }
}

#[cfg(test)]
mod tests {
    use std::{thread, time::Instant};

    use super::*;

    #[test]
    fn a_change_wakes_and_a_time_ends() {
        static WORD: Futex = Futex::new();
        let start = Instant::now();
        WORD.wait(1, None);
        WORD.wait(0, Some(Duration::from_millis(20)));
        assert!(start.elapsed() >= Duration::from_millis(20));
        let waiting = thread::spawn(|| {
            while WORD.get() == 0 {
                WORD.wait(0, None);
            }
        });
        thread::sleep(Duration::from_millis(20));
        assert_eq!(WORD.increase(), 1);
        waiting.join().unwrap();
    }
}
