//! Files that another program truncates or overwrites while they are read. A mapped file would end the process with
//! SIGBUS, so a process of its own reads them.

#![forbid(unsafe_code)]

use std::{
    fs::{self, File, OpenOptions},
    io::Write,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use memreel_snapshot::{
    Action, Address, Snapshot,
    model::{
        SnapshotSource, TraceEntry,
        raw::{Field, Shape},
    },
    pickle,
};

use crate::own_process;

/// How long a test may take.
const LIMIT: Duration = Duration::from_secs(60);

/// A snapshot whose file has about this number of bytes.
fn snapshot(n_bytes: usize) -> Snapshot {
    let mut snapshot = Snapshot::default();
    let fields = [("action", Field::Action), ("addr", Field::Addr), ("size", Field::Size)];
    let shape = snapshot.shapes.intern(Shape::from_fields(&fields));
    let entry = |at: usize| TraceEntry {
        action: Some(Action::Alloc),
        address: Address(0x7f00_0000_0000 + 512 * at as u64),
        size: 512 + at as u64 % 9,
        shape,
        ..TraceEntry::default()
    };
    snapshot.device_traces.push((0..n_bytes / 21).map(entry).collect());
    snapshot
}

/// Truncates a file and writes it again, in place, as PyTorch's `_dump_snapshot` does.
fn dump(path: &Path, bytes: &[u8]) {
    let mut file = File::create(path).unwrap();
    bytes.chunks(1 << 16).for_each(|chunk| file.write_all(chunk).unwrap());
}

#[test]
fn a_file_that_is_truncated_after_it_was_opened_is_whole() {
    let name = "a_file_that_is_truncated_after_it_was_opened_is_whole";
    own_process::run(module_path!(), name, LIMIT, || {
        let folder = tempfile::tempdir().unwrap();
        // Files below and above the length up to which a file is held in memory.
        [3 << 20, 20 << 20].into_iter().for_each(|n_bytes| truncated(folder.path(), n_bytes));
    });
}

fn truncated(folder: &Path, n_bytes: usize) {
    let path = folder.join("snapshot.pickle");
    let bytes = pickle::to_vec(&snapshot(n_bytes));
    fs::write(&path, &bytes).unwrap();
    let file = pickle::open(&path).unwrap();
    let lazy = file.lazy().unwrap();
    OpenOptions::new().write(true).open(&path).unwrap().set_len(4096).unwrap();
    assert!(lazy.is_in_file(), "its events are decoded again");
    assert!(pickle::to_vec(&lazy) == bytes, "the file as it was opened");
    assert!(lazy.check().is_ok());
    let error = pickle::load(&path).unwrap_err();
    assert!(error.is_malformed() && error.to_string().contains("cut off"), "{error}");
}

#[test]
fn a_file_that_is_dumped_again_while_it_is_read_is_a_snapshot_or_an_error() {
    let name = "a_file_that_is_dumped_again_while_it_is_read_is_a_snapshot_or_an_error";
    own_process::run(module_path!(), name, LIMIT, || {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("snapshot.pickle");
        let snapshot = snapshot(3 << 20);
        let bytes = pickle::to_vec(&snapshot);
        fs::write(&path, &bytes).unwrap();
        let is_over = AtomicBool::new(false);
        let n_errors: usize = thread::scope(|threads| {
            threads.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    dump(&path, &bytes);
                }
            });
            let n_errors = (0..40).map(|_| read(&path, snapshot.n_events())).sum();
            is_over.store(true, Ordering::Relaxed);
            n_errors
        });
        assert!(n_errors > 0, "the file was never caught while it was written");
    });
}

/// Reads a file in every way; returns how often that was an error.
fn read(path: &Path, n_expected: usize) -> usize {
    let loaded = pickle::load(path).map(|loaded| loaded.n_events());
    let lazy = pickle::open(path).and_then(|file| file.lazy().map(|lazy| lazy.n_events()));
    let inspected = pickle::inspect(path).and_then(|inspection| inspection.snapshot);
    let all = [loaded, lazy, inspected.map(|snapshot| snapshot.n_events())];
    all.into_iter()
        .filter(|read| match read {
            Ok(n_events) => {
                assert_eq!(*n_events, n_expected);
                false
            }
            Err(error) => {
                assert!(
                    error.is_io()
                        || error.is_malformed()
                        || error.to_string().contains("not a memory snapshot"),
                    "{error}"
                );
                true
            }
        })
        .count()
}
