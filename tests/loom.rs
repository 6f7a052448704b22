//! The lock protocol under every interleaving.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release --test loom --target-dir target/loom`
//! builds the crate on loom's locks (`src/sync.rs`) and runs the real
//! recorder and allocator. The protocol: the turn to call the device, then an
//! allocator's lock, which is released during such a call, then the state of a tape; the tables alone; observers under no lock; a switch of the recording
//! stores the mode and goes through the tapes one after the other. Threads
//! write in chunks of their own, which hold four events here, and hand them
//! over under that state's lock. loom reports a deadlock by itself.
#![cfg(loom)]
#![allow(missing_docs)]

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use loom::{
    model::Builder,
    thread::{self, JoinHandle},
};
use memreel::{
    Action, Address, CachingAllocator, DeviceId, PoolId, PoolKind, Snapshot, StreamId,
    allocator::{PoolOptions, Route},
    device::{Device, Simulated},
    integrate::{Event, Inventory, InventorySegment, StackId, Stacks, Track},
    recorder::{Context, History, Recorder},
    snapshot::{Dialect, collect},
};

const MIB: u64 = 1 << 20;
const DEVICE: DeviceId = DeviceId(0);

/// Runs a model; says how many interleavings there were.
fn explore(name: &str, model: impl Fn() + Sync + Send + 'static) {
    explore_with(name, None, model);
}

/// As [`explore`], but only those in which a thread is interrupted so often at
/// most, where all of them are a million. Errors of a protocol show with two.
fn explore_with(name: &str, most_interruptions: Option<usize>, model: impl Fn() + Sync + Send + 'static) {
    let n = Arc::new(AtomicUsize::new(0));
    let n_too = n.clone();
    let mut builder = Builder::new();
    builder.max_branches = 100_000;
    builder.preemption_bound = most_interruptions;
    builder.check(move || {
        n_too.fetch_add(1, Ordering::Relaxed);
        model();
    });
    println!("{name}: {} interleavings", n.load(Ordering::Relaxed));
}

/// A thread with room for what the crate puts on a stack.
fn spawn<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    thread::Builder::new().stack_size(1 << 16).spawn(work).unwrap()
}

fn history() -> History {
    History::all().context(Context::None).max_entries(50)
}

fn recorder() -> Recorder {
    let recorder = Recorder::new();
    recorder.record_history(&history());
    recorder
}

fn allocator(recorder: &Recorder) -> CachingAllocator {
    CachingAllocator::new(Simulated::new(100 * MIB), &recorder.track(DEVICE))
}

fn snapshot(recorder: &Recorder, allocator: &CachingAllocator) -> Snapshot {
    collect(recorder, &[allocator as &dyn Inventory], Dialect::default())
}

/// What a trace from the beginning says is in use, and what the segments say.
fn assert_agrees(snapshot: &Snapshot) {
    let mut in_use = 0;
    for entry in &snapshot.device_traces[0] {
        match entry.action {
            Some(Action::Alloc) => in_use += entry.size,
            Some(Action::FreeCompleted) => in_use -= entry.size,
            _ => {}
        }
    }
    let requested: u64 = snapshot.segments.iter().map(|segment| segment.requested_size).sum();
    assert_eq!(in_use, requested, "the trace and the segments are of one moment");
}

#[test]
fn a_snapshot_is_of_one_moment() {
    explore("snapshot", || {
        let recorder = recorder();
        let allocator = allocator(&recorder);
        let theirs = allocator.clone();
        let thread = spawn(move || drop(theirs.alloc(1000, StreamId(1)).unwrap()));
        assert_agrees(&snapshot(&recorder, &allocator));
        thread.join().unwrap();
        let last = snapshot(&recorder, &allocator);
        assert_agrees(&last);
        // A segment, a block, two events of its free, and the first snapshot.
        assert_eq!(last.device_traces[0].len(), 5, "nothing was lost");
    });
}

#[test]
fn switching_off_leaves_nothing_behind() {
    explore_with("off", Some(4), || {
        let recorder = recorder();
        let allocator = allocator(&recorder);
        let theirs = (recorder.clone(), allocator.clone());
        let thread = spawn(move || {
            let _scope = theirs.0.scope("work");
            drop(theirs.1.alloc(1000, StreamId(0)).unwrap());
        });
        recorder.record_history(&History::off());
        thread.join().unwrap();
        assert_eq!(recorder.n_events(DEVICE), 0, "an event slipped in behind the erasing");
        let left = snapshot(&recorder, &allocator);
        assert!(left.external_annotations.is_empty(), "a scope slipped in behind the erasing");
    });
}

