//! Stream-ordered memory, and the pools that it comes from.

use std::ffi::c_int;

use super::wrapped::wrapped;
use crate::{
    captures, gpus, pinned,
    pools::{self, PoolPlace},
    types::{DevicePtr, Handle, Location, Ordinal, Place, Status},
};

/// `CU_STREAM_PER_THREAD`: the default stream of the calling thread, which the twins denote by a null stream.
pub(super) const STREAM_PER_THREAD: usize = 2;

wrapped! {
    fn cuMemAllocAsync["cuMemAllocAsync", 11020](address: *mut DevicePtr, bytes: usize, stream: Handle)
        = |call| allocated(&call, (address, bytes), None, stream.addr());

    fn cuMemAllocAsync_ptsz["cuMemAllocAsync", 11020 per_thread](
        address: *mut DevicePtr, bytes: usize, stream: Handle,
    ) = |call| allocated(&call, (address, bytes), None, of_thread(stream));

    fn cuMemAllocFromPoolAsync["cuMemAllocFromPoolAsync", 11020](
        address: *mut DevicePtr, bytes: usize, pool: Handle, stream: Handle,
    ) = |call| allocated(&call, (address, bytes), Some(pool), stream.addr());

    fn cuMemAllocFromPoolAsync_ptsz["cuMemAllocFromPoolAsync", 11020 per_thread](
        address: *mut DevicePtr, bytes: usize, pool: Handle, stream: Handle,
    ) = |call| allocated(&call, (address, bytes), Some(pool), of_thread(stream));

    fn cuMemFreeAsync["cuMemFreeAsync", 11020](address: DevicePtr, stream: Handle)
        = |call| freed(&call, address, stream.addr());

    fn cuMemFreeAsync_ptsz["cuMemFreeAsync", 11020 per_thread](address: DevicePtr, stream: Handle)
        = |call| freed(&call, address, of_thread(stream));

    fn cuMemPoolCreate["cuMemPoolCreate", 11020](pool: *mut Handle, place: *const Place) = |call| {
        let status = call();
        if status.is_success() && !pool.is_null() && !place.is_null() {
            // SAFETY: after success the driver wrote the pool, and it read the place.
            unsafe { pools::found(*pool, (*place).into()) };
        }
        status
    };

    fn cuDeviceGetDefaultMemPool["cuDeviceGetDefaultMemPool", 11020](pool: *mut Handle, device: Ordinal)
        = |call| of_device(call(), pool, device);

    fn cuDeviceGetMemPool["cuDeviceGetMemPool", 11020](pool: *mut Handle, device: Ordinal)
        = |call| of_device(call(), pool, device);

    fn cuMemGetDefaultMemPool["cuMemGetDefaultMemPool", 13000](
        pool: *mut Handle, location: *const Location, kind: c_int,
    ) = |call| of_location(call(), pool, location, kind);

    fn cuMemGetMemPool["cuMemGetMemPool", 13000](pool: *mut Handle, location: *const Location, kind: c_int)
        = |call| of_location(call(), pool, location, kind);

    fn cuMemPoolDestroy["cuMemPoolDestroy", 11020](pool: Handle) = |call| {
        pools::destroyed(pool);
        call()
    };

    fn cuMemPoolTrimTo["cuMemPoolTrimTo", 11020](pool: Handle, keep_bytes: usize) = |call| {
        let status = call();
        gpus::look_soon();
        status
    };
}

/// Records a pool of a device that the driver gave to the program.
fn of_device(status: Status, pool: *mut Handle, device: Ordinal) -> Status {
    if status.is_success() && !pool.is_null() {
        // SAFETY: after success the driver wrote the pool.
        pools::found(unsafe { *pool }, PoolPlace::Device(device));
    }
    status
}

/// Records a pool for a location and a kind of memory that the driver gave to the program.
fn of_location(status: Status, pool: *mut Handle, location: *const Location, kind: c_int) -> Status {
    if status.is_success() && !pool.is_null() && !location.is_null() {
        // SAFETY: after success the driver wrote the pool, and it read the location.
        let (pool, location) = unsafe { (*pool, *location) };
        pools::found(pool, Place { kind, handle_types: 0, location }.into());
    }
    status
}

pub(super) fn of_thread(stream: Handle) -> usize {
    if stream.is_null() { STREAM_PER_THREAD } else { stream.addr() }
}

fn allocated(
    call: &dyn Fn() -> Status,
    (address, bytes): (*mut DevicePtr, usize),
    pool: Option<Handle>,
    stream: usize,
) -> Status {
    // The memory of a graph node belongs to the graph, whenever the graph runs.
    let is_captured = captures::is_capturing(stream);
    let status = call();
    if status.is_success() && !is_captured && !address.is_null() {
        // SAFETY: after success the driver wrote the address.
        gpus::allocated_on(unsafe { *address }, bytes as u64, stream, pool.map(|pool| pool.addr()));
    } else if status == Status::OUT_OF_MEMORY {
        match pool.and_then(|pool| pools::place_of(pool.addr())) {
            Some(PoolPlace::Host) => pinned::refused(bytes),
            _ => gpus::refused(bytes as u64, stream),
        }
    }
    status
}

fn freed(call: &dyn Fn() -> Status, address: DevicePtr, stream: usize) -> Status {
    if captures::is_capturing(stream) { call() } else { gpus::free_on(address, stream, call) }
}
