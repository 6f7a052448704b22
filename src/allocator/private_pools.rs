//! Private pools: separate memory for routed requests, for example of graph captures (`docs/caching-allocator.md` 2.5).
#![forbid(unsafe_code)]

use std::{
    fmt,
    thread::{self, ThreadId},
};

use super::{ids::PoolIndex, stream_table::Table};
use memreel_snapshot::words::{Error, PoolId, Result, StreamId};

/// The options of a private pool. Default: both false.
///
/// ```
/// use memreel::allocator::PoolOptions;
///
/// let options = PoolOptions::default().use_on_oom(true);
/// assert!(options.use_on_oom && !options.no_split);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub struct PoolOptions {
    /// Whether free blocks of the pool satisfy requests of the default pools when the device is full.
    pub use_on_oom: bool,
    /// Whether blocks are never split, so that each request gets its own segment.
    pub no_split: bool,
}

impl PoolOptions {
    /// Sets whether free blocks of the pool satisfy requests of the default pools when the device is full.
    #[must_use]
    pub fn use_on_oom(self, use_on_oom: bool) -> PoolOptions {
        PoolOptions { use_on_oom, ..self }
    }

    /// Sets whether blocks are never split, so that each request gets its own segment.
    #[must_use]
    pub fn no_split(self, no_split: bool) -> PoolOptions {
        PoolOptions { no_split, ..self }
    }
}

/// Selects the requests that go to a private pool.
pub enum Route {
    /// All requests of the thread that calls [`CachingAllocator::begin_pool`](super::CachingAllocator::begin_pool).
    Thread,
    /// Requests on streams that the filter accepts, for graph captures.
    ///
    /// The filter is called for each request under the allocator's lock, so it must be quick and must not use the
    /// allocator.
    Streams(Box<dyn Fn(StreamId) -> bool + Send>),
}

impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Route::Thread => "Thread",
            Route::Streams(_) => "Streams",
        })
    }
}

/// Who begins, ends and releases a private pool. Its id is a number, which any code can guess.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Owner {
    Program,
    /// The `GraphPool` of a captured graph.
    #[cfg_attr(not(feature = "cuda"), allow(dead_code, reason = "only GPUs capture graphs"))]
    Graph,
}

/// One private pool.
#[derive(Debug)]
pub(super) struct PrivatePool {
    pub(super) options: PoolOptions,
    owner: Owner,
    /// The small pool, then the large one: the order in which they are released.
    pub(super) pools: [PoolIndex; 2],
    n_users: u64,
    /// The number of segments, and of growths of expandable segments, that the pool took from the device and did not
    /// return.
    n_device_allocs: i64,
}

/// All private pools, and the routes to them.
#[derive(Debug, Default)]
pub(super) struct PrivatePools {
    pools: Table<PoolId, PrivatePool>,
    /// In the order of creation.
    ids: Vec<PoolId>,
    /// In the order in which they were begun.
    routes: Vec<(PoolId, Filter)>,
    n_user: u64,
    n_capture: u64,
}

/// Selects the requests that go to a begun pool.
#[derive(Debug)]
pub(super) enum Filter {
    Thread(ThreadId),
    Streams(Route),
}

impl Filter {
    fn accepts(&self, stream: StreamId) -> bool {
        match self {
            Filter::Thread(thread) => *thread == thread::current().id(),
            Filter::Streams(Route::Streams(filter)) => filter(stream),
            Filter::Streams(Route::Thread) => false,
        }
    }
}

impl PrivatePools {
    /// Returns an unused id: `(0, n)`, or `(n, 0)` for a capture.
    pub(super) fn next_id(&mut self, is_capture: bool) -> PoolId {
        loop {
            let n = if is_capture { &mut self.n_capture } else { &mut self.n_user };
            // After the last number, freed numbers are reused; 0 is the default pool's.
            *n = n.wrapping_add(1).max(1);
            let id = if is_capture { PoolId::of_graph(*n) } else { PoolId::of_user(*n) };
            if self.pools.get_mut(id).is_none() {
                return id;
            }
        }
    }

    /// Claims an unused id, so that [`PrivatePools::next_id`] does not return it.
    pub(super) fn take_id(&mut self, id: PoolId) -> Result<()> {
        if id == PoolId::DEFAULT || self.pools.get_mut(id).is_some() {
            return Err(Error::misuse(format!("pool {id} exists already")));
        }
        match id {
            PoolId { graph: 0, user } => self.n_user = self.n_user.max(user),
            PoolId { graph, .. } => self.n_capture = self.n_capture.max(graph),
        }
        Ok(())
    }

    pub(super) fn insert(&mut self, id: PoolId, owner: Owner, options: PoolOptions, pools: [PoolIndex; 2]) {
        self.pools.entry(id, || PrivatePool { options, owner, pools, n_users: 1, n_device_allocs: 0 });
        self.ids.push(id);
    }

