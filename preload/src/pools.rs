//! The pools of stream-ordered memory, which hold more than their blocks.

use super::{
    alive::Look,
    driver::Driver,
    gpu::Gpu,
    state::{State, record},
    types::{Handle, Location},
};

/// Notes a pool that the program made.
pub(crate) fn created(pool: Handle, location: Location) {
    if location.kind == Location::DEVICE {
        record(|state| {
            state.gpu(location.number)?.alive().add_pool(pool.expose_provenance());
            Some(())
        });
    }
}

/// Notes that the program destroys a pool, which is not asked any more.
pub(crate) fn destroyed(pool: Handle) {
    record(|state| state.gpus().for_each(|gpu| gpu.alive().remove_pool(pool.addr())));
}

/// Returns the GPU of a pool that the program made.
pub(crate) fn gpu_of(state: &State, pool: usize) -> Option<&Gpu> {
    state.gpus().find(|gpu| gpu.alive().has_pool(pool))
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
