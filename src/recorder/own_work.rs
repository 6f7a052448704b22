//! Recording by a caller that is within the recorder's own work: the process's heap.
//!
//! It sets the guard once for an allocation: around the capture of the stack, its table and the event. So an
//! allocation that the recorder or the table makes, or a signal handler, does not come back to the table.
#![forbid(unsafe_code)]

use super::{
    recording::CapturePoint,
    sample,
    track::Track,
    writer::{self, ByTime},
};
#[cfg(not(loom))]
use crate::tape::Note;
use crate::{process::guard::Guard, stack};
use memreel_snapshot::words::{Action, Event, StackId};

/// Marks the recorder's own work on this thread while it exists.
pub(crate) struct OwnWork {
    _guard: Guard,
}

impl OwnWork {
    /// Returns the mark, or `None` if this thread is within the recorder's own work already.
    #[inline]
    pub(crate) fn begin() -> Option<OwnWork> {
        Guard::enter().map(|guard| OwnWork { _guard: guard })
    }
}

impl Track {
    /// Returns whether an allocation of `bytes` bytes is recorded: recording is on and no filter excludes it. If
    /// `sample_bytes` is not 0, it replaces [`Recording::sample_every`](super::Recording::sample_every).
    #[inline(always)]
    pub(crate) fn keeps(&self, bytes: u64, sample_bytes: u64) -> bool {
        let mode = self.shared.mode();
        if mode.is_off() {
            return false;
        }
        match sample_bytes {
            0 => !mode.filters() || !self.shared.filters_out(bytes),
            every => (!mode.filters() || !self.shared.is_too_small(bytes)) && sample::is_kept(bytes, every),
        }
    }

    /// Captures the stack of an allocation that is recorded.
    #[inline]
    pub(crate) fn stack_of_alloc_within(&self, _: &OwnWork) -> StackId {
        self.capture_within(CapturePoint::Alloc)
    }

    /// Captures the stack of a free.
    #[inline]
    pub(crate) fn stack_of_free_within(&self, _: &OwnWork) -> StackId {
        self.capture_within(CapturePoint::Free)
    }

    #[inline]
    fn capture_within(&self, at: CapturePoint) -> StackId {
        if self.shared.mode().captures(at) { stack::capture(&self.shared.stacks) } else { StackId::NONE }
    }

    /// Records an event. Otherwise like [`Track::record_unlocked`].
    #[inline]
    pub(crate) fn record_within(&self, _: &OwnWork, mut event: Event) {
        let mode = self.shared.mode();
        if !mode.is_off() {
            self.push_unguarded::<ByTime>(mode, &mut event);
        }
    }

    /// Records a free that completes at once, with one look at the clock. Otherwise like [`Track::record_unlocked`].
    #[inline]
    pub(crate) fn record_free_within(&self, _: &OwnWork, mut event: Event) {
        let mode = self.shared.mode();
        if mode.is_off() {
            return;
        }
        if !mode.keeps_stacks() {
            event.stack = StackId::NONE;
        }
        event.action = Action::FreeRequested;
        if mode.keeps(Action::FreeRequested) && mode.keeps(Action::FreeCompleted) {
            return writer::write_free(&self.shared, &self.tape, &event);
        }
        self.push_unguarded::<ByTime>(mode, &mut event);
        event.action = Action::FreeCompleted;
        self.push_unguarded::<ByTime>(mode, &mut event);
    }

    /// Says in the tape's file, if there is one, that this device samples by itself.
    #[cfg(not(loom))]
    #[cold]
    pub(crate) fn note_sampling(&self, _: &OwnWork, bytes: u64) {
        if let Some(file) = self.shared.tape_file() {
            file.note(&Note::Sampling { device: self.device().0, bytes });
        }
    }

    /// Counts an event that could not be recorded.
    #[cold]
    pub(crate) fn count_lost(&self) {
        self.tape.count_lost();
    }
}
