//! Statistics of a device's allocator and of its recording: what PyTorch's functions return when memreel provides its
//! memory.

use std::{
    cell::RefCell,
    ffi::{CString, c_char, c_int},
    ptr,
};

use super::{
    border::{cross, note, status},
    state::state,
};
use memreel::{Error, Result, allocator::CachingAllocator};

thread_local! {
    static STATS: RefCell<Option<CString>> = const { RefCell::new(None) };
}

/// Returns a device's statistics as a JSON object with the keys of
/// `torch.cuda.memory_stats`; null if the device does not exist. The text is
/// valid until this thread calls the function again.
#[unsafe(no_mangle)]
pub extern "C" fn memreel_stats_json(device: c_int) -> *const c_char {
    let stats = cross(|| {
        let stats = state()?.allocator(device)?.stats().flatten();
        let text = serde_json::to_string(&stats).map_err(|error| Error::misuse(error.to_string()))?;
        CString::new(text).map_err(|error| Error::misuse(error.to_string()))
    });
    let stats = stats.map_err(|error| note(&error.to_string())).ok();
    STATS
        .try_with(|kept| {
            let mut kept = kept.borrow_mut();
            *kept = stats;
            kept.as_ref().map_or(ptr::null(), |text| text.as_ptr())
        })
        .unwrap_or(ptr::null())
}

/// Resets the peaks of a device's statistics to their current values.
#[unsafe(no_mangle)]
pub extern "C" fn memreel_reset_peak_stats(device: c_int) -> c_int {
    status(|| {
        state()?.allocator(device)?.reset_peak_memory_stats();
        Ok(())
    })
}

/// Resets the sums and the counters of a device's statistics to zero.
#[unsafe(no_mangle)]
pub extern "C" fn memreel_reset_accumulated_stats(device: c_int) -> c_int {
    status(|| {
        state()?.allocator(device)?.reset_accumulated_memory_stats();
        Ok(())
    })
}

/// Returns the fraction of a device's memory that its allocator may take, 1 without a limit; -1 for a failure.
#[unsafe(no_mangle)]
pub extern "C" fn memreel_memory_fraction(device: c_int) -> f64 {
    number(|| Ok(fraction(state()?.allocator(device)?)), -1.0)
}

fn fraction(allocator: &CachingAllocator) -> f64 {
    let total_bytes = allocator.mem_get_info().total_bytes;
    allocator.memory_limit().map_or(1.0, |limit_bytes| limit_bytes as f64 / total_bytes as f64)
}

/// Returns 1 if events or the stacks of live blocks are recorded, 0 if not, -1 on failure.
#[unsafe(no_mangle)]
pub extern "C" fn memreel_is_recording() -> c_int {
    number(|| Ok(c_int::from(state()?.reel.recorder().history().is_on())), -1)
}

/// Returns how many events of a device did not fit into the ring and are lost; -1 on failure.
#[unsafe(no_mangle)]
pub extern "C" fn memreel_lost_events(device: c_int) -> i64 {
    let lost = || {
        let state = state()?;
        let n_lost = state.reel.recorder().n_lost(state.allocator(device)?.device_id());
        Ok(i64::try_from(n_lost).unwrap_or(i64::MAX))
    };
    number(lost, -1)
}

/// Runs a call that returns a number. Returns `failed` on failure, and keeps the text.
pub(super) fn number<T>(call: impl FnOnce() -> Result<T>, failed: T) -> T {
    cross(call).unwrap_or_else(|error| {
        note(&error.to_string());
        failed
    })
}
