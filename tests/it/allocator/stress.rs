//! Several threads, eight streams, a million operations; then every invariant is checked.
//!
//! Two threads have a device with room; four have one that is always full and lets other threads go on during its
//! calls. The threads hand blocks to each other, so that a block is freed by another
//! thread than its own. The ring is small and wraps all the time.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use memreel::{
    Allocation, CachingAllocator, DeviceId, StreamId,
    device::{Device, Limit, Simulated},
    integrate::Inventory,
    recorder::{Context, Recorder, Recording},
    snapshot::{Dialect, collect},
    validate::{Severity, validate},
};

use crate::random::Random;

use super::{
    hooked::Hooked,
    invariants::{check_live, check_recounts, check_tiling},
};

const MIB: u64 = 1 << 20;
const N_STREAMS: u64 = 8;
const N_ENTRIES: usize = 5_000;

/// What the threads work on, and what they count.
struct Stage {
    device: Arc<Simulated>,
    recorder: Recorder,
    allocator: CachingAllocator,
    handed_over: Mutex<VecDeque<Allocation>>,
    n_allocs: AtomicU64,
    n_ooms: AtomicU64,
    n_snapshots: AtomicU64,
}

/// Returns a size in bytes: mostly small, sometimes large.
fn bytes(random: &mut Random) -> u64 {
    match random.below(100) {
        0..60 => 1 + random.below(8192),
        60..85 => 1 + random.below(2 * MIB),
        85..98 => MIB + random.below(12 * MIB),
        _ => 10 * MIB + random.below(60 * MIB),
    }
}

