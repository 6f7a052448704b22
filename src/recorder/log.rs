//! The events of a tape at one time, in order.
#![forbid(unsafe_code)]

use std::{ops::Range, sync::Arc};

use super::{
    chunk::{Chunk, N_WORDS},
    clock::{Scale, Ticks},
    context::{ContextId, EventContext},
    scope_names::ScopeId,
    tally::Tally,
};
use memreel_snapshot::words::{Action, Address, Event, PoolId, StackId};

/// Low bits of an event's order word that hold its action; the bits above hold its ticks.
pub(super) const ACTION_BITS: u32 = 4;

/// An event with the time and the scope that the recorder added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub(crate) event: Event,
    pub(crate) time_us: u64,
    pub(crate) scope: ScopeId,
    /// The number of its stream, pool and scope.
    pub(crate) context: ContextId,
}

/// The chunks of a tape, with their lengths at the time of the cut.
#[derive(Clone, Debug)]
pub(crate) struct Cut {
    /// Each with its number of complete events.
    pub(crate) chunks: Vec<(usize, Arc<Chunk>)>,
    /// Events with this order word or a lower one are ignored: some of them were dropped.
    pub(crate) after: u64,
    /// Events with a higher order word are ignored: they were written during the cut.
    pub(crate) until: u64,
    pub(crate) capacity: usize,
    pub(crate) n_dropped: u64,
}

/// An event in a chunk: address; ticks and action (the order word); stack and context; size.
pub(crate) type Words = [u64; N_WORDS];

/// Encodes an event.
#[inline]
pub(super) fn words(event: &Event, at: Ticks, context: ContextId) -> Words {
    [
        event.address.0,
        (at.0 << ACTION_BITS) | event.action as u64,
        u64::from(event.stack.0) | (u64::from(context.0) << 32),
        event.size_bytes,
    ]
}

/// Returns an event without the numbers that its tables lack: the wrong numbers of a damaged file would cost memory.
#[cfg(not(loom))]
pub(crate) fn known(mut words: Words, n_contexts: usize, n_stacks: usize) -> Words {
    if stack_of(&words).0 as usize >= n_stacks {
        words[2] |= u64::from(StackId::NONE.0);
    }
    if context_of(&words).0 as usize >= n_contexts {
        words[2] &= u64::from(u32::MAX);
    }
    words
}

/// The number of recorded events and of lost ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Count {
    pub(crate) n_kept: usize,
    pub(crate) n_lost: u64,
}

impl Cut {
    /// Returns the events of chunks after a given order word.
    #[cfg(not(loom))]
    pub(crate) fn whole(chunks: &[Arc<Chunk>], after: u64) -> Cut {
        let chunks = chunks.iter().map(|chunk| (chunk.len(), chunk.clone())).collect();
        Cut { chunks, after, until: u64::MAX, capacity: usize::MAX, n_dropped: 0 }
    }

    /// Returns whether no event was complete at the time of the cut.
    pub(crate) fn is_empty(&self) -> bool {
        self.chunks.iter().all(|(len, _)| *len == 0)
    }

    /// Returns the newest events that the capacity holds, oldest first.
    ///
    /// Chunks that one thread filled in turn are already in order and are not copied.
    pub(crate) fn read(mut self) -> Log {
        // Within a chunk, only events with equal ticks may be out of order. A fold reads a small part of the ring.
        let last_ticks = self.until >> ACTION_BITS;
        self.chunks.retain(|(len, chunk)| *len > 0 && key(chunk, 0) >> ACTION_BITS <= last_ticks);
        self.chunks.sort_by_key(|(_, chunk)| key(chunk, 0));
        let n_all: usize = self.chunks.iter().map(|(len, _)| len).sum();
        // Events after the cut are not lost: a later cut contains them.
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

    /// Adds the events of a sorted chunk that are in the cut.
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

    /// Adds the events of an unsorted chunk that are in the cut. A thread's events have rising times, but
    /// events with equal times can be in any order, so several runs may result.
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

    /// Returns the order word just below that of the oldest event that the capacity holds.
    pub(super) fn horizon_of_kept(self) -> u64 {
        let after = self.after;
        self.read().runs.first().map_or(after, |run| key(&run.chunk, run.range.start) - 1)
    }
}

/// Returns the order word of an event.
fn key(chunk: &Chunk, index: usize) -> u64 {
    chunk.read(index)[1]
}

fn keys(chunk: &Chunk, range: Range<usize>) -> impl Iterator<Item = u64> {
    range.map(|index| key(chunk, index))
}

/// Returns how many of a chunk's events are after `until`.
fn n_behind(chunk: &Chunk, len: usize, until: u64) -> usize {
    (0..len).rev().take_while(|index| key(chunk, *index) > until).count()
}

/// Merges the events of several threads in order, into new chunks.
fn merged(runs: &[Run]) -> Vec<Run> {
    let mut all: Vec<Words> = runs.iter().flat_map(Run::events).collect();
    // A stable sort that is fast on sorted runs. Of two events with equal ticks the one with the lower
    // action comes first: an allocation before its free.
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

/// Removes the oldest events until at most `capacity` are left.
fn keep_last(runs: &mut Vec<Run>, capacity: usize) {
    let mut n_surplus = runs.iter().map(|run| run.range.len()).sum::<usize>().saturating_sub(capacity);
    runs.retain_mut(|run| {
        let n = n_surplus.min(run.range.len());
        n_surplus -= n;
        run.range.start += n;
        !run.range.is_empty()
    });
}

/// A range of consecutive events of a chunk.
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

/// The memory that an event is about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogSpan {
    pub(crate) action: Action,
    pub(crate) address: Address,
    pub(crate) bytes: u64,
    pub(crate) stack: StackId,
}

/// The events of a tape at one time, oldest first.
#[derive(Debug)]
pub(crate) struct Log {
    runs: Vec<Run>,
    pub(crate) n_lost: u64,
}

/// The tables that decode a log's numbers: contexts, and the scale of ticks.
#[derive(Clone, Debug)]
pub(crate) struct LogTables {
    pub(crate) contexts: Vec<EventContext>,
    pub(crate) scale: Scale,
}

impl LogTables {
    pub(crate) fn n_contexts(&self) -> usize {
        self.contexts.len()
    }

