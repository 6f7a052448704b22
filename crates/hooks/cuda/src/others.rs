//! Queries NVIDIA's management library about a device: its used memory without a context, and other processes.
#![forbid(unsafe_code)]

use std::{ffi::OsStr, process};

use nvml_wrapper::{Device, Nvml, enums::device::UsedGpuMemory};
use once_cell::race::OnceBox;

use super::{driver::driver, gpu::Gpu, seen::Processes, state::MAX_GPUS};

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

/// Returns how much of a device processes use; `None` if that is not visible.
///
/// A container sees no process, or numbers that are not its own: then this process is not among them.
pub(crate) fn processes(gpu: &Gpu) -> Option<Processes> {
    let device = device(gpu)?;
    let mut found = device.running_compute_processes().ok()?;
    found.extend(device.running_graphics_processes().unwrap_or_default());
    // A process that computes and draws is in both lists.
    found.sort_by_key(|process| process.pid);
    found.dedup_by_key(|process| process.pid);
    let bytes = |used: &UsedGpuMemory| match used {
        UsedGpuMemory::Used(bytes) => Some(*bytes),
        UsedGpuMemory::Unavailable => None,
    };
    let own = process::id();
    let own_bytes = bytes(&found.iter().find(|process| process.pid == own)?.used_gpu_memory)?;
    let others = found.iter().filter(|process| process.pid != own);
    let others_bytes = others.map(|process| bytes(&process.used_gpu_memory)).sum::<Option<u64>>()?;
    gpu.set_shared(others_bytes > 0);
    Some(Processes { own_bytes, others_bytes })
}
