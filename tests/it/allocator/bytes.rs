//! Programs of `operations` from fixed bytes, and the seeds of the fuzz target `allocator_ops`.
#![forbid(unsafe_code)]

use memreel_testing::repository;
use std::fs;

use super::operations;
use crate::random::Random;

#[test]
fn programs_of_random_bytes_keep_everything_in_agreement() {
    for seed in 0..100 {
        let mut random = Random::new(seed);
        let n = 1 + 3 * random.index(300);
        let bytes: Vec<u8> = (0..n).map(|_| random.below(256) as u8).collect();
        operations::run(&bytes);
    }
}

#[test]
fn seeds_of_the_fuzz_target_run() {
    let folder = repository("fuzz/seeds/allocator_ops");
    let seeds: Vec<_> = fs::read_dir(folder).unwrap().map(|seed| seed.unwrap().path()).collect();
    assert!(!seeds.is_empty());
    seeds.iter().for_each(|seed| operations::run(&fs::read(seed).unwrap()));
}
