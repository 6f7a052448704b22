//! The program's answers: PyTorch's byte for byte where those are right, and ours as golden texts.
//!
//! `MEMREEL_BLESS=1 cargo test answers` writes the golden texts anew.

use std::{
    fs,
    io::Write,
    path::PathBuf,
    process::{Command, Output, Stdio},
};

use serde_json::Value;

fn fixtures() -> PathBuf {
    crate::repository("fixtures")
}

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memreel"));
    command.args(arguments).current_dir(fixtures()).output().unwrap()
}

/// What a command prints that finds nothing wrong, and says so to nobody else.
fn answer(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(output.stderr.is_empty(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn expected(name: &str) -> String {
    fs::read_to_string(fixtures().join("expected").join(name)).unwrap()
}

/// The command that prints what a command of PyTorch's tool prints.
fn pytorch_arguments<'a>(command: &'a str, file: &'a str) -> Vec<&'a str> {
    match command {
        "stats" => vec!["stats", file],
        "trace" => vec!["trace", "--pytorch", file],
        _ => vec![command, "--folded", file],
    }
}

#[test]
fn pytorch_prints_the_same_for_every_fixture() {
    let list = expected("pytorch-tool.txt");
    assert!(list.lines().count() > 90, "{}", list.lines().count());
    for line in list.lines() {
        let [command, file, length, checksum] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let text = answer(&pytorch_arguments(command, file));
        let found = format!("{} {}", text.len(), crc32fast::hash(text.as_bytes()));
        assert_eq!(found, format!("{length} {checksum}"), "{command} {file}");
    }
}

#[test]
fn pytorch_prints_the_same_for_odd_files() {
    let tool = "synthetic/tool.pickle";
    let cases = [
        ("stats", tool, "stats.txt"),
        ("stats", "synthetic/stats2.pickle", "stats2.txt"),
        ("trace", tool, "trace.txt"),
        ("segments", tool, "segments.folded"),
        ("memory", tool, "memory.folded"),
    ];
    for (command, file, name) in cases {
        assert_eq!(answer(&pytorch_arguments(command, file)), expected(&format!("pytorch/{name}")), "{name}");
    }
    let compared = answer(&[
        "compare",
        "--pytorch",
        "synthetic/before_segments.pickle",
        "synthetic/after_segments.pickle",
    ]);
    assert_eq!(compared, expected("pytorch/compare.stdout.txt") + &expected("pytorch/compare.folded"));
}

const GOLDEN: &[(&str, &[&str])] = &[
    ("top", &["top", "torch-2.11/snapshots/resnet18_python_stacks.pickle"]),
    ("top-function", &["top", "--by", "function", "torch-2.11/snapshots/resnet18_python_stacks.pickle"]),
    ("top-file", &["top", "--by", "file", "-n", "4", "torch-2.11/snapshots/resnet18_python_stacks.pickle"]),
    ("top-scope", &["top", "--by", "scope", "torch-2.11/snapshots/resnet18_python_stacks.pickle"]),
    ("top-tree", &["top", "--tree", "torch-2.11/snapshots/resnet18_python_stacks.pickle"]),
    ("top-native", &["top", "-n", "4", "torch-2.11/snapshots/transformer_all_stacks.pickle"]),
    (
        "top-native-function",
        &["top", "--by", "function", "-n", "6", "torch-2.11/snapshots/transformer_all_stacks.pickle"],
    ),
    ("top-native-tree", &["top", "--tree", "torch-2.11/snapshots/transformer_all_stacks.pickle"]),
    ("top-wrapped", &["top", "torch-2.11/snapshots/expandable_wrapped_ring.pickle"]),
    ("top-no-history", &["top", "torch-2.11/snapshots/no_history.pickle"]),
    ("top-segment-list", &["top", "synthetic/torch-2.11-segment-list.pickle"]),
    ("top-torch-2.0", &["top", "synthetic/torch-2.0.pickle"]),
    ("at", &["at", "500", "torch-2.11/snapshots/resnet18_python_stacks.pickle"]),
    ("at-pending", &["at", "end", "torch-2.11/snapshots/pending_free.pickle"]),
    ("oom-fragmented", &["oom", "torch-2.11/snapshots/oom_fragment.pickle"]),
    ("oom-limited", &["oom", "torch-2.11/snapshots/oom.pickle"]),
    ("oom-none", &["oom", "torch-2.11/snapshots/resnet18_python_stacks.pickle"]),
    ("leaks", &["leaks", "-n", "5", "torch-2.11/snapshots/resnet18_python_stacks.pickle"]),
    (
        "leaks-older",
        &["leaks", "--older-than", "1000", "-n", "3", "torch-2.11/snapshots/resnet18_python_stacks.pickle"],
    ),
    ("churn", &["churn", "-n", "5", "torch-2.11/snapshots/transformer_all_stacks.pickle"]),
    ("fragmentation", &["fragmentation", "torch-2.11/snapshots/oom_fragment.pickle"]),
    ("timeline", &["timeline", "--width", "60", "torch-2.11/snapshots/resnet18_python_stacks.pickle"]),
    ("timeline-csv", &["timeline", "--csv", "torch-2.11/snapshots/pending_free.pickle"]),
    ("trace", &["trace", "synthetic/tool.pickle"]),
    ("trace-expandable", &["trace", "torch-2.11/snapshots/expandable_wrapped_ring.pickle"]),
    ("compare", &["compare", "synthetic/before_segments.pickle", "synthetic/after_segments.pickle"]),
    ("segments", &["segments", "torch-2.11/snapshots/graph_private_pools.pickle"]),
    ("memory", &["memory", "torch-2.11/snapshots/pending_free.pickle"]),
    ("diff", &["diff", "torch-2.11/snapshots/no_history.pickle", "torch-2.11/snapshots/pending_free.pickle"]),
    (
        "two-files",
        &["churn", "-n", "1", "torch-2.11/snapshots/oom.pickle", "torch-2.11/snapshots/cpp_path.pickle"],
    ),
    ("gate", &["gate", "--max-peak", "100MiB", "--max-live", "1GiB", "torch-2.11/snapshots/cpp_path.pickle"]),
];

#[test]
fn golden_texts() {
    let is_blessed = std::env::var_os("MEMREEL_BLESS").is_some();
    for (name, arguments) in GOLDEN {
        let text = answer(arguments);
        let path = fixtures().join("expected").join(format!("{name}.txt"));
        if is_blessed {
            fs::write(&path, &text).unwrap();
        }
        let golden = fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(text, golden, "{name}: MEMREEL_BLESS=1 takes the new text");
    }
}

/// Every question with a file and no option, but for those that need to be told something.
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
        for file in fs::read_dir(fixtures().join(folder)).unwrap() {
            let file = file.unwrap().path();
            let file = file.to_str().unwrap();
            for question in QUESTIONS {
                let status = |output: &Output| output.status.code();
                // An OOM is a finding.
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
    let path = fixtures().join("torch-2.11/snapshots/oom.pickle");
    let from_file = answer(&["top", path.to_str().unwrap()]);
    let piped = |bytes: &[u8], command: &str| {
        let mut child = Command::new(env!("CARGO_BIN_EXE_memreel"))
            .args([command, "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(bytes).unwrap();
        String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
    };
    let bytes = fs::read(&path).unwrap();
    assert_eq!(piped(&bytes, "top"), from_file);
    assert_eq!(piped(&bytes, "validate"), "standard input: fine\n");
    let snapshot = memreel::pickle::from_slice(&bytes).unwrap();
    let json = serde_json::to_vec(&snapshot).unwrap();
    assert_eq!(piped(&json, "top"), from_file);
    let folder = tempfile::tempdir().unwrap();
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
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        (output.status.code(), told.as_str()),
        (Some(2), &*format!("memreel: {file}: no device 9; devices with memory: 0\n"))
    );
    let output = run(&["at", "31", file]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no event 31: the last is 30"));
}

#[test]
fn what_cannot_be_read_is_told_and_the_next_file_answered() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty.pickle");
    fs::write(&empty, b"").unwrap();
    let (empty, fine) = (empty.to_str().unwrap(), "torch-2.11/snapshots/oom.pickle");
    for question in QUESTIONS {
        for bad in ["missing.pickle", empty, "torch-2.11", "generate.py"] {
            let output = run(&[question, &[bad, fine][..]].concat());
            assert_eq!(output.status.code(), Some(3), "{question:?} {bad}");
            let told = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(told.starts_with(&format!("memreel: {bad}: ")) && told.lines().count() == 1, "{told}");
            assert!(!output.stdout.is_empty(), "{question:?}");
        }
    }
}

#[test]
fn figures_in_json_are_those_of_the_text() {
    let file = "torch-2.11/snapshots/oom_fragment.pickle";
    let output = run(&["oom", "--json", file]);
    assert_eq!(output.status.code(), Some(1));
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    let oom = &object["oom"];
    assert_eq!((&oom["verdict"], &oom["is_limited"]), (&"fragmented".into(), &true.into()));
    assert_eq!((&oom["requested_bytes"], &oom["fits_compacted"]), (&35_188_736.into(), &true.into()));
    assert_eq!(oom["stack"][0]["line"], 52);
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
fn a_gate_has_its_own_status_and_report() {
    let folder = tempfile::tempdir().unwrap();
    let junit = folder.path().join("gate.xml");
    let (xml, file) = (junit.to_str().unwrap(), "torch-2.11/snapshots/oom_fragment.pickle");
    let status = |arguments: &[&str]| run(&[&["gate"], arguments, &[file]].concat()).status.code();
    assert_eq!(
        status(&["--max-peak", "1.85GiB", "--max-live", "2GiB", "--max-fragmentation", "9%"]),
        Some(0)
    );
    assert_eq!(status(&["--max-peak", "1.5GiB", "--junit", xml]), Some(4));
    let report = fs::read_to_string(&junit).unwrap();
    assert!(report.contains(
        "<testsuite name=\"torch-2.11/snapshots/oom_fragment.pickle, device 0\" tests=\"1\" failures=\"1\">"
    ));
    assert!(report.contains("<failure message=\"peak is 1.84 GiB, at most 1.50 GiB\"/>"), "{report}");
    assert_eq!(status(&["--max-fragmentation", "7%"]), Some(4));
    // Between a segment of 120 MiB and the block that it was made for everything would seem wasted: 68.1 %.
    let healthy = "torch-2.11/snapshots/graph_private_pools.pickle";
    assert_eq!(run(&["gate", "--max-fragmentation", "20%", healthy]).status.code(), Some(0));
    assert_eq!(["0", "0B", "0 GiB"].map(|none| status(&["--max-live", none])), [Some(4); 3]);
    assert_eq!(status(&["--baseline", file]), Some(0));
    assert_eq!(status(&["--baseline", "torch-2.11/snapshots/oom.pickle", "--tolerance", "2%"]), Some(4));
    assert_eq!(status(&["--baseline", "torch-2.11/snapshots/oom.pickle", "--tolerance", "200%"]), Some(0));
    assert_eq!(status(&["--max-peak", "9GiB", "--strict"]), Some(0));
    assert_eq!(status(&[]), Some(2));
    assert_eq!(status(&["--baseline", "missing.pickle"]), Some(3));
    let wrapped = "torch-2.11/snapshots/expandable_wrapped_ring.pickle";
    assert_eq!(run(&["gate", "--max-peak", "9GiB", wrapped]).status.code(), Some(0));
    assert_eq!(run(&["gate", "--max-peak", "9GiB", "--strict", wrapped]).status.code(), Some(4));
    assert_eq!(status(&["--baseline", wrapped, "--tolerance", "900%"]), Some(0));
    assert_eq!(status(&["--baseline", wrapped, "--tolerance", "900%", "--strict"]), Some(4));
    assert_eq!(run(&["diff", "-", "-"]).status.code(), Some(2), "one standard input is not two files");
}

#[test]
fn sizes_are_what_they_say() {
    let file = "torch-2.11/snapshots/oom_fragment.pickle";
    // 1.84 GiB are 1.98 GB.
    let status = |most: &str| run(&["gate", "--max-peak", most, file]).status.code();
    assert_eq!(["1.9GiB", "1.9G", "1.9GB", "2GB"].map(status), [Some(0), Some(0), Some(4), Some(0)]);
    for command in ["gate", "replay"] {
        assert!(answer(&[command, "--help"]).contains("kB, MB, GB count in 1000s"), "{command}");
    }
}

#[test]
fn a_difference_says_between_which_moments() {
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

#[test]
fn who_begins_in_the_wrong_order_is_told_the_right_one() {
    let file = "torch-2.11/snapshots/oom.pickle";
    let refused = |arguments: &[&str]| {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let told = refused(&[file]);
    assert!(told.ends_with(&format!("for example: memreel top {file}\n")), "{told}");
    assert!(refused(&["tob", file]).contains("similar subcommand exists: 'top'"));
    assert!(refused(&["at", file]).contains(&format!("and then the file: memreel at peak {file}")));
    assert!(refused(&["leaks", "--between", "a", "b", file]).contains(": no scopes were recorded"));
    assert!(refused(&["convert", file, "-o", "x.svg"]).contains(".svg says no format; say --to"));
    let folder = tempfile::tempdir().unwrap();
    let scoped = folder.path().join("scoped.pickle");
    memreel::pickle::save(&crate::recorded::recorded(1, 200), &scoped).unwrap();
    let told = refused(&["leaks", "--between", "a", "b", scoped.to_str().unwrap()]);
    assert!(told.contains("no scope \"a\" in the history of device 0; there are "), "{told}");
    assert!(told.contains("forward") && told.contains("backward"), "{told}");
}

#[test]
fn one_is_no_plural() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("one.pickle");
    let mut snapshot = memreel::pickle::load(fixtures().join("synthetic/valid.pickle")).unwrap();
    snapshot.device_traces[0].truncate(1);
    memreel::pickle::save(&snapshot, &file).unwrap();
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
    let said = answer(&["timeline", "--svg", svg.to_str().unwrap(), file, "torch-2.11/snapshots/oom.pickle"]);
    let second = folder.path().join("several.1.svg");
    let line = format!("torch-2.11/snapshots/oom.pickle, device 0: written to {}", second.display());
    assert_eq!((said.lines().count(), said.lines().last()), (2, Some(&*line)));
    assert!(second.exists());
    let graph = fs::read_to_string(folder.path().join("memory.svg")).unwrap();
    assert!(graph.contains("sgd.py:455:_multi_tensor_sgd"));
}

#[test]
fn completions_and_manual_pages_know_every_command() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(answer(&["man", "--to", folder.path().to_str().unwrap()]), "");
    let help = answer(&["--help"]);
    let commands =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let completions = answer(&["completions", "bash"]);
    for command in commands.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help") {
        assert!(completions.contains(&format!("memreel__subcmd__{command}")), "{command}");
        let page = fs::read_to_string(folder.path().join(format!("memreel-{command}.1"))).unwrap();
        assert!(page.contains("memreel"), "{command}");
        let help = answer(&[command, "--help"]);
        let example = format!("Example:\n  memreel {command} ");
        assert!(help.contains(&example) || help.contains(example.trim_end()), "{command}: {help}");
        assert!(help.contains("Exit status: 0 "), "{command}");
    }
}
