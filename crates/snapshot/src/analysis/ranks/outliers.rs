//! Finds the ranks that differ from the others.

use serde::Serialize;

use super::{
    figures::{Holder, RankFigures},
    usual::Usual,
    why::Why,
};
use crate::words::SeededMap;

/// The fewest ranks among which one can be called unusual.
pub const MIN_RANKS: usize = 3;

/// The result of comparing one rank with the others.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct RankVerdict {
    /// Why it is an outlier; empty if it is like the others.
    pub whys: Vec<Why>,
    /// The first step, or stretch of time, in which it differs.
    pub first_difference: Option<Why>,
}

impl RankVerdict {
    /// Returns whether the rank differs from the others.
    #[must_use]
    pub fn is_outlier(&self) -> bool {
        !self.whys.is_empty()
    }

    /// Returns whether its requests failed.
    #[must_use]
    pub fn is_out_of_memory(&self) -> bool {
        self.whys.iter().any(|why| matches!(why, Why::OutOfMemory { .. }))
    }

    /// Returns the largest difference in bytes.
    #[must_use]
    pub fn apart_bytes(&self) -> u64 {
        self.whys.iter().map(Why::apart_bytes).max().unwrap_or(0)
    }
}

/// Compares each rank with the median of all, and returns a verdict for each, in order.
///
/// If the requests of at most half of the ranks failed, the median is that of the others. A rank differs if a figure is
/// more than a twentieth away from the median, and more than four times as far as the ranks usually are. With fewer
/// than three ranks, none is usual, but one whose requests failed is compared with those without failures.
#[must_use]
pub fn outliers(ranks: &[RankFigures]) -> Vec<RankVerdict> {
    let n_failed = ranks.iter().filter(|rank| rank.oom.is_some()).count();
    let are_few = n_failed > 0 && n_failed * 2 <= ranks.len();
    let usual: Vec<&RankFigures> = ranks.iter().filter(|rank| !are_few || rank.oom.is_none()).collect();
    let median = Median::new(&usual);
    let verdict = |rank: &RankFigures| {
        let mut verdict = RankVerdict::default();
        let failed = rank.oom.as_ref().filter(|_| are_few);
        if let Some(oom) = failed {
            verdict.whys.push(Why::OutOfMemory {
                n_ooms: oom.n_ooms,
                bytes: oom.requested_bytes,
                site: oom.site.clone(),
                n_others: ranks.len() - n_failed,
            });
        }
        let is_comparable = usual.len() >= MIN_RANKS || failed.is_some();
        if let Some(median) = median.as_ref().filter(|_| is_comparable) {
            median.judge(rank, &mut verdict);
        }
        verdict
    };
    ranks.iter().map(verdict).collect()
}

/// The figures of the median rank.
struct Median<'r> {
    peak: Usual,
    reserved: Usual,
    waste: Usual,
    end: Usual,
    steps: SeededMap<&'r str, Usual>,
    width_us: u64,
    clock: Vec<Usual>,
    sites: Holders<'r>,
    owners: Holders<'r>,
}

impl<'r> Median<'r> {
    fn new(ranks: &[&'r RankFigures]) -> Option<Median<'r>> {
        let usual =
            |figure: fn(&RankFigures) -> u64| Usual::of(ranks.iter().map(|rank| figure(rank)).collect());
        let width_us = ranks.iter().map(|rank| rank.curve.width_us).max()?;
        Some(Median {
            peak: usual(|rank| rank.peak.active_bytes)?,
            reserved: usual(|rank| rank.reserved_bytes)?,
            waste: usual(|rank| rank.waste_bytes)?,
            end: usual(|rank| rank.end.active_bytes)?,
            steps: steps(ranks),
            width_us,
            clock: clock(ranks, width_us),
            sites: Holders::new(ranks, |rank| &rank.sites),
            owners: Holders::new(ranks, |rank| &rank.owners),
        })
    }

    fn judge(&self, rank: &RankFigures, verdict: &mut RankVerdict) {
        let whole = self.peak.median;
        let mut note = |usual: &Usual, bytes: u64, why: fn(u64, u64) -> Why| {
            if usual.is_far(bytes, whole) {
                verdict.whys.push(why(bytes, usual.median));
            }
        };
        note(&self.peak, rank.peak.active_bytes, |bytes, usual_bytes| Why::Peak { bytes, usual_bytes });
        note(&self.reserved, rank.reserved_bytes, |bytes, usual_bytes| Why::Reserved { bytes, usual_bytes });
        note(&self.waste, rank.waste_bytes, |bytes, usual_bytes| Why::Waste { bytes, usual_bytes });
        note(&self.end, rank.end.active_bytes, |bytes, usual_bytes| Why::End { bytes, usual_bytes });
        verdict.first_difference = self.first_step(rank).or_else(|| self.first_stretch(rank));
        verdict.whys.extend(verdict.first_difference.clone());
        let site = self.sites.furthest(&rank.sites, whole);
        verdict.whys.extend(site.map(|(name, bytes, usual_bytes)| Why::Site { name, bytes, usual_bytes }));
        let owner = self.owners.furthest(&rank.owners, whole);
        verdict.whys.extend(owner.map(|(name, bytes, usual_bytes)| Why::Owner { name, bytes, usual_bytes }));
    }

    fn first_step(&self, rank: &RankFigures) -> Option<Why> {
        let far = |bytes: u64, usual: &Usual| usual.is_far(bytes, usual.median.max(self.peak.median / 4));
        rank.steps.iter().find_map(|step| {
            let usual = self.steps.get(&*step.name).filter(|usual| far(step.peak_bytes, usual))?;
            Some(Why::Step { name: step.name.clone(), bytes: step.peak_bytes, usual_bytes: usual.median })
        })
    }

    /// Without steps, the clock: two stretches in a row, because one can have an event of its neighbour.
    fn first_stretch(&self, rank: &RankFigures) -> Option<Why> {
        if !self.steps.is_empty() {
            return None;
        }
        let curve = rank.curve.widened(self.width_us);
        if curve.width_us != self.width_us {
            return None;
        }
        let is_far = |at: usize| {
            let pair = curve.peaks_bytes.get(at).zip(self.clock.get(at));
            pair.is_some_and(|(bytes, usual)| usual.is_far(*bytes, self.peak.median))
        };
        let at = (0..curve.peaks_bytes.len()).find(|at| is_far(*at) && is_far(at + 1))?;
        let since_us = self.width_us.saturating_mul(at as u64);
        Some(Why::Clock { since_us, bytes: curve.peaks_bytes[at], usual_bytes: self.clock[at].median })
    }
}

/// Returns what is usual in the steps that at least half of the ranks have.
fn steps<'r>(ranks: &[&'r RankFigures]) -> SeededMap<&'r str, Usual> {
    let mut figures = SeededMap::<&str, Vec<u64>>::default();
    for step in ranks.iter().flat_map(|rank| &rank.steps) {
        figures.entry(&step.name).or_default().push(step.peak_bytes);
    }
    figures.retain(|_, figures| figures.len() * 2 >= ranks.len());
    figures.into_iter().filter_map(|(name, figures)| Some((name, Usual::of(figures)?))).collect()
}

