//! Growth: what a site holds beyond what it held in earlier repeats of a step, a cycle or a request; and leaks.
//!
//! `repeats` finds the repeats. A site *grew* if it holds more than in every earlier one. It *leaks* if it grew in at
//! least three of them, including the last ones, and freed nothing of it. The blocks of one call repeat nothing,
//! however many layers it has (`call`). If the floor of all memory rises by less than half of a site's growth, the site
//! replaced what another one held.

mod again;
mod call;
mod kind;
mod least;
mod repeats;
mod site_curve;
mod walk;
mod woken;
mod pace;
mod claim;
mod leaks;

use serde::Serialize;

use crate::{
    analysis::{
        AtSite, DeviceHistory, Made, Site,
        sites::{SameCalls, is_zero},
    },
    history::{Life, Moment},
    words::SeededMap,
};
use call::Calls;
pub use claim::{Claim, Doubt};
pub use kind::GrowthKind;
pub use leaks::{LeakGrowth, LeakSite};
pub use pace::Pace;
pub use repeats::RepeatedBy;
use repeats::Repeats;
use site_curve::{GrownSite, SiteCurve};
use walk::Walk;

/// The growth of one site.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct Growth {
    /// The stack, or the size if there is none.
    #[serde(skip)]
    pub site: Site,
    /// How it grew.
    pub kind: GrowthKind,
    /// The requested bytes that it holds beyond `usual_bytes`.
    #[serde(rename = "grown_bytes")]
    pub bytes: u64,
    /// The requested bytes of its blocks that the program holds.
    pub held_bytes: u64,
    /// The most requested bytes that it held in any earlier repeat; for a leak, what it had kept before the first
    /// repeat in which it grew.
    pub usual_bytes: u64,
    /// The alloc that took it above that for good.
    #[serde(rename = "began_event")]
    pub began: Moment,
    /// The number of whole repeats in which it grew.
    #[serde(rename = "grown_repeats")]
    pub n_repeats: usize,
    /// The number of its blocks that were allocated since and are held.
    #[serde(rename = "grown_blocks")]
    pub n_blocks: usize,
    /// The number of recorded stacks of its allocations.
    #[serde(rename = "stacks", skip_serializing_if = "is_zero")]
    pub n_stacks: usize,
}

impl AtSite for Growth {
    fn site(&self) -> Option<&Site> {
        Some(&self.site)
    }
}

/// The growth of all sites until a moment.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Growths {
    /// The moment from which the program repeats itself: the end of the first step, cycle or stretch.
    pub settled: Moment,
    /// What is repeated.
    pub by: RepeatedBy,
    /// The number of whole repeats.
    pub n_repeats: usize,
    /// The sites that grew, largest growth first.
    pub sites: Vec<Growth>,
}

impl Growths {
    /// Returns the bytes by which the sites grew.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.sites.iter().map(|site| site.bytes).fold(0, u64::saturating_add)
    }

    /// Returns the moment at which the first of the sites started to grow.
    #[must_use]
    pub fn began(&self) -> Option<Moment> {
        self.sites.iter().map(|site| site.began).min()
    }

    /// Returns how most of the bytes grew.
    #[must_use]
    pub fn kind(&self) -> Option<GrowthKind> {
        let of = |kind| {
            let same = self.sites.iter().filter(|site| site.kind == kind);
            same.map(|site| site.bytes).fold(0, u64::saturating_add)
        };
        let kinds = [GrowthKind::Steady, GrowthKind::Late, GrowthKind::LargerStep];
        kinds.into_iter().max_by_key(|kind| of(*kind)).filter(|kind| of(*kind) > 0)
    }
}

/// Growth below this fraction of what is held is not reported: one in this number.
const LEAST: u64 = 50;

/// Growth that gives memory back counts only if at least this fraction of it is held since its first half: one in this
/// number.
const RETAINED: u64 = 8;

/// In a history without visible repetition, a site with fewer blocks is not in a loop.
const MANY_BLOCKS: usize = 256;

/// In a sampled heap each block stands for others: fewer samples show nothing.
const MANY_SAMPLES: usize = 24;

