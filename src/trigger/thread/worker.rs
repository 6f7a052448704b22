//! The thread that writes the snapshots of all triggers except failed requests.
//!
//! It writes for threads that may have any lock: a thread that panics or exits. So it waits for no lock of the program
//! and takes one lock of memreel at a time, and other threads wait for it only for a limited time. It records nothing
//! of its own work, and signals are blocked, so that no handler of the program runs in the middle of a snapshot.
#![forbid(unsafe_code)]

use std::{
    cell::Cell,
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    thread,
};

use crate::{
    process::{fork, mask::Blocked},
    recorder::OwnWork,
    trigger::{
        cause::Cause,
        thread::{
            registry,
            requests::{BELL, EXIT, PANIC, serve_signals},
        },
        when::armed::Armed,
    },
};

thread_local! {
    static IS_HERE: Cell<bool> = const { Cell::new(false) };
}

/// The process in which the thread runs, as [`process`] counts them; 0 if there is none.
static RUNS_IN: AtomicU32 = AtomicU32::new(0);

/// Whether a set of triggers needs the thread.
static IS_NEEDED: AtomicBool = AtomicBool::new(false);

/// Whether the process is about to exit.
static IS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Returns a number that is never 0 and differs in a child of `fork`, where the thread does not exist.
fn process() -> u32 {
    fork::generation().wrapping_add(1).max(1)
}

/// Starts the thread, unless it runs in this process.
pub(in crate::trigger) fn start() -> io::Result<()> {
    IS_NEEDED.store(true, Ordering::Relaxed);
    let (process, runs_in) = (process(), RUNS_IN.load(Ordering::Acquire));
    let is_ours = || RUNS_IN.compare_exchange(runs_in, process, Ordering::AcqRel, Ordering::Relaxed).is_ok();
    if runs_in == process || !is_ours() {
        return Ok(());
    }
    let _own = OwnWork::begin();
    let _blocked = Blocked::new();
    let started = thread::Builder::new().name("memreel".into()).spawn(run);
    if started.is_err() {
        RUNS_IN.store(0, Ordering::Release);
    }
    started.map(drop)
}

/// Starts the thread again in a child of `fork`, if a set of triggers needs it.
pub(in crate::trigger) fn revive() {
    if IS_NEEDED.load(Ordering::Relaxed) && RUNS_IN.load(Ordering::Relaxed) != process() {
        let _ = start();
    }
}

/// Returns whether this is the thread.
pub(in crate::trigger) fn is_here() -> bool {
    IS_HERE.try_with(Cell::get).unwrap_or(false)
}

/// Starts no further snapshot: the process ends, and would leave an incomplete one.
pub(in crate::trigger) fn close() {
    IS_CLOSED.store(true, Ordering::Relaxed);
}

fn run() {
    IS_HERE.set(true);
    let _own = OwnWork::begin();
    while !IS_CLOSED.load(Ordering::Relaxed) {
        let rung = BELL.get();
        let all = registry::all();
        work(&all);
        let wait = all.iter().filter_map(|armed| armed.wait()).min();
        drop(all);
        BELL.wait(rung, wait);
    }
}

fn work(all: &[Arc<Armed>]) {
    let dump = |cause, is_meant: &dyn Fn(&Armed) -> bool| {
        for armed in all.iter().filter(|armed| is_meant(armed)) {
            armed.dump(cause);
        }
    };
    PANIC.serve(|| dump(Cause::Panic, &Armed::is_on_panic));
    EXIT.serve(|| all.iter().filter(|armed| armed.is_on_exit()).for_each(|armed| armed.dump_at_exit()));
    serve_signals(|signal| dump(Cause::Signal, &|armed| armed.is_on_signal(signal)));
    all.iter().for_each(|armed| armed.poll());
}
