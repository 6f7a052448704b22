//! Which events a window keeps of each device: by scope, by number, and without times.

use memreel_snapshot::{
    DeviceId, Snapshot,
    history::Scopes,
    model::TraceEntry,
    rewrite::{Slim, Window},
};
use serde_json::{Value, json};

use crate::recorded::recorded;

#[test]
fn a_scope_has_the_same_number_in_slim_and_in_leaks() {
    let whole = recorded(2, 300);
    let mut plain = whole.clone();
    plain.external_annotations.clear();
    for snapshot in [whole, plain] {
        let scopes = Scopes::new(&snapshot, DeviceId(0));
        let mut n = 0;
        while let Ok(end) = scopes.end_of(&format!("forward#{n}")) {
            let cut = |name: String, nth: Option<usize>| {
                Slim::new().window(Window::Scope { name, nth }).apply(snapshot.clone()).unwrap()
            };
            let window = cut("forward".into(), Some(n));
            assert_eq!(cut(format!("forward#{n}"), None).device_traces, window.device_traces);
            let of_scope = &snapshot.device_traces[0][..end.n_entries()];
            let key = |entry: &TraceEntry| (entry.time_us, entry.address, entry.action);
            let kept = window.device_traces[0].last().map(key);
            assert!(kept.is_none() || kept == of_scope.last().map(key), "number {n} ends at {end:?}");
            n += 1;
        }
        assert!(n > 3, "only {n} scopes");
        let beyond = Window::Scope { name: format!("forward#{n}"), nth: None };
        let message = Slim::new().window(beyond).apply(snapshot.clone()).unwrap_err().to_string();
        assert!(message.contains(&format!("number {n} does not exist")), "{message}");
    }
}

#[test]
fn the_scopes_of_each_device_have_their_own_numbers() {
    let entry = |time_us: i64| json!({"action": "alloc", "addr": time_us << 20, "size": 512, "stream": 0, "time_us": time_us});
    let mark = |stage: &str, device: u64, time_us: i64| json!({"stage": stage, "name": "step", "device": device, "time_us": time_us});
    let scope = |device: u64, start: i64| [mark("START", device, start), mark("END", device, start + 2)];
    // The clock of device 1 is another one.
    let marks: Vec<Value> = [scope(0, 0), scope(1, 1000), scope(0, 4), scope(1, 1004)].concat();
    let trace = |from: i64| (from..from + 8).map(entry).collect::<Vec<_>>();
    let file =
        json!({"segments": [], "device_traces": [trace(0), trace(1000)], "external_annotations": marks});
    let file: Snapshot = serde_json::from_value(file).unwrap();
    for (name, first) in [("step#0", 0), ("step#1", 4)] {
        let window = Window::Scope { name: name.into(), nth: None };
        let cut = Slim::new().window(window).apply(file.clone()).unwrap();
        let times = cut.device_traces.iter().map(|trace| trace.iter().map(|e| e.time_us).collect::<Vec<_>>());
        // The event in the microsecond of the END is in the scope.
        let of = |first: i64| [first, first + 1, first + 2];
        assert_eq!(times.collect::<Vec<_>>(), [of(first), of(1000 + first)], "{name}");
    }
}

/// The clocks of merged ranks may differ by more than their histories last.
#[test]
fn a_window_that_is_open_on_a_side_is_open_for_all_devices() {
    let entry = |time_us: i64| json!({"action": "alloc", "addr": time_us << 20, "size": 512, "stream": 0, "time_us": time_us});
    let trace = |from: i64| (from..from + 8).map(entry).collect::<Vec<_>>();
    let file: Snapshot =
        serde_json::from_value(json!({"segments": [], "device_traces": [trace(1), trace(1000)]})).unwrap();
    for (range, kept) in [(0..8, [8, 8]), (0..99, [8, 8]), (2..8, [6, 8]), (0..6, [6, 0]), (2..6, [4, 0])] {
        let window = Window::Events { device: Some(DeviceId(0)), range: range.clone() };
        let cut = Slim::new().window(window).apply(file.clone()).unwrap();
        assert_eq!(cut.device_traces.iter().map(Vec::len).collect::<Vec<_>>(), kept, "{range:?}");
    }
}

/// A scope that begins or ends with its device's trace is bounded by its time for the other devices.
#[test]
fn a_scope_at_the_end_of_a_trace_is_not_open_for_other_devices() {
    let entry = |time_us: i64, scope: &str| json!({"action": "alloc", "addr": time_us << 20, "size": 512, "stream": 0, "time_us": time_us, "user_metadata": scope});
    let one: Vec<Value> = (1..9).map(|time| entry(time, if time > 4 { "step" } else { "" })).collect();
    let other: Vec<Value> = (1..30).map(|time| entry(time, "")).collect();
    let file: Snapshot =
        serde_json::from_value(json!({"segments": [], "device_traces": [one, other]})).unwrap();
    let window = Window::Scope { name: "step".into(), nth: None };
    let cut = Slim::new().window(window).apply(file.clone()).unwrap();
    assert_eq!(cut.device_traces.iter().map(Vec::len).collect::<Vec<_>>(), [4, 4]);
    let empty = Window::Events { device: Some(DeviceId(0)), range: 8..8 };
    let cut = Slim::new().window(empty).apply(file).unwrap();
    assert_eq!(cut.device_traces.iter().map(Vec::len).collect::<Vec<_>>(), [0, 0]);
}

/// PyTorch writes the time 0 for an event that it cannot date.
#[test]
fn an_event_without_a_time_is_where_its_neighbours_are() {
    let mut whole = recorded(4, 300);
    for trace in &mut whole.device_traces {
        (0..).zip(trace).for_each(|(time, entry)| entry.time_us = 1000 + 10 * time);
    }
    let mut undated = whole.clone();
    for trace in &mut undated.device_traces {
        let last = trace.len() - 1;
        [0, 3, 15, last].iter().for_each(|at| trace[*at].time_us = 0);
    }
    let lengths = |snapshot: &Snapshot, times| {
        let cut = Slim::new().window(Window::Time(times)).apply(snapshot.clone()).unwrap();
        cut.device_traces.iter().map(Vec::len).collect::<Vec<_>>()
    };
    for times in [1100..1205, i64::MIN..1205, 1100..i64::MAX, i64::MIN..i64::MAX, 1010..1205] {
        let mut expected = lengths(&whole, times.clone());
        // The first event has the time of the second.
        expected.iter_mut().for_each(|n| *n += usize::from(times.start == 1010));
        assert_eq!(lengths(&undated, times.clone()), expected, "{times:?}");
    }
    // Without any time all events are at 0.
    undated.device_traces.iter_mut().flatten().for_each(|entry| entry.time_us = 0);
    assert_eq!(lengths(&undated, 0..1), whole.device_traces.iter().map(Vec::len).collect::<Vec<_>>());
    assert_eq!(lengths(&undated, 1..9), [0, 0]);
}
