//! Damages the file of a tape as the input says, and reads it. Checksums are not checked, so damage gets past them.

#![no_main]

use std::{path::PathBuf, process, sync::LazyLock};

use libfuzzer_sys::fuzz_target;
use memreel_testing::random;

#[path = "../../tests/it/recorder/tape_damage.rs"]
mod tape_damage;

static PATH: LazyLock<PathBuf> =
    LazyLock::new(|| std::env::temp_dir().join(format!("memreel-fuzz-{}.tape", process::id())));
static WHOLE: LazyLock<Vec<u8>> = LazyLock::new(|| tape_damage::tape(&PATH));

fuzz_target!(|bytes: &[u8]| {
    let mut random = random::Random::of_bytes(bytes);
    let mut damaged = WHOLE.clone();
    // Names are looked up for a snapshot, which takes a hundred times as long as the rest.
    let asks = random.chance(50);
    tape_damage::damage(&mut damaged, &mut random);
    let _ = tape_damage::recover(&damaged, &PATH, asks);
});
