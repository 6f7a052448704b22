//! The settings of an allocator, under PyTorch's names (caching-allocator.md 8).
#![forbid(unsafe_code)]

use crate::inventory::SettingsReport;

const MIB: u64 = 1 << 20;

/// How an allocator rounds, splits, grows and lets go. Defaults are PyTorch 2.11's.
///
/// ```
/// use memreel::allocator::Settings;
///
/// let settings: Settings = "expandable_segments:True,max_split_size_mb:64".parse()?;
/// assert!(settings.expandable_segments);
/// assert_eq!(settings.max_split_bytes, Some(64 << 20));
/// # Ok::<(), memreel::Error>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// The text these settings were read from.
    pub conf: String,
    /// New memory comes as pages of a reserved range that grows and shrinks. Default: no.
    pub expandable_segments: bool,
    /// Blocks of at least this size are not split, and serve no smaller request. Default: any is split.
    pub max_split_bytes: Option<u64>,
    /// How much larger than the request a block may be that is not split. Default: a large segment.
    pub max_non_split_rounding_bytes: u64,
    /// The size of segments for requests from 1 to 10 MiB, and of large pages. Default: 20 MiB.
    pub large_segment_bytes: u64,
    /// Into how many steps each doubling of sizes is cut, from 1 MiB up; 0 rounds to 512 bytes. Default: 0.
    pub roundup_power2_divisions: [u32; 16],
    /// Above this part of the memory limit, old free segments are given back. Default: 0, never.
    pub garbage_collection_threshold: f64,
    /// The part of the device's memory that may be held; read when an allocator is made. Default: 1.
    pub per_process_memory_fraction: f64,
    /// Other threads may use the allocator while the device is asked for memory. Default: no.
    ///
    /// It is read and reported; memreel's devices answer fast enough that the
    /// lock is kept. No single thread can see a difference.
    pub release_lock_on_device_alloc: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            conf: String::new(),
            expandable_segments: false,
            max_split_bytes: None,
            max_non_split_rounding_bytes: 20 * MIB,
            large_segment_bytes: 20 * MIB,
            roundup_power2_divisions: [0; 16],
            garbage_collection_threshold: 0.0,
            per_process_memory_fraction: 1.0,
            release_lock_on_device_alloc: false,
        }
    }
}

impl Settings {
    pub(super) fn report(&self) -> SettingsReport {
        SettingsReport {
            conf: self.conf.clone(),
            max_split_bytes: self.max_split_bytes,
            garbage_collection_threshold: self.garbage_collection_threshold,
            expandable_segments: self.expandable_segments,
            release_lock_on_device_alloc: self.release_lock_on_device_alloc,
            roundup_power2_divisions: self.roundup_power2_divisions,
        }
    }

    /// Whether blocks of that size are split.
    pub(super) fn is_splittable(&self, bytes: u64) -> bool {
        self.max_split_bytes.is_none_or(|max| bytes < max)
    }

    /// Whether that size counts as oversize.
    pub(super) fn is_oversize(&self, bytes: u64) -> bool {
        !self.is_splittable(bytes)
    }
}
