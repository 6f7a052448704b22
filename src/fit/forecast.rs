//! Predicts the requests of a run at another size: those of the nearest run, with sizes from their laws.

use super::{
    alignment::aligned,
    law::{Expected, Seen, expected, is_lawful},
    size::Size,
    sized_run::SizedRun,
};

/// The requests of one run, each with its matches in the other runs.
#[derive(Debug)]
pub(super) struct Forecast<'a> {
    pub(super) base: &'a SizedRun,
    /// For each other run, the place of each request in it.
    others: Vec<(&'a SizedRun, Vec<Option<usize>>)>,
}

impl<'a> Forecast<'a> {
    /// Aligns the requests of `base` with those of the others.
    pub(super) fn new(base: &'a SizedRun, runs: &[&'a SizedRun]) -> Forecast<'a> {
        let others = runs.iter().filter(|run| run.size != base.size).map(|run| {
            let seen = |size, bytes| Seen { size, bytes };
            let is_lawful = |from, to| is_lawful(seen(base.size, from), seen(run.size, to));
            (*run, aligned(&base.asked, &run.asked, is_lawful))
        });
        Forecast { base, others: others.collect() }
    }

    /// Returns the size of each request at a run size.
    pub(super) fn at(&self, size: Size) -> Vec<Expected> {
        let mut seen: Vec<Seen> = Vec::with_capacity(self.others.len() + 1);
        let mut of = |at: usize| {
            seen.clear();
            seen.push(Seen { size: self.base.size, bytes: self.base.asked[at].bytes });
            seen.extend(self.others.iter().filter_map(|(run, places)| {
                Some(Seen { size: run.size, bytes: run.asked[places[at]?].bytes })
            }));
            seen[1..].sort_by(|one, other| distance(one.size, size).total_cmp(&distance(other.size, size)));
            expected(&seen, size)
        };
        (0..self.base.asked.len()).map(&mut of).collect()
    }

    /// Returns whether a request has the same size in every run.
    pub(super) fn is_constant(&self, at: usize) -> bool {
        let same = |place: usize, run: &SizedRun| run.asked[place].bytes == self.base.asked[at].bytes;
        self.others.iter().all(|(run, places)| places[at].is_some_and(|place| same(place, run)))
    }

    /// Returns the share of all requested bytes that only one of two runs requested.
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn alone_share(&self) -> f64 {
        let share = |(run, places): &(&SizedRun, Vec<Option<usize>>)| {
            let total = |run: &SizedRun| run.asked.iter().map(|asked| asked.bytes as f64).sum::<f64>();
            let of = |run: &SizedRun, at: usize| run.asked[at].bytes as f64;
            let mut paired = 0.0;
            for (at, place) in places.iter().enumerate() {
                if let Some(place) = place {
                    paired += of(self.base, at) + of(run, *place);
                }
            }
            1.0 - paired / (total(self.base) + total(run)).max(1.0)
        };
        self.others.iter().map(share).fold(0.0, f64::max)
    }
}

/// Returns the distance between two sizes: the logarithm of their ratio.
pub(super) fn distance(one: Size, other: Size) -> f64 {
    one.times(other).ln().abs()
}
