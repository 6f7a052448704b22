//! Whether NVIDIA's driver is here, and the library that knows other processes.

#![forbid(unsafe_code)]

use std::{
    fs::{self, File},
    io::ErrorKind,
    path::{Path, PathBuf},
};

use super::{finding::Finding, trial::loads};
use crate::text::ShownPath;

/// The library that recorded GPU calls go through.
const DRIVER: &str = "libcuda.so.1";
/// The library that reports a device's used memory, and by which processes.
const MANAGEMENT: &str = "libnvidia-ml.so.1";

const OF_CONTAINER: &str = "use a machine with NVIDIA's driver; if you use a container, start it with --gpus \
                            all and NVIDIA_DRIVER_CAPABILITIES=compute,utility";

pub(super) fn driver() -> Finding {
    const PART: &str = "GPU driver";
    let devices = devices();
    match loads(Path::new(DRIVER)) {
        Err(error) => Finding::unknown(PART, format!("{DRIVER} was not tested: {error}"), ""),
        Ok(Err(_)) if devices.is_empty() => {
            let what_to_do = format!(
                "nothing, if you only record heaps or read files. To record GPU memory, {OF_CONTAINER}"
            );
            Finding::fails(PART, format!("neither {DRIVER} nor a device was found"), &what_to_do)
        }
        Ok(Err(why)) => Finding::fails(
            PART,
            format!("devices are present, but {DRIVER} does not load: {why}"),
            OF_CONTAINER,
        ),
        Ok(Ok(())) if devices.is_empty() => {
            let why = format!("{DRIVER} loads, but /dev has no NVIDIA device");
            if Path::new("/dev/dxg").exists() {
                return Finding::unknown(PART, format!("{why}; memreel is not tested in WSL"), "");
            }
            Finding::fails(PART, why, OF_CONTAINER)
        }
        Ok(Ok(())) => of_devices(PART, &devices),
    }
}

fn of_devices(part: &'static str, devices: &[PathBuf]) -> Finding {
    let is_closed = |device: &&PathBuf| {
        File::open(device).is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
    };
    if let Some(device) = devices.iter().find(is_closed) {
        let why = format!("this user may not open {}", ShownPath(&device));
        return Finding::fails(part, why, "join the group that owns the device, often video or render");
    }
    let version = version().map_or_else(String::new, |version| format!(" of driver {version}"));
    let n = devices.len();
    let s = if n == 1 { "" } else { "s" };
    Finding::works(part, format!("{DRIVER} loads, and {n} device{s}{version} can be opened"))
}

pub(super) fn management() -> Finding {
    const PART: &str = "other processes on the GPU";
    match loads(Path::new(MANAGEMENT)) {
        Err(error) => Finding::unknown(PART, format!("{MANAGEMENT} was not tested: {error}"), ""),
        Ok(Ok(())) if devices().is_empty() => {
            Finding::unknown(PART, format!("{MANAGEMENT} loads, but there is no device to query"), "")
        }
        Ok(Ok(())) => Finding::works(PART, format!("{MANAGEMENT} (NVML) loads")),
        Ok(Err(_)) => {
            let what_to_do = "nothing, if there is no GPU. If there is one and you use a container, start it with \
                              NVIDIA_DRIVER_CAPABILITIES=compute,utility; until then, the memory of other \
                              processes is shown as unexplained";
            Finding::fails(PART, format!("{MANAGEMENT} (NVML) was not found"), what_to_do)
        }
    }
}

/// The devices of NVIDIA's driver.
fn devices() -> Vec<PathBuf> {
    let is_device = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let number = name.strip_prefix("nvidia").unwrap_or_default();
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    };
    let mut found: Vec<PathBuf> = fs::read_dir("/dev")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(is_device)
        .collect();
    found.sort();
    found
}

/// The version of the driver in the kernel.
fn version() -> Option<String> {
    let text = fs::read_to_string("/proc/driver/nvidia/version").ok()?;
    let is_version =
        |word: &&str| word.contains('.') && word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    text.lines().next()?.split_whitespace().find(is_version).map(str::to_owned)
}
