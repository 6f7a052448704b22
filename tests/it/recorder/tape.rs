//! What a tape promises: every thread's events whole and in order, bounded memory, and filters that keep pairs together.
#![forbid(unsafe_code)]

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use memreel::{
    Action, Address, DeviceId, PoolId, Reel, StreamId,
    device::Simulated,
    integrate::{Event, FrameSource, Inventory, SourceFrame, StackId, Track},
    recorder::{Context, Recorder, Recording, sample_weight},
    snapshot::{Dialect, Snapshot, TraceEntry, Value, collect},
    validate::{Severity, validate},
};

const DEVICE: DeviceId = DeviceId(0);
const N_THREADS: u64 = 64;

/// Of a thread's n-th event everything follows, so that half an event would show.
fn nth_event(thread: u64, n: u64) -> Event {
    let action = if n.is_multiple_of(2) { Action::Alloc } else { Action::FreeCompleted };
    let address = Address(thread << 40 | (n / 2) << 9);
    let size_bytes = (thread * 1_000_003 + n / 2) * 512;
    Event {
        action,
        address,
        size_bytes,
        stream: StreamId::from_handle(thread),
        pool: PoolId::DEFAULT,
        stack: StackId::NONE,
    }
}

fn snapshot(recorder: &Recorder) -> Snapshot {
    collect(recorder, [&recorder.ledger(DEVICE)], Dialect::default())
}

/// Each thread's events follow one another without a gap, and are what was recorded; how many there are.
fn check_threads(snapshot: &Snapshot) -> usize {
    let trace = &snapshot.device_traces[0];
    assert!(trace.is_sorted_by_key(|entry| entry.time_us), "times run backwards");
    let mut next: HashMap<StreamId, u64> = HashMap::new();
    for entry in trace.iter().filter(|entry| entry.action != Some(Action::Snapshot)) {
        let thread = entry.stream.handle();
        let is_free = u64::from(entry.action == Some(Action::FreeCompleted));
        let n = ((entry.address.0 & ((1 << 40) - 1)) >> 9) * 2 + is_free;
        let expected = nth_event(thread, n);
        assert_eq!((entry.address, entry.size), (expected.address, expected.size_bytes), "torn");
        let before = next.insert(entry.stream, n + 1);
        assert!(before.is_none_or(|before| before == n), "thread {thread}: {n} after {before:?}");
    }
    next.len()
}

/// Lets the threads end, when a check fails too.
struct AtEnd<'a>(&'a AtomicBool);

impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The moment of a free's completion is that of its request, unless the request was left out.
#[test]
fn a_free_that_completes_at_once_is_two_events_whatever_is_skipped() {
    use Action::{Alloc, FreeCompleted, FreeRequested};
    for (skipped, expected) in [
        (vec![], vec![Alloc, FreeRequested, FreeCompleted]),
        (vec![FreeRequested], vec![Alloc, FreeCompleted]),
        (vec![FreeCompleted], vec![Alloc, FreeRequested]),
        (vec![FreeRequested, FreeCompleted], vec![Alloc]),
    ] {
        let recorder = Recorder::new();
        recorder.record_history(&Recording::all().skip_actions(skipped.clone()));
        let track = recorder.track(DEVICE);
        track.record(nth_event(0, 0));
        thread::sleep(Duration::from_millis(5));
        track.record_free(nth_event(0, 0));
        let trace = &snapshot(&recorder).device_traces[0];
        let actions: Vec<Action> = trace.iter().filter_map(|entry| entry.action).collect();
        assert_eq!(actions, expected, "without {skipped:?}");
        let since_alloc_us = trace.iter().map(|entry| entry.time_us - trace[0].time_us);
        assert!(since_alloc_us.skip(1).all(|us| us >= 5000), "without {skipped:?}: {trace:?}");
        let small = recorder_of_large_only();
        let track = small.track(DEVICE);
        let stack = track.stack_of_alloc(16);
        track.record_free(Event { stack, ..nth_event(0, 0) });
        assert_eq!(small.n_events(DEVICE), 0, "what the filters left out has no free");
    }
}

