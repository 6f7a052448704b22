//! Damages a random recording as the input says, asks every question about it, and changes it in every way.

#![no_main]

use libfuzzer_sys::fuzz_target;
use memreel_testing::{random, recorded};

#[path = "../../crates/snapshot/tests/it/absurd/mod.rs"]
mod absurd;

fuzz_target!(|bytes: &[u8]| {
    absurd::use_everywhere(&mut random::Random::of_bytes(bytes));
});
