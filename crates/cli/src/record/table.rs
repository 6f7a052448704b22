//! Prints the tables at the end of a run, one for each device over all processes.

#![forbid(unsafe_code)]

use std::{io, path::Path};

use memreel::whatif::explain;
use memreel_snapshot::{
    Snapshot,
    analysis::{DeviceHistory, Histories, RunOwners, devices},
};

use crate::{
    input::own_memory::is_host,
    text::{Bytes, Page, owner_table, shell_word},
};

/// Prints the tables of a run with these snapshots.
pub(super) fn print(owners: &RunOwners, files: &[String], json: bool, out: &mut Page) -> io::Result<()> {
    let (tables, stacks) = (owners.tables(), [owners.stacks()]);
    if json {
        let names: Vec<&str> = files.iter().map(String::as_str).collect();
        owner_table::print_json(&tables, &stacks, &names, out)
    } else {
        owner_table::print(&tables, &stacks, 1, out)
    }
}

/// The most bytes that a device had.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(super) struct Peak {
    pub(super) bytes: u64,
    /// The number of the last events, if it is known of these alone.
    pub(super) of_last: Option<usize>,
}

/// Returns the most bytes that a device of a snapshot had, and a line for each device whose last request was refused.
pub(super) fn peak_and_refusals(snapshot: &Snapshot, path: &Path) -> (Peak, Vec<String>) {
    let (usage, histories) = (snapshot.usage(), Histories::new(snapshot));
    let (mut highest, mut refusals) = (Peak::default(), Vec::new());
    for device in devices(snapshot) {
        let history = histories.of(device);
        highest = highest.max(peak(&history, is_host(&usage, device)));
        refusals.extend(refusal(&history, path));
    }
    (highest, refusals)
}

/// Returns the most bytes that a device had: in segments, or for host memory in blocks.
fn peak(history: &DeviceHistory<'_>, is_host: bool) -> Peak {
    let (figures, trust) = (history.figures(), history.trust());
    let bytes = match is_host {
        true => figures.peak_bytes,
        false => figures.peak_bytes.max(figures.reserved_bytes),
    };
    Peak { bytes, of_last: (!trust.knows_peak()).then_some(trust.n_entries) }
}

/// Returns why the last request of a device was refused.
fn refusal(history: &DeviceHistory<'_>, path: &Path) -> Option<String> {
    let report = history.oom()?;
    let bytes = Bytes(report.requested_bytes);
    let why = explain(history, report).verdict().name();
    let file = shell_word(&path.display().to_string());
    Some(format!("device {} refused {bytes} ({why}); to see why: memreel oom {file}", history.device().0))
}
