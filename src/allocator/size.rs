//! Rounding, pools and segment sizes as pure functions (caching-allocator.md 1).

use crate::inventory::PoolKind;

/// Every block's size is a multiple of this.
pub(super) const MIN_BLOCK_BYTES: u64 = 512;
/// Rounded requests up to this come from the small pool.
pub(super) const SMALL_MAX_BYTES: u64 = 1 << 20;
/// The size of every segment of the small pool.
pub(super) const SMALL_SEGMENT_BYTES: u64 = 2 << 20;
/// The size of segments for requests between 1 MiB and 10 MiB.
pub(super) const LARGE_SEGMENT_BYTES: u64 = 20 << 20;
/// From here on a request gets a segment of about its own size.
pub(super) const MIN_LARGE_BYTES: u64 = 10 << 20;
/// To a multiple of this.
pub(super) const ROUND_LARGE_BYTES: u64 = 2 << 20;
/// Requests from here on are refused unseen (caching-allocator.md 1.4).
pub(super) const ABSURD_BYTES: u64 = 1 << 60;

/// The size of the block that serves a request.
pub(super) fn round(requested_bytes: u64) -> u64 {
    requested_bytes.max(1).next_multiple_of(MIN_BLOCK_BYTES)
}

/// The pool that serves a rounded request.
pub(super) fn pool_kind(rounded_bytes: u64) -> PoolKind {
    if rounded_bytes <= SMALL_MAX_BYTES { PoolKind::Small } else { PoolKind::Large }
}

/// What the device is asked for when no free block fits.
pub(super) fn segment_bytes(rounded_bytes: u64) -> u64 {
    if rounded_bytes <= SMALL_MAX_BYTES {
        SMALL_SEGMENT_BYTES
    } else if rounded_bytes < MIN_LARGE_BYTES {
        LARGE_SEGMENT_BYTES
    } else {
        rounded_bytes.next_multiple_of(ROUND_LARGE_BYTES)
    }
}

/// Whether what is left of a block is worth a block of its own.
pub(super) fn splits(kind: PoolKind, remaining_bytes: u64) -> bool {
    match kind {
        PoolKind::Small => remaining_bytes >= MIN_BLOCK_BYTES,
        PoolKind::Large => remaining_bytes > SMALL_MAX_BYTES,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_to_512() {
        let cases = [(1, 512), (511, 512), (512, 512), (513, 1024), (4_000_000, 4_000_256)];
        for (requested, rounded) in cases {
            assert_eq!(round(requested), rounded);
        }
    }

    #[test]
    fn boundaries_of_pools_and_segments() {
        const MIB: u64 = 1 << 20;
        let segment = |requested| segment_bytes(round(requested));
        assert_eq!(pool_kind(round(MIB)), PoolKind::Small);
        assert_eq!(pool_kind(round(MIB + 1)), PoolKind::Large);
        assert_eq!(segment(MIB), 2 * MIB);
        assert_eq!(segment(MIB + 1), 20 * MIB);
        assert_eq!(segment(10_485_248), 20 * MIB);
        assert_eq!(segment(10_485_249), 10 * MIB);
        assert_eq!(segment(10 * MIB + 1), 12 * MIB);
    }

    #[test]
    fn remainders_worth_keeping() {
        assert!(splits(PoolKind::Small, 512));
        assert!(!splits(PoolKind::Small, 0));
        assert!(!splits(PoolKind::Large, 1 << 20), "exactly 1 MiB is handed out with the block");
        assert!(splits(PoolKind::Large, (1 << 20) + 512));
    }
}
