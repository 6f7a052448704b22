//! Converts PyTorch's times to the driver's clock.
//!
//! Both are derived from the processor's counter and the system's clock, but measured at different times: over hours
//! they drift apart by milliseconds. A segment starts in both traces a few microseconds apart, which shows the drift.

use crate::{
    model::TraceEntry,
    words::{Action, Address, SeededMap},
};

/// Pairs that differ from most by more than this many microseconds do not belong to one segment.
const FAR_US: i64 = 100_000;

/// Converts PyTorch's times to those of the driver's clock.
pub(super) fn align(driver: &[TraceEntry], torch: &mut [TraceEntry]) {
    let pairs = pairs(driver, torch);
    if pairs.is_empty() {
        return;
    }
    // The driver's event comes first: of neighbours, the one with the shortest delay counts.
    let around = |at: usize| &pairs[at.saturating_sub(1)..(at + 2).min(pairs.len())];
    let least: Vec<i64> =
        (0..pairs.len()).map(|at| around(at).iter().map(|pair| pair.1).min().unwrap_or_default()).collect();
    let mut at = 0;
    for (number, entry) in torch.iter_mut().enumerate() {
        while pairs.get(at + 1).is_some_and(|(next, _)| *next <= number) {
            at += 1;
        }
        // An entry without a time has the time 0.
        if entry.time_us != 0 {
            entry.time_us = entry.time_us.saturating_sub(least[at]);
        }
    }
}

/// Returns the entries of PyTorch that start segments, each with its delay after the driver's entry.
fn pairs(driver: &[TraceEntry], torch: &[TraceEntry]) -> Vec<(usize, i64)> {
    let [ours, theirs] = [driver, torch].map(beginnings);
    let mut pairs: Vec<(usize, i64)> = Vec::new();
    for (address, of_torch) in theirs {
        // Otherwise one of the traces lacks some, and it is not known which.
        if let Some(of_driver) = ours.get(&address).filter(|all| all.len() == of_torch.len()) {
            let late = |(driver_at, at): (&usize, usize)| {
                (at, torch[at].time_us.saturating_sub(driver[*driver_at].time_us))
            };
            pairs.extend(of_driver.iter().zip(of_torch).map(late));
        }
    }
    let mut late: Vec<i64> = pairs.iter().map(|pair| pair.1).collect();
    late.sort_unstable();
    let Some(median) = late.get(late.len() / 2).copied() else { return pairs };
    pairs.retain(|(_, late)| late.abs_diff(median) <= FAR_US.unsigned_abs());
    pairs.sort_unstable();
    pairs
}

/// Returns the entries with times that start segments, by address.
fn beginnings(trace: &[TraceEntry]) -> SeededMap<Address, Vec<usize>> {
    let mut all: SeededMap<Address, Vec<usize>> = SeededMap::default();
    for (number, entry) in trace.iter().enumerate() {
        if matches!(entry.action, Some(Action::SegmentAlloc | Action::SegmentMap)) && entry.time_us != 0 {
            all.entry(entry.address).or_default().push(number);
        }
    }
    all
}
