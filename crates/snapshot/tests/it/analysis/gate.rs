//! `assert_peak!`, `assert_live!` and `Limits`: what they fail, and what they cannot know.

use std::panic::{AssertUnwindSafe, catch_unwind};

use memreel::{Reel, recorder::Recording};
use memreel_snapshot::{
    Action, DeviceId, Snapshot,
    analysis::{DeviceHistory, Limits},
};

const MIB: u64 = 1 << 20;

/// A run with a peak of 8 MiB, of which 1 MiB stays.
fn run(reel: &Reel) -> Snapshot {
    drop((reel.alloc(7 * MIB).unwrap(), reel.alloc(MIB).unwrap()));
    let kept = reel.alloc(MIB).unwrap();
    let snapshot = reel.snapshot();
    drop(kept);
    snapshot
}

fn recorded(history: impl Into<Option<Recording>>) -> Snapshot {
    let builder = Reel::builder();
    let builder = match history.into() {
        Some(history) => builder.history(history),
        None => builder,
    };
    run(&builder.build().unwrap())
}

/// The message with which a check panics; `None` if it passes.
fn message(check: impl FnOnce()) -> Option<String> {
    let error = catch_unwind(AssertUnwindSafe(check)).err()?;
    Some(error.downcast_ref::<String>().unwrap().clone())
}

#[test]
fn a_history_that_is_not_whole_fails_with_the_reason() {
    let skipping = |actions: &[Action]| Recording::all().skip_actions(actions.iter().copied());
    let cases = [
        (None, "no history was recorded"),
        (Some(Recording::off()), "no history was recorded"),
        (Some(Recording::state()), "older entries were lost"),
        (Some(Recording::all().max_entries(3)), "older entries were lost"),
        (Some(Recording::all().min_size(100 * MIB)), "allocations below 104857600 bytes have no events"),
        (Some(Recording::all().sample_every(1 << 40)), "allocations were sampled"),
        (Some(skipping(&[Action::FreeRequested])), "free_requested is missing for"),
        (Some(skipping(&[Action::FreeCompleted])), "added or dropped events ("),
        (Some(skipping(&[Action::FreeRequested, Action::FreeCompleted])), "added or dropped events ("),
        (Some(skipping(&[Action::SegmentAlloc])), "reserved and no block in use"),
    ];
    for (history, why) in cases {
        let what = format!("{history:?}");
        let snapshot = recorded(history);
        for message in [
            message(|| memreel_snapshot::assert_peak!(snapshot, 1 << 40)),
            message(|| memreel_snapshot::assert_live!(snapshot, 1 << 40)),
        ] {
            let message = message.unwrap_or_else(|| panic!("{what}: it passes"));
            assert!(message.starts_with("the history of device 0 is incomplete: "), "{what}: {message}");
            assert!(message.contains(why), "{what}: {message}");
            assert!(message.ends_with("or a last argument `allow_partial`"), "{what}: {message}");
        }
        memreel_snapshot::assert_peak!(snapshot, 1 << 40, allow_partial);
        memreel_snapshot::assert_live!(snapshot, 1 << 40, allow_partial);
    }
}

#[test]
fn recording_that_begins_late_is_not_whole() {
    let reel = Reel::builder().build().unwrap();
    drop(reel.alloc(64 * MIB).unwrap());
    reel.record_history(&Recording::all());
    let snapshot = run(&reel);
    let why = message(|| memreel_snapshot::assert_peak!(snapshot, 8 * MIB)).unwrap();
    assert!(why.contains("the history starts with 67108864 bytes reserved and no block in use"), "{why}");
    memreel_snapshot::assert_peak!(snapshot, 8 * MIB, allow_partial);
}

/// 4 MiB is in use at the peak; a segment of 20 MiB with 2 MiB in use is there later.
#[test]
fn a_check_of_what_is_reserved_names_the_holders_of_that_moment() {
    let reel = Reel::builder().history(Recording::all()).build().unwrap();
    let early: Vec<_> = (0..4).map(|_| reel.alloc(MIB).unwrap()).collect();
    drop(early);
    let _late = reel.alloc(2 * MIB).unwrap();
    let snapshot = reel.snapshot();
    let history = DeviceHistory::new(&snapshot, DeviceId(0));
    let figures = history.figures();
    assert!(figures.peak < figures.most_reserved, "{figures:?}");
    let checks = figures.check(&Limits::new().peak_bytes(0).live_bytes(0).reserved_bytes(0));
    let moments: Vec<_> = checks.iter().map(|check| check.moment(&figures, &history)).collect();
    assert_eq!(moments, [figures.peak, history.end(), figures.most_reserved]);
    let why = Limits::new().reserved_bytes(MIB).broken_by(&snapshot).unwrap();
    assert!(why.contains("2097152 bytes in 1 block"), "{why}");
}

#[test]
fn a_partial_history_still_fails_what_it_shows() {
    let snapshot = recorded(Recording::all().min_size(2 * MIB));
    let why = message(|| memreel_snapshot::assert_peak!(snapshot, 6 * MIB, allow_partial)).unwrap();
    assert!(why.starts_with("peak: ") && why.contains("more than 6291456"), "{why}");
}

#[test]
fn a_whole_history_passes() {
    let snapshot = recorded(Recording::all());
    memreel_snapshot::assert_peak!(snapshot, 8 * MIB);
    memreel_snapshot::assert_live!(snapshot, MIB,);
    assert!(message(|| memreel_snapshot::assert_peak!(snapshot, 8 * MIB - 1)).is_some());
    let limits = Limits::new().peak_bytes(8 * MIB).live_bytes(MIB);
    assert_eq!(limits.broken_by(&snapshot), None);
    let why = limits.reserved_bytes(MIB).broken_by(&snapshot).unwrap();
    assert!(why.starts_with("reserved: ") && why.contains("more than 1048576\n"), "{why}");
}

#[test]
fn nothing_happened_and_all_of_it_was_recorded() {
    let reel = Reel::builder().history(Recording::all()).build().unwrap();
    memreel_snapshot::assert_peak!(reel.snapshot(), 0);
    drop(reel.alloc(1000).unwrap());
    reel.empty_cache().unwrap();
    memreel_snapshot::assert_live!(reel.snapshot(), 0);
    let silent = Reel::builder().history(Recording::off()).build().unwrap();
    assert!(message(|| memreel_snapshot::assert_peak!(silent.snapshot(), 0)).is_some());
    assert!(message(|| memreel_snapshot::assert_peak!(Snapshot::default(), 0)).is_some());
}
