//! The arrays of a program, by handle. An array has no address, and its handle is not one: two handles may be closer to each
//! other than the arrays are long.
#![forbid(unsafe_code)]

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use memreel::integrate::hold_at_forks;
use once_cell::race::OnceBox;
use rustc_hash::FxHashMap;

use super::{
    driver_memory::next_address,
    gpus::{self, Kind},
    state::record,
    types::Status,
};

/// The address of each array.
type Arrays = Arc<Mutex<FxHashMap<usize, u64>>>;

fn arrays() -> MutexGuard<'static, FxHashMap<usize, u64>> {
    static ARRAYS: OnceBox<Arrays> = OnceBox::new();
    let arrays = ARRAYS.get_or_init(|| {
        let arrays = Arrays::default();
        hold_at_forks(&arrays);
        Box::new(arrays)
    });
    arrays.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Records an array.
pub(crate) fn allocated(array: usize, bytes: u64) {
    let address = next_address(bytes);
    if record(|_| arrays().insert(array, address)).is_some() {
        gpus::allocated(address, bytes, Kind::Plain);
    }
}

/// Records the end of an array, before its handle can be another's.
pub(crate) fn free(array: usize, call: impl Fn() -> Status) -> Status {
    let Some(address) = record(|_| arrays().remove(&array)).flatten() else { return call() };
    let status = gpus::free(address, call);
    if !status.is_success() {
        record(|_| arrays().insert(array, address));
    }
    status
}
