//! `memreel record`, which these tests start as users do: with the real libraries, in a folder of its own.
//!
//! - `status`: exit statuses, messages, streams and signals.
//! - `environment`: what the program finds in its environment, and programs that cannot be recorded.
//! - `files`: which files a run leaves, for children, crashes and programs that run others.
//! - `heap`: `--heap`, on programs that count their own memory.
//! - `threads`: a recorded process has its own threads only, and every block is in the snapshot all the same.
//! - `limits`: programs that limit which calls they make and the room on their stacks, and very large numbers.
//! - `sanitizer`: programs with AddressSanitizer.
//! - `trouble`: full disks, and libraries and interpreters that are not as expected.
//! - `resident`: the table of a heap's process, from outside.
//! - `truth`: the rows of that table, against programs that know what they have.
//! - `roots`: tapes of strangers, which lead to files of this machine.
//! - `python`: interpreters that end while their threads allocate.
//! - `metrics`: what Prometheus is told while a program runs.
//! - `live`: the page of a run.
//! - `cut`: tapes that others make shorter.
//! - `packed`: tapes in small, which a heap's recording becomes.
//! - `unrecorded`: what a run did not record, and the gate over all of a run.
//! - `cuda`: programs that use a stand-in for NVIDIA's driver.

#![forbid(unsafe_code)]

mod cuda;
mod cut;
mod environment;
mod files;
mod heap;
mod limits;
mod live;
mod metrics;
mod packed;
mod past_ring;
mod python;
mod resident;
mod roots;
mod sanitizer;
mod status;
mod threads;
mod trouble;
mod truth;
mod unrecorded;

use std::{
    ffi::OsStr,
    fs,
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    sync::OnceLock,
};

use memreel::Recovered;
use memreel_snapshot::{
    BlockState, Snapshot,
    model::Block,
    pickle,
    validate::{self, Severity},
};
use tempfile::TempDir;

use crate::{repository, terminal::default_signals};

/// The folder of the shared libraries.
pub(crate) fn libraries() -> PathBuf {
    memreel_testing::built(&["memreel-preload", "memreel-heap"])
}

/// The folder that Python imports the hook from. The libraries are in cargo's target folder, which may be anywhere.
pub(crate) fn hook() -> PathBuf {
    repository("python/memreel_record").canonicalize().unwrap()
}

