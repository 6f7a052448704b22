//! One reel for the whole process, under the names PyTorch's users know.
//!
//! The reel has one device, the host, as device 0. It is made at first use.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use once_cell::sync::OnceCell;

use crate::{
    allocator::{Allocation, CachingAllocator, MemInfo, MemoryStats, MemorySummary, Settings},
    error::Result,
    recorder::{History, Scope},
    reel::Reel,
    snapshot::Snapshot,
};

/// The process-wide reel, with the settings that the environment asks for
/// ([`Settings::from_env`]).
///
/// # Errors
/// If those settings cannot be read or the device cannot be opened; the next
/// call tries again, which is why this is not std's `OnceLock`.
pub fn default_reel() -> Result<&'static Reel> {
    static DEFAULT: OnceCell<Reel> = OnceCell::new();
    DEFAULT.get_or_try_init(|| Reel::builder().settings(Settings::from_env()?).build())
}

/// The process-wide allocator.
///
/// # Errors
/// As [`default_reel`].
pub fn default_allocator() -> Result<&'static CachingAllocator> {
    default_reel()?.allocator(0)
}

/// Switches recording in the process-wide reel.
///
/// ```
/// use memreel::recorder::History;
///
/// memreel::record_memory_history(&History::all())?;
/// let block = memreel::alloc(1000)?;
/// assert_eq!(memreel::memory_allocated()?, 1024);
/// assert_eq!(memreel::snapshot()?.device_traces[0].len(), 2);
/// # drop(block);
/// # Ok::<(), memreel::Error>(())
/// ```
///
/// # Errors
/// As [`default_reel`].
pub fn record_memory_history(history: &History) -> Result<()> {
    default_reel()?.record_history(history);
    Ok(())
}

/// A block from the process-wide allocator.
///
/// # Errors
/// As [`CachingAllocator::alloc`].
pub fn alloc(bytes: u64) -> Result<Allocation> {
    default_reel()?.alloc(bytes)
}

/// Opens a scope on this thread.
///
/// # Errors
/// As [`default_reel`].
pub fn scope(name: &str) -> Result<Scope> {
    Ok(default_reel()?.scope(name))
}

/// What is known now.
///
/// # Errors
/// As [`default_reel`].
pub fn snapshot() -> Result<Snapshot> {
    Ok(default_reel()?.snapshot())
}

/// Writes what is known now to a file that pytorch.org/memory_viz opens.
///
/// # Errors
/// [`is_io`](crate::error::Error::is_io); a file that stood there before is then untouched.
pub fn dump_snapshot(path: impl AsRef<Path>) -> Result<()> {
    default_reel()?.save(path)
}

/// From now on a failed request writes a snapshot before its error is returned.
///
/// # Errors
/// As [`default_reel`].
pub fn save_on_oom(path: impl Into<PathBuf>) -> Result<()> {
    default_reel()?.save_on_oom(path);
    Ok(())
}

/// The statistics of the process-wide allocator; [`MemoryStats::flatten`] gives them
/// under the names of `torch.cuda.memory_stats()`.
///
/// # Errors
/// As [`default_reel`].
pub fn memory_stats() -> Result<MemoryStats> {
    Ok(default_allocator()?.stats())
}

/// The statistics as a table.
///
/// # Errors
/// As [`default_reel`].
pub fn memory_summary() -> Result<MemorySummary> {
    Ok(default_allocator()?.memory_summary())
}

/// The free and the total memory of the device, as `cudaMemGetInfo` reports them.
///
/// # Errors
/// As [`default_reel`].
pub fn mem_get_info() -> Result<MemInfo> {
    Ok(default_allocator()?.mem_get_info())
}

/// Bytes in blocks the program holds.
///
/// # Errors
/// As [`default_reel`].
pub fn memory_allocated() -> Result<u64> {
    Ok(default_allocator()?.memory_allocated())
}

/// The most that [`memory_allocated`] has been.
///
/// # Errors
/// As [`default_reel`].
pub fn max_memory_allocated() -> Result<u64> {
    Ok(default_allocator()?.max_memory_allocated())
}

/// Bytes in segments held from the device.
///
/// # Errors
/// As [`default_reel`].
pub fn memory_reserved() -> Result<u64> {
    Ok(default_allocator()?.memory_reserved())
}

/// The most that [`memory_reserved`] has been.
///
/// # Errors
/// As [`default_reel`].
pub fn max_memory_reserved() -> Result<u64> {
    Ok(default_allocator()?.max_memory_reserved())
}

/// Lets every peak begin again at the present value.
///
/// # Errors
/// As [`default_reel`].
pub fn reset_peak_memory_stats() -> Result<()> {
    default_allocator()?.reset_peak_memory_stats();
    Ok(())
}

/// Lets every sum begin again at zero.
///
/// # Errors
/// As [`default_reel`].
pub fn reset_accumulated_memory_stats() -> Result<()> {
    default_allocator()?.reset_accumulated_memory_stats();
    Ok(())
}

/// Holds at most a fraction of the device's memory; 1 lifts the limit.
///
/// # Errors
/// As [`CachingAllocator::set_memory_fraction`].
pub fn set_per_process_memory_fraction(fraction: f64) -> Result<()> {
    default_allocator()?.set_memory_fraction(fraction)
}

/// Gives every segment that is not in use back to the device.
///
/// # Errors
/// As [`CachingAllocator::empty_cache`].
pub fn empty_cache() -> Result<()> {
    default_reel()?.empty_cache()
}
