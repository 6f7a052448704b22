//! Files that no recorder wrote: they are refused with status 3 and a message with advice, or read as far as
//! they are sound.

#![forbid(unsafe_code)]

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use memreel_cli::{Answer, Refusal, ask};
use memreel_snapshot::{pickle, validate};
use memreel_testing::hostile::{Refused, check_all, refused, with_value};

use crate::{
    hostile::{commands::PLAIN, words},
    support::{fixture as path, stderr, stdout},
};

fn run(command: &[&str], file: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_memreel")).args(command).arg(file).output().unwrap()
}

/// Commands that read snapshots, with arguments with which they write no file. These are asked in children: they print what is
/// wrong with each file themselves.
const COMMANDS: &[&[&str]] = &[
    &["validate"],
    &["owners"],
    &["summary"],
    &["stats"],
    &["replay"],
    &["fix"],
    &["slim", "--depth", "3"],
    &["merge"],
    &["split"],
    &["convert", "--to", "csv"],
];

#[test]
fn unreadable_files_are_refused_with_advice() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("folder");
    fs::create_dir(&inner).unwrap();
    let written: Vec<_> = refused()
        .into_iter()
        .map(|Refused { name, bytes, message }| {
            let file = folder.path().join(name);
            fs::write(&file, bytes).unwrap();
            (file, message)
        })
        .collect();
    let n_files = fs::read_dir(&folder).unwrap().count();
    check_all(&written, |(file, message)| {
        let asked = PLAIN.iter().filter(|command| !["validate", "owners"].contains(&command[0]));
        let faults = asked.filter_map(|command| fault_of_answer(command, file, message));
        faults
            .chain(COMMANDS[..2].iter().filter_map(|command| fault_of_run(command, file, message)))
            .collect()
    });
    let missing = folder.path().join("missing");
    for (file, message) in [(&inner, "it is a folder"), (&missing, "cannot be read: No such file")] {
        COMMANDS.iter().for_each(|command| assert_eq!(fault_of_run(command, file, message), None));
    }
    assert_eq!(fs::read_dir(&folder).unwrap().count(), n_files, "nothing is written");
}

fn fault_of_run(command: &[&str], file: &Path, message: &str) -> Option<String> {
    let ran = run(command, file);
    let said = [stdout(&ran), stderr(&ran)].concat();
    let fault = fault_of_refusal(ran.status.code(), &said, file, message)?;
    Some(format!("{command:?}: {fault}"))
}

fn fault_of_answer(command: &[&str], file: &Path, message: &str) -> Option<String> {
    let out = tempfile::tempdir().unwrap();
    let (status, said) = asked(command, file, out.path());
    let is_written = fs::read_dir(&out).unwrap().next().is_some();
    let fault = is_written.then(|| "something is written".to_owned());
    Some(format!("{command:?}: {}", fault.or_else(|| fault_of_refusal(Some(status), &said, file, message))?))
}

/// Asks a command of [`PLAIN`]; returns its exit status and what it says.
fn asked(command: &[&str], file: &Path, out: &Path) -> (i32, String) {
    let words = words(command, file, out);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (Ok(Answer { status, text }) | Err(Refusal { status, message: text })) = ask(&[], &words);
    (status.into(), text)
}

/// Returns what is wrong with a refusal. It is one line, beside the findings of `validate`, which has the file and the reason
/// once.
fn fault_of_refusal(status: Option<i32>, said: &str, file: &Path, message: &str) -> Option<String> {
    let is_finding = |line: &&str| {
        line.split(": E").skip(1).any(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
    };
    let lines: Vec<_> = said.lines().filter(|line| !is_finding(line)).collect();
    let said = lines.join("\n");
    let counts = [lines.len(), said.matches(file.to_str()?).count(), said.matches(message).count()];
    let is_plain = (status, counts) == (Some(3), [1, 1, 1]);
    (!is_plain).then(|| format!("{status:?}, {counts:?}, {message}: {said}"))
}

#[test]
fn a_snapshot_without_devices_cannot_be_split() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("empty.json");
    fs::write(&file, r#"{"segments": [], "device_traces": []}"#).unwrap();
    assert_eq!(
        fault_of_run(&["split"], &file, "nothing was written: no device has events or segments"),
        None
    );
}

/// A checkpoint is a dictionary too, and a gate must not pass it.
#[test]
fn other_dictionaries_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let files =
        [("checkpoint.pickle", &b"\x80\x04}\x8c\x05epochK\x03s."[..]), ("other.json", b"{\"epoch\": 3}")];
    let message = "not a memory snapshot: neither segments nor device_traces; it holds \"epoch\"";
    for (name, bytes) in files {
        let file = folder.path().join(name);
        fs::write(&file, bytes).unwrap();
        for command in PLAIN.iter().filter(|command| !["validate", "owners"].contains(&command[0])) {
            assert_eq!(fault_of_answer(command, &file, message), None);
        }
        assert_eq!(fault_of_run(&["owners"], &file, message), None);
    }
    assert_eq!(fs::read_dir(&folder).unwrap().count(), files.len(), "nothing is written");
}

