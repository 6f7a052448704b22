//! The questions of `analysis`, on histories so small that the answers are plain.

use memreel::{Reel, recorder::Recording};
use memreel_snapshot::{
    DeviceId, Snapshot,
    analysis::{self, Axis, By, DeviceHistory, Limits, ShownFrames, Site, WithFrames},
    history::Moment,
};
use serde_json::{Value, json};

use crate::random::Random;

/// An entry by its action, address, size and line; the time is its place.
pub(super) type E<'a> = (&'a str, u64, u64, u64);

pub(super) fn frames(line: u64) -> Value {
    if line == 0 { json!([]) } else { json!([{"name": "f", "filename": "x.py", "line": line}]) }
}

/// A snapshot of entries and segments; a segment is address, size, and blocks of address, size and line.
#[allow(clippy::type_complexity)]
pub(super) fn snapshot(entries: &[E], segments: &[(u64, u64, &[(u64, u64, u64)])]) -> Snapshot {
    let entry = |(time_us, (action, address, size, line)): (usize, &E)| {
        let key = if *action == "oom" { "device_free" } else { "addr" };
        json!({"action": action, key: address, "size": size, "stream": 0, "time_us": time_us, "frames": frames(*line)})
    };
    let segment = |(address, size, blocks): &(u64, u64, &[(u64, u64, u64)])| {
        let mut all = Vec::new();
        let mut next = *address;
        let free = |from: u64, to: u64, all: &mut Vec<Value>| {
            if to > from {
                all.push(json!({"address": from, "size": to - from, "requested_size": 0, "state": "inactive", "frames": []}));
            }
        };
        for (at, bytes, line) in *blocks {
            free(next, *at, &mut all);
            all.push(json!({
                "address": at, "size": bytes, "requested_size": bytes, "state": "active_allocated", "frames": frames(*line),
            }));
            next = at + bytes;
        }
        free(next, address + size, &mut all);
        json!({
            "device": 0, "address": address, "total_size": size, "allocated_size": 0, "active_size": 0,
            "requested_size": 0, "stream": 0, "segment_type": "large", "segment_pool_id": [0, 0],
            "is_expandable": false, "frames": [], "blocks": all,
        })
    };
    let entries: Vec<Value> = entries.iter().enumerate().map(entry).collect();
    let segments: Vec<Value> = segments.iter().map(segment).collect();
    serde_json::from_value(json!({"segments": segments, "device_traces": [entries]})).unwrap()
}

pub(super) const MIB: u64 = 1 << 20;

pub(super) fn lines(snapshot: &Snapshot, site: &Site) -> u64 {
    match site {
        Site::Stack(stack) => snapshot.stacks.frames(*stack).next().unwrap().line,
        _ => 0,
    }
}

#[test]
fn the_tallest_moment_names_its_holders() {
    let base = 32 * MIB;
    let snapshot = snapshot(
        &[
            ("segment_alloc", base, 8 * MIB, 0),
            ("alloc", base, MIB, 1),
            ("alloc", base + MIB, 2 * MIB, 2),
            ("alloc", base + 3 * MIB, MIB, 1),
            ("free_requested", base + MIB, 2 * MIB, 9),
            ("free_completed", base + MIB, 2 * MIB, 9),
            ("alloc", base + MIB, MIB, 3),
        ],
        &[(base, 8 * MIB, &[(base, MIB, 1), (base + MIB, MIB, 3), (base + 3 * MIB, MIB, 1)])],
    );
    let history = DeviceHistory::new(&snapshot, DeviceId(0));
    assert!(history.trust().is_whole());
    let peak = history.peak();
    assert_eq!((peak.moment, peak.active_bytes), (Moment(4), 4 * MIB));
    let found: Vec<_> = history
        .top(peak.moment, By::Stack)
        .iter()
        .map(|group| (lines(&snapshot, &group.site), group.bytes, group.n_blocks))
        .collect();
    assert_eq!(found, [(1, 2 * MIB, 2), (2, 2 * MIB, 1)]);
    let shown = ShownFrames::new(&snapshot);
    let written: Vec<Value> = history
        .top(peak.moment, By::Stack)
        .iter()
        .map(|group| serde_json::to_value(WithFrames::new(group, &shown)).unwrap())
        .collect();
    let object = |n_blocks: u64, line| json!({"bytes": 2 * MIB, "blocks": n_blocks, "total_bytes": 2 * MIB, "stacks": 1, "stack": [{"name": "f", "filename": "x.py", "line": line, "is_shown": true}]});
    assert_eq!(written, [object(2, 1), object(1, 2)]);
    let written = serde_json::to_value(peak).unwrap();
    assert_eq!((&written["event"], &written["active_bytes"]), (&json!(3), &json!(4 * MIB)));
    let at_end = history.top(history.end(), By::Function);
    assert_eq!((at_end.len(), at_end[0].bytes, at_end[0].total_bytes), (1, 3 * MIB, 3 * MIB));
}