    pub(super) fn get(&mut self, id: PoolId) -> Option<&mut PrivatePool> {
        self.pools.get_mut(id)
    }

    /// Returns the number of references to a pool.
    pub(super) fn use_count(&mut self, id: PoolId) -> Result<u64> {
        self.pools.get_mut(id).map(|pool| pool.n_users).ok_or_else(|| unknown(id))
    }

    /// Returns the pools that satisfy other requests when the device is full, in the order of creation.
    pub(super) fn fallbacks(&mut self) -> Vec<PoolId> {
        let ids = self.ids.clone();
        ids.into_iter()
            .filter(|id| self.pools.get_mut(*id).is_some_and(|pool| pool.options.use_on_oom))
            .collect()
    }

    /// Returns the pools without references, in the order in which they are released.
    pub(super) fn freeable(&mut self) -> Vec<PoolId> {
        let ids: Vec<PoolId> = self.pools.keys().collect();
        ids.into_iter().filter(|id| self.pools.get_mut(*id).is_some_and(|pool| pool.n_users == 0)).collect()
    }

    pub(super) fn is_routing(&self) -> bool {
        !self.routes.is_empty()
    }

    /// Returns the most recently begun pool that accepts a request; `None` for the default pools.
    pub(super) fn route(&self, stream: StreamId) -> Option<PoolId> {
        self.routes.iter().rev().find(|(_, filter)| filter.accepts(stream)).map(|(id, _)| *id)
    }

    /// Returns a pool, if it belongs to `owner`.
    fn owned(&mut self, id: PoolId, owner: Owner) -> Result<&mut PrivatePool> {
        match self.pools.get_mut(id) {
            Some(pool) if pool.owner == owner => Ok(pool),
            Some(_) => {
                Err(Error::misuse(format!("pool {id} belongs to a captured graph, which alone uses it")))
            }
            None => Err(unknown(id)),
        }
    }

    /// Begins a pool, and takes the route only on success. The caller drops a route without the allocator's lock,
    /// because its filter may own a block.
    pub(super) fn begin(&mut self, id: PoolId, owner: Owner, route: &mut Option<Route>) -> Result<()> {
        if self.routes.iter().any(|(begun, _)| *begun == id) {
            return Err(Error::misuse(format!("pool {id} is already being allocated to; end that first")));
        }
        let pool = self.owned(id, owner)?;
        let Some(route) = route.take() else { return Ok(()) };
        pool.n_users += 1;
        let filter = match route {
            Route::Thread => Filter::Thread(thread::current().id()),
            streams @ Route::Streams(_) => Filter::Streams(streams),
        };
        self.routes.push((id, filter));
        Ok(())
    }

    /// Ends a pool, and returns its filter, which the caller drops without the allocator's lock.
    pub(super) fn end(&mut self, id: PoolId, owner: Owner) -> Result<Filter> {
        let place = self.routes.iter().position(|(begun, _)| *begun == id);
        let place = place.ok_or_else(|| Error::misuse(format!("pool {id} is not being allocated to")))?;
        self.owned(id, owner)?;
        Ok(self.routes.remove(place).1)
    }

    /// Drops one reference; without references the pool's free memory may be released.
    pub(super) fn release(&mut self, id: PoolId, owner: Owner) -> Result<()> {
        let pool = self.owned(id, owner)?;
        pool.n_users = pool.n_users.checked_sub(1).ok_or_else(|| unknown(id))?;
        Ok(())
    }

    pub(super) fn count_device_alloc(&mut self, id: PoolId, by: i64) {
        if let Some(pool) = self.pools.get_mut(id) {
            pool.n_device_allocs += by;
        }
    }

    /// Drops all references and routes of all pools.
    pub(super) fn release_all(&mut self) {
        self.routes.clear();
        for id in self.ids.clone() {
            if let Some(pool) = self.pools.get_mut(id) {
                pool.n_users = 0;
            }
        }
    }

    /// Returns true if a pool has no references, no route and, by its count, no device memory.
    pub(super) fn is_spent(&mut self, id: PoolId) -> bool {
        let is_begun = self.routes.iter().any(|(begun, _)| *begun == id);
        let is_empty = |pool: &mut PrivatePool| pool.n_users == 0 && pool.n_device_allocs == 0;
        !is_begun && self.pools.get_mut(id).is_some_and(is_empty)
    }

    pub(super) fn erase(&mut self, id: PoolId) {
        self.pools.remove(id);
        self.ids.retain(|other| *other != id);
    }
}

fn unknown(id: PoolId) -> Error {
    Error::misuse(format!("there is no private pool {id}, or it was released by all its users"))
}
