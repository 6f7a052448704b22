//! Recordings of one training program at several sizes (`fixtures/torch-2.11/sizes`) as the snapshots that PyTorch dumped.

use std::collections::HashMap;

use memreel::Snapshot;
use memreel_testing::repository;
use serde_json::{Value, json};

/// The recordings of a program: its runs, and the measured peaks of further sizes.
pub(crate) fn model(name: &str) -> Value {
    let path = repository(format!("fixtures/torch-2.11/sizes/{name}.json"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The snapshot of a run: of its events, and of its segments at the end.
pub(crate) fn snapshot(model: &Value, size: u64) -> Snapshot {
    let run = &model["runs"][size.to_string()];
    let frames = |stack: &Value| {
        let at = usize::try_from(stack.as_u64().unwrap()).unwrap();
        match &model["stacks"][at] {
            frame if frame[0].is_null() => json!([]),
            frame => {
                let call = |of: &Value| json!({"name": of[0], "filename": of[1], "line": of[2]});
                // Stacks differ in calls that were left out.
                let left_out = json!({"name": "stack", "filename": "left out", "line": at});
                let outer = frame.get(3).map(call);
                [call(frame), left_out].into_iter().chain(outer).collect()
            }
        }
    };
    let mut bytes = HashMap::new();
    let mut trace = Vec::new();
    let mut entry = |action: &str, of: &Value, size: u64, frames: Value| {
        let time_us = trace.len();
        trace.push(json!({"action": action, "addr": of[1], "size": size, "stream": 0, "time_us": time_us, "frames": frames}));
    };
    for event in run["events"].as_array().unwrap() {
        let size = || event[2].as_u64().unwrap();
        match event[0].as_u64().unwrap() {
            0 => {
                bytes.insert(event[1].to_string(), size());
                entry("alloc", event, size(), frames(&event[3]));
            }
            1 => {
                let size = bytes[&event[1].to_string()];
                for action in ["free_requested", "free_completed"] {
                    entry(action, event, size, json!([]));
                }
            }
            2 => entry("segment_alloc", event, size(), json!([])),
            _ => entry("segment_free", event, size(), json!([])),
        }
    }
    let block = |b: &Value| json!({"address": b[0], "size": b[1], "requested_size": b[2], "state": b[3], "frames": []});
    let segment = |s: &Value| {
        let blocks: Vec<Value> = s[3].as_array().unwrap().iter().map(block).collect();
        json!({"address": s[0], "total_size": s[1], "segment_type": s[2], "stream": 0, "device": 0,
               "segment_pool_id": [0, 0], "is_expandable": false, "frames": [], "blocks": blocks})
    };
    let dump = json!({
        "segments": run["segments"].as_array().unwrap().iter().map(segment).collect::<Vec<_>>(),
        "device_traces": [trace],
        "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": run["conf"]},
    });
    serde_json::from_value(dump).unwrap()
}
