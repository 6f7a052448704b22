//! The pools of stream-ordered memory: where each has its memory, and that those of devices hold more than their blocks.

use super::{
    alive::Look,
    driver::Driver,
    gpu::Gpu,
    held::HeldMap,
    state::record,
    types::{Handle, Ordinal, Place},
};

/// Where a pool has its memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PoolPlace {
    /// On a device, which has this number.
    Device(Ordinal),
    /// On the host, or one of its nodes.
    Host,
    /// Where it is used: managed memory.
    Managed,
}

impl From<Place> for PoolPlace {
    fn from(place: Place) -> PoolPlace {
        match place.location.device() {
            _ if place.is_managed() => PoolPlace::Managed,
            Some(device) => PoolPlace::Device(device),
            None => PoolPlace::Host,
        }
    }
}

/// The places of pools.
static PLACES: HeldMap<usize, PoolPlace> = HeldMap::new();

/// Notes a pool that the program made, or that the driver gave it.
pub(crate) fn found(pool: Handle, place: PoolPlace) {
    record(|state| {
        PLACES.lock().insert(pool.addr(), place);
        let PoolPlace::Device(device) = place else { return None };
        state.gpu(device)?.alive().add_pool(pool.expose_provenance());
        Some(())
    });
}

/// Notes that the program destroys a pool, which is not asked any more.
pub(crate) fn destroyed(pool: Handle) {
    record(|state| {
        PLACES.lock().remove(&pool.addr());
        state.gpus().for_each(|gpu| gpu.alive().remove_pool(pool.addr()));
    });
}

/// Returns where a pool has its memory; `None` of a pool that no recorded call gave to the program.
pub(crate) fn place_of(pool: usize) -> Option<PoolPlace> {
    PLACES.lock().get(&pool).copied()
}

/// Returns the bytes that the pools of a device hold.
pub(crate) fn reserved_bytes(gpu: &Gpu, driver: &Driver, look: &Look<'_>) -> u64 {
    if gpu.pool_bytes() > 0
        && let Some(default) = driver.default_pool(gpu.device)
    {
        gpu.alive().add_pool(default);
    }
    // SAFETY: a pool that the program destroys is taken from the list before, which waits for the look.
    look.pools().iter().filter_map(|pool| unsafe { driver.reserved_bytes(*pool) }).sum()
}
