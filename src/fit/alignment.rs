//! Matches the requests of one run with those of another: the alignment with the fewest differences.
//!
//! Two requests match if the same calls made them and a law of the size leads from one's bytes to the other's. Requests
//! that have only the calls in common may match too, which counts as a difference: much of a backward pass has no
//! stack, so the calls alone could align anything. A request that only one run has is a difference.

use memreel_snapshot::analysis::Made;

/// A request: the number of its stack, its size, and what it makes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Asked {
    pub(super) stack: u32,
    pub(super) bytes: u64,
    pub(super) made: Option<Made>,
}

/// The most differences that are explored before the best beginning is accepted. This bounds time and memory: a run of
/// many steps has the same few differences in each.
const MOST_DIFFERENCES: usize = 512;

/// Returns the place among `others` of each request of `base`; `None` for those that only the base has, or that are
/// after the end of the shorter run. `is_lawful` returns whether a law leads from the first size to the second.
pub(super) fn aligned(
    base: &[Asked],
    others: &[Asked],
    is_lawful: impl Fn(u64, u64) -> bool,
) -> Vec<Option<usize>> {
    let mut places = vec![None; base.len()];
    let (mut at, mut other) = (0, 0);
    loop {
        let mut window =
            Window { base: &base[at..], others: &others[other..], is_lawful: &is_lawful, rows: Vec::new() };
        let end = window.explore();
        let pairs = window.pairs(end);
        // A window without a pair would be tried again for ever.
        let Some(&(last, last_other)) = pairs.first() else { return places };
        pairs.iter().for_each(|(base, next)| places[at + base] = Some(other + next));
        (at, other) = (at + last + 1, other + last_other + 1);
    }
}

/// The rest of both runs, and the paths through them that were explored.
struct Window<'a, L> {
    base: &'a [Asked],
    others: &'a [Asked],
    is_lawful: &'a L,
    /// `rows[n][n + d]` is the furthest place that `n` differences reach when the other run is `d` requests ahead.
    rows: Vec<Vec<Option<Reach>>>,
}

/// A place in the base, and how the path there took its last difference.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Reach {
    base: usize,
    last: Last,
}

/// A difference; a better one is greater.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Last {
    /// No difference yet.
    None,
    /// A request that only the base has.
    Base,
    /// A request that only the other run has.
    Other,
    /// A pair with the same calls, but sizes that no law connects.
    Pair,
}

/// The end of a path: the number of its differences, and its place in their row.
type End = (usize, usize);

impl<L: Fn(u64, u64) -> bool> Window<'_, L> {
    /// Explores until a path reaches the end of a run or has too many differences; returns the path that went furthest.
    fn explore(&mut self) -> End {
        for n in 0..=MOST_DIFFERENCES {
            let row: Vec<Option<Reach>> = (0..=2 * n).map(|at| self.reach(n, at)).collect();
            let is_end =
                |(base, at): &(usize, usize)| *base == self.base.len() || base + at - n == self.others.len();
            let ended = furthest(&row, is_end);
            self.rows.push(row);
            if let Some(at) = ended {
                return (n, at);
            }
        }
        (MOST_DIFFERENCES, furthest(&self.rows[MOST_DIFFERENCES], |_| true).unwrap_or(0))
    }

    /// Returns how far `n` differences reach on a diagonal.
    fn reach(&self, n: usize, at: usize) -> Option<Reach> {
        let reached = if n == 0 {
            Reach { base: 0, last: Last::None }
        } else {
            let all = [Last::Base, Last::Other, Last::Pair].into_iter();
            all.filter_map(|last| Some(Reach { base: self.from(n, at, last)?.after, last })).max()?
        };
        let mut base = reached.base;
        while self.is_one(base, base + at - n) {
            base += 1;
        }
        Some(Reach { base, ..reached })
    }

    /// Returns the step to a diagonal by one more difference; `None` if no path takes it.
    fn from(&self, n: usize, at: usize, last: Last) -> Option<Difference> {
        let behind = match last {
            Last::None => return None,
            Last::Base => at,
            Last::Other => at.checked_sub(2)?,
            Last::Pair => at.checked_sub(1)?,
        };
        let row = self.rows.get(n - 1)?;
        let before = (*row.get(behind)?)?.base;
        let after = if last == Last::Other { before } else { before + 1 };
        let other = (after + at).checked_sub(n)?;
        let is_there = after <= self.base.len() && other <= self.others.len();
        let is_pair = || self.base[before].stack == self.others[other - 1].stack;
        (is_there && (last != Last::Pair || is_pair())).then_some(Difference { behind, before, after })
    }

    /// Returns whether two requests match without a difference.
    fn is_one(&self, base: usize, other: usize) -> bool {
        match (self.base.get(base), self.others.get(other)) {
            (Some(base), Some(other)) => {
                base.stack == other.stack && (self.is_lawful)(base.bytes, other.bytes)
            }
            _ => false,
        }
    }

    /// Returns the pairs of a path, from its end to its start.
    fn pairs(&self, (mut n, mut at): (usize, usize)) -> Vec<(usize, usize)> {
        let mut pairs = Vec::new();
        while let Some(Reach { base, last }) = self.rows[n][at] {
            let from = if n == 0 { None } else { self.from(n, at, last) };
            let after = from.as_ref().map_or(0, |from| from.after);
            pairs.extend((after..base).rev().map(|base| (base, base + at - n)));
            let Some(from) = from else { break };
            if last == Last::Pair {
                pairs.push((from.before, from.before + at - n));
            }
            (n, at) = (n - 1, from.behind);
        }
        pairs
    }
}

