//! What the questions answer: in text and JSON, from files and standard input, for devices and moments.

#![forbid(unsafe_code)]

use std::{
    fs,
    io::Write,
    process::{Output, Stdio},
};

use serde_json::{Value, json};

use crate::support::{answer, fixture, memreel, run};

/// Every question, with the arguments that it needs before the file.
const QUESTIONS: &[&[&str]] = &[
    &["at", "end"],
    &["churn"],
    &["fragmentation"],
    &["leaks"],
    &["memory"],
    &["oom"],
    &["segments"],
    &["stats"],
    &["timeline"],
    &["top"],
    &["trace"],
];

#[test]
fn every_question_answers_every_fixture_in_text_and_in_json() {
    for folder in ["torch-2.11/snapshots", "synthetic"] {
        for file in fs::read_dir(fixture("").join(folder)).unwrap() {
            let file = file.unwrap().path();
            let file = file.to_str().unwrap();
            for question in QUESTIONS {
                let status = |output: &Output| output.status.code();
                // A failed request is a finding, with status 1.
                let is_fine = |output: &Output| {
                    status(output) == Some(0) || question[0] == "oom" && status(output) == Some(1)
                };
                let text = run(&[question, &[file][..]].concat());
                assert!(is_fine(&text) && text.stderr.is_empty(), "{question:?} {file}: {text:?}");
                let objects = run(&[question, &["--json", file][..]].concat());
                assert!(is_fine(&objects), "{question:?} {file}");
                for line in std::str::from_utf8(&objects.stdout).unwrap().lines() {
                    let object: Value = serde_json::from_str(line).unwrap();
                    assert_eq!(object["file"], file, "{question:?}");
                }
            }
        }
    }
}