/// Returns what is usual in the stretches of time that at least half of the ranks have.
fn clock(ranks: &[&RankFigures], width_us: u64) -> Vec<Usual> {
    let curves: Vec<_> = ranks.iter().map(|rank| rank.curve.widened(width_us)).collect();
    let at = |stretch: usize| {
        let figures: Vec<u64> =
            curves.iter().filter_map(|curve| curve.peaks_bytes.get(stretch).copied()).collect();
        Usual::of(figures).filter(|_| !curves.is_empty())
    };
    let is_of_half = |stretch: &usize| {
        curves.iter().filter(|curve| curve.peaks_bytes.len() > *stretch).count() * 2 >= curves.len()
    };
    (0..).take_while(|stretch| is_of_half(stretch)).map_while(at).collect()
}

/// What is usual of each holder.
struct Holders<'r> {
    usual: SeededMap<&'r str, Usual>,
    /// The names, ordered by how unusual it is for a rank to lack them.
    missed: Vec<&'r str>,
}

impl<'r> Holders<'r> {
    /// A rank that does not name a holder counts as 0 bytes for it.
    fn new(ranks: &[&'r RankFigures], of: impl Fn(&'r RankFigures) -> &'r Vec<Holder>) -> Holders<'r> {
        let mut figures = SeededMap::<&str, Vec<u64>>::default();
        for holder in ranks.iter().flat_map(|rank| of(rank)) {
            figures.entry(&holder.name).or_default().push(holder.bytes);
        }
        let usual = figures.into_iter().filter_map(|(name, figures)| {
            let n_zeros = ranks.len().saturating_sub(figures.len());
            Some((name, Usual::of_all(figures, n_zeros)?))
        });
        let usual: SeededMap<&str, Usual> = usual.collect();
        let mut missed: Vec<&str> = usual.keys().copied().collect();
        missed.sort_unstable_by_key(|name| (std::cmp::Reverse(usual[name].median), *name));
        Holders { usual, missed }
    }

    /// Returns the holder that is furthest from what is usual, with its bytes and the usual ones.
    fn furthest(&self, holders: &[Holder], whole: u64) -> Option<(String, u64, u64)> {
        let nothing = Usual::of(vec![0])?;
        let own = holders.iter().map(|holder| (&*holder.name, holder.bytes));
        let is_missed = |name: &&&str| !holders.iter().any(|holder| holder.name == ***name);
        let is_far = |name: &&&str| self.usual[**name].is_far(0, whole);
        // All others that it lacks are less unusual.
        let missed = self.missed.iter().take_while(|name| self.usual[**name].median > 0);
        let missed = missed.filter(is_missed).find(is_far);
        let all = own.chain(missed.map(|name| (*name, 0)));
        let far = all.filter_map(|(name, bytes)| {
            let usual = self.usual.get(name).unwrap_or(&nothing);
            usual.is_far(bytes, whole).then_some((name, bytes, usual.median))
        });
        // If two are equally far, the one whose name comes first.
        let furthest =
            far.max_by_key(|(name, bytes, median)| (bytes.abs_diff(*median), std::cmp::Reverse(*name)));
        furthest.map(|(name, bytes, median)| (name.to_owned(), bytes, median))
    }
}
