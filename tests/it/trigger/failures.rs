//! Snapshots that cannot be written: one line each, a number in later snapshots, and no other effect.

use std::time::Duration;

use memreel::{Reel, device::Simulated, recorder::Recording, trigger::Triggers};

use super::program::{n_failed, run, wait_until};

#[test]
fn a_folder_that_cannot_be_had_is_one_line_and_counted() {
    let name = "a_folder_that_cannot_be_had_is_one_line_and_counted";
    let Some(ran) = run(module_path!(), name, "all,dump=oom+exit,file=/proc/nowhere/snap.pickle", || {
        let reel = Reel::builder().device(Simulated::new(1 << 20)).build().unwrap();
        assert_eq!(n_failed(&reel.snapshot()), 0);
        let error = reel.alloc(2 << 30).unwrap_err();
        assert!(
            error.to_string().contains("no snapshot could be saved: cannot create the folder"),
            "{error}"
        );
        reel.save("snap.pickle").unwrap();
        std::mem::forget(reel);
    }) else {
        return;
    };
    let ran = ran.well();
    assert_eq!((ran.files(), n_failed(&ran.snapshot("snap.pickle"))), (vec!["snap.pickle".to_owned()], 1));
    let lines = ran.lines();
    assert_eq!(lines.len(), 2, "{lines:?}");
    for (line, cause) in lines.iter().zip(["oom", "exit"]) {
        let wanted = format!(
            "memreel: no snapshot on {cause}: cannot create the folder of the snapshot: /proc/nowhere"
        );
        assert!(line.starts_with(&wanted), "{line}");
    }
}

/// A limit on the size of files takes the place of a full disk.
#[test]
fn a_full_disk_leaves_nothing_and_does_not_end_the_program() {
    let name = "a_full_disk_leaves_nothing_and_does_not_end_the_program";
    let Some(ran) = run(module_path!(), name, "all", || {
        let limit = libc::rlimit { rlim_cur: 64 << 10, rlim_max: libc::RLIM_INFINITY };
        // SAFETY: the limit is read by the call.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) }, 0);
        (0..5000).for_each(|n| drop(memreel::alloc(1000 + n).unwrap()));
        let often = Triggers::to("snap.pickle").every(Duration::from_millis(100));
        memreel::dump_on(&often).unwrap();
        wait_until("a failure", || n_failed(&memreel::snapshot().unwrap()) > 1);
        drop(memreel::alloc(1 << 20).unwrap());
    }) else {
        return;
    };
    // The limit holds for what the program prints too, and is far above it.
    let ran = ran.well();
    assert!(ran.files().is_empty(), "{:?}", ran.files());
    let first = "memreel: no snapshot on interval: cannot save the snapshot";
    assert!(ran.printed.contains(first), "{}", ran.printed);
}

#[test]
fn triggers_that_can_never_fire_are_refused() {
    let reel = Reel::builder().device(Simulated::new(1 << 20)).history(Recording::all()).build().unwrap();
    for (triggers, wanted) in [
        (Triggers::to("snap.pickle"), "no trigger is set"),
        (Triggers::to("snap-{what}.pickle").oom(), "unknown placeholder \"{what}\" at character 5"),
        (Triggers::to("folder/").oom(), "the path has no file name"),
        (Triggers::to("").oom(), "the path has no file name"),
        (Triggers::to("snap.pickle").oom().keep(0), "no file would be kept"),
        (Triggers::to("snap.pickle").every(Duration::ZERO), "would never end"),
        (Triggers::to("snap.pickle").every_bytes(0), "would never end"),
    ] {
        let error = reel.dump_on(&triggers).unwrap_err();
        assert!(error.is_invalid_option() && error.to_string().contains(wanted), "{error}");
    }
    assert!(Reel::builder().dump_on(&Triggers::default()).build().is_err());
}
