//! The source of captures contains no lock.
//!
//! A capture runs inside allocators and signal handlers. `tests/preload.rs`
//! counts its calls of glibc, but std's locks call the kernel directly. So the
//! source itself is read: no file on the way of a capture names a lock, except
//! the files of the cold path.
#![forbid(unsafe_code)]

use memreel_testing::repository;
use std::fs;

/// The files of `src/stack` on the way of a capture, besides all files of `unwind/`.
///
/// Not among them are the files that name stacks later.
const ON_THE_WAY: &[&str] = &[
    "capture.rs",
    "choice.rs",
    "intern/frames.rs",
    "intern/interner.rs",
    "intern/key.rs",
    "intern/limits.rs",
    "intern/source.rs",
    "method.rs",
    "modules/find.rs",
    "modules/fingerprint.rs",
    "modules/loader.rs",
    "modules/mapping.rs",
    "portable.rs",
];

/// The files of the table of stacks on the way of a capture: all but `arena.rs` and `insert.rs`, which add a new stack under a
/// lock, and `memory.rs`.
const OF_TABLE: &[&str] = &["index.rs", "key.rs", "record.rs", "table.rs"];

const LOCKS: &[&str] = &[
    "Mutex",
    "RwLock",
    "Once",
    "OnceLock",
    "OnceCell",
    "LazyLock",
    "Lazy",
    "Condvar",
    "Barrier",
    "ReentrantLock",
    "mpsc",
    "park",
    "lock",
];

#[test]
fn capture_files_name_no_lock() {
    let room = repository("src/stack");
    let folders = ["unwind", "unwind/processor"].map(|name| fs::read_dir(room.join(name)).unwrap());
    let walk = folders.into_iter().flatten().map(|file| file.unwrap().path()).filter(|path| path.is_file());
    let table = repository("crates/lockfree/src/stacks");
    let of_table = OF_TABLE.iter().map(|name| table.join(name));
    let files: Vec<_> = ON_THE_WAY.iter().map(|name| room.join(name)).chain(of_table).chain(walk).collect();
    assert!(files.len() > ON_THE_WAY.len() + 5, "the files of the walk were not found");
    for path in files {
        let found = locks_in(&fs::read_to_string(&path).unwrap());
        assert!(found.is_empty(), "{} names {found:?}", path.display());
    }
}

/// The locks that code names, outside comments and outside the tests at its end.
fn locks_in(text: &str) -> Vec<String> {
    let code = text.split("mod tests {").next().unwrap_or_default();
    let code =
        code.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n");
    let words = code.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.filter(|word| LOCKS.contains(word)).map(str::to_owned).collect()
}

#[test]
fn a_lock_is_found() {
    assert_eq!(locks_in("use std::sync::{Arc, OnceLock};\n// a Mutex\nx.lock();"), ["OnceLock", "lock"]);
    assert!(locks_in("#[cfg(test)]\nmod tests { use std::sync::Barrier; }").is_empty());
}
