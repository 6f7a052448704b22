//! The events of one device.

use std::sync::Arc;

use super::{
    CapturePoint, Cut, Shared,
    guard::Guard,
    history::Mode,
    tape::Tape,
    writer::{self, ByLock, ByTime, TickSource, WithLast},
};
use crate::{
    event::{Action, DeviceId, Event, StackId},
    stack,
    sync::settle_loads,
};

/// Where one device's allocator records. Clones are the same track.
#[derive(Clone, Debug)]
pub struct Track {
    shared: Arc<Shared>,
    device: DeviceId,
    tape: Arc<Tape>,
}

impl Track {
    pub(super) fn new(shared: Arc<Shared>, device: DeviceId, tape: Arc<Tape>) -> Track {
        Track { shared, device, tape }
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> DeviceId {
        self.device
    }

    /// The stack at the start of an allocation, if the context asks for one.
    /// Here it is decided, too, whether the filters leave the allocation out.
    ///
    /// Call it before taking the allocator's lock: walking a stack may take
    /// longer than most allocations. Hand the answer to [`Track::record`], and
    /// keep it with the block for [`Track::stack_of_free`].
    #[inline]
    #[must_use]
    pub fn stack_of_alloc(&self, bytes: u64) -> StackId {
        let mode = self.shared.mode();
        if mode.filters() && self.shared.leaves_out(bytes) {
            return StackId::FILTERED;
        }
        self.capture_if(mode, CapturePoint::Alloc)
    }

    /// The stack at the start of a free, if the context asks for one;
    /// `allocated` is what [`Track::stack_of_alloc`] gave for the block, or
    /// [`StackId::NONE`] when that is not known yet. What the event then
    /// carries is [`StackId::of_free`].
    #[inline]
    #[must_use]
    pub fn stack_of_free(&self, allocated: StackId) -> StackId {
        if allocated.is_filtered() {
            allocated
        } else {
            self.capture_if(self.shared.mode(), CapturePoint::Free)
        }
    }

    /// The stack of a segment or of a failure, which no filter leaves out.
    #[inline]
    #[must_use]
    pub fn stack_of_segment(&self) -> StackId {
        self.capture_if(self.shared.mode(), CapturePoint::Alloc)
    }

    #[inline]
    fn capture_if(&self, mode: Mode, at: CapturePoint) -> StackId {
        if mode.captures(at) { self.capture() } else { StackId::NONE }
    }

    #[inline(never)]
    fn capture(&self) -> StackId {
        let Some(_guard) = Guard::enter() else { return StackId::NONE };
        stack::capture(&self.shared.stacks)
    }

    /// Records one event, in the order of the calls.
    ///
    /// An allocator calls this while it holds its own lock, which is what
    /// gives its events their order. It never fails, and in all but one call in
    /// a thousand it takes no lock.
    #[inline]
    pub fn record(&self, event: Event) {
        self.record_at::<ByLock>(event);
    }

    /// Records that a block came back and is free at once: [`Action::FreeRequested`],
    /// as `requested` is, and the same as [`Action::FreeCompleted`] behind it.
    ///
    /// As two calls of [`Track::record`], but the time is asked for once.
    #[inline]
    pub fn record_free(&self, requested: Event) {
        let mode = self.shared.mode();
        if !mode.is_off() {
            self.push_free(mode, requested);
        }
    }

    #[inline(never)]
    fn push_free(&self, mode: Mode, mut event: Event) {
        event.action = Action::FreeRequested;
        self.push::<ByLock>(mode, &mut event);
        let is_first_kept = mode.keeps(Action::FreeRequested);
        event.action = Action::FreeCompleted;
        if is_first_kept {
            self.push::<WithLast>(mode, &mut event);
        } else {
            self.push::<ByLock>(mode, &mut event);
        }
    }

    /// As [`Track::record`], for sources that hold no lock: their events are
    /// put in order by time.
    ///
    /// Record an allocation before its address is given to anyone, and a free
    /// before the memory can be handed out again: then no free comes before
    /// its allocation.
    #[inline]
    pub fn record_unlocked(&self, event: Event) {
        self.record_at::<ByTime>(event);
    }

    #[inline]
    fn record_at<T: TickSource>(&self, mut event: Event) {
        let mode = self.shared.mode();
        if !mode.is_off() {
            self.push::<T>(mode, &mut event);
        }
    }

    #[inline(never)]
    fn push<T: TickSource>(&self, mode: Mode, event: &mut Event) {
        if !mode.keeps(event.action) || Guard::is_held() {
            return;
        }
        if event.stack.is_filtered() && !self.brings_in(mode, event) {
            return;
        }
        if !mode.keeps_stacks() {
            event.stack = StackId::NONE;
        }
        writer::write::<T>(&self.shared, &self.tape, event);
    }

    /// Whether the filters leave in what a left-out allocation brought about:
    /// a segment, or a failure, which then gets a stack of its own.
    #[cold]
    #[inline(never)]
    fn brings_in(&self, mode: Mode, event: &mut Event) -> bool {
        if matches!(event.action, Action::Alloc | Action::FreeRequested | Action::FreeCompleted) {
            return false;
        }
        event.stack = self.capture_if(mode, CapturePoint::Alloc);
        true
    }

    /// What is recorded, at this moment.
    pub(crate) fn cut(&self) -> Cut {
        let now = self.shared.clock.now();
        // Before any length is read: what is written later has a later time.
        settle_loads();
        self.tape.cut(now)
    }
}
