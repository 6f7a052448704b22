//! The captures that are running in this process, by rising numbers.
#![forbid(unsafe_code)]

use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

use crate::process::fork::{Level, register_static};

static N_RUNNING: AtomicUsize = AtomicUsize::new(0);
static LATEST: AtomicU64 = AtomicU64::new(1);
/// The numbers of the running captures.
static RUNNING: Mutex<Vec<u64>> = Mutex::new(Vec::new());

fn running() -> MutexGuard<'static, Vec<u64>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns true if a capture by memreel is running anywhere.
#[inline]
pub(super) fn is_any() -> bool {
    N_RUNNING.load(Ordering::Relaxed) > 0
}

/// Returns the number of the capture that started last, counted from 1.
pub(super) fn number() -> u64 {
    LATEST.load(Ordering::Relaxed)
}

/// Returns true if work that was captured when `number` was the latest may belong to a running capture: no other
/// started since, or one that ran then is still running. cudarc does not report which of several captures it is.
pub(super) fn may_run(number: u64) -> bool {
    number == self::number() || running().iter().any(|running| *running <= number)
}

/// Counts a capture until it is dropped.
#[derive(Debug)]
pub(super) struct Running(u64);

impl Running {
    pub(super) fn begin() -> Running {
        let mut running = running();
        let number = LATEST.fetch_add(1, Ordering::Relaxed) + 1;
        running.push(number);
        N_RUNNING.fetch_add(1, Ordering::Relaxed);
        Running(number)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        running().retain(|number| *number != self.0);
        N_RUNNING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Connects the list to forks of the process.
pub(super) fn survive_forks() {
    register_static(Level::Device, |held| held.lock_static(&RUNNING));
}
