//! The C++ functions that select the streams of private pools.
//!
//! They are called before the allocator is entered, without a lock and outside the code that catches panics: a function
//! may wait for Python's interpreter lock, and a C++ exception that it throws reaches the caller of `memreel_malloc`.

use std::{
    cell::Cell,
    ffi::{c_int, c_void},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use super::border::pointer;
use memreel::{Address, PoolId, StreamId, integrate::hold_at_forks};

/// A `std::function<bool(cudaStream_t)>` in the layout of libstdc++: its
/// storage, the function that copies and destroys it, the function that calls it.
#[repr(C)]
#[derive(Debug)]
pub struct StreamFilter {
    storage: [usize; 2],
    manager: Option<unsafe extern "C-unwind" fn(*mut [usize; 2], *const [usize; 2], c_int) -> bool>,
    invoker: Option<unsafe extern "C-unwind" fn(*const [usize; 2], *mut *mut c_void) -> bool>,
}

const CLONE: c_int = 2;
const DESTROY: c_int = 3;

/// A copy of PyTorch's function, because the original lives only during the call that passes it.
#[derive(Debug)]
pub(super) struct Filter(StreamFilter);

// SAFETY: the caller of `memreel_begin_allocate_to_pool` promises that copies may be called from any thread.
unsafe impl Send for Filter {}
// SAFETY: as above, and from several threads at once.
unsafe impl Sync for Filter {}

impl Filter {
    /// Copies the function; `None` if it is null or empty. A copy may throw.
    ///
    /// # Safety
    /// `given` is null or a live `std::function` of libstdc++.
    pub(super) unsafe fn copy(given: *const StreamFilter) -> Option<Filter> {
        // SAFETY: the caller's promise.
        let given = unsafe { given.as_ref()? };
        let (manager, invoker) = (given.manager?, given.invoker?);
        let mut storage = [0; 2];
        // SAFETY: the manager copies the live function's state into storage of the same size.
        unsafe { manager(&raw mut storage, &raw const given.storage, CLONE) };
        Some(Filter(StreamFilter { storage, manager: Some(manager), invoker: Some(invoker) }))
    }

    /// Calls the function, which may throw.
    fn accepts(&self, stream: StreamId) -> bool {
        let mut stream = pointer(Address(stream.handle()));
        // SAFETY: the invoker belongs to the storage, and takes a pointer to the argument.
        self.0.invoker.is_some_and(|call| unsafe { call(&raw const self.0.storage, &raw mut stream) })
    }
}

impl Drop for Filter {
    fn drop(&mut self) {
        let storage = &raw mut self.0.storage;
        if let Some(manager) = self.0.manager {
            // SAFETY: `copy` filled the storage, and it is not used again.
            unsafe { manager(storage, storage, DESTROY) };
        }
    }
}

/// A pool that was begun with a function.
#[derive(Debug)]
struct Begun {
    device: c_int,
    pool: PoolId,
    filter: Filter,
}

/// The pools that were begun with a function, newest last.
#[derive(Debug)]
pub(super) struct Filters(Arc<Mutex<Vec<Arc<Begun>>>>);

impl Default for Filters {
    fn default() -> Filters {
        let begun = Arc::default();
        hold_at_forks(&begun);
        Filters(begun)
    }
}

impl Filters {
    fn begun(&self) -> MutexGuard<'_, Vec<Arc<Begun>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the function of a begun pool.
    pub(super) fn add(&self, device: c_int, pool: PoolId, filter: Filter) {
        let begun = Arc::new(Begun { device, pool, filter });
        self.begun().push(begun);
        N_BEGUN.fetch_add(1, Ordering::Relaxed);
    }

    /// Drops the function of an ended pool, without the lock.
    pub(super) fn remove(&self, device: c_int, pool: PoolId) {
        let mut begun = self.begun();
        let place = begun.iter().position(|begun| begun.device == device && begun.pool == pool);
        let removed = place.map(|place| begun.remove(place));
        drop(begun);
        if removed.is_some() {
            N_BEGUN.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Calls the functions to choose the pool for a request on `stream`. They may throw.
    pub(super) fn choose(&self, device: c_int, stream: StreamId) -> Option<Chosen> {
        let begun = self.begun().clone();
        // The most recently begun pool that accepts the stream is used, as in the allocator.
        let mut of_device = begun.iter().rev().filter(|begun| begun.device == device);
        let pool = of_device.find(|begun| begun.filter.accepts(stream))?.pool;
        CHOSEN.try_with(|chosen| chosen.set(Some(pool))).ok().map(|()| Chosen(()))
    }
}

/// Returns whether any pool is begun with a function.
#[inline(always)]
pub(super) fn are_any() -> bool {
    N_BEGUN.load(Ordering::Relaxed) > 0
}

/// Returns whether a function chose this pool for this thread's present request.
pub(super) fn is_chosen(pool: PoolId) -> bool {
    CHOSEN.try_with(Cell::get).is_ok_and(|chosen| chosen == Some(pool))
}

/// The number of [`Filters`]; if it is 0, a request does not check them.
static N_BEGUN: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The pool that a function chose for this thread's present request.
    static CHOSEN: Cell<Option<PoolId>> = const { Cell::new(None) };
}

/// The choice for one request, which ends when this value is dropped.
pub(super) struct Chosen(());

impl Drop for Chosen {
    fn drop(&mut self) {
        let _ = CHOSEN.try_with(|chosen| chosen.set(None));
    }
}