#[test]
fn switching_on_makes_room_first() {
    explore("on", || {
        let recorder = Recorder::new();
        let allocator = allocator(&recorder);
        let theirs = (recorder.clone(), allocator.clone());
        let thread = spawn(move || {
            {
                let _scope = theirs.0.scope("work");
                let _ = theirs.1.alloc(1000, StreamId(0)).unwrap();
            }
            drop(theirs.0.scope("rest"));
        });
        recorder.record_history(&history());
        thread.join().unwrap();
        assert_eq!(recorder.n_lost(DEVICE), 0, "an event was squeezed out of a ring of one");
        let is_recorded = recorder.n_events(DEVICE) > 0;
        let annotations = snapshot(&recorder, &allocator).external_annotations;
        let stages: Vec<&str> = annotations.iter().map(|annotation| &*annotation.stage).collect();
        // Once an event was recorded, everything behind it was.
        let is_whole = stages.ends_with(&["END", "START", "END"]);
        assert!(is_whole || !is_recorded, "{stages:?}: a scope was squeezed out");
    });
}

#[test]
fn a_track_made_while_recording_is_switched_on_has_room() {
    explore("track", || {
        let recorder = Recorder::new();
        let theirs = recorder.clone();
        let thread = spawn(move || drop(theirs.track(DEVICE)));
        recorder.record_history(&history());
        thread.join().unwrap();
        let ledger = recorder.ledger(DEVICE);
        (0..4).for_each(|_| ledger.oom(1, 0, StreamId(0)));
        assert_eq!((recorder.n_events(DEVICE), recorder.n_lost(DEVICE)), (4, 0));
    });
}

#[test]
fn two_threads_share_blocks_and_streams() {
    explore("share", || {
        let recorder = recorder();
        let allocator = allocator(&recorder);
        let theirs = allocator.clone();
        let thread = spawn(move || {
            let block = theirs.alloc(1000, StreamId(1)).unwrap();
            block.record_stream(StreamId(2));
            block.free().unwrap();
        });
        let block = allocator.alloc(3000, StreamId(1)).unwrap();
        allocator.empty_cache().unwrap();
        drop(block);
        thread.join().unwrap();
        allocator.empty_cache().unwrap();
        let last = snapshot(&recorder, &allocator);
        assert_agrees(&last);
        assert!(last.segments.is_empty(), "everything went back");
        let stats = allocator.stats();
        assert_eq!((stats.allocation.all.allocated, stats.active.all.freed), (2, 2));
    });
}

#[test]
fn a_full_device_is_waited_for_while_memory_goes_back() {
    explore_with("full", Some(4), || {
        let recorder = recorder();
        let device = Arc::new(Simulated::new(2 * MIB));
        let allocator = CachingAllocator::new(device.clone(), &recorder.track(DEVICE));
        drop(allocator.alloc(1000, StreamId(1)).unwrap());
        let theirs = allocator.clone();
        let thread = spawn(move || theirs.empty_cache().unwrap());
        // Whichever thread gives the only segment back, this one gets it.
        drop(allocator.alloc(1000, StreamId(2)).unwrap());
        thread.join().unwrap();
        assert_agrees(&snapshot(&recorder, &allocator));
        assert_eq!(allocator.stats().num_ooms, 0);
        allocator.empty_cache().unwrap();
        assert_eq!(device.n_segments(), 0);
    });
}

#[test]
fn a_pool_may_end_while_its_request_waits_for_its_turn() {
    explore_with("pool", Some(2), || {
        let recorder = recorder();
        let device = Arc::new(Simulated::new(100 * MIB));
        let allocator = CachingAllocator::new(device.clone(), &recorder.track(DEVICE));
        let pool = allocator.create_pool(PoolOptions::default());
        allocator.begin_pool(pool, Route::Streams(Box::new(|stream| stream == StreamId(1)))).unwrap();
        let theirs = allocator.clone();
        let thread = spawn(move || {
            theirs.end_pool(pool).unwrap();
            (0..2).for_each(|_| theirs.release_pool(pool).unwrap());
            theirs.empty_cache().unwrap();
        });
        drop(allocator.alloc(1000, StreamId(1)).unwrap());
        thread.join().unwrap();
        assert_agrees(&snapshot(&recorder, &allocator));
        allocator.empty_cache().unwrap();
        assert!(allocator.release_pool(pool).is_err(), "the pool is erased");
        assert_eq!(device.n_segments(), 0, "nothing was taken for a pool that is gone");
    });
}

