//! Memory in one piece: plain, pitched, managed.

use std::ffi::c_uint;

use super::wrapped::wrapped;
use crate::{
    gpus::{self, Kind},
    types::{DevicePtr, Status},
};

wrapped! {
    fn cuMemAlloc_v2["cuMemAlloc", 3020](address: *mut DevicePtr, bytes: usize)
        = |call| allocated(call(), address, bytes, Kind::Plain);

    fn cuMemAllocPitch_v2["cuMemAllocPitch", 3020](
        address: *mut DevicePtr, pitch: *mut usize, width_bytes: usize, height: usize, element_bytes: c_uint,
    ) = |call| {
        let status = call();
        // SAFETY: after success the driver wrote the distance of two rows.
        let row_bytes = if status.is_success() { unsafe { *pitch } } else { width_bytes };
        allocated(status, address, row_bytes.saturating_mul(height), Kind::Plain)
    };

    fn cuMemAllocManaged["cuMemAllocManaged", 6000](address: *mut DevicePtr, bytes: usize, flags: c_uint)
        = |call| allocated(call(), address, bytes, Kind::Managed);

    fn cuMemFree_v2["cuMemFree", 3020](address: DevicePtr) = |call| gpus::free(address, call);
}

/// Records an allocation that ended with this status.
fn allocated(status: Status, address: *mut DevicePtr, bytes: usize, kind: Kind) -> Status {
    if status.is_success() && !address.is_null() {
        // SAFETY: after success the driver wrote the address.
        gpus::allocated(unsafe { *address }, bytes as u64, kind);
    } else if status == Status::OUT_OF_MEMORY {
        gpus::refused(bytes as u64, 0);
    }
    status
}
