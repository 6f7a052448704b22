//! How far a history can be trusted: `Trust::is_whole` and its reasons, for files that lack something.

use std::sync::Arc;

use memreel::{
    Reel,
    device::Simulated,
    recorder::{Context, Recording},
};
use memreel_snapshot::{
    Action, DeviceId, Snapshot, StreamId,
    analysis::DeviceHistory,
    history::Trust,
    rewrite::{Part, Slim, Window, fix, merge, split},
    validate::{Rule, validate},
};
use serde_json::{Value, json};

use crate::recorded::recorded_as;

const BASE: u64 = 0x7000_0000;

fn trust(snapshot: &Snapshot, device: usize) -> Trust {
    DeviceHistory::new(snapshot, DeviceId::from(device)).trust()
}

/// An entry of action, address (from [`BASE`]), size and time.
type E<'a> = (&'a str, u64, u64, i64);

fn snapshot(entries: &[E], segments: Value) -> Snapshot {
    let entry = |(action, at, size, time_us): &E| json!({"action": action, "addr": BASE + at, "size": size, "stream": 0, "time_us": time_us});
    let entries: Vec<Value> = entries.iter().map(entry).collect();
    serde_json::from_value(json!({"segments": segments, "device_traces": [entries]})).unwrap()
}

/// A segment of 4 KiB with blocks of offset, size and state; what is between them is free.
fn segment(blocks: &[(u64, u64, &str)]) -> Value {
    let block = |at: u64, size: u64, state: &str| json!({"address": BASE + at, "size": size, "requested_size": size, "state": state, "frames": []});
    let (mut all, mut next) = (Vec::new(), 0);
    for (at, size, state) in blocks.iter().copied().chain([(4096, 0, "")]) {
        if at > next {
            all.push(block(next, at - next, "inactive"));
        }
        if size > 0 {
            all.push(block(at, size, state));
        }
        next = at + size;
    }
    json!([{
        "device": 0, "address": BASE, "total_size": 4096, "allocated_size": 0, "active_size": 0, "requested_size": 0,
        "stream": 0, "segment_type": "small", "segment_pool_id": [0, 0], "is_expandable": false, "frames": [],
        "blocks": all,
    }])
}

const LIVE: &str = "active_allocated";
const PENDING: &str = "active_pending_free";

#[test]
fn a_free_without_its_completion_may_have_waited() {
    let alloc_and_free =
        [("segment_alloc", 0, 4096, 1), ("alloc", 0, 1024, 2), ("free_requested", 0, 1024, 3)];
    let again = [&alloc_and_free[..], &[("alloc", 0, 512, 4)]].concat();
    for (entries, blocks) in [
        (&alloc_and_free[..], segment(&[])),
        (&again[..], segment(&[(0, 512, LIVE)])),
        // Without segments a missing completion is all that is known.
        (&alloc_and_free[..], json!([])),
    ] {
        let found = trust(&snapshot(entries, blocks), 0);
        assert_eq!((found.n_uncompleted, found.is_exact(), found.is_whole()), (1, false, false));
        assert!(found.warnings()[0].starts_with("free_completed is missing for 1 free ("), "{found:?}");
    }
    // A block that waits at the end has no completion yet.
    let waits = trust(&snapshot(&alloc_and_free, segment(&[(0, 1024, PENDING)])), 0);
    assert_eq!((waits.n_uncompleted, waits.is_whole()), (0, true));
    let completed = [&alloc_and_free[..], &[("free_completed", 0, 1024, 4)]].concat();
    assert!(trust(&snapshot(&completed, segment(&[])), 0).is_whole());
}

#[test]
fn a_trace_of_segments_alone_says_nothing_about_blocks() {
    let entries = [("segment_alloc", 0, 4096, 1)];
    let found = trust(&snapshot(&entries, segment(&[])), 0);
    assert!(found.lacks_block_events && !found.is_whole());
    assert_eq!(found.warnings(), ["no event is about a block (skip_actions?): figures may be too low"]);
}

