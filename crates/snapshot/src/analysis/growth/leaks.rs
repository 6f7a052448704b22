//! Blocks that are live at the end, and the claims about their sites; and blocks that outlive a scope.

use serde::Serialize;

use super::{
    Growth, GrowthKind,
    claim::{Claim, Doubt},
};
use crate::{
    analysis::{
        AtSite, DeviceHistory, Group, Made, Site,
        sites::{SameCalls, SiteKey, SiteKeys, is_zero},
    },
    history::{Life, Moment},
    words::SeededMap,
};

/// A site whose blocks are in use at the end.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct LeakSite {
    /// The stack, or the size if there is none.
    #[serde(skip)]
    pub site: Site,
    /// The requested bytes of its live blocks.
    pub bytes: u64,
    /// The number of its live blocks.
    #[serde(rename = "live")]
    pub n_live: usize,
    /// The number of its allocations: over the whole run if the file has that
    /// ([`Snapshot::allocated`](crate::model::Snapshot::allocated)), otherwise within the history.
    #[serde(rename = "allocated")]
    pub n_allocated: usize,
    /// The number of these whose block is already free at the end.
    #[serde(rename = "freed")]
    pub n_freed: usize,
    /// The alloc of its oldest live block; [`Moment::START`] if it came before the history.
    #[serde(rename = "oldest_event")]
    pub oldest: Moment,
    /// The alloc of its newest live block.
    #[serde(rename = "newest_event")]
    pub newest: Moment,
    /// The requested bytes of its live blocks after each quarter of the history.
    #[serde(rename = "bytes_after_each_quarter")]
    pub quarters: [u64; 4],
    /// Whether more is live after each quarter than after the previous one, with a block from each quarter. Weights,
    /// and caches that fill up early, do not grow in this way.
    pub is_growing: bool,
    /// How it grew since the program settled ([`DeviceHistory::growth_at`]); `None` if it did not.
    pub growth: Option<LeakGrowth>,
    /// The number of recorded stacks of its allocations.
    #[serde(rename = "stacks", skip_serializing_if = "is_zero")]
    pub n_stacks: usize,
    /// The claim about it.
    pub claim: Claim,
    /// Why it is only perhaps a leak; `None` for other claims.
    pub doubt: Option<Doubt>,
    /// What its blocks are, according to the frames of its stack, if they are created once and kept; `None` for others,
    /// and for what grew.
    pub made: Option<Made>,
}

impl AtSite for LeakSite {
    fn site(&self) -> Option<&Site> {
        Some(&self.site)
    }
}

/// How a site grew until the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct LeakGrowth {
    /// How.
    pub kind: GrowthKind,
    /// The requested bytes that it holds beyond its usual level.
    #[serde(rename = "grown_bytes")]
    pub bytes: u64,
    /// The number of its blocks that were allocated since the growth started and are held.
    #[serde(rename = "grown_blocks")]
    pub n_blocks: usize,
    /// The alloc that took it above its usual level for good.
    #[serde(rename = "began_event")]
    pub began: Moment,
    /// The number of whole repeats in which it grew.
    #[serde(rename = "grown_repeats")]
    pub n_repeats: usize,
}

impl LeakSite {
    /// Determines the claim. `is_repeated` is whether the history repeats anything, `n_freed` covers all sites.
    fn decided(&self, is_repeated: bool, is_sampled: bool, n_freed: usize) -> Claim {
        match self.growth {
            Some(growth) => match (growth.kind, growth.n_repeats) {
                (GrowthKind::Steady, _) => Claim::Leak,
                (GrowthKind::LargerStep, _) => Claim::Held,
                (GrowthKind::Late, 0) if growth.n_blocks < 2 => Claim::Held,
                (GrowthKind::Late, 0 | 1) => Claim::Grew,
                (GrowthKind::Late, n) => Claim::MayBeALeak(Doubt::FewRepeats(n)),
            },
            None if !self.is_growing || self.made.is_some() => Claim::Held,
            None if is_sampled && self.n_freed == 0 => Claim::MayBeALeak(Doubt::FewSamples(self.n_live)),
            // A program that loads weights frees little meanwhile.
            None if !is_repeated && self.n_live <= n_freed => Claim::MayBeALeak(Doubt::NothingRepeated),
            None => Claim::Held,
        }
    }

    /// Returns whether the site is a leak.
    #[must_use]
    pub fn is_leak(&self) -> bool {
        self.claim == Claim::Leak
    }

