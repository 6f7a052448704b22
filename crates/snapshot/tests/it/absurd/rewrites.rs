//! Every rewrite of a damaged snapshot: none panics, and `fix` leaves nothing to fix.

use memreel_snapshot::{
    Snapshot, pickle,
    rewrite::{Part, Slim, Window, fix, merge, split},
    validate::validate,
};

use crate::random::Random;

/// Cuts, merges, splits and repairs a snapshot.
pub(super) fn apply(snapshot: &Snapshot, other: &Snapshot, random: &mut Random) {
    let n = snapshot.device_traces.iter().map(Vec::len).max().unwrap_or(0);
    let windows = [
        Window::Events { device: None, range: n / 3..n / 2 },
        Window::Events { device: None, range: 0..0 },
        Window::Time(5..i64::MAX),
    ];
    for window in windows {
        let (min_bytes, anonymise) = (random.below(3) * 600, random.chance(2));
        let slim = Slim::new().window(window).min_bytes(min_bytes).depth(2).anonymise(anonymise);
        if let Ok(small) = slim.apply(snapshot.clone()) {
            let _ = validate(&small);
            is_read_back(&small);
        }
    }
    let parts = [snapshot, other].map(|snapshot| Part::new(snapshot.clone()));
    if let Ok(merged) = merge(parts) {
        is_read_back(&merged);
        split(merged).iter().for_each(|(_, part)| is_read_back(part));
    }
    fix_twice(snapshot.clone(), "a damaged snapshot");
}

/// Fixes a snapshot, and checks that nothing is left to do. Returns whether it was broken.
pub(super) fn fix_twice(broken: Snapshot, name: &str) -> bool {
    let fixed = fix(broken);
    let _ = validate(&fixed.snapshot);
    is_read_back(&fixed.snapshot);
    let again = fix(fixed.snapshot.clone());
    assert_eq!(again.changes, [], "{name}: the first time {:?}", fixed.changes);
    assert!(pickle::to_vec(&again.snapshot) == pickle::to_vec(&fixed.snapshot), "{name}");
    !fixed.changes.is_empty()
}

fn is_read_back(snapshot: &Snapshot) {
    let read = pickle::from_slice(&pickle::to_vec(snapshot)).expect("what was written can be read");
    assert_eq!(read.n_events(), snapshot.n_events());
}
