//! Models of the chunks that threads fill and hand over to their tape.
#![forbid(unsafe_code)]

use std::sync::{Arc, atomic::Ordering};

use super::{
    explore,
    recorder::{Action, Recorder, Track},
    spawn,
};
use crate::{
    events::{ByTime, Chunk, Words},
    testing::OnHeap,
};

/// Records an event without a lock.
fn note(track: &Track, n: u64) {
    track.write(&mut ByTime, Action::Alloc, n);
}

/// Returns the numbers of the recorded events, each of which is whole.
fn noted(track: &Track) -> Vec<u64> {
    track.events().into_iter().map(|(_, n)| n).collect()
}

#[test]
fn a_full_chunk_is_handed_over_for_another() {
    explore("hand-over", || {
        let track = Recorder::on().track();
        (1..=3).for_each(|n| note(&track, n));
        let theirs = track.clone();
        // Its own chunk, and the one the first thread left full.
        let thread = spawn(move || (4..=8).for_each(|n| note(&theirs, n)));
        let seen = noted(&track);
        let n = seen.len() as u64;
        assert!(n >= 3 && seen.iter().copied().eq(1..=n), "a beginning, in order: {seen:?}");
        thread.join().unwrap();
        assert_eq!(noted(&track), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(track.seen().1, 0);
    });
}

#[test]
fn a_thread_that_ends_leaves_its_chunk_to_the_next() {
    explore("end", || {
        let track = Recorder::on().track();
        let threads = [1, 2].map(|n| {
            let track = track.clone();
            spawn(move || note(&track, n))
        });
        for thread in threads {
            thread.join().unwrap();
        }
        note(&track, 3);
        let mut seen = noted(&track);
        assert_eq!(seen.pop(), Some(3), "what comes later is later in the trace");
        seen.sort_unstable();
        assert_eq!((seen, track.seen().1), (vec![1, 2], 0));
    });
}

#[test]
fn a_chunk_that_was_given_back_is_filled() {
    explore("given back", || {
        let track = Recorder::on().track();
        let theirs = track.clone();
        let thread = spawn(move || {
            note(&theirs, 1);
            Track::end_thread();
        });
        thread.join().unwrap();
        note(&track, 2);
        assert_eq!((noted(&track), track.n_chunks()), (vec![1, 2], 1));
    });
}

/// A free that completes at once is two events in order, also if another thread records under another lock.
#[test]
fn a_free_stays_in_order_beside_another_lock() {
    explore("two locks", || {
        let track = Recorder::on().track();
        let theirs = track.clone();
        let thread = spawn(move || {
            theirs.record(Action::Alloc, 1);
            theirs.record_free(1);
        });
        track.record(Action::Alloc, 2);
        thread.join().unwrap();
        let seen = track.events();
        let own: Vec<_> = seen.iter().filter(|(_, n)| *n == 1).map(|(action, _)| *action).collect();
        assert_eq!(own, [Action::Alloc, Action::FreeRequested, Action::FreeCompleted]);
        assert_eq!(seen.len(), 4);
    });
}

/// Every fifth event drops the oldest chunk while another thread reads.
#[test]
fn what_falls_out_while_it_is_read_is_counted() {
    explore("falling out", || {
        let recorder = Recorder::off();
        recorder.record(4);
        let track = recorder.track();
        let theirs = track.clone();
        let thread = spawn(move || (1..=13).for_each(|n| note(&theirs, n)));
        let seen = noted(&track);
        assert!(seen.len() <= 4 && seen.windows(2).all(|two| two[1] == two[0] + 1), "{seen:?}");
        thread.join().unwrap();
        let (kept, n_lost) = track.seen();
        assert_eq!((kept.len(), n_lost), (4, 9));
    });
}

/// A reader in the process has the length.
#[test]
fn events_below_the_length_are_whole() {
    explore("length", || {
        let chunk = Arc::new(Chunk::<OnHeap>::default());
        let theirs = chunk.clone();
        // loom forgets that a thread has read a length once the writer reads it too, so the reader is the later thread.
        let reader = spawn(move || {
            let seen: Vec<Words> = (0..theirs.len()).map(|index| theirs.read(index)).collect();
            assert!([0, 1, 3].contains(&seen.len()), "an event without the one that was written with it");
            assert!(seen.iter().zip(1..).all(|(words, n)| *words == [n; 4]), "torn: {seen:?}");
        });
        assert!(chunk.push([1; 4]) && chunk.push_all([[2; 4], [3; 4]]));
        reader.join().unwrap();
    });
}

/// A reader of a tape's file, while it is written, has the order words alone, which are the last of an event.
#[test]
fn an_event_with_an_order_word_is_whole() {
    explore("order word", || {
        let chunk = Arc::new(Chunk::<OnHeap>::default());
        let theirs = chunk.clone();
        let thread = spawn(move || (1..=2).all(|n| theirs.push([n; 4])));
        let seen = whole_events(&chunk);
        assert!(seen.iter().zip(1..).all(|(words, n)| *words == [n; 4]), "torn: {seen:?}");
        assert!(thread.join().unwrap());
        assert_eq!(whole_events(&chunk), [[1; 4], [2; 4]]);
    });
}

/// Returns the complete events, read like the readers of a tape's file do: words in order with acquire, first to count the
/// complete events, then to copy them.
fn whole_events(chunk: &Chunk<OnHeap>) -> Vec<Words> {
    let places = || chunk.lines().iter().flat_map(|line| &line.0);
    let n_whole = places().take_while(|place| place[1].load(Ordering::Acquire) != 0).count();
    let read = places().take(n_whole);
    read.map(|place| std::array::from_fn(|word| place[word].load(Ordering::Acquire))).collect()
}
