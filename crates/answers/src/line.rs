//! A line of `--json`.

use memreel_snapshot::DeviceId;
use serde::Serialize;

/// An answer about one device of one file, as a line of `--json`.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Line<'l, A> {
    /// The file, as it was given.
    pub file: &'l str,
    /// The device; null if the answer is about all devices.
    pub device: Option<DeviceId>,
    /// The pairs of the answer.
    #[serde(flatten)]
    pub answer: A,
}
