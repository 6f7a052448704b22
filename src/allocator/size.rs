//! Rounding, pools and segment sizes under given settings, as pure functions (`docs/caching-allocator.md` 1).
#![forbid(unsafe_code)]

use super::settings::Settings;
use memreel_snapshot::words::{
    PoolKind,
    torch::{self, BLOCK_BYTES, SMALL_MAX_BYTES, SMALL_SEGMENT_BYTES},
};

/// Returns the rounded size of a request in bytes.
pub(super) fn round(requested_bytes: u64, settings: &Settings) -> u64 {
    if requested_bytes < BLOCK_BYTES {
        return BLOCK_BYTES;
    }
    // Intervals start at 1 MiB; smaller requests use the first, larger ones the last.
    let interval = match requested_bytes {
        ..0x20_0000 => 0,
        bytes => (bytes.ilog2() as usize - 20).min(15),
    };
    let divisions = u64::from(settings.roundup_power2_divisions[interval]);
    if divisions > 1 && requested_bytes > BLOCK_BYTES * divisions {
        round_to_division(requested_bytes, divisions)
    } else {
        requested_bytes.next_multiple_of(BLOCK_BYTES)
    }
}

/// Rounds up to a step of the size's doubling, which has `divisions` equal
/// steps (`docs/caching-allocator.md` 1.2).
fn round_to_division(bytes: u64, divisions: u64) -> u64 {
    let below = 1 << bytes.ilog2();
    if bytes == below { bytes } else { bytes.next_multiple_of(below / divisions) }
}

/// Returns the size of the segment that a request takes from the device, in bytes.
pub(super) fn segment_bytes(rounded_bytes: u64, settings: &Settings) -> u64 {
    torch::segment_bytes(rounded_bytes, settings.large_segment_bytes)
}

/// Returns the page size of an expandable segment in bytes.
///
/// Devices map whole pages of a multiple of 2 MiB
/// ([`Device::range_map`](crate::device::Device::range_map)), so an odd
/// `large_segment_size_mb` is rounded up. PyTorch fails in that case.
pub(super) fn page_bytes(kind: PoolKind, settings: &Settings) -> u64 {
    match kind {
        PoolKind::Small => SMALL_SEGMENT_BYTES,
        PoolKind::Large => up_to_multiple(settings.large_segment_bytes, SMALL_SEGMENT_BYTES),
    }
}

/// Returns the number of addresses that an expandable segment reserves, in bytes: 9/8 of the device's memory, which
/// leaves space for unmapped holes (`docs/caching-allocator.md` 6.1).
pub(super) fn range_bytes(total_bytes: u64, page_bytes: u64) -> u64 {
    up_to_multiple(total_bytes.saturating_add(total_bytes / 8), page_bytes)
}

/// Rounds up to a multiple of `step_bytes`, which is not 0; down to the last multiple below 2^64 if there is none
/// above.
fn up_to_multiple(bytes: u64, step_bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(step_bytes).unwrap_or(bytes / step_bytes * step_bytes)
}

impl Settings {
    /// Returns the size to which a request is rounded, in bytes.
    pub(crate) fn rounded_bytes(&self, requested_bytes: u64) -> u64 {
        round(requested_bytes, self)
    }

    /// Returns the most bytes that a request takes from the device.
    pub(crate) fn growth_bytes(&self, requested_bytes: u64) -> u64 {
        let rounded_bytes = round(requested_bytes, self);
        match self.expandable_segments {
            true => up_to_multiple(rounded_bytes, self.page_bytes(torch::pool_kind(rounded_bytes))),
            false => segment_bytes(rounded_bytes, self),
        }
    }

    /// Returns the size of the segment that a request counts for against a limit, in bytes.
    pub(crate) fn segment_bytes(&self, requested_bytes: u64) -> u64 {
        segment_bytes(round(requested_bytes, self), self)
    }

    /// Returns the page size of an expandable segment in bytes.
    pub(crate) fn page_bytes(&self, kind: PoolKind) -> u64 {
        page_bytes(kind, self)
    }
}

