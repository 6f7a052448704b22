//! Reserves room in a table of stacks for those of devices: they are few, and a program's heap may fill the table
//! first.
#![forbid(unsafe_code)]

use std::cell::Cell;

/// The fraction of a table that is reserved for devices.
const PART: usize = 8;

thread_local! {
    static IS_OPEN: Cell<bool> = const { Cell::new(false) };
}

/// Calls `work`, whose captures on this thread may use the reserve.
pub(crate) fn with<T>(work: impl FnOnce() -> T) -> T {
    let was_open = IS_OPEN.with(|is_open| is_open.replace(true));
    let done = work();
    IS_OPEN.with(|is_open| is_open.set(was_open));
    done
}

/// Returns how many stacks this thread may fill in a table with room for `limit`.
pub(super) fn room(limit: usize) -> usize {
    if IS_OPEN.with(Cell::get) { limit } else { limit - limit / PART }
}
