//! What tests ask of the driver: its size, failures, progress, and the rules that a program broke.

use std::ffi::{CStr, c_char};

use super::state::{Driver, Failure, lock};

/// Starts again with `n_devices` devices of `bytes` bytes.
#[unsafe(no_mangle)]
pub extern "C" fn fake_reset(n_devices: u64, bytes: u64) {
    *lock() = Driver::new(n_devices as usize, bytes);
}

impl Driver {
    /// Returns what is alive, by kinds.
    fn alive(&self) -> String {
        let kinds = [
            (self.contexts.len(), "contexts"),
            (self.streams.keys().filter(|(_, handle, _)| *handle > 2).count(), "streams"),
            (self.events.len(), "events"),
            (self.memory.len(), "pieces of memory"),
            (self.ranges.len(), "ranges of addresses"),
            (self.loose.len(), "handles of memory"),
            (self.graphs.len(), "graphs"),
        ];
        let left = kinds.iter().filter(|(n, _)| *n > 0).map(|(n, kind)| format!("{n} {kind}"));
        left.collect::<Vec<_>>().join(", ")
    }
}

/// Copies at most `bytes` bytes of a text to `to`. Returns the length.
///
/// # Safety
/// `to` is valid for writes of `bytes` bytes.
unsafe fn copy(text: &str, to: *mut u8, bytes: usize) -> usize {
    let n_copied = text.len().min(bytes);
    // SAFETY: the caller's promise.
    unsafe { to.copy_from_nonoverlapping(text.as_ptr(), n_copied) };
    n_copied
}

/// Removes the broken rules, and returns them, a line each.
///
/// # Safety
/// `to` is valid for writes of `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fake_violations(to: *mut u8, bytes: usize) -> usize {
    let text = std::mem::take(&mut lock().violations).join("\n");
    // SAFETY: the caller's promise.
    unsafe { copy(&text, to, bytes) }
}

/// Returns what is alive: contexts, streams, events, memory and graphs.
///
/// # Safety
/// `to` is valid for writes of `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fake_alive(to: *mut u8, bytes: usize) -> usize {
    let text = lock().alive();
    // SAFETY: the caller's promise.
    unsafe { copy(&text, to, bytes) }
}

/// Lets `n_failing` calls of a function fail with a code, after `n_passed` calls.
///
/// # Safety
/// The name ends in nul.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fake_fail(call: *const c_char, n_passed: u64, n_failing: u64, code: u32) {
    // SAFETY: the caller's promise.
    let call = unsafe { CStr::from_ptr(call) }.to_string_lossy().into_owned();
    lock().failures.push(Failure { call, n_passed, n_failing, code });
}

/// Lets work finish at random when the host asks for it; 0: only when the host waits.
#[unsafe(no_mangle)]
pub extern "C" fn fake_progress(seed: u64) {
    lock().chance = seed;
}

/// Returns how many calls failed because a test asked for it, and removes what is left of them.
#[unsafe(no_mangle)]
pub extern "C" fn fake_end_failures() -> u64 {
    std::mem::take(&mut lock().failures).iter().map(|failure| failure.n_failing).sum()
}
