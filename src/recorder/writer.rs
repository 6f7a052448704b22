//! The chunks that this thread writes in, one a tape.

use std::{
    cell::RefCell,
    sync::{
        Arc, Weak,
        atomic::{Ordering, compiler_fence},
    },
};

use super::{
    Shared,
    chunk::Chunk,
    clock::Ticks,
    context::{ContextId, EventContext, Recent},
    guard::Guard,
    lock, log, scope,
    tape::{Page, Tape},
};
use crate::{event::Event, sync::thread_local};

/// Where the moment of an event comes from; known where the call is compiled.
pub(super) trait Moment {
    /// The moment of the next event in this chunk.
    fn take(writer: &Writer, shared: &Shared, tape: &Tape) -> Ticks;
}

/// The caller's lock puts the events of the tape in order.
pub(super) struct ByLock;

/// As [`ByLock`], of an event that happened with this thread's last one here: the counter is not read again.
pub(super) struct WithLast;

/// Nothing but time puts them in order.
pub(super) struct ByTime;

impl Moment for ByLock {
    #[inline(always)]
    fn take(_: &Writer, shared: &Shared, tape: &Tape) -> Ticks {
        tape.next_moment(shared.clock.now())
    }
}

impl Moment for WithLast {
    #[inline(always)]
    fn take(writer: &Writer, _: &Shared, tape: &Tape) -> Ticks {
        // Not behind the tape's last moment alone: who has another lock on the
        // same tape may have put an earlier one there.
        tape.next_moment(Ticks(writer.last.0 + 1))
    }
}

impl Moment for ByTime {
    #[inline(always)]
    fn take(writer: &Writer, shared: &Shared, _: &Tape) -> Ticks {
        // Reading the counter must not overtake the load that brought the
        // address here, or a free could get an earlier time than its alloc.
        Ticks(shared.clock.now_after_loads().0.max(writer.last.0 + 1))
    }
}

/// One thread's place on one tape.
#[derive(Debug)]
pub(super) struct Writer {
    life: u64,
    chunk: Arc<Chunk>,
    last: Ticks,
    recent: Recent,
    tape: Weak<Tape>,
}

/// A thread's places, on every tape it recorded on.
#[derive(Debug)]
struct Writers {
    /// The one used last.
    latest: Option<Box<Writer>>,
    #[expect(clippy::vec_box, reason = "changing places with the latest moves a pointer, not 400 bytes")]
    others: Vec<Box<Writer>>,
}

thread_local! {
    static WRITERS: RefCell<Writers> = const { RefCell::new(Writers::new()) };
}

/// Writes an event down. What it meets on its way that cannot be, such as a
/// thread whose storage is gone, costs time and not the event.
///
/// What is rare on the way is a call of its own that gets what it needs in
/// registers: an event is a few dozen instructions, and each spared shows.
#[inline(always)]
pub(super) fn write<M: Moment>(shared: &Shared, tape: &Arc<Tape>, event: &Event) {
    let written = WRITERS.try_with(|writers| {
        match writers.try_borrow_mut() {
            Ok(mut writers) => {
                // The handler runs on this thread: the processor keeps the order, the compiler has to be told.
                compiler_fence(Ordering::SeqCst);
                writers.write::<M>(shared, tape, event);
                compiler_fence(Ordering::SeqCst);
            }
            // A signal came in the middle of an event, and its handler has one too.
            Err(_) => tape.count_interrupted(),
        }
    });
    if written.is_err() {
        write_without_storage::<M>(shared, tape, event);
    }
}

/// A thread's storage goes before its last frees do: each of those takes an
/// idle chunk and gives it back.
#[cold]
#[inline(never)]
fn write_without_storage<M: Moment>(shared: &Shared, tape: &Arc<Tape>, event: &Event) {
    Writers::new().write::<M>(shared, tape, event);
}

impl Writers {
    const fn new() -> Writers {
        Writers { latest: None, others: Vec::new() }
    }

    #[inline(always)]
    fn write<M: Moment>(&mut self, shared: &Shared, tape: &Arc<Tape>, event: &Event) {
        match &mut self.latest {
            Some(writer) if writer.life == tape.life() => writer.write::<M>(shared, tape, event),
            _ => self.write_elsewhere::<M>(shared, tape, event),
        }
    }

    /// Another tape than last time, or a new life of the same.
    #[inline(never)]
    fn write_elsewhere<M: Moment>(&mut self, shared: &Shared, tape: &Arc<Tape>, event: &Event) {
        let life = tape.life();
        if let Some(place) = self.others.iter().position(|writer| writer.life == life) {
            match &mut self.latest {
                Some(latest) => std::mem::swap(latest, &mut self.others[place]),
                none => *none = Some(self.others.swap_remove(place)),
            }
        } else if self.begin(shared, tape).is_none() {
            return;
        }
        if let Some(writer) = &mut self.latest {
            writer.write::<M>(shared, tape, event);
        }
    }