#[test]
fn standard_input_and_json_are_snapshots_too() {
    let path = fixture("").join("torch-2.11/snapshots/oom.pickle");
    let from_file = answer(&["top", path.to_str().unwrap()]);
    let piped = |bytes: &[u8], command: &str| {
        let mut child =
            memreel(&[command, "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(bytes).unwrap();
        String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
    };
    let bytes = fs::read(&path).unwrap();
    assert_eq!(piped(&bytes, "top"), from_file);
    assert_eq!(piped(&bytes, "validate"), "standard input: valid\n");
    let snapshot = memreel_snapshot::pickle::from_slice(&bytes).unwrap();
    let json = serde_json::to_vec(&snapshot).unwrap();
    assert_eq!(piped(&json, "top"), from_file);
    let folder = tempfile::tempdir().unwrap();
    let mut split = memreel(&["split", "-", "-o", "."]);
    let output = split.current_dir(&folder).stdin(fs::File::open(&path).unwrap()).output().unwrap();
    assert!(output.status.success() && folder.path().join("snapshot.device0.pickle").exists(), "{output:?}");
    let file = folder.path().join("snapshot.json");
    fs::write(&file, &json).unwrap();
    assert_eq!(answer(&["top", file.to_str().unwrap()]), from_file);
}

#[test]
fn a_device_is_chosen_and_an_unknown_one_refused() {
    let file = "torch-2.11/snapshots/oom.pickle";
    assert_eq!(answer(&["top", "--device", "0", file]), answer(&["top", file]));
    assert_eq!(answer(&["top", "--device", "cuda:0", file]), answer(&["top", file]));
    let output = run(&["top", "--device", "9", file]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        (output.status.code(), message.as_str()),
        (Some(2), &*format!("memreel: {file}: no device 9; devices with memory: 0\n"))
    );
    let output = run(&["at", "31", file]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no event 31 on device 0: the last is 30"));
}

#[test]
fn an_unreadable_file_is_reported_and_the_next_one_answered() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty.pickle");
    fs::write(&empty, b"").unwrap();
    let (empty, fine) = (empty.to_str().unwrap(), "torch-2.11/snapshots/oom.pickle");
    for question in QUESTIONS {
        for bad in ["missing.pickle", empty, "torch-2.11", "generate.py"] {
            let output = run(&[question, &[bad, fine][..]].concat());
            assert_eq!(output.status.code(), Some(3), "{question:?} {bad}");
            let message = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(
                message.starts_with(&format!("memreel: {bad}: ")) && message.lines().count() == 1,
                "{message}"
            );
            assert!(!output.stdout.is_empty(), "{question:?}");
        }
    }
}

/// A program may go on after a request failed, and free everything.
#[test]
fn the_failed_request_is_a_moment() {
    let failed = "torch-2.11/ranks/rank1.pickle";
    let object =
        |words: &[&str]| -> Value { serde_json::from_str(answer(words).lines().last().unwrap()).unwrap() };
    let oom: Value =
        serde_json::from_slice(&run(&["oom", "--json", "--device", "1", failed]).stdout).unwrap();
    let entry = oom["oom"]["event"].as_u64().unwrap().to_string();
    for words in [["at"].as_slice(), &["top", "--at"], &["fragmentation", "--at"]] {
        let of = |at: &str| object(&[words, &[at, "--json", "--device", "1", failed]].concat());
        assert_eq!(of("oom"), of(&entry), "{words:?}");
        assert_ne!(of("oom"), of("start"), "{words:?}");
    }
    let [default, at_oom] = [&[][..], &["--at", "oom"]]
        .map(|at| object(&[&["fragmentation", "--json", "--device", "1"], at, &[failed]].concat()));
    assert_eq!(default, at_oom);
    let refused = run(&["top", "--at", "oom", "torch-2.11/snapshots/transformer_all_stacks.pickle"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&refused.stderr).contains("no request failed on device 0"),
        "{refused:?}"
    );
}

/// A server that frees what it holds when it exits leaks until then.
#[test]
fn what_an_exit_frees_can_be_looked_at_before() {
    let frame = |name: &str| json!([{"name": name, "filename": "server.c", "line": 5}]);
    let event = |(action, addr, name): (&str, u64, &str)| json!({"action": action, "addr": addr, "size": 4096, "stream": 0, "time_us": addr, "frames": frame(name)});
    let mut events = vec![
        json!({"action": "segment_alloc", "addr": 0, "size": 1 << 24, "stream": 0, "time_us": 0, "frames": []}),
    ];
    for n in 1..=600_u64 {
        let buffer = ["alloc", "free_requested", "free_completed"].map(|action| event((action, 0, "handle")));
        events.extend(buffer.into_iter().chain([event(("alloc", 4096 * n, "remember"))]));
    }
    for n in 1..=600 {
        events.extend(["free_requested", "free_completed"].map(|action| event((action, 4096 * n, "forget"))));
    }
    let folder = tempfile::tempdir().unwrap();
    let segment = json!({
        "device": 0, "address": 0, "total_size": 1 << 24, "allocated_size": 0, "active_size": 0, "requested_size": 0, "stream": 0,
        "segment_type": "large", "segment_pool_id": [0, 0], "is_expandable": false, "frames": [],
        "blocks": [{"address": 0, "size": 1 << 24, "requested_size": 0, "state": "inactive", "frames": []}],
    });
    fs::write(
        folder.path().join("server.json"),
        json!({"segments": [segment], "device_traces": [events]}).to_string(),
    )
    .unwrap();
    let run = |words: &[&str]| {
        let output = memreel(words).current_dir(folder.path()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let text = run(&["leaks", "server.json"]);
    let commands: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("  memreel ")).collect();
    let [slim, leaks] = &commands[..] else { panic!("{text}") };
    assert!(!text.contains("a leak of"), "{text}");
    run(&slim.split(' ').collect::<Vec<_>>());
    let before = run(&leaks.split(' ').collect::<Vec<_>>());
    assert!(before.contains("a leak of 2.3") && before.contains("remember (server.c:5)"), "{before}");
    assert!(!before.contains("was freed by the end"), "{before}");
}

#[test]
fn figures_in_json() {
    let file = "torch-2.11/snapshots/oom_fragment.pickle";
    let output = run(&["oom", "--json", file]);
    assert_eq!(output.status.code(), Some(1));
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    let oom = &object["oom"];
    assert_eq!((&oom["verdict"], &oom["is_limited"]), (&"limited".into(), &true.into()));
    assert_eq!((&oom["requested_bytes"], &oom["fits_compacted"]), (&35_188_736.into(), &true.into()));
    assert_eq!(oom["stack"][0]["line"], 52);
    // The replay has no failed request.
    assert_eq!((&oom["with_expandable_segments"], &oom["fits_expandable"]), (&"yes".into(), &true.into()));
    let file = "torch-2.11/snapshots/transformer_all_stacks.pickle";
    let top: Value = serde_json::from_str(&answer(&["top", "--json", "-n", "1000", file])).unwrap();
    let sum: u64 =
        top["groups"].as_array().unwrap().iter().map(|group| group["bytes"].as_u64().unwrap()).sum();
    assert_eq!(top["active_bytes"], sum, "the groups are all that is in use");
    let by_file: Value =
        serde_json::from_str(&answer(&["top", "--json", "-n", "1000", "--by", "file", file])).unwrap();
    let groups = by_file["groups"].as_array().unwrap();
    assert_eq!(groups.iter().map(|group| group["bytes"].as_u64().unwrap()).sum::<u64>(), sum);
    assert!(
        groups
            .iter()
            .all(|group| (group["bytes"].as_u64()..=Some(sum)).contains(&group["total_bytes"].as_u64()))
    );
}

#[test]
fn a_difference_names_its_moments() {
    let [before, after] =
        ["torch-2.11/snapshots/no_history.pickle", "torch-2.11/snapshots/pending_free.pickle"];
    let text = answer(&["diff", "--at", "peak", before, after]);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with(&format!("{before}: ")) && lines[0].contains(" at the end (no history), "));
    assert!(lines[1].contains(" in use at the end (event 8), "), "{text}");
    let object: Value =
        serde_json::from_str(&answer(&["diff", "--json", "--at", "3", after, after])).unwrap();
    assert_eq!((&object["before_event"], &object["after_event"]), (&3.into(), &3.into()));
    assert_eq!(object["before_peak_bytes"], object["after_peak_bytes"]);
}

/// The files of two ranks have one device each, of another number.
#[test]
fn the_only_devices_of_two_files_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    let first = "torch-2.11/snapshots/pending_free.pickle";
    let mut snapshot = memreel_snapshot::pickle::load(fixture("").join(first)).unwrap();
    snapshot.device_traces.insert(0, Vec::new());
    snapshot.segments.iter_mut().for_each(|segment| segment.device = memreel_snapshot::DeviceId(1));
    let second = folder.path().join("rank1.pickle");
    memreel_snapshot::pickle::save(&snapshot, &second).unwrap();
    let second = second.to_str().unwrap();
    let text = answer(&["diff", first, second]);
    let head =
        format!("comparing device 0 of {first} with device 1 of {second} (the only device in each file)\n");
    assert!(
        text.starts_with(&head) && text.ends_with("no change: every site holds as much as before\n"),
        "{text}"
    );
    let object: Value = serde_json::from_str(&answer(&["diff", "--json", first, second])).unwrap();
    assert_eq!((&object["device"], &object["after_device"]), (&0.into(), &1.into()));
    // A device that is named is that of both files.
    assert!(answer(&["diff", "--device", "1", first, second]).contains("+52.00 MiB in use"));
}

/// Compiled code often has no known file.
#[test]
fn a_file_without_a_name_has_a_text() {
    let text = answer(&["top", "--by", "file", "torch-2.11/snapshots/transformer_all_stacks.pickle"]);
    assert!(text.contains("   67.00 MiB  (no file)\n"), "{text}");
}

#[test]
fn one_is_singular() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("one.pickle");
    let mut snapshot = memreel_snapshot::pickle::load(fixture("").join("synthetic/valid.pickle")).unwrap();
    snapshot.device_traces[0].truncate(1);
    memreel_snapshot::pickle::save(&snapshot, &file).unwrap();
    let file = file.to_str().unwrap();
    let commands: &[&[&str]] =
        &[&["merge"], &["slim"], &["trace"], &["churn"], &["leaks"], &["timeline"], &["at", "end"], &["top"]];
    let things = ["file", "event", "entrie", "site", "frame", "segment", "block", "cycle", "device"];
    for command in commands {
        let text = answer(&[command, &[file][..]].concat());
        let words: Vec<&str> =
            text.split_whitespace().map(|word| word.trim_end_matches([',', ';', ':'])).collect();
        let is_odd =
            |pair: &&[&str]| pair[0] == "1" && things.iter().any(|thing| pair[1] == format!("{thing}s"));
        assert_eq!(words.windows(2).find(is_odd), None, "{command:?}: {text}");
    }
}

