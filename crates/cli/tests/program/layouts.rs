//! Every command on every layout of a snapshot, and the answers across layouts.
//!
//! The files of `fixtures/synthetic` describe one state of memory as PyTorch 2.0 to 2.15 write it; the figures below
//! are those of `fixtures/generate.py`. A layout of 2.0 has neither `requested_size` nor the frames of a block: both
//! are in the block's `history`.

#![forbid(unsafe_code)]

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use serde_json::Value;
use tempfile::TempDir;

use crate::{
    every_command::{OUTPUT, ROWS, Row, Yes},
    support::{fixture, stderr, stdout},
};

/// The files of one state, by version and by what wrote them.
const SYNTHETIC: [&str; 18] = [
    "torch-2.0",
    "torch-2.1",
    "torch-2.2",
    "torch-2.3",
    "torch-2.5",
    "torch-2.8",
    "torch-2.10",
    "torch-2.11",
    "torch-2.11-cpp",
    "torch-2.11-hip",
    "torch-2.11-protocol-2",
    "torch-2.11-protocol-5",
    "torch-2.11-segment-list",
    "torch-2.11-unshared",
    "torch-2.12",
    "torch-2.14",
    "torch-2.15",
    "torch-2.15-cpp",
];

/// The layouts of which there is JSON too.
const JSON: [&str; 4] = ["torch-2.0", "torch-2.1", "torch-2.11", "torch-2.15"];

/// At the end: 600 B and 20 MiB is allocated, and 100 B wait for a stream.
const ALLOCATED_BYTES: u64 = 600 + (20 << 20);
const ACTIVE_BYTES: u64 = ALLOCATED_BYTES + 100;
/// A small and a large segment.
const RESERVED_BYTES: u64 = (2 << 20) + (20 << 20);

/// A folder with every layout, in which the program runs.
struct Layouts(TempDir);

impl Layouts {
    fn new() -> Layouts {
        let layouts = Layouts(tempfile::tempdir().unwrap());
        let folder = layouts.0.path();
        for name in SYNTHETIC {
            fs::copy(fixture(&format!("synthetic/{name}.pickle")), folder.join(format!("{name}.pickle")))
                .unwrap();
        }
        for name in JSON {
            layouts.writes(&["convert", &format!("{name}.pickle"), "-o", &format!("{name}.json")]);
        }
        layouts.writes(&[
            "merge",
            "--in-order",
            "torch-2.3.pickle",
            "torch-2.11.pickle",
            "-o",
            "devices.pickle",
        ]);
        fs::create_dir(folder.join("out")).unwrap();
        layouts
    }

    /// Returns the names of the files with one device.
    fn files() -> impl Iterator<Item = String> {
        let pickles = SYNTHETIC.iter().map(|name| format!("{name}.pickle"));
        pickles.chain(JSON.iter().map(|name| format!("{name}.json")))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn run(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_memreel")).args(arguments).current_dir(&self.0).output().unwrap()
    }

    fn writes(&self, arguments: &[&str]) {
        let output = self.run(arguments);
        assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""), "{arguments:?}");
    }

    /// Returns the objects that a command prints, but those of pinned host memory, which only the newest layouts have; it must
    /// succeed, or have a finding.
    fn objects(&self, arguments: &[&str]) -> Vec<Value> {
        let output = self.run(arguments);
        assert!(matches!(output.status.code(), Some(0 | 1)), "{arguments:?}: {}", stderr(&output));
        let objects = stdout(&output).lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        objects.filter(|object| object["device"] != -1).collect()
    }

    fn object(&self, arguments: &[&str]) -> Value {
        let mut objects = self.objects(arguments);
        assert_eq!(objects.len(), 1, "{arguments:?}");
        objects.remove(0)
    }

    /// Checks the figures at the end, which every layout has.
    fn has_the_end(&self, file: &str, allocated: u64, active: u64) {
        let end = self.object(&["at", "end", "--json", file]);
        assert_eq!(
            [&end["allocated_bytes"], &end["active_bytes"], &end["reserved_bytes"]],
            [allocated, active, RESERVED_BYTES],
            "{file}"
        );
    }
}

