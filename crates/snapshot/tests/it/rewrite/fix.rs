//! `rewrite::fix`: sound snapshots stay as they are; what is broken has no error that a viewer throws on.

use memreel::recorder::Recording;
use memreel_snapshot::{
    Action, Snapshot,
    model::TraceEntry,
    rewrite::{Fixed, fix},
    validate::{Severity, validate},
};
use serde_json::{Value, json};

use crate::recorded::{recorded, recorded_as};
use crate::{fixtures::snapshots, random::Random};

/// The rules whose breach `fix` repairs.
const REPAIRED: &[u8] = &[1, 2, 8, 9, 12, 13, 16, 18, 19, 21, 22, 23, 24, 25, 26, 27];

/// Findings on which a reader throws.
fn errors(snapshot: &Snapshot) -> Vec<String> {
    let all = validate(snapshot);
    let errors = all.iter().filter(|finding| finding.severity == Severity::Error);
    errors.filter(|finding| REPAIRED.contains(&finding.rule.number())).map(ToString::to_string).collect()
}

/// Fixes what is broken, and then finds nothing left to do.
fn repaired(broken: Snapshot, what: &str) -> Fixed {
    let fixed = fix(broken);
    assert_eq!(errors(&fixed.snapshot), [""; 0], "{what}: {:?}", fixed.changes);
    let again = fix(fixed.snapshot.clone());
    assert_eq!(again.changes, [], "{what}: {:?}", fixed.changes);
    fixed
}

fn json(snapshot: &Snapshot) -> Value {
    serde_json::to_value(snapshot).unwrap()
}

/// Its segments have no device, and `fix` cannot know it.
const WITHOUT_DEVICES: &str = "stats2.pickle";

#[test]
fn fixtures_of_every_layout_are_changed_only_where_they_are_broken() {
    for (name, snapshot) in snapshots() {
        let is_sound = validate(&snapshot).iter().all(|finding| finding.severity != Severity::Error);
        let fixed = match name.ends_with(WITHOUT_DEVICES) {
            true => fix(snapshot.clone()),
            false => repaired(snapshot.clone(), &name),
        };
        assert_eq!(fixed.changes.is_empty(), is_sound, "{name}: {:?}", fixed.changes);
        if is_sound {
            assert_eq!(json(&fixed.snapshot), json(&snapshot), "{name}");
        }
    }
}

#[test]
fn a_sound_snapshot_stays_as_it_is() {
    for seed in 0..60 {
        let snapshot = recorded(seed, 400);
        let fixed = fix(snapshot.clone());
        assert_eq!(fixed.changes, [], "seed {seed}");
        assert_eq!(json(&fixed.snapshot), json(&snapshot));
        let ring = Recording::all().max_entries(90);
        assert_eq!(fix(recorded_as(seed, 400, ring)).changes, [], "seed {seed}, a ring that wrapped");
    }
}

/// PyTorch 2.0 wrote a block's `history` only where it was known; the block's size is rounded.
#[test]
fn a_block_without_a_requested_size_changes_no_event() {
    let block = json!({"size": 1024, "state": "active_allocated"});
    let rest = json!({"size": (2 << 20) - 1024, "state": "inactive"});
    let segment = json!({
        "device": 0, "address": 4096, "total_size": 2 << 20, "allocated_size": 1024, "active_size": 1024,
        "stream": 0, "segment_type": "small", "blocks": [block, rest],
    });
    let entry = |action: &str, size: u64| json!({"action": action, "addr": 4096, "size": size, "stream": 0, "frames": []});
    let trace = json!([entry("segment_alloc", 2 << 20), entry("alloc", 1000)]);
    let fixed = fix(from(&json!({"segments": [segment], "device_traces": [trace]})));
    let sizes: Vec<u64> = fixed.snapshot.device_traces[0].iter().map(|entry| entry.size).collect();
    assert_eq!(sizes, [2 << 20, 1000], "{:?}", fixed.changes);
}

