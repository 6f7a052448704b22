//! The width of lines: that of a terminal, or of `COLUMNS` in a pipe; without either nothing is shortened.

#![forbid(unsafe_code)]

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::Read,
    process::Stdio,
};

use console::measure_text_width;
use serde_json::{Value, json};

use crate::{
    every_command::ROWS,
    support::{memreel, stdout},
    terminal::terminal,
};

const RESNET: &str = "torch-2.11/snapshots/resnet18_python_stacks.pickle";
const TRANSFORMER: &str = "torch-2.11/snapshots/transformer_all_stacks.pickle";
const FRAGMENTED: &str = "torch-2.11/snapshots/oom_fragment.pickle";
const POOLS: &str = "torch-2.11/snapshots/graph_private_pools.pickle";
const PENDING: &str = "torch-2.11/snapshots/pending_free.pickle";
const RING: &str = "torch-2.11/snapshots/expandable_wrapped_ring.pickle";

/// Questions about any file.
const QUESTIONS: &[&[&str]] = &[
    &["summary"],
    &["top"],
    &["top", "--by", "function"],
    &["top", "--by", "file"],
    &["top", "--by", "scope"],
    &["top", "--by", "owner"],
    &["owners"],
    &["owners", "--frames", "9"],
    &["gate", "--max-owner", "pytorch=1MiB", "--max-owner", "nccl=1"],
    &["top", "--tree"],
    &["top", "--frames", "100", "-n", "50"],
    &["leaks"],
    &["leaks", "--older-than", "3"],
    &["churn"],
    &["fragmentation"],
    &["fragmentation", "--at", "peak"],
    &["at", "peak"],
    &["at", "--address", "0..0xffffffffffffffff", "end"],
    &["oom"],
    &["timeline"],
    &["gate", "--max-peak", "1MiB", "--max-live", "1GiB", "--strict"],
    &["segments"],
    &["memory"],
    &["validate"],
    &["fix"],
    &["slim", "--depth", "2"],
    &["merge"],
];

/// Commands with all their arguments.
const OTHERS: &[&[&str]] = &[
    &["diff", RING, PENDING],
    &["diff", RESNET, TRANSFORMER],
    &["diff", "--by", "owner", RESNET, TRANSFORMER],
    &["owners", RESNET, TRANSFORMER, POOLS],
    &["compare", "synthetic/before_segments.pickle", "synthetic/after_segments.pickle"],
    &["replay", RESNET],
    &["replay", "--sweep", "--limit", "2046MiB", FRAGMENTED],
    &["replay", "--conf", "expandable_segments:True", "--conf", "max_split_size_mb:64", FRAGMENTED],
    &["replay", "--sweep", PENDING],
    &["merge", RING, RESNET, POOLS],
    &["validate", "synthetic/torch-2.0.pickle", "synthetic/odd-values.pickle"],
    &["fix", "synthetic/torch-2.0.pickle"],
    &["churn", RESNET, TRANSFORMER],
];

fn commands() -> Vec<Vec<&'static str>> {
    let files = [RESNET, TRANSFORMER, FRAGMENTED, POOLS, PENDING, RING];
    let asked = QUESTIONS.iter().flat_map(|question| files.map(|file| [question, &[file][..]].concat()));
    asked.chain(OTHERS.iter().map(|command| command.to_vec())).collect()
}

/// Returns what a command prints into a pipe.
fn piped(arguments: &[&str], columns: Option<&str>) -> String {
    let mut command = memreel(arguments);
    if let Some(columns) = columns {
        command.env("COLUMNS", columns);
    }
    stdout(&command.output().unwrap()).to_owned()
}

/// Returns the sizes in a text, and if `all` the other numbers too, sorted.
fn numbers(text: &str, all: bool) -> Vec<String> {
    let words: Vec<&str> =
        text.split_whitespace().map(|word| word.trim_matches(['(', ')', ',', ';', ':'])).collect();
    let is_number = |word: &str| word.trim_start_matches('+').parse::<f64>().is_ok();
    let is_unit =
        |at: usize| words.get(at).is_some_and(|word| ["B", "KiB", "MiB", "GiB", "%"].contains(word));
    let found = words.iter().enumerate().filter(|(at, word)| is_number(word) && (all || is_unit(at + 1)));
    let mut found: Vec<String> = found.map(|(_, word)| (*word).to_owned()).collect();
    found.sort_unstable();
    found
}

#[test]
fn every_line_fits_and_every_number_is_whole() {
    for command in commands() {
        let whole = piped(&command, None);
        // Names of templates have numbers in them.
        let all = !command.contains(&TRANSFORMER);
        assert!(!whole.contains('…'), "{command:?}: {whole}");
        for columns in [80, 100, 200] {
            let text = piped(&command, Some(&columns.to_string()));
            for line in text.lines() {
                assert!(measure_text_width(line) <= columns, "{columns} {command:?}: {line}\n{text}");
            }
            assert_eq!(numbers(&text, all), numbers(&whole, all), "{columns} {command:?}:\n{text}\n{whole}");
        }
    }
}

