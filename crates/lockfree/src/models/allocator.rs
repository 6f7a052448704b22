//! An allocator for models: the turn to call the device, a core of whole segments, and observers.
#![forbid(unsafe_code)]

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};

use super::recorder::{Action, Recorder, Track};
use crate::{
    observers::Observers,
    turn::{self, Growth, Turn},
};

/// A mark on a stream.
type Mark = u64;

/// A device with segments of one size. Its own lock is taken last, and no thread waits for it.
#[derive(Debug)]
pub(super) struct Device(Mutex<DeviceState>);

#[derive(Debug)]
struct DeviceState {
    free: BTreeSet<u64>,
    n_segments: usize,
    is_idle: bool,
    marks: BTreeSet<Mark>,
    n_marks: Mark,
}

impl Device {
    fn with<T>(&self, work: impl FnOnce(&mut DeviceState) -> T) -> T {
        work(&mut self.0.lock().unwrap())
    }

    /// Returns how many segments are taken.
    pub(super) fn n_taken(&self) -> usize {
        self.with(|device| device.n_segments - device.free.len())
    }

    pub(super) fn set_idle(&self, is_idle: bool) {
        self.with(|device| device.is_idle = is_idle);
    }

    fn mark(&self) -> Mark {
        self.with(|device| {
            device.n_marks += 1;
            device.marks.insert(device.n_marks);
            device.n_marks
        })
    }

    fn is_passed(&self, mark: Mark) -> bool {
        self.with(|device| device.marks.contains(&mark) && device.is_idle)
    }

    fn wait(&self, mark: Mark) {
        self.with(|device| {
            assert!(device.marks.contains(&mark), "a thread waits for a mark that was forgotten")
        });
    }

    fn forget(&self, mark: Mark) {
        self.with(|device| assert!(device.marks.remove(&mark), "forgotten twice"));
    }
}

/// How a segment is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Use {
    Free,
    Allocated,
    /// Freed by the program, and pending on a stream.
    Pending,
}

#[derive(Clone, Debug)]
struct Segment {
    stream: u32,
    is_pools: bool,
    used: Use,
}

/// The size of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Size {
    OneSegment,
    /// More than the device has.
    TooMuch,
}

/// Segments by number, a private pool, and pending frees.
#[derive(Debug)]
pub(super) struct Core {
    track: Track,
    segments: BTreeMap<u64, Segment>,
    /// Segments that the core has released and the device does not have yet.
    returned: Vec<u64>,
    waiting: Vec<(Mark, u64)>,
    awaited: Option<Mark>,
    n_changes: u64,
    /// Whether requests on stream 1 are routed to the private pool.
    pub(super) is_routing: bool,
    /// Only the holder of the turn ends the pool.
    pub(super) has_pool: bool,
    pub(super) n_ooms: usize,
}

impl turn::Core for Core {
    type Version = u64;
    type Mark = Mark;

    fn version(&self) -> u64 {
        self.n_changes
    }

    fn awaited(&mut self) -> &mut Option<Mark> {
        &mut self.awaited
    }
}

impl Core {
    /// Takes a free segment.
    fn take(&mut self, stream: u32, is_pools: bool) -> Option<u64> {
        let is_free = |of: &Segment| of.used == Use::Free && of.stream == stream && of.is_pools == is_pools;
        let (n, segment) = self.segments.iter_mut().find(|(_, of)| is_free(of))?;
        segment.used = Use::Allocated;
        self.n_changes += 1;
        self.track.record(Action::Alloc, *n);
        Some(*n)
    }

    fn complete(&mut self, n: u64) {
        self.segments.get_mut(&n).unwrap().used = Use::Free;
        self.n_changes += 1;
    }

    /// Completes the frees whose marks are passed. A mark that another thread waits for is left to it.
    fn complete_passed(&mut self, device: &Device) {
        let (passed, waiting) = self.waiting.iter().partition(|(mark, _)| device.is_passed(*mark));
        self.waiting = waiting;
        let passed: Vec<(Mark, u64)> = passed;
        for (mark, n) in passed {
            self.track.record(Action::FreeCompleted, n);
            self.complete(n);
            if self.awaited != Some(mark) {
                device.forget(mark);
            }
        }
    }
}

/// Searches the free segments again if another thread may have changed them.
fn search_again(growth: &mut Growth<'_, Core>, size: Size, stream: u32, is_pools: bool) -> Option<u64> {
    let searches = size == Size::OneSegment && growth.take_stale();
    if searches { growth.take(stream, is_pools) } else { None }
}

pub(super) struct Allocator {
    turn: Turn<Core>,
    pub(super) device: Device,
    pub(super) observers: Observers<dyn Fn() + Send + Sync>,
}

impl Allocator {
    /// Returns an allocator of a device that has room for some segments.
    pub(super) fn new(recorder: &Arc<Recorder>, n_segments: u64) -> Arc<Allocator> {
        let free = BTreeSet::from_iter(1..=n_segments);
        let device =
            DeviceState { n_segments: free.len(), free, is_idle: true, marks: BTreeSet::new(), n_marks: 0 };
        let core = Core {
            track: recorder.track(),
            segments: BTreeMap::new(),
            returned: Vec::new(),
            waiting: Vec::new(),
            awaited: None,
            n_changes: 0,
            is_routing: false,
            has_pool: false,
            n_ooms: 0,
        };
        let (turn, device) = (Turn::new(core), Device(Mutex::new(device)));
        Arc::new(Allocator { turn, device, observers: Observers::default() })
    }

