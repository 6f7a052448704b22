//! Histories for the tests: random ones, made by an allocator, the same for the same seed.

use memreel::{Allocation, Reel, recorder::Recording};
use memreel_snapshot::{DeviceId, Snapshot, analysis::Histories};

use super::{device::Device, request::Request};

// A link to the file of memreel's unit tests: an archive of this package has the file itself.
#[allow(
    unreachable_pub,
    dead_code,
    reason = "memreel-testing shares it, and not every function is used here"
)]
mod random;

pub(super) use random::Random;

/// Returns a snapshot of `n_steps` random requests and frees; some blocks are from before the history.
pub(super) fn snapshot(seed: u64, n_steps: usize) -> Snapshot {
    let mut random = Random::new(seed);
    let reel = Reel::builder().build().unwrap();
    let mut live: Vec<Allocation> = (0..random.below(6)).map(|_| block(&reel, &mut random)).collect();
    reel.record_history(&Recording::all());
    for _ in 0..n_steps {
        if live.is_empty() || random.below(5) < 3 {
            live.push(block(&reel, &mut random));
        } else {
            let at = random.index(live.len());
            drop(live.swap_remove(at));
        }
    }
    reel.snapshot()
}

fn block(reel: &Reel, random: &mut Random) -> Allocation {
    let most = [600, 5000, 90_000][random.index(3)];
    reel.alloc(1 + random.below(most)).unwrap()
}

/// Runs a function on the device of a snapshot.
pub(super) fn with_device<T>(snapshot: &Snapshot, ask: impl FnOnce(&Device<'_>) -> T) -> T {
    let histories = Histories::new(snapshot);
    ask(&Device::new(histories.of(DeviceId(0)), DeviceId(0)))
}

/// Returns a request, written as `picture?rows=64`.
pub(super) fn request(text: &str) -> Request {
    let (path, query) = text.split_once('?').map_or((text, None), |(path, query)| (path, Some(query)));
    Request::new(path, query)
}
