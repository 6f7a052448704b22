//! A recorder's interface for the allocator of one device.
#![forbid(unsafe_code)]

use std::sync::Arc;

use super::{
    context::EventContext,
    log::Cut,
    recording::{CapturePoint, Mode},
    scope_names::ScopeId,
    shared::Shared,
    tape::Tape,
    writer::{self, ByLock, ByTime, TickSource, WithLast},
};
use crate::{
    process::{counter::settle_loads, guard::Guard},
    stack,
};
use memreel_lockfree::sync::lock;
use memreel_snapshot::words::{Action, DeviceId, Event, StackId};

/// Records the events of one device's allocator. Clones record on the same tape.
///
/// An allocator that you write uses a track like this: it captures the stack before it takes its lock, and records the
/// event while it has the lock, so that the lock determines the order of the trace.
///
/// ```
/// use std::sync::Mutex;
/// use memreel::{Action, Address, DeviceId, PoolId, StreamId};
/// use memreel::integrate::{Event, StackId, Track};
/// use memreel::recorder::{Recording, Recorder};
///
/// struct Bump {
///     next: Mutex<u64>,
///     track: Track,
/// }
///
/// impl Bump {
///     fn alloc(&self, bytes: u64) -> (Address, StackId) {
///         let stack = self.track.stack_of_alloc(bytes);
///         let mut next = self.next.lock().unwrap();
///         let address = Address(*next);
///         *next += bytes;
///         let (stream, pool) = (StreamId::DEFAULT, PoolId::DEFAULT);
///         self.track.record(Event { action: Action::Alloc, address, size_bytes: bytes, stream, pool, stack });
///         (address, stack) // kept with the block, for `Track::stack_of_free`
///     }
/// }
///
/// let recorder = Recorder::new();
/// recorder.record_history(&Recording::all());
/// let bump = Bump { next: Mutex::new(0x1000), track: recorder.track(DeviceId(0)) };
/// bump.alloc(64);
/// assert_eq!(recorder.n_events(DeviceId(0)), 1);
/// ```
#[derive(Clone, Debug)]
pub struct Track {
    pub(super) shared: Arc<Shared>,
    device: DeviceId,
    pub(super) tape: Arc<Tape>,
}

impl Track {
    pub(super) fn new(shared: Arc<Shared>, device: DeviceId, tape: Arc<Tape>) -> Track {
        Track { shared, device, tape }
    }

    /// Returns the device.
    #[must_use]
    pub fn device(&self) -> DeviceId {
        self.device
    }

    /// Captures the calling thread's stack for an allocation of `bytes` bytes, if
    /// [`Recording::context`](super::Recording::context) includes allocations.
    ///
    /// The result also records whether the filters ([`Recording::min_size`](super::Recording::min_size),
    /// [`Recording::sample_every`](super::Recording::sample_every)) exclude this allocation. Call it before taking
    /// the allocator's lock: walking a stack may take longer than most allocations. Pass the result to
    /// [`Track::record`], and keep it with the block for [`Track::stack_of_free`].
    #[inline]
    #[must_use]
    pub fn stack_of_alloc(&self, bytes: u64) -> StackId {
        let mode = self.shared.mode();
        if mode.filters() && self.shared.filters_out(bytes) {
            return StackId::FILTERED;
        }
        self.capture_if(mode, CapturePoint::Alloc)
    }

    /// Returns the stack of an allocation of `bytes` bytes that was captured before, unless the filters exclude it.
    pub(crate) fn unless_filtered(&self, bytes: u64, stack: StackId) -> StackId {
        let is_filtered = self.shared.mode().filters() && self.shared.filters_out(bytes);
        if is_filtered { StackId::FILTERED } else { stack }
    }

    /// Captures the calling thread's stack for a free, if
    /// [`Recording::context`](super::Recording::context) includes frees.
    ///
    /// `allocated` is the result of [`Track::stack_of_alloc`] for the block, or [`StackId::NONE`] if it is not
    /// known before the allocator's lock is taken. The free's events get
    /// [`stack_of_free(…).of_free(allocated)`](StackId::of_free).
    #[inline]
    #[must_use]
    pub fn stack_of_free(&self, allocated: StackId) -> StackId {
        if allocated.is_filtered() {
            allocated
        } else {
            self.capture_if(self.shared.mode(), CapturePoint::Free)
        }
    }

