//! `memreel fix` on the kinds of files that PyTorch's viewer refuses.
//!
//! The broken files are left in `target/tmp/broken`, the repaired ones in `target/tmp/snapshots`. The gate opens
//! both in the real viewer, which must throw on the former and not on the latter.

#![forbid(unsafe_code)]

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use memreel::recorder::Recording;
use memreel_snapshot::{
    Action, Snapshot, pickle,
    validate::{Severity, validate},
};
use serde_json::{Value, json};

use crate::recorded::{recorded, recorded_as};

/// Writes as PyTorch's C++ code does (docs/snapshot-format.md 1): protocol 2, each text once in the memo, and every
/// list in one batch of any length.
#[derive(Default)]
struct CppPickler {
    bytes: Vec<u8>,
    texts: HashMap<String, u32>,
}

impl CppPickler {
    fn write(json: &Value) -> Vec<u8> {
        let mut pickler = CppPickler { bytes: b"\x80\x02".to_vec(), ..CppPickler::default() };
        pickler.value("", json);
        pickler.bytes.push(b'.');
        pickler.bytes
    }

    fn text(&mut self, text: &str) {
        if let Some(number) = self.texts.get(text) {
            self.bytes.push(b'j');
            return self.bytes.extend(number.to_le_bytes());
        }
        let number = u32::try_from(self.texts.len()).unwrap();
        self.texts.insert(text.to_owned(), number);
        self.bytes.push(b'X');
        self.bytes.extend(u32::try_from(text.len()).unwrap().to_le_bytes());
        self.bytes.extend(text.as_bytes());
        self.bytes.push(b'r');
        self.bytes.extend(number.to_le_bytes());
    }

    fn value(&mut self, key: &str, value: &Value) {
        match value {
            Value::Null => self.bytes.push(b'N'),
            Value::Bool(bool) => self.bytes.push(if *bool { 0x88 } else { 0x89 }),
            Value::Number(number) => match number.as_i64() {
                Some(int) => {
                    self.bytes.extend(b"\x8a\x08");
                    self.bytes.extend(int.to_le_bytes());
                }
                None => {
                    self.bytes.push(b'G');
                    self.bytes.extend(number.as_f64().unwrap().to_be_bytes());
                }
            },
            Value::String(text) => self.text(text),
            Value::Array(pair) if key.ends_with("pool_id") => {
                pair.iter().for_each(|one| self.value("", one));
                self.bytes.push(0x86);
            }
            Value::Array(all) => {
                self.bytes.extend(b"](");
                all.iter().for_each(|one| self.value("", one));
                self.bytes.push(b'e');
            }
            Value::Object(pairs) => {
                self.bytes.extend(b"}(");
                for (key, value) in pairs {
                    self.text(key);
                    self.value(key, value);
                }
                self.bytes.push(b'u');
            }
        }
    }
}

/// Returns the C++ writer's file of 200,000 entries: one block, allocated and freed again and again.
fn long_cpp_dump() -> Vec<u8> {
    let mut json = serde_json::to_value(recorded_as(3, 10, Recording::state())).unwrap();
    let entry = |n: u64, action: &str| {
        json!({
            "action": action, "addr": 0x7f00_0000_0000u64, "size": 1000, "stream": 0,
            "compile_context": "N/A", "user_metadata": "", "time_us": 1_700_000_000_000_000u64 + n,
        })
    };
    let actions = ["alloc", "free_requested", "free_completed"];
    let mut entries: Vec<Value> = (0..199_998).map(|n| entry(n, actions[n as usize % 3])).collect();
    let segment = |n, action| {
        let mut entry = entry(n, action);
        entry["size"] = json!(2 << 20);
        entry
    };
    entries.insert(0, segment(0, "segment_alloc"));
    entries.push(segment(199_999, "segment_free"));
    json["device_traces"] = json!([entries, []]);
    json["segments"] = json!([]);
    CppPickler::write(&json)
}

/// Returns a recording whose ring was enlarged after it had wrapped, so that its parts are in the wrong order.
fn rotated_ring() -> Snapshot {
    let mut snapshot = recorded(5, 400);
    let trace = &mut snapshot.device_traces[0];
    for (time, entry) in trace.iter_mut().enumerate() {
        entry.time_us = 1_700_000_000_000_000 + i64::try_from(time).unwrap();
    }
    let middle = trace.len() / 3;
    trace.rotate_left(middle);
    snapshot
}

/// Returns a recording of PyTorch's `skip_actions`. memreel's own has the events that viewers need.
fn skipped(actions: &[Action]) -> Vec<u8> {
    let mut snapshot = recorded_as(7, 400, Recording::all());
    for trace in &mut snapshot.device_traces {
        trace.retain(|entry| entry.action.is_none_or(|action| !actions.contains(&action)));
    }
    pickle::to_vec(&snapshot)
}

