//! Memory of another process, opened here.

use std::ffi::{c_uint, c_void};

use super::wrapped::wrapped;
use crate::{
    gpus::{self, Kind},
    types::{DevicePtr, Handle, Status},
};

/// `CUipcMemHandle`: 64 bytes, passed by value.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct MemHandle([u8; 64]);

wrapped! {
    fn cuIpcOpenMemHandle["cuIpcOpenMemHandle", 4010](address: *mut DevicePtr, handle: MemHandle, flags: c_uint)
        = |call| opened(call(), address);

    fn cuIpcOpenMemHandle_v2["cuIpcOpenMemHandle", 11000](address: *mut DevicePtr, handle: MemHandle, flags: c_uint)
        = |call| opened(call(), address);

    fn cuIpcCloseMemHandle["cuIpcCloseMemHandle", 4010](address: DevicePtr) = |call| gpus::free(address, call);

    fn cuMemPoolImportPointer["cuMemPoolImportPointer", 11020](
        address: *mut DevicePtr, pool: Handle, data: *mut c_void,
    ) = |call| opened(call(), address);
}

fn opened(status: Status, address: *mut DevicePtr) -> Status {
    if status.is_success() && !address.is_null() {
        // SAFETY: after success the driver wrote the address.
        let address = unsafe { *address };
        gpus::allocated(address, gpus::size_at(address).unwrap_or(1), Kind::Imported);
    }
    status
}
