//! `memreel FILE`: the page about a snapshot, and the ways to ask for it.

#![forbid(unsafe_code)]

use std::{fs, fs::File};

use serde_json::{Value, json};

use crate::support::{answer, fixture, memreel, run, stderr, stdout};

const OOM: &str = "torch-2.11/snapshots/oom_fragment.pickle";
const RESNET: &str = "torch-2.11/snapshots/resnet18_python_stacks.pickle";
const NO_HISTORY: &str = "torch-2.11/snapshots/no_history.pickle";

fn object(arguments: &[&str]) -> Value {
    serde_json::from_str(&answer(arguments)).unwrap()
}

#[test]
fn a_file_alone_is_described() {
    let text = answer(&[OOM]);
    for part in [
        "a snapshot in the format of PyTorch 2.10 to 2.11, 1 device",
        "device 0: 363 events in 0.007 s, complete history",
        "peak  1.84 GiB in use, 2.00 GiB reserved, after event 361 of 363",
        "out of memory (cause: limited): a request for 33.56 MiB failed at the last event (362)",
        "the device had 75.64 GiB free but refused a request for 34.00 MiB; this process held 2.00 GiB. ",
        "raise the limit: 2.03 GiB would have been enough for this request",
        "largest sites at the peak (1 in all)",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let none = answer(&[NO_HISTORY]);
    assert!(none.contains("device 0: no history\n  end   12.00 MiB in use, 14.00 MiB reserved\n"), "{none}");
    assert!(none.lines().next().unwrap().contains("; no history: call "), "{none}");
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("own.pickle");
    memreel_snapshot::pickle::save(&crate::recorded::recorded(1, 200), &own).unwrap();
    let text = answer(&[own.to_str().unwrap()]);
    assert!(text.contains(concat!("a snapshot of memreel ", env!("CARGO_PKG_VERSION"), ", ")), "{text}");
}

/// A file of two devices: on the second a request failed, on the first one almost did.
#[test]
fn the_device_that_failed_comes_first() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("two.pickle");
    let gib = 1_u64 << 30;
    let frame = |line: u64| json!([{"name": "f", "filename": "/a/x.py", "line": line}]);
    let entry = |action: &str, address: u64, bytes: u64, line: u64| {
        let key = if action == "oom" { "device_free" } else { "addr" };
        json!({"action": action, key: address, "size": bytes, "stream": 0, "frames": frame(line)})
    };
    let [old, new] = [1, 4].map(|place| place * gib * 16);
    // The stack of the release is that of the request: its own retry.
    let almost = [
        entry("segment_alloc", old, 2 * gib, 1),
        entry("alloc", old, 2 * gib, 1),
        entry("free_requested", old, 2 * gib, 1),
        entry("free_completed", old, 2 * gib, 1),
        entry("segment_free", old, 2 * gib, 2),
        entry("segment_alloc", new, 3 * gib, 2),
        entry("alloc", new, 3 * gib, 2),
    ];
    let failed = [entry("oom", 0, 3 * gib, 3)];
    let block =
        json!({"size": 3 * gib, "requested_size": 3 * gib, "state": "active_allocated", "frames": frame(2)});
    let segment = json!({"device": 0, "address": new, "total_size": 3 * gib, "stream": 0, "blocks": [block]});
    let file: memreel_snapshot::Snapshot =
        serde_json::from_value(json!({"segments": [segment], "device_traces": [almost, failed]})).unwrap();
    memreel_snapshot::pickle::save(&file, &path).unwrap();
    let text = answer(&[path.to_str().unwrap()]);
    let place = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part}: {text}"));
    assert!(place("device 1: 1 event") < place("device 0: 7 events, no times recorded"), "{text}");
    assert!(
        text.contains(
            "almost out of memory after event 3 of 7: with 0 B in use, the device refused a request for 3.00 GiB by f \
             (x.py:2), and granted it once 2.00"
        ),
        "{text}"
    );
    let page: Vec<Value> = answer(&["--json", path.to_str().unwrap()])
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!((&page[0]["device"], &page[1]["close_calls"]), (&json!(1), &json!(1)), "{page:?}");
    assert_eq!((&page[1]["span_us"], &page[0]["oom"]["verdict"]), (&Value::Null, &json!("full")), "{page:?}");
}