    /// Calls `work` with the core, locked.
    pub(super) fn with_core<T>(&self, work: impl FnOnce(&mut Core) -> T) -> T {
        work(&mut self.turn.core())
    }

    /// Calls `work` with the core, locked, and the turn.
    pub(super) fn with_turn<T>(&self, work: impl FnOnce(&mut Core) -> T) -> T {
        work(&mut self.turn.grow())
    }

    pub(super) fn alloc(&self, stream: u32) -> u64 {
        self.request(Size::OneSegment, stream).unwrap()
    }

    /// Allocates a segment; `None` if the device is full.
    pub(super) fn request(&self, size: Size, stream: u32) -> Option<u64> {
        let mut core = self.turn.core();
        core.complete_passed(&self.device);
        let is_pools = core.is_routing && stream == 1;
        if size == Size::OneSegment
            && let Some(n) = core.take(stream, is_pools)
        {
            return Some(n);
        }
        drop(core);
        let mut growth = self.turn.grow();
        // While this thread had no lock, the pool may have ended.
        let is_pools = is_pools && growth.has_pool;
        if let Some(n) = self.find_more(&mut growth, size, stream, is_pools) {
            let _core = growth.into_core();
            return Some(n);
        }
        let is_free = |of: &Segment| of.used == Use::Free && of.stream == stream;
        let fits = size == Size::OneSegment && growth.segments.values().any(is_free);
        assert!(!fits, "a request fails although a segment is free");
        growth.n_ooms += 1;
        growth.track.record(Action::Oom, 0);
        drop(growth);
        self.observers.each(|observer| observer());
        None
    }

    fn find_more(
        &self,
        growth: &mut Growth<'_, Core>,
        size: Size,
        stream: u32,
        is_pools: bool,
    ) -> Option<u64> {
        for is_last in [false, true] {
            if let Some(n) = search_again(growth, size, stream, is_pools) {
                return Some(n);
            }
            let new = growth.unlocked(|| match size {
                Size::OneSegment => self.device.with(|device| device.free.pop_first()),
                Size::TooMuch => None,
            });
            if let Some(n) = new {
                assert!(growth.has_pool || !is_pools, "memory for a pool that is gone");
                growth.track.record(Action::SegmentAlloc, n);
                growth.segments.insert(n, Segment { stream, is_pools, used: Use::Free });
                return growth.take(stream, is_pools);
            }
            if !is_last {
                self.release_cached(growth);
            }
        }
        search_again(growth, size, stream, is_pools)
    }

    /// Frees a segment: immediately, or once another stream has passed a mark.
    pub(super) fn free(&self, n: u64, is_used_elsewhere: bool) {
        let mut core = self.turn.core();
        if is_used_elsewhere {
            core.track.record(Action::FreeRequested, n);
            core.segments.get_mut(&n).unwrap().used = Use::Pending;
            let mark = self.device.mark();
            core.waiting.push((mark, n));
        } else {
            core.track.record_free(n);
            core.complete(n);
        }
    }

    pub(super) fn empty_cache(&self) {
        self.release_cached(&mut self.turn.grow());
    }

    /// Completes all frees, and gives every free segment back that no living pool has.
    fn release_cached(&self, growth: &mut Growth<'_, Core>) {
        for _ in 0..growth.waiting.len() {
            let Some((mark, n)) = growth.waiting.first().copied() else { break };
            growth.wait(mark, || self.device.wait(mark));
            // Unless another thread found the mark passed meanwhile, and left it to this thread to forget.
            if let Some(place) = growth.waiting.iter().position(|entry| *entry == (mark, n)) {
                growth.waiting.remove(place);
                growth.track.record(Action::FreeCompleted, n);
                growth.complete(n);
            }
            self.device.forget(mark);
        }
        let has_pool = growth.has_pool;
        let goes = |of: &Segment| of.used == Use::Free && !(of.is_pools && has_pool);
        let gone: Vec<u64> = growth.segments.iter().filter(|(_, of)| goes(of)).map(|(n, _)| *n).collect();
        for n in gone {
            growth.segments.remove(&n);
            growth.track.record(Action::SegmentFree, n);
            growth.returned.push(n);
        }
        while let Some(n) = growth.returned.pop() {
            growth.unlocked(|| self.device.with(|device| assert!(device.free.insert(n))));
        }
    }

    /// Takes a snapshot: the tape is cut under the core's lock. What the events and the segments say agrees.
    pub(super) fn snapshot(&self) -> Vec<(Action, u64)> {
        let core = self.turn.core();
        let used = |of: &Segment| of.used != Use::Free;
        let in_use: BTreeSet<u64> =
            core.segments.iter().filter(|(_, of)| used(of)).map(|(n, _)| *n).collect();
        let segments: BTreeSet<u64> = core.segments.keys().copied().collect();
        let events = core.track.events();
        drop(core);
        let (mut now_in_use, mut now) = (BTreeSet::new(), BTreeSet::new());
        for (action, n) in &events {
            let is_right = match action {
                Action::Alloc => now.contains(n) && now_in_use.insert(*n),
                Action::FreeCompleted => now_in_use.remove(n),
                Action::SegmentAlloc => now.insert(*n),
                Action::SegmentFree => !now_in_use.contains(n) && now.remove(n),
                Action::FreeRequested | Action::Oom => true,
            };
            assert!(is_right, "{action:?} of {n} in {events:?}");
        }
        assert_eq!((now_in_use, now), (in_use, segments), "the trace and the segments are of one moment");
        events
    }
}