#[test]
fn waste_is_between_blocks() {
    let base = 32 * MIB;
    let snapshot =
        snapshot(&[], &[(base, 20 * MIB, &[(base + 4 * MIB, 512, 7)]), (base + 32 * MIB, 2 * MIB, &[])]);
    let history = DeviceHistory::new(&snapshot, DeviceId(0));
    let found = history.fragmentation(history.end());
    assert_eq!((found.n_free, found.largest_free_bytes), (3, 16 * MIB - 512));
    assert_eq!((found.free_bytes, found.empty_bytes), (22 * MIB - 512, 2 * MIB));
    assert_eq!((found.pinned.len(), found.pinned[0].n_blocks, found.pinned[0].used_bytes), (1, 1, 512));
    assert_eq!(lines(&snapshot, &Site::from_life(&found.pinned[0].largest)), 7);
}

#[test]
fn blocks_in_no_segment_are_in_the_figures_and_in_a_list_of_their_own() {
    let base = 32 * MIB;
    let entries = [("alloc", base, MIB, 1), ("alloc", base + 64 * MIB, 2 * MIB, 2), ("alloc", 4096, 512, 3)];
    let snapshot = snapshot(&entries, &[(base, 2 * MIB, &[(base, MIB, 1)])]);
    let history = DeviceHistory::new(&snapshot, DeviceId(0));
    let outside: Vec<u64> =
        history.outside_segments(history.end()).iter().map(|life| life.address.0).collect();
    assert_eq!(outside, [4096, base + 64 * MIB]);
    assert_eq!(history.outside_segments(Moment(1)).len(), 0);
    assert_eq!(history.totals_at(history.end()).active_bytes, 3 * MIB + 512);
}

#[test]
fn a_private_pool_that_nobody_uses_is_idle() {
    let base = 32 * MIB;
    let plain = snapshot(
        &[("free_completed", base + 64 * MIB, 512, 7)],
        &[
            (base, 2 * MIB, &[]),
            (base + 32 * MIB, 4 * MIB, &[]),
            (base + 64 * MIB, 2 * MIB, &[]),
            (base + 96 * MIB, 2 * MIB, &[(base + 96 * MIB, 512, 1)]),
            (base + 128 * MIB, 2 * MIB, &[]),
        ],
    );
    let mut file = serde_json::to_value(&plain).unwrap();
    for (at, pool) in [[0, 0], [3, 0], [3, 0], [4, 0], [4, 0]].into_iter().enumerate() {
        file["segments"][at]["segment_pool_id"] = json!(pool);
    }
    let file: Snapshot = serde_json::from_value(file).unwrap();
    let history = DeviceHistory::new(&file, DeviceId(0));
    let idle: Vec<_> = history
        .idle_pools(history.end())
        .iter()
        .map(|pool| (pool.pool.to_string(), pool.reserved_bytes / MIB, pool.n_segments))
        .collect();
    assert_eq!(idle, [("(3, 0)".to_owned(), 6, 2)]);
    // Before its last block was freed it was used.
    assert!(history.idle_pools(Moment::START).is_empty());
}

