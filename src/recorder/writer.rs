//! The chunks that this thread writes in, one a tape.

use std::{
    cell::RefCell,
    sync::{Arc, Weak},
};

use super::{
    Shared,
    chunk::Chunk,
    clock::Ticks,
    context::{Context, ContextId, Recent},
    guard::Guard,
    lock, log,
    tape::{Page, Tape},
};
use crate::{
    event::Event,
    sync::{settle_loads, thread_local},
};

/// Who puts the events of a tape in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Order {
    /// The lock that the caller holds.
    Lock,
    /// The time at which they happen.
    Time,
}

/// An event on its way to a tape.
#[derive(Clone, Copy, Debug)]
pub(super) struct Note<'a> {
    pub(super) event: &'a Event,
    pub(super) context: Context,
    pub(super) order: Order,
}

/// One thread's place on one tape.
#[derive(Debug)]
struct Writer {
    life: u64,
    chunk: Arc<Chunk>,
    len: usize,
    last: Ticks,
    recent: Recent,
    tape: Weak<Tape>,
}

/// A thread's places, on every tape it recorded on.
#[derive(Debug, Default)]
struct Writers {
    all: Vec<Writer>,
    /// The one used last.
    latest: usize,
}

thread_local! {
    static WRITERS: RefCell<Option<Writers>> = const { RefCell::new(None) };
}

/// Writes an event down. What it meets on its way that cannot be, such as a
/// thread whose storage is gone, costs time and not the event.
#[inline(always)]
pub(super) fn write(shared: &Shared, tape: &Arc<Tape>, note: Note<'_>) {
    let written = WRITERS.try_with(|writers| {
        match writers.try_borrow_mut() {
            Ok(mut writers) => writers.get_or_insert_default().write(shared, tape, note),
            // A signal came in the middle of an event, and its handler has one too.
            Err(_) => tape.count_interrupted(),
        }
    });
    if written.is_err() {
        write_without_storage(shared, tape, note);
    }
}

/// A thread's storage goes before its last frees do: each of those takes an
/// idle chunk and gives it back.
#[cold]
fn write_without_storage(shared: &Shared, tape: &Arc<Tape>, note: Note<'_>) {
    let mut alone = Writers::default();
    alone.write(shared, tape, note);
}

impl Writers {
    #[inline(always)]
    fn write(&mut self, shared: &Shared, tape: &Arc<Tape>, note: Note<'_>) {
        let life = tape.life();
        match self.all.get_mut(self.latest) {
            Some(writer) if writer.life == life => writer.write(shared, tape, note),
            _ => self.write_elsewhere(shared, tape, note, life),
        }
    }

    /// Another tape than last time, or a new life of the same.
    #[inline(never)]
    fn write_elsewhere(&mut self, shared: &Shared, tape: &Arc<Tape>, note: Note<'_>, life: u64) {
        let known = self.all.iter().position(|writer| writer.life == life);
        let Some(place) = known.or_else(|| self.begin(shared, tape)) else { return };
        self.latest = place;
        // Known now, so this does not come back here.
        self.write(shared, tape, note);
    }

    #[cold]
    fn begin(&mut self, shared: &Shared, tape: &Arc<Tape>) -> Option<usize> {
        let _guard = Guard::enter()?;
        // What was erased, or whose recorder is gone, makes room.
        self.all.retain(|writer| writer.tape.upgrade().is_some_and(|tape| tape.life() == writer.life));
        let Page { life, chunk, len, last } = tape.next_page(None, || !shared.mode().is_off())?;
        let tape = Arc::downgrade(tape);
        self.all.push(Writer { life, chunk, len, last, recent: Recent::default(), tape });
        Some(self.all.len() - 1)
    }
}

impl Writer {
    #[inline(always)]
    fn write(&mut self, shared: &Shared, tape: &Tape, note: Note<'_>) {
        let Some(context) = self.recent.get(note.context).or_else(|| self.number(shared, note.context))
        else {
            return tape.count_lost();
        };
        if !self.write_here(shared, tape, note, context) && self.turn(shared, tape) {
            // Another moment too: the next chunk may be one that was left behind just now.
            self.write_here(shared, tape, note, context);
        }
    }

    /// Whether the chunk had room.
    #[inline(always)]
    fn write_here(&mut self, shared: &Shared, tape: &Tape, note: Note<'_>, context: ContextId) -> bool {
        let at = self.moment(shared, tape, note);
        let has_room = self.chunk.write(self.len, log::words(note.event, at, context));
        if has_room {
            self.len += 1;
            self.last = at;
        }
        has_room
    }

    #[inline]
    fn moment(&self, shared: &Shared, tape: &Tape, note: Note<'_>) -> Ticks {
        if note.order == Order::Lock {
            return tape.next_moment(shared.clock.now());
        }
        // Reading the counter must not overtake the load that brought the
        // address here, or a free could get an earlier time than its alloc.
        settle_loads();
        Ticks(shared.clock.now().0.max(self.last.0 + 1))
    }

    #[cold]
    fn number(&mut self, shared: &Shared, context: Context) -> Option<ContextId> {
        let _guard = Guard::enter();
        let id = lock(&shared.contexts).number(context)?;
        self.recent.keep(context, id);
        Some(id)
    }

    /// Takes the next chunk for a full one. False when recording was switched off meanwhile.
    #[cold]
    fn turn(&mut self, shared: &Shared, tape: &Tape) -> bool {
        let _guard = Guard::enter();
        let Some(page) = tape.next_page(Some(&self.chunk), || !shared.mode().is_off()) else { return false };
        (self.life, self.chunk, self.len) = (page.life, page.chunk, page.len);
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
