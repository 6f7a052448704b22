//! The peak of a whole run, from the recorder's sums, which include events that its ring lost.

use crate::{
    model::{AllocatedOfRun, RecordedSettings, Snapshot},
    words::DeviceId,
};

/// A moment before the events of a file, at which the device had the most.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EarlierPeak {
    /// The bytes that were requested for the blocks in use.
    pub bytes: u64,
    /// The number of these blocks.
    pub n_blocks: u64,
    /// The time in microseconds since the Unix epoch; 0 if nothing was recorded before.
    pub time_us: u64,
    pub(crate) device: DeviceId,
    pub(crate) run: AllocatedOfRun,
}

impl EarlierPeak {
    /// Returns the peak of a device, if it was higher than that of its events. `recorded` is about the device.
    pub(crate) fn of(
        snapshot: &Snapshot,
        device: DeviceId,
        recorded: RecordedSettings,
        peak_of_events: impl FnOnce() -> u64,
    ) -> Option<EarlierPeak> {
        let (run, bytes) = of_run(snapshot, device, recorded)?;
        let time_us = run.peak_us?;
        let n_blocks = run.peak()?.1;
        (bytes > peak_of_events()).then_some(EarlierPeak { bytes, n_blocks, time_us, device, run })
    }
}

/// Returns the sums of a whole run with the most bytes in use, if the file has them and lacks some of the run's events.
/// For a window that was cut out of a history, its own peak counts.
pub(super) fn of_run(
    snapshot: &Snapshot,
    device: DeviceId,
    recorded: RecordedSettings,
) -> Option<(AllocatedOfRun, u64)> {
    if !recorded.has_lost || recorded.n_cut > 0 {
        return None;
    }
    let run = snapshot.allocated(device)?;
    let (bytes, _) = run.peak()?;
    Some((run, bytes))
}
