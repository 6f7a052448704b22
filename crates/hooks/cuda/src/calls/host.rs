//! Host memory that a device can use: allocated by the driver, or registered with it.

use std::ffi::{c_uint, c_void};

use super::wrapped::wrapped;
use crate::{pinned, types::Status};

wrapped! {
    fn cuMemAllocHost_v2["cuMemAllocHost", 3020](address: *mut *mut c_void, bytes: usize)
        = |call| allocated(call(), address, bytes);

    fn cuMemHostAlloc["cuMemHostAlloc", 2020](address: *mut *mut c_void, bytes: usize, flags: c_uint)
        = |call| allocated(call(), address, bytes);

    fn cuMemFreeHost["cuMemFreeHost", 2000](address: *mut c_void) = |call| pinned::free(address.addr(), call);

    fn cuMemHostRegister["cuMemHostRegister", 4000](address: *mut c_void, bytes: usize, flags: c_uint)
        = |call| registered(call(), address, bytes);

    fn cuMemHostRegister_v2["cuMemHostRegister", 6050](address: *mut c_void, bytes: usize, flags: c_uint)
        = |call| registered(call(), address, bytes);

    fn cuMemHostUnregister["cuMemHostUnregister", 4000](address: *mut c_void)
        = |call| pinned::free(address.addr(), call);
}

fn allocated(status: Status, address: *mut *mut c_void, bytes: usize) -> Status {
    if status.is_success() && !address.is_null() {
        // SAFETY: after success the driver wrote the address.
        pinned::allocated(unsafe { *address }.addr(), bytes);
    } else if status == Status::OUT_OF_MEMORY {
        pinned::refused(bytes);
    }
    status
}

fn registered(status: Status, address: *mut c_void, bytes: usize) -> Status {
    if status.is_success() {
        pinned::allocated(address.addr(), bytes);
    } else if status == Status::OUT_OF_MEMORY {
        pinned::refused(bytes);
    }
    status
}
