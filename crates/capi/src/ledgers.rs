//! The ledgers of foreign allocators, each combined with memreel's allocator of its device into one inventory.
#![forbid(unsafe_code)]

use std::array;

use memreel::{
    DeviceId,
    allocator::CachingAllocator,
    integrate::{Inventory, InventorySegment, SettingsReport},
    ledger::Ledger,
    recorder::Recorder,
};
use once_cell::race::OnceBox;

/// The number of ledgers in a group; 256 groups have one for each of the 65,536 devices.
const IN_GROUP: usize = 256;

type Group = [OnceBox<Ledger>; IN_GROUP];

/// The ledgers of foreign allocators by device, each created by the first report for its device.
///
/// In cells rather than under a lock, so that reports of different devices share nothing and a child of `fork` finds
/// no lock taken.
#[derive(Debug)]
pub(super) struct Ledgers([OnceBox<Group>; IN_GROUP]);

impl Default for Ledgers {
    fn default() -> Ledgers {
        Ledgers(array::from_fn(|_| OnceBox::new()))
    }
}

impl Ledgers {
    /// Returns the ledger of a device, if anything was reported for it.
    pub(super) fn get(&self, device: u16) -> Option<&Ledger> {
        let [group, place] = device.to_be_bytes().map(usize::from);
        self.0[group].get()?[place].get()
    }

    /// Returns the ledger of a device.
    pub(super) fn get_or_create(&self, device: u16, recorder: &Recorder) -> &Ledger {
        let [group, place] = device.to_be_bytes().map(usize::from);
        let group = self.0[group].get_or_init(|| Box::new(array::from_fn(|_| OnceBox::new())));
        group[place].get_or_init(|| Box::new(recorder.ledger(device)))
    }

    /// Returns the devices with a ledger, and their ledgers.
    pub(super) fn all(&self) -> impl Iterator<Item = (DeviceId, &Ledger)> {
        (0..=u16::MAX).filter_map(|device| Some((device.into(), self.get(device)?)))
    }
}

/// The inventory of one device. The allocator and the ledger record on the same track, so a snapshot must inspect both
/// at the same moment.
#[derive(Debug)]
pub(super) struct Both<'a> {
    pub(super) device: DeviceId,
    pub(super) allocator: Option<&'a CachingAllocator>,
    pub(super) ledger: Option<&'a Ledger>,
}

impl Inventory for Both<'_> {
    fn device(&self) -> DeviceId {
        self.device
    }

    fn inspect(&self, look: &mut dyn FnMut(&[InventorySegment])) {
        let mut with_ledger = |segments: &[InventorySegment]| match self.ledger {
            None => look(segments),
            Some(ledger) => ledger.inspect(&mut |others| {
                let mut all = [segments, others].concat();
                all.sort_by_key(|segment| segment.address);
                look(&all);
            }),
        };
        match self.allocator {
            Some(allocator) => allocator.inspect(&mut with_ledger),
            None => with_ledger(&[]),
        }
    }

    fn settings(&self) -> SettingsReport {
        self.allocator.map(Inventory::settings).unwrap_or_default()
    }
}
