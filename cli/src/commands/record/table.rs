//! The tables at the end of a run, one for each device over all processes.

#![forbid(unsafe_code)]

use std::{
    io::{self, Write},
    path::Path,
};

use memreel_snapshot::{
    Snapshot,
    analysis::{DeviceHistory, devices, owners},
};

use super::recorded::Recorded;
use crate::{bytes::Bytes, owner_table, text::shell_word};

/// Prints the tables.
pub(super) fn print(processes: &[Recorded], json: bool, out: &mut impl Write) -> io::Result<()> {
    if processes.is_empty() {
        return Ok(());
    }
    let snapshots: Vec<&Snapshot> = processes.iter().map(|process| &process.snapshot).collect();
    let tables = owners(&snapshots);
    if json {
        let names: Vec<String> = processes.iter().map(|process| process.path.display().to_string()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        owner_table::print_json(&tables, &snapshots, &names, out)
    } else {
        owner_table::print(&tables, &snapshots, 1, out)
    }
}

/// Returns a line for each device whose last request was refused, with the reason.
pub(super) fn refusals(snapshot: &Snapshot, path: &Path) -> Vec<String> {
    let refusal = |device| {
        let report = DeviceHistory::new(snapshot, device).oom()?;
        let (bytes, why) = (Bytes(report.requested_bytes), report.verdict.name());
        let file = shell_word(&path.display().to_string());
        Some(format!("device {} refused {bytes} ({why}); `memreel oom {file}` explains it", device.0))
    };
    devices(snapshot).into_iter().filter_map(refusal).collect()
}

/// Returns the most bytes that a device of a snapshot had: in segments, or in blocks where an allocator has no segments.
pub(super) fn peak_bytes(snapshot: &Snapshot) -> u64 {
    let peak = |device| {
        let figures = DeviceHistory::new(snapshot, device).figures();
        figures.peak_bytes.max(figures.reserved_bytes)
    };
    devices(snapshot).into_iter().map(peak).max().unwrap_or(0)
}
