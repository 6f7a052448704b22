//! What every command takes: several files, standard input, `--device` and `--json`; and a page of help with an
//! example. The commands are those that `memreel --help` lists. If one needs more or does not take one of these, it has a
//! row in [`DIFFERENT`] with the reason, and so has its help.

#![forbid(unsafe_code)]

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::LazyLock,
};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{answer, commands};

/// Whether a command takes an option; if not, the text of its help or its error message that explains it.
#[derive(Clone, Copy)]
pub(crate) enum Takes {
    Yes,
    No(&'static str),
}

pub(crate) use Takes::{No, Yes};

/// A command, the arguments that it needs, and what it takes.
#[derive(Clone, Copy)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) needs: &'static [&'static str],
    /// The most files that it takes, if limited.
    pub(crate) n_files: Option<usize>,
    pub(crate) device: Takes,
    pub(crate) json: Takes,
}

/// Stands for the folder that results go to.
pub(crate) const OUTPUT: &str = "OUTPUT";

const fn row(name: &'static str, needs: &'static [&'static str]) -> Row {
    Row { name, needs, n_files: None, device: Yes, json: Yes }
}

/// The commands that need more than files, or do not take all that others take.
const DIFFERENT: &[Row] = &[
    row("at", &["peak"]),
    Row { n_files: Some(2), ..row("compare", &[]) },
    // It prints the options of the program and reads no file.
    Row { n_files: Some(0), device: No("--device"), json: No("--json"), ..row("completions", &["bash"]) },
    row("convert", &["-o", OUTPUT]),
    Row { n_files: Some(2), ..row("diff", &[]) },
    // Repairs of one device may need what all devices share.
    Row { device: No("to extract one device, use `memreel split`"), ..row("fix", &[]) },
    // It prints stacks, or draws them.
    Row { json: No("--json"), ..row("flamegraph", &[]) },
    row("gate", &["--max-peak", "1TiB"]),
    Row { n_files: Some(0), device: No("--device"), json: No("--json"), ..row("man", &[]) },
    // It numbers devices.
    Row { device: No("To leave out devices, use `memreel split --device`"), ..row("merge", &[]) },
    // It is a page for people.
    Row { json: No("--json"), ..row("report", &[]) },
    // Its --device names the device whose events a window counts.
    Row {
        device: No("All devices are kept; to extract one, use `memreel split --device`"),
        ..row("slim", &[])
    },
    row("split", &["-o", OUTPUT]),
    Row {
        device: No("There is no --device, because viewers read a file as a whole"),
        ..row("validate", &[])
    },
];

/// The commands that read no snapshots or do not end, and what tests them.
const ELSEWHERE: &[(&str, &str)] = &[
    ("attach", "takes a process: `attach`"),
    ("doctor", "looks at the machine: `doctor`"),
    ("fit", "takes files with their sizes: `fit`"),
    ("help", "clap's own command"),
    ("mcp", "serves a client: tests/mcp"),
    ("record", "takes a program: `record`"),
    ("torch", "its commands are asked without this word"),
    ("recover", "takes tapes: `recover` asks the same of it"),
    ("view", "serves a page: `view`"),
    ("watch", "takes tapes and processes: `watch`"),
];

/// Every other command that the program lists.
pub(crate) static ROWS: LazyLock<Vec<Row>> = LazyLock::new(|| {
    let here = commands().into_iter().filter(|name| ELSEWHERE.iter().all(|(other, _)| other != name));
    let different = |name: &str| DIFFERENT.iter().find(|row| row.name == name).copied();
    here.map(|name| different(&name).unwrap_or_else(|| row(name.leak(), &[]))).collect()
});

/// What to do if a command does not take what the others take.
const ADVICE: &str = "a command that cannot take this needs a row in DIFFERENT of crates/cli/tests/program/every_command.rs, and \
                      its help must have the reason";

fn snapshot(name: &str) -> PathBuf {
    crate::repository("fixtures/torch-2.11/snapshots").join(name)
}

impl Row {
    /// Runs the command in a new folder; `-` is the second of the files.
    fn run(&self, options: &[&str], files: &[&str]) -> (Output, TempDir) {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a.pickle", "b.pickle"] {
            fs::copy(snapshot("expandable_wrapped_ring.pickle"), folder.path().join(name)).unwrap();
        }
        fs::create_dir(folder.path().join("out")).unwrap();
        let needs = self.needs.iter().map(|need| if *need == OUTPUT { "out" } else { need });
        let mut command = Command::new(env!("CARGO_BIN_EXE_memreel"));
        command.arg(self.name).args(needs).args(options).args(files).current_dir(&folder);
        command.stdin(File::open(snapshot("expandable_wrapped_ring.pickle")).unwrap());
        (command.output().unwrap(), folder)
    }

    /// Returns what the command prints when nothing is wrong.
    fn prints(&self, options: &[&str], files: &[&str]) -> String {
        let (Output { status, stdout, stderr }, _) = self.run(options, files);
        let message = String::from_utf8_lossy(&stderr);
        assert_eq!(
            (status.code(), &*message),
            (Some(0), ""),
            "{} {options:?} {files:?}: {ADVICE}",
            self.name
        );
        String::from_utf8(stdout).unwrap()
    }

    fn refuses(&self, options: &[&str], files: &[&str], message: &str) {
        let (output, _) = self.run(options, files);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{} {options:?}: {stderr}", self.name);
        assert!(stderr.contains(message), "{} {options:?}: {stderr}", self.name);
    }

    /// Returns as many files as the command takes, at most two.
    fn files(&self) -> &'static [&'static str] {
        &["a.pickle", "b.pickle"][..self.n_files.unwrap_or(2)]
    }
}

