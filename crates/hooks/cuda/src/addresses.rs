//! Counts the addresses that the program has reserved to map memory at.
//!
//! Their sum is enough: the driver frees a range whole or not at all.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};

use super::intervals;

/// The bytes of all ranges. Relaxed: a number in reports.
static RESERVED_BYTES: AtomicU64 = AtomicU64::new(0);

/// Returns the bytes that are reserved now.
pub(crate) fn reserved_bytes() -> u64 {
    RESERVED_BYTES.load(Ordering::Relaxed)
}

/// Counts a range that was reserved.
pub(crate) fn reserved(bytes: u64) {
    RESERVED_BYTES.fetch_add(bytes, Ordering::Relaxed);
    intervals::want();
}

/// Counts a range that was released.
pub(crate) fn freed(bytes: u64) {
    // A range from before the recording was not counted.
    let less = |reserved: u64| Some(reserved.saturating_sub(bytes));
    let _ = RESERVED_BYTES.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    intervals::want();
}

/// Resets the count: a child of `fork` has no context.
pub(crate) fn forget() {
    RESERVED_BYTES.store(0, Ordering::Relaxed);
}