/// With one block nothing shows whether its address or its segment's is wrong; viewers take the segment's.
#[test]
fn the_address_of_an_only_block_changes_no_event() {
    let (address, bytes) = (1_u64 << 28, 20 << 20);
    let block = json!({
        "address": address + (1 << 30), "size": bytes, "requested_size": bytes, "state": "active_allocated", "frames": [],
    });
    let segment = json!({
        "device": 0, "address": address, "total_size": bytes, "allocated_size": bytes, "active_size": bytes,
        "requested_size": bytes, "stream": 0, "segment_type": "large", "blocks": [block],
    });
    let entry =
        |action: &str| json!({"action": action, "addr": address, "size": bytes, "stream": 0, "frames": []});
    let trace = json!([entry("segment_alloc"), entry("alloc")]);
    let fixed = fix(from(&json!({"segments": [segment], "device_traces": [trace]})));
    assert_eq!(fixed.snapshot.device_traces[0].len(), 2, "{:?}", fixed.changes);
}

#[test]
fn a_block_whose_segment_is_gone_ends_once() {
    let entry = |action, size| json!({"action": action, "addr": 1 << 28, "size": size, "stream": 0, "time_us": 1, "frames": []});
    let trace = [entry("segment_alloc", 2 << 20), entry("alloc", 512)];
    let broken: Snapshot = serde_json::from_value(json!({"segments": [], "device_traces": [trace]})).unwrap();
    let Fixed { snapshot, changes, .. } = repaired(broken, "no end");
    let actions: Vec<_> =
        snapshot.device_traces[0].iter().map(|entry| entry.action.unwrap().name()).collect();
    assert_eq!(actions, ["segment_alloc", "alloc", "free_requested", "free_completed", "segment_free"]);
    assert_eq!(changes.iter().map(|change| change.count).sum::<usize>(), 2, "{changes:?}");
}

#[test]
fn what_skip_actions_left_out_is_put_back() {
    let kinds = [
        Action::Alloc,
        Action::FreeRequested,
        Action::FreeCompleted,
        Action::SegmentAlloc,
        Action::SegmentFree,
        Action::SegmentMap,
        Action::SegmentUnmap,
    ];
    let mut n_broken = 0;
    for seed in 0..40 {
        for set in 1u32..128 {
            // Every set of one seed in eight, and single kinds of all.
            if seed % 8 != 0 && set.count_ones() > 1 {
                continue;
            }
            let skipped = kinds.iter().enumerate().filter(|(bit, _)| set >> bit & 1 == 1);
            let skipped: Vec<_> = skipped.map(|(_, action)| *action).collect();
            // PyTorch leaves them out; memreel's own recordings are completed when they are written.
            let mut broken = recorded(seed, 300);
            for trace in &mut broken.device_traces {
                trace.retain(|entry| entry.action.is_none_or(|action| !skipped.contains(&action)));
            }
            n_broken += usize::from(!errors(&broken).is_empty());
            repaired(broken, &format!("seed {seed} without {skipped:?}"));
        }
    }
    assert!(n_broken > 400, "only {n_broken} were broken");
}

#[test]
fn the_pairs_that_skip_actions_tore_apart_are_whole_again() {
    for seed in 0..40 {
        let whole = recorded(seed, 300);
        let mut broken = whole.clone();
        for trace in &mut broken.device_traces {
            trace.retain(|entry| entry.action != Some(Action::FreeCompleted));
        }
        let fixed = repaired(broken, "completions");
        for (trace, original) in fixed.snapshot.device_traces.iter().zip(&whole.device_traces) {
            let count = |trace: &[TraceEntry], action| {
                trace.iter().filter(|entry| entry.action == Some(action)).count()
            };
            for action in Action::ALL.iter().copied() {
                assert_eq!(count(trace, action), count(original, action), "seed {seed}, {action:?}");
            }
        }
    }
}

#[test]
fn a_ring_that_was_resized_is_put_in_order() {
    for seed in 0..60 {
        let whole = recorded(seed, 300);
        let mut broken = whole.clone();
        let mut time = 0;
        let mut original = whole.clone();
        for trace in original.device_traces.iter_mut().chain(&mut broken.device_traces) {
            trace.iter_mut().for_each(|entry| {
                time += 1;
                entry.time_us = time;
            });
            time = 0;
        }
        let mut random = Random::new(seed);
        let trace = &mut broken.device_traces[0];
        let middle = 1 + random.index(trace.len() - 1);
        trace.rotate_left(middle);
        if errors(&broken).is_empty() {
            continue;
        }
        let fixed = fix(broken);
        assert_eq!(fixed.snapshot.device_traces, original.device_traces, "seed {seed}: {:?}", fixed.changes);
        assert!(fixed.changes[0].what.contains("sorted entries by time"), "{:?}", fixed.changes);
    }
}

