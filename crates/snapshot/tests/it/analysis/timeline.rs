//! `DeviceHistory::timeline`: its points are the figures of the moments that they stand for.

use memreel_snapshot::{
    DeviceId, Snapshot,
    analysis::{Axis, DeviceHistory, Point, Totals},
};
use serde_json::{Value, json};

/// Blocks at 0, 1024 and 2048, each with its time; the first two are freed.
fn history(times: [i64; 8]) -> Snapshot {
    let actions = [
        ("segment_alloc", 0, 4096),
        ("alloc", 0, 1024),
        ("alloc", 1024, 512),
        ("free_requested", 0, 1024),
        ("free_completed", 0, 1024),
        ("free_requested", 1024, 512),
        ("free_completed", 1024, 512),
        ("segment_free", 0, 4096),
    ];
    let entry = |((action, addr, size), time_us): ((&str, u64, u64), i64)| json!({"action": action, "addr": addr + 4096, "size": size, "stream": 0, "time_us": time_us});
    let entries: Vec<Value> = actions.into_iter().zip(times).map(entry).collect();
    serde_json::from_value(json!({"segments": [], "device_traces": [entries]})).unwrap()
}

fn highest(points: &[Point]) -> Vec<Totals> {
    points.iter().map(|point| point.highest).collect()
}

#[test]
fn a_point_for_each_moment_has_the_figures_of_that_moment() {
    let snapshot = history([1, 2, 3, 4, 5, 6, 7, 8]);
    let history = DeviceHistory::new(&snapshot, DeviceId(0));
    let all: Vec<Totals> = history.totals().collect();
    assert_eq!(highest(&history.timeline(Axis::Events, 1000)), all);
    // Two moments a point: the higher one, and nothing from before.
    let halves = history.timeline(Axis::Events, 5);
    let allocated: Vec<u64> = halves.iter().map(|point| point.highest.allocated_bytes).collect();
    assert_eq!(allocated, [0, 1536, 512, 0, 0]);
}

#[test]
fn along_time_the_state_before_holds_until_the_entry() {
    let snapshot = history([0, 10, 20, 30, 30, 45, 45, 79].map(|time_us| 1_000_000 + time_us));
    let history = DeviceHistory::new(&snapshot, DeviceId(0));
    // Each point is 10 us. The free at 30 is at the beginning of its point, the one at 45 in the middle.
    let points = history.timeline(Axis::Time, 8);
    let allocated: Vec<u64> = points.iter().map(|point| point.highest.allocated_bytes).collect();
    assert_eq!(allocated, [0, 1024, 1536, 512, 512, 0, 0, 0]);
    let reserved: Vec<u64> = points.iter().map(|point| point.highest.reserved_bytes).collect();
    assert_eq!(reserved, [4096; 8]);
}

#[test]
fn an_entry_without_a_time_moves_no_other() {
    let dated = history([5, 10, 20, 20, 30, 45, 50, 79].map(|time_us| 1_000_000 + time_us));
    let mut undated = dated.clone();
    undated.device_traces[0][3].time_us = 0;
    let points = |snapshot: &Snapshot| DeviceHistory::new(snapshot, DeviceId(0)).timeline(Axis::Time, 9);
    assert_eq!(points(&undated), points(&dated));
    assert_eq!(DeviceHistory::new(&undated, DeviceId(0)).span_us(), Some(74));
    // No times are no span of 0.
    undated.device_traces[0].iter_mut().for_each(|entry| entry.time_us = 0);
    assert_eq!(DeviceHistory::new(&undated, DeviceId(0)).span_us(), None);
}
