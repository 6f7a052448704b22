//! The lines of `--json`.

#![forbid(unsafe_code)]

use std::io::{self, Write};

use memreel_snapshot::{DeviceId, analysis::Totals};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

/// An answer for one device of one file.
#[derive(Serialize)]
struct Line<'a, T> {
    file: &'a str,
    device: Option<DeviceId>,
    #[serde(flatten)]
    answer: &'a T,
}

/// An answer with a list of results, which is printed as it is made: in memory, its frames would be many times as large
/// as the file of a snapshot.
#[derive(Serialize)]
pub(crate) struct WithList<'a, T, R> {
    /// The pairs before the list.
    #[serde(flatten)]
    pub(crate) head: Value,
    #[serde(flatten)]
    pub(crate) list: List<'a, T>,
    /// The pairs after the list.
    #[serde(flatten)]
    pub(crate) rest: R,
}

/// A list of results, under its key.
pub(crate) struct List<'a, T>(pub(crate) &'static str, pub(crate) &'a [T]);

impl<T: Serialize> Serialize for List<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map([(self.0, self.1)])
    }
}

/// Returns the figures of a moment.
pub(crate) fn figures(totals: &Totals) -> Value {
    json!({
        "event": totals.moment,
        "active_bytes": totals.active_bytes,
        "allocated_bytes": totals.allocated_bytes,
        "reserved_bytes": totals.reserved_bytes,
        "blocks": totals.n_blocks,
    })
}

/// Prints an object: the file, the device, and the pairs of the answer; `None` means all devices.
pub(crate) fn print_line(
    file: &str,
    device: impl Into<Option<DeviceId>>,
    answer: &impl Serialize,
    out: &mut impl Write,
) -> io::Result<()> {
    serde_json::to_writer(&mut *out, &Line { file, device: device.into(), answer })?;
    writeln!(out)
}
