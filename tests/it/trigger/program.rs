//! A program of a test: the test itself, started again in a folder of its own.

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitStatus,
    thread,
    time::{Duration, Instant},
};

use memreel::{
    Snapshot, pickle,
    snapshot::Value,
    validate::{Severity, validate},
};
use tempfile::TempDir;

use crate::own_process;

/// What a program did.
pub(super) struct Ran {
    pub(super) status: ExitStatus,
    /// Its output and its errors.
    pub(super) printed: String,
    folder: TempDir,
}

/// Runs a test's program with `MEMREEL` in its environment; `None` in the program itself.
pub(super) fn run(module: &str, name: &str, memreel: &str, program: impl FnOnce()) -> Option<Ran> {
    let folder = tempfile::tempdir().unwrap();
    let limit = Duration::from_secs(120);
    let variables = [("MEMREEL", memreel), ("RANK", "3")];
    let (status, printed) = own_process::output(module, name, limit, folder.path(), &variables, program)?;
    Some(Ran { status, printed, folder })
}

impl Ran {
    /// Checks that the program ended well, and returns itself.
    pub(super) fn well(self) -> Ran {
        assert!(self.status.success(), "{}\n{}", self.status, self.printed);
        self
    }

    /// The lines that memreel printed, without what the harness printed before them.
    pub(super) fn lines(&self) -> Vec<&str> {
        self.printed.lines().filter_map(|line| Some(&line[line.find("memreel: ")?..])).collect()
    }

    /// The names of all files that the program left, with their folders.
    pub(super) fn files(&self) -> Vec<String> {
        files(self.folder.path())
    }

    /// The path of a file that the program left.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Reads a file, which must be valid.
    pub(super) fn snapshot(&self, name: &str) -> Snapshot {
        sound(&self.folder.path().join(name))
    }

    /// Checks that all snapshots are whole and valid, and returns their number.
    pub(super) fn all_sound(&self) -> usize {
        let mut files = self.files();
        files.retain(|name| !name.contains(".verdict"));
        files.iter().for_each(|name| drop(self.snapshot(name)));
        files.len()
    }
}

/// Reads a snapshot, which must be valid.
fn sound(path: &Path) -> Snapshot {
    let snapshot = pickle::load(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let findings = validate(&snapshot);
    let errors: Vec<_> = findings.iter().filter(|finding| finding.severity == Severity::Error).collect();
    assert!(errors.is_empty(), "{}: {errors:?}", path.display());
    snapshot
}

/// The names of the files in a folder and below, in order.
pub(super) fn files(folder: &Path) -> Vec<String> {
    let (mut open, mut found): (Vec<PathBuf>, Vec<String>) = (vec![folder.to_owned()], Vec::new());
    while let Some(path) = open.pop() {
        for entry in fs::read_dir(path).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                found.push(path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    found.sort();
    found
}

/// Waits until a condition of the program is so; fails after half a minute.
pub(super) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < end, "{what}: not after 30 s");
        thread::sleep(Duration::from_millis(2));
    }
}

/// The number of snapshots in the program's folder, without those that are being written.
pub(super) fn n_files() -> usize {
    files(Path::new(".")).iter().filter(|name| name.ends_with(".pickle")).count()
}

/// How many snapshots could not be written before this one, from its settings.
pub(super) fn n_failed(snapshot: &Snapshot) -> u64 {
    let settings = snapshot.allocator_settings().expect("settings");
    match settings.get("memreel_dumps_failed") {
        Some(Value::Int(n)) => u64::try_from(*n).unwrap(),
        other => panic!("{other:?}"),
    }
}
