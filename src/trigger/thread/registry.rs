//! All active sets of triggers of this process.
#![forbid(unsafe_code)]

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::{
    process::fork::{self, Held, Level},
    trigger::{files::dumping, thread::requests, when::armed::Armed},
};

/// Weak, because a set belongs to its reel. No other lock is taken under this one.
static ALL: Mutex<Vec<Weak<Armed>>> = Mutex::new(Vec::new());

/// Adds a set until it is dropped.
pub(in crate::trigger) fn add(armed: &Arc<Armed>) {
    fork::register_static(Level::Allocator, hold);
    let mut all = locked();
    all.retain(|armed| armed.strong_count() > 0);
    all.push(Arc::downgrade(armed));
}

/// Returns the sets, so that they can be used without a lock.
pub(in crate::trigger) fn all() -> Vec<Arc<Armed>> {
    locked().iter().filter_map(Weak::upgrade).collect()
}

fn locked() -> MutexGuard<'static, Vec<Weak<Armed>>> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The child forgets what the parent's threads requested or were writing.
fn hold(held: &mut Held) {
    held.lock_static(&ALL);
    held.call(
        || {
            requests::forget_all();
            dumping::forget_other_threads();
        },
        || {},
    );
}
