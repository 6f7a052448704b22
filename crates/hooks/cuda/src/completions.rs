//! Determines when a stream has passed a free.
//!
//! The thread that frees marks the stream with an event, at most one at a time for each stream; a look at the device
//! queries it. Frees after the last mark complete when the program waits for the stream or the device, when it destroys
//! the stream, or when their addresses are reused.

use memreel::Address;

use super::{
    captures,
    driver::{Driver, driver},
    gpu::{Account, Gpu},
    nested,
    pending::Needed,
    state::record,
    types::Status,
};

/// Waits for a stream-ordered free that the calling thread has just requested.
pub(crate) fn await_free(gpu: &Gpu, freed: (u64, u64), stream: usize) -> Option<()> {
    // Before the free is added: its stream counts as being marked until it is.
    let driver = driver()?;
    let needed = gpu.pending().add(freed, stream)?;
    // SAFETY: the program has passed the stream to the driver in this call, and it was not captured.
    unsafe { mark(gpu, driver, needed) };
    Some(())
}

/// Marks a stream. The lock of the frees is not held while the driver works: its call may wait for one that frees.
///
/// # Safety
/// The stream exists, is not captured and is of this thread's context.
unsafe fn mark(gpu: &Gpu, driver: &Driver, needed: Needed) {
    // SAFETY: the caller's promise; events are of this device's context.
    let event = unsafe { driver.mark(needed.stream, needed.event) };
    gpu.pending().marked(needed.stream, event.map(|event| needed.with(event)));
}

/// Completes the frees that streams have passed. The calling thread has a context of the device.
pub(crate) fn complete(gpu: &Gpu, driver: &Driver) {
    let mut marks = gpu.pending().marks();
    // SAFETY: marks are events of this device's context, and are never destroyed.
    marks.retain(|mark| unsafe { driver.is_done(mark.event) });
    let done = gpu.pending().reached(&marks);
    end(gpu, done);
}

/// Records a call that waits for a stream, or without one for all work of this thread's device: earlier frees are
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

/// Marks a stream that the program destroys: its work is done later, but the stream cannot be queried then.
pub(crate) fn destroyed(stream: usize) {
    record(|state| {
        let (gpu, driver) = (state.current_gpu()?, driver()?);
        if captures::is_capturing(stream) {
            return None;
        }
        let needed = gpu.pending().rest(stream)?;
        // SAFETY: the program passes the stream to the driver in this call, and it is not captured.
        unsafe { mark(gpu, driver, needed) };
        Some(())
    });
}

/// Records that frees are complete.
pub(crate) fn end(gpu: &Gpu, done: Vec<(u64, u64)>) {
    for (address, bytes) in done {
        let _counted = gpu.ledger().free_completed_later(Address(address));
        gpu.account(Account::Pool, bytes, -1);
    }
}
