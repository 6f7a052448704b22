//! Snapshots of failed requests.

use std::{collections::BTreeSet, thread, time::Duration};

use memreel::{Reel, device::Simulated};

use super::program::{n_files, run};

/// The names of snapshots of failed requests, with those of their verdicts.
fn with_verdicts<const N: usize>(stems: [&str; N]) -> Vec<String> {
    let endings = ["pickle", "verdict.json", "verdict.txt"];
    stems.iter().flat_map(|stem| endings.map(|ending| format!("{stem}.{ending}"))).collect()
}

#[test]
fn a_failed_request_names_its_snapshot() {
    let memreel = "all,dump=oom,file=oom/{cause}-{n}.pickle";
    let Some(ran) = run(module_path!(), "a_failed_request_names_its_snapshot", memreel, || {
        let reel = Reel::builder().device(Simulated::new(50 << 20)).build().unwrap();
        let _held = reel.alloc(30 << 20).unwrap();
        let fails = || reel.alloc(30 << 20).unwrap_err().out_of_memory().unwrap().clone();
        let first = fails();
        let path = first.snapshot.unwrap();
        assert!(path.is_absolute() && path.ends_with("oom/oom-0.pickle"), "{path:?}");
        assert_eq!(n_files(), 1, "it is there before the error returns");
        let second = fails();
        assert_eq!((second.snapshot, second.kept_snapshot), (None, Some(path)));
        thread::sleep(Duration::from_millis(1100));
        assert!(fails().snapshot.unwrap().ends_with("oom/oom-1.pickle"), "a second later");
    }) else {
        return;
    };
    let ran = ran.well();
    assert_eq!(ran.files(), with_verdicts(["oom/oom-0", "oom/oom-1"]));
    assert_eq!(ran.all_sound(), 2);
}

#[test]
fn threads_that_fail_at_once_do_not_wait_for_each_other() {
    let name = "threads_that_fail_at_once_do_not_wait_for_each_other";
    let Some(ran) = run(module_path!(), name, "all,dump=oom,file=oom.pickle", || {
        let reel = Reel::builder().device(Simulated::new(50 << 20)).build().unwrap();
        reel.save_on_oom("first.pickle");
        let named = thread::scope(|scope| {
            let threads: Vec<_> =
                (0..64).map(|_| scope.spawn(|| reel.alloc(60 << 20).unwrap_err())).collect();
            let errors = threads.into_iter().map(|thread| thread.join().unwrap());
            errors
                .filter_map(|error| error.out_of_memory().unwrap().snapshot.clone())
                .collect::<BTreeSet<_>>()
        });
        assert!(named.iter().all(|path| path.exists()), "{named:?}");
    }) else {
        return;
    };
    let ran = ran.well();
    assert_eq!(ran.files(), with_verdicts(["first", "oom"]));
    assert_eq!(ran.all_sound(), 2);
}
