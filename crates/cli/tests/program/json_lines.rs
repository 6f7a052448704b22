//! `schema/json.schema.json` describes every line of `--json`.

#![forbid(unsafe_code)]

use std::{
    collections::BTreeSet,
    fs::{self, File},
    iter,
    path::PathBuf,
    process::Command,
    thread,
    time::Duration,
};

use jsonschema::Validator;
use memreel::{Reel, device::Simulated, recorder::Recording};
use memreel_snapshot::pickle;
use serde_json::{Value, json};
use tempfile::TempDir;
use xtask::pages::json::{commands, resolved};

use crate::{
    every_command::{OUTPUT, ROWS, Row, Yes},
    files, owners, repository, streams,
    support::{fixture, stderr, stdout},
};

/// Returns the schema.
pub(crate) fn schema() -> Value {
    serde_json::from_reader(File::open(repository("schema/json.schema.json")).unwrap()).unwrap()
}

/// Returns what checks a line of a command.
pub(crate) fn validator(schema: &Value, command: &str) -> Validator {
    let mut of_command = schema.clone();
    of_command["$ref"] = json!(format!("#/$defs/commands/$defs/{command}"));
    jsonschema::draft202012::new(&of_command)
        .unwrap_or_else(|error| panic!("schema/json.schema.json describes no line of {command}: {error}"))
}

/// Runs with options or other files. Together with [`plain_runs`], they print every key. `OUT` is a new folder, `FILE`
/// one of the fixtures in turn.
const RUNS: &[&[&str]] = &[
    &["trace", "OUT/odd.json"],
    &["fragmentation", "OUT/files.json"],
    &["fragmentation", "OUT/streams.json"],
    &["fragmentation", "OUT/bare-streams.json"],
    &["fragmentation", "--at", "0", "FILE"],
    &["summary", "OUT/streams.json"],
    &["summary", "OUT/bare-streams.json"],
    &["at", "end", "OUT/files.json"],
    &["at", "--address", "0x40000000+1GiB", "end", "OUT/files.json"],
    &["at", "--address", "0..0xffffffffffffffff", "end", "FILE"],
    &["oom", "OUT/odd.json"],
    &["oom", "OUT/leaky.json"],
    &["top", "--allocated", "OUT/leaky.json"],
    &["oom", "torch-2.11/ranks/rank1.pickle"],
    &["oom", "OUT/train.log"],
    &["oom", "OUT/load.log"],
    &["summary", "OUT/odd.json"],
    &["summary", "OUT/leaky.json"],
    &["summary", "torch-2.11/ranks/rank1.pickle"],
    &["replay", "--limit", "1GiB", "--conf", "expandable_segments:True", "FILE"],
    &["replay", "--from", "0", "--conf", "expandable_segments:True", "FILE"],
    &["fit", "1=FILE", "2=FILE", "3=FILE", "--limit", "4MiB", "--at", "4"],
    &["top", "--by", "function", "FILE"],
    &["top", "--by", "file", "FILE"],
    &["top", "--by", "scope", "FILE"],
    &["top", "--by", "name", "FILE"],
    &["top", "--by", "line", "FILE"],
    &["top", "--by", "stream", "FILE"],
    &["top", "--by", "pool", "FILE"],
    &["top", "--by", "owner", "FILE"],
    &["owners", "FILE", "OUT/owners.pickle"],
    &["owners", "OUT/host.json"],
    &["top", "--tree", "FILE"],
    &["top", "--tree", "OUT/deep.json"],
    &["top", "--allocated", "FILE"],
    &["top", "--new", "FILE"],
    &["top", "--new", "--since", "1us", "--by", "function", "FILE"],
    &["leaks", "FILE", "OUT/own.pickle"],
    &["leaks", "torch-2.11/ranks/rank1.pickle"],
    &["leaks", "--older-than", "3", "FILE"],
    &["leaks", "--between", "one", "two", "OUT/own.pickle"],
    &["at", "end", "FILE"],
    &["stats", "--device", "0", "FILE"],
    &["gate", "--max-peak", "1MiB", "--max-fragmentation", "10%", "FILE"],
    &["gate", "--baseline", "OUT/own.pickle", "FILE"],
    &["gate", "--max-owner", "pytorch=1MiB", "FILE"],
    &["validate", "OUT/refused.pickle"],
    &["recover", "-o", "OUT/tape.pickle", "OUT/run.tape"],
    &["recover", "--torch", "OUT/own.pickle", "-o", "OUT/merged.pickle", "OUT/run.tape"],
    &["watch", "--once", "OUT/live.tape"],
    &["fix", "-o", "OUT", "FILE"],
    &["slim", "--depth", "2", "FILE"],
    &["slim", "--depth", "2", "-o", "OUT", "FILE"],
    &["merge", "FILE", "OUT/own.pickle"],
    &["compare", "synthetic/before_segments.pickle", "synthetic/after_segments.pickle"],
    &["diff", "torch-2.11/snapshots/no_history.pickle", "FILE"],
    &["ranks", "FILE", "torch-2.11/snapshots/oom.pickle"],
    &["ranks", "OUT/refused.pickle", "FILE"],
    &["ranks", "--by", "step", "OUT/own.pickle"],
    &["doctor"],
    &["diff", "--by", "owner", "torch-2.11/snapshots/no_history.pickle", "FILE"],
];

