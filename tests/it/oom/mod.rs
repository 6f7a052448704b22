//! What is said of a failed request: in its error, and in the files beside its snapshot.
#![forbid(unsafe_code)]

use std::{sync::Arc, thread, time::Duration};

use memreel::{
    Allocation, OutOfMemory, Reel,
    analysis::DeviceHistory,
    device::{Host, Limit, Simulated},
    pickle,
    recorder::Recording,
    whatif::explain,
};
use serde_json::Value;

const MIB: u64 = 1 << 20;

/// A reel on the host's memory, of which it may have 60 MiB.
fn on_the_host() -> Reel {
    let device = Limit::new(Host::new(), 60 * MIB);
    Reel::builder().device(device).history(Recording::all()).build().unwrap()
}

#[inline(never)]
fn hold_the_most(reel: &Reel) -> Vec<Allocation> {
    (0..3).map(|_| reel.alloc(12 * MIB).unwrap()).collect()
}

#[inline(never)]
fn hold_less(reel: &Reel) -> Allocation {
    reel.alloc(9 * MIB).unwrap()
}

fn failed(reel: &Reel, bytes: u64) -> OutOfMemory {
    reel.alloc(bytes).unwrap_err().out_of_memory().unwrap().clone()
}

fn text(figures: &OutOfMemory) -> &str {
    &figures.verdict.as_ref().expect("a verdict").text
}

fn json(figures: &OutOfMemory) -> Value {
    serde_json::from_str(&figures.verdict.as_ref().expect("a verdict").json).unwrap()
}

#[test]
fn a_fragmented_host_and_a_full_one_have_different_verdicts() {
    let reel = on_the_host();
    let (most, _less) = (hold_the_most(&reel), hold_less(&reel));
    let full = failed(&reel, 30 * MIB);
    assert!(
        text(&full).starts_with("full: 45.00 MiB is in use and 30.00 MiB was requested, "),
        "{}",
        text(&full)
    );
    // In the text, the most memory is first, with its stack.
    let list = text(&full).split("the largest of 45.00 MiB live:\n").nth(1).unwrap();
    let lines: Vec<&str> = list.lines().collect();
    assert!(
        lines[0].starts_with("   36.00 MiB in 3 blocks: ") && lines[0].contains("hold_the_most"),
        "{list}"
    );
    assert!(lines[1].starts_with("    9.00 MiB in 1 block: ") && lines[1].contains("hold_less"), "{list}");
    assert_eq!(lines.len(), 2, "{list}");
    assert!(full.to_string().contains(&format!("\n{}", text(&full))), "{full}");

    let reel = on_the_host();
    let mut other = hold_the_most(&reel);
    let _less = hold_less(&reel);
    drop((other.remove(1), most));
    let fragmented = failed(&reel, 18 * MIB);
    assert!(text(&fragmented).starts_with("fragmented: "), "{}", text(&fragmented));
    assert!(text(&fragmented).contains("requested by it::oom::failed"), "{}", text(&fragmented));
    assert!(text(&fragmented).contains("  with expandable segments  "), "{}", text(&fragmented));
}

/// The error, the file beside the snapshot and the program's answer on the snapshot are one.
#[test]
fn the_file_and_the_error_agree() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("oom.pickle");
    let reel = on_the_host();
    reel.save_on_oom(&path);
    let _held = (hold_the_most(&reel), hold_less(&reel));
    let error = failed(&reel, 30 * MIB);
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    assert_eq!(read("oom.verdict.txt").trim_end(), text(&error));
    assert_eq!(read("oom.verdict.json").trim_end(), error.verdict.as_ref().unwrap().json);
    let snapshot = pickle::load(&path).unwrap();
    let history = DeviceHistory::new(&snapshot, 0);
    let report = history.oom().unwrap().of_device(error.device_total_bytes);
    let explanation = explain(&history, report);
    assert_eq!(explanation.text(5), text(&error));
    let mut told = json(&error);
    assert_eq!(told.as_object_mut().unwrap().remove("device"), Some(0.into()));
    assert_eq!(serde_json::to_value(explanation.record(5)).unwrap(), told);
    assert_eq!(told["live"][0]["bytes"], 36 * MIB);
}

/// A verdict leaves no trace of its own: without one, the history would be the same.
#[test]
fn a_verdict_records_nothing() {
    let reel = on_the_host();
    let _held = hold_the_most(&reel);
    assert!(failed(&reel, 30 * MIB).verdict.is_some());
    let actions: Vec<_> =
        reel.snapshot().device_traces[0].iter().map(|entry| entry.action.unwrap().name()).collect();
    assert_eq!(actions.last(), Some(&"oom"), "{actions:?}");
    assert!(!actions.contains(&"snapshot"), "{actions:?}");
}

#[test]
fn without_a_history_the_blocks_are_told() {
    let reel = Reel::builder().device(Simulated::new(60 * MIB)).build().unwrap();
    let _held = reel.alloc(50 * MIB).unwrap();
    let error = failed(&reel, 30 * MIB);
    assert!(text(&error).starts_with("full: "), "{error}");
    assert!(text(&error).contains("50.00 MiB in 1 block: (no stack)"), "{error}");
    assert_eq!(json(&error)["oom"]["with_expandable_segments"], "no", "it never fits");
}

#[test]
fn what_others_hold_of_the_device_is_told() {
    let device = Arc::new(Simulated::new(100 * MIB));
    let reel = |device: &Arc<Simulated>| {
        Reel::builder().device(device.clone()).history(Recording::all()).build().unwrap()
    };
    let (other, own) = (reel(&device), reel(&device));
    let held = other.alloc(70 * MIB).unwrap();
    let error = failed(&own, 50 * MIB);
    assert!(text(&error).starts_with("occupied: 30.00 MiB is free, and 70.00 MiB of the device"), "{error}");
    assert_eq!(json(&error)["oom"]["outside_bytes"], 70 * MIB);
    // More than the device has is not the fault of others.
    let own = reel(&device);
    assert!(text(&failed(&own, 101 * MIB)).starts_with("full: "));
    drop(held);
}

#[test]
fn a_limit_is_told() {
    let reel = Reel::builder().device(Simulated::new(1024 * MIB)).history(Recording::all()).build().unwrap();
    reel.allocators()[0].set_memory_limit(Some(40 * MIB));
    assert!(text(&failed(&reel, 50 * MIB)).starts_with("limited: "));
}

#[test]
fn one_verdict_a_second_without_a_snapshot() {
    let reel = on_the_host();
    let first = failed(&reel, 80 * MIB);
    let next = failed(&reel, 80 * MIB);
    assert_eq!((first.verdict.is_some(), next.verdict), (true, None));
    thread::sleep(Duration::from_millis(1100));
    assert!(failed(&reel, 80 * MIB).verdict.is_some());
}

#[test]
fn the_request_of_this_thread_is_told() {
    let reel = on_the_host();
    let threads = 8;
    thread::scope(|scope| {
        for number in 0..threads {
            let reel = &reel;
            scope.spawn(move || {
                let bytes = (100 + number) * MIB;
                let error = failed(reel, bytes);
                if error.verdict.is_some() {
                    assert_eq!(json(&error)["oom"]["requested_bytes"], bytes);
                }
            });
        }
    });
}
