//! Models of a recording that is switched on and off, and of snapshots and ledgers beside it.

use std::sync::Arc;

use memreel::{
    Address, StreamId,
    integrate::Refusal,
    recorder::{Recorder, Recording},
    snapshot::{Dialect, collect},
};

use crate::{DEVICE, allocator, assert_agrees, explore, explore_with, history, recorder, snapshot, spawn};

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
        recorder.record_history(&Recording::off());
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
        (0..4).for_each(|_| ledger.oom(Refusal { bytes: 1, ..Refusal::default() }));
        assert_eq!((recorder.n_events(DEVICE), recorder.n_lost(DEVICE)), (4, 0));
    });
}

#[test]
fn ledgers_keep_their_own_order() {
    explore("ledger", || {
        let recorder = recorder();
        let ledger = Arc::new(recorder.ledger(DEVICE));
        let theirs = ledger.clone();
        let thread = spawn(move || {
            theirs.alloc(Address(0x10000), 512, StreamId(0)).unwrap();
            theirs.free(Address(0x10000)).unwrap();
        });
        ledger.alloc(Address(0x20000), 512, StreamId(0)).unwrap();
        let seen = collect(&recorder, [&*ledger], Dialect::default());
        assert_agrees(&seen);
        thread.join().unwrap();
        assert_eq!(ledger.n_contradictions(), 0);
        // Two implied segments and blocks, a free with its segment, a snapshot.
        assert_eq!(recorder.n_events(DEVICE), 8);
    });
}
