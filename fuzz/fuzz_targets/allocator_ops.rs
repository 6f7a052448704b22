//! Runs the input as a program of allocator requests; after every step the allocator's figures must agree.

#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use memreel::{
    Allocation, Reel, StreamId,
    device::{Limit, Simulated},
    recorder::{Context, History},
    validate::{Severity, validate},
};

const SETTINGS: [&str; 6] = [
    "",
    "expandable_segments:True",
    "max_split_size_mb:21",
    "roundup_power2_divisions:8",
    "garbage_collection_threshold:0.5",
    "expandable_segments:True,max_split_size_mb:64",
];

fuzz_target!(|bytes: &[u8]| {
    let [settings, ops @ ..] = bytes else { return };
    let device = Arc::new(Simulated::new(1 << 30));
    let settings = SETTINGS[usize::from(*settings) % SETTINGS.len()].parse().expect("these are settings");
    let reel = Reel::builder()
        .device(Limit::new(device.clone(), 300 << 20))
        .settings(settings)
        // Naming stacks would read the sanitizer's debug info, for seconds each time.
        .history(History::all().context(Context::None).max_entries(1 << 16))
        .build()
        .expect("a simulated device opens");
    let allocator = reel.allocator(0).expect("there is one");
    let mut live: Vec<Allocation> = Vec::new();
    for op in ops.chunks_exact(3) {
        let number = u64::from(op[1]) << 8 | u64::from(op[2]);
        let pick = usize::from(op[1]);
        match op[0] % 8 {
            0..3 => {
                // Sizes up to 64 KiB or up to 128 MiB, on four streams.
                let bytes = 1 + if op[0] & 8 == 0 { number } else { number << 11 };
                live.extend(allocator.alloc(bytes, StreamId(i64::from(op[0] >> 4 & 3))));
            }
            3 | 4 if !live.is_empty() => {
                live.swap_remove(pick % live.len()).free().expect("it is live");
            }
            5 if !live.is_empty() => {
                device.set_busy(StreamId(9));
                live[pick % live.len()].record_stream(StreamId(9));
            }
            6 => {
                device.set_idle(StreamId(9));
                allocator.empty_cache().expect("the device takes its memory back");
            }
            7 if op[1] == 0 => device.refuse_next(u32::from(op[2] % 3)),
            _ => {}
        }
        let held: u64 = live.iter().map(Allocation::block_bytes).sum();
        assert_eq!(allocator.memory_allocated(), held);
        assert!(allocator.memory_reserved() >= held);
    }
    let findings = validate(&reel.snapshot());
    let errors: Vec<_> = findings.iter().filter(|finding| finding.severity == Severity::Error).collect();
    assert!(errors.is_empty(), "{errors:?}");
});