/// Returns a file of CPython in the default protocol of Python 3.14.
fn protocol_5() -> Vec<u8> {
    let path = crate::repository("fixtures/synthetic/torch-2.11-protocol-5.pickle");
    fs::read(path).unwrap()
}

fn without_unknown() -> Vec<u8> {
    let mut json = serde_json::to_value(recorded(8, 60)).unwrap();
    json["device_traces"][0][2]["category"] = json!("parameter");
    pickle::to_vec(&serde_json::from_value::<memreel_snapshot::Snapshot>(json).unwrap())
}

fn broken(name: &str, bytes: &[u8]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("broken");
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join(format!("{name}.pickle"));
    fs::write(&path, bytes).unwrap();
    path
}

fn memreel(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_memreel")).args(arguments).output().unwrap()
}

#[test]
fn files_that_the_viewer_refuses_are_repaired() {
    let files: &[(&str, Vec<u8>, &str)] = &[
        ("protocol-5", protocol_5(), "rewritten: pickle protocol 5"),
        ("cpp-200000", long_cpp_dump(), "rewritten: 200000 items in one APPENDS"),
        ("without-completions", skipped(&[Action::FreeCompleted]), "added the missing free_completed"),
        (
            "without-segments",
            skipped(&[Action::SegmentAlloc, Action::SegmentFree]),
            "added the missing segment_",
        ),
        ("rotated-ring", pickle::to_vec(&rotated_ring()), "sorted entries by time"),
        ("without-unknown", without_unknown(), "the category \"unknown\""),
    ];
    for (name, bytes, message) in files {
        let input = broken(name, bytes);
        let output = crate::written(&format!("fixed-{name}.pickle"));
        let done = memreel(&["fix", input.to_str().unwrap(), "-o", output.to_str().unwrap()]);
        let text = String::from_utf8(done.stdout).unwrap();
        assert_eq!((done.status.code(), done.stderr.as_slice()), (Some(0), &b""[..]), "{name}: {text}");
        assert!(text.contains(message), "{name}: {text}");
        let is_smaller = fs::metadata(&output).unwrap().len() < bytes.len() as u64;
        assert_eq!(text.contains(" instead of "), is_smaller, "{name}: {text}");
        assert_eq!(fs::read(&input).unwrap(), *bytes, "{name}: the input stays as it was");
        let inspection = pickle::inspect(&output).unwrap();
        let snapshot = inspection.snapshot.unwrap();
        let findings: Vec<_> = inspection.findings.into_iter().chain(validate(&snapshot)).collect();
        let errors: Vec<_> = findings.iter().filter(|finding| finding.severity == Severity::Error).collect();
        assert!(errors.is_empty(), "{name}: {errors:?}");
    }
}

#[test]
fn without_o_nothing_is_written() {
    let input = broken("message", &protocol_5());
    let done = memreel(&["fix", input.to_str().unwrap()]);
    assert!(String::from_utf8(done.stdout).unwrap().ends_with("nothing is written without -o\n"));
    assert_eq!(fs::read(&input).unwrap(), protocol_5());
    let sound = crate::written("sound.pickle");
    pickle::save(&recorded(1, 100), &sound).unwrap();
    let done = memreel(&["fix", sound.to_str().unwrap()]);
    assert!(String::from_utf8(done.stdout).unwrap().ends_with("nothing to repair\n"));
    fs::remove_file(&input).unwrap();
}

#[test]
fn several_files_go_into_a_folder_and_one_to_standard_output() {
    let [one, other] = ["one", "other"].map(|name| broken(name, &protocol_5()));
    let [one, other] = [&one, &other].map(|path| path.to_str().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let into = folder.path().to_str().unwrap();
    assert_eq!(memreel(&["fix", one, other, "-o", into]).status.code(), Some(0));
    assert!(["one", "other"].iter().all(|name| folder.path().join(format!("{name}.pickle")).exists()));
    assert_eq!(memreel(&["fix", one, other, "-o", "/tmp/one-file.pickle"]).status.code(), Some(2));
    let done = memreel(&["fix", one, "-o", "-"]);
    assert_eq!(done.stdout[..2], [0x80, 4], "protocol 4, and nothing else on standard output");
    assert!(pickle::from_slice(&done.stdout).is_ok());
    let json: Value = serde_json::from_slice(&memreel(&["fix", one, "--json"]).stdout).unwrap();
    assert_eq!((&json["written"], json["written_anew"][0]["count"].as_u64()), (&Value::Null, Some(1)));
    [one, other].iter().for_each(|path| fs::remove_file(path).unwrap());
}
