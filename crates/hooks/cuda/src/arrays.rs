//! The arrays of a program, by handle. An array has no address, and its handle does not work as one: two handles may be
//! closer together than the size of their arrays.
#![forbid(unsafe_code)]

use super::{
    driver_memory::next_address,
    gpus::{self, Kind},
    held::HeldMap,
    state::record,
    types::Status,
};

/// The address of each array.
static ARRAYS: HeldMap<usize, u64> = HeldMap::new();

/// Records an array.
pub(crate) fn allocated(array: usize, bytes: u64) {
    let address = next_address(bytes);
    if record(|_| ARRAYS.lock().insert(array, address)).is_some() {
        gpus::allocated(address, bytes, Kind::Plain);
    }
}

/// Records the end of an array, before its handle can be reused.
pub(crate) fn free(array: usize, call: impl Fn() -> Status) -> Status {
    ARRAYS.end(array, |address| gpus::free(address, &call)).unwrap_or_else(call)
}
