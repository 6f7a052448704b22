//! How this library learns that a stream has passed a free.
//!
//! The thread that frees marks the stream with an event, at most one at a time for each stream; the sampling thread asks
//! for it. Frees behind the last mark complete when the program waits for the stream or the device, when it destroys the
//! stream, or when their addresses are used again.

use memreel::Address;

use super::{
    captures,
    driver::{Driver, driver},
    gpu::{Account, Gpu},
    nested,
    state::record,
    types::Status,
};

/// Waits for a free in the order of a stream, which the calling thread has just requested.
pub(crate) fn await_free(gpu: &Gpu, (address, bytes): (u64, u64), stream: usize) -> Option<()> {
    let driver = driver()?;
    // SAFETY: the program has passed the stream to the driver in this call, and it was not captured.
    gpu.pending().add((address, bytes), stream, |mark| unsafe { driver.mark(stream, mark) });
    Some(())
}

/// Completes the frees that streams have passed. The calling thread has a context of the device.
pub(crate) fn complete(gpu: &Gpu, driver: &Driver) {
    // SAFETY: marks are events of this device's context, and are never destroyed.
    let done = gpu.pending().done(|mark| unsafe { driver.is_done(mark) });
    end(gpu, done);
}

/// Notes a call that waits for a stream, or without one for all work of this thread's device: the frees before it are
/// complete then.
pub(crate) fn waited(stream: Option<usize>, call: &dyn Fn() -> Status) -> Status {
    let before = record(|state| {
        let gpu = state.current_gpu()?;
        Some((gpu, gpu.pending().n_frees()))
    });
    let status = nested::apart(call);
    if let (true, Some(Some((gpu, n_frees)))) = (status.is_success(), before) {
        record(|_| {
            let done = gpu.pending().passed(stream, n_frees);
            end(gpu, done);
        });
    }
    status
}

/// Marks a stream that the program destroys: its work is done later, and the stream cannot be asked then.
pub(crate) fn destroyed(stream: usize) {
    record(|state| {
        let (gpu, driver) = (state.current_gpu()?, driver()?);
        // SAFETY: the program passes the stream to the driver in this call, and it is not captured.
        let mark = |mark| unsafe { driver.mark(stream, mark) };
        (!captures::is_capturing(stream)).then(|| gpu.pending().mark_rest(stream, mark))
    });
}

/// Records that frees are complete.
pub(crate) fn end(gpu: &Gpu, done: Vec<(u64, u64)>) {
    for (address, bytes) in done {
        gpu.ledger().free_completed_later(Address(address));
        gpu.account(Account::Pool, bytes, -1);
    }
}
