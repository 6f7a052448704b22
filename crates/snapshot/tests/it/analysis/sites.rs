//! Which blocks are one site, in one history and in two.

use memreel_snapshot::{
    DeviceId, Snapshot,
    analysis::{By, DeviceHistory, GroupChange, Site},
};
use serde_json::{Value, json};

use super::questions::{MIB, snapshot};

/// Frames that say the same and differ in their keys, the order of their keys, or in a frame that is hidden.
fn same_frames() -> [Value; 4] {
    let file = "/a/x.py";
    [
        json!([{"name": "f", "filename": file, "line": 7}]),
        json!([{"line": 7, "filename": file, "name": "f"}]),
        json!([{"name": "f", "filename": file, "line": 7, "fx_node_op": "call_module"}]),
        json!([{"name": "unwind::unwind", "filename": "??", "line": 0}, {"name": "f", "filename": file, "line": 7}]),
    ]
}

/// A history that allocates a block of each size, with the stacks of [`same_frames`] in turn, after `n_freed`
/// rounds in which all of them are allocated and freed.
fn alike(sizes: &[u64], n_freed: usize) -> Snapshot {
    let entry = |action: &str, at: usize, size: u64, frames: &Value| {
        let address = 32 * MIB + at as u64 * 4096;
        json!({"action": action, "addr": address, "size": size, "stream": 0, "time_us": 0, "frames": frames})
    };
    let frames = same_frames();
    let mut entries = Vec::new();
    for round in 0..=n_freed {
        for (at, size) in sizes.iter().enumerate() {
            entries.push(entry("alloc", at, *size, &frames[at % 4]));
            if round < n_freed {
                entries.push(entry("free_requested", at, *size, &json!([])));
                entries.push(entry("free_completed", at, *size, &json!([])));
            }
        }
    }
    serde_json::from_value(json!({"segments": [], "device_traces": [entries]})).unwrap()
}

/// With line tables, what is inlined into them has any name.
#[test]
fn frames_of_memreels_own_libraries_do_not_identify() {
    let frame = |name: &str, file: &str, library: &str| json!({"name": name, "filename": file, "line": 7, "library": library});
    let frames = json!([
        frame("operator new", "new_op.cc", "libstdc++.so.6"),
        frame("{closure#0}", "wrapped.rs", "libmemreel_heap.so"),
        frame("make_table", "suite.cpp", "suite"),
    ]);
    let entry =
        json!({"action": "alloc", "addr": MIB, "size": 512, "stream": 0, "time_us": 0, "frames": frames});
    let snapshot: Snapshot =
        serde_json::from_value(json!({"segments": [], "device_traces": [[entry]]})).unwrap();
    let shown = DeviceHistory::new(&snapshot, DeviceId(0)).shown_frames();
    let stack = snapshot.device_traces[0][0].stack.unwrap();
    assert_eq!(shown.identifying_frames(stack).map(|frame| &*frame.name).collect::<Vec<_>>(), ["make_table"]);
}

#[test]
fn stacks_that_look_the_same_are_one_site() {
    let snapshot = alike(&[1000, 2000, 3000, 4000, 500, 600, 700, 800], 2);
    let history = DeviceHistory::new(&snapshot, DeviceId(0));
    let [group] = &history.top(history.end(), By::Stack)[..] else { panic!("several groups") };
    assert_eq!((group.bytes, group.n_blocks, group.total_bytes, group.n_stacks), (12_600, 8, 12_600, 4));
    let of_most = snapshot.device_traces[0][entries_of(4000, &snapshot)].stack.unwrap();
    assert_eq!(group.site, Site::Stack(of_most), "the stack with the most bytes stands for the others");
    let [site] = &history.leaks()[..] else { panic!("several sites") };
    assert_eq!((site.bytes, site.n_live, site.n_allocated, site.n_freed), (12_600, 8, 24, 16));
    assert_eq!((site.quarters[3], site.n_stacks), (12_600, 4));
    assert_eq!((history.older_than(0).len(), history.tree(history.end(), 1).len()), (1, 1));
    // One size is allocated and freed by two of the stacks.
    let snapshot = alike(&[512, 512], 1);
    let [site] = &DeviceHistory::new(&snapshot, DeviceId(0)).churn()[..] else { panic!("no site") };
    assert_eq!((site.n_cycles, site.n_stacks), (2, 2));
}

/// Returns the first entry that allocates a number of bytes.
fn entries_of(bytes: u64, snapshot: &Snapshot) -> usize {
    snapshot.device_traces[0].iter().position(|entry| entry.size == bytes).unwrap()
}

