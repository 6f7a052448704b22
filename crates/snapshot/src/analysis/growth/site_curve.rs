//! What one site holds over the repeats of a program.

use super::{
    kind::GrowthKind,
    walk::{HeldBlocks, Walk},
};
use crate::history::Moment;

/// What a site held in each repeat.
#[derive(Debug)]
pub(super) struct SiteCurve {
    /// By repeat, at its end.
    levels: Vec<HeldBlocks>,
    /// By repeat, the most.
    most: Vec<HeldBlocks>,
    /// What it held before the history.
    start: HeldBlocks,
    /// By repeat, the least from its end on.
    kept: Vec<u64>,
    /// By repeat, the place after its last change among the site's own.
    n_changes: Vec<usize>,
    /// At the end of the walk.
    pub(super) now: HeldBlocks,
    /// Whether it allocated before the last repeat ended.
    pub(super) has_run_before: bool,
    /// Its allocs.
    rises: Vec<Rise>,
    /// The number of its allocs in whole repeats.
    n_rises: usize,
}

/// An alloc: its place, and what the site held before and after it.
#[derive(Clone, Copy, Debug)]
struct Rise {
    place: u32,
    before_bytes: u64,
    bytes: u64,
}

/// How a site grew, with the places of the first and the last alloc of its growth.
#[derive(Debug)]
pub(super) struct GrownSite {
    pub(super) kind: GrowthKind,
    pub(super) bytes: u64,
    pub(super) usual_bytes: u64,
    pub(super) n_blocks: usize,
    pub(super) n_repeats: usize,
    pub(super) first: u32,
    pub(super) last: u32,
    /// The repeat before it; `None` if it grew from the start on.
    pub(super) before: Option<usize>,
}

/// The minimum number of repeats in which a leak grows.
const LEAK: usize = 3;

impl SiteCurve {
    pub(super) fn new(start: HeldBlocks, places: &[u32], walk: &Walk, ends: &[Moment]) -> SiteCurve {
        let mut curve = SiteCurve {
            levels: Vec::with_capacity(ends.len()),
            most: Vec::with_capacity(ends.len()),
            start,
            kept: vec![0; ends.len()],
            n_changes: Vec::with_capacity(ends.len()),
            now: start,
            has_run_before: false,
            rises: Vec::new(),
            n_rises: 0,
        };
        let mut lowest = vec![u64::MAX; ends.len()];
        let (mut most, mut n) = (start, 0);
        let close = |curve: &mut SiteCurve, most: &mut HeldBlocks, n: usize| {
            curve.levels.push(curve.now);
            curve.most.push(*most);
            curve.n_changes.push(n);
            *most = curve.now;
        };
        for place in places {
            let change = walk.changes[*place as usize];
            while curve.levels.len() < ends.len() && ends[curve.levels.len()] < change.moment {
                close(&mut curve, &mut most, n);
            }
            let before_bytes = curve.now.bytes;
            curve.now.apply(change);
            n += 1;
            if curve.now.bytes > most.bytes {
                most = curve.now;
            }
            if change.is_alloc {
                curve.rises.push(Rise { place: *place, before_bytes, bytes: curve.now.bytes });
            }
            if curve.levels.len() < ends.len() {
                curve.n_rises = curve.rises.len();
            }
            if let Some(at) = curve.levels.len().checked_sub(1) {
                lowest[at] = lowest[at].min(curve.now.bytes);
            }
        }
        while curve.levels.len() < ends.len() {
            close(&mut curve, &mut most, n);
        }
        curve.has_run_before = curve.n_rises > 0 || start.n_blocks > 0;
        let mut least = u64::MAX;
        for at in (0..ends.len()).rev() {
            least = least.min(lowest[at]).min(curve.levels[at].bytes);
            curve.kept[at] = least;
        }
        curve
    }

    /// Returns whether it changed in a repeat.
    fn is_used(&self, repeat: usize) -> bool {
        let before = repeat.checked_sub(1).map_or(0, |before| self.n_changes[before]);
        self.n_changes[repeat] > before
    }

    /// Returns the repeats in which it changed.
    pub(super) fn uses(&self) -> impl Iterator<Item = usize> {
        (0..self.kept.len()).filter(|repeat| self.is_used(*repeat))
    }

    /// Returns how it grew. In stretches of time it did only if it grew in each of them.
    pub(super) fn grown(&self, has_repeats: bool) -> Option<GrownSite> {
        let n = self.kept.len();
        let ups: Vec<usize> = (0..n).filter(|at| self.kept[*at] > self.kept_before(*at)).collect();
        if !has_repeats {
            // It may have started a little after the program.
            let is_steady = ups
                .first()
                .is_some_and(|first| ups.len() == n - first && *first * 4 <= n && !self.is_replaced(*first));
            return if is_steady { self.of_repeats(&ups, GrowthKind::Steady) } else { None };
        }
        let ups: Vec<usize> = ups.into_iter().filter(|at| at + 1 < n || self.ends_above(*at)).collect();
        if self.leaks(&ups) {
            return self.of_repeats(&ups, GrowthKind::Steady);
        }
        if self.is_new_level(&ups) {
            return self.of_repeats(&ups, GrowthKind::Late);
        }
        self.of_last()
    }

