//! Arrays of textures. They have handles instead of addresses: each is recorded at an address that no device has.

use std::ffi::c_uint;

use super::wrapped::wrapped;
use crate::{
    arrays, gpus,
    types::{ArrayShape, ArrayShape3d, Handle, Status},
};

wrapped! {
    fn cuArrayCreate_v2["cuArrayCreate", 3020](array: *mut Handle, shape: *const ArrayShape)
        // SAFETY: the driver reads the shape too.
        = |call| created(call(), array, || unsafe { ArrayShape3d::from(*shape) }.bytes());

    fn cuArray3DCreate_v2["cuArray3DCreate", 3020](array: *mut Handle, shape: *const ArrayShape3d)
        // SAFETY: the driver reads the shape too.
        = |call| created(call(), array, || unsafe { *shape }.bytes());

    fn cuMipmappedArrayCreate["cuMipmappedArrayCreate", 5000](
        array: *mut Handle, shape: *const ArrayShape3d, n_levels: c_uint,
        // SAFETY: the driver reads the shape too.
    ) = |call| created(call(), array, || unsafe { *shape }.bytes_of_levels(n_levels));

    fn cuArrayDestroy["cuArrayDestroy", 2000](array: Handle) = |call| arrays::free(array.addr(), call);

    fn cuMipmappedArrayDestroy["cuMipmappedArrayDestroy", 5000](array: Handle)
        = |call| arrays::free(array.addr(), call);
}

/// Records an array. Sparse and deferred ones have 0 bytes: their memory is created and mapped by other calls.
fn created(status: Status, array: *mut Handle, bytes: impl Fn() -> u64) -> Status {
    if status.is_success() && !array.is_null() && bytes() > 0 {
        // SAFETY: after success the driver wrote the handle.
        arrays::allocated(unsafe { *array }.addr(), bytes());
    } else if status == Status::OUT_OF_MEMORY {
        gpus::refused(bytes(), 0);
    }
    status
}