/// Returns the place in a row of the path that went furthest in both runs, among those for which `counts` accepts the
/// place in the base and in the row.
fn furthest(row: &[Option<Reach>], counts: impl Fn(&(usize, usize)) -> bool) -> Option<usize> {
    let all = row.iter().enumerate().filter_map(|(at, reach)| Some((reach.as_ref()?.base, at)));
    all.filter(counts).max_by_key(|(base, at)| 2 * base + at).map(|(_, at)| at)
}

/// The step from one diagonal to the next.
#[derive(Clone, Copy, Debug)]
struct Difference {
    /// The diagonal's place in the row before.
    behind: usize,
    /// The place in the base before the difference.
    before: usize,
    /// The place in the base after it.
    after: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(all: &[(u32, u64)]) -> Vec<Asked> {
        all.iter().map(|(stack, bytes)| Asked { stack: *stack, bytes: *bytes, made: None }).collect()
    }

    /// Doubled or equal.
    fn is_lawful(base: u64, other: u64) -> bool {
        other == base || other == 2 * base
    }

    #[test]
    fn requests_of_one_run_alone_are_in_no_pair() {
        let base = asked(&[(1, 10), (0, 100), (0, 300), (2, 7)]);
        let others = asked(&[(1, 20), (0, 5), (0, 5), (0, 200), (0, 600), (2, 7), (9, 1)]);
        assert_eq!(aligned(&base, &others, is_lawful), [Some(0), Some(3), Some(4), Some(5)]);
        let back = |base, other| is_lawful(other, base);
        assert_eq!(aligned(&others, &base, back), [Some(0), None, None, Some(1), Some(2), Some(3), None]);
    }

    #[test]
    fn the_calls_alone_are_a_pair_in_the_place_of_two_differences() {
        let base = asked(&[(1, 10), (2, 1000), (3, 10)]);
        let others = asked(&[(1, 10), (2, 1700), (3, 20)]);
        assert_eq!(aligned(&base, &others, is_lawful), [Some(0), Some(1), Some(2)]);
        let at_the_end = asked(&[(1, 10), (2, 1000), (3, 17)]);
        assert_eq!(aligned(&base, &at_the_end, is_lawful), [Some(0), Some(1), Some(2)]);
        let elsewhere = asked(&[(1, 10), (4, 1000), (3, 20)]);
        assert_eq!(aligned(&base, &elsewhere, is_lawful), [Some(0), None, Some(2)]);
    }

    #[test]
    fn many_differences_are_explored_in_windows() {
        let step = |n: u64| [(1, 10), (0, n), (0, 4000), (2, 30)];
        let base = asked(&(0..3000).flat_map(|_| step(100)).collect::<Vec<_>>());
        let others = asked(&(0..3000).flat_map(|_| step(333)).collect::<Vec<_>>());
        let all: Vec<Option<usize>> = (0..12_000).map(Some).collect();
        assert_eq!(aligned(&base, &others, is_lawful), all);
        assert_eq!(aligned(&base, &[], is_lawful), vec![None; 12_000]);
        let strange = asked(&[(7, 1); 5000]);
        assert_eq!(aligned(&base, &strange, is_lawful), vec![None; 12_000]);
    }
}
