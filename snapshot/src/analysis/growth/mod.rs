//! Growth: what a site holds beyond what it held in earlier repeats of a step, a cycle or a request.
//!
//! `repeats` finds the repeats. A site *grew* if it holds more than in every earlier one. It *leaks* if it grew in at least three
//! of them, the last ones among these, and gave nothing back. The blocks of one call repeat nothing, however many layers it has
//! (`call`). Where the floor of all memory rises by less than half of what a site grew, the site replaced what another held.

mod call;
mod kind;
mod repeats;
mod site_curve;
mod walk;

use serde::Serialize;

use super::{made::Made, same_calls::SameCalls, site::Site, state::DeviceHistory, top::is_zero};
use crate::{
    history::{Life, Moment},
    words::SeededMap,
};
use call::Calls;
pub use kind::GrowthKind;
pub use repeats::By as RepeatedBy;
use repeats::{By, Repeats};
use site_curve::SiteCurve;
use walk::Walk;

/// The growth of one site.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct Growth {
    /// The stack, or the size where there is none.
    #[serde(skip)]
    pub site: Site,
    /// How it grew.
    pub kind: GrowthKind,
    /// The requested bytes that it holds beyond `usual_bytes`.
    #[serde(rename = "grown_bytes")]
    pub bytes: u64,
    /// The requested bytes of its blocks that the program holds.
    pub held_bytes: u64,
    /// The most requested bytes that it held in any earlier repeat; of a leak, what it had kept before the first repeat in
    /// which it grew.
    pub usual_bytes: u64,
    /// The alloc that took it above that, where it stayed.
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

/// The growth of all sites until a moment.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Growths {
    /// The moment from which the program repeats itself: the end of the first step, cycle or stretch.
    pub settled: Moment,
    /// What is repeated.
    pub by: By,
    /// The number of whole repeats.
    pub n_repeats: usize,
    /// The sites that grew, the one that grew most first.
    pub sites: Vec<Growth>,
}

impl Growths {
    /// Returns the bytes by which the sites grew.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.sites.iter().map(|site| site.bytes).fold(0, u64::saturating_add)
    }

    /// Returns the moment at which the first of the sites began to grow.
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

/// Growth below this part of what is held is no finding: one in this number.
const LEAST: u64 = 50;

/// In a history in which nothing is repeated that is seen, a site with fewer blocks is no loop.
const MANY_BLOCKS: usize = 256;

/// Of a sampled heap, each block stands for others: fewer show nothing.
const MANY_SAMPLES: usize = 24;

impl DeviceHistory<'_> {
    /// Returns the growth of sites until a moment; `None` if the program repeats nothing before it.
    ///
    /// Growth since the last repeat is left out if all of it is less than a fiftieth of what is held.
    #[must_use]
    pub fn growth_at(&self, moment: Moment) -> Option<Growths> {
        self.growth_with(moment, None)
    }

    /// Like [`DeviceHistory::growth_at`], as if a request of a site had been served at the moment.
    pub(super) fn growth_with(&self, moment: Moment, request: Option<(Site, u64)>) -> Option<Growths> {
        let requested_bytes = request.as_ref().map_or(0, |(_, bytes)| *bytes);
        let walk = Walk::new(self, moment, request);
        let held_bytes = walk.totals.last().copied().unwrap_or(0).saturating_sub(requested_bytes);
        let mut growths = self.growths(&walk)?;
        // A leak goes on, however little of it the history shows.
        if growths.bytes() < held_bytes / LEAST {
            growths.sites.retain(|site| site.n_repeats > 1);
        }
        Some(growths)
    }

    fn growths(&self, walk: &Walk) -> Option<Growths> {
        let is_sampled = self.is_sampled();
        let calls = Calls::new(self);
        let found = (!is_sampled).then(|| Repeats::new(self, walk)).filter(|repeats| repeats.len() > 2);
        let judge = |repeats| Judge { walk, repeats, calls: &calls, is_sampled };
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
}