impl DeviceHistory<'_> {
    /// Returns the growth of sites until a moment; `None` if the program repeats nothing before it.
    ///
    /// Growth since the last repeat is left out if it totals less than a fiftieth of what is held.
    #[must_use]
    pub fn growth_at(&self, moment: Moment) -> Option<Growths> {
        self.growth_with(moment, None)
    }

    /// Like [`DeviceHistory::growth_at`], as if a request of a site had succeeded at the moment.
    pub(super) fn growth_with(&self, moment: Moment, request: Option<(Site, u64)>) -> Option<Growths> {
        let requested_bytes = request.as_ref().map_or(0, |(_, bytes)| *bytes);
        let walk = Walk::new(self, moment, request);
        let held_bytes = walk.totals.last().copied().unwrap_or(0).saturating_sub(requested_bytes);
        let mut growths = self.growths(&walk)?;
        // A leak continues, however little of it the history shows.
        if growths.bytes() < held_bytes / LEAST {
            growths.sites.retain(|site| site.n_repeats > 1);
        }
        Some(growths)
    }

    /// Returns the moments at which repeats end until the end of the history; `None` if there are fewer than four.
    pub(super) fn repeat_ends(&self) -> Option<Vec<Moment>> {
        let repeats = Repeats::new(self, &Walk::new(self, self.end(), None));
        (repeats.len() >= repeats::FEWEST).then_some(repeats.ends)
    }

    /// Returns, for each stretch of time, what everything allocated in it is, if that was within one call.
    pub(super) fn made_in_one_call(&self, stretches: &[(Moment, Moment)]) -> Vec<Option<Made>> {
        let walk = Walk::new(self, self.end(), None);
        let calls = Calls::new(self, &walk);
        let around = |(first, last): &(Moment, Moment)| calls.around(walk.after(*first), walk.after(*last));
        stretches.iter().map(around).collect()
    }

    fn growths(&self, walk: &Walk) -> Option<Growths> {
        let is_sampled = self.is_sampled();
        let calls = Calls::new(self, walk);
        let n_freed = walk.changes.iter().filter(|change| !change.is_alloc).count();
        let found = (!is_sampled).then(|| Repeats::new(self, walk)).filter(|repeats| repeats.len() > 2);
        let judge = |repeats| Judge { walk, repeats, calls: &calls, is_sampled, n_freed };
        let mut growths = found.map(judge).and_then(|judge| judge.growths());
        if growths.as_ref().is_none_or(|growths| growths.n_repeats < repeats::FEWEST) {
            let of_stretches = judge(Repeats::stretches(walk)).growths();
            growths = match (growths, of_stretches) {
                (Some(growths), Some(others)) if others.sites.is_empty() => Some(growths),
                (None, Some(others)) if others.sites.is_empty() => None,
                (growths, others) => others.or(growths),
            };
        }
        let mut growths = growths?;
        if !growths.sites.is_empty() {
            let (captured, mut calls) = (self.captured_sites(walk.end), SameCalls::new(self));
            growths.sites.retain(|growth| !captured.contains(&calls.site(&growth.site)));
        }
        growths
            .sites
            .sort_by(|one, other| other.bytes.cmp(&one.bytes).then_with(|| one.site.cmp(&other.site)));
        Some(growths)
    }

    /// Whether the blocks are a sample, so that bytes are estimates.
    #[must_use]
    pub fn is_sampled(&self) -> bool {
        self.shared().records.recorded(self.device()).weight_bytes > 0
    }
}

/// Judges the sites of a history by its repeats.
struct Judge<'w, 'h, 'a> {
    walk: &'w Walk,
    repeats: Repeats,
    calls: &'w Calls<'h, 'a>,
    is_sampled: bool,
    /// The frees of all sites.
    n_freed: usize,
}

/// A site that holds more than before, with the needed part of its curve: the curves of all sites would take more
/// memory than the walk.
struct Candidate {
    site: u32,
    grown: GrownSite,
    held_bytes: u64,
    has_run_before: bool,
    is_freed_again: bool,
    gives_back: bool,
}

/// What the curves of all sites show together.
struct Curves {
    candidates: Vec<Candidate>,
    /// The number of sites that are part of a loop.
    n_loops: usize,
    /// By repeat, the number of sites that it uses, and how many of them an earlier one used too.
    uses: Vec<[usize; 2]>,
}

