//! Times the replay: recorded requests per second under one setting, on one core.
//!
//! `cargo bench --bench replay -- --json`. A request is an allocation with its
//! free. An answer takes two runs, with rising and with falling addresses, and
//! three under the recorded setting; the requests of every run count.

use std::time::{Duration, Instant};

use memreel::{
    DeviceId,
    whatif::{Replay, Requests},
};

#[path = "../tests/it/whatif/model_recording.rs"]
mod model_recording;

const CASES: [(&str, &str); 4] = [
    ("replay_requests_per_second", ""),
    ("replay_requests_per_second_expandable_segments", "expandable_segments:True"),
    ("replay_requests_per_second_max_split_size_64", "max_split_size_mb:64"),
    ("replay_requests_per_second_roundup_8", "roundup_power2_divisions:8"),
];

fn main() {
    let json = std::env::args().any(|argument| argument == "--json");
    let recording = model_recording::read("default");
    let requests = Requests::new(&model_recording::snapshot(&recording), DeviceId(0)).unwrap();
    for (case, conf) in CASES {
        let requests_per_second = measure(&requests, conf);
        if json {
            println!("{{\"case\":\"{case}\",\"requests_per_second\":{requests_per_second:.0}}}");
        } else {
            println!("{case}: {:.2} million", requests_per_second / 1e6);
        }
    }
}

/// The best of several rounds, because other programs use this machine too.
#[allow(clippy::cast_precision_loss)]
fn measure(requests: &Requests, conf: &str) -> f64 {
    let start = Instant::now();
    let mut best: f64 = 0.0;
    while start.elapsed() < Duration::from_secs(2) {
        let round = Instant::now();
        let answer = Replay::new(requests).conf(conf).run().unwrap();
        let n_runs = if answer.has_recorded_addresses { 3 } else { 2 };
        best = best.max((requests.len() * n_runs) as f64 / round.elapsed().as_secs_f64());
    }
    best
}