    /// Returns the pool and the scope of a context.
    pub(crate) fn place(&self, context: ContextId) -> (PoolId, ScopeId) {
        let EventContext { pool, scope, .. } = self.context(context);
        (pool, scope)
    }

    /// Returns the parts of a context. A context that is not in the table was added after the table was
    /// copied, so no event of the cut has it.
    #[inline(always)]
    fn context(&self, context: ContextId) -> EventContext {
        self.contexts.get(context.0 as usize).copied().unwrap_or_default()
    }
}

impl Log {
    pub(crate) fn len(&self) -> usize {
        self.runs.iter().map(|run| run.range.len()).sum()
    }

    /// Adds the counts of its events to `tally`, without decoding them to entries.
    pub(crate) fn count_into(&self, tally: &mut Tally) {
        self.runs.iter().flat_map(Run::events).for_each(|words| {
            let (action, stack, context) = (action_of(&words), stack_of(&words), context_of(&words));
            tally.add(action, stack, context);
        });
    }

    /// Puts events before the others, with the time of the first.
    pub(crate) fn begin_with(&mut self, events: &[Event]) {
        let Some(first) = self.runs.first() else { return };
        let at = Ticks(key(&first.chunk, first.range.start) >> ACTION_BITS);
        let runs = events.chunks(Chunk::N_ENTRIES).map(|events| {
            let chunk = Chunk::default();
            for event in events {
                chunk.push(words(event, at, ContextId::default()));
            }
            Run { chunk: Arc::new(chunk), range: 0..events.len() }
        });
        self.runs.splice(0..0, runs);
    }

    /// Returns the memory that each event is about, oldest first.
    pub(crate) fn spans(&self) -> impl Iterator<Item = LogSpan> {
        self.runs.iter().flat_map(Run::events).map(|words| LogSpan {
            action: action_of(&words),
            address: Address(words[0]),
            bytes: words[3],
            stack: stack_of(&words),
        })
    }

    /// Returns a cut of some of the events, by their numbers, with as many lost ones.
    #[cfg(not(loom))]
    pub(crate) fn some(&self, is_wanted: impl Fn(usize) -> bool) -> Cut {
        let mut chunks: Vec<Arc<Chunk>> = Vec::new();
        let all = self.runs.iter().flat_map(Run::events).enumerate();
        for (_, words) in all.filter(|(number, _)| is_wanted(*number)) {
            if !chunks.last().is_some_and(|chunk| chunk.push(words)) {
                let chunk = Chunk::default();
                chunk.push(words);
                chunks.push(Arc::new(chunk));
            }
        }
        Cut { n_dropped: self.n_lost, ..Cut::whole(&chunks, 0) }
    }

    /// Decodes the events, oldest first.
    pub(crate) fn entries(&self, tables: &LogTables) -> impl Iterator<Item = Entry> {
        self.runs.iter().flat_map(Run::events).map(|words| entry(&words, tables))
    }
}

#[inline(always)]
#[allow(clippy::cast_possible_truncation)] // The low half is the stack.
fn stack_of(words: &Words) -> StackId {
    StackId(words[2] as u32)
}

#[inline(always)]
#[allow(clippy::cast_possible_truncation)] // The action has four bits.
fn action_of(words: &Words) -> Action {
    Action::ALL[words[1] as usize % (1 << ACTION_BITS) % Action::ALL.len()]
}

#[inline(always)]
fn context_of(words: &Words) -> ContextId {
    ContextId((words[2] >> 32) as u32)
}

/// Decodes an event.
#[inline(always)]
pub(crate) fn entry(words: &Words, tables: &LogTables) -> Entry {
    let (action, context) = (action_of(words), context_of(words));
    let EventContext { stream, pool, scope } = tables.context(context);
    let event = Event {
        action,
        address: Address(words[0]),
        size_bytes: words[3],
        stream,
        pool,
        stack: stack_of(words),
    };
    Entry { event, time_us: tables.scale.micros(Ticks(words[1] >> ACTION_BITS)), scope, context }
}
