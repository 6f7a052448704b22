//! Threads that allocate while a snapshot is taken.

use std::{
    hint::black_box,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::Duration,
};

use memreel::{
    DeviceId,
    integrate::{InventorySegment, MallocReports},
    recorder::{Context, Recorder, Recording},
};

use crate::{own_process, threads::IsOver};

const LIMIT: Duration = Duration::from_secs(120);
const N_KEPT: u64 = 1_000_000;

/// They wait while the events are cut, and not while a million blocks are copied.
#[test]
fn threads_go_on_while_blocks_are_copied() {
    own_process::run(module_path!(), "threads_go_on_while_blocks_are_copied", LIMIT, || {
        let recorder = Recorder::new();
        recorder.record_history(&Recording::all().context(Context::None).max_entries(100_000));
        let heap = MallocReports::connect(&recorder, DeviceId(1)).unwrap();
        let kept: Vec<Box<u64>> = (0..N_KEPT).map(Box::new).collect();
        let (is_over, n_pairs) = (AtomicBool::new(false), AtomicU64::new(0));
        thread::scope(|scope| {
            let _ends = IsOver(&is_over);
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    drop(black_box(Box::new(1_u8)));
                    n_pairs.fetch_add(1, Ordering::Relaxed);
                }
            });
            // Another process may have the processor for a while.
            let went_on = (0..20).any(|_| {
                let mut at_cut = (0, 0);
                let segments = heap.inventory().segments_at(&mut |bytes| {
                    at_cut = (n_pairs.load(Ordering::Relaxed), bytes);
                });
                let n_meanwhile = n_pairs.load(Ordering::Relaxed) - at_cut.0;
                assert_eq!(segments.iter().map(InventorySegment::active_bytes).sum::<u64>(), at_cut.1);
                let of_kept =
                    segments.iter().flat_map(|segment| &segment.blocks).filter(|block| block.size_bytes == 8);
                assert!(of_kept.count() as u64 >= N_KEPT);
                n_meanwhile > 1000
            });
            assert!(went_on);
        });
        drop(black_box(kept));
    });
}
