//! Scopes: which entries are in one, how they are named, and what was allocated between two of them.

use memreel_snapshot::{
    DeviceId, Snapshot,
    analysis::{DeviceHistory, Group},
    history::{Moment, ScopeError, Scopes},
};
use serde_json::{Value, json};

use super::questions::{MIB, frames, snapshot};

#[test]
fn scopes_come_from_metadata_or_from_annotations() {
    let base = 32 * MIB;
    let entries = [
        ("alloc", base, 512, 1),
        ("alloc", base + 512, 512, 1),
        ("alloc", base + 1024, 512, 1),
        ("alloc", base + 1536, 512, 1),
    ];
    let blocks = [(base, 512, 1), (base + 512, 512, 1), (base + 1024, 512, 1), (base + 1536, 512, 1)];
    let plain = snapshot(&entries, &[(base, 2 * MIB, &blocks)]);
    let mut file = serde_json::to_value(&plain).unwrap();
    for at in 0..entries.len() {
        file["device_traces"][0][at]["time_us"] = (at + 10).into();
    }
    let mark = |stage: &str, name: &str, time_us: i64| json!({"stage": stage, "name": name, "device": 0, "time_us": time_us});
    file["external_annotations"] = json!([
        mark("START", "step", 11),
        mark("START", "forward", 12),
        mark("END", "forward", 13),
        mark("END", "step", 13)
    ]);
    let annotated: Snapshot = serde_json::from_value(file.clone()).unwrap();
    let history = DeviceHistory::new(&annotated, DeviceId(0));
    let scopes = Scopes::new(&annotated, DeviceId(0));
    let found: Vec<_> =
        history.lives().iter().map(|life| scopes.of_life(life).map(ToString::to_string)).collect();
    assert_eq!(found, ["", "step", "step/forward", ""].map(|path| Some(path.to_owned())));
    assert_eq!(scopes.end_of("forward"), Ok(Moment(4)));
    assert_eq!(scopes.end_of("nothing"), Err(ScopeError::Unknown { name: "nothing".into() }));
    for (at, scope) in ["", "one", "one/two", "one"].into_iter().enumerate() {
        file["device_traces"][0][at]["user_metadata"] = scope.into();
    }
    let marked: Snapshot = serde_json::from_value(file).unwrap();
    let history = DeviceHistory::new(&marked, DeviceId(0));
    let scopes = Scopes::new(&marked, DeviceId(0));
    let found: Vec<_> =
        history.lives().iter().map(|life| scopes.of_life(life).map(ToString::to_string)).collect();
    assert_eq!(found, ["", "one", "one/two", "one"].map(|path| Some(path.to_owned())));
    assert_eq!(history.grown_between(history.end(), Moment(2)), None, "the window runs backwards");
    let after_one = history.grown_between(Moment(2), history.end()).unwrap();
    assert_eq!(after_one.iter().map(|group| group.n_blocks).sum::<usize>(), 2);
}

/// PyTorch 2.10 to 2.14 add a line of the allocator's to the program's text.
#[test]
fn the_allocators_line_is_not_in_a_scope() {
    let base = 32 * MIB;
    let entries: Vec<_> = (0..4).map(|at| ("alloc", base + at * 512, 512, 1)).collect();
    let mut file = serde_json::to_value(snapshot(&entries, &[])).unwrap();
    for (at, text) in ["step", "step\nmallocWithAddress", "mallocWithAddress", ""].into_iter().enumerate() {
        file["device_traces"][0][at]["user_metadata"] = text.into();
    }
    let file: Snapshot = serde_json::from_value(file).unwrap();
    let texts: Vec<&str> = file.device_traces[0].iter().map(|entry| file.user_metadata(entry)).collect();
    assert_eq!(texts, ["step", "step", "", ""]);
    let scopes = Scopes::new(&file, DeviceId(0));
    let stretches: Vec<_> =
        scopes.stretches().into_iter().map(|(range, path)| (range, path.to_string())).collect();
    assert_eq!(stretches, [(0..2, "step".to_owned())]);
    assert_eq!(scopes.entries_in("step"), [true, true, false, false]);
}

/// The peak of a scope is that of its own moments, the one at which it begins among them.
#[test]
fn the_peak_in_a_scope_is_not_that_of_the_history() {
    let base = 32 * MIB;
    let entries = [
        ("alloc", base, 4 * MIB, 1),
        ("free_completed", base, 4 * MIB, 1),
        ("alloc", base, MIB, 1),
        ("alloc", base + MIB, 8 * MIB, 1),
    ];
    let mut file = serde_json::to_value(snapshot(&entries, &[])).unwrap();
    for (at, text) in ["", "forward/first", "forward", ""].into_iter().enumerate() {
        file["device_traces"][0][at]["user_metadata"] = text.into();
    }
    let file: Snapshot = serde_json::from_value(file).unwrap();
    let history = DeviceHistory::new(&file, DeviceId(0));
    let peak = |scope: &str| history.peak_in(scope).map(|totals| (totals.active_bytes / MIB, totals.moment));
    assert_eq!(history.peak().active_bytes, 9 * MIB);
    assert_eq!(peak("forward"), Some((4, Moment(1))));
    assert_eq!(peak("first"), Some((4, Moment(1))));
    assert_eq!(peak("forward/first"), Some((4, Moment(1))));
    assert_eq!(peak("backward"), None);
}