#[test]
fn only_what_grows_is_a_leak() {
    let base = 32 * MIB;
    let mut entries: Vec<E> = vec![("segment_alloc", base, 64 * MIB, 0), ("alloc", base, 16 * MIB, 1)];
    // Several weights, all early.
    let weights = (0..4).map(|n| (base + (50 + n) * MIB, MIB, 5));
    entries.extend(weights.clone().map(|(at, size, line)| ("alloc", at, size, line)));
    let mut blocks = vec![(base, 16 * MIB, 1)];
    blocks.extend(weights);
    for step in 1..=8 {
        let at = base + 16 * MIB + step * MIB;
        entries.push(("alloc", at, 4096, 2));
        entries.push(("alloc", base + 40 * MIB, MIB, 3));
        entries.push(("free_requested", base + 40 * MIB, MIB, 4));
        entries.push(("free_completed", base + 40 * MIB, MIB, 4));
        blocks.push((at, 4096, 2));
    }
    blocks.sort_unstable();
    let snapshot = snapshot(&entries, &[(base, 64 * MIB, &blocks)]);
    let history = DeviceHistory::new(&snapshot, DeviceId(0));
    let found = history.leaks();
    let told: Vec<_> =
        found.iter().map(|site| (lines(&snapshot, &site.site), site.is_growing, site.n_live)).collect();
    assert_eq!(told, [(2, true, 8), (1, false, 1), (5, false, 4)]);
    let busiest = &history.churn()[0];
    assert_eq!((lines(&snapshot, &busiest.site), busiest.n_cycles, busiest.size_bytes), (3, 8, MIB));
    assert_eq!((busiest.bytes, busiest.mean_life_entries), (8 * MIB, 2));
}

#[test]
fn blocks_from_before_both_histories_are_no_difference() {
    let base = 32 * MIB;
    // Of the first history nothing is recorded; the second frees one old block and adds one.
    let before = snapshot(&[], &[(base, 8 * MIB, &[(base, MIB, 1), (base + MIB, 2 * MIB, 2)])]);
    let after = snapshot(
        &[
            ("free_requested", base + MIB, 2 * MIB, 9),
            ("free_completed", base + MIB, 2 * MIB, 9),
            ("alloc", base + 4 * MIB, 4096, 3),
        ],
        &[(base, 8 * MIB, &[(base, MIB, 1), (base + 4 * MIB, 4096, 3)])],
    );
    let [one, other] = [&before, &after].map(|snapshot| DeviceHistory::new(snapshot, DeviceId(0)));
    let changes = one.diff(one.end(), &other, other.end());
    let told: Vec<_> =
        changes.iter().map(|change| (change.bytes(), change.n_blocks(), change.before.is_some())).collect();
    // A diff of the traces would say +4096 - 2 MiB of an unknown site, and -1 MiB of the block that stayed.
    assert_eq!(told, [(4096, 1, false), (-2 * i128::from(MIB), -1, true)]);
    // At its start the second holds what the first does.
    let at_start: u64 = other.top(Moment::START, By::Stack).iter().map(|group| group.bytes).sum();
    assert_eq!(at_start, 3 * MIB);
}

#[test]
fn a_timeline_keeps_the_highest_of_each_stretch() {
    let base = 32 * MIB;
    let mut entries: Vec<E> = vec![("segment_alloc", base, 64 * MIB, 0)];
    for step in 0..50 {
        let size = if step == 33 { 5 * MIB } else { MIB };
        entries.push(("alloc", base, size, 1));
        entries.push(("free_requested", base, size, 1));
        entries.push(("free_completed", base, size, 1));
    }
    let snapshot = snapshot(&entries, &[(base, 64 * MIB, &[])]);
    let history = DeviceHistory::new(&snapshot, DeviceId(0));
    for (axis, n_points) in
        [(Axis::Events, 7), (Axis::Time, 7), (Axis::Events, 1), (Axis::Time, 400), (Axis::Events, 400)]
    {
        let points = history.timeline(axis, n_points);
        assert_eq!(points.iter().map(|point| point.highest.active_bytes).max(), Some(5 * MIB));
        assert_eq!(points.last().unwrap().highest.moment, history.end());
        assert!(points.len() <= n_points, "{} points of {n_points}", points.len());
    }
}

#[test]
fn a_test_is_held_to_its_peak() {
    let reel = Reel::builder().history(Recording::all()).build().unwrap();
    let kept = reel.alloc(1000).unwrap();
    drop(reel.alloc(2000).unwrap());
    memreel_snapshot::assert_peak!(reel.snapshot(), 3000);
    memreel_snapshot::assert_live!(reel.snapshot(), 1000);
    let snapshot = reel.snapshot();
    let over = std::panic::catch_unwind(|| memreel_snapshot::assert_peak!(snapshot, 2999)).unwrap_err();
    let told = over.downcast_ref::<String>().unwrap();
    assert!(told.starts_with("peak: 3000 bytes on device 0, more than 2999\n  "), "{told}");
    assert!(told.contains("a_test_is_held_to_its_peak"), "who allocated is told: {told}");
    assert!(std::panic::catch_unwind(|| memreel_snapshot::assert_live!(snapshot, 999)).is_err());
    drop(kept);
    memreel_snapshot::assert_live!(reel.snapshot(), 0);
}

