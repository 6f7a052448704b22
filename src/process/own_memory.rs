//! Counts the recorder's memory in the `malloc` that it reports, and records which device that heap is.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};

use memreel_snapshot::words::DeviceId;

/// Blocks of at least this size are returned to the system when they are freed. `malloc` keeps smaller ones: a snapshot
/// leaves about 20 MB of them, which would look like memory that the program freed.
const LARGE_BYTES: u64 = 128 << 10;

/// The bytes of the recorder's large blocks. Relaxed, as all here: numbers that nothing else has to agree with.
static LARGE: AtomicU64 = AtomicU64::new(0);

/// The bytes of the other blocks, and their peak.
static SMALL: AtomicU64 = AtomicU64::new(0);
static MOST_SMALL: AtomicU64 = AtomicU64::new(0);

/// The number of the device plus 1; 0 if there is none.
static DEVICE: AtomicU64 = AtomicU64::new(0);

/// The position of the device in a word that also has the bytes.
const DEVICE_SHIFT: u32 = 48;

/// Counts one of the recorder's own blocks, with the header that `malloc` puts before it.
///
/// ```
/// use memreel::integrate::own_memory;
///
/// own_memory::allocated(48);
/// own_memory::allocated(1 << 20);
/// own_memory::freed(48);
/// own_memory::freed(1 << 20);
/// assert_eq!(own_memory::bytes(), 48);
/// ```
pub fn allocated(bytes: u64) {
    if bytes >= LARGE_BYTES {
        LARGE.fetch_add(bytes, Ordering::Relaxed);
    } else {
        let before = SMALL.fetch_add(bytes, Ordering::Relaxed);
        MOST_SMALL.fetch_max(before + bytes, Ordering::Relaxed);
    }
}

/// Counts one of the recorder's own blocks that will be freed. A block from before the count started is in no sum.
pub fn freed(bytes: u64) {
    let less = |own: u64| Some(own.saturating_sub(bytes));
    let sum = if bytes >= LARGE_BYTES { &LARGE } else { &SMALL };
    let _ = sum.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
}

/// Returns the bytes of all these blocks, including freed ones that `malloc` keeps.
#[must_use]
pub fn bytes() -> u64 {
    LARGE.load(Ordering::Relaxed) + MOST_SMALL.load(Ordering::Relaxed)
}

/// Sets which device the heap is.
pub(crate) fn set_heap(device: DeviceId) {
    DEVICE.store(device.0.cast_unsigned().wrapping_add(1), Ordering::Relaxed);
}

/// Returns the device and the bytes as one word; 0 without a device.
pub(crate) fn word() -> u64 {
    match DEVICE.load(Ordering::Relaxed) {
        0 => 0,
        device => device << DEVICE_SHIFT | bytes().min((1 << DEVICE_SHIFT) - 1),
    }
}

/// Returns the device and the bytes in a word.
pub(crate) fn of_word(word: u64) -> Option<(DeviceId, u64)> {
    let device = (word >> DEVICE_SHIFT).checked_sub(1)?;
    Some((DeviceId(device.cast_signed()), word & ((1 << DEVICE_SHIFT) - 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_has_both() {
        assert_eq!(of_word(0), None);
        assert_eq!(of_word(3 << DEVICE_SHIFT | 5), Some((DeviceId(2), 5)));
        set_heap(DeviceId(7));
        assert_eq!(of_word(word()).map(|(device, _)| device), Some(DeviceId(7)));
    }
}
