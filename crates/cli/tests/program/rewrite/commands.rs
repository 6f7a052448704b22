//! `memreel slim`, `merge`, `split` and `convert`: their output and their exit statuses.

#![forbid(unsafe_code)]

use std::{
    fs,
    path::PathBuf,
    process::{Command, Output, Stdio},
};

use memreel_snapshot::{Snapshot, pickle};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{recorded::recorded, terminal::terminal};

/// A folder with recordings, in which the program runs.
struct Folder(TempDir);

impl Folder {
    fn with(names: &[&str]) -> Folder {
        let folder = Folder(tempfile::tempdir().unwrap());
        for (seed, name) in (1..).zip(names) {
            pickle::save(&recorded(seed, 200), folder.path(name)).unwrap();
        }
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn load(&self, name: &str) -> Snapshot {
        pickle::load(self.path(name)).unwrap()
    }

    fn run(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_memreel")).args(arguments).current_dir(&self.0).output().unwrap()
    }

    /// Returns what the program prints; it must succeed.
    fn prints(&self, arguments: &[&str]) -> String {
        let Output { status, stdout, stderr } = self.run(arguments);
        assert_eq!((status.code(), &*String::from_utf8_lossy(&stderr)), (Some(0), ""), "{arguments:?}");
        String::from_utf8(stdout).unwrap()
    }

    /// Returns the message of wrong usage.
    fn refuses(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        String::from_utf8(output.stderr).unwrap()
    }
}

#[test]
fn slim_writes_the_window_and_leaves_the_input() {
    let folder = Folder::with(&["a.pickle"]);
    let before = fs::read(folder.path("a.pickle")).unwrap();
    let printed =
        folder.prints(&["slim", "--events", "20..50", "--device", "0", "a.pickle", "-o", "b.pickle"]);
    assert!(printed.contains("written to b.pickle"), "{printed}");
    assert_eq!(folder.load("b.pickle").device_traces[0].len(), 30);
    assert_eq!(fs::read(folder.path("a.pickle")).unwrap(), before);
    let printed = folder.prints(&["slim", "--time", "0s..", "a.pickle"]);
    assert!(printed.ends_with("nothing is written without -o\n"), "{printed}");
    let line = folder.prints(&["slim", "--depth", "1", "--json", "a.pickle"]);
    let line: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(line["n_events"][0], line["n_events"][1]);
    assert!(line["n_frames"][1].as_u64() < line["n_frames"][0].as_u64(), "{line}");
    let bytes = folder.run(&["slim", "--anonymise", "a.pickle", "-o", "-"]).stdout;
    let anonymous = pickle::from_slice(&bytes).unwrap();
    assert!(anonymous.stacks.all_frames().all(|frame| {
        let (_, number) = frame.name.rsplit_once("function").unwrap();
        number.starts_with(|c: char| c.is_ascii_digit())
    }));
}

/// The times of --time count from the first event that has one.
#[test]
fn slim_counts_from_the_first_event_with_a_time() {
    let folder = Folder::with(&["a.pickle"]);
    let mut undated = folder.load("a.pickle");
    undated.device_traces[0][0].time_us = 0;
    let n_events = undated.n_events();
    pickle::save(&undated, folder.path("b.pickle")).unwrap();
    let line = folder.prints(&["slim", "--time", "0s..100s", "--json", "b.pickle"]);
    let line: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(line["n_events"][1], n_events);
    let refused = folder.refuses(&["slim", "--time", "100s..", "b.pickle"]);
    let ms = refused.split(" ms").next().and_then(|text| text.rsplit(' ').next()?.parse::<u64>().ok());
    assert!(ms.is_some_and(|ms| ms < 100_000), "{refused}");
}

#[test]
fn slim_takes_several_files_and_a_scope() {
    let folder = Folder::with(&["a.pickle", "b.pickle"]);
    fs::create_dir(folder.path("small")).unwrap();
    folder.prints(&["slim", "--scope", "forward", "--nth", "0", "a.pickle", "b.pickle", "-o", "small"]);
    for name in ["a.pickle", "b.pickle"] {
        let (small, whole) = (folder.load(&format!("small/{name}")), folder.load(name));
        assert!(small.n_events() < whole.n_events());
    }
    assert!(
        folder
            .refuses(&["slim", "--scope", "none", "a.pickle"])
            .contains("no events are in a scope \"none\"; there are \"backward\", \"forward\"")
    );
    assert!(folder.refuses(&["slim", "--events", "9..3", "a.pickle"]).contains("ends before it starts"));
    assert!(
        folder
            .refuses(&["slim", "--events", "1..3", "--time", "1s..", "a.pickle"])
            .contains("cannot be used")
    );
    let several = folder.refuses(&["slim", "a.pickle", "b.pickle", "-o", "one.pickle"]);
    assert!(several.contains("with several files, -o must be"), "{several}");
}

#[test]
fn merge_takes_ranks_from_names_and_split_takes_devices_apart() {
    let folder = Folder::with(&["whole.pickle"]);
    let printed = folder.prints(&["split", "whole.pickle", "-o", "."]);
    assert_eq!(printed.lines().count(), 2, "{printed}");
    let one = folder.load("whole.device0.pickle");
    pickle::save(&one, folder.path("rank10.pickle")).unwrap();
    pickle::save(&one, folder.path("rank2.pickle")).unwrap();
    let merge = ["merge", "rank10.pickle", "rank2.pickle", "-o", "all.pickle"];
    let printed = folder.prints(&merge);
    assert!(
        printed.starts_with("2 files, ") && printed.contains("devices 2, 10, written to all.pickle"),
        "{printed}"
    );
    let all = folder.load("all.pickle");
    assert_eq!(all.device_traces[10].len(), one.device_traces[0].len());
    let line = folder.prints(&["merge", "--in-order", "--json", "rank10.pickle", "rank2.pickle"]);
    let line: Value = serde_json::from_str(&line).unwrap();
    assert_eq!((&line["devices"], &line["files"]), (&json!([0, 1]), &json!(2)));
    let n_events = one.n_events();
    let origin = |device: u64, file: &str| json!({"device": device, "file": file, "number_in_file": 0, "n_events": n_events});
    assert_eq!(line["origins"], json!([origin(0, "rank10.pickle"), origin(1, "rank2.pickle")]));
    assert_eq!(line["differing_settings"], json!([]));
    let again = ["merge", "whole.device0.pickle", "whole.device1.pickle", "-o", "again.pickle"];
    folder.prints(&again);
    let [again, whole] = ["again.pickle", "whole.pickle"].map(|name| folder.load(name));
    assert_eq!(again.n_events(), whole.n_events());
    fs::create_dir(folder.path("x")).unwrap();
    fs::copy(folder.path("rank2.pickle"), folder.path("x/rank2.pickle")).unwrap();
    let twice = folder.refuses(&["merge", "rank2.pickle", "x/rank2.pickle"]);
    assert!(twice.contains("two files have the rank 2"), "{twice}");
}

/// A rank that did not record is in the file all the same, and its settings may be others.
#[test]
fn merge_names_every_device_and_what_differs() {
    let folder = Folder::with(&["whole.pickle"]);
    let mut parts = memreel_snapshot::rewrite::split(folder.load("whole.pickle"));
    parts[1].1.device_traces.clear();
    let mut settings = json!({"expandable_segments": true, "memreel_sample_bytes": 100});
    for (rank, (_, part)) in parts.iter().enumerate() {
        let mut part = serde_json::to_value(part).unwrap();
        part["allocator_settings"] = settings.take();
        settings = json!({"expandable_segments": false});
        fs::write(folder.path(&format!("rank{rank}.json")), part.to_string()).unwrap();
    }
    let printed = folder.prints(&["merge", "rank0.json", "rank1.json", "-o", "all.pickle"]);
    let lines: Vec<&str> = printed.lines().collect();
    assert!(lines[0].contains("devices 0, 1, written to all.pickle"), "{printed}");
    assert!(lines[1].starts_with("  rank0.json: device 0, ") && lines[1].ends_with(" events"), "{printed}");
    assert_eq!(lines[2], "  rank1.json: device 1, no history was recorded");
    assert_eq!(
        lines[3..],
        ["note: the setting expandable_segments is true in rank0.json and false in rank1.json; the merged \
          file keeps the first"]
    );
    let line = folder.prints(&["merge", "--json", "rank0.json", "rank1.json"]);
    let line: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(line["devices"], json!([0, 1]));
    assert_eq!(line["differing_settings"], json!([{"key": "expandable_segments", "values": [true, false]}]));
    // The sampled rank keeps its warning in either order, and the other gets none.
    for order in [["rank0.json", "rank1.json"], ["rank1.json", "rank0.json"]] {
        folder.prints(&["merge", order[0], order[1], "-o", "all.pickle"]);
        let is_sampled =
            |device| folder.prints(&["top", "--device", device, "all.pickle"]).contains("were sampled");
        assert_eq!([is_sampled("0"), is_sampled("1")], [true, false], "{order:?}");
    }
}

#[test]
fn convert_goes_by_the_ending_and_back() {
    let folder = Folder::with(&["a.pickle"]);
    for name in ["a.json", "a.csv", "a.pb", "a.folded"] {
        folder.prints(&["convert", "a.pickle", "-o", name]);
        assert!(fs::metadata(folder.path(name)).unwrap().len() > 100, "{name}");
    }
    folder.prints(&["convert", "a.json", "-o", "b.pickle"]);
    let [a, b] = ["a.pickle", "b.pickle"].map(|name| serde_json::to_value(folder.load(name)).unwrap());
    assert!(a == b, "JSON and back is the same");
    let csv = folder.prints(&["convert", "--to", "csv", "a.pickle"]);
    assert_eq!(csv, fs::read_to_string(folder.path("a.csv")).unwrap());
    assert!(
        csv.starts_with("device,") && csv.lines().next().unwrap().ends_with(",site,stack,device_free_bytes")
    );
    let stacks = folder.prints(&["convert", "--to", "csv", "--stacks", "a.pickle"]);
    assert!(
        stacks.lines().next().unwrap().ends_with(",stack,frames,device_free_bytes")
            && stacks.len() > csv.len()
    );
    let trace: Value =
        serde_json::from_str(&folder.prints(&["convert", "--to", "perfetto", "a.pickle"])).unwrap();
    assert!(trace["traceEvents"].as_array().unwrap().len() > 100);
    folder.prints(&["convert", "--to", "perfetto", "a.pickle", "-o", "."]);
    assert!(folder.path("a.perfetto.json").exists());
    assert!(folder.refuses(&["convert", "a.pickle", "b.pickle"]).contains("with several files, -o must"));
    assert!(folder.refuses(&["convert", "--to", "word", "a.pickle"]).contains("invalid value"));
    let nowhere = folder.run(&["convert", "a.pickle", "-o", "missing/a.csv"]);
    assert_eq!(nowhere.status.code(), Some(3));
}

/// The viewer reads JSON as one text, and Chrome's texts end at 537 MB.
#[test]
#[cfg(unix)]
fn json_that_the_viewer_cannot_hold_comes_with_a_warning() {
    let folder = Folder::with(&["a.pickle"]);
    let frame = json!({"name": "f".repeat(2_000_000), "filename": "a.py", "line": 1});
    let entry =
        json!({"action": "oom", "device_free": 0, "size": 1, "stream": 0, "time_us": 1, "frames": [frame]});
    let mut snapshot: Snapshot =
        serde_json::from_value(json!({"segments": [], "device_traces": [[entry]]})).unwrap();
    snapshot.device_traces[0] = vec![snapshot.device_traces[0][0]; 260];
    pickle::save(&snapshot, folder.path("long.pickle")).unwrap();
    let output = folder.run(&["convert", "--to", "json", "long.pickle", "-o", "/dev/null"]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{message}");
    assert!(
        message.starts_with(
            "memreel: warning: /dev/null has 520 MB of JSON, and in the viewer Chrome \
             cannot"
        ),
        "{message}"
    );
    let output = folder.run(&["convert", "--to", "csv", "long.pickle", "--stacks", "-o", "/dev/null"]);
    assert!(output.stderr.is_empty(), "other formats are not for the viewer");
    let output = folder.run(&["convert", "--to", "json", "a.pickle", "-o", "a.json", "--json"]);
    let line: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(line["bytes"], fs::metadata(folder.path("a.json")).unwrap().len());
}

#[test]
fn one_device_of_several_is_taken() {
    let folder = Folder::with(&["a.pickle"]);
    let printed = folder.prints(&["split", "--device", "1", "--json", "a.pickle", "-o", "."]);
    let line: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!((&line["device"], &line["written"]), (&json!(1), &json!("./a.device1.pickle")));
    assert!(!folder.path("a.device0.pickle").exists());
    for format in ["csv", "folded", "json", "perfetto"] {
        let [part, whole, of_part] =
            [&["--device", "1", "a.pickle"][..], &["a.pickle"], &["a.device1.pickle"]]
                .map(|arguments| folder.prints(&[&["convert", "--to", format], arguments].concat()));
        assert!(part == of_part && part != whole, "{format}");
    }
    let printed = folder.prints(&["convert", "a.pickle", "-o", "a.csv", "--json", "--device", "0"]);
    let line: Value = serde_json::from_str(&printed).unwrap();
    let n_events = folder.load("a.pickle").device_traces[0].len();
    assert_eq!((&line["format"], &line["n_events"]), (&json!("csv"), &json!(n_events)));
    assert!(folder.refuses(&["convert", "--json", "a.pickle"]).contains("--output"));
    assert!(folder.refuses(&["convert", "--json", "a.pickle", "-o", "-"]).contains("--json needs -o FILE"));
    let compared = folder.prints(&["compare", "--device", "1", "a.pickle", "a.device1.pickle"]);
    assert!(
        compared.contains("only before: 0 segments") && compared.contains("only after: 0 segments"),
        "{compared}"
    );
    let compared = folder.prints(&["compare", "a.pickle", "a.device1.pickle"]);
    assert!(!compared.contains("only before: 0 segments"), "{compared}");
}

#[test]
fn nothing_binary_is_written_to_a_terminal() {
    let folder = Folder::with(&["a.pickle"]);
    let binary: &[&[&str]] = &[
        &["convert", "--to", "pprof", "a.pickle"],
        &["convert", "--to", "pickle", "a.pickle"],
        &["slim", "--depth", "3", "a.pickle", "-o", "-"],
        &["fix", "a.pickle", "-o", "-"],
        &["merge", "a.pickle", "-o", "-"],
    ];
    for arguments in binary {
        let [_near, far] = terminal(80);
        let mut command = Command::new(env!("CARGO_BIN_EXE_memreel"));
        let output = command.args(*arguments).current_dir(&folder.0).stdout(far).stderr(Stdio::piped());
        let output = output.spawn().unwrap().wait_with_output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
        assert!(message.contains("use -o FILE, or pipe it to another program"), "{arguments:?}: {message}");
        assert!(!folder.run(arguments).stdout.is_empty(), "a pipe takes it");
    }
}

#[test]
fn an_export_fills_a_terminal_only_if_it_is_asked_to() {
    let folder = Folder::with(&["a.pickle"]);
    for (more, code) in [(&[][..], 2), (&["-o", "-"], 0)] {
        let [_near, far] = terminal(80);
        let arguments = [&["convert", "--to", "folded", "a.pickle"], more].concat();
        let mut command = Command::new(env!("CARGO_BIN_EXE_memreel"));
        let output = command.args(&arguments).current_dir(&folder.0).stdout(far).stderr(Stdio::piped());
        let output = output.spawn().unwrap().wait_with_output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{message}");
        assert_eq!(message.contains("-o - to print it here"), code == 2, "{message}");
    }
}

#[test]
fn help_has_an_example_and_the_exit_statuses() {
    let folder = Folder::with(&[]);
    for command in ["fix", "slim", "merge", "split", "convert"] {
        let help = folder.prints(&[command, "--help"]);
        assert!(help.contains(&format!("Examples:\n  memreel {command} ")), "{help}");
        assert!(help.contains("Exit status: 0 done"), "{help}");
    }
}

#[test]
fn split_states_why_it_writes_nothing() {
    let folder = Folder::with(&[]);
    let segment = |device: i64| {
        json!({
            "device": device, "address": 4096, "total_size": 512, "allocated_size": 0, "active_size": 0,
            "requested_size": 0, "stream": 0, "segment_type": "small", "segment_pool_id": [0, 0],
            "is_expandable": false, "frames": [], "blocks": [],
        })
    };
    let write = |name: &str, devices: &[i64]| {
        let segments: Vec<_> = devices.iter().map(|device| segment(*device)).collect();
        let file = json!({"segments": segments, "device_traces": [[]]});
        fs::write(folder.path(name), file.to_string()).unwrap();
    };
    write("far.json", &[1 << 40]);
    write("both.json", &[1, 1 << 40, 2_000_000_000]);
    write("none.json", &[]);
    write("many.json", &(0..5000).collect::<Vec<_>>());
    write("high.json", &(61_440..65_536).collect::<Vec<_>>());
    write("negative.json", &[-1, 0]);
    let split = |name: &str, more: &[&str]| {
        let output = folder.run(&[&["split", name, "-o", "."], more].concat());
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    for (name, expected, what) in [
        ("far.json", 3, "device 1099511627776"),
        ("none.json", 3, "no device"),
        ("many.json", 2, "5000 files"),
        ("high.json", 2, "empty traces"),
    ] {
        let (code, message) = split(name, &[]);
        assert_eq!(code, Some(expected), "{name}: {message}");
        assert!(message.contains(what), "{message}");
    }
    let (code, message) = split("both.json", &[]);
    assert_eq!(code, Some(0), "{message}");
    assert!(message.contains("2 segments and 0 traces of devices outside 0..=65535"), "{message}");
    assert!(folder.path("both.device1.pickle").exists());
    let (code, message) = split("negative.json", &[]);
    assert_eq!(code, Some(0), "{message}");
    assert!(message.contains("for example of device -1"), "{message}");
    assert_eq!(split("many.json", &["--device", "4321"]).0, Some(0));
    assert!(folder.path("many.device4321.pickle").exists());
}