#[test]
fn nonsense_has_answers_and_no_panic() {
    const ACTIONS: [&str; 10] = [
        "alloc",
        "free_requested",
        "free_completed",
        "segment_alloc",
        "segment_free",
        "segment_map",
        "segment_unmap",
        "oom",
        "snapshot",
        "other",
    ];
    const STATES: [&str; 3] = ["active_allocated", "active_pending_free", "inactive"];
    const MOST: u64 = i64::MAX as u64;
    let mut random = Random::new(1);
    for round in 0..400 {
        let mut number = |limit| random.below(limit);
        let size = |number: &mut dyn FnMut(u64) -> u64| match number(4) {
            0 => MOST - number(3),
            1 => 0,
            _ => number(100),
        };
        let entries: Vec<Value> = (0..number(40))
            .map(|_| {
                let action = ACTIONS[usize::try_from(number(10)).unwrap()];
                let (address, bytes) = (size(&mut number), size(&mut number));
                json!({
                    "action": action, "addr": address, "size": bytes, "stream": number(2), "time_us": number(30),
                    "frames": frames(number(3)), "user_metadata": (["", "a", "a/b"][usize::try_from(number(3)).unwrap()]),
                })
            })
            .collect();
        let segments: Vec<Value> = (0..number(5))
            .map(|_| {
                let blocks: Vec<Value> = (0..number(5))
                    .map(|_| {
                        let state = STATES[usize::try_from(number(3)).unwrap()];
                        let (address, bytes, requested) =
                            (size(&mut number), size(&mut number), size(&mut number));
                        json!({
                            "address": address, "size": bytes, "requested_size": requested, "state": state,
                            "frames": frames(number(3)),
                        })
                    })
                    .collect();
                json!({
                    "device": number(3) as i64 - 1, "address": size(&mut number), "total_size": size(&mut number),
                    "stream": number(2), "is_expandable": number(2) == 1, "segment_pool_id": [0, number(2)],
                    "segment_type": (["small", "large"][usize::try_from(number(2)).unwrap()]),
                    "allocated_size": size(&mut number), "blocks": blocks,
                })
            })
            .collect();
        let file = json!({"segments": segments, "device_traces": [entries, []]});
        let snapshot: Snapshot = serde_json::from_value(file).unwrap();
        ask_everything(&snapshot, round);
    }
}

fn ask_everything(snapshot: &Snapshot, round: usize) {
    for device in [DeviceId(0), DeviceId(1), DeviceId(7)] {
        let history = DeviceHistory::new(snapshot, device);
        let n = history.entries().len();
        for moment in [0, 1, n / 2, n].map(|at| Moment(u32::try_from(at).unwrap())) {
            let held = history.lives_at(moment).count();
            assert_eq!(history.totals_at(moment).n_blocks, held, "round {round}, {moment:?}");
            for segment in history.layout(moment) {
                assert!(segment.free_bytes() <= segment.range.bytes, "round {round}");
            }
            for by in [By::Stack, By::Function, By::File, By::Scope] {
                let blocks: usize = history.top(moment, by).iter().map(|group| group.n_blocks).sum();
                assert_eq!(blocks, held, "round {round}, {by:?}");
            }
            let _ = (history.tree(moment, 1), history.fragmentation(moment), history.older_than(3));
            let _ = history.diff(moment, &history, history.end());
        }
        let _ = (history.leaks(), history.churn(), history.oom(), history.figures());
        let _ = (history.timeline(Axis::Time, 7), history.timeline(Axis::Events, 7));
        let _ = (history.trust().warnings(), history.grown_between(Moment::START, history.end()));
        for naming in [analysis::Naming::PyTorch, analysis::Naming::Recycled] {
            assert_eq!(analysis::trace_lines(snapshot, device, naming).count(), n);
        }
        let _ = history.stats();
    }
    let _ = (
        analysis::compare(snapshot, snapshot),
        Limits::new().peak_bytes(0).live_bytes(0).broken_by(snapshot),
    );
    analysis::folded(snapshot, None, analysis::Grouping::Segments, |_, _| Ok::<(), ()>(())).unwrap();
}
