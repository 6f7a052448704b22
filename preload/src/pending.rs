//! Frees that wait for their streams.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

/// The frees of one device that were requested and may not have completed.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    by_stream: FxHashMap<usize, Waiting>,
    /// The latest free of each address: an address may be used again before its free is known to be done.
    latest: BTreeMap<u64, Free>,
    n_frees: u64,
    /// Marks that can be used again.
    marks: Vec<usize>,
}

/// A free that waits.
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
    /// A mark in the stream, and how many frees are before it.
    mark: Option<(usize, usize)>,
}

impl Waiting {
    /// Ends the first `n` frees. An address that was freed again later waits for that.
    fn end(&mut self, n: usize, latest: &mut BTreeMap<u64, Free>, done: &mut Vec<(u64, u64)>) {
        for (address, number) in self.frees.drain(..n) {
            if latest.get(&address).is_some_and(|free| free.number == number) {
                done.extend(latest.remove(&address).map(|free| (address, free.bytes)));
            }
        }
    }
}

impl Pending {
    /// Adds a free; `mark` marks the stream, with a mark that can be used again if there is one, unless the last mark of
    /// the stream is not reached.
    pub(crate) fn add(
        &mut self,
        (address, bytes): (u64, u64),
        stream: usize,
        mark: impl FnOnce(Option<usize>) -> Option<usize>,
    ) {
        self.n_frees += 1;
        self.latest.insert(address, Free { number: self.n_frees, bytes });
        let waiting = self.by_stream.entry(stream).or_default();
        waiting.frees.push((address, self.n_frees));
        if waiting.mark.is_none() {
            waiting.mark = mark(self.marks.pop()).map(|mark| (mark, waiting.frees.len()));
        }
    }

    /// Returns the addresses and bytes whose frees are done: those before a mark that `is_reached`.
    pub(crate) fn done(&mut self, is_reached: impl Fn(usize) -> bool) -> Vec<(u64, u64)> {
        let Pending { by_stream, latest, marks, .. } = self;
        let mut done = Vec::new();
        for waiting in by_stream.values_mut() {
            let Some((mark, n)) = waiting.mark.filter(|(mark, _)| is_reached(*mark)) else { continue };
            waiting.mark = None;
            marks.push(mark);
            waiting.end(n, latest, &mut done);
        }
        by_stream.retain(|_, waiting| !waiting.frees.is_empty());
        done
    }

    /// Marks the end of a stream again, if frees were added after its mark.
    pub(crate) fn mark_rest(&mut self, stream: usize, mark: impl FnOnce(Option<usize>) -> Option<usize>) {
        let Some(waiting) = self.by_stream.get_mut(&stream) else { return };
        let n = waiting.frees.len();
        if waiting.mark.is_none_or(|(_, marked)| marked < n) {
            let again = waiting.mark.map(|(mark, _)| mark).or_else(|| self.marks.pop());
            waiting.mark = mark(again).map(|mark| (mark, n));
        }
    }

    /// The number of frees that were added so far.
    pub(crate) fn n_frees(&self) -> u64 {
        self.n_frees
    }

    /// Returns the addresses and bytes of the first `n_frees` frees, as far as they are of a stream, or of any: it was waited
    /// for.
    pub(crate) fn passed(&mut self, stream: Option<usize>, n_frees: u64) -> Vec<(u64, u64)> {
        let Pending { by_stream, latest, marks, .. } = self;
        let mut done = Vec::new();
        for (_, waiting) in by_stream.iter_mut().filter(|(of, _)| stream.is_none_or(|stream| stream == **of))
        {
            let n = waiting.frees.partition_point(|(_, number)| *number <= n_frees);
            waiting.mark = match waiting.mark {
                Some((mark, marked)) if marked <= n => {
                    marks.push(mark);
                    None
                }
                mark => mark.map(|(mark, marked)| (mark, marked - n)),
            };
            waiting.end(n, latest, &mut done);
        }
        by_stream.retain(|_, waiting| !waiting.frees.is_empty());
        done
    }

    /// Forgets the frees in a range, which was allocated again, and returns their bytes.
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
}