#[test]
fn a_mark_is_waited_for_while_another_thread_finds_it_passed() {
    explore_with("wait", Some(2), || {
        let recorder = recorder();
        let device = Arc::new(Simulated::new(100 * MIB));
        let allocator = CachingAllocator::new(device.clone(), &recorder.track(DEVICE));
        let _segment = allocator.alloc(1000, StreamId(1)).unwrap();
        let block = allocator.alloc(1000, StreamId(1)).unwrap();
        device.set_busy(StreamId(2));
        block.record_stream(StreamId(2));
        block.free().unwrap();
        let theirs = (device.clone(), allocator.clone());
        let thread = spawn(move || {
            theirs.0.set_idle(StreamId(2));
            drop(theirs.1.alloc(1000, StreamId(1)).unwrap());
        });
        allocator.empty_cache().unwrap();
        thread.join().unwrap();
        let last = snapshot(&recorder, &allocator);
        assert_agrees(&last);
        let completed = last.device_traces[0].iter().filter(|e| e.action == Some(Action::FreeCompleted));
        assert_eq!((completed.count(), allocator.stats().active.all.current), (2, 1));
    });
}

#[test]
fn observers_are_told_under_no_lock() {
    explore_with("oom", Some(2), || {
        let recorder = recorder();
        let device = Arc::new(Simulated::new(4 * MIB));
        let allocator = CachingAllocator::new(device.clone(), &recorder.track(DEVICE));
        let (told, theirs) = (Arc::new(AtomicUsize::new(0)), allocator.clone());
        let told_too = told.clone();
        allocator.on_oom(move |figures| {
            // Each of these takes the allocator's lock.
            let _held = theirs.alloc(1000, StreamId(0)).unwrap();
            theirs.inspect(&mut |segments| assert!(!segments.is_empty()));
            theirs.on_oom(|_| {});
            told_too.fetch_add(1, Ordering::Relaxed);
            assert_eq!(figures.requested_bytes, 10 * MIB);
        });
        let theirs = allocator.clone();
        let thread = spawn(move || assert!(theirs.alloc(10 * MIB, StreamId(0)).is_err()));
        assert!(allocator.alloc(10 * MIB, StreamId(0)).unwrap_err().is_out_of_memory());
        thread.join().unwrap();
        assert_eq!(told.load(Ordering::Relaxed), 2);
        assert_eq!(allocator.stats().num_ooms, 2);
        allocator.empty_cache().unwrap();
        assert_eq!(device.free_bytes(), device.total_bytes());
    });
}

#[test]
fn ledgers_keep_their_own_order() {
    explore("ledger", || {
        let recorder = recorder();
        let ledger = Arc::new(recorder.ledger(DEVICE));
        let theirs = ledger.clone();
        let thread = spawn(move || {
            theirs.alloc(memreel::Address(0x10000), 512, StreamId(0));
            theirs.free(memreel::Address(0x10000));
        });
        ledger.alloc(memreel::Address(0x20000), 512, StreamId(0));
        let seen = collect(&recorder, &[&*ledger as &dyn Inventory], Dialect::default());
        assert_agrees(&seen);
        thread.join().unwrap();
        assert_eq!(ledger.n_contradictions(), 0);
        // Two implied segments and blocks, a free with its segment, a snapshot.
        assert_eq!(recorder.n_events(DEVICE), 8);
    });
}

/// An event of a source without a lock, whose size tells which it is.
fn note(track: &Track, n: u64) {
    track.record_unlocked(Event {
        action: Action::Alloc,
        address: Address(n * 4096),
        size_bytes: n * 512,
        stream: StreamId::DEFAULT,
        pool: PoolId::DEFAULT,
        stack: StackId::NONE,
    });
}

/// Which events a snapshot has; each is whole.
fn noted(recorder: &Recorder) -> Vec<u64> {
    noted_with(recorder, &recorder.ledger(DEVICE))
}

fn noted_with(recorder: &Recorder, inventory: &dyn Inventory) -> Vec<u64> {
    let seen = collect(recorder, &[inventory], Dialect::default());
    let allocs = seen.device_traces[0].iter().filter(|entry| entry.action == Some(Action::Alloc));
    allocs
        .map(|entry| {
            assert_eq!(entry.address, Address(entry.size / 512 * 4096), "torn");
            entry.size / 512
        })
        .collect()
}

