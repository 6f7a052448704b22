//! Marks on streams: events of the driver, kept for the next mark once they are passed.

use std::{collections::HashMap, sync::Arc};

use cudarc::driver::{CudaStream, result::event, sys};

use super::{super::Mark, driver::Answer};
use crate::event::StreamId;

/// An event of the driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct DriverEvent(pub(super) sys::CUevent);

// SAFETY: events may be recorded, asked and destroyed on any thread; the driver locks for itself.
unsafe impl Send for DriverEvent {}

/// The streams that may be marked, and the marks that are asked about.
///
/// A [`Mark`] and a [`StreamId`] are numbers that anyone can make, and the
/// driver takes its handles on trust; so both are looked up here first.
#[derive(Debug, Default)]
pub(super) struct Marks {
    /// By handle; those of cudarc are kept alive.
    streams: HashMap<u64, Option<Arc<CudaStream>>>,
    live: HashMap<u64, DriverEvent>,
    idle: Vec<DriverEvent>,
    n_marks: u64,
}

impl Marks {
    pub(super) fn know(&mut self, stream: StreamId, owner: Option<Arc<CudaStream>>) {
        // A stream that cudarc owns stays owned, whoever names it next.
        let known = self.streams.entry(stream.handle()).or_default();
        *known = owner.or_else(|| known.take());
    }

    /// The driver's handle of a stream that may be marked.
    pub(super) fn handle(&self, stream: StreamId) -> Option<sys::CUstream> {
        // 0, 1 and 2 are the driver's own names: the default stream, as legacy and as one a thread.
        let is_known = stream.handle() <= 2 || self.streams.contains_key(&stream.handle());
        is_known.then_some(stream.handle() as sys::CUstream)
    }

    /// An event to record; the context is current.
    pub(super) fn event(&mut self) -> Answer<DriverEvent> {
        let make = || event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING).map(DriverEvent);
        self.idle.pop().map_or_else(make, Ok)
    }

    /// The mark of an event that was recorded.
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

    /// Every event there is, for their end.
    pub(super) fn take_all(&mut self) -> Vec<DriverEvent> {
        self.live.drain().map(|(_, event)| event).chain(self.idle.drain(..)).collect()
    }
}
