//! Records for a caller that is within the recorder's own work: the process's heap.
//!
//! The guard is set once for an allocation: around the capture of its stack, the table and the event. So allocations by
//! the recorder or the table, or by a signal handler, do not re-enter the table.
#![forbid(unsafe_code)]

use std::ops::Range;

use super::{
    clock::Ticks,
    recording::CapturePoint,
    sample,
    track::Track,
    writer::{self, AfterNewest},
};
use crate::{process::guard::Guard, stack, tape::Note};
use memreel_lockfree::sync::lock;
use memreel_snapshot::words::{Action, Event, StackId};

/// Marks the recorder's own work on this thread while it exists.
pub(crate) struct OwnWork {
    _guard: Guard,
}

impl OwnWork {
    /// Returns the mark, or `None` if this thread is already within the recorder's own work.
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

    /// Returns the bytes that a recorded allocation stands for. `sample_bytes` is as in [`Track::keeps`].
    #[cfg(target_os = "linux")]
    pub(crate) fn represented_bytes(&self, bytes: u64, sample_bytes: u64) -> u64 {
        // Relaxed: the interval may change while it is read, as it may between two allocations.
        let of_recording = || self.shared.sample_bytes.load(std::sync::atomic::Ordering::Relaxed);
        sample::represented(bytes, if sample_bytes == 0 { of_recording() } else { sample_bytes })
    }

    /// Captures the stack of a recorded allocation.
    #[inline]
    pub(crate) fn stack_of_alloc_within(&self, _: &OwnWork) -> StackId {
        self.capture_within(CapturePoint::Alloc)
    }

    /// Captures the stack of a free.
    #[inline]
    pub(crate) fn stack_of_free_within(&self, _: &OwnWork) -> StackId {
        self.capture_within(CapturePoint::HeapFree)
    }

    #[inline]
    fn capture_within(&self, at: CapturePoint) -> StackId {
        if self.shared.mode().captures(at) { stack::capture(&self.shared.stacks) } else { StackId::NONE }
    }

    /// Makes room for an event of this thread. Called before the caller takes its lock, for which other threads would
    /// wait.
    #[inline(always)]
    pub(crate) fn make_room_within(&self, _: &OwnWork) {
        if !self.shared.mode().is_off() {
            writer::make_room(&self.shared, &self.tape);
        }
    }

    /// Records an event under one of the caller's many locks. `newest` is the time of the newest event under this lock:
    /// the event is later, and all events are in the order of their times.
    #[inline]
    pub(crate) fn record_within(&self, _: &OwnWork, newest: &mut Ticks, mut event: Event) {
        let mode = self.shared.mode();
        if !mode.is_off() {
            self.push_unguarded(mode, &mut event, &mut AfterNewest(newest));
        }
    }

    /// Records a free that completes at once, reading the clock once. Otherwise like [`Track::record_within`].
    #[inline]
    pub(crate) fn record_free_within(&self, _: &OwnWork, newest: &mut Ticks, mut event: Event) {
        let mode = self.shared.mode();
        if mode.is_off() {
            return;
        }
        if !mode.keeps_stacks() {
            event.stack = StackId::NONE;
        }
        event.action = Action::FreeRequested;
        if mode.keeps(Action::FreeRequested) && mode.keeps(Action::FreeCompleted) {
            return writer::write_free(&self.shared, &self.tape, &event, newest);
        }
        self.push_unguarded(mode, &mut event, &mut AfterNewest(newest));
        event.action = Action::FreeCompleted;
        self.push_unguarded(mode, &mut event, &mut AfterNewest(newest));
    }

    /// Returns the current time, read after this thread's earlier loads.
    pub(crate) fn now_after_loads(&self) -> Ticks {
        self.shared.clock.now_after_loads()
    }

    /// Does the work in the tape's file that became due while the caller had a lock. The caller has released it,
    /// because others wait for it.
    #[inline(always)]
    pub(crate) fn keep_within(&self, _: &OwnWork) {
        if self.tape.is_postponed() {
            self.keep_postponed();
        }
    }

    #[cold]
    #[inline(never)]
    fn keep_postponed(&self) {
        let keeper = lock(&self.shared.file).as_ref().map(|open| open.keeper.clone());
        if self.tape.take_postponed() {
            keeper.iter().for_each(|keeper| keeper.work());
        }
    }

    /// Notes in the tape's file, if there is one, that this device does its own sampling.
    #[cold]
    pub(crate) fn note_sampling(&self, _: &OwnWork, bytes: u64) {
        if let Some(file) = self.shared.tape_file() {
            file.note(&Note::Sampling { device: self.device().0, bytes });
        }
    }

    /// Records that the program mapped a range itself, with the stack of the call.
    pub(crate) fn map_within(&self, _: &OwnWork, range: Range<u64>, stack: StackId) {
        // The clock is read under the lock, so that of two threads the later one has the later time.
        let mut usage = lock(&self.shared.usage);
        usage.map(range, stack, self.shared.clock.now());
    }

    /// Records that the program unmaps a range.
    pub(crate) fn unmap_within(&self, _: &OwnWork, range: Range<u64>) {
        let mut usage = lock(&self.shared.usage);
        usage.unmap(range, self.shared.clock.now());
    }

    /// Counts an event that could not be recorded.
    #[cold]
    pub(crate) fn count_lost(&self) {
        self.tape.count_lost();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        recorder::{Recorder, Recording},
        tape::Contents,
    };
    use memreel_snapshot::words::{Address, DeviceId, PoolId, StreamId};

    /// This tape has no keeper, so the recording thread folds what its ring drops.
    #[test]
    fn the_list_of_live_blocks_is_made_when_the_caller_has_no_lock() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.tape");
        let recorder = Recorder::new();
        recorder.record_history(&Recording::all().max_entries(4096).tape(&path).kept_elsewhere());
        let track = recorder.track(DeviceId(0));
        let (action, size_bytes, stream) = (Action::Alloc, 512, StreamId::DEFAULT);
        let (pool, stack) = (PoolId::DEFAULT, StackId::NONE);
        let work = OwnWork::begin().unwrap();
        let mut numbers = 1_u64..4_000_000;
        let mut newest = Ticks::default();
        let mut record = || {
            let address = Address(numbers.next().unwrap() << 10);
            track.record_within(
                &work,
                &mut newest,
                Event { action, address, size_bytes, stream, pool, stack },
            );
        };
        let folded = || Contents::read(&path).unwrap().bases.first().map(|base| base.until);
        let before = folded();
        while !track.tape.is_postponed() {
            record();
        }
        (0..100).for_each(|_| record());
        assert_eq!(folded(), before, "while it has the lock");
        track.keep_within(&work);
        assert!(folded() > before && !track.tape.is_postponed());
    }
}