#[test]
fn changes_add_up_to_the_difference() {
    let one_of_each = [[1000].as_slice(), &[10, 2000], &[10, 20, 4000], &[10, 20, 30, 8000]];
    for before in one_of_each {
        for after in one_of_each {
            let snapshots = [before, after].map(|sizes| alike(sizes, 0));
            let [before, after] = snapshots.each_ref().map(|s| DeviceHistory::new(s, DeviceId(0)));
            let bytes =
                |history: &DeviceHistory<'_>| i128::from(history.totals_at(history.end()).active_bytes);
            let changes = before.diff(before.end(), &after, after.end());
            let sum: i128 = changes.iter().map(|change| change.bytes()).sum();
            assert_eq!(sum, bytes(&after) - bytes(&before));
            assert!(changes.len() <= 1, "one line of code is one change: {changes:?}");
        }
    }
}

#[test]
fn the_largest_changes_come_first() {
    let with = |blocks: &[(u64, u64, u64)]| snapshot(&[], &[(32 * MIB, 8 * MIB, blocks)]);
    let at = |n: u64| 32 * MIB + n * MIB;
    let before = with(&[(at(0), 512, 1), (at(1), 4096, 2), (at(2), 1024, 3), (at(3), 512, 4)]);
    let after = with(&[(at(3), 1024, 4), (at(4), 8192, 5)]);
    let [one, other] = [&before, &after].map(|snapshot| DeviceHistory::new(snapshot, DeviceId(0)));
    let bytes: Vec<i128> =
        one.diff(one.end(), &other, other.end()).iter().map(|change| change.bytes()).collect();
    assert_eq!(bytes, [8192, 512, -4096, -1024, -512]);
}

/// The bytes of a block and its stack, of calls with a name, a file and a line.
type Allocated<'a> = (u64, &'a [(&'a str, &'a str, u64)]);

