//! What a question is about: one device of a snapshot.

use std::{cell::OnceCell, fmt};

use memreel_snapshot::{
    DeviceId, Snapshot,
    analysis::{DeviceHistory, Histories},
    model::AllocatedOfRun,
};

/// One device of a snapshot, with its history.
pub struct Subject<'a> {
    history: DeviceHistory<'a>,
    /// The recorder's sums over the whole run; `None` if the file has none.
    run: OnceCell<Option<AllocatedOfRun>>,
}

impl<'a> Subject<'a> {
    /// Reads the history of a device.
    #[must_use]
    pub fn new(snapshot: &'a Snapshot, device: impl Into<DeviceId>) -> Subject<'a> {
        Subject { history: DeviceHistory::new(snapshot, device), run: OnceCell::new() }
    }

    /// Reads the history of a device, sharing with the other devices of the snapshot what they have in common.
    #[must_use]
    pub fn of(histories: &'a Histories<'a>, device: DeviceId) -> Subject<'a> {
        Subject { history: histories.of(device), run: OnceCell::new() }
    }

    /// Returns the history of the device.
    #[must_use]
    pub fn history(&self) -> &DeviceHistory<'a> {
        &self.history
    }

    /// Returns what limits the figures of the history, one sentence each; empty if nothing does.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        self.history.trust().warnings()
    }

    /// Returns what each stack allocated over the whole run; `None` if that was not recorded.
    pub(crate) fn run(&self) -> Option<&AllocatedOfRun> {
        self.run.get_or_init(|| self.history.snapshot().allocated(self.history.device())).as_ref()
    }
}

impl fmt::Debug for Subject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subject").field("device", &self.history.device()).finish_non_exhaustive()
    }
}
