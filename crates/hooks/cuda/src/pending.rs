//! Frees that wait for their streams.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

/// The frees of one device that were requested and may not have completed.
///
/// The driver is called without the lock that this is under: a call that needs a mark of a stream returns [`Needed`], and
/// the mark comes back with [`Pending::marked`].
#[derive(Debug, Default)]
pub(crate) struct Pending {
    by_stream: FxHashMap<usize, Waiting>,
    /// The latest free of each address: an address may be reused before its free is known to be done.
    latest: BTreeMap<u64, Free>,
    n_frees: u64,
    /// Events that can be used again.
    events: Vec<usize>,
}

/// A pending free.
#[derive(Clone, Copy, Debug)]
struct Free {
    number: u64,
    bytes: u64,
}

/// The frees in the order of one stream.
#[derive(Debug, Default)]
struct Waiting {
    /// Address and number, oldest first.
    frees: Vec<(u64, u64)>,
    /// Whether a thread is marking the stream.
    is_being_marked: bool,
    mark: Option<Mark>,
}

/// An event in a stream, and the number of the last free before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mark {
    pub(crate) stream: usize,
    pub(crate) event: usize,
    pub(crate) last: u64,
}

/// A stream that must be marked after its last free, with this event or a new one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Needed {
    pub(crate) stream: usize,
    pub(crate) event: Option<usize>,
    last: u64,
}

impl Needed {
    /// The mark that was made with an event.
    pub(crate) fn with(self, event: usize) -> Mark {
        Mark { stream: self.stream, event, last: self.last }
    }
}

impl Waiting {
    /// Ends the frees up to a number. An address that was freed again later waits for that.
    fn end(&mut self, last: u64, latest: &mut BTreeMap<u64, Free>, done: &mut Vec<(u64, u64)>) {
        let n = self.frees.partition_point(|(_, number)| *number <= last);
        for (address, number) in self.frees.drain(..n) {
            if latest.get(&address).is_some_and(|free| free.number == number) {
                done.extend(latest.remove(&address).map(|free| (address, free.bytes)));
            }
        }
    }
}

impl Pending {
    /// Adds a free. Returns the mark that its stream needs, unless the last one is not reached yet.
    pub(crate) fn add(&mut self, (address, bytes): (u64, u64), stream: usize) -> Option<Needed> {
        self.n_frees += 1;
        self.latest.insert(address, Free { number: self.n_frees, bytes });
        let waiting = self.by_stream.entry(stream).or_default();
        waiting.frees.push((address, self.n_frees));
        if waiting.mark.is_some() || waiting.is_being_marked {
            return None;
        }
        waiting.is_being_marked = true;
        Some(Needed { stream, event: self.events.pop(), last: self.n_frees })
    }

    /// Returns the mark that a stream needs, if frees were added after its last one.
    pub(crate) fn rest(&mut self, stream: usize) -> Option<Needed> {
        let waiting = self.by_stream.get_mut(&stream)?;
        let (_, last) = *waiting.frees.last()?;
        if waiting.is_being_marked || waiting.mark.is_some_and(|mark| mark.last >= last) {
            return None;
        }
        waiting.is_being_marked = true;
        let event = waiting.mark.take().map(|mark| mark.event).or_else(|| self.events.pop());
        Some(Needed { stream, event, last })
    }

    /// Adds the mark of a stream, or records that it could not be created.
    pub(crate) fn marked(&mut self, stream: usize, mark: Option<Mark>) {
        // Without an entry the context has ended meanwhile, and the event with it.
        if let Some(waiting) = self.by_stream.get_mut(&stream) {
            waiting.is_being_marked = false;
            waiting.mark = mark;
        }
    }

    /// The marks that were made, which may be reached.
    pub(crate) fn marks(&self) -> Vec<Mark> {
        self.by_stream.values().filter_map(|waiting| waiting.mark).collect()
    }

    /// Returns the addresses and bytes whose frees are done: those before marks that were reached.
    pub(crate) fn reached(&mut self, marks: &[Mark]) -> Vec<(u64, u64)> {
        let Pending { by_stream, latest, events, .. } = self;
        let mut done = Vec::new();
        for mark in marks {
            // Another mark may have taken its place.
            let Some(waiting) = by_stream.get_mut(&mark.stream).filter(|waiting| waiting.mark == Some(*mark))
            else {
                continue;
            };
            waiting.mark = None;
            events.push(mark.event);
            waiting.end(mark.last, latest, &mut done);
        }
        self.drop_empty();
        done
    }

    /// The number of frees that were added so far.
    pub(crate) fn n_frees(&self) -> u64 {
        self.n_frees
    }

    /// Returns the addresses and bytes of the first `n_frees` frees, as far as they are of a stream, or of any: it was waited
    /// for.
    pub(crate) fn passed(&mut self, stream: Option<usize>, n_frees: u64) -> Vec<(u64, u64)> {
        let Pending { by_stream, latest, .. } = self;
        let mut done = Vec::new();
        for (_, waiting) in by_stream.iter_mut().filter(|(of, _)| stream.is_none_or(|stream| stream == **of))
        {
            waiting.end(n_frees, latest, &mut done);
        }
        self.drop_empty();
        done
    }

    /// Forgets the frees in a range that was allocated again, and returns their bytes.
    pub(crate) fn forget(&mut self, address: u64, bytes: u64) -> u64 {
        let mut freed_bytes = 0;
        while let Some((at, free)) = self.latest.range(..address.saturating_add(bytes)).next_back()
            && at.saturating_add(free.bytes) > address
        {
            freed_bytes += free.bytes;
            let at = *at;
            self.latest.remove(&at);
        }
        freed_bytes
    }

    /// Forgets everything, because the context has ended, and returns the addresses and bytes of all frees.
    pub(crate) fn clear(&mut self) -> Vec<(u64, u64)> {
        std::mem::take(self).latest.into_iter().map(|(address, free)| (address, free.bytes)).collect()
    }

    /// Drops streams without frees, unless a thread marks them; their events can be used again.
    fn drop_empty(&mut self) {
        let events = &mut self.events;
        self.by_stream.retain(|_, waiting| {
            let stays = !waiting.frees.is_empty() || waiting.is_being_marked;
            if !stays {
                events.extend(waiting.mark.map(|mark| mark.event));
            }
            stays
        });
    }
}