/// The page shows no figure of its own.
#[test]
fn its_figures_are_those_of_the_other_commands() {
    for file in [OOM, RESNET, NO_HISTORY, "torch-2.11/snapshots/expandable_wrapped_ring.pickle"] {
        let page = object(&["--json", file]);
        let top = object(&["top", "--json", "-n", "3", file]);
        for key in ["active_bytes", "allocated_bytes", "reserved_bytes", "event", "blocks"] {
            assert_eq!(page["peak"][key], top[key], "{file}: {key}");
        }
        assert_eq!((&page["holders"], &page["rest"]), (&top["groups"], &top["rest"]), "{file}");
        let end = object(&["top", "--json", "--at", "end", file]);
        assert_eq!(page["end"]["active_bytes"], end["active_bytes"], "{file}");
        let leaks = object(&["leaks", "--json", "-n", "3", file]);
        let claimed = ["n_leaks", "n_grew", "n_may_be_leaks"].map(|key| leaks[key].as_u64().unwrap());
        assert_eq!(page["n_growing"], claimed.iter().sum::<u64>(), "{file}");
        let growing = page["growing"].as_array().unwrap();
        assert_eq!(growing[..], leaks["sites"].as_array().unwrap()[..growing.len()], "{file}");
        let oom = object(&["oom", "--json", file]);
        assert_eq!(page["oom"]["why"], oom["oom"]["why"], "{file}");
        // One verdict: the first cause.
        for (key, of_cause) in [("verdict", "kind"), ("why", "finding")] {
            assert_eq!(oom["oom"][key], oom["causes"][0][of_cause], "{file}");
            assert_eq!(page["oom"][key], oom["oom"][key], "{file}");
        }
        let most = object(&["fragmentation", "--json", file]);
        assert_eq!(
            page["most_reserved"]["reserved_bytes"], most["most_reserved"]["reserved_bytes"],
            "{file}"
        );
        assert_eq!(page["warnings"], top["warnings"], "{file}");
    }
}

#[test]
fn the_commands_to_type_next_answer() {
    let folder = tempfile::tempdir().unwrap();
    let odd = folder.path().join("it's odd.pickle");
    fs::copy(fixture(OOM), &odd).unwrap();
    for (file, n) in [(OOM, 5), (RESNET, 4), (NO_HISTORY, 3), (odd.to_str().unwrap(), 5)] {
        let text = answer(&[file]);
        let commands =
            text.lines().skip_while(|line| *line != "next:").filter_map(|line| line.split_once("  memreel "));
        let commands: Vec<&str> = commands.map(|(_, command)| command).collect();
        assert_eq!(commands.len(), n, "{text}");
        for command in commands {
            // A shell reads them, as a user's would.
            let line = format!("\"$0\" {command}");
            let program = env!("CARGO_BIN_EXE_memreel");
            let mut shell = std::process::Command::new("sh");
            let output = shell.args(["-c", &line, program]).current_dir(fixture("")).output().unwrap();
            assert!(
                matches!(output.status.code(), Some(0 | 1)) && output.stderr.is_empty(),
                "{line}: {output:?}"
            );
        }
    }
}

#[test]
fn every_way_to_name_a_file_is_understood() {
    let text = answer(&["summary", OOM]);
    assert_eq!(answer(&[OOM]), text);
    let piped = memreel(&["-"]).stdin(File::open(fixture(OOM)).unwrap()).output().unwrap();
    assert_eq!(stdout(&piped).lines().nth(1), text.lines().nth(1));
    assert!(stdout(&piped).contains("  memreel oom FILE\n"), "{piped:?}");
    let two = answer(&[OOM, RESNET]);
    assert_eq!(two, format!("{text}\n{}", answer(&[RESNET])));
    assert_eq!(answer(&[OOM, "--json"]), answer(&["--json", OOM]));
    assert_eq!(
        answer(&[OOM, "top", "-n", "1"]),
        answer(&["top", OOM, "-n", "1"]),
        "the command may be second"
    );
    let missing = run(&["missing.pickle"]);
    assert_eq!(missing.status.code(), Some(3));
    assert!(stderr(&missing).contains("cannot find the file missing.pickle"), "{missing:?}");
    let folder = run(&["torch-2.11"]);
    assert_eq!(folder.status.code(), Some(3));
    assert!(
        stderr(&folder)
            .contains("it is a folder without snapshots (files that end in pickle, pkl, json, tape)"),
        "{folder:?}"
    );
}

#[test]
fn its_status_is_that_of_reading() {
    for (file, status) in [(OOM, 0), (RESNET, 0), (NO_HISTORY, 0), ("README.md", 3)] {
        assert_eq!(run(&[file]).status.code(), Some(status), "{file}");
    }
    // Of several files the highest counts.
    assert_eq!(run(&[RESNET, "README.md", OOM]).status.code(), Some(3));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("contradicts.json");
    let entry = r#"{"action": "alloc", "addr": 4096, "size": 512, "stream": 0, "time_us": 1}"#;
    fs::write(&path, format!(r#"{{"segments": [], "device_traces": [[{entry}, {entry}]]}}"#)).unwrap();
    let broken = run(&[path.to_str().unwrap()]);
    assert_eq!(broken.status.code(), Some(0), "{broken:?}");
    assert!(stdout(&broken).contains("  memreel validate "), "{broken:?}");
}

#[test]
fn help_fits_a_terminal_and_names_the_questions() {
    let help = answer(&["--help"]);
    assert_eq!(answer(&["help"]), help);
    assert_eq!(answer(&["-h"]), help);
    for line in help.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    let headings = [
        "Getting started:",
        "Why did a request fail?",
        "What holds the memory?",
        "Make or change a file:",
        "Check a file:",
    ];
    for heading in headings {
        assert_eq!(help.lines().filter(|line| *line == heading).count(), 1, "{heading}: {help}");
    }
}