impl Row {
    /// Returns the arguments for a file, given twice to commands that compare two.
    fn arguments<'a>(&self, file: &'a str) -> Vec<&'a str>
    where
        Self: 'a,
    {
        let needs = self.needs.iter().map(|need| if *need == OUTPUT { "out" } else { need });
        let n_files = if self.n_files == Some(2) { 2 } else { 1 };
        [self.name].into_iter().chain(needs).chain(vec![file; n_files]).collect()
    }
}

/// Whether status 1, a finding, is an answer of a command for these files.
fn may_find(row: &Row, file: &str) -> bool {
    match row.name {
        // The last request but one ran out of memory.
        "oom" | "report" | "ranks" => !file.contains("segment-list"),
        // The layouts of 2.11 in protocol 5 and as a list break a rule; no layout before 2.3 has every key.
        "validate" | "summary" => true,
        // Nothing to replay.
        "replay" => file.contains("segment-list"),
        _ => false,
    }
}

#[test]
fn every_command_reads_every_layout() {
    let layouts = Layouts::new();
    let files: Vec<String> = Layouts::files().chain(["devices.pickle".to_owned()]).collect();
    for row in ROWS.iter().filter(|row| row.n_files != Some(0)) {
        for file in &files {
            let text = row.arguments(file);
            let json = [&text[..], &["--json"]].concat();
            let forms = [Some(&text), matches!(row.json, Yes).then_some(&json)];
            for arguments in forms.into_iter().flatten() {
                let output = layouts.run(arguments);
                let status = output.status.code();
                // A list of segments has no history.
                let is_unmeasured = row.name == "gate" && file.contains("segment-list") && status == Some(4);
                let is_answered =
                    status == Some(0) || is_unmeasured || status == Some(1) && may_find(row, file);
                assert!(is_answered, "{arguments:?}: {status:?} {}", stderr(&output));
                assert!(!stderr(&output).contains("panicked"), "{arguments:?}: {}", stderr(&output));
                assert_eq!(
                    stderr(&output).is_empty(),
                    status == Some(0) || row.name != "replay",
                    "{arguments:?}"
                );
            }
        }
    }
    assert!(
        fs::read_dir(layouts.path().join("out")).unwrap().count() > SYNTHETIC.len(),
        "files were written"
    );
}

/// A build for ROCm writes the same keys. Its functions have other names, which identify nothing either.
#[test]
fn a_file_of_a_build_for_rocm_has_the_same_answers() {
    let layouts = Layouts::new();
    let text = |arguments: &[&str], name: &str| {
        let file = format!("{name}.pickle");
        let output = layouts.run(&[arguments, &[&file]].concat());
        assert!(matches!(output.status.code(), Some(0 | 1)), "{arguments:?}: {}", stderr(&output));
        stdout(&output).replace(&file, "FILE")
    };
    let questions: [&[&str]; 9] = [
        &["top"],
        &["top", "--by", "function"],
        &["leaks"],
        &["oom"],
        &["churn"],
        &["at", "peak"],
        &["fragmentation"],
        &["segments"],
        &["gate", "--max-peak", "1GiB"],
    ];
    for arguments in questions {
        assert_eq!(text(arguments, "torch-2.11-hip"), text(arguments, "torch-2.11"), "{arguments:?}");
    }
    let summary = text(&["summary"], "torch-2.11-hip");
    assert!(summary.contains("settings release_lock_on_hipmalloc:True\n"), "{summary}");
    // The setting is understood, under its translated name too.
    let replayed = layouts.object(&["replay", "--json", "torch-2.11-hip.pickle"]);
    assert_eq!(
        replayed["conf"], "expandable_segments:True,release_lock_on_hipmalloc:True",
        "as its segments are"
    );
    assert!(!replayed["warnings"].to_string().contains("are ignored"), "{replayed}");
    let frames = layouts.object(&["top", "--json", "torch-2.11-hip.pickle"])["groups"].to_string();
    assert!(frames.contains("c10::hip::HIPCachingAllocator"), "--json has every frame: {frames}");
}