/// Returns a run of each command that takes any number of files, with what it needs.
fn plain_runs() -> Vec<Vec<&'static str>> {
    let rows = ROWS.iter().filter(|row| matches!(row.json, Yes) && row.n_files.is_none());
    let needs = |row: &Row| row.needs.iter().map(|need| if *need == OUTPUT { "OUT" } else { need });
    rows.map(|row| iter::once(row.name).chain(needs(row)).chain(["FILE"]).collect()).collect()
}

/// Returns a heap of which the kernel reported.
fn host() -> Value {
    let group = json!({"used_bytes": 9, "peak_bytes": 9, "limit_bytes": 10, "cache_bytes": 1, "shared_bytes": 2, "kernel_bytes": 3, "n_killed": 1});
    let area = json!({"kind": "file", "name": "/data/weights", "range": [0, 0], "resident_bytes": 8192, "shared_out_bytes": 8192, "huge_bytes": 0, "holes": []});
    let report = json!({"device": 0, "time_us": 5, "resident_bytes": 8192, "peak_bytes": 8192, "group": group, "areas": [area]});
    let heap = json!({"device": 0, "name": "heap of the process", "uuid": "", "reports": []});
    json!({"segments": [], "device_traces": [[]], "allocator_settings": {"memreel_usage": [heap], "memreel_resident": [report]}})
}

/// Returns a trace without stacks: a site that grows, and the name of a block that waits when a request fails.
fn odd() -> Value {
    let entry = |action: &str, at: u64, text: &str| json!({"action": action, "addr": 4096 + at * 512, "size": 512, "stream": 0, "time_us": at + 1, "user_metadata": text});
    let mut trace = vec![
        entry("alloc", 90, "{\"step\":3}"),
        entry("free_requested", 90, ""),
        entry("free_completed", 90, ""),
    ];
    trace.extend([entry("alloc", 9, ""), entry("annotate", 9, "weights"), entry("free_requested", 9, "")]);
    trace.push(json!({"action": "oom", "device_free": 0, "size": 512, "stream": 0, "time_us": 20}));
    trace.extend((20..60).map(|at| entry("alloc", at, "")));
    json!({"segments": [], "device_traces": [trace]})
}

/// Returns a trace without stacks: steps that leave a block behind, until a request fails.
fn leaky() -> Value {
    let entry = |action: &str, at: u64, size: u64| json!({"action": action, "addr": 1 << 30 | at << 20, "size": size, "stream": 0, "time_us": at});
    let step = |at: u64| {
        let temporary = ["alloc", "free_requested", "free_completed"].map(|action| entry(action, 0, 1 << 19));
        [&temporary[..], &[entry("alloc", at, 1 << 18)]].concat()
    };
    let mut trace: Vec<Value> = (1..9).flat_map(step).collect();
    trace.push(json!({"action": "oom", "device_free": 0, "size": 1 << 19, "stream": 0, "time_us": 20}));
    let frames = [json!({"name": "f", "filename": "a.py", "line": 1})];
    let sums = json!([{"device": 0, "frames": frames, "stacks": [[3, 300, 0]], "peaks": [200]}]);
    json!({"segments": [], "device_traces": [trace], "allocator_settings": {"memreel_allocated": sums}})
}