impl Judge<'_, '_, '_> {
    /// Returns what grew; `None` if all repeats are in one call.
    fn growths(&self) -> Option<Growths> {
        let ends = &self.repeats.ends;
        let first = *ends.first()?;
        if self.are_in_one_call(0, ends.len() - 1) || self.are_in_one_call(ends.len() / 4, ends.len() * 3 / 4)
        {
            return None;
        }
        let (curves, is_freed) = (self.curves(), self.repeats.by == By::Scope || self.mostly_frees());
        // One line that keeps some of what it allocates is no loop that does something else too.
        let n_loops = curves.iter().filter(|curve| curve.is_freed_again()).count();
        if self.repeats.by == By::Cycle && !is_alike(&curves, ends.len()) {
            return None;
        }
        let floors = self.floors();
        let sites = curves.iter().zip(&self.walk.sites).filter_map(|(curve, used)| {
            let grown = curve.grown(self.repeats.by != By::Stretch)?;
            let is_alone = n_loops == usize::from(curve.is_freed_again());
            if is_alone && self.repeats.by != By::Scope || !self.is_growth(curve, &grown, &floors) {
                return None;
            }
            if grown.kind != GrowthKind::LargerStep && !is_freed && !self.is_many(&grown) {
                return None;
            }
            Some(Growth {
                site: used.site.clone(),
                kind: grown.kind,
                bytes: grown.bytes,
                held_bytes: curve.now.bytes,
                usual_bytes: grown.usual_bytes,
                began: self.walk.changes[grown.first as usize].moment,
                n_repeats: grown.n_repeats,
                n_blocks: grown.n_blocks,
                n_stacks: used.n_stacks,
            })
        });
        Some(Growths { settled: first, by: self.repeats.by, n_repeats: ends.len(), sites: sites.collect() })
    }

    /// Whether all that was allocated between the ends of two repeats was within one call.
    fn are_in_one_call(&self, first: usize, last: usize) -> bool {
        let [from, to] = [first, last].map(|repeat| self.walk.after(self.repeats.ends[repeat]));
        self.calls.around(self.walk, from, to).is_some()
    }

    /// Returns what each site held over the repeats.
    fn curves(&self) -> Vec<SiteCurve> {
        let places = self.walk.by_site();
        let of_site = |(used, places): (&walk::Used, &Vec<u32>)| {
            SiteCurve::new(used.start, places, self.walk, &self.repeats.ends)
        };
        self.walk.sites.iter().zip(&places).map(of_site).collect()
    }

    /// Returns the least that is held from the end of each repeat on.
    fn floors(&self) -> Vec<u64> {
        let mut floors = Vec::new();
        let (mut floor, mut at) = (u64::MAX, self.walk.totals.len());
        for end in self.repeats.ends.iter().rev() {
            let place = self.walk.after(*end).saturating_sub(1).min(at);
            floor = self.walk.totals[place..at].iter().copied().fold(floor, u64::min);
            at = place;
            floors.push(floor);
        }
        floors.reverse();
        floors
    }

    fn floor_at_start(&self) -> u64 {
        let start = self.walk.sites.iter().fold(0, |sum: u64, used| sum.saturating_add(used.start.bytes));
        self.walk.totals.iter().copied().fold(start, u64::min)
    }

    fn is_growth(&self, curve: &SiteCurve, grown: &site_curve::Grown, floors: &[u64]) -> bool {
        let made = || self.calls.around(self.walk, grown.first as usize, grown.last as usize + 1);
        match grown.kind {
            GrowthKind::LargerStep => true,
            // What a program does for the first time has nothing to be compared with, where it is known to be done once.
            GrowthKind::Late if grown.n_repeats == 0 => {
                curve.has_run_before || made().is_none_or(|made| made == Made::Activations)
            }
            GrowthKind::Late | GrowthKind::Steady => {
                let before = grown.before.map_or(self.floor_at_start(), |repeat| floors[repeat]);
                let risen = floors.last().map_or(0, |last| last.saturating_sub(before));
                risen >= grown.bytes / 2 && self.is_loop(grown) && made().is_none()
            }
        }
    }

    /// Whether most of what was allocated since the first repeat was freed. A loop gives back most of what it takes, where the
    /// layers of a first step keep most of it for the way back.
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
    fn is_loop(&self, grown: &site_curve::Grown) -> bool {
        self.repeats.by != By::Stretch || self.is_many(grown)
    }

    /// Whether a site has so many blocks that it is in a loop.
    fn is_many(&self, grown: &site_curve::Grown) -> bool {
        let n_freed = self.walk.changes.iter().filter(|change| !change.is_alloc).count();
        match self.is_sampled {
            true => grown.n_blocks >= MANY_SAMPLES && n_freed * 4 >= grown.n_blocks,
            // A loop frees something in each round, where a program that loads weights frees little.
            false => grown.n_blocks >= MANY_BLOCKS && n_freed >= grown.n_blocks,
        }
    }
}

/// Whether at least two of the repeats mostly use sites that an earlier one used.
fn is_alike(curves: &[SiteCurve], n_repeats: usize) -> bool {
    let alike = (1..n_repeats).filter(|at| {
        let used = curves.iter().filter(|curve| curve.is_used(*at));
        let (n_used, n_known) = used.fold((0, 0), |(n_used, n_known), curve| {
            (n_used + 1, n_known + usize::from((0..*at).any(|earlier| curve.is_used(earlier))))
        });
        n_known * 2 >= n_used.max(1)
    });
    alike.count() >= 2
}

impl DeviceHistory<'_> {
    /// Returns the entries that allocated the blocks by which sites grew until a moment: of each site the newest of its
    /// blocks, as many as have the bytes of its growth.
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
