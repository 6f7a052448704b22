//! The lines of `--json`.

#![forbid(unsafe_code)]

use std::io::{self, Write};

use memreel_answers::Line;
use memreel_snapshot::{DeviceId, analysis::Rest};
use serde::{Serialize, Serializer};
use serde_json::Value;

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

/// The results that a list leaves out, under their key.
#[derive(Serialize)]
pub(crate) struct WithRest {
    pub(crate) rest: Rest,
}

/// Prints an answer as a line, with its file and its device; `None` means all devices.
pub(crate) fn print_line(
    file: &str,
    device: impl Into<Option<DeviceId>>,
    answer: &impl Serialize,
    out: &mut impl Write,
) -> io::Result<()> {
    serde_json::to_writer(&mut *out, &Line { file, device: device.into(), answer })?;
    writeln!(out)
}