fn recorder_of_large_only() -> Recorder {
    let recorder = Recorder::new();
    recorder.record_history(&Recording::all().min_size(1 << 20));
    recorder
}

#[test]
fn sixty_four_threads_record_ten_million_events_while_snapshots_are_taken() {
    const N_EVENTS: u64 = 10_000_000 / N_THREADS;
    const N_SNAPSHOTS: u64 = 20;
    let recorder = Recorder::new();
    recorder.record_history(&Recording::all().context(Context::None).max_entries(200_000));
    let is_done = AtomicBool::new(false);
    let n_recorded: u64 = thread::scope(|scope| {
        let record = |thread: u64| {
            let (track, is_done) = (recorder.track(DEVICE), &is_done);
            move || {
                let is_wanted = |n: &u64| *n < N_EVENTS || !is_done.load(Ordering::Relaxed);
                (0..).take_while(is_wanted).map(|n| track.record_unlocked(nth_event(thread, n))).count()
                    as u64
            }
        };
        let threads: Vec<_> = (0..N_THREADS).map(|thread| scope.spawn(record(thread))).collect();
        let end = AtEnd(&is_done);
        (0..N_SNAPSHOTS).for_each(|_| _ = check_threads(&snapshot(&recorder)));
        drop(end);
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert!(n_recorded >= 10_000_000);
    let last = snapshot(&recorder);
    check_threads(&last);
    let n_kept = last.device_traces[0].len();
    assert!((150_000..=200_000).contains(&n_kept), "{n_kept} of 200,000 places are used");
    // Each snapshot leaves an event, the last one too.
    let n_all = recorder.n_lost(DEVICE) + recorder.n_events(DEVICE) as u64;
    assert_eq!(n_all, n_recorded + N_SNAPSHOTS + 1);
    memreel_testing::say(&format!("{n_recorded} events of 64 threads, {N_SNAPSHOTS} snapshots meanwhile"));
}

#[test]
fn sixty_four_threads_of_one_allocator_leave_valid_snapshots() {
    let history = Recording::all().context(Context::None).max_entries(50_000);
    let reel = Reel::builder().device(Simulated::new(80 << 30)).history(history).build().unwrap();
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let work = |thread: u64| {
            let (reel, is_done) = (&reel, &is_done);
            move || {
                let allocator = reel.allocator(0).unwrap();
                let mut n = 0;
                while !is_done.load(Ordering::Relaxed) {
                    n += 1;
                    drop(
                        allocator
                            .alloc(512 * (1 + (thread * 7 + n) % 90), StreamId::from_handle(thread % 8))
                            .unwrap(),
                    );
                }
            }
        };
        (0..N_THREADS).for_each(|thread| _ = scope.spawn(work(thread)));
        let _end = AtEnd(&is_done);
        // On a busy machine eight snapshots are taken before the first thread begins.
        while reel.recorder().n_events(DEVICE) < 2000 {
            thread::yield_now();
        }
        for n in 0..8 {
            let snapshot = reel.snapshot();
            let errors: Vec<_> = validate(&snapshot)
                .into_iter()
                .filter(|finding| finding.severity == Severity::Error)
                .collect();
            assert!(errors.is_empty(), "snapshot {n}: {:?}", &errors[..errors.len().min(3)]);
        }
    });
    let trace = &reel.snapshot().device_traces[0];
    assert!(trace.len() > 1000, "they did record");
}

