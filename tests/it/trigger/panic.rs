//! Snapshots at a panic.

use std::{
    panic, process,
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::Duration,
};

use memreel::{Reel, device::Simulated};

use super::program::{n_files, run};

#[test]
fn a_panic_writes_a_snapshot_before_the_programs_hook() {
    static N_FILES: AtomicU64 = AtomicU64::new(u64::MAX);
    let name = "a_panic_writes_a_snapshot_before_the_programs_hook";
    let Some(ran) = run(module_path!(), name, "all,dump=panic,file={cause}-{n}.pickle", || {
        panic::set_hook(Box::new(|_| N_FILES.store(n_files() as u64, Ordering::Relaxed)));
        let reel = Reel::builder().device(Simulated::new(1 << 30)).build().unwrap();
        let block = reel.alloc(1 << 20).unwrap();
        let ended = thread::spawn(|| panic!("of the program")).join();
        assert!(ended.is_err());
        assert_eq!(N_FILES.load(Ordering::Relaxed), 1, "the file is there when the hook is called");
        for _ in 0..1000 {
            assert!(panic::catch_unwind(|| panic!("caught")).is_err());
        }
        drop(block);
        thread::sleep(Duration::from_millis(1100));
        assert!(panic::catch_unwind(|| panic!("a second later")).is_err());
        drop(panic::take_hook());
    }) else {
        return;
    };
    let ran = ran.well();
    let n_files = ran.all_sound();
    assert!((2..5).contains(&n_files), "at most one in a second: {n_files}");
    let first = ran.snapshot("panic-0.pickle");
    assert!(first.segments[0].blocks.iter().any(|block| block.requested_size == 1 << 20));
}

/// As with `panic = "abort"`: the process ends right after the hook.
#[test]
fn an_abort_after_the_hook_leaves_the_file() {
    let name = "an_abort_after_the_hook_leaves_the_file";
    let Some(ran) = run(module_path!(), name, "all,dump=panic+exit,file={cause}.pickle", || {
        panic::set_hook(Box::new(|_| process::abort()));
        let _block = memreel::alloc(1 << 20).unwrap();
        panic!("of the program");
    }) else {
        return;
    };
    assert!(!ran.status.success());
    assert_eq!((ran.files(), ran.all_sound()), (vec!["panic.pickle".to_owned()], 1), "{}", ran.printed);
}

/// What writes the snapshot panics itself: one line, and the program goes on.
#[test]
fn a_panic_within_a_snapshot_ends_nothing() {
    let Some(ran) =
        run(module_path!(), "a_panic_within_a_snapshot_ends_nothing", "dump=panic+oom,file=x", || {
            let reel = Reel::builder().device(Simulated::new(1 << 20)).dump_with(|_| panic!("in the dump"));
            let reel = reel.build().unwrap();
            let failure = reel.alloc(2 << 30).unwrap_err();
            let why = failure.out_of_memory().unwrap().snapshot_failure.clone().unwrap();
            assert!(why.contains("memreel has a bug: it panicked"), "{why}");
            assert!(panic::catch_unwind(|| panic!("of the program")).is_err());
        })
    else {
        return;
    };
    let ran = ran.well();
    assert!(ran.files().is_empty(), "{:?}", ran.files());
    assert_eq!(ran.lines().len(), 2, "{:?}", ran.lines());
}