#[test]
fn every_layout_has_the_same_end() {
    let layouts = Layouts::new();
    for file in Layouts::files() {
        layouts.has_the_end(&file, ALLOCATED_BYTES, ACTIVE_BYTES);
        let top = layouts.object(&["top", "--at", "end", "--json", &file]);
        let groups = top["groups"].as_array().unwrap();
        let sum: u64 = groups.iter().map(|group| group["bytes"].as_u64().unwrap()).sum();
        assert_eq!((sum, &top["blocks"]), (ACTIVE_BYTES, &3.into()), "{file}: {top}");
        let leaks = layouts.object(&["leaks", "--json", &file]);
        let sites = leaks["sites"].as_array().unwrap();
        let sum: u64 = sites.iter().map(|site| site["bytes"].as_u64().unwrap()).sum();
        assert_eq!(
            (sum, &leaks["allocated_bytes"]),
            (ALLOCATED_BYTES, &ALLOCATED_BYTES.into()),
            "{file}: {leaks}"
        );
        let fragmentation = &layouts.object(&["fragmentation", "--json", &file])["at"];
        let rounded = 1024 + 512 + (20 << 20);
        assert_eq!(
            [&fragmentation["external_bytes"], &fragmentation["internal_bytes"]],
            [RESERVED_BYTES - rounded, rounded - ACTIVE_BYTES],
            "{file}"
        );
    }
    for device in layouts.objects(&["at", "end", "--json", "devices.pickle"]) {
        assert_eq!(device["active_bytes"], ACTIVE_BYTES, "device {}", device["device"]);
    }
}

#[test]
fn every_history_has_the_same_peak() {
    let layouts = Layouts::new();
    for file in Layouts::files() {
        let top = layouts.object(&["top", "--json", &file]);
        let (event, peak) = match &*file {
            // Nothing was recorded; the end is all there is.
            "torch-2.11-segment-list.pickle" => (Value::Null, ACTIVE_BYTES),
            // The history has no event of the large block, so that it lived when two small blocks of 1100 B did.
            file if file.starts_with("torch-2.0.") => (2.into(), 1100 + (20 << 20)),
            _ => (8.into(), ACTIVE_BYTES),
        };
        assert_eq!((&top["event"], &top["active_bytes"]), (&event, &peak.into()), "{file}");
        let gate = |most: u64| {
            let words = ["gate", "--allow-no-history", "--max-peak", &most.to_string(), &file];
            layouts.run(&words).status.code()
        };
        assert_eq!([gate(peak), gate(peak - 1)], [Some(0), Some(4)], "{file}");
    }
}

#[test]
fn every_history_has_the_same_failed_request() {
    let layouts = Layouts::new();
    for file in Layouts::files() {
        let oom = layouts.object(&["oom", "--json", &file])["oom"].clone();
        if file.contains("segment-list") {
            assert!(oom.is_null());
            continue;
        }
        assert_eq!([&oom["requested_bytes"], &oom["device_free_bytes"]], [1_u64 << 40, 123 << 20], "{file}");
        assert_eq!((&oom["n_ooms"], &oom["active_bytes"]), (&1.into(), &ACTIVE_BYTES.into()), "{file}");
        assert_eq!(oom["stack"][0]["name"], "step", "{file}");
    }
}

/// The segments and the sums of their blocks need no history.
#[test]
fn every_layout_has_the_same_segments() {
    let layouts = Layouts::new();
    let keys = ["address", "bytes", "active_bytes", "n_active_blocks", "stream", "pool"];
    let segments = |file: &str| -> Vec<Vec<Value>> {
        let objects = layouts.objects(&["segments", "--json", file]);
        objects.iter().map(|object| keys.map(|key| object[key].clone()).to_vec()).collect()
    };
    let blocks = |file: &str| -> Vec<Value> {
        let mut objects = layouts.objects(&["memory", "--json", file]);
        objects.iter_mut().for_each(|object| object["file"] = Value::Null);
        objects
    };
    let stats = |file: &str| -> [Value; 3] {
        let stats = layouts.object(&["stats", "--json", file]);
        ["n_segments", "reserved_bytes", "allocated_bytes"].map(|key| stats[key].clone())
    };
    let newest = "torch-2.15.pickle";
    let (newest_segments, newest_blocks) = (segments(newest), blocks(newest));
    assert_eq!((newest_segments.len(), newest_blocks.len()), (2, 4));
    assert_eq!(newest_segments[0][2], 1024 + 512);
    for file in Layouts::files() {
        assert_eq!(segments(&file), newest_segments, "{file}");
        assert_eq!(blocks(&file), newest_blocks, "{file}");
        assert_eq!(stats(&file), stats(newest), "{file}");
    }
}