/// Returns true if the remainder of a block becomes a separate block (`docs/caching-allocator.md` 2.4).
pub(super) fn splits(
    kind: PoolKind,
    is_expandable: bool,
    rounded_bytes: u64,
    remaining_bytes: u64,
    settings: &Settings,
) -> bool {
    if kind == PoolKind::Small || is_expandable {
        remaining_bytes >= BLOCK_BYTES
    } else {
        settings.is_splittable(rounded_bytes) && remaining_bytes > SMALL_MAX_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memreel_snapshot::words::torch::{MIB, pool_kind};

    fn with(conf: &str) -> Settings {
        conf.parse().unwrap()
    }

    #[test]
    fn rounding_is_to_512() {
        let cases = [(1, 512), (511, 512), (512, 512), (513, 1024), (4_000_000, 4_000_256)];
        for (requested, rounded) in cases {
            assert_eq!(round(requested, &Settings::default()), rounded);
        }
    }

    #[test]
    fn rounding_to_four_divisions() {
        let settings = with("roundup_power2_divisions:4");
        let cases = [
            (1, 512),
            (1200, 1536),
            (2048, 2048),
            (2049, 2560),
            (3000, 3072),
            (5000, 5120),
            (1_048_577, 1_310_720),
            (1_310_721, 1_572_864),
            (300 * MIB, 320 * MIB),
        ];
        for (requested, rounded) in cases {
            assert_eq!(round(requested, &settings), rounded, "{requested}");
        }
    }

    #[test]
    fn a_list_of_divisions_has_unset_intervals() {
        let settings = with("roundup_power2_divisions:[1:8,2:4,64:2,256:1,>:4]");
        let kib = |n: u64| n * 1024;
        let cases = [
            (kib(600), kib(640)),
            (1_153_434, kib(1152)),
            (2_306_868, kib(2560)),
            (5 * MIB, 5 * MIB),
            (100 * MIB, 128 * MIB),
            (300 * MIB, 300 * MIB),
            (600 * MIB, 640 * MIB),
            (1100 * MIB, 1280 * MIB),
        ];
        for (requested, rounded) in cases {
            assert_eq!(round(requested, &settings), rounded, "{requested}");
        }
    }

    #[test]
    fn boundaries_of_pools_and_segments() {
        let settings = Settings::default();
        let segment = |requested| segment_bytes(round(requested, &settings), &settings);
        assert_eq!(pool_kind(round(MIB, &settings)), PoolKind::Small);
        assert_eq!(pool_kind(round(MIB + 1, &settings)), PoolKind::Large);
        assert_eq!(segment(MIB), 2 * MIB);
        assert_eq!(segment(MIB + 1), 20 * MIB);
        assert_eq!(segment(10_485_248), 20 * MIB);
        assert_eq!(segment(10_485_249), 10 * MIB);
        assert_eq!(segment(10 * MIB + 1), 12 * MIB);
        let settings = with("large_segment_size_mb:64");
        assert_eq!(segment_bytes(2 * MIB, &settings), 64 * MIB);
    }

    #[test]
    fn ranges_of_expandable_segments() {
        assert_eq!(range_bytes(85_899_345_920, 20 * MIB), 96_636_764_160);
        assert_eq!(range_bytes(85_017_493_504, 2 * MIB), 95_644_811_264);
        assert_eq!(range_bytes(85_017_493_504, 20 * MIB), 95_651_102_720);
    }

    #[test]
    fn sizes_near_2_to_the_64_do_not_overflow() {
        let last = u64::MAX / SMALL_SEGMENT_BYTES * SMALL_SEGMENT_BYTES;
        let settings = Settings::default().large_segment_bytes(u64::MAX - 1);
        assert_eq!(page_bytes(PoolKind::Large, &settings), last);
        assert_eq!(range_bytes(u64::MAX, SMALL_SEGMENT_BYTES), last);
        assert_eq!(range_bytes(u64::MAX, last), last);
    }

    #[test]
    fn remainders_worth_keeping() {
        let settings = with("max_split_size_mb:64");
        let large =
            |is_expandable, rounded, rest| splits(PoolKind::Large, is_expandable, rounded, rest, &settings);
        assert!(splits(PoolKind::Small, false, 512, 512, &settings));
        assert!(!splits(PoolKind::Small, false, 512, 0, &settings));
        assert!(!large(false, 2 * MIB, MIB), "exactly 1 MiB is handed out with the block");
        assert!(large(false, 2 * MIB, MIB + 512));
        assert!(!large(false, 64 * MIB, 2 * MIB), "oversize blocks are not split");
        assert!(large(true, 64 * MIB, 512), "in expandable mode all blocks are split");
    }
}
