//! Finds which lines of a call allocate again: those in a loop do, and those before a loop do not.

use crate::{model::FrameIndex, words::SeededMap};

/// The allocations within one call, by the line in it that leads to them.
#[derive(Debug)]
pub(super) struct Again {
    /// The places of the allocations in a walk, in order.
    places: Vec<u32>,
    /// By allocation, the furthest place at which its line or an earlier one allocates next; `u32::MAX` if one does
    /// not.
    next: Vec<u32>,
}

impl Again {
    /// Creates it from the places in order, each with its line.
    pub(super) fn new(allocs: &[(u32, FrameIndex)]) -> Again {
        let mut after: SeededMap<FrameIndex, u32> = SeededMap::default();
        let next_of = |(place, line): &(u32, FrameIndex)| after.insert(*line, *place).unwrap_or(u32::MAX);
        let mut next: Vec<u32> = allocs.iter().rev().map(next_of).collect();
        next.reverse();
        let mut furthest = 0;
        for next in &mut next {
            furthest = furthest.max(*next);
            *next = furthest;
        }
        Again { places: allocs.iter().map(|(place, _)| *place).collect(), next }
    }

    /// Returns whether a line allocated before a stretch of the walk but not in it.
    pub(super) fn is_left_before(&self, from: usize, to: usize) -> bool {
        let n_before = self.places.partition_point(|place| (*place as usize) < from);
        n_before.checked_sub(1).is_some_and(|last| self.next[last] as usize >= to)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn lines_that_do_not_allocate_again_are_found() {
        let line = |at: u32| FrameIndex(if at % 9 == 4 { at } else { at * at % 7 });
        let allocs: Vec<(u32, FrameIndex)> = (0..60).map(|at| (2 * at, line(at))).collect();
        let again = Again::new(&allocs);
        for (from, to) in (0..130).flat_map(|from| (from..130).map(move |to| (from, to))) {
            let of = |from: usize, to: usize| -> BTreeSet<u32> {
                let within = allocs.iter().filter(|(place, _)| (from..to).contains(&(*place as usize)));
                within.map(|(_, line)| line.0).collect()
            };
            let expected = !of(0, from).is_subset(&of(from, to));
            assert_eq!(again.is_left_before(from, to), expected, "{from}..{to}");
        }
    }
}
