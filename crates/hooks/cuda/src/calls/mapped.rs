//! Virtual memory: physical memory under handles, mapped into reserved address ranges.

use std::ffi::{c_int, c_void};

use super::wrapped::wrapped;
use crate::{
    addresses, gpus, mappings,
    marks::marked,
    pinned,
    types::{DevicePtr, Place, Status},
};

wrapped! {
    fn cuMemAddressReserve["cuMemAddressReserve", 10020](
        address: *mut DevicePtr, bytes: usize, alignment: usize, at: DevicePtr, flags: u64,
    ) = |call| {
        let status = call();
        if status.is_success() {
            addresses::reserved(bytes as u64);
        } else if status == Status::OUT_OF_MEMORY {
            marked(Some("memory:addresses"), || gpus::refused(bytes as u64, 0));
        }
        status
    };

    fn cuMemAddressFree["cuMemAddressFree", 10020](address: DevicePtr, bytes: usize) = |call| {
        let status = call();
        if status.is_success() {
            addresses::freed(bytes as u64);
        }
        status
    };

    fn cuMemCreate["cuMemCreate", 10020](handle: *mut u64, bytes: usize, place: *const Place, flags: u64) = |call| {
        let status = call();
        // SAFETY: the driver reads the place too.
        let location = unsafe { place.as_ref() }.map(|place| place.location);
        match location {
            Some(location) if status.is_success() && !handle.is_null() => {
                // SAFETY: after success the driver wrote the handle.
                mappings::created(unsafe { *handle }, bytes as u64, location);
            }
            Some(location) if status == Status::OUT_OF_MEMORY => match location.device() {
                Some(_) => gpus::refused(bytes as u64, 0),
                None => pinned::refused(bytes),
            },
            _ => {}
        }
        status
    };

    fn cuMemImportFromShareableHandle["cuMemImportFromShareableHandle", 10020](
        handle: *mut u64, from: *mut c_void, kind: c_int,
    ) = |call| {
        let status = call();
        if status.is_success() && !handle.is_null() {
            // SAFETY: after success the driver wrote the handle.
            mappings::imported(unsafe { *handle });
        }
        status
    };

    fn cuMemRetainAllocationHandle["cuMemRetainAllocationHandle", 11000](handle: *mut u64, address: *mut c_void)
        = |call| {
            let status = call();
            if status.is_success() && !handle.is_null() {
                // SAFETY: after success the driver wrote the handle.
                mappings::retained(unsafe { *handle }, address.addr() as u64);
            }
            status
        };

    fn cuMemRelease["cuMemRelease", 10020](handle: u64) = |call| mappings::release(handle, call);

    fn cuMemMap["cuMemMap", 10020](address: DevicePtr, bytes: usize, offset: usize, handle: u64, flags: u64) = |call| {
        let status = call();
        if status.is_success() {
            mappings::mapped(address, bytes as u64, offset as u64, handle);
        }
        status
    };

    fn cuMemUnmap["cuMemUnmap", 10020](address: DevicePtr, bytes: usize)
        = |call| mappings::unmap(address, bytes as u64, call);
}
