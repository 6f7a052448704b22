//! Snapshots at the exit: of `main`'s end, of `exit`, of a reel that is dropped before, and in the middle of others.

use std::{
    process,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use memreel::{Action, Reel, device::Simulated, recorder::Recording, trigger::Triggers};

use super::program::{n_files, run, wait_until};

const MIB: u64 = 1 << 20;

#[test]
fn a_program_that_never_heard_of_it_is_recorded_until_its_end() {
    let memreel = "all,stacks=native,dump=exit,file=runs/{rank}/{cause}-{pid}.pickle";
    let Some(ran) =
        run(module_path!(), "a_program_that_never_heard_of_it_is_recorded_until_its_end", memreel, || {
            println!("process {}", process::id());
            std::mem::forget(memreel::alloc(5 * MIB).unwrap());
            drop(memreel::alloc(3 * MIB).unwrap());
        })
    else {
        return;
    };
    let ran = ran.well();
    let files = ran.files();
    let (_, pid) = ran.printed.lines().find_map(|line| line.split_once("process ")).unwrap();
    assert_eq!(files, [format!("runs/3/exit-{pid}.pickle")]);
    let snapshot = ran.snapshot(&files[0]);
    let blocks = snapshot.segments.iter().flat_map(|segment| &segment.blocks);
    assert!(blocks.clone().any(|block| block.requested_size == 5 * MIB), "it was live at the end");
    let allocs = snapshot.device_traces[0].iter().filter(|entry| entry.action == Some(Action::Alloc));
    assert_eq!(allocs.clone().count(), 2);
    assert!(allocs.clone().all(|entry| snapshot.frames(entry.stack).count() > 3));
    assert!(ran.lines().is_empty(), "{}", ran.printed);
}

#[test]
fn a_reel_that_is_dropped_writes_its_snapshot_then_and_once() {
    let name = "a_reel_that_is_dropped_writes_its_snapshot_then_and_once";
    let Some(ran) = run(module_path!(), name, "all,dump=exit,file=snap.pickle", || {
        let reel = Reel::builder().device(Simulated::new(1 << 30)).build().unwrap();
        let block = reel.alloc(MIB).unwrap();
        assert_eq!(n_files(), 0);
        drop(reel);
        assert_eq!(n_files(), 1, "at the drop");
        drop(block);
        drop(Reel::builder().build().unwrap());
        assert_eq!(n_files(), 1, "it had nothing to show");
    }) else {
        return;
    };
    let ran = ran.well();
    assert_eq!(ran.files(), ["snap.pickle"]);
    assert!(ran.snapshot("snap.pickle").segments[0].blocks.iter().any(|block| block.requested_size == MIB));
}

/// Two sets of triggers at one moment with one name: one file each.
#[test]
fn two_at_once_have_a_file_each() {
    let Some(ran) = run(module_path!(), "two_at_once_have_a_file_each", "dump=exit,file=snap.pickle", || {
        memreel::record_history(&Recording::all()).unwrap();
        memreel::dump_on(&Triggers::to("snap.pickle").exit()).unwrap();
        std::mem::forget(memreel::alloc(MIB).unwrap());
    }) else {
        return;
    };
    let ran = ran.well();
    assert_eq!(ran.files(), ["snap-1.pickle", "snap.pickle"]);
    assert_eq!(ran.all_sound(), 2);
}

/// Another thread exits while requests fail and threads allocate: no half of a file has its name.
#[test]
fn an_exit_in_the_middle_of_everything_leaves_whole_files() {
    let name = "an_exit_in_the_middle_of_everything_leaves_whole_files";
    let memreel = "all,ring=30000,dump=oom+exit+every:5ms,file={cause}-{n}.pickle";
    let Some(ran) = run(module_path!(), name, memreel, || {
        let reel = Reel::builder().device(Simulated::new(1 << 30)).build().unwrap();
        for _ in 0..30_000 {
            drop(reel.alloc(1000).unwrap());
        }
        for _ in 0..4 {
            let reel = reel.clone();
            thread::spawn(move || {
                loop {
                    drop(reel.alloc(5000).unwrap());
                    drop(reel.alloc(2 << 30).unwrap_err());
                }
            });
        }
        wait_until("a snapshot", || n_files() > 1);
        process::exit(7);
    }) else {
        return;
    };
    assert_eq!(ran.status.code(), Some(7), "{}", ran.printed);
    let wholes = ran.files().into_iter().filter(|name| name.ends_with(".pickle"));
    let names: Vec<_> = wholes.inspect(|name| drop(ran.snapshot(name))).collect();
    assert!(names.iter().any(|name| name.starts_with("exit-")), "{names:?}");
}

/// The code that writes a snapshot calls `exit` itself: nothing waits for it.
#[test]
fn an_exit_within_a_snapshot_does_not_hang() {
    let name = "an_exit_within_a_snapshot_does_not_hang";
    let Some(ran) = run(module_path!(), name, "", || {
        let reel = Reel::builder().device(Simulated::new(1 << 20)).dump_with(|_| process::exit(9));
        let reel = reel.dump_on(&Triggers::to("snap.pickle").oom().exit()).build().unwrap();
        drop(reel.alloc(2 << 30));
        unreachable!("the failed request exits");
    }) else {
        return;
    };
    assert_eq!((ran.status.code(), ran.files()), (Some(9), Vec::new()), "{}", ran.printed);
    assert_eq!(ran.lines(), ["memreel: no snapshot on exit: the process exits in the middle of a snapshot"]);
}

#[test]
fn an_exit_waits_for_a_snapshot_in_progress() {
    let Some(ran) = run(module_path!(), "an_exit_waits_for_a_snapshot_in_progress", "", || {
        static IS_WRITING: AtomicBool = AtomicBool::new(false);
        let reel = Reel::builder().device(Simulated::new(1 << 20)).dump_with(|path| {
            IS_WRITING.store(true, Ordering::Relaxed);
            thread::sleep(Duration::from_millis(300));
            std::fs::write(path, "whole").unwrap();
            Ok(())
        });
        let reel = reel.dump_on(&Triggers::to("snap.txt").oom()).build().unwrap();
        thread::spawn(move || reel.alloc(2 << 30).map(drop));
        wait_until("the snapshot", || IS_WRITING.load(Ordering::Relaxed));
        process::exit(0);
    }) else {
        return;
    };
    assert_eq!(ran.well().files(), ["snap.txt", "snap.txt.verdict.json", "snap.txt.verdict.txt"]);
}