/// A file of two devices, each with eight allocations a microsecond apart from 1000 or 5000 us on, and with
/// annotated scopes: name, device, start and end.
fn annotated(scopes: &[(&str, u64, i64, Option<i64>)]) -> Snapshot {
    let entry = |device: u64, at: u64| {
        json!({
            "action": "alloc", "addr": (32 + at) * MIB, "size": 512 << at, "stream": 0,
            "time_us": 1000 + 4000 * device + at, "frames": frames(1),
        })
    };
    let traces: Vec<Vec<Value>> = (0..2).map(|device| (0..8).map(|at| entry(device, at)).collect()).collect();
    let mut marks = Vec::new();
    for (name, device, start, end) in scopes {
        let mark = |stage: &str, time_us: i64| {
            (time_us, json!({"stage": stage, "name": name, "device": device, "time_us": time_us}))
        };
        marks.push(mark("START", *start));
        marks.extend(end.map(|end| mark("END", end)));
    }
    marks.sort_by_key(|(time_us, _)| *time_us);
    let marks: Vec<Value> = marks.into_iter().map(|(_, mark)| mark).collect();
    serde_json::from_value(json!({"segments": [], "device_traces": traces, "external_annotations": marks}))
        .unwrap()
}

#[test]
fn a_scope_ends_on_its_own_device() {
    let file = annotated(&[
        ("step", 0, 1000, Some(1001)),
        ("next", 0, 1002, Some(1004)),
        ("step", 1, 5000, Some(5001)),
        ("next", 1, 5002, Some(5004)),
    ]);
    for device in [DeviceId(0), DeviceId(1)] {
        let scopes = Scopes::new(&file, device);
        let ends = ["step", "next"].map(|name| scopes.end_of(name).unwrap());
        assert_eq!(ends, [Moment(2), Moment(5)], "device {device}");
        let history = DeviceHistory::new(&file, device);
        let grown = history.grown_between(ends[0], ends[1]).unwrap();
        assert_eq!((grown.len(), grown[0].bytes), (1, (512 << 2) + (512 << 3) + (512 << 4)));
    }
}

#[test]
fn a_scope_that_repeats_is_named_with_its_number() {
    let file = annotated(&[
        ("step", 0, 1000, Some(1001)),
        ("step", 0, 1002, Some(1003)),
        ("outer/step", 0, 1004, Some(1005)),
        ("ProfilerStep#1", 0, 1001, Some(1006)),
        ("step", 0, 1007, None),
        ("step", 1, 1000, Some(1001)),
    ]);
    let scopes = Scopes::new(&file, DeviceId(0));
    assert_eq!(scopes.end_of("step"), Err(ScopeError::Several { name: "step".into(), n: 4 }));
    let ends = ["step#0", "step#1", "step#2"].map(|text| scopes.end_of(text).unwrap());
    assert_eq!(ends, [Moment(2), Moment(4), Moment(6)]);
    assert_eq!(scopes.end_of("step#3"), Err(ScopeError::Open { name: "step#3".into() }));
    let missing = ScopeError::Missing { name: "step".into(), number: 4, n: 4 };
    assert_eq!(missing.to_string(), "scope \"step\" number 4 does not exist: there are 4, numbered from 0");
    assert_eq!(scopes.end_of("step#4"), Err(missing));
    assert_eq!(scopes.end_of("outer/step"), Ok(Moment(6)));
    assert_eq!(scopes.end_of("ProfilerStep#1"), Ok(Moment(7)), "the whole text is a name");
    assert_eq!(scopes.end_of("ProfilerStep#1#0"), Ok(Moment(7)));
    for text in ["other", "step#", "step#x", "#0", "step#99999999999999999999999"] {
        assert_eq!(scopes.end_of(text), Err(ScopeError::Unknown { name: text.into() }));
    }
    // The runs of entries are numbered where only entries name their scope.
    let mut file = serde_json::to_value(&file).unwrap();
    file["external_annotations"] = json!([]);
    for (at, scope) in ["a", "a/b", "", "a", "b", "", "c", "a"].iter().enumerate() {
        file["device_traces"][0][at]["user_metadata"] = (*scope).into();
    }
    let file: Snapshot = serde_json::from_value(file).unwrap();
    let scopes = Scopes::new(&file, DeviceId(0));
    let ends = ["a#0", "a#1", "a#2", "b#0", "b#1", "a/b", "c"].map(|text| scopes.end_of(text).unwrap().0);
    assert_eq!(ends, [2, 4, 8, 2, 5, 2, 7]);
}

#[test]
fn blocks_from_before_the_history_may_be_older_than_it() {
    let base = 32 * MIB;
    let snapshot = snapshot(
        &[("alloc", base + MIB, 512, 2), ("alloc", base + 2 * MIB, 512, 2)],
        &[(base, 8 * MIB, &[(base, MIB, 1), (base + MIB, 512, 2), (base + 2 * MIB, 512, 2)])],
    );
    let history = DeviceHistory::new(&snapshot, DeviceId(0));
    let bytes = |groups: &[Group]| groups.iter().map(|group| group.bytes).sum::<u64>();
    assert_eq!([1, 2, 3].map(|n| bytes(&history.older_than(n))), [MIB + 512, MIB, 0]);
    assert_eq!(bytes(&history.from_before()), MIB);
}

#[test]
fn stretches_tell_scopes_of_one_name_apart() {
    let file = annotated(&[
        ("step", 0, 1000, Some(1002)),
        ("step", 0, 1002, Some(1004)),
        ("other", 0, 1005, Some(1008)),
        ("inner", 0, 1006, Some(1007)),
    ]);
    let scopes = Scopes::new(&file, DeviceId(0));
    let found: Vec<_> =
        scopes.stretches().into_iter().map(|(range, path)| (range, path.to_string())).collect();
    let expected = [(0..2, "step"), (2..4, "step"), (5..6, "other"), (6..7, "other/inner"), (7..8, "other")];
    assert_eq!(found, expected.map(|(range, path)| (range, path.to_owned())));
}
