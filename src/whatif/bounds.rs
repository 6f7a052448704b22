//! How much memory a run has.

/// How much memory a run has: all of a device, as far as others left it, or less. Its default is a device that is never
/// full.
///
/// A request counts against a limit with the whole segment that it would need, also with expandable segments; on a device
/// with the pages that it needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Bounds {
    /// The most bytes that the process may reserve, and the size of the device.
    pub(super) limit_bytes: Option<u64>,
    /// The size of the device, if there is no limit.
    pub(super) device_bytes: Option<u64>,
}

impl Bounds {
    /// Returns those of a process that may reserve so many bytes.
    #[must_use]
    pub fn limit(limit_bytes: u64) -> Bounds {
        Bounds { limit_bytes: Some(limit_bytes), device_bytes: None }
    }

    /// Returns those of a device that has so many bytes for the process.
    #[must_use]
    pub fn device(device_bytes: u64) -> Bounds {
        Bounds { limit_bytes: None, device_bytes: Some(device_bytes) }
    }

    /// Returns the limit of the process, if it has one.
    #[must_use]
    pub fn limit_bytes(&self) -> Option<u64> {
        self.limit_bytes
    }

    /// Returns the most bytes that can be reserved; `None` on a device that is never full.
    #[must_use]
    pub fn most_bytes(&self) -> Option<u64> {
        self.limit_bytes.or(self.device_bytes)
    }
}
