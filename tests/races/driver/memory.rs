//! Memory of the devices and pinned memory of the host: regions, their values, and who accessed them last.

use std::collections::{BTreeMap, HashMap};

use super::clock::Clock;

const PAGE: u64 = 4096;
/// What memory contains before it is written.
const UNSET: u8 = 0xA5;

/// A read or a write of a range by one operation of a stream.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    pub(crate) start: u64,
    pub(crate) bytes: u64,
    pub(crate) writes: bool,
    pub(crate) what: &'static str,
    pub(crate) line: usize,
    pub(crate) time: u64,
}

impl Access {
    pub(crate) fn new(start: u64, bytes: usize, writes: bool, what: &'static str) -> Access {
        Access { start, bytes: bytes as u64, writes, what, line: 0, time: 0 }
    }

    fn end(&self) -> u64 {
        self.start + self.bytes
    }

    pub(crate) fn conflicts(&self, other: &Access) -> bool {
        (self.writes || other.writes) && self.start < other.end() && other.start < self.end()
    }

    fn covers(&self, other: &Access) -> bool {
        self.start <= other.start && other.end() <= self.end()
    }
}

/// A piece of memory that was allocated in one call.
#[derive(Debug)]
pub(crate) struct Region {
    pub(crate) bytes: u64,
    /// `None` for pinned memory of the host.
    pub(crate) device: Option<usize>,
    /// No two regions have the same number, at the same address neither.
    pub(crate) number: u64,
    accesses: Vec<Access>,
    pages: HashMap<u64, Box<[u8]>>,
}

#[derive(Default, Debug)]
pub(crate) struct Memory {
    regions: BTreeMap<u64, Region>,
    n_regions: u64,
}

impl Memory {
    pub(crate) fn insert(&mut self, start: u64, bytes: u64, device: Option<usize>) {
        self.n_regions += 1;
        let (accesses, pages) = (Vec::new(), HashMap::new());
        self.regions.insert(start, Region { bytes, device, number: self.n_regions, accesses, pages });
    }

    pub(crate) fn remove(&mut self, start: u64) -> Option<Region> {
        self.regions.remove(&start)
    }

    pub(crate) fn len(&self) -> usize {
        self.regions.len()
    }

    pub(crate) fn used_bytes(&self, device: usize) -> u64 {
        self.regions.values().filter(|region| region.device == Some(device)).map(|region| region.bytes).sum()
    }

    /// Returns the region that contains an address, with its start.
    pub(crate) fn find(&self, address: u64) -> Option<(u64, &Region)> {
        let (start, region) = self.regions.range(..=address).next_back()?;
        (address < start + region.bytes).then_some((*start, region))
    }

    /// Returns the regions that a range spans, as starts with numbers; `None` if a part of it is in none.
    pub(crate) fn spanned(&self, start: u64, bytes: u64) -> Option<Vec<(u64, u64)>> {
        let (mut at, mut found) = (start, Vec::new());
        while at < start + bytes || found.is_empty() {
            let (first, region) = self.find(at)?;
            found.push((first, region.number));
            at = first + region.bytes;
        }
        Some(found)
    }

    /// Notes an access of memory that is allocated, and returns those that it races with. `now` is the clock of
    /// its stream: what is not before it is not ordered.
    pub(crate) fn access(&mut self, access: &Access, now: &Clock) -> Vec<Access> {
        let mut races = Vec::new();
        for (start, _) in self.spanned(access.start, access.bytes).unwrap_or_default() {
            let Some(region) = self.regions.get_mut(&start) else { continue };
            let is_before = |old: &Access| now.get(old.line) >= old.time;
            races.extend(
                region.accesses.iter().filter(|old| !is_before(old) && old.conflicts(access)).cloned(),
            );
            // What is before this access and inside it need not be looked at again: later accesses meet this one.
            region.accesses.retain(|old| {
                let replaced = access.covers(old) && is_before(old) && (access.writes || !old.writes);
                !replaced
            });
            region.accesses.push(access.clone());
        }
        races
    }

    /// Returns an access of a region that `done` does not contain.
    pub(crate) fn unfinished(&self, start: u64, done: &Clock) -> Option<Access> {
        let region = self.regions.get(&start)?;
        region.accesses.iter().find(|access| done.get(access.line) < access.time).cloned()
    }

    /// Writes values; memory outside of all regions is passed over.
    pub(crate) fn write(&mut self, start: u64, values: impl Iterator<Item = u8>) {
        let mut last: Option<(u64, u64, u64)> = None;
        for (at, value) in (start..).zip(values) {
            if last.is_none_or(|(_, end, _)| at >= end) {
                last = self.find(at).map(|(first, region)| (first, first + region.bytes, region.number));
            }
            let Some(region) = last.and_then(|(first, ..)| self.regions.get_mut(&first)) else { continue };
            let page = region.pages.entry(at / PAGE).or_insert_with(|| vec![UNSET; PAGE as usize].into());
            page[(at % PAGE) as usize] = value;
        }
    }

    /// Sets a range to one value, page by page.
    pub(crate) fn fill(&mut self, start: u64, bytes: u64, value: u8) {
        let mut at = start;
        while at < start + bytes {
            let end = (at / PAGE + 1) * PAGE;
            let end = end.min(start + bytes);
            let first = self.find(at).map(|(first, _)| first);
            if let Some(region) = first.and_then(|first| self.regions.get_mut(&first)) {
                let page = region.pages.entry(at / PAGE).or_insert_with(|| vec![UNSET; PAGE as usize].into());
                page[(at % PAGE) as usize..((end - 1) % PAGE + 1) as usize].fill(value);
            }
            at = end;
        }
    }

    pub(crate) fn read(&self, start: u64, bytes: usize) -> Vec<u8> {
        let mut values = Vec::with_capacity(bytes);
        let mut at = start;
        while values.len() < bytes {
            let end = ((at / PAGE + 1) * PAGE).min(start + bytes as u64);
            let range = (at % PAGE) as usize..((end - 1) % PAGE + 1) as usize;
            match self.find(at).and_then(|(_, region)| region.pages.get(&(at / PAGE))) {
                Some(page) => values.extend_from_slice(&page[range]),
                None => values.extend(range.map(|_| UNSET)),
            }
            at = end;
        }
        values
    }
}
