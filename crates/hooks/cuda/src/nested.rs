//! Tracks the wrapped calls in progress, on this thread and on all threads.
#![forbid(unsafe_code)]

use std::{
    cell::Cell,
    marker::PhantomData,
    sync::atomic::{AtomicU64, Ordering},
};

/// The numbers of wrapped calls on all threads that have started and that have ended.
static N_BEGUN: AtomicU64 = AtomicU64::new(0);
static N_ENDED: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static IS_WITHIN: Cell<bool> = const { Cell::new(false) };
}

/// The outermost wrapped call of this thread, while it lives.
///
/// A wrapper calls what comes next. That may be another library's wrapper, which calls what it took for the driver's
/// function and is this wrapper again. The inner call goes directly to the driver and is not recorded.
#[derive(Debug)]
pub(crate) struct Outermost {
    /// It belongs to its thread.
    _thread: PhantomData<*const ()>,
}

impl Outermost {
    /// Starts a call; `None` within another one, and while the thread's storage is destroyed.
    pub(crate) fn begin() -> Option<Outermost> {
        let was_within = IS_WITHIN.try_with(|is_within| is_within.replace(true)).unwrap_or(true);
        (!was_within).then(|| {
            N_BEGUN.fetch_add(1, Ordering::SeqCst);
            Outermost { _thread: PhantomData }
        })
    }
}

impl Drop for Outermost {
    fn drop(&mut self) {
        let _ = IS_WITHIN.try_with(|is_within| is_within.set(false));
        N_ENDED.fetch_add(1, Ordering::SeqCst);
    }
}

/// Runs code that neither allocates nor frees, such as a call that waits, without counting as in progress.
pub(crate) fn apart<T>(wait: impl FnOnce() -> T) -> T {
    /// Counts the call again, also if its thread is cancelled.
    struct Waiting;
    impl Drop for Waiting {
        fn drop(&mut self) {
            N_BEGUN.fetch_add(1, Ordering::SeqCst);
        }
    }
    N_ENDED.fetch_add(1, Ordering::SeqCst);
    let _waiting = Waiting;
    wait()
}

/// Returns the number of calls so far if all but `n_own` have ended: then what is recorded matches the driver. If the
/// number is unchanged later, no call was in progress in between.
pub(crate) fn quiet(n_own: u64) -> Option<u64> {
    let n_ended = N_ENDED.load(Ordering::SeqCst);
    let n_begun = N_BEGUN.load(Ordering::SeqCst);
    (n_begun == n_ended + n_own).then_some(n_begun)
}

/// Forgets the calls of other threads, which do not exist in a child of `fork`.
pub(crate) fn forget_others() {
    N_ENDED.store(N_BEGUN.load(Ordering::SeqCst) - u64::from(IS_WITHIN.get()), Ordering::SeqCst);
}
