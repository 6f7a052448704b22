//! Models of a recording that is switched on and off, and of snapshots and ledgers beside it.
#![forbid(unsafe_code)]

use std::sync::Arc;

use super::{
    allocator::Allocator,
    explore, explore_with,
    recorder::{Action, Recorder, Track},
    spawn,
};
use crate::sync::{Mutex, lock};

#[test]
fn a_snapshot_is_of_one_moment() {
    explore("snapshot", || {
        let allocator = Allocator::new(&Recorder::on(), 100);
        let theirs = allocator.clone();
        let thread = spawn(move || theirs.free(theirs.alloc(1), false));
        allocator.snapshot();
        thread.join().unwrap();
        // A segment, a block, and two events of its free.
        assert_eq!(allocator.snapshot().len(), 4, "nothing was lost");
    });
}

#[test]
fn switching_off_leaves_nothing_behind() {
    explore_with("off", Some(4), || {
        let recorder = Recorder::on();
        let allocator = Allocator::new(&recorder, 100);
        let theirs = (recorder.clone(), allocator.clone());
        let thread = spawn(move || {
            theirs.0.annotate("START");
            theirs.1.free(theirs.1.alloc(0), false);
            theirs.0.annotate("END");
        });
        recorder.erase();
        thread.join().unwrap();
        assert_eq!(recorder.track().events(), [], "an event slipped in behind the erasing");
        assert!(recorder.annotations().is_empty(), "a scope slipped in behind the erasing");
    });
}

#[test]
fn switching_on_makes_room_first() {
    explore("on", || {
        let recorder = Recorder::off();
        let allocator = Allocator::new(&recorder, 100);
        let theirs = (recorder.clone(), allocator.clone());
        let thread = spawn(move || {
            theirs.0.annotate("START");
            theirs.1.free(theirs.1.alloc(0), false);
            theirs.0.annotate("END");
            theirs.0.annotate("START");
            theirs.0.annotate("END");
        });
        recorder.record(50);
        thread.join().unwrap();
        let (events, n_lost) = recorder.track().seen();
        assert_eq!(n_lost, 0, "an event was squeezed out of a ring of one");
        let stages = recorder.annotations();
        // Once an event was recorded, everything behind it was.
        let is_whole = stages.ends_with(&["END", "START", "END"]);
        assert!(is_whole || events.is_empty(), "{stages:?}: a scope was squeezed out");
    });
}

#[test]
fn a_track_made_while_recording_is_switched_on_has_room() {
    explore("track", || {
        let recorder = Recorder::off();
        let theirs = recorder.clone();
        let thread = spawn(move || drop(theirs.track()));
        recorder.record(50);
        thread.join().unwrap();
        let track = recorder.track();
        (0..4).for_each(|_| track.record(Action::Oom, 0));
        assert_eq!((track.events().len(), track.seen().1), (4, 0));
    });
}

/// The reports of another allocator: the blocks that are live, and a track under their lock.
#[derive(Debug)]
struct Ledger {
    live: Mutex<Vec<u64>>,
    track: Track,
}

impl Ledger {
    fn alloc(&self, n: u64) {
        let mut live = lock(&self.live);
        live.push(n);
        self.track.record(Action::SegmentAlloc, n);
        self.track.record(Action::Alloc, n);
    }

    fn free(&self, n: u64) {
        let mut live = lock(&self.live);
        live.retain(|other| *other != n);
        self.track.record_free(n);
        self.track.record(Action::SegmentFree, n);
    }

    /// Returns the events; those of a block are in order, and say what is live.
    fn snapshot(&self) -> Vec<(Action, u64)> {
        let live = lock(&self.live);
        let events = self.track.events();
        let mut now = Vec::new();
        for (action, n) in &events {
            match action {
                Action::Alloc => now.push(*n),
                Action::FreeCompleted => now.retain(|other| other != n),
                _ => {}
            }
        }
        assert_eq!(now, *live, "{events:?}");
        events
    }
}

#[test]
fn ledgers_keep_their_own_order() {
    explore("ledger", || {
        let ledger = Arc::new(Ledger { live: Mutex::new(Vec::new()), track: Recorder::on().track() });
        let theirs = ledger.clone();
        let thread = spawn(move || {
            theirs.alloc(1);
            theirs.free(1);
        });
        ledger.alloc(2);
        ledger.snapshot();
        thread.join().unwrap();
        // Two segments and blocks, and a free with its segment.
        assert_eq!(ledger.snapshot().len(), 7);
    });
}
