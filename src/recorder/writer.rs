//! The chunks that the current thread writes to, one for each tape.
//!
//! An event takes a few dozen instructions, so every rare case here is a separate function that is not
//! inlined: a new context, a full chunk, another tape, missing thread-local storage.
#![forbid(unsafe_code)]

use std::{
    cell::RefCell,
    sync::{
        Arc, Weak,
        atomic::{Ordering, compiler_fence},
    },
};

use super::{
    clock::Ticks,
    context::{ContextId, EventContext, Recent},
    keeper::Keeper,
    log,
    open_chunk::{Opening, Wait, lock_unless_stuck},
    scope,
    shared::Shared,
    tape::{InTape, Tape},
};
use crate::process::{
    guard::Guard,
    until_end::{self, UntilEnd},
};
pub(super) use memreel_lockfree::events::{AfterNewest, ByLock, ByTime, TickSource, WithLast};
use memreel_lockfree::{
    events::{self, WithNewest},
    sync::lock,
};
use memreel_snapshot::words::{Action, Event};

/// A thread's open chunk on a tape.
#[derive(Debug)]
pub(super) struct Writer {
    open: events::Writer<InTape>,
    recent: Recent,
    tape: Weak<Tape>,
}

/// A thread's writers, one for each tape on which it has recorded.
#[derive(Debug)]
struct Writers {
    /// The one used last.
    latest: Option<Box<Writer>>,
    #[expect(clippy::vec_box, reason = "swapping with the latest moves a pointer, not 400 bytes")]
    others: Vec<Box<Writer>>,
}

thread_local! {
    static WRITERS: UntilEnd<RefCell<Writers>> = const { UntilEnd::new(RefCell::new(Writers::new())) };
}

/// Records an event.
///
/// If thread-local storage is already destroyed, a slower path is taken; the event is not lost. If this is
/// a signal handler that interrupted the recording of another event on the same thread, the event is
/// counted as lost.
#[inline(always)]
pub(super) fn write<T: TickSource>(shared: &Shared, tape: &Arc<Tape>, event: &Event, source: &mut T) {
    let written = until_end::with(&WRITERS, |writers| {
        match writers.try_borrow_mut() {
            Ok(mut writers) => {
                // A signal handler runs on this thread, for which the processor keeps the program order;
                // these fences keep the compiler from moving the write outside the borrow.
                compiler_fence(Ordering::SeqCst);
                writers.write(shared, tape, event, source);
                compiler_fence(Ordering::SeqCst);
            }
            // A signal handler interrupted the recording of another event.
            Err(_) => tape.count_lost(),
        }
    });
    if written.is_none() {
        write_without_storage(shared, tape, event, source);
    }
}

/// Ensures that this thread has a chunk, so that its first event opens none under the caller's lock: that takes a
/// thousand times as long as the event.
#[inline(always)]
pub(super) fn make_room(shared: &Shared, tape: &Arc<Tape>) {
    let _made = until_end::with(&WRITERS, |writers| {
        if let Ok(mut writers) = writers.try_borrow_mut() {
            compiler_fence(Ordering::SeqCst);
            writers.make_room(shared, tape);
            compiler_fence(Ordering::SeqCst);
        }
    });
}

/// Records a free that completes at once: `requested`, and the same event as [`Action::FreeCompleted`], both
/// [`AfterNewest`]. The clock is read once. Otherwise like [`write`].
#[inline(always)]
pub(super) fn write_free(shared: &Shared, tape: &Arc<Tape>, requested: &Event, newest: &mut Ticks) {
    let written = until_end::with(&WRITERS, |writers| match writers.try_borrow_mut() {
        Ok(mut writers) => {
            compiler_fence(Ordering::SeqCst);
            writers.write_free(shared, tape, requested, newest);
            compiler_fence(Ordering::SeqCst);
        }
        Err(_) => tape.count_lost(),
    });
    if written.is_none() {
        Writers::new().write_free(shared, tape, requested, newest);
    }
}

