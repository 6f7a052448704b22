//! What a tape held at one moment, in order.

use std::{ops::Range, sync::Arc};

use super::{
    ScopeId,
    chunk::{Chunk, N_WORDS},
    clock::{Scale, Ticks},
    context::{ContextId, EventContext},
    tally::Tally,
    tape::ACTION_BITS,
};
use crate::event::{Action, Address, Event, PoolId, StackId};

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
    ///
    /// Chunks that one thread filled one after the other are in order as they
    /// are: nothing is copied.
    pub(crate) fn read(mut self) -> Log {
        self.chunks.retain(|(len, _)| *len > 0);
        self.chunks.sort_by_key(|(_, chunk)| key(chunk, 0));
        let n_all: usize = self.chunks.iter().map(|(len, _)| len).sum();
        // Those behind the cut are not lost: the next one has them.
        let n_later: usize = self.chunks.iter().map(|(len, chunk)| n_behind(chunk, *len, self.until)).sum();
        let (mut runs, mut is_sorted) = (Vec::new(), true);
        for (len, chunk) in &self.chunks {
            is_sorted &= if keys(chunk, 0..*len).is_sorted() {
                self.inside_of_sorted(chunk, *len, &mut runs);
                true
            } else {
                self.inside(chunk, *len, &mut runs);
                false
            };
        }
        let ends = |run: &Run| (key(&run.chunk, run.range.start), key(&run.chunk, run.range.end - 1));
        if !is_sorted || !runs.iter().map(ends).is_sorted_by(|(_, before), (next, _)| before <= next) {
            runs = merged(&runs);
        }
        keep_last(&mut runs, self.capacity);
        let log = Log { runs, n_lost: 0 };
        Log { n_lost: self.n_dropped + (n_all - n_later - log.len()) as u64, ..log }
    }

    /// What of a chunk in order is in the cut.
    fn inside_of_sorted(&self, chunk: &Arc<Chunk>, len: usize, runs: &mut Vec<Run>) {
        let first_beyond = |limit: u64| {
            let (mut low, mut high) = (0, len);
            while low < high {
                let middle = usize::midpoint(low, high);
                if key(chunk, middle) <= limit { low = middle + 1 } else { high = middle }
            }
            low
        };
        let range = first_beyond(self.after)..first_beyond(self.until);
        if !range.is_empty() {
            runs.push(Run { chunk: chunk.clone(), range });
        }
    }

    /// What of a chunk is in the cut. A thread's events rise in time, save that
    /// those of one moment may stand in any order: so there can be several runs.
    fn inside(&self, chunk: &Arc<Chunk>, len: usize, runs: &mut Vec<Run>) {
        let mut last: Option<Range<usize>> = None;
        let is_inside = |index: usize| key(chunk, index) > self.after && key(chunk, index) <= self.until;
        for index in (0..len).filter(|index| is_inside(*index)) {
            match &mut last {
                Some(range) if range.end == index => range.end += 1,
                _ => {
                    let before = last.replace(index..index + 1);
                    runs.extend(before.map(|range| Run { chunk: chunk.clone(), range }));
                }
            }
        }
        runs.extend(last.map(|range| Run { chunk: chunk.clone(), range }));
    }

    pub(crate) fn count(self) -> Count {
        let log = self.read();
        Count { n_kept: log.len(), n_lost: log.n_lost }
    }

    /// The last event before those that are kept.
    pub(super) fn horizon_of_kept(self) -> u64 {
        let after = self.after;
        self.read().runs.first().map_or(after, |run| key(&run.chunk, run.range.start) - 1)
    }
}

/// The word that orders an event.
fn key(chunk: &Chunk, index: usize) -> u64 {
    chunk.read(index)[1]
}

fn keys(chunk: &Chunk, range: Range<usize>) -> impl Iterator<Item = u64> {
    range.map(|index| key(chunk, index))
}