#[test]
fn segment_events_that_are_missing_are_found_at_the_end() {
    let block = [("alloc", 0, 512, 2), ("free_requested", 0, 512, 3), ("free_completed", 0, 512, 4)];
    // The second segment was returned, and its segment_free was not recorded.
    let entries =
        [&[("segment_alloc", 0, 4096, 1)], &block[..], &[("segment_alloc", 8192, 4096, 5)]].concat();
    let found = trust(&snapshot(&entries, segment(&[])), 0);
    assert!(found.lacks_segment_events && !found.is_exact(), "{found:?}");
}

/// Which devices' histories come with a warning about stacks.
fn refused(snapshot: &Snapshot) -> Vec<u64> {
    let trust = |device| trust(snapshot, device);
    let of = |device| {
        let n = trust(device).n_stacks_refused;
        let has_warning =
            trust(device).warnings().iter().any(|text| text.contains(&format!("full for {n} captures")));
        assert_eq!(has_warning, n > 0, "{:?}", trust(device).warnings());
        n
    };
    (0..snapshot.device_traces.len()).map(of).collect()
}

#[test]
fn stacks_that_were_not_kept_are_reported_and_cost_no_figures() {
    let mut full = reel_with_a_block().snapshot();
    assert_eq!(refused(&full), [0]);
    let mut json = serde_json::to_value(&full).unwrap();
    json["allocator_settings"]["memreel_stacks_refused"] = json!(7);
    full = serde_json::from_value(json).unwrap();
    assert_eq!(refused(&full), [7]);
    assert!(trust(&full, 0).is_whole());
    // Of merged recordings each device keeps its own, and so do windows and splits.
    let merged = merge(vec![Part::new(reel_with_a_block().snapshot()), Part::new(full)]).unwrap();
    assert_eq!(refused(&merged), [0, 7]);
    assert_eq!(refused(&Slim::new().depth(Some(1)).apply(merged.clone()).unwrap()), [0, 7]);
    let parts: Vec<u64> =
        split(merged).iter().map(|(device, part)| refused(part)[device.index().unwrap()]).collect();
    assert_eq!(parts, [0, 7]);
}

#[test]
fn a_device_that_gave_everything_back_is_whole() {
    let reel = Reel::builder().history(Recording::all()).build().unwrap();
    assert!(trust(&reel.snapshot(), 0).is_whole(), "nothing happened, and all of it was recorded");
    drop(reel.alloc(1000).unwrap());
    reel.empty_cache().unwrap();
    let snapshot = reel.snapshot();
    assert!(snapshot.segments.is_empty());
    assert!(trust(&snapshot, 0).is_whole(), "{:?}", trust(&snapshot, 0));
    let mut without_segments = reel_with_a_block().snapshot();
    without_segments.segments.clear();
    assert!(trust(&without_segments, 0).lacks_segments);
}

fn reel_with_a_block() -> Reel {
    let reel = Reel::builder().history(Recording::all()).build().unwrap();
    std::mem::forget(reel.alloc(1000).unwrap());
    reel
}

#[test]
fn entries_are_lost_by_a_device_and_not_by_all() {
    let devices = [Simulated::new(8 << 30), Simulated::new(8 << 30)].map(Arc::new);
    let [one, other] = devices;
    let history = Recording::all().context(Context::None).max_entries(8);
    let reel = Reel::builder().device(one).device(other).history(history).build().unwrap();
    let allocators = reel.allocators();
    for _ in 0..20 {
        allocators[0].alloc(1000, StreamId::DEFAULT).unwrap().free().unwrap();
    }
    drop(allocators[1].alloc(1000, StreamId::DEFAULT).unwrap());
    let whole = reel.snapshot();
    let lost = |snapshot: &Snapshot, device| {
        let found = trust(snapshot, device);
        (found.n_lost, found.is_whole())
    };
    assert_eq!((lost(&whole, 0), lost(&whole, 1)), ((61 - 8, false), (0, true)));
    let rings: Vec<String> = validate(&whole)
        .iter()
        .filter(|finding| finding.rule == Rule::FullRing)
        .map(ToString::to_string)
        .collect();
    assert_eq!(rings, ["W33 device_traces[0]: the settings record that the ring dropped 53 older entries"]);
    // A file of each device, and a file of both, keep it.
    let parts = split(whole);
    assert_eq!((lost(&parts[0].1, 0), lost(&parts[1].1, 1)), ((53, false), (0, true)));
    let swapped = parts.into_iter().rev().zip([0, 1]).map(|((_, part), rank)| Part::new(part).rank(rank));
    let merged = merge(swapped).unwrap();
    assert_eq!((lost(&merged, 0), lost(&merged, 1)), ((0, true), (53, false)));
    let settings = merged.allocator_settings().unwrap();
    assert_eq!(settings.get("trace_alloc_lost_entries").and_then(|n| n.as_int()), Some(53), "the sum");
}