    /// Returns the bytes by which it grew, or everything that it holds if that is not known.
    #[must_use]
    pub fn grown_bytes(&self) -> u64 {
        self.growth.map_or(self.bytes, |growth| growth.bytes)
    }

    /// The order in which sites are listed: leaks, what grew, what may be a leak, and the others.
    fn rank(&self) -> u8 {
        match self.claim {
            Claim::Leak => 0,
            Claim::Grew => 1,
            Claim::MayBeALeak(_) => 2,
            Claim::Held => 3,
        }
    }
}

impl DeviceHistory<'_> {
    /// Returns the sites with blocks that the program holds at the end, each with its claim: first leaks, then what
    /// grew, what may be a leak, and the others; within each, those with the most bytes come first.
    #[must_use]
    pub fn leaks(&self) -> Vec<LeakSite> {
        let end = self.end();
        let quarters: [Moment; 4] = std::array::from_fn(|at| {
            let n = u64::from(end.0) * (at as u64 + 1) / 4;
            Moment(u32::try_from(n).unwrap_or(end.0))
        });
        let mut sites: SeededMap<Site, LeakSite> = SeededMap::default();
        for life in self.lives() {
            let found =
                sites.entry(Site::from_life(life)).or_insert_with_key(|site| LeakSite::new(site.clone()));
            found.add(life, end, quarters);
        }
        let mut sites: Vec<LeakSite> = sites.into_values().collect();
        sites.sort_by(|one, other| other.bytes.cmp(&one.bytes).then_with(|| one.site.cmp(&other.site)));
        let mut calls = SameCalls::new(self);
        let mut sites = calls.add_up(sites, |site| &site.site, LeakSite::join);
        let n_freed = sites.iter().map(|site| site.n_freed).sum();
        sites.retain(|site| site.n_live > 0);
        self.count_over_run(&mut sites);
        sites.iter_mut().for_each(LeakSite::judge);
        let is_repeated = self.add_growth(&mut sites, &mut calls);
        let (shown, is_sampled) = (self.shown_frames(), self.is_sampled());
        let captured = self.captured_sites(end);
        for site in &mut sites {
            site.made = match site.site {
                _ if captured.contains(&calls.site(&site.site)) => Some(Made::Graph),
                Site::Stack(stack) if site.growth.is_none() => Made::of(&shown, stack),
                _ => None,
            };
            site.claim = site.decided(is_repeated, is_sampled, n_freed);
        }
        self.clear_of_one_call(&mut sites, &mut calls);
        sites.iter_mut().for_each(|site| site.doubt = site.claim.doubt());
        sites.sort_by(|one, other| {
            let key = |site: &LeakSite| (site.rank(), std::cmp::Reverse(site.bytes));
            key(one).cmp(&key(other)).then_with(|| one.site.cmp(&other.site))
        });
        sites
    }

    /// Sets what the blocks of possible leaks are, if all that they kept from the history was created in one call, such
    /// as the gradients of a backward pass.
    fn clear_of_one_call(&self, sites: &mut [LeakSite], calls: &mut SameCalls<'_, '_>) {
        let is_doubted = |site: &LeakSite| site.claim == Claim::MayBeALeak(Doubt::NothingRepeated);
        if !sites.iter().any(is_doubted) {
            return;
        }
        let mut oldest: SeededMap<Site, Moment> = SeededMap::default();
        for life in self.lives_at(self.end()).filter(|life| !life.is_from_before()) {
            let first = oldest.entry(calls.site(&Site::from_life(life))).or_insert(life.from);
            *first = life.from.min(*first);
        }
        let mut doubted: Vec<&mut LeakSite> = sites.iter_mut().filter(|site| is_doubted(site)).collect();
        let mut of_history = |site: &LeakSite| oldest.get(&calls.site(&site.site)).copied();
        let stretches: Vec<_> =
            doubted.iter().map(|site| (of_history(site).unwrap_or(site.oldest), site.newest)).collect();
        for (site, made) in doubted.iter_mut().zip(self.made_in_one_call(&stretches)) {
            if made.is_some() {
                (site.made, site.claim) = (made, Claim::Held);
            }
        }
    }

    /// Counts what sites allocated over the whole run, if a recorder has that: the history may have only the newest
    /// events.
    fn count_over_run(&self, sites: &mut [LeakSite]) {
        let Some(run) = self.snapshot().allocated(self.device()) else { return };
        let of_run = DeviceHistory::new(&run.stacks, self.device());
        let (shown, shown_of_run) = (self.shown_frames(), of_run.shown_frames());
        let mut keys = SiteKeys::default();
        // None if sites that are separate here have one key.
        let mut counts: SeededMap<SiteKey, Option<usize>> = SeededMap::default();
        for group in of_run.groups_of(&run) {
            let count = counts.entry(keys.of(&group.site, &shown_of_run));
            count.and_modify(|n| *n = None).or_insert(Some(group.n_blocks));
        }
        for site in sites.iter_mut().filter(|site| matches!(site.site, Site::Stack(_))) {
            if let Some(&Some(n)) = counts.get(&keys.of(&site.site, &shown)) {
                site.n_allocated = n.max(site.n_allocated);
                site.n_freed = n.saturating_sub(site.n_live).max(site.n_freed);
            }
        }
    }

    /// Adds how sites grew, and returns whether the program repeats anything.
    fn add_growth(&self, sites: &mut [LeakSite], calls: &mut SameCalls<'_, '_>) -> bool {
        let Some(growths) = self.growth_at(self.end()) else { return false };
        let grown: SeededMap<Site, Growth> =
            growths.sites.into_iter().map(|growth| (calls.site(&growth.site), growth)).collect();
        for site in sites {
            site.growth = grown.get(&calls.site(&site.site)).map(|growth| LeakGrowth {
                kind: growth.kind,
                bytes: growth.bytes,
                n_blocks: growth.n_blocks,
                began: growth.began,
                n_repeats: growth.n_repeats,
            });
        }
        true
    }
}

