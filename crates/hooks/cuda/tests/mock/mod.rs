//! Builds the stand-in for the driver, and runs programs with the library in front of them.

use std::{
    fs,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use memreel::{
    Action, BlockState, Recovered, Snapshot,
    analysis::{DeviceOwners, OwnerRow, RowKind, owners},
    snapshot::TraceEntry,
    validate::{self, Severity},
};
use tempfile::TempDir;

const HERE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mock");

fn library() -> PathBuf {
    memreel_testing::built(&["memreel-preload"]).join("libmemreel_preload.so")
}

/// Builds the stand-ins and the program, and returns their folder.
fn built() -> &'static Path {
    static BUILT: OnceLock<TempDir> = OnceLock::new();
    let build = || {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        let source = |name: &str| format!("{HERE}/{name}");
        let shared = ["-shared", "-fPIC", "-O1", "-w"];
        cc(&shared, &["-Wl,-soname,libcuda.so.1", "-o", &at("libcuda.so.1"), &source("cuda.c"), "-lpthread"]);
        cc(
            &shared,
            &["-Wl,-soname,libnvidia-ml.so.1", "-o", &at("libnvidia-ml.so.1"), &source("nvml.c"), "-ldl"],
        );
        // By its name it is a library of PyTorch.
        cc(&shared, &["-o", &at("libc10_cuda.so"), &source("pin.c")]);
        cc(
            &["-DLINKED"],
            &["-o", &at("linked"), &source("client.c"), &at("libcuda.so.1"), "-ldl", "-lpthread"],
        );
        cc(&[], &["-o", &at("client"), &source("client.c"), "-ldl", "-lpthread"]);
        folder
    };
    BUILT.get_or_init(build).path()
}

/// Runs a compiler. There is one, because linking this test needed it.
fn cc(first: &[&str], then: &[&str]) {
    let made = Command::new("cc").args(first).args(then).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

/// The first address of memory that the driver has for itself.
const OF_THE_DRIVER: u64 = 1 << 52;

/// A program to be run.
pub(crate) struct Start {
    command: Command,
    folder: TempDir,
}

/// A program that has ended.
pub(crate) struct Run {
    folder: TempDir,
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) signal: Option<i32>,
    pub(crate) status: Option<i32>,
}

/// What one process recorded.
pub(crate) struct Recorded {
    pub(crate) snapshot: Snapshot,
}

impl Run {
    /// Runs the client, which finds the driver in a way and does something.
    pub(crate) fn of(way: &str, what: &str) -> Run {
        Run::prepared(way, what).start()
    }

    pub(crate) fn prepared(way: &str, what: &str) -> Start {
        let folder = tempfile::tempdir().unwrap();
        let program = if way == "none" {
            PathBuf::from("true")
        } else {
            built().join(if way == "linked" { way } else { "client" })
        };
        let mut command = Command::new(program);
        command.args([way, what]).env("LD_LIBRARY_PATH", built()).env("LD_PRELOAD", library());
        command.env("MEMREEL", "all").env("MEMREEL_RECORD", folder.path());
        Start { command, folder }
    }

    /// The tapes, by process and program.
    pub(crate) fn tapes(&self) -> Vec<PathBuf> {
        let mut tapes: Vec<PathBuf> =
            fs::read_dir(self.folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        tapes.retain(|path| path.extension().is_some_and(|ending| ending == "tape"));
        tapes.sort();
        tapes
    }

    pub(crate) fn recorded(&self) -> Recorded {
        let tapes = self.tapes();
        assert_eq!(tapes.len(), 1, "{tapes:?} {}", self.err);
        self.recorded_in(&tapes[0])
    }

    pub(crate) fn recorded_in(&self, tape: &Path) -> Recorded {
        let recovered = Recovered::read(tape).unwrap();
        Recorded { snapshot: recovered.snapshot() }
    }

    /// The addresses and sizes that the program printed after a word, rising.
    pub(crate) fn printed(&self, word: &str) -> Vec<(u64, u64)> {
        let of = |line: &str| {
            let mut parts = line.split(' ');
            (parts.next() == Some(word))
                .then(|| [parts.next(), parts.next()].map(|n| n.unwrap().parse().unwrap()))
        };
        let mut all: Vec<(u64, u64)> =
            self.out.lines().filter_map(of).map(|[at, bytes]| (at, bytes)).collect();
        if word == "block" && !self.out.contains("gone") {
            all.sort_unstable();
        }
        all
    }
}

impl Start {
    pub(crate) fn env(mut self, name: &str, value: &str) -> Start {
        self.command.env(name, value);
        self
    }

    /// Runs it without the library.
    pub(crate) fn unrecorded(mut self) -> Start {
        self.command.env_remove("LD_PRELOAD").env_remove("MEMREEL").env_remove("MEMREEL_RECORD");
        self
    }

