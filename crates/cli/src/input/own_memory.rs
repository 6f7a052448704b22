//! Determines on which devices a process has its own memory, when its file has several.

#![forbid(unsafe_code)]

use memreel_snapshot::{DeviceId, analysis::Totals, words::DeviceUsage};

/// Returns whether a device is host memory: a heap, or pinned memory.
pub(crate) fn is_host(usage: &[DeviceUsage], device: DeviceId) -> bool {
    device.index().is_none() || usage.iter().any(|usage| usage.device == device && usage.is_host())
}

/// Returns whether a process has memory of its own on a GPU, by its peak there and by whether a request failed.
/// Otherwise it may only map another process's memory there, as NCCL does.
pub(crate) fn is_own(peak: &Totals, has_failed: bool) -> bool {
    peak.active_bytes > 0 || has_failed
}
