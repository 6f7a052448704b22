//! One reel for the whole process, with functions under the names of its methods.
//!
//! | here | a reel and its allocator | PyTorch |
//! |---|---|---|
//! | [`record_history`] | [`Reel::record_history`] | `torch.cuda.memory._record_memory_history` |
//! | [`save()`] | [`Reel::save`] | `torch.cuda.memory._dump_snapshot` |
//! | [`snapshot()`] | [`Reel::snapshot`] | `torch.cuda.memory._snapshot` |
//! | [`save_on_oom`] | [`Reel::save_on_oom`] | an out-of-memory observer |
//! | [`dump_on`] | [`Reel::dump_on`] | |
//! | [`scope`] | [`Reel::scope`] | `torch.profiler.record_function` |
//! | [`alloc`] | [`Reel::alloc`] | `torch.cuda.caching_allocator_alloc` |
//! | [`empty_cache`] | [`Reel::empty_cache`] | `torch.cuda.empty_cache` |
//! | [`stats`] | [`CachingAllocator::stats`] | `torch.cuda.memory_stats` |
//! | [`set_memory_fraction`] | [`CachingAllocator::set_memory_fraction`] | `torch.cuda.set_per_process_memory_fraction` |
//! | others | of the same name on [`CachingAllocator`] | `torch.cuda.NAME` |
//!
//! Everything else is a method of [`default_reel`] or of [`default_allocator`]. The reel has one device, the host,
//! as device 0, and is created by the first call. If the program's allocator is a [`Heap`](crate::Heap), the heap is
//! device 1 from the first [`record_history`] on.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use once_cell::race::OnceBox;

use crate::{
    allocator::{Allocation, CachingAllocator, MemInfo, MemoryStats, MemorySummary, Settings},
    heap,
    recorder::{Recording, Scope},
    reel::Reel,
    trigger::Triggers,
};
use memreel_snapshot::{model::Snapshot, words::Result};

/// Returns the process-wide reel, created with the settings of the environment ([`Settings::from_env`]).
///
/// # Errors
/// [`is_invalid_option`](crate::Error::is_invalid_option) if the settings in the environment are not valid.
/// The next call tries again.
pub fn default_reel() -> Result<&'static Reel> {
    // Not std's `OnceLock`, which cannot try again after an error. Other threads would also wait for the one that fills
    // it, which may not exist in a child of `fork`. Two threads at once may create a reel each; one of them is dropped.
    static DEFAULT: OnceBox<Reel> = OnceBox::new();
    if let Some(reel) = DEFAULT.get() {
        return Ok(reel);
    }
    let make = || Result::Ok(Box::new(Reel::builder().settings(Settings::from_env()?).build()?));
    let reel = DEFAULT.get_or_try_init(make)?;
    // The environment may have switched recording on, without a call of `record_history`.
    if reel.recorder().history() != Recording::off() {
        connect_heap(reel);
    }
    Ok(reel)
}

/// Returns the allocator of the process-wide reel.
///
/// # Errors
/// The errors of [`default_reel`].
pub fn default_allocator() -> Result<&'static CachingAllocator> {
    default_reel()?.allocator(0)
}

/// Switches recording in the process-wide reel on, off or to other options; see [`Reel::record_history`]. Options in
/// the variable `MEMREEL` win.
///
/// ```
/// use memreel::recorder::Recording;
///
/// memreel::record_history(&Recording::all())?;
/// let block = memreel::alloc(1000)?;
/// assert_eq!(memreel::memory_allocated()?, 1024);
/// assert_eq!(memreel::snapshot()?.device_traces[0].len(), 2, "a segment and a block were allocated");
/// # drop(block);
/// # Ok::<(), memreel::Error>(())
/// ```
///
/// # Errors
/// The errors of [`default_reel`].
pub fn record_history(history: &Recording) -> Result<()> {
    let reel = default_reel()?;
    connect_heap(reel);
    reel.record_history(history);
    Ok(())
}

/// Makes the program's heap the device after those of the reel.
fn connect_heap(reel: &Reel) {
    heap::connect(reel.recorder(), reel.allocators().len().into());
}

/// Allocates a block of `bytes` bytes with the process-wide allocator; dropping the block frees it.
///
/// # Errors
/// The errors of [`default_reel`] and of [`CachingAllocator::alloc`].
pub fn alloc(bytes: u64) -> Result<Allocation> {
    default_reel()?.alloc(bytes)
}

