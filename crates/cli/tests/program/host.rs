//! Pinned host memory that PyTorch 2.14 records is a device in every command.

#![forbid(unsafe_code)]

use serde_json::{Value, json};

use crate::support::{answer, run, stderr, stdout};

const MIB: u64 = 1 << 20;

/// Nine blocks of `pin`: six are freed and wait for events, one is idle. With or without a GPU that was used.
fn world(has_gpu: bool) -> Value {
    let frames = |name: &str| json!([{"name": name, "filename": "/app/offload.py", "line": 30}]);
    let mut time_us = 1_760_000_000_000_000_u64;
    let mut event = |action: &str, at: u64| {
        time_us += 1_000_000;
        json!({"action": action, "addr": (1 + at) << 30, "size": 64 * MIB, "stream": 0, "time_us": time_us,
            "compile_context": "N/A", "user_metadata": "", "pool_id": [0, 0], "frames": frames("pin")})
    };
    let mut trace = Vec::new();
    for at in 0..9 {
        trace.extend(["segment_alloc", "alloc"].map(|action| event(action, at)));
        trace.extend((at < 7).then(|| event("free_requested", at)));
    }
    trace.push(event("free_completed", 6));
    let segment = |device: i64, at: u64, state: &str| {
        let is = |states: &[&str]| if states.contains(&state) { 64 * MIB } else { 0 };
        let of_block = if state == "inactive" { json!([]) } else { frames("pin") };
        json!({
            "device": device, "address": (1 + at) << 30, "total_size": 64 * MIB,
            "allocated_size": is(&["active_allocated"]),
            "active_size": is(&["active_allocated", "active_pending_free"]), "requested_size": 64 * MIB,
            "stream": 0, "segment_type": "small", "segment_pool_id": [0, 0], "is_expandable": false,
            "blocks": [{"address": (1 + at) << 30, "size": 64 * MIB, "requested_size": 64 * MIB, "state": state,
                "frames": of_block}],
            "frames": frames("pin"),
        })
    };
    let state = |at: u64| match at {
        0..6 => "active_pending_free",
        6 => "inactive",
        _ => "active_allocated",
    };
    let host: Vec<Value> = (0..9).map(|at| segment(-1, at, state(at))).collect();
    let gpu = if has_gpu { vec![segment(0, 99, "active_allocated")] } else { Vec::new() };
    json!({
        "segments": gpu, "device_traces": [[]], "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": ""},
        "external_annotations": [], "host_segments": host, "host_traces": trace,
    })
}

struct File {
    _folder: tempfile::TempDir,
    path: String,
}

fn file(has_gpu: bool) -> File {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("host.json").display().to_string();
    std::fs::write(&path, world(has_gpu).to_string()).unwrap();
    File { _folder: folder, path }
}

#[test]
fn host_memory_alone_is_no_file_without_memory() {
    let File { path, _folder } = file(false);
    let text = answer(&["summary", &path]);
    assert!(!text.contains("had not used the device") && !text.contains("device 0"), "{text}");
    for part in [
        "host (pinned memory): 26 events in 25.000 s, complete history",
        "  end   128.00 MiB in use, 384.00 MiB freed and waiting for events, 576.00 MiB reserved",
        " is freed and waits for events: it can be reused when ",
        "pin (offload.py:30)",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let top: Value = serde_json::from_str(&answer(&["top", "--json", "--at", "end", &path])).unwrap();
    assert_eq!((&top["device"], &top["active_bytes"]), (&json!(-1), &json!(512 * MIB)));
    assert_eq!(top["allocated_bytes"], json!(128 * MIB));
    for words in
        [&["leaks"][..], &["at", "end"], &["timeline"], &["churn"], &["oom"], &["gate", "--max-live", "1GiB"]]
    {
        let text = answer(&[words, &[&path]].concat());
        assert!(!text.contains("had not used the device"), "{words:?}: {text}");
    }
    assert!(answer(&["at", "end", &path]).contains("pin (offload.py:30)"));
    let gate = run(&["gate", "--max-live", "100MiB", &path]);
    assert_eq!(gate.status.code(), Some(4), "{gate:?}");
}

#[test]
fn host_memory_is_listed_and_asked_for_beside_a_gpu() {
    let File { path, _folder } = file(true);
    for words in [&["summary"][..], &["top"], &["leaks"], &["fragmentation"], &["timeline"], &["at", "end"]] {
        let all = answer(&[words, &["--device", "all", &path]].concat());
        assert!(all.contains("device 0") && all.contains("host (pinned memory)"), "{words:?}: {all}");
        let one = answer(&[words, &["--device", "host", &path]].concat());
        assert!(!one.contains("device 0"), "{words:?}: {one}");
        assert_eq!(one, answer(&[words, &["--device", "-1", &path]].concat()), "{words:?}");
    }
    let wrong = run(&["top", "--device", "7", &path]);
    assert!(stderr(&wrong).contains("no device 7; devices with memory: 0, host"), "{wrong:?}");
    // Host memory is not a rank, and cannot be replayed.
    let ranks = answer(&["ranks", &path]);
    assert!(!ranks.contains("host (pinned"), "{ranks}");
    assert_eq!(run(&["replay", "--device", "host", &path]).status.code(), Some(2));
    let folder = tempfile::tempdir().unwrap();
    let split = run(&["split", "-o", folder.path().to_str().unwrap(), &path]);
    assert!(split.status.success() && stdout(&split).contains("device0"), "{split:?}");
}

#[test]
fn blocks_that_wait_are_not_blamed_on_rounding() {
    let File { path, _folder } = file(true);
    let text = answer(&["owners", &path]);
    assert!(
        text.contains("128.00 MiB is allocated, 384.00 MiB is freed and waits for events, 64.00 MiB is idle"),
        "{text}"
    );
    let line: Value =
        serde_json::from_str(answer(&["owners", "--json", &path]).lines().next().unwrap()).unwrap();
    assert_eq!((&line["device"], &line["n_rounded"]), (&json!(-1), &json!(2)));
    assert_eq!(line["rounded_bytes"], json!(128 * MIB));
    let text = answer(&["fragmentation", "--device", "host", &path]);
    assert!(text.contains("(torch.accelerator.memory.empty_host_cache returns"), "{text}");
}
