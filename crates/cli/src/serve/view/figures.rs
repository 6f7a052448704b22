//! The figures of a history over its moments: exact at each, and the least and most of any stretch.

#![forbid(unsafe_code)]

use memreel_snapshot::{
    analysis::{DeviceHistory, Totals},
    history::Moment,
};

/// Returns the moment at which this number of entries has happened.
pub(super) fn moment(n_entries: usize) -> Moment {
    n_entries.checked_sub(1).map_or(Moment::START, Moment::after)
}

/// The number of moments of a leaf of the pyramid.
const N_OF_LEAF: usize = 64;

/// The least and most of each figure in a stretch of moments.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extremes {
    pub(super) allocated: [u64; 2],
    pub(super) active: [u64; 2],
    pub(super) reserved: [u64; 2],
    /// The first moment with the most active bytes.
    pub(super) highest: Moment,
}

impl Extremes {
    fn of(totals: &Totals) -> Extremes {
        let both = |bytes| [bytes, bytes];
        Extremes {
            allocated: both(totals.allocated_bytes),
            active: both(totals.active_bytes),
            reserved: both(totals.reserved_bytes),
            highest: totals.moment,
        }
    }

    fn and(self, later: Extremes) -> Extremes {
        let wider = |one: [u64; 2], other: [u64; 2]| [one[0].min(other[0]), one[1].max(other[1])];
        Extremes {
            allocated: wider(self.allocated, later.allocated),
            active: wider(self.active, later.active),
            reserved: wider(self.reserved, later.reserved),
            highest: if later.active[1] > self.active[1] { later.highest } else { self.highest },
        }
    }
}

/// A pyramid over the moments of a history: level 0 has the extremes of each leaf, and each further level those of two
/// nodes below.
pub(super) struct Figures {
    /// The figures of the first moment of each leaf.
    starts: Vec<Totals>,
    levels: Vec<Vec<Extremes>>,
    n_moments: usize,
}

impl Figures {
    pub(super) fn new(history: &DeviceHistory<'_>) -> Figures {
        let n_moments = history.entries().len() + 1;
        let mut starts = Vec::with_capacity(n_moments.div_ceil(N_OF_LEAF));
        let mut leaves: Vec<Extremes> = Vec::with_capacity(starts.capacity());
        for (at, totals) in history.totals().enumerate() {
            let now = Extremes::of(&totals);
            match leaves.last_mut() {
                Some(leaf) if at % N_OF_LEAF > 0 => *leaf = leaf.and(now),
                _ => {
                    starts.push(totals);
                    leaves.push(now);
                }
            }
        }
        let mut levels = vec![leaves];
        while let Some(below) = levels.last().filter(|level| level.len() > 1) {
            let above = below.chunks(2).map(|pair| pair.iter().copied().reduce(Extremes::and));
            levels.push(above.flatten().collect());
        }
        Figures { starts, levels, n_moments }
    }

    /// The number of moments: one more than there are events.
    pub(super) fn n_moments(&self) -> usize {
        self.n_moments
    }

    /// Returns the figures of a moment, or of the last one.
    pub(super) fn at(&self, history: &DeviceHistory<'_>, moment: Moment) -> Totals {
        let moment = moment.n_entries().min(self.n_moments - 1);
        let start = self.starts[moment / N_OF_LEAF];
        let n_after = moment - start.moment.n_entries();
        history.totals_after(start).take(n_after).last().unwrap_or(start)
    }

    /// Returns the extremes of the moments `from..until`, of which there is at least one.
    pub(super) fn between(&self, history: &DeviceHistory<'_>, from: usize, until: usize) -> Extremes {
        let from = from.min(self.n_moments - 1);
        let until = until.clamp(from + 1, self.n_moments);
        let (first, last) = (from.div_ceil(N_OF_LEAF), until / N_OF_LEAF);
        if first >= last {
            return self.exactly(history, from, until);
        }
        let mut found = None;
        let mut add = |piece: Extremes| found = Some(found.map_or(piece, |found: Extremes| found.and(piece)));
        if from < first * N_OF_LEAF {
            add(self.exactly(history, from, first * N_OF_LEAF));
        }
        self.nodes(first, last).for_each(&mut add);
        if last * N_OF_LEAF < until {
            add(self.exactly(history, last * N_OF_LEAF, until));
        }
        found.unwrap_or_else(|| self.exactly(history, from, until))
    }

    /// Returns the fewest nodes that cover the leaves `first..last`, in their order.
    fn nodes(&self, first: usize, last: usize) -> impl Iterator<Item = Extremes> {
        let mut at = first;
        std::iter::from_fn(move || {
            if at >= last {
                return None;
            }
            let aligned = if at == 0 { usize::MAX } else { at.trailing_zeros() as usize };
            let fits = (last - at).ilog2() as usize;
            let level = aligned.min(fits).min(self.levels.len() - 1);
            let node = self.levels[level][at >> level];
            at += 1 << level;
            Some(node)
        })
    }

    fn exactly(&self, history: &DeviceHistory<'_>, from: usize, until: usize) -> Extremes {
        let start = self.starts[from / N_OF_LEAF];
        let n_before = from - start.moment.n_entries();
        let all = std::iter::once(start).chain(history.totals_after(start));
        let wanted = all.skip(n_before).take(until - from).map(|totals| Extremes::of(&totals));
        wanted.reduce(Extremes::and).unwrap_or_else(|| Extremes::of(&start))
    }
}
