//! Multicast objects: their addresses reach the memory of several devices that is bound to them. They have no memory
//! themselves.

use std::ffi::c_void;

use super::wrapped::wrapped;
use crate::{
    mappings,
    types::{DevicePtr, Ordinal, Status},
};

wrapped! {
    fn cuMulticastCreate["cuMulticastCreate", 12010](multicast: *mut u64, shape: *const c_void) = |call| {
        let status = call();
        if status.is_success() && !multicast.is_null() {
            // SAFETY: after success the driver wrote the handle.
            mappings::multicast_created(unsafe { *multicast });
        }
        status
    };

    fn cuMulticastAddDevice["cuMulticastAddDevice", 12010](multicast: u64, device: Ordinal) = |call| {
        let status = call();
        if status.is_success() {
            mappings::is_multicast(multicast);
        }
        status
    };

    fn cuMulticastBindMem["cuMulticastBindMem", 12010](
        multicast: u64, offset: usize, handle: u64, from: usize, bytes: usize, flags: u64,
    ) = |call| bound(call(), || mappings::bound(multicast, (offset as u64, bytes as u64), handle));

    fn cuMulticastBindMem_v2["cuMulticastBindMem", 13010](
        multicast: u64, device: Ordinal, offset: usize, handle: u64, from: usize, bytes: usize, flags: u64,
    ) = |call| bound(call(), || mappings::bound(multicast, (offset as u64, bytes as u64), handle));

    fn cuMulticastBindAddr["cuMulticastBindAddr", 12010](
        multicast: u64, offset: usize, address: DevicePtr, bytes: usize, flags: u64,
    ) = |call| bound(call(), || mappings::bound_at(multicast, (offset as u64, bytes as u64), address));

    fn cuMulticastBindAddr_v2["cuMulticastBindAddr", 13010](
        multicast: u64, device: Ordinal, offset: usize, address: DevicePtr, bytes: usize, flags: u64,
    ) = |call| bound(call(), || mappings::bound_at(multicast, (offset as u64, bytes as u64), address));

    fn cuMulticastUnbind["cuMulticastUnbind", 12010](multicast: u64, device: Ordinal, offset: usize, bytes: usize)
        = |call| {
            let status = call();
            if status.is_success() {
                mappings::unbound(multicast, device, (offset as u64, bytes as u64));
            }
            status
        };
}

/// Records memory that was bound.
fn bound(status: Status, note: impl Fn()) -> Status {
    if status.is_success() {
        note();
    }
    status
}
