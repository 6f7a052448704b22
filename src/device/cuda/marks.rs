//! Marks on streams: driver events, which are reused after their mark was forgotten.

use std::{collections::HashMap, sync::Arc};

use cudarc::driver::{CudaStream, result::event, sys};

use super::{super::Mark, driver::Answer};
use memreel_snapshot::words::StreamId;

/// A driver event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct DriverEvent(pub(super) sys::CUevent);

// SAFETY: events may be recorded, queried and destroyed on any thread; the driver synchronises internally.
unsafe impl Send for DriverEvent {}

/// The streams that may be marked, and the live marks.
///
/// Any caller can make a [`Mark`] or a [`StreamId`] from a number, and the
/// driver does not check its handles, so both are looked up here first.
#[derive(Debug, Default)]
pub(super) struct Marks {
    /// By handle; streams that cudarc owns are kept alive.
    streams: HashMap<u64, Option<Arc<CudaStream>>>,
    live: HashMap<u64, DriverEvent>,
    idle: Vec<DriverEvent>,
    n_marks: u64,
}

impl Marks {
    pub(super) fn know(&mut self, stream: StreamId, owner: Option<Arc<CudaStream>>) {
        // A stream that cudarc owns remains owned when it is added again by its handle alone.
        let known = self.streams.entry(stream.handle()).or_default();
        *known = owner.or_else(|| known.take());
    }

    /// Returns the driver's handle of a stream, or `None` if the stream may not be marked.
    pub(super) fn handle(&self, stream: StreamId) -> Option<sys::CUstream> {
        // The driver's constants for the default stream (0), the legacy default stream (1) and the per-thread default
        // stream (2). The last is a different stream on each thread; the legacy stream waits for all of them.
        let handle = if stream.handle() == 2 { 1 } else { stream.handle() };
        let is_known = handle <= 1 || self.streams.contains_key(&handle);
        is_known.then_some(handle as sys::CUstream)
    }

    /// Returns an event to record. The caller has made the context current.
    pub(super) fn event(&mut self) -> Answer<DriverEvent> {
        let make = || event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING).map(DriverEvent);
        self.idle.pop().map_or_else(make, Ok)
    }

    /// Creates a mark from a recorded event.
    pub(super) fn mark(&mut self, event: DriverEvent) -> Mark {
        self.n_marks += 1;
        self.live.insert(self.n_marks, event);
        Mark(self.n_marks)
    }

    pub(super) fn get(&self, mark: Mark) -> Option<DriverEvent> {
        self.live.get(&mark.0).copied()
    }

    pub(super) fn forget(&mut self, mark: Mark) {
        self.idle.extend(self.live.remove(&mark.0));
    }

    pub(super) fn give_up(&mut self, event: DriverEvent) {
        self.idle.push(event);
    }

    /// Removes and returns every event, live or idle.
    pub(super) fn take_all(&mut self) -> Vec<DriverEvent> {
        self.live.drain().map(|(_, event)| event).chain(self.idle.drain(..)).collect()
    }
}
