//! Damages the file of a tape, or of a packed one, as the input says, and reads it. Checksums are not checked, so damage gets past them.

#![no_main]

use std::{path::PathBuf, process, sync::LazyLock};

use libfuzzer_sys::fuzz_target;
use memreel_testing::random;

#[path = "../../tests/it/recorder/tape_damage.rs"]
mod tape_damage;

static PATH: LazyLock<PathBuf> =
    LazyLock::new(|| std::env::temp_dir().join(format!("memreel-fuzz-{}.tape", process::id())));
static WHOLE: LazyLock<Vec<u8>> = LazyLock::new(|| tape_damage::tape(&PATH));
static PACKED: LazyLock<Vec<u8>> = LazyLock::new(|| tape_damage::packed(&PATH));

fuzz_target!(|bytes: &[u8]| {
    let mut random = random::Random::of_bytes(bytes);
    let is_packed = random.chance(2);
    let mut damaged = if is_packed { PACKED.clone() } else { WHOLE.clone() };
    // Names are looked up for a snapshot, which takes a hundred times as long as the rest.
    let asks = random.chance(50);
    match is_packed {
        true => _ = tape_damage::damage_packed(&mut damaged, &mut random),
        false => tape_damage::damage(&mut damaged, &mut random),
    }
    let _ = tape_damage::recover(&damaged, &PATH, asks);
});
