//! The tables at the end of a run, one for each device over all processes.

#![forbid(unsafe_code)]

use std::{
    io::{self, Write},
    path::Path,
};

use memreel_snapshot::{
    Snapshot,
    analysis::{DeviceHistory, RunOwners, devices},
};

use crate::{bytes::Bytes, own_memory::is_host, owner_table, text::shell_word};

/// Prints the tables of a run with these snapshots.
pub(super) fn print(
    owners: &RunOwners,
    files: &[String],
    json: bool,
    out: &mut impl Write,
) -> io::Result<()> {
    let (tables, stacks) = (owners.tables(), [owners.stacks()]);
    if json {
        let names: Vec<&str> = files.iter().map(String::as_str).collect();
        owner_table::print_json(&tables, &stacks, &names, out)
    } else {
        owner_table::print(&tables, &stacks, 1, out)
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

/// The most bytes that a device had.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(super) struct Peak {
    pub(super) bytes: u64,
    /// The number of the last events, if it is known of these alone.
    pub(super) of_last: Option<usize>,
}

/// Returns the most bytes that a device of a snapshot had: in segments, or of memory of the host in blocks.
pub(super) fn peak(snapshot: &Snapshot) -> Peak {
    let usage = snapshot.usage();
    let peak = |device| {
        let history = DeviceHistory::new(snapshot, device);
        let (figures, trust) = (history.figures(), history.trust());
        let bytes = if is_host(&usage, device) {
            figures.peak_bytes
        } else {
            figures.peak_bytes.max(figures.reserved_bytes)
        };
        Peak { bytes, of_last: (!trust.knows_peak()).then_some(trust.n_entries) }
    };
    devices(snapshot).into_iter().map(peak).max().unwrap_or_default()
}