#[test]
fn every_layout_is_written_again_with_the_same_end() {
    let layouts = Layouts::new();
    for file in Layouts::files() {
        for command in [&["convert"][..], &["fix"], &["merge"], &["slim", "--events", "0.."]] {
            if command[0] == "slim" && file.contains("segment-list") {
                continue;
            }
            layouts.writes(&[command, &[&*file, "-o", "again.pickle"][..]].concat());
            layouts.has_the_end("again.pickle", ALLOCATED_BYTES, ACTIVE_BYTES);
        }
        layouts.writes(&["split", &file, "-o", "out"]);
        let stem = Path::new(&file).file_stem().unwrap().to_str().unwrap();
        layouts.has_the_end(&format!("out/{stem}.device0.pickle"), ALLOCATED_BYTES, ACTIVE_BYTES);
    }
}

#[test]
fn small_blocks_are_removed_by_their_requested_size() {
    let layouts = Layouts::new();
    for file in Layouts::files() {
        layouts.writes(&["slim", "--min-size", "1MiB", &file, "-o", "large.pickle"]);
        layouts.has_the_end("large.pickle", 20 << 20, 20 << 20);
        layouts.writes(&["slim", "--min-size", "600", &file, "-o", "large.pickle"]);
        layouts.has_the_end("large.pickle", ALLOCATED_BYTES, ALLOCATED_BYTES);
    }
}

#[test]
fn stacks_of_live_blocks_are_cut_and_anonymised() {
    let layouts = Layouts::new();
    let json = |file: &str| String::from_utf8(layouts.run(&["convert", file]).stdout).unwrap();
    for file in Layouts::files() {
        let before = json(&file);
        assert!(before.contains("/app/main.py") && before.contains("/app/forward.py"), "{file}");
        layouts.writes(&["slim", "--depth", "1", &file, "-o", "cut.pickle"]);
        let cut = json("cut.pickle");
        // The innermost frame of this layout is native.
        let inner = if file.contains("-hip") { "HIPCachingAllocator" } else { "/app/forward.py" };
        assert!(!cut.contains("/app/main.py") && cut.contains(inner), "{file}: {cut}");
        layouts.writes(&["slim", "--drop-path", "forward", &file, "-o", "cut.pickle"]);
        let cut = json("cut.pickle");
        assert!(cut.contains("/app/main.py") && !cut.contains("/app/forward.py"), "{file}: {cut}");
        layouts.writes(&["slim", "--anonymise", &file, "-o", "cut.pickle"]);
        assert!(!json("cut.pickle").contains("/app/"), "{file}");
        layouts.has_the_end("cut.pickle", ALLOCATED_BYTES, ACTIVE_BYTES);
        let groups = layouts.object(&["top", "--at", "end", "--json", "cut.pickle"])["groups"].clone();
        assert!(groups.to_string().contains("\"function"), "the stacks are kept: {file}: {groups}");
    }
}

#[test]
fn exports_count_requested_bytes() {
    let layouts = Layouts::new();
    for file in Layouts::files() {
        let output = layouts.run(&["convert", "--to", "folded", &file]);
        let mut lines: Vec<&str> = stdout(&output).lines().collect();
        lines.sort_unstable();
        let stack = "main.py:7:main;forward.py:40:forward";
        assert_eq!(lines, ["(no stack) 20971520", &format!("{stack} 700")], "{file}");
        let output = layouts.run(&["convert", "--to", "perfetto", &file]);
        let trace: Value = serde_json::from_slice(&output.stdout).unwrap();
        let counters: Vec<&Value> =
            trace["traceEvents"].as_array().unwrap().iter().filter(|event| event["ph"] == "C").collect();
        match counters.last() {
            Some(last) => {
                let expected = serde_json::json!({"active": ACTIVE_BYTES, "reserved": RESERVED_BYTES});
                assert_eq!(last["args"], expected, "{file}");
            }
            // Nothing was recorded.
            None => assert!(file.contains("segment-list"), "{file}"),
        }
    }
}
