//! The pools of blocks: the one that a block's entry names, or that of the segment that is there at the end.

use super::state::DeviceHistory;
use crate::{
    event::PoolId,
    history::{Life, pool_of_entry},
    snapshot::Segment,
};

/// The pools of one device's blocks.
#[derive(Debug)]
pub struct Pools<'h, 'a> {
    history: &'h DeviceHistory<'a>,
    /// By address.
    segments: Vec<&'a Segment>,
}

impl<'h, 'a> Pools<'h, 'a> {
    /// Takes the history of a device.
    #[must_use]
    pub fn new(history: &'h DeviceHistory<'a>) -> Pools<'h, 'a> {
        let mut segments = history.segments().to_vec();
        segments.sort_by_key(|segment| segment.address);
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
            let after = self.segments.partition_point(|segment| segment.address <= life.address);
            let segment = self.segments[..after].last()?;
            (life.address < segment.address.saturating_add(segment.total_size)).then_some(segment.pool)
        })
    }
}
