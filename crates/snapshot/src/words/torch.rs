//! The sizes that PyTorch's caching allocator is built on (`docs/caching-allocator.md` 1).

use crate::words::PoolKind;

/// The driver maps memory in pages of this many bytes, so the sizes of segments are multiples of it.
pub const DRIVER_PAGE_BYTES: u64 = 2 << 20;

/// One mebibyte, in bytes.
pub const MIB: u64 = 1 << 20;

/// Every block's size is a multiple of this many bytes, with the default rounding.
pub const BLOCK_BYTES: u64 = 512;

/// The largest rounded request, in bytes, that the small pool serves.
pub const SMALL_MAX_BYTES: u64 = 1 << 20;

/// The size of a segment of the small pool, and of a page of its expandable segments, in bytes.
pub const SMALL_SEGMENT_BYTES: u64 = DRIVER_PAGE_BYTES;

/// The default size of a segment for requests below [`MIN_LARGE_BYTES`], and of a page of the large
/// pool's expandable segments, in bytes.
pub const LARGE_SEGMENT_BYTES: u64 = 20 << 20;

/// Requests of at least this many bytes get a segment of about their own size.
pub const MIN_LARGE_BYTES: u64 = 10 << 20;

/// The size of such a segment is a multiple of this many bytes.
pub const ROUND_LARGE_BYTES: u64 = DRIVER_PAGE_BYTES;

/// Requests of at least this many bytes are refused (`docs/caching-allocator.md` 1.4).
pub const ABSURD_BYTES: u64 = 1 << 60;

/// Returns the pool that serves a rounded request.
#[inline]
pub fn pool_kind(rounded_bytes: u64) -> PoolKind {
    if rounded_bytes <= SMALL_MAX_BYTES { PoolKind::Small } else { PoolKind::Large }
}

/// Returns the pool whose segments have this size, for a segment of an allocator that has no pools.
pub fn kind_of_segment(bytes: u64) -> PoolKind {
    if bytes <= SMALL_SEGMENT_BYTES { PoolKind::Small } else { PoolKind::Large }
}

/// Returns the bytes that the device is asked for when no free block fits a request.
/// `large_segment_bytes` is the `large_segment_size_mb` setting, by default [`LARGE_SEGMENT_BYTES`].
pub fn segment_bytes(rounded_bytes: u64, large_segment_bytes: u64) -> u64 {
    if rounded_bytes <= SMALL_MAX_BYTES {
        SMALL_SEGMENT_BYTES
    } else if rounded_bytes < MIN_LARGE_BYTES {
        large_segment_bytes
    } else {
        rounded_bytes.checked_next_multiple_of(ROUND_LARGE_BYTES).unwrap_or(rounded_bytes)
    }
}

/// Returns the page size of an expandable segment with default settings, in bytes.
pub fn page_bytes(kind: Option<PoolKind>) -> u64 {
    if kind == Some(PoolKind::Small) { SMALL_SEGMENT_BYTES } else { LARGE_SEGMENT_BYTES }
}
