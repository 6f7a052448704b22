//! Threads that end while they allocate.

use super::{HERE, cc, live, printed, recorded, snapshots};

/// Snapshots of many blocks are written meanwhile, and a child opens a tape of its own.
#[test]
fn a_cancelled_thread_ends_as_without_it() {
    let (folder, tapes) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let program = folder.path().join("cancelled");
    cc(&["-o", program.to_str().unwrap(), &format!("{HERE}/cancelled.c"), "-lpthread"]);
    let file = folder.path().join("at.pickle");
    let done = recorded(&program, tapes.path(), &[])
        .env("MEMREEL", format!("all,stacks=none,dump=every:50ms,keep=4,file={}", file.display()))
        .args(["400000", "40"])
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
    let snapshots = snapshots(tapes.path());
    assert_eq!(snapshots.len(), 2, "the program and its child");
    assert!(snapshots.iter().all(|snapshot| live(snapshot, 1).0 >= printed(&done).0));
    assert!(snapshots.iter().any(|snapshot| live(snapshot, 300_000).1 >= 300_000));
}
