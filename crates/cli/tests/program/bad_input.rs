//! Files that no recorder wrote: they are refused with status 3 and a message with advice, or read as far as
//! they are sound. The tests of the library have more of them.

#![forbid(unsafe_code)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use memreel_snapshot::{pickle, validate};
use tempfile::TempDir;

/// Commands that read snapshots, with arguments with which they write no file.
const COMMANDS: &[&[&str]] = &[
    &["validate"],
    &["stats"],
    &["replay"],
    &["fix"],
    &["slim", "--depth", "3"],
    &["merge"],
    &["split"],
    &["convert", "--to", "csv"],
];

fn run(command: &[&str], file: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_memreel")).args(command).arg(file).output().unwrap()
}

/// Returns a snapshot with one more key, whose value these opcodes make.
fn with_value(opcodes: &[u8]) -> Vec<u8> {
    [b"\x80\x04}(\x8c\x08segments]\x8c\x0ddevice_traces]\x8c\x01x", opcodes, b"u."].concat()
}

/// Returns nested lists, each with the list before it twice.
fn memo_bomb() -> Vec<u8> {
    let mut opcodes = b"](Neq\x00".to_vec();
    (0..90u8).for_each(|level| opcodes.extend([b']', b'(', b'h', level, b'h', level, b'e', b'q', level + 1]));
    with_value(&[b"(".as_slice(), &opcodes, b"t"].concat())
}

fn nested(n: usize) -> Vec<u8> {
    with_value(&[vec![b']'; n], vec![b'a'; n - 1]].concat())
}

#[test]
fn unreadable_files_are_refused_with_advice() {
    let sound = fixture("synthetic/valid.pickle");
    let cut = &sound[..sound.len() / 2];
    let legacy = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.".as_slice();
    let rows: &[(&str, Vec<u8>, &str)] = &[
        ("global", b"\x80\x04cos\nsystem\n(\x8c\x02lstR.".to_vec(), "the opcode GLOBAL would run code"),
        (
            "stack_global",
            with_value(b"\x8c\x02os\x8c\x06system\x93"),
            "the opcode STACK_GLOBAL would run code",
        ),
        ("reduce", with_value(b"NN\x86R"), "the opcode REDUCE would run code"),
        ("bomb", memo_bomb(), "outgrow it many times over"),
        ("deep", nested(100_000), "nest more than 100 deep"),
        ("vast", nested(1_000_000), "far more than a snapshot of this length needs"),
        ("length", b"\x80\x04X\xff\xff\xff\x7fabc".to_vec(), "the file ends"),
        ("gzip", b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03".to_vec(), "gzip; decompress it first"),
        ("zstd", b"\x28\xb5\x2f\xfd\x04\x00".to_vec(), "zstd; decompress it first"),
        ("zip", b"PK\x03\x04\x00\x00".to_vec(), "a ZIP archive, as torch.save writes it"),
        ("old", [legacy, b"\x80\x02M\xe9\x03."].concat(), "a file of torch.save, as PyTorch before 1.6"),
        ("weights", [b"\x0b\0\0\0\0\0\0\0", &b"{\"w\": [0]}  "[..]].concat(), "a safetensors file"),
        ("empty", Vec::new(), "not a memory snapshot: the file is empty"),
        (
            "text",
            b"hello, this is no pickle\n".to_vec(),
            "not a memory snapshot but a text file; give a file written by _dump_snapshot",
        ),
        (
            "script",
            "import torch  # führt aus\n".repeat(200).into_bytes(),
            "not a memory snapshot but a text file;",
        ),
        ("protocol 0", b"cos\nsystem\n(S'ls'\ntR.".to_vec(), "the opcode GLOBAL would run code"),
        (
            "state_dict",
            b"\x80\x02ccollections\nOrderedDict\nq\x00)Rq\x01.".to_vec(),
            "the opcode GLOBAL would run code or reach outside the file, but a snapshot contains only data; \
             do not load this file with Python unless you trust its author; it seems to be a checkpoint (a \
             state_dict)",
        ),
        ("settings", b"[section]\nkey = 1\n".to_vec(), "it starts like JSON but is not valid JSON"),
        ("odd", b"\x80\x04\x01".to_vec(), "is this a snapshot file?"),
        ("cut", cut.to_vec(), "the file ends"),
        ("json", b"{\"segments\": [".to_vec(), "the JSON was cut off"),
        ("number", b"\x80\x04K\x07.".to_vec(), "not a readable snapshot"),
    ];
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes, message) in rows {
        let file = folder.path().join(name);
        fs::write(&file, bytes).unwrap();
        refused(&file, message, &folder);
    }
    let inner = folder.path().join("folder");
    fs::create_dir(&inner).unwrap();
    refused(&inner, "it is a folder", &folder);
    fs::remove_dir(&inner).unwrap();
    refused(&folder.path().join("missing"), "cannot be read: No such file", &folder);
}