#[test]
fn a_full_chunk_is_handed_over_for_another() {
    // Chunks are of four events under loom, so the fifth takes another.
    explore("hand-over", || {
        let recorder = recorder();
        let track = recorder.track(DEVICE);
        (1..=3).for_each(|n| note(&track, n));
        let theirs = track.clone();
        // Its own chunk, and the one the first thread left full.
        let thread = spawn(move || (4..=8).for_each(|n| note(&theirs, n)));
        let seen = noted(&recorder);
        let n = seen.len() as u64;
        assert!(n >= 3 && seen.iter().copied().eq(1..=n), "a beginning, in order: {seen:?}");
        thread.join().unwrap();
        assert_eq!(noted(&recorder), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(recorder.n_lost(DEVICE), 0);
    });
}

#[test]
fn a_thread_that_ends_leaves_its_chunk_to_the_next() {
    explore("end", || {
        let recorder = recorder();
        let track = recorder.track(DEVICE);
        let threads = [1, 2].map(|n| {
            let track = track.clone();
            spawn(move || note(&track, n))
        });
        for thread in threads {
            thread.join().unwrap();
        }
        note(&track, 3);
        let mut seen = noted(&recorder);
        assert_eq!(seen.pop(), Some(3), "what comes later stands later");
        seen.sort_unstable();
        assert_eq!((seen, recorder.n_lost(DEVICE)), (vec![1, 2], 0));
    });
}

/// A free that completes at once is two events in order, whoever else has a lock of their own on the tape.
#[test]
fn a_free_stays_in_order_beside_another_lock() {
    explore("two locks", || {
        let recorder = recorder();
        let track = recorder.track(DEVICE);
        let event = |action, n: u64| Event {
            action,
            address: Address(n * 4096),
            size_bytes: 512,
            stream: StreamId::DEFAULT,
            pool: PoolId::DEFAULT,
            stack: StackId::NONE,
        };
        let theirs = track.clone();
        let thread = spawn(move || theirs.record(event(Action::Alloc, 2)));
        track.record(event(Action::Alloc, 1));
        track.record_free(event(Action::FreeRequested, 1));
        thread.join().unwrap();
        let ledger = recorder.ledger(DEVICE);
        let seen = collect(&recorder, &[&ledger as &dyn Inventory], Dialect::default());
        let own = seen.device_traces[0].iter().filter(|entry| entry.address == Address(4096));
        let own: Vec<Action> = own.filter_map(|entry| entry.action).collect();
        assert_eq!(own, [Action::Alloc, Action::FreeRequested, Action::FreeCompleted]);
        assert_eq!(recorder.n_events(DEVICE), 5);
    });
}

/// Every fifth event drops the oldest chunk while another thread reads.
/// An allocator with a segment. Without segments and events a snapshot cuts the tape a second time, for its own
/// event, which makes a million interleavings of the longest model.
struct OneSegment;

impl Inventory for OneSegment {
    fn device(&self) -> DeviceId {
        DEVICE
    }

    fn inspect(&self, look: &mut dyn FnMut(&[InventorySegment])) {
        look(&[InventorySegment {
            address: Address(1 << 40),
            size_bytes: 2 * MIB,
            stream: StreamId::DEFAULT,
            kind: PoolKind::Large,
            pool: PoolId::DEFAULT,
            is_expandable: false,
            stack: StackId::NONE,
            blocks: Vec::new(),
        }]);
    }
}

#[test]
fn what_falls_out_while_it_is_read_is_counted() {
    explore("falling out", || {
        let recorder = Recorder::new();
        recorder.record_history(&history().max_entries(4));
        let track = recorder.track(DEVICE);
        let theirs = track.clone();
        let thread = spawn(move || (1..=13).for_each(|n| note(&theirs, n)));
        let seen = noted_with(&recorder, &OneSegment);
        assert!(seen.len() <= 4 && seen.windows(2).all(|two| two[1] == two[0] + 1), "{seen:?}");
        thread.join().unwrap();
        let kept = recorder.n_events(DEVICE) as u64;
        // The snapshot's own event is one more.
        assert_eq!((kept, kept + recorder.n_lost(DEVICE)), (4, 14));
    });
}

/// Two threads number the same stacks while the index is replaced by larger ones. Records and indexes carry marks
/// (`sync::WrittenOnce`): loom fails if a reader could see one before it is written.
#[test]
fn threads_agree_on_the_numbers_of_stacks() {
    explore_with("stacks", Some(3), || {
        let stacks = Arc::new(Stacks::new(100));
        let theirs = stacks.clone();
        let thread = spawn(move || {
            let numbers = [3, 1].map(|word| theirs.number(&[word, 7]));
            assert_eq!(theirs.addresses(numbers[0]), [3, 7]);
            numbers
        });
        let own = [1, 2, 3].map(|word| stacks.number(&[word, 7]));
        let theirs = thread.join().unwrap();
        assert_eq!(theirs, [own[2], own[0]]);
        for (stack, word) in own.into_iter().zip(1..) {
            assert_eq!(stacks.addresses(stack), [word, 7]);
        }
        assert_eq!(stacks.counts(), (3, 0));
    });
}
