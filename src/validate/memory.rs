//! The memory of one device at the end of its trace, as its segments describe it.

use super::place::{BlockPlace, SegmentPlace};
use crate::{event::Address, event::StreamId, inventory::BlockState};

/// A segment, as far as the replays need it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    pub(super) place: SegmentPlace,
    pub(super) start: Address,
    pub(super) end: Address,
    pub(super) stream: StreamId,
    pub(super) is_expandable: bool,
}

/// A block in use.
#[derive(Clone, Copy, Debug)]
pub(super) struct ActiveBlock {
    pub(super) place: BlockPlace,
    pub(super) address: Address,
    pub(super) size: u64,
    /// `None` in dumps of PyTorch 2.0.
    pub(super) requested_size: Option<u64>,
    pub(super) state: BlockState,
    pub(super) stream: StreamId,
}

/// One device's segments.
#[derive(Clone, Debug, Default)]
pub(super) struct DeviceMemory {
    pub(super) ranges: Vec<Range>,
    pub(super) active: Vec<ActiveBlock>,
    /// Something about the segments could not be read, so that the trace cannot be held against them.
    pub(super) is_unreadable: bool,
}

/// Every device's segments, by ordinal.
#[derive(Debug, Default)]
pub(super) struct Memory {
    pub(super) devices: Vec<DeviceMemory>,
}

impl Memory {
    pub(super) fn new(n_devices: usize) -> Memory {
        Memory { devices: vec![DeviceMemory::default(); n_devices] }
    }

    /// The memory of a device, if it has a trace.
    pub(super) fn device(&mut self, ordinal: i64) -> Option<&mut DeviceMemory> {
        self.devices.get_mut(usize::try_from(ordinal).ok()?)
    }

    /// A segment of which not even the device is known taints them all.
    pub(super) fn set_all_unreadable(&mut self) {
        self.devices.iter_mut().for_each(|memory| memory.is_unreadable = true);
    }
}
