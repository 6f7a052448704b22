//! Contexts: the primary one of each device and others, and which is current on a thread.

use std::{
    cell::{Cell, RefCell},
    sync::atomic::{AtomicU64, Ordering},
};

#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) device: usize,
    pub(crate) is_primary: bool,
    /// How often a primary context is retained; 1 for others.
    pub(crate) n_users: u64,
}

/// The handle of a device's primary context, which never changes.
pub(crate) fn primary(device: usize) -> u64 {
    0xc000_0000 + device as u64 * 0x100
}

static N_THREADS: AtomicU64 = AtomicU64::new(1);

thread_local! {
    static CURRENT: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
    static CAPTURE_MODE: Cell<u32> = const { Cell::new(0) };
    static THREAD: u64 = N_THREADS.fetch_add(1, Ordering::Relaxed);
}

/// Returns the current context; 0 if there is none.
pub(crate) fn current() -> u64 {
    CURRENT.try_with(|stack| stack.borrow().last().copied().unwrap_or(0)).unwrap_or(0)
}

pub(crate) fn set_current(context: u64) {
    let _ = CURRENT.try_with(|stack| {
        let mut stack = stack.borrow_mut();
        stack.pop();
        stack.push(context);
    });
}

pub(crate) fn push(context: u64) {
    let _ = CURRENT.try_with(|stack| stack.borrow_mut().push(context));
}

pub(crate) fn pop() -> Option<u64> {
    CURRENT.try_with(|stack| stack.borrow_mut().pop()).ok().flatten()
}

/// Returns a number of the calling thread that no other thread gets.
pub(crate) fn thread() -> u64 {
    THREAD.try_with(|number| *number).unwrap_or(0)
}

/// Replaces the thread's mode for calls during a capture, and returns the old one.
pub(crate) fn exchange_capture_mode(mode: u32) -> u32 {
    CAPTURE_MODE.try_with(|own| own.replace(mode)).unwrap_or(0)
}

pub(crate) fn capture_mode() -> u32 {
    CAPTURE_MODE.try_with(Cell::get).unwrap_or(0)
}
