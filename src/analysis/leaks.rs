//! Blocks that live at the end and need not: sites that only grow, and what a scope left behind.

use rustc_hash::FxHashMap;

use super::{
    state::DeviceHistory,
    top::{Group, Site, grouped},
};
use crate::history::{Life, Moment};

/// A site whose blocks are in use at the end.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct LeakSite {
    /// The stack, or the size where there is none.
    pub site: Site,
    /// What its live blocks had asked for.
    pub bytes: u64,
    /// How many they are.
    pub n_live: usize,
    /// How often it allocated within the history.
    pub n_allocated: usize,
    /// How many of these are free again.
    pub n_freed: usize,
    /// The first alloc of a block that is still live; [`Moment::START`] if before the history.
    pub oldest: Moment,
    /// The last one.
    pub newest: Moment,
    /// Its bytes in use after each quarter of the history.
    pub quarters: [u64; 4],
}

impl LeakSite {
    /// Whether more is in use after each quarter than before it, with a block for each: what
    /// weights and caches that fill up early do not do.
    #[must_use]
    pub fn is_growing(&self) -> bool {
        self.n_live >= 4 && self.quarters[0] > 0 && self.quarters.windows(2).all(|pair| pair[0] < pair[1])
    }
}

impl DeviceHistory<'_> {
    /// Returns the sites with blocks that the program holds at the end: the growing ones first, then by
    /// bytes.
    #[must_use]
    pub fn leaks(&self) -> Vec<LeakSite> {
        leaks(self)
    }
}

fn leaks(history: &DeviceHistory<'_>) -> Vec<LeakSite> {
    let end = history.end();
    let quarters: [Moment; 4] = std::array::from_fn(|at| {
        let n = u64::from(end.0) * (at as u64 + 1) / 4;
        Moment(u32::try_from(n).unwrap_or(end.0))
    });
    let mut sites: FxHashMap<Site, LeakSite> = FxHashMap::default();
    for life in history.lives() {
        let found = sites.entry(Site::of(life)).or_insert_with_key(|site| LeakSite::new(site.clone()));
        found.add(life, end, quarters);
    }
    let mut sites: Vec<LeakSite> = sites.into_values().filter(|site| site.n_live > 0).collect();
    sites.sort_by(|one, other| {
        let key = |site: &LeakSite| (site.is_growing(), site.bytes);
        key(other).cmp(&key(one)).then_with(|| one.site.cmp(&other.site))
    });
    sites
}

impl LeakSite {
    fn new(site: Site) -> LeakSite {
        LeakSite {
            site,
            bytes: 0,
            n_live: 0,
            n_allocated: 0,
            n_freed: 0,
            oldest: Moment::NEVER,
            newest: Moment::START,
            quarters: [0; 4],
        }
    }

    fn add(&mut self, life: &Life, end: Moment, quarters: [Moment; 4]) {
        let bytes = life.requested_bytes;
        for (sum, moment) in self.quarters.iter_mut().zip(quarters) {
            *sum = sum.saturating_add(if life.is_allocated_at(moment) { bytes } else { 0 });
        }
        self.n_allocated += usize::from(!life.is_from_before());
        if life.is_allocated_at(end) {
            self.bytes = self.bytes.saturating_add(bytes);
            self.n_live += 1;
            self.oldest = self.oldest.min(life.from);
            self.newest = self.newest.max(life.from);
        } else {
            self.n_freed += usize::from(!life.is_from_before());
        }
    }
}

impl DeviceHistory<'_> {
    /// Returns the blocks that were allocated after one moment and not after a second, and are held at
    /// the second. Between the ends of two equal scopes nothing should be left.
    #[must_use]
    pub fn grown_between(&self, first: Moment, second: Moment) -> Vec<Group> {
        let lives = self.lives().iter();
        grouped(lives.filter(|life| life.from > first && life.is_allocated_at(second)), Site::of)
    }

    /// Returns the blocks that the program holds at the end and has held for at least `n_entries` entries.
    #[must_use]
    pub fn older_than(&self, n_entries: usize) -> Vec<Group> {
        let end = self.end().n_entries();
        let is_old = |life: &&Life| {
            life.is_allocated_at(self.end()) && end - life.from.n_entries().min(end) >= n_entries
        };
        grouped(self.lives().iter().filter(is_old), Site::of)
    }
}
