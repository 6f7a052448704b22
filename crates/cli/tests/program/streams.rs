//! Memory that streams and pools keep, in the texts of commands.

#![forbid(unsafe_code)]

use std::{path::Path, sync::Arc};

use memreel::{
    Allocation, Reel, StreamId,
    allocator::{PoolOptions, Route},
    device::Simulated,
    recorder::Recording,
};
use serde_json::Value;

use crate::support::answer;

const MIB: u64 = 1 << 20;

/// Steps each of which works on two new streams; then 30 MiB in a `MemPool` that are free, and 20 of a graph.
pub(crate) fn world() -> Value {
    let device = Arc::new(Simulated::new(4096 * MIB));
    let reel = Reel::builder().device(device).history(Recording::all()).build().unwrap();
    let allocator = &reel.allocators()[0];
    for step in 0..8 {
        let scope = reel.scope("step");
        drop(reel.alloc(100 * MIB).unwrap());
        let _packed = [100, 101].map(|stream| pack(&reel, StreamId(stream + step * 2)));
        drop(scope);
    }
    let pools = [(allocator.create_pool(PoolOptions::default()), 30), (allocator.create_capture_pool(), 20)];
    for (pool, mib) in pools {
        allocator.begin_pool(pool, Route::Thread).unwrap();
        drop(reel.alloc(mib * MIB).unwrap());
        allocator.end_pool(pool).unwrap();
    }
    serde_json::to_value(reel.snapshot()).unwrap()
}

#[inline(never)]
fn pack(reel: &Reel, stream: StreamId) -> Allocation {
    reel.allocators()[0].alloc(64 * MIB, stream).unwrap()
}

/// Returns the same without stacks.
pub(crate) fn bare(mut world: Value) -> Value {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(map) => {
                map.get_mut("frames").into_iter().for_each(|frames| *frames = Value::Array(Vec::new()));
                map.values_mut().for_each(strip);
            }
            Value::Array(list) => list.iter_mut().for_each(strip),
            _ => {}
        }
    }
    strip(&mut world);
    world
}

fn asked(words: &[&str], world: &Value, folder: &Path) -> String {
    let path = folder.join("world.json");
    std::fs::write(&path, world.to_string()).unwrap();
    // Lines that are broken have an indent.
    let text = answer(&[words, &[path.to_str().unwrap()]].concat());
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn memory_that_streams_keep_is_said_without_a_failure() {
    let folder = tempfile::tempdir().unwrap();
    let summary = asked(&["summary"], &world(), folder.path());
    for part in [
        "16 streams keep 64.00 MiB of free memory each, allocated by ",
        "at most 128.00 MiB was in use there at once; their memory grew by 128.00 MiB in each of 7 steps: \
         create the streams once and reuse them, or use one stream",
    ] {
        assert!(summary.contains(part), "{part}: {summary}");
    }
    assert!(summary.contains("pack (streams.rs:"), "{summary}");
    // One thing is said once.
    assert_eq!(summary.matches("grew by").count(), 1, "{summary}");
    assert!(!summary.contains("no request failed, and no site grew"), "{summary}");
    let fragmentation = asked(&["fragmentation", "-n", "3"], &world(), folder.path());
    for part in [
        "stream reserved in blocks free empty segments 0 150.00 MiB 0 B 150.00 MiB 150.00 MiB 3 allocated by ",
        " 0x64 64.00 MiB 0 B 64.00 MiB 64.00 MiB 1 ",
        " and 14 more with 896.00 MiB free ",
        " 16 streams keep 64.00 MiB of free memory each, ",
    ] {
        assert!(fragmentation.contains(part), "{part}: {fragmentation}");
    }
    // Blocks without stacks are told apart by their size.
    let summary = asked(&["summary"], &bare(world()), folder.path());
    assert!(
        summary.contains(
            "16 streams keep 64.00 MiB of free memory each, allocated by (no stack) 64.00 MiB each,"
        ),
        "{summary}"
    );
}

#[test]
fn memory_of_pools_has_what_returns_it() {
    let folder = tempfile::tempdir().unwrap();
    for words in [&["summary"][..], &["fragmentation"]] {
        let text = asked(words, &world(), folder.path());
        for part in [
            " pool reserved in blocks free empty segments default ",
            " MemPool (0, 1) 30.00 MiB 0 B 30.00 MiB 30.00 MiB 1 ",
            " graph (1, 0) 20.00 MiB 0 B 20.00 MiB 20.00 MiB 1 ",
            " 1 graph pool keeps 20.00 MiB free, 20.00 MiB of it in empty segments: deleting the graphs and \
             then calling torch.cuda.empty_cache() returns them, empty_cache alone does not",
            " 1 MemPool keeps 30.00 MiB free, 30.00 MiB of it in empty segments: deleting the MemPool returns them, ",
            "note: pool (1, 0): 0 B in use, 20.00 MiB reserved, unused: a failed capture?",
        ] {
            assert!(text.contains(part), "{words:?} {part}: {text}");
        }
        // A pool that the program made is of no capture.
        assert!(!text.contains("note: pool (0, 1)"), "{text}");
    }
    let text = asked(&["fragmentation"], &world(), folder.path());
    assert!(text.contains("1.15 GiB in empty segments (empty_cache returns 1.10 GiB of them)"), "{text}");
}

#[test]
fn blocks_are_grouped_by_stream_pool_and_line() {
    let folder = tempfile::tempdir().unwrap();
    let asked = |words: &[&str]| asked(&[&["top", "--at", "peak"], words].concat(), &world(), folder.path());
    let text = asked(&["--by", "stream"]);
    assert!(text.contains(" stream 50.0 % 64.00 MiB 1 0x64 50.0 % 64.00 MiB 1 0x65"), "{text}");
    let text = asked(&["--by", "line"]);
    assert!(text.contains(" with callees line 100.0 % 128.00 MiB 2 128.00 MiB "), "{text}");
    assert!(text.contains("streams.rs:41"), "{text}");
    // The blocks of the last event are those of the graph's pool, whose free is the event after it.
    let n = Value::as_array(&world()["device_traces"][0]).unwrap().len();
    let words = ["top", "--by", "pool", "--at", &(n - 3).to_string()];
    let text = super::streams::asked(&words, &world(), folder.path());
    assert!(text.contains(" pool 100.0 % 20.00 MiB 1 graph (1, 0)"), "{text}");
}