#[test]
fn a_snapshot_without_devices_cannot_be_split() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("empty.json");
    fs::write(&file, r#"{"segments": [], "device_traces": []}"#).unwrap();
    refused_by(&["split"], &file, "nothing was written: no device has events or segments");
}

/// A checkpoint is a dictionary too, and a gate must not pass it.
#[test]
fn other_dictionaries_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in
        [("checkpoint.pickle", &b"\x80\x04}\x8c\x05epochK\x03s."[..]), ("other.json", b"{\"epoch\": 3}")]
    {
        let file = folder.path().join(name);
        fs::write(&file, bytes).unwrap();
        let questions: [&[&str]; 3] = [&["gate", "--max-peak", "1"], &["top"], &["stats"]];
        for command in questions.into_iter().chain(COMMANDS.iter().copied().filter(|c| *c != ["validate"])) {
            refused_by(
                command,
                &file,
                "not a memory snapshot: neither segments nor device_traces; it holds \"epoch\"",
            );
        }
    }
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 2, "nothing is written");
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

fn refused_by(command: &[&str], file: &Path, message: &str) {
    let ran = run(command, file);
    let stderr = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert_eq!(ran.status.code(), Some(3), "{command:?}: {stderr}");
    assert!(stderr.contains(message), "{command:?}: {stderr}");
}

fn refused(file: &Path, message: &str, folder: &TempDir) {
    let n_files = fs::read_dir(folder).unwrap().count();
    for command in COMMANDS {
        let output = run(command, file);
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
        let name = file.to_str().unwrap();
        assert_eq!(output.status.code(), Some(3), "{command:?} {name}: {text}");
        // One line, which names the file once and has the reason once.
        let counts = [text.lines().count(), text.matches(name).count(), text.matches(message).count()];
        assert_eq!(counts, [1, 1, 1], "{command:?} {name}, {message}: {text}");
        assert_eq!(text.lines().filter(|line| line.contains("panicked")).count(), 0);
    }
    assert_eq!(fs::read_dir(folder).unwrap().count(), n_files, "nothing was written");
}

fn fixture(name: &str) -> Vec<u8> {
    fs::read(path(name)).unwrap()
}

fn path(name: &str) -> PathBuf {
    crate::repository("fixtures").join(name)
}

/// `validate` reports what is odd; the other commands work.
#[test]
fn odd_files_are_read() {
    let entry = |size: &[u8]| {
        let entry: &[&[u8]] = &[
            b"\x80\x04}(\x8c\x08segments]\x8c\x0ddevice_traces](](}(\x8c\x06action\x8c\x05alloc\x8c\x04addr",
            b"M\x00\x02\x8c\x04size",
            size,
            b"\x8c\x06streamK\x00ueeu.",
        ];
        entry.concat()
    };
    let rows: &[(&str, Vec<u8>, i32, &str)] = &[
        ("nan", entry(b"G\x7f\xf8\x00\x00\x00\x00\x00\x00"), 1, "E4"),
        ("negative", entry(b"J\xff\xff\xff\xff"), 1, "E4"),
        ("latin-1", with_value(b"\x8c\x03a\xe9b"), 1, "E6"),
        ("protocol 5", fixture("synthetic/torch-2.11-protocol-5.pickle"), 1, "E3"),
        (
            "segments alone",
            fixture("synthetic/torch-2.11-segment-list.pickle"),
            1,
            "E1 snapshot: this is a bare list",
        ),
    ];
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes, status, message) in rows {
        let file = folder.path().join(name);
        fs::write(&file, bytes).unwrap();
        let output = run(&["validate"], &file);
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(*status), "{name}: {text}");
        assert!(text.contains(message), "{name}: {text}");
        for command in
            COMMANDS.iter().filter(|command| !["validate", "replay", "split"].contains(&command[0]))
        {
            let output = run(command, &file);
            assert_eq!(output.status.code(), Some(0), "{command:?} {name}: {output:?}");
        }
        let fixed = folder.path().join("fixed");
        assert_eq!(run(&["fix", "-o", fixed.to_str().unwrap()], &file).status.code(), Some(0), "{name}");
        assert!(
            validate::check_file(&fixed).unwrap().iter().all(|finding| finding.severity.letter() != 'E'),
            "{name}"
        );
    }
}
