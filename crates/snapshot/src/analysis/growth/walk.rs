//! Represents the blocks of a history as changes of what sites hold, in the order of the entries.

use super::woken::WokenRanges;
use crate::{
    analysis::{DeviceHistory, Site, sites::SameCalls},
    history::{Life, Moment},
    model::StackIndex,
    words::SeededMap,
};

/// A change of what a site holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    pub(super) moment: Moment,
    /// The number of the site.
    pub(super) site: u32,
    pub(super) bytes: u64,
    pub(super) is_alloc: bool,
    pub(super) stack: Option<StackIndex>,
}

/// What a site holds.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct HeldBlocks {
    pub(super) bytes: u64,
    pub(super) n_blocks: usize,
}

impl HeldBlocks {
    pub(super) fn apply(&mut self, change: Change) {
        if change.is_alloc {
            self.bytes = self.bytes.saturating_add(change.bytes);
            self.n_blocks += 1;
        } else {
            self.bytes = self.bytes.saturating_sub(change.bytes);
            self.n_blocks = self.n_blocks.saturating_sub(1);
        }
    }
}

/// A site with what it held before the history.
#[derive(Debug)]
pub(super) struct UsedSite {
    pub(super) site: Site,
    pub(super) n_stacks: usize,
    pub(super) start: HeldBlocks,
}

/// The changes of each site of a walk.
#[derive(Debug)]
pub(super) struct BySite {
    /// The places of the changes: those of the first site, then those of the second, and so on.
    places: Vec<u32>,
    /// The end of each site's places.
    ends: Vec<usize>,
}

impl BySite {
    /// Returns the places of the changes of each site, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &[u32]> {
        let begins = std::iter::once(&0).chain(&self.ends);
        begins.zip(&self.ends).map(|(begin, end)| &self.places[*begin..*end])
    }
}

/// The changes of a history until a moment, and their sites.
#[derive(Debug)]
pub(super) struct Walk {
    pub(super) end: Moment,
    pub(super) sites: Vec<UsedSite>,
    pub(super) changes: Vec<Change>,
    /// What all sites hold after each change.
    pub(super) totals: Vec<u64>,
    /// The blocks that are held at the end: their sites, since when, and their bytes, in this order.
    held: Vec<(u32, Moment, u64)>,
}

impl Walk {
    /// Walks until a moment, as if a request of a site had succeeded there.
    pub(super) fn new(history: &DeviceHistory<'_>, end: Moment, request: Option<(Site, u64)>) -> Walk {
        let mut calls = SameCalls::new(history);
        let mut numbers: SeededMap<Site, u32> = SeededMap::default();
        let mut walk =
            Walk { end, sites: Vec::new(), changes: Vec::new(), totals: Vec::new(), held: Vec::new() };
        let mut number = |walk: &mut Walk, own: Site| match numbers.get(&own) {
            Some(number) => *number,
            None => {
                let site = calls.site(&own);
                let number = *numbers.entry(site.clone()).or_insert_with(|| walk.new_site(site));
                walk.sites[number as usize].n_stacks += usize::from(matches!(own, Site::Stack(_)));
                numbers.insert(own, number);
                number
            }
        };
        let mut woken = WokenRanges::new(history.entries());
        for life in history.lives().iter().filter(|life| life.from <= end) {
            let life = woken.of(life);
            let site = number(&mut walk, Site::from_life(&life));
            walk.add(&life, site);
        }
        if let Some((site, bytes)) = request {
            let stack = if let Site::Stack(stack) = site { Some(stack) } else { None };
            let site = number(&mut walk, site);
            walk.changes.push(Change { moment: end, site, bytes, is_alloc: true, stack });
        }
        walk.changes.sort_by_key(|change| change.moment);
        walk.held.sort_unstable();
        let mut now = walk.sites.iter().fold(0, |sum: u64, used| sum.saturating_add(used.start.bytes));
        walk.totals = Vec::with_capacity(walk.changes.len());
        for change in &walk.changes {
            now = match change.is_alloc {
                true => now.saturating_add(change.bytes),
                false => now.saturating_sub(change.bytes),
            };
            walk.totals.push(now);
        }
        walk
    }

    fn new_site(&mut self, site: Site) -> u32 {
        self.sites.push(UsedSite { site, n_stacks: 0, start: HeldBlocks::default() });
        u32::try_from(self.sites.len() - 1).unwrap_or(u32::MAX)
    }

    fn add(&mut self, life: &Life, site: u32) {
        let change = |moment, is_alloc| Change {
            moment,
            site,
            bytes: life.represented_bytes,
            is_alloc,
            stack: life.stack,
        };
        if !life.is_from_before() {
            self.changes.push(change(life.from, true));
        } else if life.is_allocated_at(Moment::START) {
            self.sites[site as usize].start.apply(change(Moment::START, true));
        } else {
            return;
        }
        match life.requested.min(life.until) {
            freed if freed <= self.end => self.changes.push(change(freed, false)),
            _ => self.held.push((site, life.from, life.represented_bytes)),
        }
    }

    /// Returns the changes of each site in order, by the places of the changes.
    pub(super) fn by_site(&self) -> BySite {
        let mut ends = vec![0_usize; self.sites.len() + 1];
        for change in &self.changes {
            ends[change.site as usize + 1] += 1;
        }
        for site in 1..ends.len() {
            ends[site] += ends[site - 1];
        }
        let mut places = vec![0; self.changes.len()];
        // The position for a site's next place, which in the end is the start of the next site.
        for (place, change) in (0..).zip(&self.changes) {
            let next = &mut ends[change.site as usize];
            places[*next] = place;
            *next += 1;
        }
        BySite { places, ends }
    }

    /// Returns the bytes of the blocks of a site that are held at least since a moment.
    pub(super) fn held_since(&self, site: u32, moment: Moment) -> u64 {
        let first = self.held.partition_point(|(of, ..)| *of < site);
        let of_site = self.held[first..].iter().take_while(|(of, from, _)| *of == site && *from <= moment);
        of_site.fold(0, |sum: u64, (.., bytes)| sum.saturating_add(*bytes))
    }

    /// Returns the place of the first change after a moment.
    pub(super) fn after(&self, moment: Moment) -> usize {
        self.changes.partition_point(|change| change.moment <= moment)
    }
}