/// One thread records allocations and hands their addresses over, the other records the frees.
#[test]
fn a_free_by_another_thread_stands_behind_its_allocation() {
    const N_EVENTS: u64 = 300_000;
    let recorder = Recorder::new();
    recorder.record_history(&Recording::all().context(Context::None));
    let handed_over = AtomicU64::new(0);
    let note = |track: &Track, n: u64, action: Action| {
        track.record_unlocked(Event {
            action,
            address: Address(n << 9),
            stream: StreamId(0),
            ..nth_event(0, 0)
        });
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            let track = recorder.track(DEVICE);
            for n in 1..=N_EVENTS {
                note(&track, n, Action::Alloc);
                handed_over.store(n, Ordering::Release);
            }
        });
        scope.spawn(|| {
            let (track, mut n_freed) = (recorder.track(DEVICE), 0);
            while n_freed < N_EVENTS {
                let n = handed_over.load(Ordering::Acquire);
                if n > n_freed {
                    note(&track, n, Action::FreeCompleted);
                    n_freed = n;
                }
            }
        });
    });
    let (mut allocated, mut n_frees) = (0, 0);
    for entry in &snapshot(&recorder).device_traces[0] {
        match entry.action {
            Some(Action::Alloc) => allocated = entry.address.0 >> 9,
            _ => {
                assert!(entry.address.0 >> 9 <= allocated, "a free before its allocation");
                n_frees += 1;
            }
        }
    }
    assert_eq!(allocated, N_EVENTS);
    assert!(n_frees > 0);
}

/// Each thread takes a chunk and leaves it, nearly empty, to the next.
#[test]
fn thousands_of_threads_that_end_share_a_few_chunks() {
    let recorder = Recorder::new();
    recorder.record_history(&Recording::all().context(Context::None).max_entries(10_000));
    let track = recorder.track(DEVICE);
    for thread in 0..3000 {
        let track = track.clone();
        thread::spawn(move || (0..3).for_each(|n| track.record_unlocked(nth_event(thread, n))))
            .join()
            .unwrap();
    }
    assert_eq!((recorder.n_events(DEVICE), recorder.n_lost(DEVICE)), (9000, 0));
    assert_eq!(check_threads(&snapshot(&recorder)), 3000);
}

fn actions(snapshot: &Snapshot) -> Vec<(&'static str, u64)> {
    let tell = |entry: &TraceEntry| (entry.action.unwrap().name(), entry.size);
    snapshot.device_traces[0].iter().map(tell).collect()
}

#[test]
fn small_blocks_are_left_out_with_their_frees() {
    let device = Arc::new(Simulated::new(80 << 30));
    let history = Recording::all().min_size(1000);
    let reel = Reel::builder().device(device.clone()).history(history).build().unwrap();
    let small = reel.alloc(999).unwrap();
    let large = reel.alloc(1000).unwrap();
    // Its free is completed later, by another request.
    let waiting = reel.alloc(600).unwrap();
    device.set_busy(StreamId(1));
    waiting.record_stream(StreamId(1));
    drop((small, waiting));
    device.set_idle(StreamId(1));
    drop(large);
    // A snapshot of the reel has the alloc of the block that waits, too.
    let allocator = &reel.allocators()[0] as &dyn Inventory;
    let snapshot = collect(reel.recorder(), [allocator], Dialect::default());
    assert_eq!(
        actions(&snapshot),
        [("segment_alloc", 2 << 20), ("alloc", 1000), ("free_requested", 1000), ("free_completed", 1000)]
    );
    let settings = snapshot.allocator_settings().unwrap();
    assert_eq!(settings.get("memreel_min_size"), Some(&Value::Int(1000)));
}

#[test]
fn a_ledger_leaves_small_blocks_out_too() {
    let recorder = Recorder::new();
    recorder.record_history(&Recording::all().min_size(1000));
    let ledger = recorder.ledger(DEVICE);
    ledger.segment_alloc(Address(1 << 20), 1 << 20, StreamId::DEFAULT).unwrap();
    for (n, bytes) in [999, 1000].into_iter().enumerate() {
        let address = Address((1 << 20) + 4096 * n as u64);
        ledger.alloc(address, bytes, StreamId::DEFAULT).unwrap();
        ledger.free(address).unwrap();
    }
    let snapshot = collect(&recorder, [&ledger], Dialect::default());
    assert_eq!(
        actions(&snapshot),
        [("segment_alloc", 1 << 20), ("alloc", 1000), ("free_requested", 1000), ("free_completed", 1000)]
    );
}

