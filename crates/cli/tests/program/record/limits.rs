//! Programs that limit themselves: which calls they may make, the room on their stacks; and programs of very many threads or
//! programs in one process.

#![forbid(unsafe_code)]

use std::{fs, process::Command};

use memreel_snapshot::Snapshot;

use super::{Run, Start, live, live_from, program, record, trouble::Disk};

const FILE: [&str; 3] = ["--heap", "-o", "run.pickle"];

/// Asserts that a program ends as it does without us, and that its blocks are in the snapshot.
fn assert_recorded(words: &[&str]) -> (Run, Snapshot) {
    let limits = program("limits");
    let words = [&["timeout", "120", &*limits], words].concat();
    let plain = Start::of(words[0], &words[1..]).run();
    let run = record(&FILE, &words).run();
    assert_eq!((run.status, &run.out), (plain.status, &plain.out), "{words:?}: {}", run.err);
    assert_eq!(run.status, Some(0), "{words:?}: {} {}", plain.err, run.err);
    let mut snapshots = run.snapshots().into_iter().map(|(_, snapshot)| snapshot);
    let found = snapshots.find(|snapshot| live_from(snapshot, 100_000) == run.counted());
    let snapshot = found.unwrap_or_else(|| panic!("{words:?}: {:?} {}", run.files(), run.err));
    (run, snapshot)
}

/// The file of the tape becomes longer from outside.
#[test]
fn a_program_that_forbids_itself_calls_of_the_system_is_recorded() {
    let (run, _) = assert_recorded(&["filtered"]);
    assert!(!run.err.contains("cannot grow"), "{}", run.err);
}

/// What a report needs is more than the room that such a handler has, so it is made elsewhere and has no frames.
#[test]
fn handlers_with_small_stacks_may_allocate() {
    let (_, snapshot) = assert_recorded(&["small"]);
    let n_frames = |bytes| {
        let blocks: Vec<_> = live(&snapshot).filter(|block| block.requested_size == bytes).collect();
        let frames = |stack| snapshot.stacks.frames(stack).count();
        (blocks.len(), blocks.iter().map(|block| block.stack.map_or(0, frames)).max().unwrap_or(0))
    };
    assert_eq!(n_frames(300_000), (9, 0));
    let (n, most) = n_frames(400_000);
    assert!(n == 3 && most > 0, "{n} {most}");
}

/// The least that the system gives a thread, and memory of the program's own; the first thing that the process allocates is
/// there, too.
#[test]
fn threads_with_small_stacks_may_allocate() {
    let (_, snapshot) = assert_recorded(&["stacks"]);
    let n_frames = |bytes| -> Vec<usize> {
        let blocks = live(&snapshot).filter(|block| block.requested_size == bytes);
        blocks.map(|block| block.stack.map_or(0, |stack| snapshot.stacks.frames(stack).count())).collect()
    };
    let of_system = n_frames(500_000);
    assert!(of_system.len() == 21 && of_system.iter().all(|n| *n > 0), "{of_system:?}");
    // The least stack of aarch64 has room for a report.
    let of_program = n_frames(600_000);
    let as_there_is_room = |n: &usize| (*n > 0) == cfg!(target_arch = "aarch64");
    assert!(of_program.len() == 4 && of_program.iter().all(as_there_is_room), "{of_program:?}");
}

/// A stack that overflows does so in the program's own code, so nothing of a report stays begun.
#[test]
fn a_thread_that_jumps_out_of_an_overflow_is_recorded_again() {
    let limited = format!("ulimit -s 1024; exec {} overflows", program("limits"));
    let plain = Start::of("sh", &["-c", &limited]).run();
    let run = record(&FILE, &["sh", "-c", &limited]).run();
    assert_eq!((run.status, &run.out), (Some(0), &plain.out), "{}", run.err);
    let snapshot = run.snapshot("run.pickle");
    assert_eq!(live_from(&snapshot, 100_000), run.counted(), "{}", run.err);
    // Each of three threads overflowed four times, and what it lost stays allocated.
    let n_lost = live(&snapshot).filter(|block| block.requested_size == 48).count();
    assert!(n_lost > 3 * 4 * 1000, "{n_lost}");
}

#[test]
fn thousands_of_threads_are_recorded() {
    // At once, each with a chunk of the tape.
    assert_recorded(&["threads", "10000"]);
}

/// No two blocks of a snapshot are at one place at one time, which its check says.
#[test]
fn a_block_that_moves_leaves_its_place_to_another_thread() {
    assert_recorded(&["moves"]);
}

#[test]
fn a_process_may_run_very_many_programs() {
    let limits = program("limits");
    let run = record(&FILE, &[&limits, "execs", "100"]).run();
    assert_eq!((run.status, run.counted()), (Some(0), (20, 2_190_000)), "{}", run.err);
    let snapshots = run.snapshots();
    assert_eq!(snapshots.len(), 100, "{}", run.err);
    assert!(snapshots.iter().all(|(_, snapshot)| live_from(snapshot, 100_000) == run.counted()));
}

/// The user's own folders are not needed.
#[test]
fn folders_that_cannot_be_written_disturb_no_program() {
    let program = program("program");
    let start = record(&["--heap", "-o", "../run.pickle"], &[&program, "many"]);
    let folder = start.path("disk");
    let Some(disk) = Disk::of(folder.clone(), 1) else { return };
    let made = Command::new("mount").args(["-o", "remount,ro"]).arg(&folder).status().unwrap();
    assert!(made.success() && fs::write(folder.join("file"), "").is_err());
    let mut start = start.env("HOME", &folder);
    start.command.current_dir(&folder);
    let run = start.run();
    assert_eq!((run.status, run.counted()), (Some(0), (20, 2_190_000)), "{}", run.err);
    assert_eq!(live_from(&run.snapshot("run.pickle"), 100_000), run.counted(), "{}", run.err);
    // Where the snapshot is to be, a folder is needed: the program does not run.
    let mut start = record(&["--heap"], &[&program, "many"]);
    start.command.current_dir(&folder);
    let run = start.run();
    assert_eq!((run.status, &*run.out), (Some(3), ""), "{}", run.err);
    drop(disk);
}
