//! Numbers stacks so that the same calls have the same number in all snapshots.

use crate::{
    analysis::{
        ShownFrames, Site,
        sites::{SiteKey, SiteKeys},
    },
    model::Snapshot,
    words::SeededMap,
};

/// Numbers the stacks of several snapshots: stacks with the same identifying frames have the same number, as in
/// [`DeviceHistory::diff`](crate::analysis::DeviceHistory::diff).
#[derive(Debug, Default)]
pub struct StackNumbers<'a> {
    keys: SiteKeys<'a>,
    numbers: SeededMap<SiteKey, u32>,
}

impl<'a> StackNumbers<'a> {
    /// Returns the number of each stack of a snapshot, by its index.
    pub fn of(&mut self, snapshot: &'a Snapshot) -> Vec<u32> {
        let shown = ShownFrames::new(snapshot);
        let mut number = |stack| {
            // A snapshot in memory has fewer than 2^32 stacks.
            let next = u32::try_from(self.numbers.len()).unwrap_or(u32::MAX);
            *self.numbers.entry(self.keys.of(&Site::Stack(stack), &shown)).or_insert(next)
        };
        shown.all_stacks().map(&mut number).collect()
    }
}
