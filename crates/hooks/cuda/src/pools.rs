//! The pools of stream-ordered memory: their locations, and the fact that device pools hold more than their blocks.

use super::{
    alive::Look,
    driver::Driver,
    gpu::Gpu,
    held::HeldMap,
    state::record,
    types::{Handle, Ordinal, Place},
};

/// The location of a pool's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PoolPlace {
    /// On a device, which has this number.
    Device(Ordinal),
    /// On the host, or one of its nodes.
    Host,
    /// Where it is used, for managed memory.
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

/// Records a pool that the program created, or that the driver gave it.
pub(crate) fn found(pool: Handle, place: PoolPlace) {
    record(|state| {
        PLACES.lock().insert(pool.addr(), place);
        let PoolPlace::Device(device) = place else { return None };
        state.gpu(device)?.alive().add_pool(pool.expose_provenance());
        Some(())
    });
}

/// Records that the program destroys a pool, which is no longer queried.
pub(crate) fn destroyed(pool: Handle) {
    record(|state| {
        PLACES.lock().remove(&pool.addr());
        state.gpus().for_each(|gpu| gpu.alive().remove_pool(pool.addr()));
    });
}

/// Returns the location of a pool's memory; `None` for a pool that no recorded call gave to the program.
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
