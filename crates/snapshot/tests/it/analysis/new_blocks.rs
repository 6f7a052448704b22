//! Blocks that are allocated after a moment, against a count of the entries that does not know lives.

use std::collections::BTreeMap;

use memreel_snapshot::{
    DeviceId, Snapshot,
    analysis::{By, DeviceHistory},
    history::Moment,
};

use super::questions::{E, MIB, lines, snapshot};
use crate::{random::Random, seeds::seeds};

/// Returns the peak and what is left, by walking the entries with a map of new blocks.
fn counted(entries: &[E<'_>], since: usize) -> (u64, u64) {
    let (mut held, mut peak) = (BTreeMap::new(), 0);
    for (action, address, size, _) in &entries[since..] {
        match *action {
            "alloc" => drop(held.insert(*address, *size)),
            "free_requested" | "free_completed" => drop(held.remove(address)),
            _ => {}
        }
        peak = peak.max(held.values().sum::<u64>());
    }
    (peak, held.values().sum())
}

fn of(snapshot: &Snapshot) -> DeviceHistory<'_> {
    DeviceHistory::new(snapshot, DeviceId(0))
}

fn since(n: usize) -> Moment {
    n.checked_sub(1).map_or(Moment::START, Moment::after)
}

#[test]
fn only_what_is_allocated_since_then_counts_until_its_free_is_requested() {
    let before: &[E<'_>] = &[("alloc", 0x1000, 8 * MIB, 1), ("alloc", 0x2000, 4 * MIB, 2)];
    let after: &[E<'_>] = &[
        ("alloc", 0x3000, MIB, 3),
        ("free_requested", 0x3000, MIB, 3),
        ("alloc", 0x4000, 2 * MIB, 4),
        ("free_requested", 0x1000, 8 * MIB, 1),
        // The GPU is done late: both blocks wait until here.
        ("free_completed", 0x3000, MIB, 3),
        ("free_completed", 0x1000, 8 * MIB, 1),
        ("free_requested", 0x4000, 2 * MIB, 4),
        ("free_completed", 0x4000, 2 * MIB, 4),
        ("alloc", 0x5000, 512, 5),
    ];
    let snapshot = snapshot(&[before, after].concat(), &[]);
    let history = of(&snapshot);
    let new = history.new_blocks(since(2));
    assert_eq!((new.peak_bytes, new.n_at_peak, new.left_bytes, new.n_left), (2 * MIB, 1, 512, 1));
    assert_eq!((new.peak, new.n_events, new.is_complete), (Moment::after(4), 9, true));
    let at = |moment| -> Vec<(u64, u64)> {
        let groups = history.new_at(since(2), moment, By::Stack).unwrap();
        groups.iter().map(|group| (lines(&snapshot, &group.site), group.bytes)).collect()
    };
    assert_eq!((at(new.peak), at(history.end())), (vec![(4, 2 * MIB)], vec![(5, 512)]));
    // All of the history: the blocks from before count too.
    assert_eq!(history.new_blocks(Moment::START).peak_bytes, 14 * MIB);
    // After the end there is nothing.
    let none = history.new_blocks(history.end());
    assert_eq!((none.peak_bytes, none.left_bytes, none.n_events, none.peak), (0, 0, 0, history.end()));
    assert!(history.new_at(since(2), new.peak, By::Owner).is_none());
}

#[test]
fn a_time_is_a_moment() {
    let entries: Vec<E<'_>> = (0..6).map(|at| ("alloc", 0x1000 * (at + 1), 512, 1)).collect();
    let mut snapshot = snapshot(&entries, &[]);
    // The entry without a time has that of the one before it; the clock steps back once.
    for (entry, time_us) in snapshot.device_traces[0].iter_mut().zip([100, 110, 0, 120, 90, 130]) {
        entry.time_us = time_us;
    }
    let history = of(&snapshot);
    let moments = [0, 100, 101, 110, 111, 120, 121, 130, 131].map(|time_us| history.moment_before(time_us).0);
    assert_eq!(moments, [0, 0, 1, 1, 3, 3, 5, 5, 6]);
}

/// Returns a history of blocks whose frees complete late, or in which one kind of event of a free is missing.
fn random(random: &mut Random, without: &str) -> Vec<E<'static>> {
    let (mut entries, mut live, mut waiting) = (Vec::new(), Vec::new(), Vec::new());
    let mut address = 0x1000;
    for _ in 0..random.below(60) {
        match random.below(4) {
            0 | 1 => {
                let size = 512 * (1 + random.below(20));
                address += 0x10000;
                live.push((address, size));
                entries.push(("alloc", address, size, 1 + random.below(4)));
            }
            2 if !live.is_empty() => {
                let (address, size) = live.swap_remove(random.index(live.len()));
                waiting.push((address, size));
                entries.push(("free_requested", address, size, 0));
            }
            _ if !waiting.is_empty() => {
                let (address, size) = waiting.swap_remove(random.index(waiting.len()));
                entries.push(("free_completed", address, size, 0));
            }
            _ => {}
        }
    }
    entries.retain(|(action, ..)| *action != without);
    entries
}

#[test]
fn figures_are_those_of_a_plain_count() {
    for seed in seeds("NEW_BLOCKS_SEEDS", 0..400) {
        let mut numbers = Random::new(seed);
        let without = *numbers.pick(&["nothing", "free_completed", "free_requested"]);
        let entries = random(&mut numbers, without);
        let first = usize::try_from(numbers.below(entries.len() as u64 + 1)).unwrap();
        let snapshot = snapshot(&entries, &[]);
        let history = of(&snapshot);
        let new = history.new_blocks(since(first));
        let (peak, left) = counted(&entries, first);
        assert_eq!(
            (new.peak_bytes, new.left_bytes),
            (peak, left),
            "seed {seed}, without {without}, since {first}"
        );
        for (moment, bytes) in [(new.peak, peak), (history.end(), left)] {
            for by in [By::Stack, By::Function, By::Scope] {
                let groups = history.new_at(since(first), moment, by).unwrap();
                assert_eq!(groups.iter().map(|group| group.bytes).sum::<u64>(), bytes, "seed {seed}, {by:?}");
            }
        }
    }
}
