//! The rows of a picture's columns: which block, or which group of small ones, is in each row.

#![forbid(unsafe_code)]

use std::{cmp::Reverse, collections::BinaryHeap};

use memreel_snapshot::history::{Life, Moment};

use super::{figures::Extremes, sums::Sum};

/// The value of a row with nothing.
const NOTHING: u16 = 0;

/// The value of a row of the blocks that have no band of their own, nor one of their group.
const REST: u16 = 1;

/// Returns the rows of each column, from the lowest up: the rest, the sums, and the bands in the order in which they were
/// allocated. A column is the moment of its most active bytes, and has `n_rows`; `row` returns the first of them whose middle
/// is at or above a number of bytes, or their number.
pub(super) fn raster(
    sums: &[Sum],
    bands: &[&Life],
    figures: &[Extremes],
    n_rows: usize,
    row: impl Fn(u64) -> usize,
) -> Vec<u16> {
    let mut raster = vec![NOTHING; figures.len() * n_rows];
    let tops: Vec<u64> = (0..n_rows).map(|at| least_above(at, &row)).collect();
    let mut stacked = Stacked::new(sums.len() + bands.len());
    let mut ends: BinaryHeap<Reverse<(Moment, usize)>> = BinaryHeap::new();
    let mut next = 0;
    for (at, (column, rows)) in figures.iter().zip(raster.chunks_exact_mut(n_rows)).enumerate() {
        while let Some(band) = bands.get(next).filter(|band| band.from <= column.highest) {
            stacked.change(sums.len() + next, 0, band.represented_bytes);
            ends.push(Reverse((band.until, next)));
            next += 1;
        }
        while let Some(Reverse((_, band))) = ends.peek().filter(|Reverse((end, _))| *end <= column.highest) {
            stacked.change(sums.len() + band, bands[*band].represented_bytes, 0);
            ends.pop();
        }
        for (place, Sum { bytes, .. }) in sums.iter().enumerate() {
            let before = at.checked_sub(1).map_or(0, |before| bytes[before]);
            stacked.change(place, before, bytes[at]);
        }
        paint(&stacked, column.active[1], rows, &tops);
    }
    raster
}

/// Returns the least bytes whose row is above one.
fn least_above(at: usize, row: impl Fn(u64) -> usize) -> u64 {
    let (mut low, mut high) = (0, u64::MAX);
    while low < high {
        let middle = low + (high - low) / 2;
        if row(middle) > at {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

/// Fills the rows of a column with what is in it, each with its place in the table of lives. `tops` has for each row the least
/// bytes that are above it.
fn paint(stacked: &Stacked, active_bytes: u64, rows: &mut [u16], tops: &[u64]) {
    let rest_bytes = active_bytes.saturating_sub(stacked.below(stacked.n_places()));
    let mut from = tops.partition_point(|top| *top <= rest_bytes);
    rows[..from].fill(REST);
    // Most places are lower than a row, so each row is looked up among the places, and not the other way round.
    while let Some(top) = tops.get(from) {
        let Some(place) = stacked.first(top.saturating_sub(rest_bytes)) else { break };
        let bytes = rest_bytes.saturating_add(stacked.below(place + 1));
        let until = from + tops[from..].partition_point(|top| *top <= bytes);
        rows[from..until].fill(u16::try_from(place + 2).unwrap_or(REST));
        from = until;
    }
}

/// Bytes by place, one above the other. It is a binary indexed tree: of thousands of places a few change from column to column.
struct Stacked(Vec<u128>);

impl Stacked {
    fn new(n_places: usize) -> Stacked {
        Stacked(vec![0; n_places + 1])
    }

    fn n_places(&self) -> usize {
        self.0.len() - 1
    }

    /// Puts `bytes` in the place of `before`.
    fn change(&mut self, place: usize, before: u64, bytes: u64) {
        let mut node = place + 1;
        while let Some(sum) = self.0.get_mut(node) {
            *sum = *sum + u128::from(bytes) - u128::from(before);
            node += node & node.wrapping_neg();
        }
    }

    /// Returns the bytes in the places before one.
    fn below(&self, place: usize) -> u64 {
        let (mut node, mut sum) = (place, 0);
        while node > 0 {
            sum += self.0[node];
            node &= node - 1;
        }
        saturated(sum)
    }

    /// Returns the first place with which the bytes so far are at least `bytes`.
    fn first(&self, bytes: u64) -> Option<usize> {
        let (mut place, mut missing) = (0, u128::from(bytes));
        let mut step = self.0.len().next_power_of_two();
        while step > 0 {
            if let Some(sum) = self.0.get(place + step).filter(|sum| **sum < missing) {
                (place, missing) = (place + step, missing - sum);
            }
            step /= 2;
        }
        (place < self.n_places()).then_some(place)
    }
}

fn saturated(bytes: u128) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use memreel_snapshot::{
        Action, Address, Snapshot,
        model::{TraceEntry, raw::Shape},
    };

    use super::*;
    use crate::serve::view::samples::with_device;

    /// Each block would else be looked at in each column.
    #[test]
    fn rows_are_looked_up_and_not_blocks() {
        const N_BLOCKS: u64 = 4096;
        const N_COLUMNS: usize = 512;
        const N_ROWS: usize = 32;
        let mut snapshot = Snapshot::default();
        snapshot.shapes.intern(Shape::from_fields(&[]));
        let alloc = |at: u64| TraceEntry {
            action: Some(Action::Alloc),
            address: Address(512 * at),
            size: 512,
            ..TraceEntry::default()
        };
        snapshot.device_traces.push((0..N_BLOCKS).map(alloc).collect());
        with_device(&snapshot, |device| {
            let bands: Vec<&Life> = device.history.lives().iter().collect();
            let edge = |column: usize| column * device.figures.n_moments() / N_COLUMNS;
            let of = |column| device.figures.between(&device.history, edge(column), edge(column + 1));
            let figures: Vec<Extremes> = (0..N_COLUMNS).map(of).collect();
            let n_looks = Cell::new(0_u64);
            let row = |bytes: u64| {
                n_looks.set(n_looks.get() + 1);
                usize::try_from(bytes.saturating_add(32_767) / 65_536).unwrap_or(N_ROWS).min(N_ROWS)
            };
            let raster = raster(&[], &bands, &figures, N_ROWS, row);
            let last = &raster[(N_COLUMNS - 1) * N_ROWS..];
            assert_eq!((last[0], last[N_ROWS - 1]), (66, 2 + 3968 + 64), "the blocks at the rows' middles");
            assert!(n_looks.get() < N_BLOCKS * N_COLUMNS as u64 / 8, "{}", n_looks.get());
        });
    }
}
