//! The slices that captured work uses, which its graph keeps.
#![forbid(unsafe_code)]

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::elsewhere::Elsewhere;
use crate::{
    allocator::Allocation,
    process::fork::{Level, register_static},
};
use memreel_snapshot::words::PoolId;

/// What a graph uses.
#[derive(Debug)]
pub(super) struct Kept {
    pool: PoolId,
    slices: Mutex<Vec<Arc<Elsewhere>>>,
}

/// The slices of the running captures.
static RUNNING: Mutex<Vec<Weak<Kept>>> = Mutex::new(Vec::new());

/// Connects the list to forks of the process.
pub(super) fn survive_forks() {
    register_static(Level::Device, |held| held.lock_static(&RUNNING));
}

fn running() -> MutexGuard<'static, Vec<Weak<Kept>>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Kept {
    /// Starts to collect the slices of a capture, whose own memory comes from a pool.
    pub(super) fn begin(pool: PoolId) -> Arc<Kept> {
        let kept = Arc::new(Kept { pool, slices: Mutex::default() });
        running().push(Arc::downgrade(&kept));
        kept
    }

    /// Stops collecting; the slices remain.
    pub(super) fn end(&self) {
        running().retain(|other| !std::ptr::eq(other.as_ptr(), self));
    }

    pub(super) fn slices(&self) -> MutexGuard<'_, Vec<Arc<Elsewhere>>> {
        self.slices.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Records that captured work uses a slice. cudarc does not report which capture it is, so all running captures keep
/// the slice. They also keep its block, unless it comes from their own pool.
pub(super) fn keep(elsewhere: &Arc<Elsewhere>, block: &Allocation) {
    let all: Vec<_> = running().iter().filter_map(Weak::upgrade).collect();
    for kept in all {
        let mut slices = kept.slices();
        if slices.iter().any(|other| Arc::ptr_eq(other, elsewhere)) {
            continue;
        }
        slices.push(elsewhere.clone());
        if block.pool() != kept.pool {
            elsewhere.set_kept();
        }
    }
}
