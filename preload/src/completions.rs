//! How this library learns that a stream has passed a free.
//!
//! The thread that frees marks the stream with an event, at most one at a time for each stream; the sampling thread asks
//! for it. A stream without a later free is not marked again, so its last frees may stay requested until their
//! addresses are used again.

use memreel::Address;

use super::{
    driver::{Driver, driver},
    gpu::{Account, Gpu},
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

/// Records that frees are complete.
pub(crate) fn end(gpu: &Gpu, done: Vec<(u64, u64)>) {
    for (address, bytes) in done {
        gpu.ledger().free_completed_later(Address(address));
        gpu.account(Account::Pool, bytes, -1);
    }
}
