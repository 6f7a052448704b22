//! Recordings with filters, and empty ones, open in viewers.

use memreel::{
    Reel,
    device::Simulated,
    recorder::{Context, Recording},
};
use memreel_snapshot::{
    Action, DeviceId, Snapshot,
    model::{SnapshotSource, StackTable, TraceEntry},
    pickle,
    rewrite::fix,
    validate::{Severity, validate},
};

use crate::recorded::recorded_as;

fn errors(snapshot: &Snapshot) -> Vec<String> {
    let findings = validate(snapshot);
    findings.iter().filter(|finding| finding.severity == Severity::Error).map(ToString::to_string).collect()
}

fn has_frames(entry: &TraceEntry) -> bool {
    entry.stack.is_some_and(|stack| stack != StackTable::EMPTY)
}

/// The entries, of a device, that are not in another trace at their place.
fn added(of: &[TraceEntry], to: &[TraceEntry]) -> Vec<TraceEntry> {
    let mut rest = of.iter().peekable();
    // Each snapshot reads the clock's rate anew, so that times may differ by a microsecond.
    let same = |one: &TraceEntry, other: &TraceEntry| {
        (one.action, one.address, one.size) == (other.action, other.address, other.size)
    };
    let added = to.iter().filter(|entry| rest.next_if(|next| same(next, entry)).is_none());
    let added = added.copied().collect();
    assert_eq!(rest.next(), None, "recorded entries stay, in their order");
    added
}

#[test]
fn filtered_recordings_have_the_allocs_that_viewers_need() {
    let mut n_added = 0;
    for seed in 0..120 {
        let history = Recording::all().context(Context::Alloc);
        let history = match seed % 4 {
            0 => history.min_size(100_000),
            1 => history.sample_every(4 << 20),
            2 => history.min_size(1 << 20).max_entries(60),
            _ => history.sample_every(1 << 20).max_entries(60),
        };
        let snapshot = recorded_as(seed, 250, history);
        assert_eq!(errors(&snapshot), [""; 0], "seed {seed}");
        if seed < 4 {
            pickle::save(&snapshot, crate::written(&format!("filtered_{seed}.pickle"))).unwrap();
        }
        let changes = fix(snapshot.clone()).changes;
        assert!(changes.is_empty(), "seed {seed}: {changes:?}");
        let is_bare = |entry: &&TraceEntry| entry.action == Some(Action::Alloc) && !has_frames(entry);
        n_added += snapshot.device_traces.iter().flatten().filter(is_bare).count();
    }
    assert!(n_added > 0);
}

/// Each action alone, both frees, and all actions of segments.
#[test]
fn recordings_without_some_actions_have_the_events_that_viewers_need() {
    let mut skipped: Vec<Vec<Action>> = Action::ALL.iter().map(|action| vec![*action]).collect();
    skipped.push(vec![Action::FreeRequested, Action::FreeCompleted]);
    skipped.push(vec![Action::Alloc, Action::FreeRequested, Action::FreeCompleted]);
    skipped.push(vec![Action::SegmentAlloc, Action::SegmentFree, Action::SegmentMap, Action::SegmentUnmap]);
    skipped.push(Action::ALL.to_vec());
    for (skipped, seed) in skipped.iter().flat_map(|skipped| (0..12).map(move |seed| (skipped, seed))) {
        let history = Recording::all().context(Context::Alloc).skip_actions(skipped.iter().copied());
        let history = if seed % 2 == 0 { history } else { history.max_entries(60) };
        let snapshot = recorded_as(seed, 250, history);
        // Viewers do not need it; the state of a block that waits for a stream differs then.
        let is_left_out = skipped[..] == [Action::FreeRequested];
        let mut errors = errors(&snapshot);
        errors.retain(|error| !is_left_out || !error.starts_with("E23 "));
        assert_eq!(errors, [""; 0], "{skipped:?}, seed {seed}");
        if seed < 2 {
            let names: Vec<&str> = skipped.iter().map(|action| action.name()).collect();
            let names = if names.len() == Action::ALL.len() { "all".to_owned() } else { names.join("_") };
            let name = format!("skipped_{names}_{seed}.pickle");
            pickle::save(&snapshot, crate::written(&name)).unwrap();
        }
        let changes = fix(snapshot).changes;
        assert!(changes.is_empty() || is_left_out, "{skipped:?}, seed {seed}: {changes:?}");
    }
}

#[test]
fn the_added_allocs_are_behind_the_recorded_events_of_their_memory() {
    let reel =
        Reel::builder().device(Simulated::new(1 << 30)).history(Recording::all().min_size(1 << 20)).build();
    let reel = reel.unwrap();
    let small = reel.alloc(1000).unwrap();
    let large = reel.alloc(2 << 20).unwrap();
    let recorded = memreel::snapshot::collect(reel.recorder(), reel.allocators(), Default::default());
    let completed = reel.snapshot();
    let added = added(&recorded.device_traces[0], &completed.device_traces[0]);
    let [alloc, snapshot] = &added[..] else { panic!("{added:?}") };
    assert_eq!((alloc.action, alloc.size, has_frames(alloc)), (Some(Action::Alloc), 1000, false));
    assert_eq!(snapshot.action, Some(Action::Snapshot), "of the first of the two");
    let place = completed.device_traces[0].iter().position(|entry| entry == alloc).unwrap();
    assert_eq!(completed.device_traces[0][place - 1].action, Some(Action::SegmentAlloc));
    drop((small, large));
}

#[test]
fn filters_that_are_off_again_count_until_events_are_erased() {
    let reel =
        Reel::builder().device(Simulated::new(1 << 30)).history(Recording::all().min_size(1 << 20)).build();
    let reel = reel.unwrap();
    let _small = reel.alloc(1000).unwrap();
    reel.record_history(&Recording::all());
    let n_allocs = |snapshot: &Snapshot| {
        let trace = &snapshot.device_traces[0];
        trace.iter().filter(|entry| entry.action == Some(Action::Alloc)).count()
    };
    assert_eq!(n_allocs(&reel.snapshot()), 1);
    reel.record_history(&Recording::all().clear_history(true));
    assert_eq!(n_allocs(&reel.snapshot()), 0);
}

/// The page shows nothing for a file without segments and entries.
#[test]
fn an_empty_recording_has_an_entry() {
    let reel = Reel::builder().device(Simulated::new(1 << 30)).device(Simulated::new(1 << 30));
    let reel = reel.history(Recording::all()).build().unwrap();
    let written = pickle::from_slice(&pickle::to_vec(&reel.snapshot())).unwrap();
    let actions: Vec<Vec<_>> =
        written.device_traces.iter().map(|trace| trace.iter().map(|entry| entry.action).collect()).collect();
    assert_eq!(actions, [vec![Some(Action::Snapshot)], vec![]]);
    assert_eq!(validate(&written).iter().map(ToString::to_string).collect::<Vec<_>>(), [""; 0]);
    pickle::save(&written, crate::written("empty_recording.pickle")).unwrap();
    assert!(fix(written).changes.is_empty());
    reel.record_history(&Recording::off());
    assert_eq!(reel.snapshot().n_entries(DeviceId(0)), 0, "nothing is recorded");
}
