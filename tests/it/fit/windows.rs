//! No window of a healthy run has a leak, wherever it begins and ends: as of a ring that lost its beginning.

use memreel::{
    DeviceId, Snapshot,
    analysis::{Claim, DeviceHistory, Doubt},
    rewrite::{Slim, Window},
};
use memreel_testing::random::Random;

use super::sized_recording::{model, snapshot};

/// Returns the first site of a window that is a leak, or may be one because nothing repeats.
fn leak_in(snapshot: &Snapshot, from: usize, to: usize) -> Option<String> {
    let window =
        Slim::new().window(Window::Events { device: None, range: from..to }).apply(snapshot.clone()).unwrap();
    let leaks = DeviceHistory::new(&window, DeviceId(0)).leaks();
    let is_leak = |claim| matches!(claim, Claim::Leak | Claim::MayBeALeak(Doubt::NothingRepeated));
    let leak = leaks.into_iter().find(|site| is_leak(site.claim))?;
    Some(format!("{from}..{to}: {:?} of {} bytes in {} blocks", leak.claim, leak.bytes, leak.n_live))
}

#[test]
fn windows_of_healthy_runs_have_no_leaks() {
    let mut random = Random::new(5);
    let mut found = Vec::new();
    for name in ["llama", "llama_eager", "resnet50"] {
        let model = model(name);
        for size in model["runs"].as_object().unwrap().keys() {
            let snapshot = snapshot(&model, size.parse().unwrap());
            let n = snapshot.device_traces[0].len();
            for _ in 0..24 {
                let from = random.index(n * 3 / 4);
                let to = from + n / 20 + random.index(n - from - n / 20);
                found.extend(leak_in(&snapshot, from, to).map(|leak| format!("{name} {size}, {leak}")));
            }
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}
