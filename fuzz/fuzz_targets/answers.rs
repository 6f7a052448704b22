//! Makes a random history of the input, and compares every answer about it with the truth.

#![no_main]

use libfuzzer_sys::fuzz_target;
use memreel_testing::random;

#[path = "../../crates/snapshot/tests/it/oracle/mod.rs"]
mod oracle;

fuzz_target!(|bytes: &[u8]| {
    oracle::compare(&mut random::Random::of_bytes(bytes), "a fuzzer's history");
});