#[test]
fn a_window_is_not_the_whole_history() {
    let recorded = Reel::builder().history(Recording::all()).build().unwrap();
    drop((recorded.alloc(100).unwrap(), recorded.alloc(5000).unwrap()));
    let whole = recorded.snapshot();
    let n = whole.device_traces[0].len();
    let cut = |snapshot: &Snapshot, range| {
        Slim::new().window(Window::Events { device: None, range }).apply(snapshot.clone()).unwrap()
    };
    let all = cut(&whole, 0..n);
    assert!(trust(&all, 0).is_whole(), "a window of everything");
    let begun = cut(&whole, 0..n - 2);
    let found = trust(&begun, 0);
    assert_eq!((found.n_cut, found.is_whole(), found.is_exact()), (2, false, true));
    let why = "the file covers only part of a longer history (2 events are not in it)";
    assert_eq!(found.unknown_before(|bytes| bytes).unwrap(), why);
    let again = trust(&cut(&begun, 1..n - 2), 0);
    assert_eq!(again.n_cut, 3);
    let why = again.unknown_before(|bytes| bytes).unwrap();
    assert!(
        why.starts_with(
            "the file covers only part of a longer history (3 events are not in it); the history starts"
        ),
        "{why}"
    );
}

#[test]
fn what_slim_removes_by_size_is_marked() {
    let recorded = Reel::builder().history(Recording::all()).build().unwrap();
    drop((recorded.alloc(100).unwrap(), recorded.alloc(5000).unwrap()));
    let [whole, bare] = [recorded.snapshot(), {
        let (base, end) =
            (segment(&[(512, 1024, LIVE)]), [("segment_alloc", 0, 4096, 1), ("alloc", 512, 1024, 2)]);
        snapshot(&end, base)
    }];
    for whole in [whole, bare] {
        assert!(trust(&whole, 0).is_whole());
        let slim = Slim::new().min_bytes(1000).apply(whole.clone()).unwrap();
        let found = trust(&slim, 0);
        assert_eq!((found.min_size_bytes, found.is_whole()), (1000, false));
        assert_eq!(found.warnings(), ["allocations below 1000 bytes have no events: figures may be too low"]);
        let again = Slim::new().min_bytes(200).apply(slim.clone()).unwrap();
        assert_eq!(trust(&again, 0).min_size_bytes, 1000, "the larger of two");
        assert!(
            !validate(&slim).iter().any(|finding| finding.rule == Rule::Settings),
            "the order of the keys"
        );
        assert_eq!(
            slim.allocator_settings().unwrap().get("trace_alloc_overflowed"),
            whole.allocator_settings().and_then(|all| all.get("trace_alloc_overflowed")),
            "losses are not denied where they are not known"
        );
    }
}

/// Two blocks one after the other, with the time of the second alloc.
fn timed(time_us: i64) -> Snapshot {
    let entries = [
        ("segment_alloc", 0, 4096, 1_700_000_000_000_000),
        ("alloc", 0, 512, 1_700_000_000_000_500),
        ("alloc", 1024, 512, time_us),
        ("free_requested", 0, 512, 1_700_000_000_001_500),
        ("free_completed", 0, 512, 1_700_000_000_001_501),
    ];
    snapshot(&entries, segment(&[(1024, 512, LIVE)]))
}