    #[cold]
    fn begin(&mut self, shared: &Shared, tape: &Arc<Tape>) -> Option<()> {
        let _guard = Guard::enter()?;
        // What was erased, or whose recorder is gone, makes room.
        self.others.extend(self.latest.take());
        self.others.retain(|writer| writer.tape.upgrade().is_some_and(|tape| tape.life() == writer.life));
        let Page { life, chunk, last } = tape.next_page(None, || !shared.mode().is_off())?;
        let tape = Arc::downgrade(tape);
        self.latest = Some(Box::new(Writer { life, chunk, last, recent: Recent::default(), tape }));
        Some(())
    }
}

/// What goes with a thread is the recorder's own, as an allocator sees it.
impl Drop for Writers {
    fn drop(&mut self) {
        let _guard = Guard::enter();
        self.latest = None;
        self.others = Vec::new();
    }
}

/// Asked again on the slow ways rather than carried along.
#[inline(always)]
fn context(shared: &Shared, event: &Event) -> EventContext {
    let scope = scope::current(shared.number);
    EventContext { stream: event.stream, pool: event.pool, scope }
}

impl Writer {
    #[inline(always)]
    fn write<M: Moment>(&mut self, shared: &Shared, tape: &Tape, event: &Event) {
        match self.recent.latest(context(shared, event)) {
            Some(context) => self.write_in::<M>(shared, tape, event, context),
            None => self.write_in_another::<M>(shared, tape, event),
        }
    }

    /// The context is another than last time.
    #[inline(never)]
    fn write_in_another<M: Moment>(&mut self, shared: &Shared, tape: &Tape, event: &Event) {
        let context = context(shared, event);
        match self.recent.get(context).or_else(|| self.number(shared, context)) {
            Some(context) => self.write_in::<M>(shared, tape, event, context),
            None => tape.count_lost(),
        }
    }

    #[inline(always)]
    fn write_in<M: Moment>(&mut self, shared: &Shared, tape: &Tape, event: &Event, context: ContextId) {
        if !self.write_here::<M>(shared, tape, event, context) {
            self.write_in_next::<M>(shared, tape, event, context);
        }
    }

    /// The chunk is full.
    #[cold]
    #[inline(never)]
    fn write_in_next<M: Moment>(&mut self, shared: &Shared, tape: &Tape, event: &Event, context: ContextId) {
        if self.turn(shared, tape) {
            // Another moment too: the next chunk may be one that was left behind just now.
            self.write_here::<M>(shared, tape, event, context);
        }
    }

    /// Whether the chunk had room.
    #[inline(always)]
    fn write_here<M: Moment>(
        &mut self,
        shared: &Shared,
        tape: &Tape,
        event: &Event,
        context: ContextId,
    ) -> bool {
        let at = M::take(self, shared, tape);
        let has_room = self.chunk.push(log::words(event, at, context));
        if has_room {
            self.last = at;
        }
        has_room
    }

    #[cold]
    fn number(&mut self, shared: &Shared, context: EventContext) -> Option<ContextId> {
        let _guard = Guard::enter();
        let id = lock(&shared.contexts).number(context)?;
        self.recent.keep(context, id);
        Some(id)
    }

    /// Takes the next chunk for a full one. False when recording was switched off meanwhile.
    fn turn(&mut self, shared: &Shared, tape: &Tape) -> bool {
        let _guard = Guard::enter();
        let Some(page) = tape.next_page(Some(&self.chunk), || !shared.mode().is_off()) else { return false };
        (self.life, self.chunk) = (page.life, page.chunk);
        self.last = self.last.max(page.last);
        true
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let Some(tape) = self.tape.upgrade() {
            tape.hand_back(&self.chunk);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{super::Recorder, *};
    use crate::{
        event::{Action, Address, DeviceId, PoolId, StackId, StreamId},
        recorder::History,
    };

    /// As when a signal comes in the middle of an event, and its handler has one too.
    #[test]
    fn an_event_in_the_middle_of_another_is_counted_and_harms_nothing() {
        let recorder = Recorder::new();
        recorder.record_history(&History::all());
        let track = recorder.track(DeviceId(0));
        let (action, address, stream) = (Action::Alloc, Address(512), StreamId(0));
        let (pool, stack) = (PoolId::DEFAULT, StackId::NONE);
        let event = Event { action, address, size_bytes: 512, stream, pool, stack };
        track.record(event);
        WRITERS.with(|writers| {
            let _interrupted = writers.borrow_mut();
            track.record(event);
            track.record_unlocked(event);
        });
        track.record(event);
        assert_eq!((recorder.n_events(DeviceId(0)), recorder.n_lost(DeviceId(0))), (2, 2));
    }
}
