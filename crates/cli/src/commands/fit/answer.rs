//! The prediction for other sizes from the runs of some sizes, and its line of `--json`.

#![forbid(unsafe_code)]

use std::num::NonZeroU64;

use memreel::fit::{Check, Largest, PeakPart, Prediction, Size, Sizes};
use memreel_snapshot::DeviceId;
use serde_json::{Value, json};

use super::runs::Runs;

/// The facts about other sizes.
pub(super) struct Answer<'a> {
    pub(super) runs: &'a Runs,
    pub(super) sizes: &'a Sizes<'a>,
    pub(super) recorded: Vec<Prediction>,
    pub(super) recorded_conf: &'a str,
    /// How the program is changed, in words.
    pub(super) changes: Vec<String>,
    pub(super) predicted: Vec<Prediction>,
    pub(super) largest: Option<Largest>,
    /// The setting of the grid under which the largest size fits, and that size.
    pub(super) best: Option<(String, Largest)>,
    pub(super) limit_bytes: Option<u64>,
    /// The most that a run had on the device in addition to what PyTorch reserved, and the size of that run.
    pub(super) beside: Option<(Size, u64)>,
    /// Only multiples of it are tried.
    pub(super) step: NonZeroU64,
    /// Whether a grid of settings was tried.
    pub(super) has_sweep: bool,
    pub(super) device: DeviceId,
}

impl Answer<'_> {
    /// Returns whether the setting and the program are those of the recorded runs.
    pub(super) fn is_of_recordings(&self) -> bool {
        self.sizes.conf() == self.recorded_conf && self.changes.is_empty()
    }

    /// Returns the sizes that were predicted: the largest that fits and the next, and those of `--at`.
    pub(super) fn predictions(&self) -> impl Iterator<Item = &Prediction> {
        let largest = self.largest.iter().flat_map(|of| of.fits.iter().chain(&of.fails));
        largest.chain(&self.predicted)
    }

    /// Returns the answer as a line of `--json`.
    pub(super) fn line(&self) -> Value {
        let size = |size: Size| self.runs.numbers_of(size);
        let part = |part: &PeakPart| json!({ "made": part.made, "bytes": part.bytes, "constant_bytes": part.constant_bytes });
        let of = |of: &Prediction| {
            let [requested, allocated, reserved] =
                [of.requested_peak_bytes, of.allocated_peak_bytes, of.reserved_peak_bytes];
            json!({
                "size": size(of.size),
                "requested_peak_bytes": requested.bytes,
                "allocated_peak_bytes": allocated.bytes,
                "reserved_peak_bytes": reserved.bytes,
                "reserved_peak_at_least_bytes": reserved.at_least_bytes,
                "reserved_peak_at_most_bytes": reserved.at_most_bytes,
                "confidence": of.confidence,
                "nearest": size(of.nearest),
                "peak_parts": of.peak_parts.iter().map(part).collect::<Vec<_>>(),
                "alone_percent": of.alone_share * 100.0,
                "failure": of.failure.map(|oom| json!({
                    "request": oom.request,
                    "size_bytes": oom.size_bytes,
                    "stack": self.runs.stack(of.nearest, self.device, oom.entry),
                })),
            })
        };
        let recorded = |of: &Prediction| {
            json!({
                "size": size(of.size),
                "requested_peak_bytes": of.requested_peak_bytes.bytes,
                "allocated_peak_bytes": of.allocated_peak_bytes.bytes,
                "reserved_peak_bytes": of.reserved_peak_bytes.bytes,
            })
        };
        let check = |Check { predicted, recorded, .. }: &Check| {
            json!({
                "size": size(recorded.size),
                "reserved_peak_bytes": predicted.reserved_peak_bytes.bytes,
                "recorded_reserved_peak_bytes": recorded.reserved_peak_bytes.bytes,
            })
        };
        let largest = |largest: &Largest| largest.fits.as_ref().map(|fits| size(fits.size));
        let best = self.best.as_ref();
        json!({
            "files": self.runs.names(),
            "names": self.runs.numbers(),
            "device": self.device,
            "conf": self.sizes.conf(),
            "changes": self.changes,
            "limit_bytes": self.limit_bytes,
            "beside_bytes": self.beside.map(|(_, bytes)| bytes),
            "largest": self.largest.as_ref().and_then(largest),
            "best_conf": best.map(|(conf, _)| conf),
            "best_largest": best.and_then(|(_, found)| largest(found)),
            "predictions": self.predictions().map(of).collect::<Vec<_>>(),
            "recorded": self.recorded.iter().map(recorded).collect::<Vec<_>>(),
            "checks": self.sizes.checks().iter().map(check).collect::<Vec<_>>(),
        })
    }
}
