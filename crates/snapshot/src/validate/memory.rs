//! The segments of each device that has a trace, for comparison with that trace.

use crate::model::Segment;

/// The segments of one device.
#[derive(Clone, Debug, Default)]
pub(super) struct DeviceMemory<'a> {
    /// The segments with their numbers in the file.
    pub(super) segments: Vec<(usize, &'a Segment)>,
    /// Whether a part of them cannot be read, so that the trace cannot be compared with them.
    pub(super) is_unreadable: bool,
}

/// The segments of every device, by ordinal.
///
/// They are collected once, because a file can have many devices with many segments.
#[derive(Debug)]
pub(super) struct Memory<'a> {
    pub(super) devices: Vec<DeviceMemory<'a>>,
}

impl<'a> Memory<'a> {
    pub(super) fn new(n_devices: usize) -> Memory<'a> {
        Memory { devices: vec![DeviceMemory::default(); n_devices] }
    }

    /// The memory of a device, if it has a trace.
    pub(super) fn device(&mut self, ordinal: i64) -> Option<&mut DeviceMemory<'a>> {
        self.devices.get_mut(usize::try_from(ordinal).ok()?)
    }

    /// Marks every device, for a segment whose device is not known.
    pub(super) fn set_all_unreadable(&mut self) {
        self.devices.iter_mut().for_each(|memory| memory.is_unreadable = true);
    }
}
