//! What a tape held at one moment, in order.

use std::sync::Arc;

use super::{
    ScopeId,
    chunk::{Chunk, N_WORDS},
    clock::{Scale, Ticks},
    context::{Context, ContextId},
    tape::ACTION_BITS,
};
use crate::event::{Action, Address, Event, StackId};

/// An event with what the recorder knows of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub(crate) event: Event,
    pub(crate) time_us: u64,
    pub(crate) scope: ScopeId,
    /// Stream, pool and scope as one number, for tables by it.
    pub(crate) context: ContextId,
}

/// The chunks of a tape and how far they were written.
#[derive(Debug)]
pub(crate) struct Cut {
    /// Each with its number of whole events.
    pub(super) chunks: Vec<(usize, Arc<Chunk>)>,
    /// Events up to here, that one included, are incomplete.
    pub(super) after: u64,
    /// Events behind here were written while the chunks were looked at.
    pub(super) until: u64,
    pub(super) capacity: usize,
    pub(super) n_dropped: u64,
}

/// The words of an event in a chunk.
pub(super) type Words = [u64; N_WORDS];

/// An event as the words of a chunk.
#[inline]
pub(super) fn words(event: &Event, at: Ticks, context: ContextId) -> Words {
    [
        event.address.0,
        (at.0 << ACTION_BITS) | event.action as u64,
        u64::from(event.stack.0) | (u64::from(context.0) << 32),
        event.size_bytes,
    ]
}

/// How many there are and how many were lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Count {
    pub(crate) n_kept: usize,
    pub(crate) n_lost: u64,
}

impl Cut {
    /// The events, oldest first, the newest that the capacity holds.
    pub(crate) fn read(mut self) -> Log {
        // Chunks that one thread filled one after the other are in order then.
        self.chunks.retain(|(len, _)| *len > 0);
        self.chunks.sort_by_key(|(_, chunk)| chunk.read(0)[1]);
        let n_all: usize = self.chunks.iter().map(|(len, _)| len).sum();
        let mut all: Vec<Words> = Vec::with_capacity(n_all);
        for (len, chunk) in &self.chunks {
            let inside = |words: &Words| words[1] > self.after && words[1] <= self.until;
            all.extend((0..*len).map(|index| chunk.read(index)).filter(inside));
        }
        if !all.is_sorted_by_key(|words| words[1]) {
            // Stable, and quick on runs; of one moment an alloc comes first.
            all.sort_by_key(|words| words[1]);
        }
        all.drain(..all.len().saturating_sub(self.capacity));
        // Those behind the cut are not lost: the next one has them.
        let n_later: usize = self.chunks.iter().map(|(len, chunk)| n_behind(chunk, *len, self.until)).sum();
        let n_lost = self.n_dropped + (n_all - n_later - all.len()) as u64;
        Log { all, n_lost }
    }

    pub(crate) fn count(self) -> Count {
        let log = self.read();
        Count { n_kept: log.all.len(), n_lost: log.n_lost }
    }

    /// The last event before those that are kept.
    pub(super) fn horizon_of_kept(self) -> u64 {
        let after = self.after;
        self.read().all.first().map_or(after, |words| words[1] - 1)
    }
}

/// How many of a chunk's events are behind a moment.
fn n_behind(chunk: &Chunk, len: usize, until: u64) -> usize {
    (0..len).rev().take_while(|index| chunk.read(*index)[1] > until).count()
}

/// The events of a tape at one moment.
#[derive(Debug)]
pub(crate) struct Log {
    all: Vec<Words>,
    pub(crate) n_lost: u64,
}

/// What numbers in a log stand for.
#[derive(Debug)]
pub(crate) struct Key {
    pub(super) contexts: Vec<Context>,
    pub(super) scale: Scale,
}

impl Key {
    pub(crate) fn n_contexts(&self) -> usize {
        self.contexts.len()
    }
}

impl Log {
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// The stacks of its events, as often as they come.
    pub(crate) fn stacks(&self) -> impl Iterator<Item = StackId> {
        self.all.iter().map(stack_of)
    }

    /// Oldest first.
    pub(crate) fn entries(&self, key: &Key) -> impl ExactSizeIterator<Item = Entry> {
        self.all.iter().map(|words| entry(words, key))
    }
}

#[allow(clippy::cast_possible_truncation)] // The low half, as it was put there.
fn stack_of(words: &Words) -> StackId {
    StackId(words[2] as u32)
}

#[allow(clippy::cast_possible_truncation)] // Four bits, and the high half.
fn entry(words: &Words, key: &Key) -> Entry {
    let action = Action::ALL[words[1] as usize % (1 << ACTION_BITS) % Action::ALL.len()];
    let context = ContextId((words[2] >> 32) as u32);
    // A context that was numbered after the table was read can only be of an
    // event behind the cut.
    let Context { stream, pool, scope } = key.contexts.get(context.0 as usize).copied().unwrap_or_default();
    let event = Event {
        action,
        address: Address(words[0]),
        size_bytes: words[3],
        stream,
        pool,
        stack: stack_of(words),
    };
    Entry { event, time_us: key.scale.micros(Ticks(words[1] >> ACTION_BITS)), scope, context }
}
