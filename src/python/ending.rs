//! Handles the end of the interpreter, which frees the states and frames of all threads: walks are closed before that.
//!
//! A thread that has the interpreter's lock walks safely, because the thread that ends the interpreter needs the lock
//! itself. Other threads walk only while our function is registered with Python's `atexit`, which calls it before
//! anything is freed; it closes the walks (`walks.rs`). If the program removes it without a call (`atexit._clear()`),
//! walks are closed until it is registered again.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU8, Ordering};

use super::{
    atexit,
    interpreter::Interpreter,
    walks::{self, Walk},
};

/// The state of our function.
static HOOK: AtomicU8 = AtomicU8::new(NONE);

/// The interpreter does not have it.
const NONE: u8 = 0;
/// The main thread of the interpreter was asked to register it.
const ASKED: u8 = 1;
const REGISTERING: u8 = 2;
const REGISTERED: u8 = 3;
/// The interpreter called it, or refused it. It is not registered again: after an end, the states of older threads may
/// be stale.
const GONE: u8 = 4;

/// The right to walk, until it is dropped.
pub(super) struct Permit(#[expect(dead_code, reason = "its drop ends the walk")] Option<Walk>);

/// Returns the right to walk along the frames of this thread, if nothing can free them meanwhile.
#[inline(always)]
pub(super) fn permit(interpreter: &Interpreter) -> Option<Permit> {
    match walks::enter() {
        Some(walk) => Some(Permit(Some(walk))),
        None => permit_attached(interpreter),
    }
}

#[cold]
#[inline(never)]
fn permit_attached(interpreter: &Interpreter) -> Option<Permit> {
    if interpreter.is_finalizing() {
        return None;
    }
    ask(interpreter);
    interpreter.is_attached().then_some(Permit(None))
}

/// Makes the interpreter's main thread register our function, unless that was already done.
pub(super) fn ask(interpreter: &Interpreter) {
    // Relaxed: the exchange in `ask_now` decides.
    if HOOK.load(Ordering::Relaxed) == NONE && interpreter.is_initialized() {
        ask_now();
    }
}

fn ask_now() {
    if swap(NONE, ASKED) && !atexit::at_next_chance(register) {
        swap(ASKED, NONE);
    }
}

/// Registers our function now. The thread must have the interpreter's lock, and not be within an allocator.
pub(super) fn register() {
    if !(swap(NONE, REGISTERING) || swap(ASKED, REGISTERING)) {
        return;
    }
    let next = match atexit::register(called, dropped) {
        Some(true) => REGISTERED,
        Some(false) => GONE,
        None => NONE,
    };
    if swap(REGISTERING, next) && next == REGISTERED {
        walks::open();
        // In a build without the lock, another thread may call it at the same time. It frees nothing before this thread
        // detaches.
        if HOOK.load(Ordering::SeqCst) != REGISTERED {
            walks::close();
        }
    }
}

fn swap(from: u8, to: u8) -> bool {
    // Relaxed if it fails: what was there is not used.
    HOOK.compare_exchange(from, to, Ordering::SeqCst, Ordering::Relaxed).is_ok()
}

/// Called by the interpreter when it ends.
fn called() {
    HOOK.store(GONE, Ordering::SeqCst);
    walks::close();
}

/// Called when the interpreter's list of functions was emptied: after they were called, or because the program cleared
/// it.
fn dropped() {
    if swap(REGISTERED, NONE) {
        walks::close();
        ask_now();
    }
}
