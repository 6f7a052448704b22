//! The memory of a follower: it does not grow with the length of a run, and a look needs little for each new event.
//!
//! A process of its own, because a process has one global allocator.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    sync::atomic::{AtomicUsize, Ordering},
};

use memreel::{
    Address, DeviceId, Follower, StreamId,
    ledger::Ledger,
    recorder::{Context, Recorder, Recording},
};

/// Counts the bytes that the follower has in use, and the most of them.
struct Counted;

#[global_allocator]
static ALLOCATOR: Counted = Counted;

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Whether this thread follows: what the recorder and its keeper have is not counted.
    static FOLLOWS: Cell<bool> = const { Cell::new(false) };
}

fn follows() -> bool {
    FOLLOWS.try_with(Cell::get).unwrap_or(false)
}

/// Runs a part of the follower.
fn following<T>(part: impl FnOnce() -> T) -> T {
    FOLLOWS.set(true);
    let done = part();
    FOLLOWS.set(false);
    done
}

// SAFETY: memory comes from and goes to the system's allocator, with the layout of the request.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if follows() {
            let now = NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
            MOST.fetch_max(now, Ordering::Relaxed);
        }
        // SAFETY: the caller's promise about the layout is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if follows() {
            NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        }
        // SAFETY: the caller's promise about the pointer and its layout is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// The blocks that are live, of which each new one takes the place of the oldest.
const N_LIVE: u64 = 1000;
/// The events of a block, with those of its segment.
const EVENTS_OF_BLOCK: usize = 5;
/// The bytes of an event in a tape.
const EVENT_BYTES: usize = 32;

/// Allocates blocks, and frees for each the oldest.
fn work(ledger: &Ledger, blocks: std::ops::Range<u64>) {
    let address = |block: u64| Address((block % (2 * N_LIVE) + 1) << 12);
    for block in blocks {
        if block >= N_LIVE {
            ledger.free(address(block - N_LIVE)).unwrap();
        }
        ledger.alloc(address(block), 16 + block % 1021, StreamId::DEFAULT).unwrap();
    }
}

/// Looks, and returns the most bytes that were in use meanwhile and those after it.
fn look(follower: &mut Follower) -> (usize, usize) {
    MOST.store(NOW.load(Ordering::Relaxed), Ordering::Relaxed);
    following(|| follower.look().unwrap());
    (MOST.load(Ordering::Relaxed), NOW.load(Ordering::Relaxed))
}

#[test]
fn a_look_needs_little_for_each_event_and_the_next_ones_nothing_more() {
    const N_BLOCKS: u64 = 10_000;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tape");
    let recorder = Recorder::new();
    let recording = Recording::all().context(Context::None).max_entries(200_000).tape(&path);
    recorder.record_history(&recording);
    let ledger = recorder.ledger(DeviceId(0));
    work(&ledger, 0..N_LIVE);
    let mut follower = following(|| Follower::attach(&path).unwrap());
    let mut after = Vec::new();
    for round in 0..20 {
        let begin = N_LIVE + round * N_BLOCKS;
        work(&ledger, begin..begin + N_BLOCKS);
        let before = NOW.load(Ordering::Relaxed);
        let (most, _) = look(&mut follower);
        let (most_of_next, now) = look(&mut follower);
        let of_event = (most.max(most_of_next) - before) / (EVENTS_OF_BLOCK * N_BLOCKS as usize);
        assert!(of_event < 3 * EVENT_BYTES, "{of_event} bytes for each event in round {round}");
        after.push(now);
    }
    assert_eq!((follower.devices()[0].n_live, follower.n_anew()), (N_LIVE, 0));
    let rest = after.split_off(10);
    let grown = rest.iter().max().unwrap().saturating_sub(*after.iter().max().unwrap());
    assert!(grown < 20_000, "{grown} bytes more after the second half of the rounds");
}
