//! The bytes that triggers watch.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};

use memreel::trigger::Levels;

use super::gpu::Gpu;

/// What was allocated on all devices since the start, and the most that one device had. Relaxed: numbers that triggers compare.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    allocated_bytes: AtomicU64,
    peak_bytes: AtomicU64,
}

impl Totals {
    /// Adds an allocation of a device.
    #[inline]
    pub(crate) fn add(&self, bytes: u64, gpu: &Gpu) {
        self.allocated_bytes.fetch_add(bytes, Ordering::Relaxed);
        let held_bytes = gpu.booked_bytes() + gpu.pool_bytes();
        // A locked instruction costs more than a look.
        if held_bytes > self.peak_bytes.load(Ordering::Relaxed) {
            self.peak_bytes.fetch_max(held_bytes, Ordering::Relaxed);
        }
    }

    /// Returns the bytes as they are now.
    pub(crate) fn get(&self) -> Levels {
        Levels {
            allocated_bytes: self.allocated_bytes.load(Ordering::Relaxed),
            peak_bytes: self.peak_bytes.load(Ordering::Relaxed),
        }
    }
}
