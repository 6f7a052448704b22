//! The stacks of blocks from before a history, which are those of their frees where frees have the stacks
//! of allocations.

use memreel_snapshot::{
    DeviceId, Snapshot,
    analysis::{By, DeviceHistory, Site},
    model::RecordedSettings,
    rewrite::{Slim, Window},
};
use serde_json::{Value, json};

const OLD: u64 = 1 << 20;

fn entry(action: &str, address: u64, line: u64) -> Value {
    json!({
        "action": action, "addr": address, "size": 512, "stream": 0, "time_us": 1,
        "frames": [{"name": "f", "filename": "x.py", "line": line}],
    })
}

/// Blocks that are allocated and freed by these lines, and then the free of a block from before.
fn snapshot(lines: &[[u64; 2]], freed_by: u64) -> Snapshot {
    let mut entries = Vec::new();
    for [alloc, free] in lines {
        entries.push(entry("alloc", 4096, *alloc));
        entries.extend(["free_requested", "free_completed"].map(|action| entry(action, 4096, *free)));
    }
    entries.extend(["free_requested", "free_completed"].map(|action| entry(action, OLD, freed_by)));
    let segment = |address: u64| -> Value {
        json!({
            "device": 0, "address": address, "total_size": 512, "allocated_size": 0, "active_size": 0,
            "requested_size": 0, "stream": 0, "segment_type": "small", "segment_pool_id": [0, 0],
            "is_expandable": false, "frames": [],
            "blocks": [{
                "address": address, "size": 512, "requested_size": 0, "state": "inactive", "frames": [],
            }],
        })
    };
    let file = json!({"segments": [segment(4096), segment(OLD)], "device_traces": [entries]});
    serde_json::from_value(file).unwrap()
}

/// The line that allocated the block from before the history; 0 if it is not known.
fn line_of_the_old(snapshot: &Snapshot) -> u64 {
    let history = DeviceHistory::new(snapshot, DeviceId(0));
    let at_the_start = history.top(memreel_snapshot::history::Moment::START, By::Stack);
    match &at_the_start[..] {
        [group] => match group.site {
            Site::Stack(stack) => snapshot.stacks.frames(stack).next().unwrap().line,
            _ => 0,
        },
        other => panic!("one block: {other:?}"),
    }
}

#[test]
fn a_line_that_frees_is_not_blamed_for_the_block() {
    assert_eq!(line_of_the_old(&snapshot(&[[10, 10], [10, 10], [10, 10]], 99)), 0, "one line proves nothing");
    assert_eq!(line_of_the_old(&snapshot(&[[10, 10], [11, 12]], 99)), 0, "frees have their own stacks");
    assert_eq!(line_of_the_old(&snapshot(&[[10, 10], [11, 11]], 7)), 7, "frees have stacks of allocations");
}

/// A ring that has no alloc can say it: the frees of a recorded heap have the stacks of its allocations.
#[test]
fn a_file_may_say_that_frees_have_the_stacks_of_allocations() {
    let mut snapshot = snapshot(&[], 7);
    assert_eq!(line_of_the_old(&snapshot), 0);
    let recorded = RecordedSettings { frees_as_allocated: true, ..RecordedSettings::default() };
    RecordedSettings::store(&mut snapshot, &[(DeviceId(0), recorded)]);
    assert_eq!(line_of_the_old(&snapshot), 7);
    let range = 0..1;
    let cut = Slim::new().window(Window::Events { device: None, range }).apply(snapshot).unwrap();
    assert_eq!(line_of_the_old(&cut), 7);
}

#[test]
fn a_window_keeps_the_stack_that_a_later_free_shows() {
    let window = |range| Slim::new().window(Window::Events { device: None, range });
    let whole = snapshot(&[[10, 10], [11, 11]], 7);
    for end in [1, 3, 6] {
        let cut = window(0..end).apply(whole.clone()).unwrap();
        assert_eq!(line_of_the_old(&cut), 7, "the first {end} events");
    }
    let other = snapshot(&[[10, 10], [11, 12]], 99);
    let cut = window(0..6).apply(other).unwrap();
    assert_eq!(line_of_the_old(&cut), 0);
}
