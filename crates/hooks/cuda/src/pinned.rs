//! Host memory that devices can use, as a separate device.
#![forbid(unsafe_code)]

use memreel::{
    Address, StreamId,
    device::{Device, Host},
    integrate::Refusal,
};

use super::{gpu::Gpu, held::HeldMap, state::record, types::Status};

/// The device whose context has each allocation, by address.
static DEVICES: HeldMap<usize, i32> = HeldMap::new();

/// Records an allocation.
pub(crate) fn allocated(address: usize, bytes: usize) {
    record(|state| {
        let _counted = state.pinned().alloc(at(address), bytes as u64, StreamId::DEFAULT);
        let device = state.current_gpu()?.device;
        DEVICES.lock().insert(address, device)
    });
}

/// Records a request that the driver refused, with the host's free memory.
pub(crate) fn refused(bytes: usize) {
    record(|state| {
        let device_free_bytes = Host::new().free_bytes();
        state.pinned().oom(Refusal { bytes: bytes as u64, device_free_bytes, ..Refusal::default() });
        Some(())
    });
}

/// Records a free, before the memory can be allocated again.
pub(crate) fn free(address: usize, call: impl Fn() -> Status) -> Status {
    let bytes = record(|state| {
        let ledger = state.pinned();
        let bytes = ledger.block_bytes(at(address))?;
        DEVICES.lock().remove(&address);
        ledger.free(at(address)).ok().map(|()| bytes)
    });
    let status = call();
    if let (false, Some(Some(bytes))) = (status.is_success(), bytes) {
        allocated(address, usize::try_from(bytes).unwrap_or(0));
    }
    status
}

/// Records the end of what an ending context has: the driver frees it.
pub(crate) fn forget(gpu: &Gpu) {
    let gone: Vec<_> = DEVICES.lock().extract_if(|_, device| *device == gpu.device).collect();
    record(|state| gone.iter().for_each(|(address, _)| _ = state.pinned().free(at(*address))));
}

fn at(address: usize) -> Address {
    Address(address as u64)
}
