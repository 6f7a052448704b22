//! On which devices a process has memory of its own, when its file has several.

#![forbid(unsafe_code)]

use memreel_snapshot::{DeviceId, analysis::Totals, words::DeviceUsage};

/// Whether a device is memory of the host: a heap, or pinned memory.
pub(crate) fn is_host(usage: &[DeviceUsage], device: DeviceId) -> bool {
    device.index().is_none() || usage.iter().any(|usage| usage.device == device && usage.is_host())
}

/// Whether a process has something of its own on a GPU, by the peak there and by whether a request failed. It may only map
/// what another process has there, as NCCL does.
pub(crate) fn is_own(peak: &Totals, has_failed: bool) -> bool {
    peak.active_bytes > 0 || has_failed
}