/// A history that allocates blocks.
fn allocates(blocks: &[Allocated<'_>]) -> Snapshot {
    let entry = |(at, (size, calls)): (usize, &Allocated<'_>)| {
        let frame =
            |(name, file, line): &(&str, &str, u64)| json!({"name": name, "filename": file, "line": line});
        let frames: Vec<Value> = calls.iter().map(frame).collect();
        json!({"action": "alloc", "addr": 32 * MIB + at as u64 * MIB, "size": size, "stream": 0, "time_us": 0, "frames": frames})
    };
    let entries: Vec<Value> = blocks.iter().enumerate().map(entry).collect();
    serde_json::from_value(json!({"segments": [], "device_traces": [entries]})).unwrap()
}

/// Returns the bytes that each change has before and after.
fn changes(before: &Snapshot, after: &Snapshot) -> Vec<[u64; 2]> {
    let [one, other] = [before, after].map(|snapshot| DeviceHistory::new(snapshot, DeviceId(0)));
    let changes = one.diff(one.end(), &other, other.end());
    let bytes =
        |change: &GroupChange| [&change.before, &change.after].map(|of| of.as_ref().map_or(0, |of| of.bytes));
    changes.iter().map(bytes).collect()
}

#[test]
fn a_site_whose_lines_moved_is_one_site() {
    let file = "/home/a/x.py";
    let before = allocates(&[
        (1000, &[("f", file, 7), ("main", file, 30)]),
        (200, &[("g", file, 9), ("main", file, 31)]),
    ]);
    // A line was added above, and `f` allocates more.
    let moved = [("f", file, 8), ("main", file, 31)];
    let after = allocates(&[(1500, &moved), (200, &[("g", file, 10), ("main", file, 32)])]);
    assert_eq!(changes(&before, &after), [[1000, 1500]]);
    assert_eq!(changes(&after, &before), [[1500, 1000]]);
    // The project lies in another folder.
    let elsewhere = "/ci/build/x.py";
    let after = allocates(&[
        (1500, &[("f", elsewhere, 7), ("main", elsewhere, 30)]),
        (200, &[("g", elsewhere, 9), ("main", elsewhere, 31)]),
    ]);
    assert_eq!(changes(&before, &after), [[1000, 1500]]);
}

#[test]
fn a_site_is_another_one_if_the_lines_behind_it_stayed() {
    let file = "/home/a/x.py";
    let stays = [("g", file, 9), ("main", file, 31)];
    let before = allocates(&[(1000, &[("f", file, 7), ("main", file, 30)]), (200, &stays)]);
    for bytes in [1000, 1500] {
        let after = allocates(&[(bytes, &[("f", file, 6), ("main", file, 30)]), (200, &stays)]);
        assert_eq!(changes(&before, &after), [[0, bytes], [1000, 0]], "two lines of one function");
    }
    let other = allocates(&[(1500, &[("h", file, 70), ("main", file, 90)])]);
    assert_eq!(changes(&before, &other), [[0, 1500], [1000, 0], [200, 0]], "another function");
    let other = allocates(&[(1500, &[("f", "/home/a/y.py", 7), ("main", "/home/a/y.py", 30)])]);
    assert_eq!(changes(&before, &other).len(), 3, "another file");
}

#[test]
fn of_more_sites_in_one_function_those_that_kept_their_size_are_the_old_ones() {
    let file = "/home/a/x.cpp";
    let at = |line: u64| [("parse", file, line), ("main", file, line + 20)];
    let before = allocates(&[(1000, &at(7))]);
    let after = allocates(&[(4000, &at(8)), (1000, &at(9))]);
    assert_eq!(changes(&before, &after), [[0, 4000]]);
    let other = allocates(&[(4000, &at(8)), (1001, &at(9))]);
    assert_eq!(changes(&before, &other), [[0, 4000], [0, 1001], [1000, 0]], "which one is not known");
}

/// A call that calls itself, such as `Module._apply`, is one line of the program at every depth; what is called by another line
/// is another site.
#[test]
fn recursion_is_folded() {
    let frame = |name: &str, line: u64| json!({"name": name, "filename": "/a/module.py", "line": line});
    let stack = |depth: usize, caller: u64| {
        let mut frames = vec![frame("convert", 1)];
        frames.extend((0..depth).map(|_| frame("_apply", 2)));
        frames.push(frame("main", caller));
        json!(frames)
    };
    let entry = |at: u64, frames: Value| json!({"action": "alloc", "addr": 32 * MIB + at * 4096, "size": 512, "stream": 0, "time_us": 0, "frames": frames});
    let stacks = [stack(1, 3), stack(2, 3), stack(5, 3), stack(2, 4)];
    let entries: Vec<Value> = (0..).zip(stacks).map(|(at, frames)| entry(at, frames)).collect();
    let snapshot: Snapshot =
        serde_json::from_value(json!({"segments": [], "device_traces": [entries]})).unwrap();
    let history = DeviceHistory::new(&snapshot, DeviceId(0));
    let groups = history.top(history.end(), By::Stack);
    assert_eq!(groups.iter().map(|group| group.n_blocks).collect::<Vec<_>>(), [3, 1]);
    let Site::Stack(of_first) = groups[0].site else { panic!("a stack") };
    let shown = history.shown_frames();
    let calls: Vec<_> = shown.identifying_frames(of_first).map(|frame| frame.line).collect();
    assert_eq!(calls, [1, 2, 3]);
    assert_eq!(shown.identifying_frames(of_first).rev().count(), 3);
}

/// Blocks from before the recording are called so if they are the only ones without a stack.
#[test]
fn blocks_from_before_the_recording_are_named() {
    let frames = json!([{"name": "f", "filename": "/a/x.py", "line": 7}]);
    let words = |with_stack: bool| {
        let entry = |at: u64, frames: &Value| json!({"action": "alloc", "addr": 64 * MIB + at * 4096, "size": 512, "stream": 0, "time_us": 0, "frames": frames});
        let others = if with_stack { frames.clone() } else { json!([]) };
        let block =
            json!({"address": 32 * MIB, "size": 512, "requested_size": 512, "state": "active_allocated"});
        let segment =
            json!({"device": 0, "address": 32 * MIB, "total_size": MIB, "stream": 0, "blocks": [block]});
        let entries = [entry(0, &frames), entry(1, &others)];
        let snapshot: Snapshot =
            serde_json::from_value(json!({"segments": [segment], "device_traces": [entries]})).unwrap();
        DeviceHistory::new(&snapshot, DeviceId(0)).shown_frames().no_stack()
    };
    assert_eq!([true, false].map(words), ["(before the recording)", "(no stack)"]);
}

/// The same calls of a library under two scripts are one site; in one script they stay apart.
#[test]
fn a_library_under_another_script_is_one_site() {
    let history = |sites: &[(&str, u64, u64)]| -> Snapshot {
        let entry = |(at, (script, line, size)): (u64, &(&str, u64, u64))| {
            let frames = json!([{"name": "forward", "filename": "/lib/softmax.py", "line": 14},
                {"name": "train", "filename": script, "line": line}, {"name": "<module>", "filename": script, "line": 9}]);
            json!({"action": "alloc", "addr": 32 * MIB + at * MIB, "size": size, "stream": 0, "time_us": 0, "frames": frames})
        };
        let entries: Vec<Value> = (0..).zip(sites).map(entry).collect();
        serde_json::from_value(json!({"segments": [], "device_traces": [entries]})).unwrap()
    };
    let changes = |before: &[(&str, u64, u64)], after: &[(&str, u64, u64)]| {
        let [before, after] = [before, after].map(history);
        let [before, after] = [&before, &after].map(|file| DeviceHistory::new(file, DeviceId(0)));
        let changes = before.diff(before.end(), &after, after.end());
        changes.iter().map(GroupChange::bytes).collect::<Vec<_>>()
    };
    let [one, other] = ["/a/profile_memory.py", "/a/profile_mixed.py"];
    assert_eq!(changes(&[(one, 5, 3000)], &[(other, 7, 2000)]), [-1000]);
    // Two candidates are none.
    assert_eq!(changes(&[(one, 5, 3000)], &[(other, 7, 2000), (other, 8, 100)]), [2000, 100, -3000]);
}
