//! Memory by owner: at a moment, and the most that each had at any moment.

use serde::Serialize;

use crate::{
    analysis::{
        DeviceHistory, Owners,
        state::{Holding, has_requests, highest_levels, holdings, of_blocks},
    },
    history::Moment,
    model::{StackIndex, Text},
    words::{SeededMap, SeededSet},
};

/// The most bytes that an owner held from the device.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct OwnerPeak {
    /// The owner.
    pub owner: String,
    /// The bytes.
    pub bytes: u64,
    /// The first moment at which it held them.
    #[serde(rename = "event")]
    pub moment: Moment,
}

/// What one owner holds at a moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct OwnedMemory {
    pub(super) owner: Text,
    pub(super) bytes: u64,
    pub(super) n_holdings: usize,
    pub(super) n_stacks: usize,
}

impl DeviceHistory<'_> {
    /// Returns the device memory that is held over time. For a heap, whose segments were not requested, these are its
    /// blocks.
    pub(crate) fn holdings(&self) -> Vec<Holding> {
        match has_requests(self.snapshot(), self.device(), self.segments(), self.entries()) {
            true => holdings(self.segments(), self.entries()),
            false => of_blocks(self.lives()),
        }
    }

    /// Returns what each owner holds from the device at a moment.
    pub(super) fn owned_at(&self, moment: Moment) -> Vec<OwnedMemory> {
        let mut owners = Owners::new(self.snapshot());
        let mut all: SeededMap<Text, (OwnedMemory, SeededSet<StackIndex>)> = SeededMap::default();
        for holding in self.holdings().iter().filter(|holding| holding.is_held_at(moment)) {
            let owner = owners.of(holding.stack);
            let (owned, stacks) = all.entry(owner).or_insert_with_key(|owner| {
                (
                    OwnedMemory { owner: owner.clone(), bytes: 0, n_holdings: 0, n_stacks: 0 },
                    SeededSet::default(),
                )
            });
            owned.bytes = owned.bytes.saturating_add(holding.bytes);
            owned.n_holdings += 1;
            stacks.extend(holding.stack);
            owned.n_stacks = stacks.len();
        }
        all.into_values().map(|(owned, _)| owned).collect()
    }

    /// Returns the most device memory that each owner held, by name. The owner is the first library in the stack of the
    /// request that is not the driver or a runtime (docs/owners.md).
    #[must_use]
    pub fn owner_peaks(&self) -> Vec<OwnerPeak> {
        let mut owners = Owners::new(self.snapshot());
        let mut changes: Vec<(Moment, i128, Text)> = Vec::new();
        for Holding { bytes, stack, from, until } in self.holdings() {
            let owner = owners.of(stack);
            changes.push((from, i128::from(bytes), owner.clone()));
            changes.push((until, -i128::from(bytes), owner));
        }
        let peaks = highest_levels(changes).into_iter();
        peaks.map(|(owner, (bytes, moment))| OwnerPeak { owner: owner.to_string(), bytes, moment }).collect()
    }
}
