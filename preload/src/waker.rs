//! Wakes the thread that looks at the devices.
#![forbid(unsafe_code)]

use std::{
    sync::atomic::{AtomicU64, Ordering},
    thread::Thread,
};

use once_cell::race::OnceBox;

use super::gpu::Gpu;

/// The sampling thread, once there is a context.
#[derive(Debug, Default)]
pub(crate) struct Waker {
    pub(crate) thread: OnceBox<Thread>,
    /// The most bytes that were accounted for when a peak was last looked at, of all devices.
    peak_bytes: AtomicU64,
}

impl Waker {
    /// Has the thread look now.
    pub(crate) fn wake(&self) {
        self.thread.get().into_iter().for_each(Thread::unpark);
    }

    /// Notes that more may be accounted for on a device; a new peak is looked at.
    #[inline]
    pub(crate) fn note(&self, gpu: &Gpu) {
        let bytes = gpu.booked_bytes() + gpu.pool_bytes();
        let peak = self.peak_bytes.load(Ordering::Relaxed);
        // Not every few bytes: a look takes microseconds of a processor.
        if bytes > peak + peak / 64 + (1 << 20) {
            self.peak_bytes.store(bytes, Ordering::Relaxed);
            self.wake();
        }
    }
}
