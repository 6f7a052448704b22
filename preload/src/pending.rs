//! Frees that wait for their streams.
#![forbid(unsafe_code)]

use std::collections::HashMap;

/// The frees of one device that were requested and may not have completed.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    by_stream: HashMap<usize, Waiting>,
    /// The number of the latest free of each address: an address may be used again before its free is known to be done.
    latest: HashMap<u64, u64>,
    n_frees: u64,
    /// Marks that can be used again.
    marks: Vec<usize>,
}

/// The frees in the order of one stream.
#[derive(Debug, Default)]
struct Waiting {
    /// Address and number, oldest first.
    frees: Vec<(u64, u64)>,
    /// A mark in the stream, and how many frees are before it.
    mark: Option<(usize, usize)>,
}

impl Pending {
    /// Adds a free; `mark` marks the stream, with a mark that can be used again if there is one, unless the last mark of
    /// the stream is not reached.
    pub(crate) fn add(
        &mut self,
        address: u64,
        stream: usize,
        mark: impl FnOnce(Option<usize>) -> Option<usize>,
    ) {
        self.n_frees += 1;
        self.latest.insert(address, self.n_frees);
        let waiting = self.by_stream.entry(stream).or_default();
        waiting.frees.push((address, self.n_frees));
        if waiting.mark.is_none() {
            waiting.mark = mark(self.marks.pop()).map(|mark| (mark, waiting.frees.len()));
        }
    }

    /// Returns the addresses whose frees are done: those before a mark that `is_reached`.
    pub(crate) fn done(&mut self, is_reached: impl Fn(usize) -> bool) -> Vec<u64> {
        let Pending { by_stream, latest, marks, .. } = self;
        let mut done = Vec::new();
        for waiting in by_stream.values_mut() {
            let Some((mark, n)) = waiting.mark.filter(|(mark, _)| is_reached(*mark)) else { continue };
            waiting.mark = None;
            marks.push(mark);
            // An address that was freed again later waits for that.
            let is_latest = |(address, number): &(u64, u64)| latest.get(address) == Some(number);
            done.extend(waiting.frees.drain(..n).filter(is_latest).map(|(address, _)| address));
        }
        done.iter().for_each(|address| _ = latest.remove(address));
        by_stream.retain(|_, waiting| !waiting.frees.is_empty());
        done
    }

    /// Forgets that an address is waited for: it was allocated again.
    pub(crate) fn forget(&mut self, address: u64) {
        self.latest.remove(&address);
    }

    /// Forgets everything: the context has ended.
    pub(crate) fn clear(&mut self) {
        *self = Pending::default();
    }
}