#[test]
fn the_tables_have_no_command_that_is_gone() {
    let listed = commands();
    assert!(listed.len() > 20, "{listed:?}");
    // A build of several packages may bring `mcp`.
    let others =
        ELSEWHERE.iter().map(|(name, _)| *name).filter(|name| *name != "mcp" || cfg!(feature = "mcp"));
    for name in DIFFERENT.iter().map(|row| row.name).chain(others) {
        assert!(listed.iter().any(|listed| listed == name), "{name}");
    }
}

#[test]
fn every_command_has_a_page_with_an_example() {
    for row in ROWS.iter() {
        let Row { name, .. } = row;
        let (output, _) = row.run(&["--help"], &[]);
        let help = String::from_utf8(output.stdout).unwrap();
        assert!(
            help.contains(&format!("Examples:\n  memreel {name}")),
            "add an example to after_help: {help}"
        );
        assert!(help.contains("Exit status: 0 "), "add the exit statuses to after_help: {help}");
    }
}

#[test]
fn every_command_takes_two_files_and_standard_input() {
    for row in ROWS.iter() {
        let files = row.files();
        let text = row.prints(&[], files);
        if files.is_empty() {
            row.refuses(&[], &["a.pickle", "b.pickle"], "unexpected argument");
            continue;
        }
        if row.n_files.is_some() {
            row.refuses(&[], &["a.pickle", "b.pickle", "a.pickle"], "unexpected argument");
        } else {
            // `convert` into a folder prints nothing.
            let is_silent = row.name == "convert" && text.is_empty();
            let n_answers = [row.prints(&[], &files[..1]), text].map(|text| text.lines().count());
            assert!(
                is_silent || ["leaks", "merge", "owners"].contains(&row.name) || n_answers[1] > n_answers[0],
                "{}: {n_answers:?}",
                row.name
            );
        }
        let piped = row.prints(&[], &["a.pickle", "-"]);
        assert!(row.name == "convert" || !piped.is_empty(), "{}", row.name);
    }
}

#[test]
fn every_command_answers_in_json() {
    for row in ROWS.iter() {
        if let No(message) = row.json {
            row.refuses(&["--json"], row.files(), message);
            continue;
        }
        let text = row.prints(&["--json"], row.files());
        assert!(!text.is_empty(), "{}", row.name);
        for line in text.lines() {
            let object: Value =
                serde_json::from_str(line).unwrap_or_else(|error| panic!("{}: {error}", row.name));
            assert!(object.is_object(), "{}: {line}", row.name);
        }
    }
}

