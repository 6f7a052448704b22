//! The blocks that are too small for bands of their own, summed up by their groups.

#![forbid(unsafe_code)]

use std::{cmp::Reverse, collections::HashMap};

use super::{device::Device, figures::Extremes, groups::Groups, sizes::Span};

/// The most groups that have a band; those of the others are in the rest.
const N_SUMS: usize = 32;

/// A group's small blocks.
pub(super) struct Sum {
    pub(super) group: u32,
    /// Their bytes in each column.
    pub(super) bytes: Vec<u64>,
}

/// Returns the sums of the groups that hold the most, the largest first. A column is the moment of its most active bytes.
pub(super) fn sums<'s>(
    device: &Device<'_>,
    groups: &Groups,
    columns: &[Extremes],
    small: impl Iterator<Item = &'s Span> + Clone,
) -> Vec<Sum> {
    let lives = device.history.lives();
    let group = |span: &Span| groups.number(&lives[span.life as usize], span.life);
    let Some((first, last)) = columns.first().zip(columns.last()) else { return Vec::new() };
    let mut areas: HashMap<u32, u128> = HashMap::new();
    for span in small.clone() {
        let events = span.until.min(last.highest).0.saturating_sub(span.from.max(first.highest).0);
        let area = u128::from(lives[span.life as usize].represented_bytes) * (u128::from(events) + 1);
        *areas.entry(group(span)).or_default() += area;
    }
    let mut largest: Vec<(u32, u128)> = areas.into_iter().collect();
    largest.sort_unstable_by_key(|(group, area)| (Reverse(*area), *group));
    largest.truncate(N_SUMS);
    let mut sums: Vec<Sum> =
        largest.iter().map(|(group, _)| Sum { group: *group, bytes: vec![0; columns.len() + 1] }).collect();
    let place: HashMap<u32, usize> =
        largest.iter().enumerate().map(|(at, (group, _))| (*group, at)).collect();
    for span in small {
        let Some(sum) = place.get(&group(span)).map(|at| &mut sums[*at].bytes) else { continue };
        // The bytes begin in one column and end in another; what is between is summed up below.
        let bytes = lives[span.life as usize].represented_bytes;
        let begin = columns.partition_point(|column| column.highest < span.from);
        let end = columns.partition_point(|column| column.highest < span.until);
        sum[begin] = sum[begin].wrapping_add(bytes);
        sum[end] = sum[end].wrapping_sub(bytes);
    }
    for Sum { bytes, .. } in &mut sums {
        let mut live = 0_u64;
        for change in bytes.iter_mut() {
            live = live.wrapping_add(*change);
            *change = live;
        }
        bytes.pop();
    }
    sums
}
