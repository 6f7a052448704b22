//! The blocks that are too small for bands of their own, summed up by their groups.

#![forbid(unsafe_code)]

use std::cmp::Reverse;

use memreel_snapshot::history::{Life, Moment};

use super::{figures::Extremes, groups::Groups};

/// The most groups that have a band; those of the others are in the rest.
const N_SUMS: usize = 32;

/// A group's small blocks.
pub(super) struct Sum {
    pub(super) group: u32,
    /// Their bytes in each column.
    pub(super) bytes: Vec<u64>,
}

/// Returns the sums of the groups that hold the most, the largest first. A column is the moment of its most active bytes.
pub(super) fn sums<'l>(
    groups: &Groups,
    columns: &[Extremes],
    small: impl Iterator<Item = (u32, &'l Life)> + Clone,
) -> Vec<Sum> {
    let Some((first, last)) = columns.first().zip(columns.last()) else { return Vec::new() };
    let mut areas = vec![0_u128; groups.names.len()];
    for (number, life) in small.clone() {
        let events = life.until.min(last.highest).0.saturating_sub(life.from.max(first.highest).0);
        areas[groups.number(life, number) as usize] +=
            u128::from(life.represented_bytes) * (u128::from(events) + 1);
    }
    let mut largest: Vec<usize> = (0..areas.len()).filter(|group| areas[*group] > 0).collect();
    let by_area = |group: &usize| (Reverse(areas[*group]), *group);
    if largest.len() > N_SUMS {
        largest.select_nth_unstable_by_key(N_SUMS, by_area);
        largest.truncate(N_SUMS);
    }
    largest.sort_unstable_by_key(by_area);
    let mut place = vec![usize::MAX; areas.len()];
    largest.iter().enumerate().for_each(|(at, group)| place[*group] = at);
    let mut changes = vec![vec![0_u64; columns.len() + 1]; largest.len()];
    let index = Index::new(columns);
    for (number, life) in small {
        let Some(changes) = changes.get_mut(place[groups.number(life, number) as usize]) else { continue };
        // The bytes begin in one column and end in another; what is between is summed up below.
        let (begin, end) = (index.first_from(life.from), index.first_from(life.until));
        changes[begin] = changes[begin].wrapping_add(life.represented_bytes);
        changes[end] = changes[end].wrapping_sub(life.represented_bytes);
    }
    let sum = |(group, changes): (&usize, Vec<u64>)| Sum {
        group: u32::try_from(*group).unwrap_or(0),
        bytes: added_up(changes),
    };
    largest.iter().zip(changes).map(sum).collect()
}

fn added_up(mut changes: Vec<u64>) -> Vec<u64> {
    let mut live = 0_u64;
    for change in &mut changes {
        live = live.wrapping_add(*change);
        *change = live;
    }
    changes.pop();
    changes
}

/// Finds columns by moments.
struct Index<'c> {
    columns: &'c [Extremes],
    first: u32,
    shift: u32,
    /// For each stretch of moments, the first column whose moment is not before the stretch.
    stretches: Vec<u16>,
}

impl<'c> Index<'c> {
    /// The most stretches, as a power of two.
    const POWER: u32 = 13;

    fn new(columns: &'c [Extremes]) -> Index<'c> {
        let first = columns.first().map_or(0, |column| column.highest.0);
        let last = columns.last().map_or(0, |column| column.highest.0);
        let shift = (last - first).checked_ilog2().map_or(0, |power| (power + 1).saturating_sub(Self::POWER));
        let begin = |stretch: u32| Moment(first.saturating_add(stretch << shift));
        let place = |stretch| columns.partition_point(|column| column.highest < begin(stretch));
        let stretches =
            (0..=(last - first) >> shift).map(|stretch| u16::try_from(place(stretch)).unwrap_or(u16::MAX));
        Index { columns, first, shift, stretches: stretches.collect() }
    }

    /// Returns the first column whose moment is not before this one; the number of columns if there is none.
    fn first_from(&self, moment: Moment) -> usize {
        let stretch = (moment.0.saturating_sub(self.first) >> self.shift) as usize;
        let Some(begin) = self.stretches.get(stretch) else { return self.columns.len() };
        let begin = usize::from(*begin);
        begin + self.columns[begin..].iter().take_while(|column| column.highest < moment).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::view::samples::{Random, snapshot, with_device};

    #[test]
    fn columns_are_found_by_moments() {
        let snapshot = snapshot(23, 900);
        with_device(&snapshot, |device| {
            let mut random = Random::new(4);
            for n_moments in [1, 2, 7, 90] {
                let from = random.index(500);
                let columns: Vec<Extremes> = (0..40)
                    .map(|column| {
                        device.figures.between(
                            &device.history,
                            from + column * n_moments,
                            from + (column + 1) * n_moments,
                        )
                    })
                    .collect();
                let index = Index::new(&columns);
                for moment in (0..device.history.end().0 + 2).chain([u32::MAX - 1, u32::MAX]) {
                    let expected = columns.partition_point(|column| column.highest < Moment(moment));
                    assert_eq!(index.first_from(Moment(moment)), expected, "moment {moment}");
                }
            }
        });
    }
}
