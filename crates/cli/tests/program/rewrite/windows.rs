//! `memreel slim` against `memreel at`: at the start and the end of a window, the state is that of the whole file.
//!
//! `at` computes the figures without the code of `slim`, from the window and from the whole file. The library's tests
//! compare `slim` with a naive replay; `dev/scripts/window-viewer` compares windows with the real viewer.

#![forbid(unsafe_code)]

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use memreel::recorder::{Context, Recording};
use memreel_snapshot::pickle;
use serde_json::Value;

use crate::{random::Random, recorded::recorded_as};

fn memreel(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_memreel")).args(arguments).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), &*message), (Some(0), ""), "{arguments:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn at(when: &str, file: &str, device: usize) -> Value {
    let text = memreel(&["at", when, "--json", "--device", &device.to_string(), file]);
    serde_json::from_str(&text).unwrap()
}

/// Keeps what must be equal: not the numbers of events, which differ in a window.
fn state(mut at: Value) -> Value {
    let object = at.as_object_mut().unwrap();
    object.retain(|key, _| key.ends_with("_bytes") || key == "segments" || key == "n_blocks");
    let blocks = object["segments"].as_array_mut().unwrap().iter_mut();
    for block in blocks.flat_map(|segment| segment["blocks"].as_array_mut().unwrap()) {
        block.as_object_mut().unwrap().remove("allocated_by_event");
    }
    at
}

/// Returns the moment before an event, as an argument of `at`.
fn before(event: usize) -> String {
    event.checked_sub(1).map_or("start".to_owned(), |last| last.to_string())
}

struct Recorded {
    name: String,
    path: PathBuf,
    device: usize,
    n_events: usize,
}

/// Returns real recordings of every kind, and random ones of two devices.
fn recordings(folder: &Path) -> Vec<Recorded> {
    let real = [
        "transformer_all_stacks",
        "resnet18_python_stacks",
        "oom_fragment",
        "expandable_wrapped_ring",
        "graph_private_pools",
        "pending_free",
        "oom",
    ];
    let fixtures = crate::repository("fixtures/torch-2.11/snapshots");
    let real = real.map(|name| (name.to_owned(), fixtures.join(format!("{name}.pickle"))));
    let random = (0..8).map(|seed| {
        let path = folder.join(format!("random-{seed}.pickle"));
        let history = Recording::all().context(Context::Alloc);
        // Every second one has lost its beginning.
        let history = if seed % 2 == 0 { history } else { history.max_entries(120) };
        pickle::save(&recorded_as(seed, 250, history), &path).unwrap();
        (format!("random-{seed}"), path)
    });
    let of = |(name, path): (String, PathBuf)| {
        let traces = pickle::load(&path).unwrap().device_traces;
        let device = (0..traces.len()).max_by_key(|device| traces[*device].len()).unwrap();
        Recorded { name, path, device, n_events: traces[device].len() }
    };
    real.into_iter().chain(random).map(of).collect()
}

#[test]
fn a_window_begins_and_ends_as_the_whole_file_is_then() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random::new(7);
    let mut n_windows = 0;
    for Recorded { name, path, device, n_events } in recordings(folder.path()) {
        let whole = path.to_str().unwrap();
        for n in 0..8 {
            // Windows may begin at the start and end at the end of the file.
            let from = if n % 4 == 0 { 0 } else { random.index(n_events) };
            let to = if n % 4 == 1 { n_events } else { from + 1 + random.index(n_events - from) };
            let cut = folder.path().join(format!("{name}-{from}-{to}.pickle"));
            let (cut_path, range) = (cut.to_str().unwrap(), format!("{from}..{to}"));
            memreel(&["slim", "--events", &range, "--device", &device.to_string(), whole, "-o", cut_path]);
            let [first, last] = [before(from), before(to)].map(|when| state(at(&when, whole, device)));
            assert_eq!(state(at("start", cut_path, device)), first, "{name}: the start of {range}");
            assert_eq!(state(at("end", cut_path, device)), last, "{name}: the end of {range}");
            n_windows += 1;
        }
    }
    assert_eq!(n_windows, 15 * 8);
}