/// Runs a compiler. There is one, because linking this test needed it.
pub(crate) fn cc(arguments: &[&str]) {
    let made = Command::new("cc").args(["-w", "-O1", "-g", "-fno-builtin"]).args(arguments).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

/// Returns the path of a source of these tests, or of the tests of the libraries.
fn source(name: &str) -> String {
    let path = match name {
        "counting.c" | "resident.c" | "shim.c" => format!("crates/hooks/malloc/tests/{name}"),
        "events.c" => format!("crates/cli/tests/browser/{name}"),
        "client.c" | "cuda.c" | "nvml.c" => format!("crates/hooks/cuda/tests/mock/{name}"),
        _ => format!("crates/cli/tests/program/record/{name}"),
    };
    repository(&path).display().to_string()
}

/// Builds the programs that use no GPU, and returns the path of one.
fn program(name: &str) -> String {
    static BUILT: OnceLock<TempDir> = OnceLock::new();
    let build = || {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        cc(&["-o", &at("counting"), &source("counting.c"), "-lpthread"]);
        cc(&["-o", &at("program"), &source("program.c"), "-ldl", "-lpthread"]);
        cc(&["-o", &at("limits"), &source("limits.c"), "-lpthread"]);
        cc(&["-o", &at("held"), &source("held.c")]);
        cc(&["-o", &at("resident"), &source("resident.c"), "-lpthread", "-lrt"]);
        cc(&["-o", &at("packed"), &source("packed.c")]);
        cc(&["-o", &at("past_ring"), &source("past_ring.c")]);
        cc(&["-o", &at("staged"), &source("staged.c"), "-ldl"]);
        cc(&["-o", &at("stopped"), &source("stopped.c")]);
        cc(&["-o", &at("events"), &source("events.c")]);
        cc(&["-o", &at("starting"), &source("starting.c")]);
        cc(&["-o", &at("starts"), &source("starts.c")]);
        cc(&["-o", &at("slow_fork"), &source("slow_fork.c"), "-lpthread"]);
        cc(&["-shared", "-fPIC", "-DLIBRARY", "-o", &at("libslow.so"), &source("slow_fork.c"), "-lpthread"]);
        cc(&["-o", &at("first"), &source("first.c"), "-lpthread"]);
        cc(&["-rdynamic", "-o", &at("interpreter"), &source("interpreter.c")]);
        cc(&["-shared", "-fPIC", "-o", &at("libnative.so"), &source("native.c")]);
        cc(&["-shared", "-fPIC", "-o", &at("libshim.so"), &source("shim.c")]);
        cc(&["-shared", "-fPIC", "-o", &at("libfront.so"), &source("front.c")]);
        folder
    };
    BUILT.get_or_init(build).path().join(name).display().to_string()
}

/// `memreel record OPTIONS -- PROGRAM`, to be run in a new folder.
pub(crate) struct Start {
    command: Command,
    folder: TempDir,
}

/// A run that has ended, and its folder.
struct Run {
    folder: TempDir,
    status: Option<i32>,
    out: String,
    err: String,
}

pub(crate) fn record(options: &[&str], program: &[&str]) -> Start {
    let mut start = Start::of(env!("CARGO_BIN_EXE_memreel"), &["record"]);
    start.command.args(options).arg("--").args(program);
    start
}

impl Start {
    /// A command in a new folder, without variables or ignored signals that change a recording.
    fn of(program: &str, arguments: &[&str]) -> Start {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(program);
        command.args(arguments).current_dir(&folder).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.env("MEMREEL_PRELOAD", libraries()).env("MEMREEL_PYTHON_HOOK", hook());
        // Where tapes would be if there was no better place: they go with the folder.
        command.env("TMPDIR", folder.path());
        let others =
            ["MEMREEL", "MEMREEL_RECORD", "LD_PRELOAD", "PYTHONPATH", "RANK", "COLUMNS", "XDG_RUNTIME_DIR"];
        others.iter().for_each(|name| _ = command.env_remove(name));
        default_signals(&mut command);
        Start { command, folder }
    }

    fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Start {
        self.command.env(name, value);
        self
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn spawn(&mut self) -> Child {
        self.command.spawn().unwrap()
    }

    fn ended(self, output: Output) -> Run {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Run {
            folder: self.folder,
            status: output.status.code(),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }

    fn run(mut self) -> Run {
        let output = self.command.output().unwrap();
        self.ended(output)
    }
}

impl Run {
    /// The names of the files in the folder, also of hidden ones, but not of the file that names the others.
    fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.retain(|name| !name.ends_with(".memreel"));
        names.sort();
        names
    }

    /// The names of the files in the folder of helpers.
    fn helpers(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path().join("run-helpers")).into_iter().flatten();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    /// Reads a snapshot, and asserts that no rule is broken that makes a reader throw.
    fn snapshot(&self, name: &str) -> Snapshot {
        let path = self.folder.path().join(name);
        let loaded = match name.ends_with(".tape") {
            true => Recovered::read(path).map(|tape| tape.snapshot()),
            false => pickle::load(path),
        };
        let snapshot = loaded.unwrap_or_else(|error| panic!("{error}: {:?} {}", self.files(), self.err));
        let findings = validate::validate(&snapshot);
        let worst: Vec<_> = findings.iter().filter(|found| found.severity == Severity::Error).collect();
        assert!(worst.is_empty(), "{name}: {worst:?} {}", self.err);
        snapshot
    }

    /// Every snapshot of the run, with its name.
    fn snapshots(&self) -> Vec<(String, Snapshot)> {
        let names = self.files().into_iter().filter(|name| name.ends_with(".pickle"));
        names.map(|name| (name.clone(), self.snapshot(&name))).collect()
    }

    /// The lines about processes: those on standard error that begin so.
    fn lines_of_processes(&self) -> Vec<&str> {
        self.err.lines().filter(|line| line.starts_with("memreel: process ")).collect()
    }

    /// The number and the bytes of blocks that the program printed on its last line.
    fn counted(&self) -> (usize, u64) {
        let last = self.out.lines().last().unwrap_or_else(|| panic!("{}", self.err));
        let numbers: Vec<u64> = last.split(' ').map(|number| number.parse().unwrap()).collect();
        (usize::try_from(numbers[0]).unwrap(), numbers[1])
    }
}

/// The blocks of a snapshot that are live at its end.
fn live(snapshot: &Snapshot) -> impl Iterator<Item = &Block> {
    let blocks = snapshot.segments.iter().flat_map(|segment| &segment.blocks);
    blocks.filter(|block| block.state == Some(BlockState::ActiveAllocated))
}

/// The number and the bytes of live blocks from `least` bytes on.
fn live_from(snapshot: &Snapshot, least: u64) -> (usize, u64) {
    let sizes = live(snapshot).map(|block| block.requested_size).filter(|bytes| *bytes >= least);
    sizes.fold((0, 0), |(n, all), bytes| (n + 1, all + bytes))
}

/// The interpreter of `python3`, which may be a script; prints a line if there is none.
fn python() -> Option<String> {
    let found = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output();
    let path = found
        .ok()
        .filter(|found| found.status.success())
        .map(|found| String::from_utf8(found.stdout).unwrap());
    if path.is_none() {
        println!("skipped: no python3");
    }
    Some(path?.trim().to_owned())
}

/// Whether a program is there to be run; prints a line if it is not.
fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok_and(|found| found.status.success());
    if !found {
        println!("skipped: no {program}");
    }
    found
}
