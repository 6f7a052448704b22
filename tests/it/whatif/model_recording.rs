//! A recording of a model (`fixtures/torch-2.11/models`) as the snapshot that PyTorch would have dumped.

use std::path::{Path, PathBuf};

use memreel::Snapshot;
use serde_json::{Value, json};

/// The file of the training run under a setting: `default`, `expandable_segments_True`, …
pub(crate) fn file(setting: &str) -> PathBuf {
    let name = format!("fixtures/torch-2.11/models/gpt_train.{setting}.json");
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root =
        package.ancestors().find(|folder| folder.join("fixtures").is_dir()).expect("a folder `fixtures`");
    root.join(name)
}

/// The recording of the training run under a setting.
pub(crate) fn read(setting: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(file(setting)).unwrap()).unwrap()
}

/// The snapshot of a recording: of its events, its segments and its setting.
pub(crate) fn snapshot(recording: &Value) -> Snapshot {
    let all = |key: &str| recording[key].as_array().unwrap().iter();
    let entry = |(time_us, e): (usize, &Value)| {
        let address = if e[0] == "oom" { "device_free" } else { "addr" };
        json!({"action": e[0], address: e[1], "size": e[2], "stream": e[3], "time_us": time_us})
    };
    let dump = json!({
        "segments": all("segments").map(segment).collect::<Vec<_>>(),
        "device_traces": [all("events").enumerate().map(entry).collect::<Vec<_>>()],
        "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": recording["conf"]},
    });
    serde_json::from_value(dump).unwrap()
}

/// From the array of a model's recording, or the dictionary of a scenario's.
fn segment(s: &Value) -> Value {
    const KEYS: [&str; 8] = [
        "address",
        "total_size",
        "stream",
        "segment_type",
        "allocated_size",
        "active_size",
        "requested_size",
        "blocks",
    ];
    let get = |at: usize| if s.is_array() { &s[at] } else { &s[KEYS[at]] };
    let block = |b: &Value| json!({"address": b[0], "size": b[1], "requested_size": b[2], "state": b[3], "frames": []});
    let mut segment = json!({"device": 0, "segment_pool_id": [0, 0], "is_expandable": false, "frames": []});
    for (at, key) in KEYS.iter().enumerate() {
        segment[key] = get(at).clone();
    }
    segment["blocks"] = get(7).as_array().unwrap().iter().map(block).collect();
    segment
}
