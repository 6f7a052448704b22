//! The state at any moment, against a naive allocator that remembers all of its states.

use memreel_testing::repository;
use std::collections::BTreeMap;

use memreel_snapshot::{DeviceId, Snapshot, analysis::DeviceHistory, history::Moment, pickle};
use serde_json::{Value, json};

use crate::random::Random;

/// A block as the naive allocator knows it: size asked for, whether its free waits, who asked.
type Held = (u64, bool, u64);

/// Everything at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
struct World {
    blocks: BTreeMap<u64, Held>,
    /// Size by address.
    segments: BTreeMap<u64, u64>,
}

impl World {
    fn active_bytes(&self) -> u64 {
        self.blocks.values().map(|(size, ..)| size).sum()
    }
}

const SEGMENT: u64 = 1 << 20;
const SLOT: u64 = 1 << 16;

/// A random history: its entries, and the world before the first and after each.
fn history(seed: u64, n_entries: usize, shows_allocation_stacks: bool) -> (Vec<Value>, Vec<World>) {
    let mut random = Random::new(seed);
    let (mut entries, mut worlds) = (Vec::new(), vec![World::default()]);
    while entries.len() < n_entries {
        let mut world = worlds.last().unwrap().clone();
        let Some(entry) = step(&mut random, &mut world, shows_allocation_stacks) else { continue };
        let time = entries.len();
        entries.push(entry);
        entries.last_mut().unwrap()["time_us"] = time.into();
        worlds.push(world);
    }
    (entries, worlds)
}

fn frames(line: u64) -> Value {
    json!([{"name": "f", "filename": "x.py", "line": line}])
}

/// Does one thing to the world, if the dice allow it.
fn step(random: &mut Random, world: &mut World, shows_allocation_stacks: bool) -> Option<Value> {
    let segment = 0x10_0000 + random.below(4) * 2 * SEGMENT;
    let address = segment + random.below(SEGMENT / SLOT) * SLOT;
    let said = |action: &str, address: u64, size: u64, line: Option<u64>| {
        let mut entry = json!({"action": action, "addr": address, "size": size, "stream": 0, "time_us": 0});
        line.into_iter().for_each(|line| entry["frames"] = frames(line));
        Some(entry)
    };
    let free_line = |line: u64| if shows_allocation_stacks { line } else { 1000 + line };
    match (random.below(20), world.blocks.get(&address).copied()) {
        (0, _) if !world.segments.contains_key(&segment) => {
            world.segments.insert(segment, SEGMENT);
            said("segment_alloc", segment, SEGMENT, None)
        }
        (1, _) if world.segments.contains_key(&segment) => {
            let is_empty = world.blocks.range(segment..segment + SEGMENT).next().is_none();
            if !is_empty {
                return None;
            }
            world.segments.remove(&segment);
            said("segment_free", segment, SEGMENT, None)
        }
        (2..14, None) if world.segments.contains_key(&segment) => {
            let (size, line) = (1 + random.below(SLOT), 1 + random.below(5));
            world.blocks.insert(address, (size, false, line));
            said("alloc", address, size, Some(line))
        }
        (10..17, Some((size, false, line))) => {
            world.blocks.insert(address, (size, true, line));
            said("free_requested", address, size, Some(free_line(line)))
        }
        (_, Some((size, true, line))) => {
            world.blocks.remove(&address);
            said("free_completed", address, size, Some(free_line(line)))
        }
        _ => None,
    }
}

/// The snapshot that a ring gives which lost all entries before `cut`.
fn snapshot(entries: &[Value], end: &World, cut: usize) -> Snapshot {
    let segments: Vec<Value> =
        end.segments.iter().map(|(address, size)| segment(*address, *size, end)).collect();
    serde_json::from_value(json!({"segments": segments, "device_traces": [entries[cut..]]})).unwrap()
}

fn segment(address: u64, size: u64, end: &World) -> Value {
    let (mut blocks, mut next) = (Vec::new(), address);
    let gap = |next: u64, until: u64, blocks: &mut Vec<Value>| {
        if until > next {
            let size = until - next;
            blocks.push(
                json!({"address": next, "size": size, "requested_size": 0, "state": "inactive", "frames": []}),
            );
        }
    };
    for (at, (requested, is_pending, line)) in end.blocks.range(address..address + size) {
        gap(next, *at, &mut blocks);
        let size = requested.next_multiple_of(512);
        let state = if *is_pending { "active_pending_free" } else { "active_allocated" };
        blocks.push(json!({
            "address": at, "size": size, "requested_size": requested, "state": state, "frames": frames(*line),
        }));
        next = at + size;
    }
    gap(next, address + size, &mut blocks);
    json!({
        "device": 0, "address": address, "total_size": size, "allocated_size": 0, "active_size": 0,
        "requested_size": 0, "stream": 0, "segment_type": "large", "segment_pool_id": [0, 0],
        "is_expandable": false, "frames": [], "blocks": blocks,
    })
}

fn line(snapshot: &Snapshot, stack: Option<memreel_snapshot::model::StackIndex>) -> Option<u64> {
    snapshot.frames(stack).next().map(|frame| frame.line)
}