#[test]
fn one_judgement_of_times_for_answers_validate_and_fix() {
    // Not dated; a microsecond and a millisecond back; more than that.
    let times =
        [0, 1_700_000_000_000_499, 1_699_999_999_999_500, 1_699_999_999_999_499, 1_600_000_000_000_000];
    for (time_us, is_ordered) in times.into_iter().zip([true, true, true, false, false]) {
        let snapshot = timed(time_us);
        let found = trust(&snapshot, 0);
        assert_eq!(found.first_disorder, (!is_ordered).then_some(2), "{time_us}");
        assert_eq!(found.is_whole(), is_ordered, "{time_us}");
        let has_finding = validate(&snapshot).iter().any(|finding| finding.rule == Rule::Times);
        assert_eq!(has_finding, !is_ordered, "{time_us}");
        if is_ordered {
            assert_eq!(fix(snapshot).changes.len(), 0, "{time_us}");
        }
    }
}

/// A ring that was resized while it held entries, and whose parts do not depend on each other.
#[test]
fn fix_sorts_what_the_answers_call_out_of_order() {
    let pair = |at, time_us| {
        [
            ("alloc", at, 512, time_us),
            ("free_requested", at, 512, time_us + 1),
            ("free_completed", at, 512, time_us + 2),
        ]
    };
    let entries = [&[("segment_alloc", 0, 4096, 1)], &pair(0, 50_000)[..], &pair(1024, 10_000)].concat();
    let snapshot = snapshot(&entries, segment(&[]));
    assert_eq!(trust(&snapshot, 0).first_disorder, Some(4));
    let fixed = fix(snapshot);
    assert_eq!(fixed.changes.len(), 1, "{:?}", fixed.changes);
    assert!(fixed.changes[0].what.starts_with("sorted entries by time"));
    assert!(
        trust(&fixed.snapshot, 0).is_whole()
            && validate(&fixed.snapshot).iter().all(|f| f.rule != Rule::Times)
    );
}

/// A recording that leaves something out either shows it, or has the figures of the one that does not.
#[test]
fn what_claims_to_be_whole_has_the_figures_of_all_events() {
    let all = || Recording::all().context(Context::None);
    let skipping = |actions: &[Action]| all().skip_actions(actions.iter().copied());
    let mut partial = vec![all().max_entries(300), all().min_size(1 << 20), all().sample_every(1 << 22)];
    for (at, one) in Action::ALL.iter().enumerate() {
        partial.extend(Action::ALL[at..].iter().map(|other| skipping(&[*one, *other])));
    }
    let (mut n_whole, mut n_partial, mut wrong) = (0, 0, Vec::new());
    for seed in 0..6 {
        let truth = recorded_as(seed, 200, all());
        for device in [0, 1] {
            let found = trust(&truth, device);
            assert!(found.is_whole(), "seed {seed}, device {device}: {found:?}");
        }
        let figures = |snapshot: &Snapshot, device| {
            let figures = DeviceHistory::new(snapshot, DeviceId::from(device)).figures();
            (figures.peak_bytes, figures.live_bytes, figures.reserved_bytes)
        };
        for history in &partial {
            let snapshot = recorded_as(seed, 200, history.clone());
            let slim = Slim::new().min_bytes(1 << 20).apply(truth.clone()).unwrap();
            for (device, snapshot) in
                [(0, &snapshot), (1, &snapshot), (0, &slim), (0, &fix(snapshot.clone()).snapshot)]
            {
                if !trust(snapshot, device).is_whole() {
                    n_partial += 1;
                    continue;
                }
                n_whole += 1;
                let [found, expected] = [snapshot, &truth].map(|snapshot| figures(snapshot, device));
                if found != expected {
                    wrong.push(format!(
                        "seed {seed}, device {device}: {found:?}, not {expected:?}: {history:?}"
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {n_whole}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(n_whole > 100 && n_partial > 500, "{n_whole} whole, {n_partial} partial");
}