/// Kept allocations have their frees, the others none; weights give back what was there.
#[test]
#[allow(clippy::cast_precision_loss)]
fn a_sample_keeps_pairs_and_estimates_the_whole() {
    const EVERY: u64 = 100_000;
    let history = Recording::all().context(Context::None).sample_every(EVERY);
    let reel = Reel::builder().device(Simulated::new(80 << 30)).history(history).build().unwrap();
    let sizes = |n: u64| if n.is_multiple_of(500) { 3 << 20 } else { 512 << (n % 4) };
    let (mut bytes, mut variance) = (0.0, 0.0);
    for n in 0..200_000 {
        drop(reel.alloc(sizes(n)).unwrap());
        bytes += sizes(n) as f64;
        variance += (sample_weight(sizes(n), EVERY) - 1.0) * (sizes(n) as f64).powi(2);
    }
    let snapshot = reel.snapshot();
    let mut live: HashMap<Address, u64> = HashMap::new();
    let (mut n_kept, mut estimate) = (0, 0.0);
    for entry in &snapshot.device_traces[0] {
        match entry.action.unwrap() {
            Action::Alloc => {
                assert_eq!(live.insert(entry.address, entry.size), None);
                n_kept += 1;
                estimate += sample_weight(entry.size, EVERY) * entry.size as f64;
            }
            Action::FreeRequested => assert_eq!(live.get(&entry.address), Some(&entry.size)),
            Action::FreeCompleted => assert_eq!(live.remove(&entry.address), Some(entry.size)),
            _ => {}
        }
    }
    assert!(live.is_empty());
    assert!(n_kept > 400 && n_kept < 20_000, "{n_kept} of 200,000");
    // Six standard deviations: wrong once in half a billion runs.
    assert!((estimate - bytes).abs() < 6.0 * variance.sqrt(), "{estimate} for {bytes}");
    let settings = snapshot.allocator_settings().unwrap();
    assert_eq!(settings.get("memreel_sample_bytes"), Some(&Value::Int(100_000)));
}

/// Two frames of an interpreter, whose words are their lines.
struct Interpreter;

impl FrameSource for Interpreter {
    fn capture(&self, words: &mut [usize]) -> usize {
        words[..2].copy_from_slice(&[41, 7]);
        2
    }

    fn name(&self, word: usize) -> Vec<SourceFrame> {
        let name = if word == 41 { "inner" } else { "outer" };
        vec![SourceFrame { name: name.into(), filename: "train.py".into(), line: word as u32 }]
    }
}

#[test]
fn a_second_source_of_frames_stands_before_the_native_ones() {
    let reel = Reel::builder().device(Simulated::new(1 << 30)).history(Recording::all()).build().unwrap();
    assert!(reel.recorder().set_frame_source(Arc::new(Interpreter)));
    assert!(!reel.recorder().set_frame_source(Arc::new(Interpreter)), "the first one stays");
    let _block = reel.alloc(1000).unwrap();
    let snapshot = reel.snapshot();
    let alloc = snapshot.device_traces[0].last().unwrap();
    let frames: Vec<_> = snapshot.frames(alloc.stack).collect();
    let told = |frame: &memreel::snapshot::Frame| format!("{}:{} {}", frame.filename, frame.line, frame.name);
    assert_eq!([told(frames[0]), told(frames[1])], ["train.py:41 inner", "train.py:7 outer"]);
    assert!(frames[2].filename.ends_with("tape.rs"), "{:?}", frames[2]);
}

/// A track outlives what it is asked to hold: a thread may record until the recorder is gone.
#[test]
fn a_track_records_for_nobody_once_its_history_is_off() {
    let recorder = Recorder::new();
    recorder.record_history(&Recording::all().context(Context::None));
    let track: Track = recorder.track(DEVICE);
    track.record(nth_event(0, 0));
    recorder.record_history(&Recording::off());
    track.record(nth_event(0, 1));
    assert_eq!(recorder.n_events(DEVICE), 0);
    recorder.record_history(&Recording::all().context(Context::None));
    track.record(nth_event(0, 2));
    drop(recorder);
    track.record(nth_event(0, 3));
}