    /// Captures the calling thread's stack for the event of a segment, of a failed request or of an annotation.
    /// The filters do not apply to these.
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
        stack::with_reserve(|| stack::capture(&self.shared.stacks))
    }

    /// Records an event; the order of the calls is the order of the trace.
    ///
    /// The caller must have its allocator's lock, or otherwise ensure that calls for one device do not
    /// overlap; for sources without a lock there is [`Track::record_unlocked`]. The call cannot fail, and only
    /// about one call in a thousand takes a lock of the recorder.
    #[inline]
    pub fn record(&self, event: Event) {
        self.record_at(event, &mut ByLock);
    }

    /// Records a free that completes at once: `requested` as [`Action::FreeRequested`], followed by the same
    /// event as [`Action::FreeCompleted`].
    ///
    /// Like two calls of [`Track::record`], but the clock is read only once.
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
        self.push(mode, &mut event, &mut ByLock);
        let is_first_kept = mode.keeps(Action::FreeRequested);
        event.action = Action::FreeCompleted;
        if is_first_kept {
            self.push(mode, &mut event, &mut WithLast);
        } else {
            self.push(mode, &mut event, &mut ByLock);
        }
    }

    /// Records an event of a source without a lock; events are ordered by time.
    ///
    /// Record an allocation before its address is passed to another thread, and a free before the memory can
    /// be allocated again. Then no free precedes its allocation in the trace.
    #[inline]
    pub fn record_unlocked(&self, event: Event) {
        self.record_at(event, &mut ByTime);
    }

    /// Records the name of a live block, as [`Action::Annotate`]. An empty name is not recorded.
    ///
    /// `block` has the block's address, requested size, stream and pool; its action is ignored. Its stack is
    /// [`stack_of_segment()`](Track::stack_of_segment)[`.of_free(allocated)`](StackId::of_free), where
    /// `allocated` is the stack of the block's allocation: if the filters excluded that, its name is excluded
    /// too. Names are interned for the lifetime of the recorder; avoid unbounded names. Beyond a million distinct
    /// names and scopes, the events in new ones are not recorded, and count as lost.
    ///
    /// The caller must have its allocator's lock, as for [`Track::record`].
    pub fn annotate(&self, block: Event, name: &str) {
        let mode = self.shared.mode();
        let is_kept = !mode.is_off() && mode.keeps(Action::Annotate) && !block.stack.is_filtered();
        if !is_kept || name.is_empty() {
            return;
        }
        let Some(guard) = Guard::enter() else { return };
        // A name takes the place of a scope, which is where an entry's `user_metadata` comes from.
        let scope = lock(&self.shared.scopes).intern(ScopeId::default(), name);
        drop(guard);
        let stack = if mode.keeps_stacks() { block.stack } else { StackId::NONE };
        let event = Event { action: Action::Annotate, stack, ..block };
        let context = EventContext { stream: event.stream, pool: event.pool, scope };
        writer::write_in(&self.shared, &self.tape, &event, context);
    }

    #[inline]
    fn record_at<T: TickSource>(&self, mut event: Event, source: &mut T) {
        let mode = self.shared.mode();
        if !mode.is_off() {
            self.push(mode, &mut event, source);
        }
    }

    /// Records an event that a snapshot causes itself, even on a thread that is within the recorder's own work. It has
    /// no stack.
    pub(crate) fn record_own(&self, event: Event) {
        let mode = self.shared.mode();
        if !mode.is_off() && mode.keeps(event.action) {
            writer::write(&self.shared, &self.tape, &event, &mut ByLock);
        }
    }

    #[inline(never)]
    fn push<T: TickSource>(&self, mode: Mode, event: &mut Event, source: &mut T) {
        if !Guard::is_held() {
            self.push_unguarded(mode, event, source);
        }
    }

    /// Records an event whether this thread is within the recorder's own work or not.
    #[inline(always)]
    pub(super) fn push_unguarded<T: TickSource>(&self, mode: Mode, event: &mut Event, source: &mut T) {
        if !mode.keeps(event.action) {
            return;
        }
        if event.stack.is_filtered() && !self.keeps_filtered(mode, event) {
            return;
        }
        if !mode.keeps_stacks() {
            event.stack = StackId::NONE;
        }
        writer::write(&self.shared, &self.tape, event, source);
    }

    /// Returns whether an event of a filtered-out allocation is recorded nevertheless: a segment or a failure that it
    /// caused is, with a stack captured now.
    #[cold]
    #[inline(never)]
    fn keeps_filtered(&self, mode: Mode, event: &mut Event) -> bool {
        if matches!(event.action, Action::Alloc | Action::FreeRequested | Action::FreeCompleted) {
            return false;
        }
        event.stack = self.capture_if(mode, CapturePoint::Alloc);
        true
    }

    /// Calls `work` while each thread that needs a new chunk waits for it.
    #[cfg(all(test, target_os = "linux", not(miri)))]
    pub(crate) fn while_no_chunk_is_given<T>(&self, work: impl FnOnce() -> T) -> T {
        let _state = self.tape.lock();
        work()
    }

    /// Returns the number of events on the tape, without reading them.
    pub(crate) fn n_written(&self) -> usize {
        self.tape.n_written()
    }

    /// Returns what is recorded up to now.
    pub(crate) fn cut(&self) -> Cut {
        let now = self.shared.clock.now();
        // The clock is read before any chunk's length: events written later have later times.
        settle_loads();
        self.tape.cut(now)
    }
}
