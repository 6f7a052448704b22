//! The hook that requests a snapshot at a panic.
#![forbid(unsafe_code)]

use std::{
    panic,
    sync::{
        Mutex, TryLockError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use crate::{
    process::unwritten,
    trigger::{
        files::dumping,
        thread::{requests::PANIC, worker},
    },
};

/// How long a panic waits for the snapshot.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long panics request no snapshot after one was written: a program may catch thousands of panics.
const GAP: Duration = Duration::from_secs(1);

/// Installs the hook in front of the present one, once per process.
pub(in crate::trigger) fn install() {
    static IS_INSTALLED: AtomicBool = AtomicBool::new(false);
    // A panicking thread cannot change the hook.
    if thread::panicking() || IS_INSTALLED.swap(true, Ordering::Relaxed) {
        return;
    }
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        dump();
        before(info);
    }));
}

/// Makes the thread write the snapshot, because this one may have any lock, and waits for it: the process may abort
/// after the hook.
fn dump() {
    static LAST: Mutex<Option<Instant>> = Mutex::new(None);
    if worker::is_here() || dumping::is_here() {
        return;
    }
    let until = Instant::now() + PATIENCE;
    let is_first = match LAST.try_lock() {
        Ok(mut last) => {
            let is_first = last.is_none_or(|last| last.elapsed() >= GAP);
            if is_first {
                *last = Some(Instant::now());
            }
            is_first
        }
        Err(TryLockError::Poisoned(_) | TryLockError::WouldBlock) => false,
    };
    if !is_first {
        // The snapshot of another panic may be in progress, and this one's abort would cut it off.
        PANIC.wait(PANIC.latest(), until);
        return;
    }
    match worker::start() {
        Err(error) => unwritten::count("panic", &format_args!("cannot start a thread: {error}")),
        Ok(()) if PANIC.wait(PANIC.ask(), until) => {}
        Ok(()) => unwritten::count("panic", &format_args!("it takes longer than {PATIENCE:?}")),
    }
}
