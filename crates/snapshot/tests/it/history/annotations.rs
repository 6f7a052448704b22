//! `annotate` entries name blocks, and are not scopes.

use memreel_snapshot::{
    DeviceId, Snapshot,
    analysis::{By, DeviceHistory, Site},
    export::{Format, convert},
    history::{Moment, Scopes},
    rewrite::{Slim, Window},
};
use serde_json::{Value, json};

/// Two blocks, each in an annotated scope, and an entry that names the first block.
fn annotated() -> Snapshot {
    let entry = |action: &str, address: u64, time_us: u64, text: &str| -> Value {
        json!({
            "action": action, "addr": address, "size": 512, "stream": 0, "time_us": time_us, "user_metadata": text,
            "frames": [],
        })
    };
    let mark = |stage: &str, name: &str, time_us: u64| -> Value {
        json!({"stage": stage, "name": name, "device": 0, "time_us": time_us})
    };
    let block = |address: u64| -> Value {
        json!({
            "address": address, "size": 512, "requested_size": 512, "state": "active_allocated", "frames": [],
        })
    };
    serde_json::from_value(json!({
        "segments": [{
            "device": 0, "address": 4096, "total_size": 1024, "allocated_size": 1024, "active_size": 1024,
            "requested_size": 1024, "stream": 0, "segment_type": "small", "segment_pool_id": [0, 0],
            "is_expandable": false, "frames": [], "blocks": [block(4096), block(4608)],
        }],
        "device_traces": [[
            entry("alloc", 4096, 10, ""), entry("annotate", 4096, 11, "weights"), entry("alloc", 4608, 20, ""),
        ]],
        "external_annotations": [
            mark("START", "forward", 9), mark("END", "forward", 15), mark("START", "backward", 16),
        ],
    }))
    .unwrap()
}

#[test]
fn naming_a_block_leaves_the_scopes() {
    let snapshot = annotated();
    let scopes = Scopes::new(&snapshot, DeviceId(0));
    assert_eq!(scopes.paths(), ["forward", "backward"]);
    let history = DeviceHistory::new(&snapshot, DeviceId(0));
    let mut groups: Vec<Site> =
        history.top(history.end(), By::Scope).into_iter().map(|group| group.site).collect();
    groups.sort();
    assert_eq!(groups, ["backward", "forward"].map(|scope| Site::Scope(scope.into())));
    let slim = Slim::new().window(Window::Scope { name: "weights".into(), nth: None });
    assert!(slim.apply(snapshot).is_err(), "a block's name is not a scope");
}

#[test]
fn csv_has_the_scopes_that_annotations_give() {
    let mut csv = Vec::new();
    convert(&annotated(), Format::Csv, &mut csv).unwrap();
    let csv = String::from_utf8(csv).unwrap();
    let scopes: Vec<&str> = csv.lines().skip(1).map(|line| line.split(',').nth(7).unwrap()).collect();
    assert_eq!(scopes, ["forward", "weights", "backward"]);
}

/// `annotated`, with changed times or texts of its three entries.
fn changed(key: &str, values: [Value; 3], has_marks: bool) -> Snapshot {
    let mut file = serde_json::to_value(annotated()).unwrap();
    for (at, value) in values.into_iter().enumerate() {
        file["device_traces"][0][at][key] = value;
    }
    if !has_marks {
        file["external_annotations"] = json!([]);
    }
    serde_json::from_value(file).unwrap()
}

#[test]
fn naming_a_block_does_not_divide_the_scope_around_it() {
    let snapshot = changed("user_metadata", ["step".into(), "weights".into(), "step".into()], false);
    assert_eq!(Scopes::new(&snapshot, DeviceId(0)).end_of("step"), Ok(Moment(3)));
    let slim = Slim::new().window(Window::Scope { name: "step".into(), nth: Some(0) });
    assert_eq!(slim.apply(snapshot).unwrap().device_traces[0].len(), 3);
    let ended = changed("user_metadata", ["step".into(), "weights".into(), "".into()], false);
    assert_eq!(Scopes::new(&ended, DeviceId(0)).end_of("step"), Ok(Moment(1)));
}

/// PyTorch writes 0 for an entry that it cannot date.
#[test]
fn an_entry_without_a_time_is_in_the_scope_of_its_neighbour() {
    let snapshot = changed("time_us", [10.into(), 11.into(), 0.into()], true);
    let history = DeviceHistory::new(&snapshot, DeviceId(0));
    let scopes = Scopes::new(&snapshot, DeviceId(0));
    let found: Vec<_> =
        history.lives().iter().map(|life| scopes.of_life(life).map(ToString::to_string)).collect();
    assert_eq!(found, ["forward", "forward"].map(|path| Some(path.to_owned())));
    assert_eq!(scopes.end_of("forward"), Ok(Moment(3)));
}

#[test]
fn an_event_in_the_microsecond_of_the_end_is_in_the_scope_for_all_answers() {
    let snapshot = changed("time_us", [10.into(), 11.into(), 15.into()], true);
    assert_eq!(Scopes::new(&snapshot, DeviceId(0)).end_of("forward"), Ok(Moment(3)));
    let slim = Slim::new().window(Window::Scope { name: "forward".into(), nth: None });
    assert_eq!(slim.apply(snapshot).unwrap().device_traces[0].len(), 3);
}

/// A block that has the name of a scope is not one.
#[test]
fn the_name_of_a_block_is_not_that_of_a_scope() {
    let snapshot = changed("user_metadata", ["step".into(), "step#0".into(), "step".into()], false);
    let slim = Slim::new().window(Window::Scope { name: "step#0".into(), nth: None });
    assert_eq!(slim.apply(snapshot.clone()).unwrap().device_traces[0].len(), 3);
    let unknown = Slim::new().window(Window::Scope { name: "other".into(), nth: None });
    let message = unknown.apply(snapshot).unwrap_err().to_string();
    assert!(message.contains(r#"there are "step""#) && !message.contains("step#0"), "{message}");
}

/// What is kept and what is cut add up, also when a window begins with the name of a block.
#[test]
fn cut_events_and_kept_ones_are_all_events() {
    let cut = |snapshot: Snapshot, range| {
        Slim::new().window(Window::Events { device: None, range }).apply(snapshot).unwrap()
    };
    let whole = annotated();
    let once = cut(whole, 2..3);
    let of = |snapshot: &Snapshot| {
        (snapshot.device_traces[0].len(), DeviceHistory::new(snapshot, DeviceId(0)).trust().n_cut)
    };
    assert_eq!(of(&once), (2, 1), "the event, and the name of the first block");
    assert_eq!(of(&cut(once, 1..2)), (2, 1));
}

/// Each span has the names around it in its path, so that the paths of all would take gigabytes.
#[test]
fn a_name_of_many_slashes_is_a_hundred_scopes() {
    let name = "a/".repeat(50_000) + "b";
    let snapshot = changed("user_metadata", [name.as_str(), name.as_str(), ""].map(Into::into), false);
    let spans = Scopes::new(&snapshot, DeviceId(0)).spans();
    let depths: Vec<usize> =
        spans.iter().filter(|span| span.entries.contains(&0)).map(|span| span.depth).collect();
    assert_eq!(depths, (0..100).collect::<Vec<_>>());
    assert_eq!(spans[99].path, name);
    assert_eq!(spans[99].name.len(), name.len() - 99 * 2);
}
