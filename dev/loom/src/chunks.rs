//! Models of the chunks that threads fill and hand over to their tape.

use std::sync::Arc;

use memreel::{
    Action, Address, DeviceId, PoolId, PoolKind, StreamId,
    integrate::{ChunkInFile, Event, Inventory, InventorySegment, StackId, Track},
    recorder::Recorder,
    snapshot::{Dialect, collect},
};

use crate::{DEVICE, MIB, explore, explore_with, history, recorder, spawn};

/// Records an event without a lock. Its size shows its number.
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
    let seen = collect(recorder, [inventory], Dialect::default());
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

/// A free that completes at once is two events in order, also if another thread records under another lock.
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
        let seen = collect(&recorder, [&ledger], Dialect::default());
        let own = seen.device_traces[0].iter().filter(|entry| entry.address == Address(4096));
        let own: Vec<Action> = own.filter_map(|entry| entry.action).collect();
        assert_eq!(own, [Action::Alloc, Action::FreeRequested, Action::FreeCompleted]);
        assert_eq!(recorder.n_events(DEVICE), 5);
    });
}

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

/// Every fifth event drops the oldest chunk while another thread reads.
#[test]
fn what_falls_out_while_it_is_read_is_counted() {
    explore_with("falling out", Some(5), || {
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

/// Who reads a tape's file while it is written has the order words alone, which are the last of an event.
#[test]
fn an_event_with_an_order_word_is_whole() {
    explore("order word", || {
        let chunk = Arc::new(ChunkInFile::default());
        let theirs = chunk.clone();
        let thread = spawn(move || (1..=2).all(|n| theirs.push([n; 4])));
        let seen = chunk.whole_events();
        assert!(seen.iter().zip(1..).all(|(words, n)| *words == [n; 4]), "torn: {seen:?}");
        assert!(thread.join().unwrap());
        assert_eq!(chunk.whole_events(), [[1; 4], [2; 4]]);
    });
}
