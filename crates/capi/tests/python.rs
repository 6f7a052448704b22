//! Compares the Python frames of snapshots with those that each interpreter of this machine reports itself.
//!
//! The library is loaded through `ctypes.CDLL`, which releases the interpreter's lock before each call. Interpreters are
//! `python3`, those of pyenv, and those that `MEMREEL_PYTHONS` names, separated by colons.
#![forbid(unsafe_code)]

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

use memreel::{Action, Recovered, snapshot::Snapshot};
use memreel_testing::interpreters;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python_frames.py");

/// The allocations of each run; those of threads and of deep stacks come on top of the first half.
const N: &str = "10000";

fn library() -> PathBuf {
    memreel_testing::built(&["memreel-capi"]).join("libmemreel.so")
}

fn run(python: &Path, folder: &Path, more: &[(&str, &str)], arguments: &[&str]) -> Output {
    Command::new(python)
        .arg(SCRIPT)
        .arg(library())
        .arg(folder.join("snapshot.pickle"))
        .args(arguments)
        .env("MEMREEL_DEVICE", "host")
        .envs(more.iter().copied())
        .current_dir(folder)
        .output()
        .unwrap()
}

#[test]
#[ignore = "needs python3"]
fn cpython_shows_the_same_frames_at_10_000_allocations() {
    let interpreters = interpreters();
    assert!(!interpreters.is_empty(), "no CPython of 3.9 or later was found");
    for (version, python) in interpreters {
        let folder = tempfile::tempdir().unwrap();
        let ran = run(&python, folder.path(), &[], &[N]);
        let [out, err] = [&ran.stdout, &ran.stderr].map(|bytes| String::from_utf8_lossy(bytes));
        assert!(ran.status.success(), "CPython {version}: {out}{err}");
        assert!(out.contains("are equal"), "CPython {version}: {out}{err}");
        println!("{}", out.trim());
    }
}

/// A frame as the script prints it.
type Printed = (String, String, u64);

#[test]
#[ignore = "needs python3"]
fn cpython_frames_survive_a_kill() {
    for (version, python) in interpreters() {
        let folder = tempfile::tempdir().unwrap();
        let memreel = [("MEMREEL", "all,stacks=python,context=alloc,tape=run.tape")];
        let ran = run(&python, folder.path(), &memreel, &["400", "kill"]);
        assert!(!ran.status.success(), "it killed itself");
        let expected: Vec<(u64, Vec<Printed>)> = serde_json::from_slice(&ran.stdout)
            .unwrap_or_else(|error| panic!("{version}: {error}: {}", String::from_utf8_lossy(&ran.stderr)));
        let recovered = Recovered::read(folder.path().join("run.tape")).unwrap();
        let snapshot = recovered.snapshot();
        for (size, frames) in &expected {
            assert_eq!(&frames_of(&snapshot, *size), frames, "CPython {version}: {size} bytes");
        }
        println!("CPython {version}: {} stacks of a killed process are equal", expected.len());
    }
}

/// The frames of the allocation of this size.
fn frames_of(snapshot: &Snapshot, size: u64) -> Vec<Printed> {
    let is_it =
        |entry: &&memreel::snapshot::TraceEntry| entry.action == Some(Action::Alloc) && entry.size == size;
    let entry =
        snapshot.device_traces[0].iter().find(is_it).unwrap_or_else(|| panic!("no alloc of {size} bytes"));
    let frames = entry.stack.into_iter().flat_map(|stack| snapshot.stacks.frames(stack));
    frames.map(|frame| (frame.name.to_string(), frame.filename.to_string(), frame.line)).collect()
}

#[test]
#[ignore = "needs python3"]
fn cpython_frames_are_before_the_loop_of_the_interpreter() {
    let program = "
import ctypes, json, pickle, sys
lib = ctypes.CDLL(sys.argv[1])
lib.memreel_malloc.restype = ctypes.c_void_p
lib.memreel_record(json.dumps({'stacks': 'all'}).encode())
def inner(): lib.memreel_malloc(4000, 0, None)
def outer(): list(map(lambda _: inner(), [1]))
outer()
lib.memreel_dump(b'all.pickle')
lib.memreel_record(json.dumps({'stacks': 'native', 'clear_history': True}).encode())
outer()
lib.memreel_dump(b'native.pickle')
def names(file):
    trace = pickle.load(open(file, 'rb'))['device_traces'][0]
    return [f['name'] for e in trace if e['action'] == 'alloc' for f in e['frames']]
print(json.dumps([names('all.pickle'), names('native.pickle')]))
";
    for (version, python) in interpreters() {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(&python);
        command.args(["-c", program]).arg(library()).env("MEMREEL_DEVICE", "host").current_dir(folder.path());
        let ran = command.output().unwrap();
        let names: Vec<Vec<String>> = serde_json::from_slice(&ran.stdout)
            .unwrap_or_else(|error| panic!("{version}: {error}: {}", String::from_utf8_lossy(&ran.stderr)));
        let [all, native] = &names[..] else { panic!("{names:?}") };
        let wanted = ["inner", "<lambda>", "outer", "<module>"];
        let is_python = |name: &&String| wanted.contains(&name.as_str());
        let python: Vec<&String> = all.iter().filter(is_python).collect();
        assert_eq!(python, wanted, "CPython {version}: {all:?}");
        assert!(!native.iter().any(|name| is_python(&name)), "CPython {version}: {native:?}");
        let loops: Vec<usize> = (0..all.len()).filter(|i| all[*i].contains("PyEval_EvalFrame")).collect();
        for (i, at) in loops.iter().take(wanted.len()).enumerate() {
            assert_eq!(all[at - 1], wanted[i], "CPython {version}: {all:?}");
        }
        assert!(
            is_python(&&all[0]) == (loops.first() == Some(&1)),
            "native frames of the call come first: {all:?}"
        );
        println!("CPython {version}: {} loops of {} native frames", loops.len(), native.len());
    }
}