/// Entries lost, doubled, exchanged and moved without any sense.
#[test]
fn whatever_was_done_to_a_trace_it_ends_sound() {
    let mut n_broken = 0;
    for seed in 0..600 {
        let mut snapshot = recorded(seed, 150);
        let mut random = Random::new(seed);
        let trace = &mut snapshot.device_traces[0];
        for _ in 0..=random.index(12) {
            let at = random.index(trace.len());
            match random.index(6) {
                0 => drop(trace.remove(at)),
                1 => trace.insert(at, trace[random.index(trace.len())]),
                2 => {
                    let other = random.index(trace.len());
                    trace.swap(at, other);
                }
                3 => trace[at].address.0 += 512,
                4 => trace[at].size = random.index(1 << 22) as u64,
                _ => trace.truncate(1.max(trace.len() - random.index(4))),
            }
        }
        n_broken += usize::from(!errors(&snapshot).is_empty());
        repaired(snapshot, &format!("seed {seed}"));
    }
    assert!(n_broken > 400, "only {n_broken} were broken");
}

fn from(json: &Value) -> Snapshot {
    serde_json::from_value(json.clone()).unwrap()
}

/// What must be told, and how the snapshot is broken.
type Row = (&'static str, fn(&mut Value));

#[test]
fn one_small_thing_after_the_other() {
    // The rows change a block in use, a free block behind it, and an entry with an address.
    let fits = |json: &Value| {
        let blocks = json["segments"][0]["blocks"].as_array().unwrap();
        blocks[0]["state"] == "active_allocated"
            && blocks.last().unwrap()["state"] == "inactive"
            && json["device_traces"][0][2]["addr"].is_u64()
    };
    let valid = (0..50).map(|seed| json(&recorded(seed, 60))).find(fits).expect("one of 50 fits");
    let entry = "/device_traces/0/4";
    let rows: &[Row] = &[
        ("added the missing list", |j| drop(j.as_object_mut().unwrap().remove("segments"))),
        ("added empty traces for devices that had none", |j| j["device_traces"] = json!([])),
        ("dropped segments without a device", |j| j["segments"][0]["device"] = json!(-1)),
        ("added missing keys that the viewer needs", |j| {
            j["segments"][0].as_object_mut().unwrap().remove("blocks");
        }),
        ("filled the rest of a segment with a free block", |j| {
            let blocks = j["segments"][0]["blocks"].as_array_mut().unwrap();
            while blocks.last().unwrap()["state"] == "inactive" {
                blocks.pop();
            }
        }),
        ("changed the unknown state of a block to one of PyTorch's", |j| {
            j["segments"][0]["blocks"][0]["state"] = json!("active_awaiting_free");
        }),
        ("gave entries without a category the category \"unknown\", which older viewers need", |j| {
            j["device_traces"][0][2]["category"] = json!("parameter");
        }),
        ("added a marker of the category \"unknown\", which older viewers need", |j| {
            for trace in j["device_traces"].as_array_mut().unwrap() {
                trace.as_array_mut().unwrap().iter_mut().for_each(|entry| entry["category"] = json!("x"));
            }
        }),
        ("dropped entries without an address or a size", |j| {
            j["device_traces"][0][2].as_object_mut().unwrap().remove("addr");
        }),
        ("removed `frames` that are not a list of frames", |j| {
            j["device_traces"][0][2]["frames"] = json!(null)
        }),
        ("removed `frames` that are not a list of frames", |j| {
            j["segments"][0]["frames"] = json!(7);
            j["segments"][0]["blocks"][0]["frames"] = json!(null);
        }),
        ("added the missing `requested_size` of a block with `frames`", |j| {
            j["segments"][0]["blocks"][0].as_object_mut().unwrap().remove("requested_size");
        }),
    ];
    assert!(valid.pointer(entry).is_some());
    for (told, breaks) in rows {
        let mut broken = valid.clone();
        breaks(&mut broken);
        let fixed = repaired(from(&broken), told);
        assert!(fixed.changes.iter().any(|change| change.what == *told), "{told}: {:?}", fixed.changes);
    }
}