#[test]
fn pictures_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let file = "torch-2.11/snapshots/resnet18_python_stacks.pickle";
    for command in ["segments", "memory", "timeline"] {
        let svg = folder.path().join(format!("{command}.svg"));
        assert_eq!(answer(&[command, "--svg", svg.to_str().unwrap(), file]), "");
        let text = fs::read_to_string(&svg).unwrap();
        assert!(text.contains("<svg") && text.trim_end().ends_with("</svg>"), "{command}");
        assert_eq!(run(&[command, "--svg", "missing/folder.svg", file]).status.code(), Some(3));
    }
    let svg = folder.path().join("several.svg");
    let printed =
        answer(&["timeline", "--svg", svg.to_str().unwrap(), file, "torch-2.11/snapshots/oom.pickle"]);
    let second = folder.path().join("several.1.svg");
    let line = format!("torch-2.11/snapshots/oom.pickle, device 0: written to {}", second.display());
    assert_eq!((printed.lines().count(), printed.lines().last()), (2, Some(&*line)));
    assert!(second.exists());
    let graph = fs::read_to_string(folder.path().join("memory.svg")).unwrap();
    assert!(graph.contains("sgd.py:455:_multi_tensor_sgd"));
}

/// A file can have a hundred thousand devices, and each is a file of its own.
#[test]
fn a_picture_for_each_of_many_devices_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let alloc = serde_json::json!([{"action": "alloc", "addr": 512, "size": 512, "stream": 0, "time_us": 1}]);
    let traces = vec![alloc; 300];
    let file = folder.path().join("many.json");
    fs::write(&file, serde_json::json!({"segments": [], "device_traces": traces}).to_string()).unwrap();
    let [svg, file] = [folder.path().join("drawn.svg"), file].map(|path| path.to_str().unwrap().to_owned());
    let output = run(&["timeline", "--svg", &svg, &file]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("draws at most 256; select one with --device"), "{message}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1 + 256);
    assert_eq!(run(&["timeline", "--device", "299", "--svg", &svg, &file]).status.code(), Some(0));
}