#[test]
fn odd_widths_do_not_matter() {
    let whole = piped(&["top", TRANSFORMER], None);
    for odd in ["", "0", "-3", "wide", "99999999999999999999999"] {
        assert_eq!(piped(&["top", TRANSFORMER], Some(odd)), whole, "{odd:?}");
    }
    // A row has at least 40 columns.
    assert_eq!(piped(&["top", TRANSFORMER], Some("1")), piped(&["top", TRANSFORMER], Some("40")));
    assert_eq!(piped(&["top", TRANSFORMER], Some("100000")), piped(&["top", TRANSFORMER], Some("5000")));
}

#[test]
fn a_terminal_gives_the_width() {
    for (columns, command) in
        [(80, ["top", TRANSFORMER]), (120, ["leaks", RESNET]), (97, ["timeline", RESNET])]
    {
        let [near, far] = terminal(columns);
        let mut command_line = memreel(&command);
        // The terminal's own width counts.
        command_line.env("COLUMNS", "300").env("NO_COLOR", "1").stdout(far).stderr(Stdio::null());
        let mut child = command_line.spawn().unwrap();
        // Closes this process's copy of the end that the child writes to.
        drop(command_line);
        let mut text = Vec::new();
        // Reading fails once the other end is closed.
        let _ = File::from(near).read_to_end(&mut text);
        assert!(child.wait().unwrap().success());
        let text = String::from_utf8(text).unwrap().replace("\r\n", "\n");
        assert_eq!(text, piped(&command, Some(&columns.to_string())), "{command:?}");
    }
}

#[test]
fn help_fits() {
    for row in ROWS.iter() {
        let help = piped(&[row.name, "--help"], Some("80"));
        for line in help.lines() {
            assert!(measure_text_width(line) <= 80, "{}: {line}", row.name);
        }
    }
}

#[test]
fn texts_of_pytorch_and_json_are_not_shortened() {
    for command in [
        &["stats", RESNET][..],
        &["trace", RING],
        &["trace", "--pytorch", RING],
        &["segments", "--folded", RESNET],
        &["memory", "--folded", RESNET],
        &["compare", "--pytorch", "synthetic/before_segments.pickle", "synthetic/after_segments.pickle"],
        &["top", "--json", TRANSFORMER],
        &["timeline", "--json", RESNET],
        &["timeline", "--csv", RESNET],
        &["convert", "--to", "csv", RESNET],
    ] {
        assert_eq!(piped(command, Some("80")), piped(command, None), "{command:?}");
    }
}

/// Names that differ only in what does not fit still have different rows.
#[test]
fn shortened_rows_differ() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("long.json");
    let middle = |middle: &str| format!("begin_{}{middle}{}_end", "x".repeat(70), "y".repeat(70));
    let of_type = |of: &str| format!("{}<{of}>::call", "ns::".repeat(30));
    let mut names =
        vec![middle("_one_"), middle("_two_"), of_type("int"), of_type("char"), "名前".repeat(60)];
    names.push(format!("{}a", "名前".repeat(60)));
    let entries: Vec<Value> = names
        .iter()
        .enumerate()
        .map(|(at, name)| {
            let frames = json!([{"name": name, "filename": format!("/u/{}.py", "m".repeat(90)), "line": 12345}]);
            json!({"action": "alloc", "addr": (at + 1) << 20, "size": 4096, "stream": 0, "time_us": at, "frames": frames})
        })
        .collect();
    fs::write(&path, json!({"segments": [], "device_traces": [entries]}).to_string()).unwrap();
    for columns in [80, 100, 200] {
        let text = piped(&["top", path.to_str().unwrap()], Some(&columns.to_string()));
        assert!(text.lines().skip(2).all(|line| measure_text_width(line) <= columns), "{text}");
        let rows: Vec<String> =
            text.split(" 4.00 KiB ").skip(1).map(|row| row.replace(['\n', ' '], "")).collect();
        assert_eq!(rows.len(), names.len(), "{text}");
        assert_eq!(rows.iter().collect::<BTreeSet<_>>().len(), names.len(), "{text}");
        assert!(rows.iter().all(|row| row.contains(".py:12345)")), "the file and the line are kept: {text}");
    }
}

/// A stack without frames has a row like a block without a stack.
#[test]
fn a_failed_request_without_frames_has_no_stack() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("oom.json");
    let entry = |action: &str, address: u64, size: u64| json!({"action": action, "addr": address, "size": size, "stream": 0, "time_us": 1, "frames": []});
    let mut oom = entry("oom", 0, 1 << 20);
    oom["device_free"] = json!(1000);
    let file = json!({"segments": [], "device_traces": [[entry("alloc", 1 << 20, 512), oom]]});
    fs::write(&path, file.to_string()).unwrap();
    let text = piped(&["oom", path.to_str().unwrap()], None);
    assert!(text.contains("\nrequested by  (no stack)\n"), "{text}");
}
