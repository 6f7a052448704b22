//! Random recordings for tests: what a reel records of a random program.
#![forbid(unsafe_code)]

use memreel::{
    Allocation, Reel,
    device::Simulated,
    recorder::{Context, Recording},
};
use memreel_snapshot::{Snapshot, StreamId};

use crate::random::Random;

/// The settings that recordings take turns in.
const SETTINGS: [&str; 3] =
    ["", "expandable_segments:True", "max_split_size_mb:20,roundup_power2_divisions:4"];

/// Returns the history that a recording with these options has of a random program of `n_steps`.
#[must_use]
pub fn recorded_as(seed: u64, n_steps: usize, history: Recording) -> Snapshot {
    let mut random = Random::new(seed);
    let settings = SETTINGS[random.index(SETTINGS.len())].parse().unwrap();
    let devices = [Simulated::new(8 << 30), Simulated::new(8 << 30)].map(std::sync::Arc::new);
    let [one, other] = devices.clone();
    let reel = Reel::builder().device(one).device(other).settings(settings).history(history).build().unwrap();
    let mut live: Vec<Allocation> = Vec::new();
    for step in 0..n_steps {
        let _scope = (random.index(3) == 0).then(|| reel.scope(["forward", "backward"][step / 20 % 2]));
        match random.index(20) {
            0..10 => {
                let bytes = [2_000, 300_000, 3_000_000, 40_000_000][random.index(4)];
                let bytes = 1 + random.index(bytes) as u64;
                let stream = StreamId([0, 0, 0, 7][random.index(4)]);
                let allocator = &reel.allocators()[usize::from(random.index(10) == 0)];
                live.push(allocator.alloc(bytes, stream).unwrap());
            }
            10..18 if !live.is_empty() => {
                live.swap_remove(random.index(live.len())).free().unwrap();
            }
            18 if !live.is_empty() => {
                devices[0].set_busy(StreamId(9));
                live[random.index(live.len())].record_stream(StreamId(9));
            }
            19 if random.index(3) == 0 => {
                devices[0].set_idle(StreamId(9));
                reel.empty_cache().unwrap();
            }
            _ => {}
        }
    }
    reel.snapshot()
}

/// Returns the whole history of a random program.
#[must_use]
pub fn recorded(seed: u64, n_steps: usize) -> Snapshot {
    recorded_as(seed, n_steps, Recording::all().context(Context::Alloc))
}