/// Records an event in a context of its own, whatever the thread's scope is. It may lock the table of contexts.
/// Otherwise like [`write`].
#[cold]
#[inline(never)]
pub(super) fn write_in(shared: &Shared, tape: &Arc<Tape>, event: &Event, context: EventContext) {
    let written = until_end::with(&WRITERS, |writers| match writers.try_borrow_mut() {
        Ok(mut writers) => {
            compiler_fence(Ordering::SeqCst);
            writers.write_in(shared, tape, event, context);
            compiler_fence(Ordering::SeqCst);
        }
        Err(_) => tape.count_lost(),
    });
    if written.is_none() {
        Writers::new().write_in(shared, tape, event, context);
    }
}

/// Records an event of a thread whose storage is already destroyed: it takes an idle chunk and returns it at
/// once.
#[cold]
#[inline(never)]
fn write_without_storage<T: TickSource>(shared: &Shared, tape: &Arc<Tape>, event: &Event, source: &mut T) {
    Writers::new().write(shared, tape, event, source);
}

impl Writers {
    const fn new() -> Writers {
        Writers { latest: None, others: Vec::new() }
    }

    #[inline(always)]
    fn write<T: TickSource>(&mut self, shared: &Shared, tape: &Arc<Tape>, event: &Event, source: &mut T) {
        match &mut self.latest {
            Some(writer) if writer.open.is_of(tape) => writer.write(shared, tape, event, source),
            _ => self.write_on_other_tape(shared, tape, event, source),
        }
    }

    /// Opens the first chunk of this thread. A full chunk is replaced when the event is recorded, under the caller's
    /// lock: it must not be given back before there is another.
    #[inline(always)]
    fn make_room(&mut self, shared: &Shared, tape: &Arc<Tape>) {
        let has_chunk = |writer: &Writer| writer.open.is_of(tape);
        if !self.latest.as_deref().is_some_and(has_chunk) {
            self.open_ahead(shared, tape);
        }
    }

    #[cold]
    #[inline(never)]
    fn open_ahead(&mut self, shared: &Shared, tape: &Arc<Tape>) {
        let _opened = self.change_to(shared, tape, Wait::UnlessStuck);
    }

    /// Records an event on another tape than the previous one, or on the same tape after it was erased.
    #[inline(never)]
    fn write_on_other_tape<T: TickSource>(
        &mut self,
        shared: &Shared,
        tape: &Arc<Tape>,
        event: &Event,
        source: &mut T,
    ) {
        if let Some(writer) = self.change_to(shared, tape, Wait::Always) {
            writer.write(shared, tape, event, source);
        }
    }

    #[inline(always)]
    fn write_free(&mut self, shared: &Shared, tape: &Arc<Tape>, requested: &Event, newest: &mut Ticks) {
        if let Some(writer) = &mut self.latest
            && writer.open.is_of(tape)
            && let Some(context) = writer.recent.latest(context(shared, requested))
            && writer.push_free(shared, tape, requested, context, newest)
        {
            return;
        }
        self.write_free_apart(shared, tape, requested, newest);
    }

    /// Records the two events of a free one by one. Both are in chunks of the same writer, so the second has a later
    /// time even if the tape is erased in between.
    #[inline(never)]
    fn write_free_apart(&mut self, shared: &Shared, tape: &Arc<Tape>, requested: &Event, newest: &mut Ticks) {
        self.write(shared, tape, requested, &mut AfterNewest(newest));
        if let Some(writer) = &mut self.latest {
            writer.write(shared, tape, &completed(requested), &mut WithNewest(newest));
        }
    }

