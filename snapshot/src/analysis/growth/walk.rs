//! The blocks of a history as changes of what sites hold, in the order of the entries.

use crate::{
    analysis::{same_calls::SameCalls, site::Site, state::DeviceHistory},
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
pub(super) struct Held {
    pub(super) bytes: u64,
    pub(super) n_blocks: usize,
}

impl Held {
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
pub(super) struct Used {
    pub(super) site: Site,
    pub(super) n_stacks: usize,
    pub(super) start: Held,
}

/// The changes of a history until a moment, and the sites that they are of.
#[derive(Debug)]
pub(super) struct Walk {
    pub(super) end: Moment,
    pub(super) sites: Vec<Used>,
    pub(super) changes: Vec<Change>,
    /// Behind each change, what all sites hold.
    pub(super) totals: Vec<u64>,
}

impl Walk {
    /// Walks until a moment, as if a request of a site had been served there.
    pub(super) fn new(history: &DeviceHistory<'_>, end: Moment, request: Option<(Site, u64)>) -> Walk {
        let mut calls = SameCalls::new(history);
        let mut numbers: SeededMap<Site, u32> = SeededMap::default();
        let mut walk = Walk { end, sites: Vec::new(), changes: Vec::new(), totals: Vec::new() };
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
        for life in history.lives().iter().filter(|life| life.from <= end) {
            let site = number(&mut walk, Site::from_life(life));
            walk.add(life, site);
        }
        if let Some((site, bytes)) = request {
            let stack = if let Site::Stack(stack) = site { Some(stack) } else { None };
            let site = number(&mut walk, site);
            walk.changes.push(Change { moment: end, site, bytes, is_alloc: true, stack });
        }
        walk.changes.sort_by_key(|change| change.moment);
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
        self.sites.push(Used { site, n_stacks: 0, start: Held::default() });
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
        if life.requested.min(life.until) <= self.end {
            self.changes.push(change(life.requested.min(life.until), false));
        }
    }

    /// Returns the changes of each site, by the places of the changes, in their order.
    pub(super) fn by_site(&self) -> Vec<Vec<u32>> {
        let mut places: Vec<Vec<u32>> = vec![Vec::new(); self.sites.len()];
        for (place, change) in (0..).zip(&self.changes) {
            places[change.site as usize].push(place);
        }
        places
    }

    /// Returns the place of the first change after a moment.
    pub(super) fn after(&self, moment: Moment) -> usize {
        self.changes.partition_point(|change| change.moment <= moment)
    }
}