impl Stage {
    /// With a device of a limited size, which calls a hook before each call that may take long.
    fn new(budget_bytes: u64, hook: impl Fn(&'static str) + Send + Sync + 'static) -> Stage {
        let device = Arc::new(Simulated::new(4096 * MIB));
        let hooked = Hooked::new(Limit::new(device.clone(), budget_bytes));
        hooked.set_hook(hook);
        let recorder = Recorder::new();
        recorder.record_history(&Recording::all().context(Context::None).max_entries(N_ENTRIES));
        let allocator = CachingAllocator::new(hooked, &recorder.track(DeviceId(0)));
        Stage {
            device,
            recorder,
            allocator,
            handed_over: Mutex::default(),
            n_allocs: AtomicU64::new(0),
            n_ooms: AtomicU64::new(0),
            n_snapshots: AtomicU64::new(0),
        }
    }

    fn alloc(&self, random: &mut Random, live: &mut Vec<Allocation>) {
        match self.allocator.alloc(bytes(random), StreamId::from_handle(random.below(N_STREAMS))) {
            Ok(block) => {
                self.n_allocs.fetch_add(1, Ordering::Relaxed);
                live.push(block);
            }
            Err(error) => {
                assert!(error.is_out_of_memory(), "{error}");
                self.n_ooms.fetch_add(1, Ordering::Relaxed);
                live.truncate(live.len() / 2);
            }
        }
    }

    fn free(&self, random: &mut Random, live: &mut Vec<Allocation>) {
        if !live.is_empty() {
            let place = random.index(live.len());
            drop(live.swap_remove(place));
        }
    }

    /// One block goes to the other thread, and one that came from it is freed.
    fn hand_over(&self, live: &mut Vec<Allocation>) {
        let mut handed_over = self.handed_over.lock().unwrap();
        handed_over.extend(live.pop());
        let theirs = if handed_over.len() > 20 { handed_over.pop_front() } else { None };
        drop(handed_over);
        drop(theirs);
    }

    /// The rarer operations.
    fn change(&self, random: &mut Random) {
        let stream = StreamId::from_handle(random.below(N_STREAMS));
        match random.below(40) {
            0 => self.allocator.empty_cache().unwrap(),
            1 => self.allocator.update_settings("expandable_segments:True").unwrap(),
            2 => self.allocator.update_settings("expandable_segments:False,max_split_size_mb:25").unwrap(),
            3 => {
                let mut is_tiled = Ok(());
                self.allocator.inspect(&mut |segments| is_tiled = check_tiling(segments));
                is_tiled.unwrap();
            }
            4 if random.below(20) == 0 => {
                let snapshot = collect(&self.recorder, [&self.allocator], Dialect::default());
                assert!(snapshot.device_traces[0].len() <= N_ENTRIES);
                self.n_snapshots.fetch_add(1, Ordering::Relaxed);
            }
            5..22 => self.device.set_busy(stream),
            _ => self.device.set_idle(stream),
        }
    }

    /// One thread's part. What it still holds at the end comes back.
    fn work(&self, thread: u64, n_operations: u64) -> Vec<Allocation> {
        let (mut random, mut live) = (Random::new(thread), Vec::new());
        for _ in 0..n_operations {
            match random.below(1000) {
                0..430 if live.len() < 300 => self.alloc(&mut random, &mut live),
                0..850 => self.free(&mut random, &mut live),
                850..960 if !live.is_empty() => {
                    let block: &Allocation = &live[random.index(live.len())];
                    block.record_stream(StreamId::from_handle(random.below(N_STREAMS)));
                }
                850..990 => self.hand_over(&mut live),
                _ => self.change(&mut random),
            }
        }
        live
    }

    fn check(&self, live: &[Allocation]) {
        let mut segments = Vec::new();
        self.allocator.inspect(&mut |seen| segments = seen.to_vec());
        check_tiling(&segments).unwrap();
        check_live(&segments, live).unwrap();
        let stats = self.allocator.stats();
        check_recounts(&stats, &segments).unwrap();
        let n_allocs = self.n_allocs.load(Ordering::Relaxed);
        assert_eq!(stats.allocation.all.allocated.cast_unsigned(), n_allocs);
        assert_eq!(stats.allocation.all.freed.cast_unsigned(), n_allocs - live.len() as u64);
        assert_eq!(stats.num_ooms.cast_unsigned(), self.n_ooms.load(Ordering::Relaxed));
    }

    /// Every change of a statistic was one event, kept or counted as lost.
    fn check_recording(&self) {
        let stats = self.allocator.stats();
        let changes = stats.allocation.all.allocated
            + stats.allocation.all.freed
            + stats.active.all.freed
            + stats.num_device_alloc
            + stats.num_device_free
            + stats.num_ooms;
        let n_changes = changes.cast_unsigned() + self.n_snapshots.load(Ordering::Relaxed);
        let n_kept = self.recorder.n_events(DeviceId(0));
        assert_eq!(n_kept, N_ENTRIES, "the ring is full");
        assert_eq!(n_kept as u64 + self.recorder.n_lost(DeviceId(0)), n_changes);
        let snapshot = collect(&self.recorder, [&self.allocator], Dialect::default());
        let mut findings = validate(&snapshot);
        findings.retain(|finding| finding.severity == Severity::Error);
        assert!(findings.is_empty(), "{findings:?}");
    }
}

/// Runs the threads, then checks the totals, with what is live and without.
fn run(stage: Stage, n_threads: u64, n_operations: u64) {
    let mut live: Vec<Allocation> = thread::scope(|threads| {
        let stage = &stage;
        let running: Vec<_> =
            (0..n_threads).map(|n| threads.spawn(move || stage.work(n, n_operations))).collect();
        running.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    live.extend(std::mem::take(&mut *stage.handed_over.lock().unwrap()));
    stage.check(&live);
    stage.check_recording();
    live.clear();
    stage.device.synchronize();
    stage.allocator.empty_cache().unwrap();
    stage.check(&live);
    assert_eq!(stage.allocator.memory_reserved(), 0);
    let device = stage.device.clone();
    drop(stage);
    assert_eq!((device.n_segments(), device.free_bytes()), (0, device.total_bytes()));
}

#[test]
fn a_million_operations_leave_everything_in_order() {
    run(Stage::new(2048 * MIB, |_| {}), 2, 500_000);
}

#[test]
fn a_full_device_whose_calls_let_others_go_on_leaves_everything_in_order() {
    let n_calls = AtomicU64::new(0);
    let stage = Stage::new(200 * MIB, move |_| match n_calls.fetch_add(1, Ordering::Relaxed) % 8 {
        0 => thread::sleep(Duration::from_micros(50)),
        _ => thread::yield_now(),
    });
    run(stage, 4, 50_000);
}
