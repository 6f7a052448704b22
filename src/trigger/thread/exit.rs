//! Writes snapshots when the process exits, at the end of `main` or by `exit`.

use std::{
    panic::catch_unwind,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use crate::{
    process::unwritten,
    trigger::{
        files::dumping,
        thread::{requests::EXIT, worker},
    },
};

/// How long an exit waits for snapshots.
const PATIENCE: Duration = Duration::from_secs(30);

/// Whether a set of triggers asks for a snapshot at the exit.
static IS_WANTED: AtomicBool = AtomicBool::new(false);

/// Asks for a snapshot at the exit.
pub(in crate::trigger) fn want() {
    IS_WANTED.store(true, Ordering::Relaxed);
}

/// Makes the exit wait for snapshots that are being written. Does this once per process.
pub(in crate::trigger) fn install() {
    static IS_INSTALLED: AtomicBool = AtomicBool::new(false);
    if !IS_INSTALLED.swap(true, Ordering::Relaxed) {
        // SAFETY: the function takes no argument and does not unwind. Without memory for it, the exit does not wait.
        unsafe { libc::atexit(at_exit) };
    }
}

extern "C" fn at_exit() {
    let _ = catch_unwind(leave);
}

/// Makes the thread write the snapshots, because this one may be a signal handler, or have lost its storage.
fn leave() {
    let is_wanted = IS_WANTED.load(Ordering::Relaxed);
    if dumping::is_here() || worker::is_here() {
        // Something called `exit` in the middle of a snapshot, which is never completed.
        if is_wanted {
            unwritten::count("exit", &"the process exits in the middle of a snapshot");
        }
        return worker::close();
    }
    let until = Instant::now() + PATIENCE;
    if is_wanted {
        match worker::start() {
            Err(error) => unwritten::count("exit", &format_args!("cannot start a thread: {error}")),
            Ok(()) if EXIT.wait(EXIT.ask(), until) => {}
            Ok(()) => unwritten::count("exit", &format_args!("it takes longer than {PATIENCE:?}")),
        }
    }
    dumping::wait_for_all(until);
    worker::close();
}
