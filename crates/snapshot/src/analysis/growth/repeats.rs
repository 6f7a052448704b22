//! Finds what a program repeats: steps that it names, cycles of its memory, or, in a long history, stretches of time.
//!
//! A *cycle* is a rise of memory and its fall to the floor, which is the minimum that is held at any later time. The
//! cycles of a step are alike: a rise counts if it is at least half as high as the fourth highest, or of three the
//! third. In one pass over the layers of a network, memory also falls after each layer; such cycles are within one
//! call, which `call` recognises. A growing vector that is moved makes cycles too, each longer than the one before.

use super::walk::Walk;
use crate::{
    analysis::DeviceHistory,
    history::{Moment, ScopeSpan},
    words::SeededMap,
};

/// What is repeated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RepeatedBy {
    /// Scopes of one name.
    Scope,
    /// Rises and falls of memory.
    Cycle,
    /// Nothing visible: the history is cut into stretches with equal numbers of allocations and frees.
    Stretch,
}

/// The moments at which repeats end, in order.
#[derive(Clone, Debug)]
pub(super) struct Repeats {
    pub(super) by: RepeatedBy,
    pub(super) ends: Vec<Moment>,
}

/// The fewest repeats: the first, and three in which a site may grow.
pub(super) const FEWEST: usize = 4;

/// The most repeats that are examined. If there are more, several are joined.
const MOST: usize = 64;

/// A rise below this fraction of the highest, one in this number, is not a repeat of it.
const ALIKE: u64 = 16;

/// The stretches of a long history.
pub(super) const STRETCHES: usize = 8;

impl Repeats {
    /// Finds repeated scopes, or else cycles. There may be few or none.
    pub(super) fn new(history: &DeviceHistory<'_>, walk: &Walk) -> Repeats {
        let scopes = scope_ends(&history.scopes().outermost(), walk.end);
        if scopes.len() + 1 >= FEWEST {
            return Repeats { by: RepeatedBy::Scope, ends: thinned(scopes) };
        }
        Repeats { by: RepeatedBy::Cycle, ends: thinned(cycle_ends(walk)) }
    }

    /// Cuts a history into stretches with equal numbers of allocations and frees.
    pub(super) fn stretches(walk: &Walk) -> Repeats {
        let n = walk.changes.len();
        let last = |stretch: usize| (n * stretch / STRETCHES).saturating_sub(1);
        let ends = (1..=STRETCHES).filter_map(|stretch| walk.changes.get(last(stretch)));
        Repeats { by: RepeatedBy::Stretch, ends: ends.map(|change| change.moment).collect() }
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }
}

/// Returns the ends of the scopes whose name, without a number, is most often the outermost one.
fn scope_ends(outermost: &[ScopeSpan], end: Moment) -> Vec<Moment> {
    let mut of_name: SeededMap<&str, Vec<&ScopeSpan>> = SeededMap::default();
    for span in outermost {
        let name = span.name.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('#');
        of_name.entry(name).or_default().push(span);
    }
    let extent = |spans: &[&ScopeSpan]| spans.iter().map(|span| span.entries.len()).sum::<usize>();
    let repeated = of_name.into_iter().filter(|(_, spans)| spans.len() + 1 >= FEWEST);
    let most = repeated.max_by_key(|(name, spans)| (extent(spans), std::cmp::Reverse(*name)));
    let ends = most.map_or_else(Vec::new, |(_, spans)| {
        spans.iter().map(|span| Moment::after(span.entries.end.saturating_sub(1))).collect()
    });
    // The last one may not be over.
    ends.into_iter().filter(|moment| *moment < end).collect()
}

/// Returns the moments at which memory has risen and fallen to its floor.
fn cycle_ends(walk: &Walk) -> Vec<Moment> {
    let mut floor = walk.totals.clone();
    for at in (1..floor.len()).rev() {
        floor[at - 1] = floor[at - 1].min(floor[at]);
    }
    let above: Vec<u64> = walk.totals.iter().zip(&floor).map(|(total, floor)| total - floor).collect();
    let highest = above.iter().copied().max().unwrap_or(0);
    let all = rises(&above, &walk.totals, (highest / ALIKE / 4).max(1));
    let mut tops: Vec<u64> = all.iter().map(|(_, top)| *top).collect();
    tops.sort_unstable_by_key(|top| std::cmp::Reverse(*top));
    let is_high = |nth: usize, part: u64| tops.get(nth).copied().filter(|top| *top >= highest / part);
    let Some(usual) = is_high(FEWEST - 1, ALIKE).or_else(|| is_high(FEWEST - 2, 4)) else {
        return Vec::new();
    };
    let alike = rises(&above, &walk.totals, (usual / 2).max(1));
    let ends: Vec<usize> = alike.into_iter().map(|(at, _)| at).collect();
    if lengthen(&ends) {
        return Vec::new();
    }
    ends.into_iter().map(|at| walk.changes[at].moment).collect()
}

/// Returns whether each of the last rises took at least half as long again as the one before it. Those are the moments at which a
/// growing vector was moved, and not what a program repeats: the last would be half a history ago.
fn lengthen(ends: &[usize]) -> bool {
    let lengths: Vec<usize> = ends.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let last = lengths.len().checked_sub(FEWEST - 1).map_or(&[][..], |first| &lengths[first..]);
    !last.is_empty() && last.windows(2).all(|pair| pair[1] >= pair[0] + pair[0] / 2)
}

/// Returns where each rise of at least some bytes above the floor has fallen back, and how high it was.
fn rises(above: &[u64], totals: &[u64], least: u64) -> Vec<(usize, u64)> {
    let mut found: Vec<(usize, u64)> = Vec::new();
    let (mut top, mut is_over) = (0, false);
    for (at, bytes) in above.iter().copied().enumerate() {
        if is_over {
            // The lowest place until the next rise is its end.
            if let Some((end, _)) = found.last_mut()
                && totals[at] <= totals[*end]
            {
                *end = at;
            }
            top = if bytes < least { 0 } else { top };
        }
        top = top.max(bytes);
        is_over &= top < least;
        if top >= least && bytes <= top / 4 {
            found.push((at, top));
            (top, is_over) = (0, true);
        }
    }
    found
}

/// Returns at most [`MOST`] of the moments, including the last.
fn thinned(mut ends: Vec<Moment>) -> Vec<Moment> {
    ends.dedup();
    let n = ends.len();
    if n <= MOST {
        return ends;
    }
    (1..=MOST).map(|at| ends[n * at / MOST - 1]).collect()
}