    /// Records an event in a context of its own.
    fn write_in(&mut self, shared: &Shared, tape: &Arc<Tape>, event: &Event, context: EventContext) {
        let writer = match &mut self.latest {
            Some(writer) if writer.open.is_of(tape) => Some(writer),
            _ => self.change_to(shared, tape, Wait::Always),
        };
        let Some(writer) = writer else { return };
        match writer.recent.get(context).or_else(|| writer.number(shared, context)) {
            Some(context) => writer.write_in_context(shared, tape, event, context, &mut ByLock),
            None => tape.count_lost(),
        }
    }

    /// Makes the writer of another tape the latest, and opens a chunk if there is none. Returns `None` if
    /// recording is off.
    fn change_to(&mut self, shared: &Shared, tape: &Arc<Tape>, wait: Wait) -> Option<&mut Box<Writer>> {
        let generation = tape.generation();
        if let Some(place) = self.others.iter().position(|writer| writer.open.generation() == generation) {
            match &mut self.latest {
                Some(latest) => std::mem::swap(latest, &mut self.others[place]),
                none => *none = Some(self.others.swap_remove(place)),
            }
        } else {
            self.open(shared, tape, wait)?;
        }
        self.latest.as_mut()
    }

    /// Opens a chunk on a tape, for `latest`. Returns `None` if recording is off.
    #[cold]
    fn open(&mut self, shared: &Shared, tape: &Arc<Tape>, wait: Wait) -> Option<()> {
        let guard = Guard::enter();
        self.others.extend(self.latest.take());
        // Writers of erased tapes and of dropped recorders are of no further use.
        self.others.retain(|writer| writer.tape.upgrade().is_some_and(|tape| writer.open.is_of(&tape)));
        let next = tape.next_chunk(None, &Opening { shared, wait })?;
        if !shared.goes_on_with(&next.chunk) {
            return None;
        }
        keep(next.due.as_ref(), tape, guard.as_ref());
        let (open, tape) = (events::Writer::new(next), Arc::downgrade(tape));
        self.latest = Some(Box::new(Writer { open, recent: Recent::default(), tape }));
        Some(())
    }
}

/// Frees what a thread's writers have allocated under the guard: if the recorder runs inside the process's
/// allocator, these frees are the recorder's own and are not recorded.
impl Drop for Writers {
    fn drop(&mut self) {
        let _guard = Guard::enter();
        self.latest = None;
        self.others = Vec::new();
    }
}

/// Does the work that is due in a tape's file. A caller within the recorder's own work, without a guard from this call,
/// may have a lock that other threads wait for: it does the work afterwards ([`Tape::is_postponed`]).
fn keep(due: Option<&Arc<Keeper>>, tape: &Tape, guard: Option<&Guard>) {
    match due {
        Some(keeper) if guard.is_some() => keeper.work(),
        Some(_) => tape.postpone(),
        None => {}
    }
}

/// Returns the context of an event. The slow paths compute it again, so that the fast path need not keep it
/// in registers.
#[inline(always)]
fn context(shared: &Shared, event: &Event) -> EventContext {
    let scope = scope::current(shared.number);
    EventContext { stream: event.stream, pool: event.pool, scope }
}

fn completed(requested: &Event) -> Event {
    Event { action: Action::FreeCompleted, ..*requested }
}

impl Writer {
    #[inline(always)]
    fn write<T: TickSource>(&mut self, shared: &Shared, tape: &Tape, event: &Event, source: &mut T) {
        match self.recent.latest(context(shared, event)) {
            Some(context) => self.write_in_context(shared, tape, event, context, source),
            None => self.write_in_other_context(shared, tape, event, source),
        }
    }

    /// Records an event whose context differs from that of the previous one.
    #[inline(never)]
    fn write_in_other_context<T: TickSource>(
        &mut self,
        shared: &Shared,
        tape: &Tape,
        event: &Event,
        source: &mut T,
    ) {
        let context = context(shared, event);
        match self.recent.get(context).or_else(|| self.number(shared, context)) {
            Some(context) => self.write_in_context(shared, tape, event, context, source),
            None => tape.count_lost(),
        }
    }

