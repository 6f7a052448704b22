//! The baseline of `memreel gate` that has some lines of JSON: its verdicts are those of the snapshot.

#![forbid(unsafe_code)]

use std::fs;

use memreel::{
    Address, DeviceId, StreamId,
    recorder::{Recorder, Recording},
};
use memreel_snapshot::words::Inventory;
use serde_json::{Value, json};

use crate::support::{answer, fixture, run, stderr, stdout};

/// Returns what a gate answers: its status and, with `--json`, its lines.
fn answered(baseline: &str, options: &[&str], file: &str) -> (Option<i32>, String) {
    let output = run(&[&["gate", "--json", "--baseline", baseline], options, &[file]].concat());
    (output.status.code(), stdout(&output).to_owned())
}

/// Writes the baseline of a file in both forms. Returns their paths.
fn both_forms(folder: &std::path::Path, file: &str) -> [String; 2] {
    ["small.json", "whole.pickle"].map(|name| {
        let path = folder.join(name).display().to_string();
        let any = ["--max-peak", "1TiB", "--allow-no-history", "--allow-partial"];
        answer(&[&["gate", "--baseline", &path, "--update-baseline"], &any[..], &[file]].concat());
        path
    })
}

/// Every verdict and every warning is the same, whichever form the baseline has.
#[test]
fn a_small_baseline_gives_the_verdicts_of_its_snapshot() {
    let folder = tempfile::tempdir().unwrap();
    let of_folder = fs::read_dir(fixture("torch-2.11/snapshots")).unwrap();
    let names = of_folder.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut files: Vec<String> = names.map(|name| format!("torch-2.11/snapshots/{name}")).collect();
    files.retain(|name| name.ends_with(".pickle"));
    files.sort();
    let mut verdicts = [0; 2];
    let options: [&[&str]; 3] = [
        &[],
        &["--strict", "--tolerance", "5%"],
        &["--allow-no-history", "--allow-partial", "--max-owner", "pytorch=1TiB"],
    ];
    for (place, file) in files.iter().enumerate() {
        let [small, whole] = both_forms(folder.path(), file);
        for options in options {
            for other in [file, &files[(place + 1) % files.len()]] {
                let found = answered(&small, options, other);
                assert_eq!(found, answered(&whole, options, other), "{other} {options:?} against {file}");
                assert_eq!(found, answered(file, options, other), "{other} {options:?} against {file}");
                verdicts[usize::from(found.0 == Some(0))] += 1;
            }
        }
    }
    assert!(verdicts[0] > 10 && verdicts[1] > 10, "{verdicts:?}");
}

#[test]
fn a_small_baseline_has_some_lines_and_names_what_grew() {
    let folder = tempfile::tempdir().unwrap();
    let file = "torch-2.11/snapshots/resnet18_python_stacks.pickle";
    let [small, _] = both_forms(folder.path(), file);
    let text = fs::read_to_string(&small).unwrap();
    assert!(text.starts_with("{\n  \"memreel_baseline\": 1,") && text.ends_with("}\n"), "{text}");
    assert!(text.lines().count() < 60, "{text}");
    assert!(text.contains("\"_multi_tensor_sgd (sgd.py) ← sgd (sgd.py) "), "{text}");
    both_forms(folder.path(), file);
    assert_eq!(fs::read_to_string(&small).unwrap(), text, "the same run has the same baseline");
    // A baseline that had less, and one that lacks a site.
    let mut less: Value = serde_json::from_str(&text).unwrap();
    let of_device = &mut less["devices"][0];
    of_device["peak_bytes"] = json!(of_device["peak_bytes"].as_u64().unwrap() - (1 << 20));
    for bytes in of_device["peak_sites"].as_object_mut().unwrap().values_mut().take(2) {
        *bytes = json!(bytes.as_u64().unwrap() - (1 << 20));
    }
    fs::write(&small, less.to_string()).unwrap();
    let over = run(&["gate", "--baseline", &small, file]);
    assert_eq!(over.status.code(), Some(4), "{}", stderr(&over));
    let over = stdout(&over);
    let (_, grown) = over.split_once("grew since the baseline").expect(over);
    for row in ["  31.00 MiB  32.00 MiB\n", "  26.00 MiB  27.00 MiB\n"] {
        assert!(grown.contains(row), "{over}");
    }
    assert_eq!(grown.lines().count(), 4, "a heading, two sites and a note: {over}");
    assert!(!over.contains("see what grew: memreel diff"), "{over}");
    // A baseline is not a snapshot, and a file that is not a baseline is rejected as one.
    let asked = run(&["top", &small]);
    assert_eq!(asked.status.code(), Some(3));
    assert!(stderr(&asked).contains("a baseline of memreel gate, for --baseline"), "{}", stderr(&asked));
    less["memreel_baseline"] = json!(2);
    let pytest = json!({"memreel_baseline": 1, "tests": {}});
    for (wrong, why) in
        [(less, "a baseline of version 2; this memreel reads version 1"), (pytest, "missing field `devices`")]
    {
        fs::write(&small, wrong.to_string()).unwrap();
        let refused = run(&["gate", "--baseline", &small, file]);
        assert_eq!(refused.status.code(), Some(3));
        assert!(stderr(&refused).contains(why), "{}", stderr(&refused));
    }
}

/// The number of a heap is one more than that of the last GPU.
#[test]
fn a_heap_is_compared_with_the_heap_of_its_baseline() {
    let folder = tempfile::tempdir().unwrap();
    let saved = |n_gpus: i64, bytes: u64| {
        let recorder = Recorder::new();
        recorder.record_history(&Recording::all());
        recorder.describe_device(DeviceId(n_gpus), "heap of the process", "");
        let ledgers: Vec<_> = (0..=n_gpus).map(|device| recorder.ledger(DeviceId(device))).collect();
        for ledger in &ledgers {
            let bytes = if ledger.device() == DeviceId(n_gpus) { bytes } else { 1 << 19 };
            ledger.segment_alloc(Address(0x20_0000), 1 << 20, StreamId::DEFAULT).unwrap();
            ledger.alloc(Address(0x20_0000), bytes, StreamId::DEFAULT).unwrap();
        }
        let path = folder.path().join(format!("{n_gpus}.pickle"));
        recorder.save(&path, &ledgers).unwrap();
        path.display().to_string()
    };
    let (before, now) = (saved(2, 1000), saved(1, 2000));
    for baseline in both_forms(folder.path(), &before) {
        let output = run(&["gate", "--baseline", &baseline, "--device", "heap", &now]);
        assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
        assert!(
            stdout(&output).contains("FAILED  peak is 1.95 KiB, 1000 B over the limit of 1000 B (baseline)"),
            "{}",
            stdout(&output)
        );
    }
}