#[test]
fn every_moment_of_random_histories_is_what_it_was() {
    for seed in 0..60 {
        let shows_allocation_stacks = seed % 2 == 0;
        let (entries, worlds) = history(seed, 300, shows_allocation_stacks);
        for cut in [0, 1, 40, 150, 299, 300] {
            let snapshot = snapshot(&entries, worlds.last().unwrap(), cut);
            let history = DeviceHistory::new(&snapshot, DeviceId(0));
            assert_eq!(history.trust().warnings(), [""; 0], "seed {seed}, cut {cut}");
            check(&snapshot, &history, &worlds[cut..], seed, shows_allocation_stacks && cut <= 150);
        }
    }
}

fn check(snapshot: &Snapshot, history: &DeviceHistory, worlds: &[World], seed: u64, knows_all_stacks: bool) {
    let mut all = history.totals();
    for (n, world) in worlds.iter().enumerate() {
        let moment = Moment(u32::try_from(n).unwrap());
        let blocks: BTreeMap<u64, (u64, bool)> = history
            .lives_at(moment)
            .map(|life| (life.address.0, (life.requested_bytes, !life.is_allocated_at(moment))))
            .collect();
        let expected: BTreeMap<u64, (u64, bool)> =
            world.blocks.iter().map(|(at, (size, is_pending, _))| (*at, (*size, *is_pending))).collect();
        assert_eq!(blocks, expected, "seed {seed}, moment {n}");
        for life in history.lives_at(moment) {
            let stack = line(snapshot, life.stack);
            let is_known = knows_all_stacks || !life.is_from_before() || life.until == Moment::NEVER;
            assert_eq!(stack, is_known.then_some(world.blocks[&life.address.0].2), "seed {seed}, moment {n}");
        }
        let segments: BTreeMap<u64, u64> =
            history.segments_at(moment).iter().map(|range| (range.address.0, range.bytes)).collect();
        assert_eq!(segments, world.segments, "seed {seed}, moment {n}");
        let totals = all.next().unwrap();
        assert_eq!((totals.moment, totals), (moment, history.totals_at(moment)));
        let live = world.blocks.values().filter(|(_, is_pending, _)| !is_pending);
        assert_eq!(totals.allocated_bytes, live.map(|(size, ..)| size).sum::<u64>());
        assert_eq!(totals.active_bytes, world.active_bytes());
        assert_eq!(totals.reserved_bytes, world.segments.values().sum::<u64>());
        assert_eq!(totals.n_blocks, world.blocks.len());
    }
    assert_eq!(all.next(), None);
    let highest = worlds.iter().map(World::active_bytes).max().unwrap();
    let peak = history.peak();
    assert_eq!((peak.active_bytes, worlds[peak.moment.n_entries()].active_bytes()), (highest, highest));
}

fn real(name: &str) -> Snapshot {
    let folder = repository("fixtures/torch-2.11/snapshots");
    pickle::load(folder.join(name)).unwrap()
}

#[test]
fn real_recordings_agree_with_their_segments_and_markers() {
    for name in [
        "cpp_path",
        "expandable_wrapped_ring",
        "graph_private_pools",
        "no_history",
        "oom",
        "oom_fragment",
        "pending_free",
        "resnet18_python_stacks",
        "transformer_all_stacks",
    ] {
        let snapshot = real(&format!("{name}.pickle"));
        for device in 0..u16::try_from(snapshot.device_traces.len()).unwrap() {
            let history = DeviceHistory::new(&snapshot, DeviceId::from(device));
            assert_eq!(history.trust().warnings(), [""; 0], "{name}");
            let end = history.totals_at(history.end());
            let sum = |size: fn(&memreel_snapshot::model::Segment) -> u64| -> u64 {
                history.segments().iter().map(|segment| size(segment)).sum()
            };
            assert_eq!(end.reserved_bytes, sum(|segment| segment.total_size), "{name}");
            assert_eq!(end.rounded_bytes, sum(|segment| segment.active_size), "{name}");
            assert_eq!(end.active_bytes, sum(|segment| segment.requested_size), "{name}");
            // An earlier snapshot left its count of active bytes, rounded.
            for totals in history.totals() {
                let Some(entry) = totals.moment.entry().map(|entry| &history.entries()[entry]) else {
                    continue;
                };
                if entry.action == Some(memreel_snapshot::Action::Snapshot) {
                    assert!(
                        totals.rounded_bytes <= entry.size && totals.n_blocks > 0 || entry.size == 0,
                        "{name}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_ring_that_wrapped_begins_with_what_was_there() {
    let snapshot = real("expandable_wrapped_ring.pickle");
    let certainty = DeviceHistory::new(&snapshot, DeviceId(0)).trust();
    assert_eq!((certainty.n_before, certainty.is_whole(), certainty.is_exact()), (14, false, true));
}

#[test]
fn missing_kinds_of_events_are_told() {
    let (entries, worlds) = history(7, 300, false);
    let without = |skipped: &str| -> Vec<Value> {
        entries
            .iter()
            .filter(|entry| !entry["action"].as_str().unwrap().starts_with(skipped))
            .cloned()
            .collect()
    };
    let end = worlds.last().unwrap();
    let active_bytes = end.active_bytes();
    for (skipped, is_exact) in [
        ("annotate", true),
        ("free_requested", false),
        ("free_completed", false),
        ("alloc", false),
        ("free", false),
    ] {
        let snapshot = snapshot(&without(skipped), end, 0);
        let history = DeviceHistory::new(&snapshot, DeviceId(0));
        assert_eq!(history.trust().is_exact(), is_exact, "{skipped}: {:?}", history.trust());
        if skipped != "free" {
            assert_eq!(history.totals_at(history.end()).active_bytes, active_bytes, "{skipped}");
        }
    }
}
