//! The host's memory that devices can use, as a device of its own.
#![forbid(unsafe_code)]

use memreel::{Address, StreamId};

use super::{state::record, types::Status};

/// Records an allocation.
pub(crate) fn allocated(address: usize, bytes: usize) {
    record(|state| state.pinned().alloc(at(address), bytes as u64, StreamId::DEFAULT));
}

/// Records a free, before the memory can be allocated again.
pub(crate) fn free(address: usize, call: impl Fn() -> Status) -> Status {
    let bytes = record(|state| {
        let ledger = state.pinned();
        let bytes = ledger.block_bytes(at(address))?;
        ledger.free(at(address)).then_some(bytes)
    });
    let status = call();
    if let (false, Some(Some(bytes))) = (status.is_success(), bytes) {
        allocated(address, usize::try_from(bytes).unwrap_or(0));
    }
    status
}

fn at(address: usize) -> Address {
    Address(address as u64)
}