#[test]
fn every_command_takes_a_device() {
    for row in ROWS.iter() {
        if let No(message) = row.device {
            let (output, _) = row.run(&["--help"], &[]);
            let help = String::from_utf8(output.stdout).unwrap();
            // Lines end anywhere in a sentence.
            let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(help.contains(message) || row.n_files == Some(0), "{help}");
            row.refuses(&["--device", "0"], row.files(), "--device");
            continue;
        }
        let all = row.prints(&[], row.files());
        assert_eq!(row.prints(&["--device", "0"], row.files()), all, "{}: there is one device", row.name);
        let (output, _) = row.run(&["--device", "7"], row.files());
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{}: {message}", row.name);
        assert!(message.contains("no device 7; devices with memory: 0"), "{}: {message}", row.name);
        row.refuses(&["--device", "heap"], row.files(), "no heap; devices with memory: 0");
    }
}

/// Writes a snapshot in which what a GPU has is also in the heap, device 1.
fn with_heap(folder: &Path) {
    let name = snapshot("expandable_wrapped_ring.pickle").display().to_string();
    let mut all: Value = serde_json::from_str(&answer(&["convert", "--to", "json", &name])).unwrap();
    let trace = all["device_traces"][0].clone();
    all["device_traces"] = json!([trace, trace]);
    let mut of_heap = all["segments"].as_array().unwrap().clone();
    of_heap.iter_mut().for_each(|segment| segment["device"] = json!(1));
    all["segments"].as_array_mut().unwrap().extend(of_heap);
    all["allocator_settings"]["memreel_usage"] =
        json!([{"device": 1, "name": "heap of the process", "uuid": "", "reports": []}]);
    let json = folder.join("heap.json");
    fs::write(&json, all.to_string()).unwrap();
    for path in ["a.pickle", "b.pickle"].map(|name| folder.join(name)) {
        answer(&["convert", "-o", path.to_str().unwrap(), json.to_str().unwrap()]);
    }
}

#[test]
fn every_command_knows_the_heap_by_name() {
    let folder = tempfile::tempdir().unwrap();
    with_heap(folder.path());
    fs::create_dir(folder.path().join("out")).unwrap();
    let asked = |row: &Row, device: &str| {
        let needs = row.needs.iter().map(|need| if *need == OUTPUT { "out" } else { need });
        let mut command = Command::new(env!("CARGO_BIN_EXE_memreel"));
        command.arg(row.name).args(needs).args(["--device", device]).args(row.files());
        let output = command.current_dir(&folder).output().unwrap();
        assert!(matches!(output.status.code(), Some(0 | 1)), "{}: {output:?}", row.name);
        String::from_utf8(output.stdout).unwrap().replace("--device heap", "--device 1")
    };
    for row in ROWS.iter().filter(|row| matches!(row.device, Yes)) {
        assert_eq!(asked(row, "heap"), asked(row, "1"), "{}", row.name);
    }
    let of_events = |device: &str| {
        let path = folder.path().join("a.pickle").display().to_string();
        answer(&["slim", "--events", "..9", "--device", device, &path])
    };
    assert_eq!(of_events("heap"), of_events("1"));
}

/// A name from an archive may have characters that change a terminal.
#[test]
fn names_of_files_are_shown_without_control_characters() {
    const NAMES: [&str; 2] = ["a\u{1b}[31m\u{7}.pickle", "b\u{1b}]0;title\u{7}.pickle"];
    for row in &*ROWS {
        for is_there in [true, false] {
            let folder = tempfile::tempdir().unwrap();
            fs::create_dir(folder.path().join("out")).unwrap();
            for name in NAMES.into_iter().filter(|_| is_there) {
                fs::copy(snapshot("expandable_wrapped_ring.pickle"), folder.path().join(name)).unwrap();
            }
            let needs = row.needs.iter().map(|need| if *need == OUTPUT { "out" } else { need });
            let mut command = Command::new(env!("CARGO_BIN_EXE_memreel"));
            command.arg(row.name).args(needs).args(&NAMES[..row.n_files.unwrap_or(2)]).current_dir(&folder);
            let Output { stdout, stderr, .. } = command.output().unwrap();
            for (text, what) in [(stdout, "answer"), (stderr, "message")] {
                let text = String::from_utf8_lossy(&text).into_owned();
                assert!(!text.contains(['\u{1b}', '\u{7}']), "{} ({what}, {is_there}): {text:?}", row.name);
            }
        }
    }
}