/// Its record has the device's free bytes in place of an address.
#[test]
fn a_failed_request_is_at_no_address() {
    let lines = answer(&["trace", "--json", "torch-2.11/snapshots/oom.pickle"]);
    let mut n_failed = 0;
    for line in lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        let is_oom = line["action"] == "oom";
        assert_eq!(
            (line["address"].is_null(), line["device_free_bytes"].is_u64()),
            (is_oom, is_oom),
            "{line}"
        );
        n_failed += usize::from(is_oom);
    }
    assert!(n_failed > 0);
}

/// `--json` with a point for each event has the figures of `--csv`.
#[test]
fn points_of_the_timeline_are_its_lines() {
    let file = "torch-2.11/snapshots/pending_free.pickle";
    let csv = answer(&["timeline", "--csv", file]);
    let answer: Value =
        serde_json::from_str(&answer(&["timeline", "--json", "--width", "1000", file])).unwrap();
    let points = answer["points"].as_array().unwrap();
    assert_eq!(points.len() + 1, csv.lines().count());
    for (point, line) in points.iter().zip(csv.lines().skip(1)) {
        let figures = ["allocated_bytes", "active_bytes", "reserved_bytes"].map(|key| point[key].to_string());
        assert!(line.ends_with(&format!(",{}", figures.join(","))), "{point} is not {line}");
    }
}