impl LeakSite {
    fn new(site: Site) -> LeakSite {
        LeakSite {
            n_stacks: usize::from(matches!(site, Site::Stack(_))),
            claim: Claim::Held,
            doubt: None,
            made: None,
            site,
            bytes: 0,
            n_live: 0,
            n_allocated: 0,
            n_freed: 0,
            oldest: Moment::NEVER,
            newest: Moment::START,
            quarters: [0; 4],
            is_growing: false,
            growth: None,
        }
    }

    fn judge(&mut self) {
        let is_rising = self.quarters[0] > 0 && self.quarters.windows(2).all(|pair| pair[0] < pair[1]);
        self.is_growing = is_rising && self.n_live >= self.quarters.len();
    }

    /// Adds the blocks of another stack of the same site.
    fn join(&mut self, other: LeakSite) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.n_live += other.n_live;
        self.n_allocated += other.n_allocated;
        self.n_freed += other.n_freed;
        self.oldest = self.oldest.min(other.oldest);
        self.newest = self.newest.max(other.newest);
        for (sum, bytes) in self.quarters.iter_mut().zip(other.quarters) {
            *sum = sum.saturating_add(bytes);
        }
        self.n_stacks += other.n_stacks;
    }

    fn add(&mut self, life: &Life, end: Moment, quarters: [Moment; 4]) {
        let bytes = life.represented_bytes;
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
    /// Returns the blocks that were allocated between two moments and that the program still holds at the second, by
    /// site. Between the ends of two equal scopes there should be none. `None` if the second moment is before the
    /// first.
    #[must_use]
    pub fn grown_between(&self, first: Moment, second: Moment) -> Option<Vec<Group>> {
        if second < first {
            return None;
        }
        let lives = self.lives().iter();
        Some(self.by_calls(lives.filter(|life| life.from > first && life.is_allocated_at(second))))
    }

    /// Returns the blocks that the program holds at the end and has held for at least `n_entries` entries, by site. How
    /// long it has held the blocks of [`DeviceHistory::from_before`] is not known; they are older than the history, and
    /// count with its length.
    #[must_use]
    pub fn older_than(&self, n_entries: usize) -> Vec<Group> {
        let end = self.end().n_entries();
        let is_old = |life: &&Life| {
            life.is_allocated_at(self.end()) && end - life.from.n_entries().min(end) >= n_entries
        };
        self.by_calls(self.lives().iter().filter(is_old))
    }

    /// Returns the blocks from before the history that the program holds at the end, by site.
    #[must_use]
    pub fn from_before(&self) -> Vec<Group> {
        let is_held = |life: &&Life| life.is_from_before() && life.is_allocated_at(self.end());
        self.by_calls(self.lives().iter().filter(is_held))
    }
}
