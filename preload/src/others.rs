//! What NVIDIA's management library knows of a device: its used memory without a context, and other processes.
#![forbid(unsafe_code)]

use std::{ffi::OsStr, process};

use nvml_wrapper::{Device, Nvml, enums::device::UsedGpuMemory};
use once_cell::race::OnceBox;

use super::{driver::driver, gpu::Gpu, state::MAX_GPUS};

type Known = OnceBox<Option<Device<'static>>>;

/// Returns the library; `None` where there is none. It is loaded when the first context is made.
fn library() -> Option<&'static Nvml> {
    static LIBRARY: OnceBox<Option<Nvml>> = OnceBox::new();
    let open = || Nvml::builder().lib_path(OsStr::new("libnvidia-ml.so.1")).init().ok();
    LIBRARY.get_or_init(|| Box::new(open())).as_ref()
}

fn device(gpu: &Gpu) -> Option<&'static Device<'static>> {
    static DEVICES: [Known; MAX_GPUS] = [const { OnceBox::new() }; MAX_GPUS];
    let known = DEVICES.get(usize::try_from(gpu.device).ok()?)?;
    // The number of a device is another one in a process that sees only some; its identity is not.
    let find = || library()?.device_by_uuid(driver()?.identity(gpu.device).1).ok();
    known.get_or_init(|| Box::new(find())).as_ref()
}

/// Returns the used bytes of a device.
pub(crate) fn used_bytes(gpu: &Gpu) -> Option<u64> {
    Some(device(gpu)?.memory_info().ok()?.used)
}

/// Returns the bytes of other processes on a device; `None` if they cannot be seen.
///
/// A container sees no process, or numbers that are not its own: then this process is not among them.
pub(crate) fn other_processes_bytes(gpu: &Gpu) -> Option<u64> {
    let device = device(gpu)?;
    let mut processes = device.running_compute_processes().ok()?;
    processes.extend(device.running_graphics_processes().unwrap_or_default());
    // A process that computes and draws is in both lists.
    processes.sort_by_key(|found| found.pid);
    processes.dedup_by_key(|found| found.pid);
    let own = process::id();
    processes.iter().find(|found| found.pid == own)?;
    let bytes = processes.iter().filter(|found| found.pid != own).map(|found| match found.used_gpu_memory {
        UsedGpuMemory::Used(bytes) => Some(bytes),
        UsedGpuMemory::Unavailable => None,
    });
    bytes.sum()
}
