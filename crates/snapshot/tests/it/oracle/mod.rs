//! Random histories with known truth, against every question, every window and every gate.
//!
//! A `world` has a `past` that it remembers; `recorded` writes the file of it that a release of PyTorch would write, with a
//! ring that may have lost the beginning; `truth` answers from what the world remembers; `questions`, `states`,
//! `verdicts` and `rewrites` compare. Nothing of it is inferred from a file, which is what memreel has to do. The fuzz target `answers` runs
//! the same with any seed.

#![forbid(unsafe_code)]

mod compared;
mod past;
mod questions;
mod recorded;
mod rewrites;
mod states;
mod truth;
mod verdicts;
mod world;

use compared::Compared;
use recorded::{File, Layout, Options};
use world::World;

use crate::random::Random;

/// Compares every answer about one random history with the truth, and returns how many were compared.
pub(crate) fn compare(random: &mut Random, name: &str) -> usize {
    let options = Options::new(random);
    let mut compared = Compared::new(format!("{name}, {options:?}"));
    let n_steps = *random.pick(&[0, 3, 40, 120, 250]);
    let mut world = World::new(random, n_steps, options.layout > Layout::V2_0);
    let early = world.clone();
    world.go_on(random, n_steps / 2);
    let (before, after) = (File::new(&early, options), File::new(&world, options));
    questions::ask(&after, random, &mut compared);
    rewrites::check(&after, random, &mut compared);
    rewrites::diff(&before, &after, &mut compared);
    compared.n
}

/// `MEMREEL_HISTORIES` is the number of histories, or a range of seeds such as `1000..2000`.
#[cfg(test)]
#[test]
fn every_answer_about_random_histories_is_true() {
    let seeds = crate::seeds::seeds("MEMREEL_HISTORIES", 0..200);
    let answers = |seed| compare(&mut Random::new(seed), &format!("seed {seed}"));
    let n: usize = seeds.clone().map(answers).sum();
    memreel_testing::say(&format!("histories with seeds {seeds:?}: {n} answers equal the truth"));
}
