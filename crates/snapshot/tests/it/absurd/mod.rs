//! Snapshots with absurd numbers, against every question, every rewrite and every format.
//!
//! `damage` changes a recording's addresses, sizes, times, actions and their order without any sense; `questions` asks all
//! that can be asked of the result, and `rewrites` changes it in every way. A damaged recording has no true answers, so
//! the tests check other things: nothing panics, a repaired snapshot needs no second repair, and what is written can be
//! read. The fuzz target `absurd` runs the same with bytes that a fuzzer chooses.
#![forbid(unsafe_code)]

mod damage;
pub(crate) mod questions;
mod rewrites;

use memreel_snapshot::Snapshot;

use crate::{random::Random, recorded::recorded};

/// A damaged recording of a random program.
pub(crate) fn damaged(random: &mut Random, n_steps: usize) -> Snapshot {
    let mut snapshot = recorded(random.next(), n_steps);
    damage::damage(&mut snapshot, random);
    snapshot
}

/// Puts every question to one damaged snapshot, and changes it in every way.
pub(crate) fn use_everywhere(random: &mut Random) {
    let n_steps = *random.pick(&[10, 40, 100]);
    let snapshot = damaged(random, n_steps);
    let other = recorded(random.next(), 20);
    questions::ask(&snapshot, &other, random);
    rewrites::apply(&snapshot, &other, random);
}

/// `MEMREEL_ABSURD` is the number of snapshots, or a range of seeds such as `1000..2000`.
#[cfg(test)]
#[test]
fn nothing_fails_on_absurd_snapshots() {
    for seed in crate::seeds::seeds("MEMREEL_ABSURD", 0..30) {
        let used = std::panic::catch_unwind(|| use_everywhere(&mut Random::new(seed)));
        assert!(used.is_ok(), "seed {seed}");
    }
}

/// `MEMREEL_ABSURD_FIXES` is the number of snapshots, or a range of seeds.
#[cfg(test)]
#[test]
fn what_was_fixed_needs_no_second_fix() {
    let mut n_broken = 0;
    for seed in crate::seeds::seeds("MEMREEL_ABSURD_FIXES", 0..300) {
        let mut random = Random::new(seed);
        let n_steps = *random.pick(&[10, 40, 150]);
        let name = format!("seed {seed}");
        n_broken += usize::from(rewrites::fix_twice(damaged(&mut random, n_steps), &name));
    }
    assert!(n_broken > 0, "no snapshot was broken");
}
