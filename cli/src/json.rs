//! The lines of `--json`.

#![forbid(unsafe_code)]

use std::io::{self, Write};

use memreel::DeviceId;
use serde::Serialize;

/// An answer for one device of one file.
#[derive(Serialize)]
struct Line<'a, T> {
    file: &'a str,
    device: Option<DeviceId>,
    #[serde(flatten)]
    answer: &'a T,
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
