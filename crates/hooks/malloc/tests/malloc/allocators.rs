//! Programs in C++, and allocators that have operators and functions of their own.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use memreel::{Action, Snapshot};

use super::{HERE, assert_valid, cc, live, printed, recorded, snapshots};

/// Debian's packages of allocators, and the libraries in them.
const TCMALLOC: (&str, &str) = ("libtcmalloc-minimal4", "libtcmalloc_minimal.so.4");
const JEMALLOC: (&str, &str) = ("libjemalloc2", "libjemalloc.so.2");
const MIMALLOC: (&str, &str) = ("libmimalloc2.0", "libmimalloc.so.2.0");

/// Returns the path of an allocator's library, or prints that a test is skipped.
fn allocator((package, library): (&str, &str)) -> Option<PathBuf> {
    let of_debian = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    let folders = [&*of_debian, "/usr/lib64", "/usr/lib"];
    let found = folders.iter().map(|folder| Path::new(folder).join(library)).find(|path| path.exists());
    if found.is_none() {
        eprintln!("skipped: no {library}, which Debian's package {package} has");
    }
    found
}

/// Compiles C++, or prints that a test is skipped.
pub(super) fn cpp(arguments: &[&str]) -> bool {
    let Ok(made) = Command::new("c++").args(["-w", "-O1", "-std=c++17"]).args(arguments).output() else {
        eprintln!("skipped: no c++");
        return false;
    };
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    true
}

/// Counts the events of an action whose blocks have at least this size.
fn n_events(snapshot: &Snapshot, action: Action, least: u64) -> usize {
    let events = snapshot.device_traces.iter().flatten();
    events.filter(|entry| entry.action == Some(action) && entry.size >= least).count()
}

/// Every block of the program is there once: 49 of `new`, of which 24 were freed, and 2 of the handler.
fn assert_recorded(snapshot: &Snapshot, counted: (usize, u64), n_of_handler: usize) {
    assert_eq!(live(snapshot, 950_000), counted);
    assert_eq!(n_events(snapshot, Action::Alloc, 950_000), 49);
    assert_eq!(n_events(snapshot, Action::FreeCompleted, 950_000), 24);
    assert_eq!(n_events(snapshot, Action::Alloc, 890_000), 49 + n_of_handler);
    assert_valid(snapshot);
}

/// The frames of the large block's allocation, the innermost first.
fn frames_of_50_mib(snapshot: &Snapshot) -> Vec<String> {
    let mut events = snapshot.device_traces.iter().flatten();
    let entry = events.find(|entry| entry.action == Some(Action::Alloc) && entry.size == 50 << 20).unwrap();
    snapshot.frames(entry.stack).map(|frame| frame.name.to_string()).collect()
}

#[test]
fn operators_are_recorded_once_whoever_serves() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("operators");
    if !cpp(&["-o", program.to_str().unwrap(), &format!("{HERE}/operators.cpp")]) {
        return;
    }
    let mut served: Vec<Option<PathBuf>> = vec![None];
    served.extend([TCMALLOC, JEMALLOC, MIMALLOC].into_iter().filter_map(allocator).map(Some));
    for library in served {
        let is_mimalloc = library.as_ref().is_some_and(|path| path.ends_with(MIMALLOC.1));
        let tapes = tempfile::tempdir().unwrap();
        let behind: Vec<&Path> = library.as_deref().into_iter().collect();
        let mut command = recorded(&program, tapes.path(), &behind);
        // It has no exceptions for what it cannot serve.
        if is_mimalloc {
            command.arg("served");
        }
        let done = command.output().unwrap();
        assert!(done.status.success() && done.stderr.is_empty(), "{library:?}: {done:?}");
        let [snapshot] = &snapshots(tapes.path())[..] else { panic!("one process") };
        assert_recorded(snapshot, printed(&done), usize::from(!is_mimalloc));
        let frames = frames_of_50_mib(snapshot);
        let n_operators = frames.iter().filter(|name| name.starts_with("operator new")).count();
        assert!(n_operators <= 1 && frames.iter().any(|name| name == "work"), "{library:?}: {frames:?}");
    }
}