    pub(crate) fn argument(mut self, argument: &str) -> Start {
        self.command.arg(argument);
        self
    }

    pub(crate) fn start(mut self) -> Run {
        let done = self.command.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Run {
            folder: self.folder,
            out: text(&done.stdout),
            err: text(&done.stderr),
            signal: done.status.signal(),
            status: done.status.code(),
        }
    }
}

impl Recorded {
    /// The blocks of a device that the program has at the end: address and bytes, rising.
    pub(crate) fn blocks(&self, device: i64) -> Vec<(u64, u64)> {
        let segments = self.snapshot.segments.iter().filter(|segment| segment.device.0 == device);
        let blocks = segments.flat_map(|segment| &segment.blocks);
        // The driver's own memory is at addresses that no device has.
        let is_own = |block: &memreel::snapshot::Block| {
            block.state == Some(BlockState::ActiveAllocated) && block.address.0 < OF_THE_DRIVER
        };
        let mut all: Vec<(u64, u64)> = blocks
            .filter(|block| is_own(block))
            .map(|block| (block.address.0, block.requested_size))
            .collect();
        all.sort_unstable();
        all
    }

    /// Those of the device with a name.
    pub(crate) fn blocks_of(&self, name: &str) -> Vec<(u64, u64)> {
        let usage = self.snapshot.usage();
        let device = usage.iter().find(|usage| usage.name == name).unwrap_or_else(|| panic!("{usage:?}"));
        self.blocks(device.device.0)
    }

    /// The ranges of a device that are mapped at the end.
    pub(crate) fn mapped(&self, device: i64) -> Vec<(u64, u64)> {
        let of = self
            .snapshot
            .segments
            .iter()
            .filter(|segment| segment.device.0 == device && segment.is_expandable);
        of.map(|segment| (segment.address.0, segment.total_size)).collect()
    }

    /// The events of a kind, but those of the driver's own memory.
    pub(crate) fn count(&self, device: usize, action: Action) -> usize {
        let of_program = |entry: &&TraceEntry| entry.address.0 < OF_THE_DRIVER;
        let trace = self.snapshot.device_traces[device].iter().filter(of_program);
        trace.filter(|entry| entry.action == Some(action)).count()
    }

    /// The bytes of segments whose innermost frame is a mark.
    pub(crate) fn marked(&self, mark: &str) -> u64 {
        let is_marked =
            |stack| self.snapshot.stacks.frames(stack).next().is_some_and(|frame| &*frame.name == mark);
        let segments = self.snapshot.segments.iter().filter(|segment| segment.stack.is_some_and(is_marked));
        segments.map(|segment| segment.total_size).sum()
    }

    /// The names of the functions that asked for the segment at an address.
    pub(crate) fn asked_by(&self, address: u64) -> Vec<String> {
        let segment = self.snapshot.segments.iter().find(|segment| segment.address.0 == address).unwrap();
        let frames = self.snapshot.stacks.frames(segment.stack.unwrap());
        frames.map(|frame| frame.name.to_string()).collect()
    }

    /// The table of a device.
    pub(crate) fn table(&self, device: i64) -> DeviceOwners {
        owners(&[&self.snapshot]).into_iter().find(|table| table.device.0 == device).unwrap()
    }

    /// The rows of a device are what it reports as used, within 1 %: now and at the peak.
    pub(crate) fn assert_adds_up(&self, device: i64) {
        let table = self.table(device);
        let unexplained = table.rows.iter().find(|row| row.kind == RowKind::Unexplained).unwrap();
        for (used, bytes) in [
            (table.used_now_bytes.unwrap(), unexplained.now_bytes.unwrap()),
            (table.used_peak_bytes.unwrap(), unexplained.peak_bytes.unwrap()),
        ] {
            let rows: Vec<_> =
                table.rows.iter().map(|row| (&row.owner, row.now_bytes, row.peak_bytes)).collect();
            assert!(bytes.unsigned_abs() * 100 <= u128::from(used), "of {used}: {rows:?}");
        }
    }

    /// The bytes of an owner now and at the peak, in the table's sum or outside of it.
    pub(crate) fn owned(&self, device: i64, owner: &str) -> [i128; 2] {
        let table = self.table(device);
        let row: Option<&OwnerRow> = table.rows.iter().chain(&table.outside).find(|row| row.owner == owner);
        row.map_or([0; 2], |row| [row.now_bytes.unwrap(), row.peak_bytes.unwrap()])
    }

    /// No rule is broken that makes a reader throw.
    pub(crate) fn assert_valid(&self) {
        let findings = validate::validate(&self.snapshot);
        let worst: Vec<_> = findings.iter().filter(|found| found.severity == Severity::Error).collect();
        assert!(worst.is_empty(), "{worst:?}");
    }
}
