//! The events of one device.

use std::sync::Arc;

use super::{Gather, Ring, ScopeId, Shared, guard::Guard, lock, scope};
use crate::{
    event::{DeviceId, Event, StackId},
    stack,
    sync::{Mutex, MutexGuard},
};

/// An event with what the recorder knows of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub(crate) event: Event,
    pub(crate) time_us: u64,
    pub(crate) scope: ScopeId,
}

/// Where one device's allocator records. Clones are the same track.
#[derive(Clone, Debug)]
pub struct Track {
    shared: Arc<Shared>,
    device: DeviceId,
    ring: Arc<Mutex<Ring<Entry>>>,
}

impl Track {
    pub(super) fn new(shared: Arc<Shared>, device: DeviceId, capacity: usize) -> Track {
        Track { shared, device, ring: Arc::new(Mutex::new(Ring::new(capacity))) }
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> DeviceId {
        self.device
    }

    /// The stack at the start of an allocation, if the context asks for one.
    ///
    /// Call it before taking the allocator's lock: walking a stack takes longer
    /// than most allocations.
    #[must_use]
    pub fn stack_of_alloc(&self) -> StackId {
        self.gather(Gather::Alloc)
    }

    /// The stack at the start of a free, if the context asks for one.
    #[must_use]
    pub fn stack_of_free(&self) -> StackId {
        self.gather(Gather::Free)
    }

    #[inline]
    fn gather(&self, at: Gather) -> StackId {
        if self.shared.mode().gathers(at) { self.capture() } else { StackId::NONE }
    }

    #[inline(never)]
    fn capture(&self) -> StackId {
        let Some(_guard) = Guard::enter() else { return StackId::NONE };
        let captured = stack::capture();
        let mut stacks = lock(&self.shared.stacks);
        let n_before = stacks.n_stacks();
        let stack = stacks.intern(captured.addresses());
        let is_new = stacks.n_stacks() > n_before;
        drop(stacks);
        // Unlocked, because the loader's lock is taken; now, because the
        // functions still run, so their libraries are still loaded.
        if is_new {
            stack::note(captured.addresses());
        }
        stack
    }

    /// Records one event, in the order of the calls.
    ///
    /// An allocator calls this while it holds its own lock. It never fails and
    /// never blocks on anything but this track's ring.
    #[inline]
    pub fn record(&self, event: Event) {
        if !self.shared.mode().is_off() {
            self.push(event);
        }
    }

    #[inline(never)]
    fn push(&self, mut event: Event) {
        let Some(_guard) = Guard::enter() else { return };
        let mut ring = lock(&self.ring);
        // Asked again under the ring's lock: switching off stores the mode
        // before it erases the ring, so nothing can slip in behind the erasing.
        let mode = self.shared.mode();
        if !mode.keeps(event.action) {
            return;
        }
        if !mode.keeps_stacks() {
            event.stack = StackId::NONE;
        }
        let time_us = self.shared.clock.now_us();
        ring.push(Entry { event, time_us, scope: scope::current(self.shared.number) });
    }

    /// Changes the ring's capacity, and erases it if asked to.
    pub(super) fn reset(&self, capacity: usize, erase: bool) {
        let mut ring = self.ring();
        ring.set_capacity(capacity);
        if erase {
            ring.clear();
        }
    }

    /// The ring, for reading it.
    pub(crate) fn ring(&self) -> MutexGuard<'_, Ring<Entry>> {
        lock(&self.ring)
    }
}
