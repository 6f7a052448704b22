//! A request that an allocator refused, in the form in which it reports it.

use crate::words::StreamId;

/// A request that an allocator, or the device itself, refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Refusal {
    /// The bytes that were requested.
    pub bytes: u64,
    /// The stream of the request.
    pub stream: StreamId,
    /// The bytes that the device had free.
    pub device_free_bytes: u64,
    /// The bytes of the device.
    pub device_total_bytes: u64,
}
