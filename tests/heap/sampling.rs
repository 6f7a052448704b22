//! A sample of the heap's allocations.

use std::{hint::black_box, time::Duration};

use memreel::{
    Action,
    recorder::{Context, History, sample_weight},
};

use crate::{own_process, taken::sound_snapshot};

const LIMIT: Duration = Duration::from_secs(60);
const EVERY: u64 = 50_000;

#[test]
#[allow(clippy::cast_precision_loss)]
fn a_sample_has_pairs_and_estimates_the_whole() {
    own_process::run(module_path!(), "a_sample_has_pairs_and_estimates_the_whole", LIMIT, || {
        let history = History::all().context(Context::None).sample_every(EVERY);
        memreel::record_history(&history).unwrap();
        let bytes_of = |n: usize| if n.is_multiple_of(500) { 300_000 } else { 100 << (n % 4) };
        let (mut bytes, mut variance) = (0.0, 0.0);
        for n in 0..100_000 {
            drop(black_box(vec![1_u8; bytes_of(n)]));
            bytes += bytes_of(n) as f64;
            variance += (sample_weight(bytes_of(n) as u64, EVERY) - 1.0) * (bytes_of(n) as f64).powi(2);
        }
        let snapshot = sound_snapshot();
        let trace = &snapshot.device_traces[1];
        let n_of = |action| trace.iter().filter(|entry| entry.action == Some(action)).count();
        let n_allocs = n_of(Action::Alloc);
        assert!((500..20_000).contains(&n_allocs), "{n_allocs} of 100,000");
        let ours = [100, 200, 400, 800, 300_000];
        let of_ours =
            trace.iter().filter(|entry| entry.action == Some(Action::Alloc) && ours.contains(&entry.size));
        let estimate: f64 = of_ours.map(|entry| sample_weight(entry.size, EVERY) * entry.size as f64).sum();
        // Six standard deviations: wrong once in half a billion runs.
        assert!((estimate - bytes).abs() < 6.0 * variance.sqrt(), "{estimate} for {bytes}");
    });
}
