//! Snapshots at intervals.

use std::time::{Duration, Instant};

use memreel::{recorder::Recording, trigger::Triggers};

use super::program::{n_files, run, wait_until};

#[test]
fn an_interval_writes_snapshots_until_the_end() {
    let Some(ran) = run(module_path!(), "an_interval_writes_snapshots_until_the_end", "all", || {
        let start = Instant::now();
        let _block = memreel::alloc(1 << 20).unwrap();
        let often = Triggers::to("snap-{n}.pickle").every(Duration::from_millis(100));
        memreel::dump_on(&often).unwrap();
        assert_eq!(n_files(), 0, "the first comes after the first interval");
        wait_until("three snapshots", || n_files() == 3);
        assert!(start.elapsed() >= Duration::from_millis(300), "{:?}", start.elapsed());
    }) else {
        return;
    };
    assert!(ran.well().all_sound() >= 3);
}

#[test]
fn the_newest_files_are_kept() {
    let memreel = "dump=every:30ms,keep=2,file=snap-{time}.pickle";
    let Some(ran) = run(module_path!(), "the_newest_files_are_kept", memreel, || {
        std::fs::write("snap-mine.pickle", "not one of the pattern").unwrap();
        memreel::record_history(&Recording::all()).unwrap();
        let _block = memreel::alloc(1 << 20).unwrap();
        let mut seen = std::collections::BTreeSet::new();
        wait_until("many snapshots", || {
            let names = super::program::files(std::path::Path::new("."));
            let snaps = names.into_iter().filter(|name| name.starts_with("snap-2"));
            let snaps: Vec<_> = snaps.collect();
            // The third is there before the oldest is removed.
            assert!(snaps.len() <= 3, "{snaps:?}");
            seen.extend(snaps);
            seen.len() > 6
        });
    }) else {
        return;
    };
    let names = ran.well().files();
    assert!(names.contains(&"snap-mine.pickle".to_owned()), "{names:?}");
}