    #[inline(always)]
    fn write_in_context<T: TickSource>(
        &mut self,
        shared: &Shared,
        tape: &Tape,
        event: &Event,
        context: ContextId,
        source: &mut T,
    ) {
        if !self.push(shared, tape, event, context, source) {
            self.push_in_next_chunk(shared, tape, event, context, source);
        }
    }

    /// Records an event that did not fit into the chunk.
    #[cold]
    #[inline(never)]
    fn push_in_next_chunk<T: TickSource>(
        &mut self,
        shared: &Shared,
        tape: &Tape,
        event: &Event,
        context: ContextId,
        source: &mut T,
    ) {
        if self.open_next(shared, tape) {
            // Takes new ticks, because the next chunk may be an idle one whose last event is later than the ticks that
            // the full chunk refused.
            self.push(shared, tape, event, context, source);
        }
    }

    /// Appends an event to the chunk; returns `false` if the chunk is full.
    #[inline(always)]
    fn push<T: TickSource>(
        &mut self,
        shared: &Shared,
        tape: &Tape,
        event: &Event,
        context: ContextId,
        source: &mut T,
    ) -> bool {
        self.open.push(tape, &shared.clock, source, |at| log::words(event, at, context))
    }

    /// Appends both events of a free to the chunk; returns `false` if they do not fit.
    #[inline(always)]
    fn push_free(
        &mut self,
        shared: &Shared,
        tape: &Tape,
        requested: &Event,
        context: ContextId,
        newest: &mut Ticks,
    ) -> bool {
        self.open.push_two(tape, &shared.clock, newest, |first, last| {
            [log::words(requested, first, context), log::words(&completed(requested), last, context)]
        })
    }

    /// Looks up or adds a context in the recorder's table; returns `None` if the table is full.
    #[cold]
    fn number(&mut self, shared: &Shared, context: EventContext) -> Option<ContextId> {
        let _guard = Guard::enter();
        let id = lock(&shared.contexts).number(context)?;
        self.recent.keep(context, id);
        Some(id)
    }

    /// Replaces the full chunk. Returns `false` if recording was switched off meanwhile.
    fn open_next(&mut self, shared: &Shared, tape: &Tape) -> bool {
        let guard = Guard::enter();
        let opening = Opening { shared, wait: Wait::Always };
        let Some(next) = tape.next_chunk(Some(self.open.chunk()), &opening) else { return false };
        if !shared.goes_on_with(&next.chunk) {
            return false;
        }
        keep(next.due.as_ref(), tape, guard.as_ref());
        self.open.go_on(next);
        true
    }
}

impl Drop for Writer {
    /// While a fork is stuck, whose next handlers may wait for the end of this thread, the chunk remains as if the thread still
    /// had it.
    fn drop(&mut self) {
        if let Some(tape) = self.tape.upgrade() {
            let _guard = Guard::enter();
            self.open.give_back(&tape, lock_unless_stuck);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::Recorder, *};
    use crate::recorder::Recording;
    use memreel_snapshot::words::{Address, DeviceId, PoolId, StackId, StreamId};

    /// The borrow imitates a signal handler that interrupts the recording of an event.
    #[test]
    fn an_event_that_interrupts_another_is_counted_as_lost() {
        let recorder = Recorder::new();
        recorder.record_history(&Recording::all());
        let track = recorder.track(DeviceId(0));
        let (action, address, stream) = (Action::Alloc, Address(512), StreamId(0));
        let (pool, stack) = (PoolId::DEFAULT, StackId::NONE);
        let event = Event { action, address, size_bytes: 512, stream, pool, stack };
        track.record(event);
        let written = until_end::with(&WRITERS, |writers| {
            let _interrupted = writers.borrow_mut();
            track.record(event);
            track.record_unlocked(event);
        });
        assert!(written.is_some());
        track.record(event);
        assert_eq!((recorder.n_events(DeviceId(0)), recorder.n_lost(DeviceId(0))), (2, 2));
    }
}
