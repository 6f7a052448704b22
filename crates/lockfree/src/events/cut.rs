//! The events of a tape at one time, in order.
#![forbid(unsafe_code)]

use std::{ops::Range, sync::Arc};

use super::{
    chunk::Chunk,
    lines::{Memory, Words},
    order::{order_word as key, ticks_of},
};

/// The chunks of a tape, with their lengths at the time of the cut.
#[derive(Debug)]
pub struct Cut<M> {
    /// Each with its number of complete events.
    pub chunks: Vec<(usize, Arc<Chunk<M>>)>,
    /// Events with this order word or a lower one are ignored: some of them were dropped.
    pub after: u64,
    /// Events with a higher order word are ignored: they were written during the cut.
    pub until: u64,
    /// How many of them are kept, the newest.
    pub capacity: usize,
    /// How many events were dropped.
    pub n_dropped: u64,
}

impl<M> Clone for Cut<M> {
    fn clone(&self) -> Cut<M> {
        Cut { chunks: self.chunks.clone(), ..*self }
    }
}

impl<M: Memory> Cut<M> {
    /// Returns the events of chunks after a given order word.
    pub fn whole(chunks: &[Arc<Chunk<M>>], after: u64) -> Cut<M> {
        let chunks = chunks.iter().map(|chunk| (chunk.len(), chunk.clone())).collect();
        Cut { chunks, after, until: u64::MAX, capacity: usize::MAX, n_dropped: 0 }
    }

    /// Returns whether no event was complete at the time of the cut.
    pub fn is_empty(&self) -> bool {
        self.chunks.iter().all(|(len, _)| *len == 0)
    }

    /// Returns the newest events that the capacity holds, oldest first.
    ///
    /// Chunks that one thread filled in turn are already in order and are not copied.
    #[must_use]
    pub fn read(mut self) -> Events<M> {
        // Within a chunk, only events with equal ticks may be out of order. A fold reads a small part of the ring.
        let last = ticks_of(self.until);
        self.chunks.retain(|(len, chunk)| *len > 0 && ticks_of(key(chunk, 0)) <= last);
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
        let ends = |run: &Run<M>| (key(&run.chunk, run.range.start), key(&run.chunk, run.range.end - 1));
        if !is_sorted || !runs.iter().map(ends).is_sorted_by(|(_, before), (next, _)| before <= next) {
            runs = merged(&runs);
        }
        keep_last(&mut runs, self.capacity);
        let events = Events { runs, n_lost: 0 };
        Events { n_lost: self.n_dropped + (n_all - n_later - events.len()) as u64, ..events }
    }

    /// Adds the events of a sorted chunk that are in the cut.
    fn inside_of_sorted(&self, chunk: &Arc<Chunk<M>>, len: usize, runs: &mut Vec<Run<M>>) {
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
    fn inside(&self, chunk: &Arc<Chunk<M>>, len: usize, runs: &mut Vec<Run<M>>) {
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

    /// Returns the order word just below that of the oldest event that the capacity holds.
    pub(super) fn horizon_of_kept(self) -> u64 {
        let after = self.after;
        self.read().runs.first().map_or(after, |run| key(&run.chunk, run.range.start) - 1)
    }
}

fn keys<M: Memory>(chunk: &Chunk<M>, range: Range<usize>) -> impl Iterator<Item = u64> {
    range.map(|index| key(chunk, index))
}

/// Returns how many of a chunk's events are after `until`.
fn n_behind<M: Memory>(chunk: &Chunk<M>, len: usize, until: u64) -> usize {
    (0..len).rev().take_while(|index| key(chunk, *index) > until).count()
}

/// Merges the events of several threads in order, into new chunks.
fn merged<M: Memory>(runs: &[Run<M>]) -> Vec<Run<M>> {
    let mut all: Vec<Words> = runs.iter().flat_map(Run::events).collect();
    // A stable sort that is fast on sorted runs. Of two events with equal ticks the one with the lower
    // action comes first: an allocation before its free.
    all.sort_by_key(|words| words[1]);
    in_chunks(all.into_iter()).map(|(len, chunk)| Run { chunk, range: 0..len }).collect()
}

/// Copies events into new chunks; each comes with its length.
pub fn in_chunks<M: Memory>(
    events: impl Iterator<Item = Words>,
) -> impl Iterator<Item = (usize, Arc<Chunk<M>>)> {
    let mut events = events.peekable();
    std::iter::from_fn(move || {
        events.peek()?;
        let (chunk, mut len) = (Chunk::default(), 0);
        for words in events.by_ref().take(Chunk::<M>::N_ENTRIES) {
            len += usize::from(chunk.push(words));
        }
        Some((len, Arc::new(chunk)))
    })
}

/// Removes the oldest events until at most `capacity` are left.
fn keep_last<M>(runs: &mut Vec<Run<M>>, capacity: usize) {
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
struct Run<M> {
    chunk: Arc<Chunk<M>>,
    range: Range<usize>,
}

impl<M: Memory> Run<M> {
    fn events(&self) -> impl Iterator<Item = Words> {
        self.range.clone().map(|index| self.chunk.read(index))
    }
}

/// The events of a tape at one time, oldest first.
#[derive(Debug)]
pub struct Events<M> {
    runs: Vec<Run<M>>,
    /// How many events are missing before the first.
    pub n_lost: u64,
}

impl<M: Memory> Events<M> {
    /// Returns how many there are.
    pub fn len(&self) -> usize {
        self.runs.iter().map(|run| run.range.len()).sum()
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Iterates over the events.
    pub fn iter(&self) -> impl Iterator<Item = Words> {
        self.runs.iter().flat_map(Run::events)
    }

    /// Puts events before the others.
    pub fn begin_with(&mut self, events: impl Iterator<Item = Words>) {
        let runs = in_chunks(events).map(|(len, chunk)| Run { chunk, range: 0..len });
        self.runs.splice(0..0, runs);
    }
}
