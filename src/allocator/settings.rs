//! The settings of an allocator, with PyTorch's names (`docs/caching-allocator.md` 8).
#![forbid(unsafe_code)]

use memreel_snapshot::words::{SettingsReport, torch::MIB};

/// The settings of an allocator: how it rounds, splits, grows and releases memory.
///
/// Defaults are PyTorch 2.11's. Settings are read from a text in PyTorch's
/// syntax, or set one by one:
///
/// ```
/// use memreel::allocator::Settings;
///
/// let read: Settings = "expandable_segments:True,max_split_size_mb:64".parse()?;
/// let set = Settings::default().expandable_segments(true).max_split_bytes(Some(64 << 20));
/// assert_eq!(read.expandable_segments, set.expandable_segments);
/// assert_eq!(read.max_split_bytes, set.max_split_bytes);
/// # Ok::<(), memreel::Error>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// The text that the settings were read from; empty if they were set one by one.
    pub conf: String,
    /// Whether new memory is mapped as pages of a reserved range, which grows and shrinks. Default: false.
    pub expandable_segments: bool,
    /// Blocks of at least this many bytes are not split, and satisfy no smaller request. Default: `None`, which splits
    /// all blocks.
    pub max_split_bytes: Option<u64>,
    /// An unsplit block satisfies a request only if it is less than this many bytes larger. Default: the size of a
    /// large segment.
    pub max_non_split_rounding_bytes: u64,
    /// The size in bytes of segments for requests from 1 to 10 MiB, and of large pages. Default: 20 MiB.
    pub large_segment_bytes: u64,
    /// The number of steps to which sizes are rounded within each doubling, for 16 doublings from 1 MiB up; 0 rounds to
    /// multiples of 512 bytes. Default: 0.
    pub roundup_power2_divisions: [u32; 16],
    /// The fraction of the memory limit above which old free segments are released. Default: 0, never.
    pub garbage_collection_threshold: f64,
    /// The fraction of the device's memory that a new allocator may take. Default: 1.
    pub per_process_memory_fraction: f64,
    /// Whether the settings report that other threads may use the allocator while it waits for the device.
    /// Default: false.
    ///
    /// memreel always allows that: no lock that a cached block needs is held during such a call. A single thread
    /// observes no difference.
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

/// Each method sets the field of its name. Values are not checked; the ranges
/// that PyTorch accepts are in `docs/caching-allocator.md` 8.
impl Settings {
    /// Sets whether new memory is mapped as pages of a reserved range.
    #[must_use]
    pub fn expandable_segments(self, expandable_segments: bool) -> Settings {
        Settings { expandable_segments, ..self }
    }

    /// Sets the size in bytes from which blocks are not split; `None` splits all blocks.
    #[must_use]
    pub fn max_split_bytes(self, max_split_bytes: Option<u64>) -> Settings {
        Settings { max_split_bytes, ..self }
    }

    /// Sets by how many bytes an unsplit block may exceed a request.
    #[must_use]
    pub fn max_non_split_rounding_bytes(self, max_non_split_rounding_bytes: u64) -> Settings {
        Settings { max_non_split_rounding_bytes, ..self }
    }

    /// Sets the size of large segments and of large pages in bytes, more than 10 MiB.
    #[must_use]
    pub fn large_segment_bytes(self, large_segment_bytes: u64) -> Settings {
        Settings { large_segment_bytes, ..self }
    }

    /// Sets the number of rounding steps for each of 16 doublings from 1 MiB up, each 0 or a power of two.
    #[must_use]
    pub fn roundup_power2_divisions(self, roundup_power2_divisions: [u32; 16]) -> Settings {
        Settings { roundup_power2_divisions, ..self }
    }

    /// Sets the fraction of the memory limit, below 1, above which old segments are released; 0 is never.
    #[must_use]
    pub fn garbage_collection_threshold(self, garbage_collection_threshold: f64) -> Settings {
        Settings { garbage_collection_threshold, ..self }
    }

    /// Sets the fraction of the device's memory, from 0 to 1, that a new allocator may take.
    #[must_use]
    pub fn per_process_memory_fraction(self, per_process_memory_fraction: f64) -> Settings {
        Settings { per_process_memory_fraction, ..self }
    }

    /// Sets whether the settings report that the lock is released during calls to the device.
    #[must_use]
    pub fn release_lock_on_device_alloc(self, release_lock_on_device_alloc: bool) -> Settings {
        Settings { release_lock_on_device_alloc, ..self }
    }

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

    /// Returns true if blocks of this size may be split.
    pub(super) fn is_splittable(&self, bytes: u64) -> bool {
        self.max_split_bytes.is_none_or(|max| bytes < max)
    }

    /// Returns true if blocks of this size count as oversize.
    pub(super) fn is_oversize(&self, bytes: u64) -> bool {
        !self.is_splittable(bytes)
    }
}
