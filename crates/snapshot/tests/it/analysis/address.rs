//! Who had an address: blocks, segments, pages, and what covers it at a moment.

use memreel_snapshot::{
    Address, DeviceId, PoolId, Snapshot,
    analysis::{AddressChange, AddressHistory, DeviceHistory},
    history::Moment,
};
use serde_json::{Value, json};

use super::questions::frames;

const BASE: u64 = 1 << 30;
const PAGE: u64 = 2 << 20;

fn entry((action, at, size, line): (&str, u64, u64, u64)) -> Value {
    json!({"action": action, "addr": BASE + at, "size": size, "stream": 0, "frames": frames(line)})
}

/// Returns a file with a segment of one page, whose first block is in a state.
fn file(entries: &[(&str, u64, u64, u64)], pool: [u64; 2], block: (u64, &str)) -> Snapshot {
    let (bytes, state) = block;
    serde_json::from_value(json!({
        "segments": [{
            "device": 0, "address": BASE, "total_size": PAGE, "allocated_size": 0, "active_size": 0, "requested_size": 0,
            "stream": 0, "segment_type": "small", "segment_pool_id": pool, "is_expandable": false, "frames": [],
            "blocks": [
                {"address": BASE, "size": bytes, "requested_size": bytes, "state": state, "frames": []},
                {"address": BASE + bytes, "size": PAGE - bytes, "requested_size": 0, "state": "inactive", "frames": []},
            ],
        }],
        "device_traces": [entries.iter().copied().map(entry).collect::<Vec<_>>()],
    }))
    .unwrap()
}

fn at(history: &DeviceHistory<'_>, first: u64, bytes: u64) -> Vec<String> {
    told(&history.at_address(Address(BASE + first)..Address(BASE + first + bytes), history.end()))
}

/// Returns the events in words: the moment, what happened, and of a block its number.
fn told(found: &AddressHistory<'_>) -> Vec<String> {
    let words = |what: &AddressChange<'_>| match what {
        AddressChange::Held(_) => "held".to_owned(),
        AddressChange::Memory(entry) => entry.action.unwrap().name().to_owned(),
        AddressChange::Alloc(number) => format!("alloc {number}"),
        AddressChange::FreeRequested(number) => format!("requested {number}"),
        AddressChange::FreeCompleted(number) => format!("free {number}"),
        _ => String::new(),
    };
    found.events.iter().map(|event| format!("{} {}", event.moment.n_entries(), words(&event.what))).collect()
}

#[test]
fn the_owners_of_an_address_are_in_order_and_the_pool_of_a_graph_is_named() {
    let entries = [
        ("segment_alloc", 0, PAGE, 0),
        ("alloc", 0, 1000, 1),
        ("alloc", 1024, 512, 9),
        ("free_requested", 0, 1000, 2),
        ("free_completed", 0, 1000, 2),
        ("alloc", 0, 600, 3),
    ];
    let snapshot = file(&entries, [1, 0], (1024, "active_allocated"));
    let history = DeviceHistory::new(&snapshot, DeviceId(0));
    let all = ["1 segment_alloc", "2 alloc 0", "4 requested 0", "5 free 0", "6 alloc 1"];
    assert_eq!(at(&history, 0, 1), all);
    // The last byte of the first block, and a range that ends with the second byte of its neighbour.
    assert_eq!(at(&history, 1023, 1), all);
    assert_eq!(at(&history, 1023, 2)[..3], ["1 segment_alloc", "2 alloc 0", "3 alloc 1"]);
    assert_eq!(at(&history, PAGE, 1), Vec::<String>::new());
    let found = history.at_address(Address(BASE)..Address(BASE + 1), history.end());
    let lines = |life: usize| {
        let stack = found.owners[life].0.stack.unwrap();
        snapshot.stacks.frames(stack).next().unwrap().line
    };
    assert_eq!(([lines(0), lines(1)], found.owners.len()), ([1, 3], 2));
    assert_eq!(found.private_pools, [PoolId::of_graph(1)]);
    // Before the segment came, nothing was held.
    let before = history.at_address(Address(BASE)..Address(BASE + 1), Moment::START);
    assert!(before.held.is_empty() && before.private_pools.is_empty());
}

#[test]
fn what_was_there_before_the_history_is_first() {
    let entries = [("free_completed", 0, 512, 2), ("alloc", 0, 512, 3), ("free_requested", 0, 512, 4)];
    let snapshot = file(&entries, [0, 0], (512, "active_pending_free"));
    let history = DeviceHistory::new(&snapshot, DeviceId(0));
    let told = at(&history, 0, 1);
    assert_eq!(told, ["0 held", "0 alloc 0", "0 requested 0", "1 free 0", "2 alloc 1", "3 requested 1"]);
    let found = history.at_address(Address(BASE)..Address(BASE + 1), history.end());
    let last = found.owners[1].0;
    assert!(last.is_active_at(history.end()) && !last.is_allocated_at(history.end()), "a pending free");
    assert!(found.private_pools.is_empty(), "the default pool is no graph's");
}

/// Unmapped pages elsewhere do not meet the address.
#[test]
fn only_maps_and_unmaps_that_meet_the_range_are_listed() {
    let page = |number: u64| BASE + number * PAGE;
    let map = |action: &str, number: u64| json!({"action": action, "addr": page(number), "size": PAGE, "stream": 0});
    let mut trace: Vec<Value> = (0..4).map(|number| map("segment_map", number)).collect();
    trace.extend([map("segment_unmap", 3), map("segment_unmap", 1), map("segment_map", 1)]);
    let block = |number: u64, bytes: u64| json!({"address": page(number), "size": bytes, "requested_size": 0, "state": "inactive", "frames": []});
    let snapshot: Snapshot = serde_json::from_value(json!({
        "segments": [{
            "device": 0, "address": BASE, "total_size": 3 * PAGE, "allocated_size": 0, "active_size": 0, "requested_size": 0,
            "stream": 0, "segment_type": "small", "segment_pool_id": [0, 0], "is_expandable": true, "frames": [],
            "blocks": [block(0, 3 * PAGE)],
        }],
        "device_traces": [trace],
    }))
    .unwrap();
    let history = DeviceHistory::new(&snapshot, DeviceId(0));
    assert_eq!(at(&history, 0, 1), ["1 segment_map"]);
    assert_eq!(at(&history, PAGE, 1), ["2 segment_map", "6 segment_unmap", "7 segment_map"]);
    assert_eq!(at(&history, 3 * PAGE, 1), ["4 segment_map", "5 segment_unmap"]);
    assert_eq!(at(&history, 0, 4 * PAGE).len(), 7);
    assert!(history.at_address(Address(page(3))..Address(page(3) + 1), history.end()).held.is_empty());
}
