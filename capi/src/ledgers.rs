//! memreel's allocator and the ledger of a foreign one on the same device, as one inventory.
#![forbid(unsafe_code)]

use std::sync::Arc;

use memreel::{
    DeviceId,
    allocator::CachingAllocator,
    integrate::{Inventory, InventorySegment, SettingsReport},
    recorder::Ledger,
};

/// The inventory of one device. The allocator and the ledger record on the same
/// track, so a snapshot must inspect both at one instant.
#[derive(Debug)]
pub(super) struct Both<'a> {
    pub(super) device: DeviceId,
    pub(super) allocator: Option<&'a CachingAllocator>,
    pub(super) ledger: Option<Arc<Ledger>>,
}

impl Inventory for Both<'_> {
    fn device(&self) -> DeviceId {
        self.device
    }

    fn inspect(&self, look: &mut dyn FnMut(&[InventorySegment])) {
        let mut with_ledger = |segments: &[InventorySegment]| match &self.ledger {
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