#[test]
fn a_failed_write_names_the_output_and_no_temporary_file() {
    let file = path("synthetic/valid.pickle");
    for command in [&["slim", "--depth", "3"][..], &["fix"], &["merge"], &["convert"], &["split"]] {
        for output in ["/nonexistent/x.pickle", "/nonexistent/x.csv"] {
            let ran = run(&[command, &["-o", output]].concat(), &file);
            let message = String::from_utf8_lossy(&ran.stderr).into_owned();
            assert_eq!(ran.status.code(), Some(3), "{command:?}: {message}");
            let is_plain = message.matches("/nonexistent").count() == 1 && !message.contains(".memreel-");
            assert!(is_plain && message.contains("No such file"), "{command:?}: {message}");
        }
    }
}

/// Text files from Windows may begin with a mark.
#[test]
fn json_may_begin_with_a_byte_order_mark() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("marked.json");
    let json = serde_json::to_vec(&pickle::load(path("synthetic/valid.pickle")).unwrap()).unwrap();
    fs::write(&file, [b"\xef\xbb\xbf".as_slice(), &json].concat()).unwrap();
    let [marked, plain] = [&file, &path("synthetic/valid.pickle")].map(|file| {
        let output = run(&["validate"], file);
        String::from_utf8(output.stdout).unwrap().replace(file.to_str().unwrap(), "")
    });
    assert_eq!(marked, plain);
}

#[test]
fn a_window_without_events_is_wrong_usage() {
    let file = path("synthetic/valid.pickle");
    for window in [["--time", "12s..10s"], ["--time", "1000s..2000s"], ["--events", "5000..6000"]] {
        let ran = run(&["slim", window[0], window[1]], &file);
        let message = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert_eq!(ran.status.code(), Some(2), "{window:?}: {message}");
        assert!(message.contains("window"), "{window:?}: {message}");
    }
    let message = |arguments: &[&str], file: &str| {
        let ran = run(&[&["slim"], arguments].concat(), &path(file));
        assert_eq!(ran.status.code(), Some(2), "{arguments:?}");
        String::from_utf8(ran.stderr).unwrap()
    };
    let oom = "torch-2.11/snapshots/oom.pickle";
    let numbers = "no events are in the window of --events; device 0 has 31 events, numbered from 0 to 30\n";
    assert!(message(&["--events", "31.."], oom).ends_with(numbers));
    let time = "no events are in the window of --time; the history has 31 events in 6 ms\n";
    assert!(message(&["--time", "1000s.."], oom).ends_with(time));
    for scope in [&["--scope", "x"][..], &["--scope", "x", "--nth", "3"]] {
        let message = message(scope, oom);
        assert!(message.contains("no events are in a scope \"x\"; no scopes were recorded"), "{message}");
    }
}

/// `validate` reports what is odd; the other commands work.
#[test]
fn odd_files_are_read() {
    let entry = |size: &[u8]| {
        let before =
            b"\x80\x04}(\x8c\x08segments]\x8c\x0ddevice_traces](](}(\x8c\x06action\x8c\x05alloc\x8c\x04addr";
        [before, &b"M\0\x02\x8c\x04size"[..], size, b"\x8c\x06streamK\0ueeu."].concat()
    };
    let fixture = |name: &str| fs::read(path(name)).unwrap();
    let rows = [
        ("nan", entry(b"G\x7f\xf8\0\0\0\0\0\0"), "E4"),
        ("negative", entry(b"J\xff\xff\xff\xff"), "E4"),
        ("latin-1", with_value(b"\x8c\x03a\xe9b"), "E6"),
        ("protocol 5", fixture("synthetic/torch-2.11-protocol-5.pickle"), "E3"),
        (
            "segments alone",
            fixture("synthetic/torch-2.11-segment-list.pickle"),
            "E1 snapshot: this is a bare list",
        ),
    ];
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes, message) in &rows {
        let file = folder.path().join(name);
        fs::write(&file, bytes).unwrap();
        for command in PLAIN.iter() {
            let out = tempfile::tempdir().unwrap();
            let (status, said) = asked(command, &file, out.path());
            match command[0] {
                "validate" => assert!(
                    status == 1 && (said.starts_with('{') || said.contains(message)),
                    "{name}: {said}"
                ),
                // They say what the file lacks.
                "replay" | "split" | "gate" | "oom" | "ranks" => {}
                _ => assert_eq!(status, 0, "{command:?} {name}: {said}"),
            }
        }
        let fixed = folder.path().join("fixed");
        assert_eq!(run(&["fix", "-o", fixed.to_str().unwrap()], &file).status.code(), Some(0), "{name}");
        assert!(
            validate::check_file(&fixed).unwrap().iter().all(|finding| finding.severity.letter() != 'E'),
            "{name}"
        );
    }
}