/// A log of a rank, with another process, a figure that is not known and a traceback.
const LOG: &str = "[rank1]: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 8.00 GiB of which 1.00 GiB is free. \
    Process 7 has 1.00 GiB memory in use. 1.00 GiB is cold. Of the allocated memory 5.00 GiB is allocated by PyTorch, and \
    1.00 GiB is reserved by PyTorch but unallocated.
[rank1]: Traceback (most recent call last):
[rank1]:   File \"train.py\", line 7, in <module>
[rank1]:     loss.backward()
[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB. GPU 1 has a total capacity of 8.00 GiB of which 1.00 GiB is free. \
    Process 7 has 1.00 GiB memory in use. 1.00 GiB is cold. Of the allocated memory 5.00 GiB is allocated by PyTorch, and \
    1.00 GiB is reserved by PyTorch but unallocated.
";

/// A log with a buffer that was allocated before.
const LOAD: &str =
    "CUDA0 KV buffer size = 1.00 MiB\nallocating 9.00 MiB on device 0: cudaMalloc failed: out of memory\n";

/// Returns a trace with a stack that is deeper than a tree.
fn deep() -> Value {
    let frames: Vec<Value> =
        (0..1025).map(|line| json!({"name": "f", "filename": "a.py", "line": line})).collect();
    let alloc =
        json!({"action": "alloc", "addr": 4096, "size": 512, "stream": 0, "time_us": 1, "frames": frames});
    json!({"segments": [], "device_traces": [[alloc]]})
}

/// A recording with two scopes and the name of a block, a trace without stacks, one with a deep stack, and a file that
/// is refused.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let reel = Reel::builder().history(Recording::all()).build().unwrap();
    drop((reel.scope("one"), reel.alloc(1000).unwrap()));
    let scope = reel.scope("two");
    let block = reel.alloc(2000).unwrap();
    block.annotate("weights");
    drop(scope);
    reel.save(folder.path().join("own.pickle")).unwrap();
    let whole = pickle::to_vec(&reel.snapshot());
    fs::write(folder.path().join("refused.pickle"), &whole[..whole.len() / 2]).unwrap();
    pickle::save(&owners::snapshot(), folder.path().join("owners.pickle")).unwrap();
    fs::write(folder.path().join("odd.json"), odd().to_string()).unwrap();
    fs::write(folder.path().join("host.json"), host().to_string()).unwrap();
    fs::write(folder.path().join("deep.json"), deep().to_string()).unwrap();
    fs::write(folder.path().join("leaky.json"), leaky().to_string()).unwrap();
    let streams = streams::world();
    fs::write(folder.path().join("streams.json"), streams.to_string()).unwrap();
    fs::write(folder.path().join("bare-streams.json"), streams::bare(streams).to_string()).unwrap();
    fs::write(folder.path().join("files.json"), files::odd().to_string()).unwrap();
    fs::write(folder.path().join("train.log"), LOG).unwrap();
    fs::write(folder.path().join("load.log"), LOAD).unwrap();
    let history = Recording::all().tape(folder.path().join("run.tape"));
    drop(Reel::builder().history(history).build().unwrap().alloc(1000).unwrap());
    grow(folder.path().join("live.tape"));
    folder
}

/// Records a failed request, and memory that grows as long as the tape is there.
fn grow(path: PathBuf) {
    let history = Recording::all().tape(&path);
    let reel = Reel::builder().device(Simulated::new(1 << 40)).history(history).build().unwrap();
    let mut kept = vec![reel.alloc(1000).unwrap()];
    drop(reel.alloc(1 << 50));
    thread::spawn(move || {
        while path.exists() {
            kept.push(reel.alloc(1000).unwrap());
            thread::sleep(Duration::from_millis(10));
        }
    });
}

/// The files that runs read as `FILE`.
fn files(folder: &TempDir) -> Vec<String> {
    let mut all = vec![folder.path().join("own.pickle").display().to_string()];
    for folder in ["torch-2.11/snapshots", "synthetic"] {
        let found = fs::read_dir(fixture(folder)).unwrap();
        all.extend(found.map(|file| format!("{folder}/{}", file.unwrap().file_name().to_str().unwrap())));
    }
    all
}

