//! The state that an allocator's handles and its allocations share: device, track, and the core with its locks.
#![forbid(unsafe_code)]

use std::sync::{Arc, MutexGuard};

use super::{
    core::{Core, Grant, Request},
    growth::Growth,
    ids::BlockId,
    oom::{self, OomObserver},
    settings::Settings,
};
use crate::{device::Device, process::fork, recorder::Track};
use memreel_lockfree::{observers::Observers, turn::Turn};
use memreel_snapshot::words::{Error, PoolId, Result, StackId, StreamId, torch};

/// The state of one allocator. It is dropped with the last handle, which is an allocator or an allocation.
pub(super) struct Shared {
    pub(super) device: Arc<dyn Device>,
    pub(super) track: Track,
    /// The core, and the turn of a thread that may have to call the device; see [`Growth`].
    turn: Turn<Core>,
    pub(super) oom_observers: Observers<OomObserver>,
}

impl Shared {
    pub(super) fn new(device: Arc<dyn Device>, track: &Track, settings: Settings) -> Shared {
        Shared {
            turn: Turn::new(Core::new(device.clone(), track.clone(), settings)),
            track: track.clone(),
            device,
            oom_observers: Observers::default(),
        }
    }

    /// Allocates a block for a request, and passes it to `hand` under the lock.
    #[inline(always)]
    pub(super) fn serve<T>(
        &self,
        bytes: u64,
        stream: StreamId,
        hand: impl FnOnce(&mut Core, Grant, StackId) -> T,
    ) -> Result<T> {
        match bytes {
            0 => return Err(Error::zero_size()),
            torch::ABSURD_BYTES.. => return Err(Error::absurd_size(bytes)),
            _ => {}
        }
        let stack = self.track.stack_of_alloc(bytes);
        let mut core = self.core();
        core.complete_before(stack)?;
        let request = core.request(bytes, stream, stack);
        let (mut core, id, request) = match core.take_best_fit(&request) {
            Some(id) => (core, id, request),
            None => self.find_more(core, request)?,
        };
        let grant = core.hand_out(id, &request);
        Ok(hand(&mut core, grant, stack))
    }

    /// Finds memory when no free block satisfies the request. The returned request names the pool of the block.
    #[inline(never)]
    fn find_more<'a>(
        &'a self,
        core: MutexGuard<'a, Core>,
        mut request: Request,
    ) -> Result<(MutexGuard<'a, Core>, BlockId, Request)> {
        let pool = core.pools[request.pool].id;
        drop(core);
        if request.stack.is_filtered() {
            request.growth_stack = self.track.stack_of_segment();
        }
        let mut growth = self.growth();
        // While this thread had no lock, its private pool may have ended.
        growth.renew(&mut request, pool);
        match growth.find_more(request) {
            Ok((id, request)) => Ok((growth.into_core(), id, request)),
            Err(error) => {
                drop(growth);
                Err(self.notify_observers(error))
            }
        }
    }

    #[cold]
    fn notify_observers(&self, error: Error) -> Error {
        let Some(figures) = error.out_of_memory() else { return error };
        let mut figures = figures.clone();
        // An observer's own request may fail too; notifying the observers of
        // that failure would not end.
        let Some(_guard) = oom::enter_notification() else { return error };
        self.oom_observers.each(|observer| observer(&mut figures));
        Error::from_out_of_memory(figures)
    }

    pub(super) fn core(&self) -> MutexGuard<'_, Core> {
        self.turn.core()
    }

    /// Waits until no other thread calls the device for this allocator, then locks the core.
    pub(super) fn growth(&self) -> Growth<'_> {
        Growth::new(&self.turn, &*self.device)
    }

    pub(super) fn free(&self, id: BlockId, allocated: StackId) -> Result<()> {
        let stack = self.track.stack_of_free(allocated);
        self.core().free(id, stack)
    }
}

impl fork::Part<fork::Forking> for Shared {
    fn hold(self: Arc<Shared>, held: &mut fork::Held) {
        held.lock(&self, |shared| shared.turn.locks().0, |_, _| {}, |_, _| {});
        held.lock(&self, |shared| shared.turn.locks().1, |_, _| {}, |_, _| {});
        held.lock(&self, |shared| shared.oom_observers.mutex(), |_, _| {}, |_, _| {});
    }
}

impl Drop for Shared {
    /// Returns all memory to the device: without handles every block is free. Blocks whose streams cannot be waited for
    /// are leaked.
    fn drop(&mut self) {
        self.growth().release_everything();
    }
}

impl Growth<'_> {
    /// Releases all memory that no block uses, whether or not its pool has references.
    fn release_everything(&mut self) {
        // A block from `alloc_raw` has no handle that keeps the allocator alive.
        for id in std::mem::take(&mut self.raw).into_values() {
            let _ = self.free(id, StackId::NONE);
        }
        self.private.release_all();
        // If waiting for a stream fails, its blocks keep their segments; the rest is released. No caller is left to
        // receive the error.
        let _ = self.complete_all(StackId::NONE);
        self.release_default_pools(StackId::NONE);
        let _ = self.release_cached(PoolId::DEFAULT, StackId::NONE);
        self.pools.indices().for_each(|pool| self.unreserve_bare(pool));
        self.give_back();
    }
}