/// The operators are in a library that is not in the program's order of search, and that the program closes.
#[test]
fn operators_of_a_library_that_is_opened_for_its_opener() {
    let folder = tempfile::tempdir().unwrap();
    let (host, plugin) = (folder.path().join("host"), folder.path().join("plugin.so"));
    cc(&["-o", host.to_str().unwrap(), &format!("{HERE}/host.c"), "-ldl"]);
    let operators = format!("{HERE}/operators.cpp");
    if !cpp(&["-DPLUGIN", "-shared", "-fPIC", "-o", plugin.to_str().unwrap(), &operators]) {
        return;
    }
    let tapes = tempfile::tempdir().unwrap();
    let done = recorded(&host, tapes.path(), &[]).arg(&plugin).output().unwrap();
    assert!(done.status.success() && done.stderr.is_empty(), "{done:?}");
    assert_recorded(&snapshots(tapes.path())[0], printed(&done), 1);
}

/// Programs that are linked with an allocator and call its own functions.
#[test]
fn functions_that_one_allocator_has_are_recorded() {
    for (kind, of) in [("JEMALLOC", JEMALLOC), ("MIMALLOC", MIMALLOC)] {
        let Some(library) = allocator(of) else { continue };
        let (folder, tapes) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let program = others(&folder, kind, &library);
        let done = recorded(&program, tapes.path(), &[]).output().unwrap();
        assert!(done.status.success() && done.stderr.is_empty(), "{kind}: {done:?}");
        let [snapshot] = &snapshots(tapes.path())[..] else { panic!("one process") };
        assert_eq!(live(snapshot, 100_000), printed(&done), "{kind}");
        assert_valid(snapshot);
    }
}

#[test]
fn a_line_reports_functions_that_are_not_recorded() {
    let Some(library) = allocator(MIMALLOC) else { return };
    let (folder, tapes) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let program = others(&folder, "HEAPS", &library);
    let done = recorded(&program, tapes.path(), &[]).output().unwrap();
    let line = "memreel: blocks of mimalloc's own functions are not recorded: mi_strdup\n";
    assert_eq!(String::from_utf8_lossy(&done.stderr), line);
    assert!(done.status.success());
}

/// Builds the program with one allocator's functions.
fn others(folder: &tempfile::TempDir, kind: &str, library: &Path) -> PathBuf {
    let program = folder.path().join("others");
    let (defined, source) = (format!("-D{kind}"), format!("{HERE}/others.c"));
    cc(&[&defined, "-o", program.to_str().unwrap(), &source, library.to_str().unwrap()]);
    program
}

/// A program that asks whether an allocator is there by a weak symbol finds functions that work.
#[test]
fn functions_of_an_allocator_that_is_not_there_are_served() {
    let (folder, tapes) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let program = folder.path().join("weak");
    cc(&["-o", program.to_str().unwrap(), &format!("{HERE}/weak.c")]);
    let done = recorded(&program, tapes.path(), &[]).output().unwrap();
    assert!(done.status.success() && done.stderr.is_empty(), "{done:?}");
    assert_eq!(live(&snapshots(tapes.path())[0], 100_000), printed(&done));
}

/// Blocks of no bytes.
#[test]
fn empty_blocks_are_valid() {
    let (folder, tapes) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let program = folder.path().join("empty");
    if !cpp(&["-o", program.to_str().unwrap(), &format!("{HERE}/empty.cpp")]) {
        return;
    }
    let done = recorded(&program, tapes.path(), &[]).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    let [snapshot] = &snapshots(tapes.path())[..] else { panic!("one process") };
    assert_valid(snapshot);
    assert!(live(snapshot, 1).0 >= printed(&done).0);
    assert!(n_events(snapshot, Action::Alloc, 1) >= 1000 + printed(&done).0);
    assert_eq!(n_events(snapshot, Action::Alloc, 0), n_events(snapshot, Action::Alloc, 1));
}