impl Judge<'_, '_, '_> {
    /// Returns the growth; `None` if all repeats are in one call.
    fn growths(&self) -> Option<Growths> {
        let ends = &self.repeats.ends;
        let first = *ends.first()?;
        if self.are_in_one_call(0, ends.len() - 1) || self.are_in_one_call(ends.len() / 4, ends.len() * 3 / 4)
        {
            return None;
        }
        let (curves, is_freed) = (self.curves(), self.repeats.by == RepeatedBy::Scope || self.mostly_frees());
        if self.repeats.by == RepeatedBy::Cycle && !curves.are_alike() {
            return None;
        }
        let floors = self.floors();
        let is_growth = |found: &Candidate| {
            // A single line that keeps some of what it allocates is not a loop that does something else too.
            let is_alone =
                curves.n_loops == usize::from(found.is_freed_again) && self.repeats.by != RepeatedBy::Scope;
            !is_alone
                && self.is_growth(found, &floors)
                && !self.is_turnover(found)
                && (found.grown.kind == GrowthKind::LargerStep || is_freed || self.is_many(&found.grown))
        };
        let growth = |Candidate { site, grown, held_bytes, .. }: &Candidate| {
            let used = &self.walk.sites[*site as usize];
            Growth {
                site: used.site.clone(),
                kind: grown.kind,
                bytes: grown.bytes,
                held_bytes: *held_bytes,
                usual_bytes: grown.usual_bytes,
                began: self.walk.changes[grown.first as usize].moment,
                n_repeats: grown.n_repeats,
                n_blocks: grown.n_blocks,
                n_stacks: used.n_stacks,
            }
        };
        let sites = curves.candidates.iter().filter(|found| is_growth(found)).map(growth);
        Some(Growths { settled: first, by: self.repeats.by, n_repeats: ends.len(), sites: sites.collect() })
    }

    /// Returns whether everything allocated between the ends of two repeats was within one call.
    fn are_in_one_call(&self, first: usize, last: usize) -> bool {
        let [from, to] = [first, last].map(|repeat| self.walk.after(self.repeats.ends[repeat]));
        self.calls.around(from, to).is_some()
    }

    /// Examines what each site held over the repeats.
    fn curves(&self) -> Curves {
        let ends = &self.repeats.ends;
        let mut curves = Curves { candidates: Vec::new(), n_loops: 0, uses: vec![[0; 2]; ends.len()] };
        let places = self.walk.by_site();
        for (site, (used, places)) in (0..).zip(self.walk.sites.iter().zip(places.iter())) {
            let curve = SiteCurve::new(used.start, places, self.walk, ends);
            let is_freed_again = curve.is_freed_again();
            curves.n_loops += usize::from(is_freed_again);
            for (nth, repeat) in curve.uses().enumerate() {
                curves.uses[repeat][0] += 1;
                curves.uses[repeat][1] += usize::from(nth > 0);
            }
            let Some(grown) = curve.grown(self.repeats.by != RepeatedBy::Stretch) else { continue };
            curves.candidates.push(Candidate {
                site,
                grown,
                held_bytes: curve.now.bytes,
                has_run_before: curve.has_run_before,
                is_freed_again,
                gives_back: curve.gives_back(),
            });
        }
        curves
    }

    /// Returns the minimum that is held from the start on, and from the end of each repeat on.
    fn floors(&self) -> Vec<u64> {
        let mut floors = Vec::new();
        let (mut floor, mut at) = (u64::MAX, self.walk.totals.len());
        for end in self.repeats.ends.iter().rev() {
            let place = self.walk.after(*end).saturating_sub(1).min(at);
            floor = self.walk.totals[place..at].iter().copied().fold(floor, u64::min);
            at = place;
            floors.push(floor);
        }
        let start = self.walk.sites.iter().fold(0, |sum: u64, used| sum.saturating_add(used.start.bytes));
        floors.push(self.walk.totals.iter().copied().fold(start, u64::min));
        floors.reverse();
        floors
    }

    /// Returns whether a site that gives memory back holds nothing of what it took in the first half of its growth: all
    /// of its blocks are replaced, as in a cache, and having more of them is chance.
    fn is_turnover(&self, Candidate { site, grown, gives_back, .. }: &Candidate) -> bool {
        let (ends, first) = (&self.repeats.ends, grown.before.map_or(0, |before| before + 1));
        let middle = ends.get(first.midpoint(ends.len())).copied().unwrap_or(self.walk.end);
        grown.kind == GrowthKind::Steady
            && *gives_back
            && self.walk.held_since(*site, middle) < grown.bytes / RETAINED
    }

    fn is_growth(&self, Candidate { grown, has_run_before, .. }: &Candidate, floors: &[u64]) -> bool {
        let made = || self.calls.around(grown.first as usize, grown.last as usize + 1);
        match grown.kind {
            GrowthKind::LargerStep => true,
            // If a program does something for the first time and is known to do it once, there is nothing to compare it
            // with.
            GrowthKind::Late if grown.n_repeats == 0 => {
                *has_run_before || made().is_none_or(|made| made == Made::Activations)
            }
            GrowthKind::Late | GrowthKind::Steady => {
                let before = floors[grown.before.map_or(0, |repeat| repeat + 1)];
                let risen = floors.last().map_or(0, |last| last.saturating_sub(before));
                risen >= grown.bytes / 2 && self.is_loop(grown) && made().is_none()
            }
        }
    }

    /// Returns whether most of what was allocated since the first repeat was freed. A loop gives back most of what it
    /// takes, while the layers of a first step keep most of it for the backward pass.
    fn mostly_frees(&self) -> bool {
        let ends = &self.repeats.ends;
        let [from, to] = [ends.first(), ends.last()].map(|end| end.map_or(0, |end| self.walk.after(*end)));
        let of = |is_alloc: bool| {
            let since = self.walk.changes[from..to].iter().filter(|change| change.is_alloc == is_alloc);
            since.fold(0_u128, |sum, change| sum + u128::from(change.bytes))
        };
        of(false) * 2 >= of(true)
    }

    /// Whether the history is long enough to show a loop where no repeat is seen.
    fn is_loop(&self, grown: &GrownSite) -> bool {
        self.repeats.by != RepeatedBy::Stretch || self.is_many(grown)
    }

    /// Whether a site has so many blocks that it is in a loop.
    fn is_many(&self, grown: &GrownSite) -> bool {
        match self.is_sampled {
            true => grown.n_blocks >= MANY_SAMPLES && self.n_freed * 4 >= grown.n_blocks,
            // A loop frees something in each round, where a program that loads weights frees little.
            false => grown.n_blocks >= MANY_BLOCKS && self.n_freed >= grown.n_blocks,
        }
    }
}