    /// Returns what it had kept at the end of the previous repeat, or at the start.
    fn kept_before(&self, repeat: usize) -> u64 {
        let least = self.kept.first().copied().unwrap_or(0);
        repeat.checked_sub(1).map_or(self.start.bytes.min(least), |before| self.kept[before])
    }

    /// Returns whether it holds more at the end of a repeat than at any moment of the one before. Of the last repeat no later
    /// lows are known: a ring that replaces its blocks may have one more of them at the end than at its lowest.
    fn ends_above(&self, repeat: usize) -> bool {
        repeat.checked_sub(1).is_none_or(|before| self.levels[repeat].bytes > self.most[before].bytes)
    }

    /// Returns whether it allocates and gives memory back, so that it is part of a loop.
    pub(super) fn is_freed_again(&self) -> bool {
        self.uses().count() >= LEAK
            && self.most.iter().zip(&self.levels).any(|(most, level)| most.bytes > level.bytes)
    }

    fn leaks(&self, ups: &[usize]) -> bool {
        let (n, [first, .., last]) = (self.kept.len(), ups) else { return false };
        let longest = ups.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(1);
        let goes_on = n - 1 - last <= longest && last * 2 >= n;
        let is_kept = !self.gives_back() || self.is_above(*first);
        ups.len() >= LEAK && goes_on && is_kept && !self.is_replaced(*first)
    }

    /// Returns whether it has so few more blocks than before a repeat that they cannot be a leak: each replaces an
    /// earlier one, the first of which may have no stack because it is from before the history. A buffer that has
    /// doubled since then is growth.
    fn is_replaced(&self, repeat: usize) -> bool {
        let [first, last] =
            [self.kept.get(repeat), self.kept.last()].map(|kept| kept.map_or(0, |kept| *kept));
        self.n_more_blocks(repeat) < LEAK && last / 2 < first
    }

    /// Returns how many more blocks it has at the end of the last repeat than before a given one.
    fn n_more_blocks(&self, repeat: usize) -> usize {
        let before = repeat.checked_sub(1).map_or(self.start, |before| self.levels[before]);
        self.levels.last().map_or(0, |last| last.n_blocks.saturating_sub(before.n_blocks))
    }

    /// Returns whether less was held at the end of a repeat than at the end of the previous one.
    pub(super) fn gives_back(&self) -> bool {
        self.levels.windows(2).any(|pair| pair[1].bytes < pair[0].bytes)
    }

    /// Returns whether it has kept more than it ever held before a repeat.
    fn is_above(&self, repeat: usize) -> bool {
        self.kept.last().is_some_and(|kept| self.most[..repeat].iter().all(|most| most.bytes < *kept))
    }

    /// Returns whether it has kept more since one of the last two repeats than it held in any earlier one.
    fn is_new_level(&self, ups: &[usize]) -> bool {
        let n = self.kept.len();
        match ups {
            [.., last] if last + 2 >= n => {
                ups.len() < LEAK && ups[0] >= 2 && ups[0] * 2 >= n && self.is_above(ups[0])
            }
            _ => false,
        }
    }

    fn of_repeats(&self, ups: &[usize], kind: GrowthKind) -> Option<GrownSite> {
        let (first, last) = (*ups.first()?, *self.kept.last()?);
        let (before, n_blocks) = (first.checked_sub(1), self.n_more_blocks(first).max(1));
        let usual_bytes = self.kept_before(first);
        let rises = &self.rises[..self.n_rises];
        // The first alloc above what it had kept before, for good.
        let first = rises.iter().rev().find(|rise| rise.before_bytes <= usual_bytes).or(rises.first())?;
        Some(GrownSite {
            kind,
            bytes: last - usual_bytes,
            usual_bytes,
            n_blocks,
            n_repeats: ups.len() + usize::from(kind == GrowthKind::Late && self.now.bytes > last),
            first: first.place,
            last: rises.last()?.place,
            before,
        })
    }

    /// Returns how it grew since the last repeat.
    fn of_last(&self) -> Option<GrownSite> {
        let usual = *self.most.iter().max_by_key(|most| most.bytes)?;
        let bytes = self.now.bytes.saturating_sub(usual.bytes);
        let first = self.rises[self.n_rises..].iter().find(|rise| rise.bytes > usual.bytes)?;
        if bytes == 0 {
            return None;
        }
        let lowest = self.levels.iter().map(|level| level.bytes).min().unwrap_or(0);
        let most_blocks = self.most.iter().map(|most| most.n_blocks).max().unwrap_or(0);
        let is_larger = usual.bytes > 0 && (self.now.n_blocks <= most_blocks || lowest <= usual.bytes / 4);
        Some(GrownSite {
            kind: if is_larger { GrowthKind::LargerStep } else { GrowthKind::Late },
            bytes,
            usual_bytes: usual.bytes,
            n_blocks: self.now.n_blocks.saturating_sub(usual.n_blocks),
            n_repeats: 0,
            first: first.place,
            last: self.rises.last()?.place,
            before: self.kept.len().checked_sub(1),
        })
    }
}