/// Opens a scope on this thread: events of the process-wide reel carry `name` until the scope is dropped.
///
/// # Errors
/// The errors of [`default_reel`].
pub fn scope(name: &str) -> Result<Scope> {
    Ok(default_reel()?.scope(name))
}

/// Returns a snapshot of the process-wide reel: segments, blocks and recorded events.
///
/// # Errors
/// The errors of [`default_reel`].
pub fn snapshot() -> Result<Snapshot> {
    Ok(default_reel()?.snapshot())
}

/// Writes a snapshot of the process-wide reel to a file that <https://pytorch.org/memory_viz> opens; see
/// [`Reel::save`].
///
/// # Errors
/// The errors of [`default_reel`], and [`is_io`](crate::Error::is_io); an existing file at `path` is then
/// unchanged.
pub fn save(path: impl AsRef<Path>) -> Result<()> {
    default_reel()?.save(path)
}

/// Writes a snapshot when a request of the process-wide reel fails: at the first failure, or with `{n}` in the path at
/// each. See [`Reel::save_on_oom`].
///
/// # Errors
/// The errors of [`default_reel`].
pub fn save_on_oom(path: impl Into<PathBuf>) -> Result<()> {
    default_reel()?.save_on_oom(path);
    Ok(())
}

/// Writes snapshots of the process-wide reel automatically: at a failed request, a signal, the exit, a panic, a time or
/// a peak. See [`Reel::dump_on`].
///
/// # Errors
/// The errors of [`default_reel`] and of [`Reel::dump_on`].
pub fn dump_on(triggers: &Triggers) -> Result<()> {
    default_reel()?.dump_on(triggers)
}

/// Returns the statistics of the process-wide allocator. [`MemoryStats::flatten`] returns them under the
/// keys of `torch.cuda.memory_stats()`.
///
/// # Errors
/// The errors of [`default_reel`].
pub fn stats() -> Result<MemoryStats> {
    Ok(default_allocator()?.stats())
}

/// Returns the statistics of the process-wide allocator as a table, which is printed like PyTorch's.
///
/// # Errors
/// The errors of [`default_reel`].
pub fn memory_summary() -> Result<MemorySummary> {
    Ok(default_allocator()?.memory_summary())
}

/// Returns the free and the total memory of the device, in bytes.
///
/// # Errors
/// The errors of [`default_reel`].
pub fn mem_get_info() -> Result<MemInfo> {
    Ok(default_allocator()?.mem_get_info())
}

/// Returns the number of allocated bytes.
///
/// # Errors
/// The errors of [`default_reel`].
pub fn memory_allocated() -> Result<u64> {
    Ok(default_allocator()?.memory_allocated())
}

/// Returns the peak of [`memory_allocated`] since the start or the last [`reset_peak_memory_stats`], in bytes.
///
/// # Errors
/// The errors of [`default_reel`].
pub fn max_memory_allocated() -> Result<u64> {
    Ok(default_allocator()?.max_memory_allocated())
}

/// Returns the bytes of the segments that the allocator got from the device.
///
/// # Errors
/// The errors of [`default_reel`].
pub fn memory_reserved() -> Result<u64> {
    Ok(default_allocator()?.memory_reserved())
}

/// Returns the peak of [`memory_reserved`] since the start or the last [`reset_peak_memory_stats`], in bytes.
///
/// # Errors
/// The errors of [`default_reel`].
pub fn max_memory_reserved() -> Result<u64> {
    Ok(default_allocator()?.max_memory_reserved())
}

/// Sets all peaks in [`stats`] to the current values.
///
/// # Errors
/// The errors of [`default_reel`].
pub fn reset_peak_memory_stats() -> Result<()> {
    default_allocator()?.reset_peak_memory_stats();
    Ok(())
}

/// Sets all sums in [`stats`] to 0.
///
/// # Errors
/// The errors of [`default_reel`].
pub fn reset_accumulated_memory_stats() -> Result<()> {
    default_allocator()?.reset_accumulated_memory_stats();
    Ok(())
}

/// Limits the segments of the process-wide allocator to a fraction of the device's memory; 1 removes the
/// limit.
///
/// # Errors
/// The errors of [`default_reel`] and of [`CachingAllocator::set_memory_fraction`].
pub fn set_memory_fraction(fraction: f64) -> Result<()> {
    default_allocator()?.set_memory_fraction(fraction)
}

/// Returns all unused segments to the device.
///
/// # Errors
/// The errors of [`default_reel`] and of [`CachingAllocator::empty_cache`].
pub fn empty_cache() -> Result<()> {
    default_reel()?.empty_cache()
}
