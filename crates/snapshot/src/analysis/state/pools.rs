//! Finds the pools of blocks: the one named by a block's entry, or that of the segment at its address at the end.

use super::device_history::DeviceHistory;
use crate::{
    history::{Life, Moment, pool_of_entry},
    model::Segment,
    words::{Action, Address, PoolId, SeededMap},
};

/// The pools of one device's blocks.
#[derive(Debug)]
pub struct Pools<'h, 'a> {
    history: &'h DeviceHistory<'a>,
    /// By address, with the moment from which the segment exists.
    segments: Vec<(&'a Segment, Moment)>,
}

impl<'h, 'a> Pools<'h, 'a> {
    /// Takes the history of a device.
    #[must_use]
    pub fn new(history: &'h DeviceHistory<'a>) -> Pools<'h, 'a> {
        let entries = history.entries().iter().enumerate();
        let begun: SeededMap<Address, Moment> = entries
            .filter(|(_, entry)| entry.action == Some(Action::SegmentAlloc))
            .map(|(at, entry)| (entry.address, Moment::after(at)))
            .collect();
        let from = |segment: &&'a Segment| begun.get(&segment.address).copied().unwrap_or(Moment::START);
        let mut segments: Vec<_> =
            history.segments().iter().map(|segment| (*segment, from(segment))).collect();
        segments.sort_by_key(|(segment, _)| segment.address);
        Pools { history, segments }
    }

    /// Returns the pool that a block was allocated from; `None` if it is not known: its entry names no pool (before PyTorch
    /// 2.12), and its segment was returned before the end.
    #[must_use]
    pub fn of(&self, life: &Life) -> Option<PoolId> {
        let entries = self.history.entries();
        let named =
            life.from.entry().and_then(|entry| pool_of_entry(self.history.snapshot(), entries.get(entry)?));
        named.or_else(|| {
            let after = self.segments.partition_point(|(segment, _)| segment.address <= life.address);
            let (segment, from) = self.segments[..after].last()?;
            let is_in = life.address < segment.address.saturating_add(segment.total_size);
            // A block that ended earlier was in another segment at this address.
            (is_in && *from < life.until).then_some(segment.pool)
        })
    }
}