/// Adds the places of all keys of a value to a set, as `command.key.key`.
fn keys(value: &Value, place: &str, all: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let place = format!("{place}.{key}");
                keys(value, &place, all);
                all.insert(place);
            }
        }
        Value::Array(list) => list.iter().for_each(|value| keys(value, place, all)),
        _ => {}
    }
}

#[test]
fn every_line_is_as_described_and_every_key_occurs() {
    let schema = schema();
    jsonschema::meta::validate(&schema).unwrap();
    let folder = folder();
    let files = files(&folder);
    let mut found = BTreeSet::new();
    for run in RUNS.iter().map(|run| run.to_vec()).chain(plain_runs()) {
        let command = run[0];
        let validator = validator(&schema, command);
        let is_of_any = run.iter().any(|argument| argument.ends_with("FILE"));
        let n_runs = if is_of_any { files.len() } else { 1 };
        for file in files.iter().take(n_runs) {
            let argument = |argument: &&str| {
                argument.replace("OUT", folder.path().to_str().unwrap()).replace("FILE", file)
            };
            let output = Command::new(env!("CARGO_BIN_EXE_memreel"))
                .args(run.iter().map(argument))
                .arg("--json")
                .current_dir(fixture(""))
                .output()
                .unwrap();
            assert!(!stderr(&output).contains("panicked"), "{run:?} {file}: {}", stderr(&output));
            for line in stdout(&output).lines() {
                let line: Value = serde_json::from_str(line).unwrap();
                let wrong: Vec<String> = validator
                    .iter_errors(&line)
                    .map(|error| format!("{}: {error}", error.instance_path()))
                    .collect();
                assert!(wrong.is_empty(), "{run:?} {file}: {}\n{line}", wrong.join("\n"));
                keys(&line, command, &mut found);
            }
        }
    }
    let described: BTreeSet<String> =
        commands(&schema).iter().flat_map(|(name, line)| places(&schema, line, name, 0)).collect();
    let missing: Vec<&String> = described.difference(&found).collect();
    assert!(
        missing.is_empty(),
        "described, and printed by no run; add one to RUNS of json_lines.rs: {missing:#?}"
    );
}

/// A key that is not described fails, and so does one that is missing.
#[test]
fn other_lines_are_refused() {
    let schema = schema();
    for (command, line) in [
        ("slim", json!({"file": "a", "n_events": [1, 1], "n_frames": [1, 1], "written": null})),
        ("oom", json!({"file": "a", "device": 0, "oom": null})),
    ] {
        let validator = validator(&schema, command);
        assert!(validator.is_valid(&line), "{line}");
        let mut more = line.clone();
        more["more"] = json!(1);
        assert!(!validator.is_valid(&more), "{more}");
        let mut less = line.clone();
        less.as_object_mut().unwrap().shift_remove("file");
        assert!(!validator.is_valid(&less), "{less}");
    }
}

#[test]
fn every_command_with_json_is_described() {
    let schema = schema();
    let described: BTreeSet<&str> = commands(&schema).keys().map(String::as_str).collect();
    let rows: BTreeSet<&str> = ROWS
        .iter()
        .filter(|row| matches!(row.json, Yes))
        .map(|row| row.name)
        .chain(["doctor", "fit", "recover", "watch"])
        .collect();
    assert_eq!(
        described, rows,
        "describe the line of a command under $defs.commands in schema/json.schema.json"
    );
}

/// Returns the places of all keys that a schema describes.
fn places(schema: &Value, part: &Value, place: &str, depth: usize) -> Vec<String> {
    assert!(depth < 9, "{place}");
    let part = resolved(schema, part);
    let forms = ["oneOf", "anyOf"].iter().filter_map(|key| part[*key].as_array()).flatten();
    let mut all: Vec<String> = forms.flat_map(|form| places(schema, form, place, depth + 1)).collect();
    if part["items"].is_object() {
        all.extend(places(schema, &part["items"], place, depth + 1));
    }
    for (key, value) in part["properties"].as_object().into_iter().flatten() {
        let place = format!("{place}.{key}");
        all.extend(places(schema, value, &place, depth + 1));
        all.push(place);
    }
    all
}
