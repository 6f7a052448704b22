//! The pools of blocks whose entries name none.

use memreel_snapshot::{
    DeviceId, PoolId, Snapshot,
    analysis::{DeviceHistory, Pools},
};
use serde_json::json;

#[test]
fn a_block_of_an_earlier_segment_is_not_in_the_pool_of_the_last_one_there() {
    let entry = |(action, size): (&str, u64)| json!({"action": action, "addr": 4096, "size": size, "stream": 0, "frames": []});
    let segment = ("segment_alloc", 2048);
    let (alloc, free) = (("alloc", 512), [("free_requested", 512), ("free_completed", 512)]);
    let events = [segment, alloc, free[0], free[1], ("segment_free", 2048), segment, alloc];
    let file: Snapshot = serde_json::from_value(json!({
        "segments": [{
            "device": 0, "address": 4096, "total_size": 2048, "allocated_size": 512, "active_size": 512,
            "requested_size": 512, "stream": 0, "segment_type": "small", "segment_pool_id": [0, 7],
            "is_expandable": false, "frames": [], "blocks": [
                {"address": 4096, "size": 512, "requested_size": 512, "state": "active_allocated", "frames": []},
                {"address": 4608, "size": 1536, "requested_size": 0, "state": "inactive", "frames": []},
            ],
        }],
        "device_traces": [events.map(entry)],
    }))
    .unwrap();
    let history = DeviceHistory::new(&file, DeviceId(0));
    let pools = Pools::new(&history);
    let mut lives: Vec<_> = history.lives().iter().collect();
    lives.sort_by_key(|life| life.from);
    let found: Vec<_> = lives.into_iter().map(|life| pools.of(life)).collect();
    assert_eq!(found, [None, Some(file.segments[0].pool)]);
    assert_ne!(file.segments[0].pool, PoolId::DEFAULT);
}