/// How many of a chunk's events are behind a moment.
fn n_behind(chunk: &Chunk, len: usize, until: u64) -> usize {
    (0..len).rev().take_while(|index| key(chunk, *index) > until).count()
}

/// The events of several threads in one order.
fn merged(runs: &[Run]) -> Vec<Run> {
    let mut all: Vec<Words> = runs.iter().flat_map(Run::events).collect();
    // Stable, and quick on runs; of one moment an alloc comes first.
    all.sort_by_key(|words| words[1]);
    all.chunks(Chunk::N_ENTRIES)
        .map(|events| {
            let chunk = Chunk::default();
            for words in events {
                chunk.push(*words);
            }
            Run { chunk: Arc::new(chunk), range: 0..events.len() }
        })
        .collect()
}

/// Takes away the oldest events beyond that many.
fn keep_last(runs: &mut Vec<Run>, capacity: usize) {
    let mut n_surplus = runs.iter().map(|run| run.range.len()).sum::<usize>().saturating_sub(capacity);
    runs.retain_mut(|run| {
        let n = n_surplus.min(run.range.len());
        n_surplus -= n;
        run.range.start += n;
        !run.range.is_empty()
    });
}

/// Events of a chunk that follow one another.
#[derive(Debug)]
struct Run {
    chunk: Arc<Chunk>,
    range: Range<usize>,
}

impl Run {
    fn events(&self) -> impl Iterator<Item = Words> {
        self.range.clone().map(|index| self.chunk.read(index))
    }
}

/// The events of a tape at one moment.
#[derive(Debug)]
pub(crate) struct Log {
    runs: Vec<Run>,
    pub(crate) n_lost: u64,
}

/// What numbers in a log stand for.
#[derive(Debug)]
pub(crate) struct Key {
    pub(super) contexts: Vec<EventContext>,
    pub(super) scale: Scale,
}

impl Key {
    pub(crate) fn n_contexts(&self) -> usize {
        self.contexts.len()
    }

    /// Pool and scope of a context.
    pub(crate) fn place(&self, context: ContextId) -> (PoolId, ScopeId) {
        let EventContext { pool, scope, .. } = self.context(context);
        (pool, scope)
    }

    /// A context that was numbered after the table was read can only be of an
    /// event behind the cut.
    #[inline(always)]
    fn context(&self, context: ContextId) -> EventContext {
        self.contexts.get(context.0 as usize).copied().unwrap_or_default()
    }
}

impl Log {
    pub(crate) fn len(&self) -> usize {
        self.runs.iter().map(|run| run.range.len()).sum()
    }

    /// Counts what its events have, without making entries of them.
    pub(crate) fn count_into(&self, tally: &mut Tally) {
        self.runs.iter().flat_map(Run::events).for_each(|words| {
            let (action, stack, context) = (action_of(&words), stack_of(&words), context_of(&words));
            tally.add(action, stack, context);
        });
    }

    /// Oldest first.
    pub(crate) fn entries(&self, key: &Key) -> impl Iterator<Item = Entry> {
        self.runs.iter().flat_map(Run::events).map(|words| entry(&words, key))
    }
}

#[inline(always)]
#[allow(clippy::cast_possible_truncation)] // The low half, as it was put there.
fn stack_of(words: &Words) -> StackId {
    StackId(words[2] as u32)
}

#[inline(always)]
#[allow(clippy::cast_possible_truncation)] // Four bits.
fn action_of(words: &Words) -> Action {
    Action::ALL[words[1] as usize % (1 << ACTION_BITS) % Action::ALL.len()]
}

#[inline(always)]
fn context_of(words: &Words) -> ContextId {
    ContextId((words[2] >> 32) as u32)
}

#[inline(always)]
fn entry(words: &Words, key: &Key) -> Entry {
    let (action, context) = (action_of(words), context_of(words));
    let EventContext { stream, pool, scope } = key.context(context);
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