impl Curves {
    /// Returns whether at least two of the repeats mostly use sites that an earlier one used.
    fn are_alike(&self) -> bool {
        let is_alike = |[n_used, n_known]: &&[usize; 2]| n_known * 2 >= (*n_used).max(1);
        self.uses.iter().skip(1).filter(is_alike).count() >= 2
    }
}

impl DeviceHistory<'_> {
    /// Returns the entries that allocated the blocks by which sites grew until a moment: for each site its newest
    /// blocks, as many as make up the bytes of its growth.
    #[must_use]
    pub fn grown_blocks(&self, growths: &Growths, moment: Moment) -> Vec<usize> {
        let mut calls = SameCalls::new(self);
        let mut left: SeededMap<Site, u64> =
            growths.sites.iter().map(|growth| (calls.site(&growth.site), growth.bytes)).collect();
        let mut held: Vec<&Life> =
            self.lives_at(moment).filter(|life| life.is_allocated_at(moment)).collect();
        held.sort_by_key(|life| std::cmp::Reverse(life.from));
        let mut entries = Vec::new();
        for life in held {
            let Some(left_bytes) =
                left.get_mut(&calls.site(&Site::from_life(life))).filter(|left| **left > 0)
            else {
                continue;
            };
            *left_bytes = left_bytes.saturating_sub(life.represented_bytes);
            entries.extend(life.from.entry());
        }
        entries.sort_unstable();
        entries
    }
}
