//! Who had the memory at a peak that is not among a file's events, from the recorder's sums for each stack.

use std::collections::BTreeMap;

use super::mapped::MappedStack;
use crate::{
    analysis::{
        Branch, By, DeviceHistory, EarlierPeak, Group, Owners, Site, Totals,
        sites::{SameCalls, by_frame, group_of, sorted},
    },
    history::Moment,
    model::{Allocated, Text},
};

impl EarlierPeak {
    /// Returns the figures of the moment, which has no number. Of device memory, only the blocks are known.
    #[must_use]
    pub fn totals(&self) -> Totals {
        Totals {
            moment: Moment::START,
            allocated_bytes: self.bytes,
            active_bytes: self.bytes,
            rounded_bytes: self.bytes,
            reserved_bytes: self.bytes,
            n_blocks: usize::try_from(self.n_blocks).unwrap_or(usize::MAX),
        }
    }

    /// Returns a history with the stacks of the groups, and without events.
    #[must_use]
    pub fn stacks(&self) -> DeviceHistory<'_> {
        DeviceHistory::new(&self.run.stacks, self.device)
    }

    /// Returns the groups of the blocks that were in use, the largest first, given [`EarlierPeak::stacks`]; `None` by
    /// scope, name, stream and pool, which are not known.
    #[must_use]
    pub fn top(&self, stacks: &DeviceHistory<'_>, by: By) -> Option<Vec<Group>> {
        match by {
            By::Stack => {
                let groups = SameCalls::new(stacks).add_up(self.groups(), |group| &group.site, Group::join);
                Some(sorted(groups))
            }
            By::Function | By::File | By::Line => Some(by_frame(stacks, self.groups(), by)),
            By::Owner => {
                let owners = self.owners().into_iter();
                let group = |(owner, of): (Text, OfOwner)| Group {
                    n_stacks: of.n_stacks,
                    bytes: of.bytes,
                    total_bytes: of.bytes,
                    n_blocks: usize::try_from(of.n_blocks).unwrap_or(usize::MAX),
                    ..Group::new(Site::Owner(owner))
                };
                Some(sorted(owners.map(group).collect()))
            }
            By::Scope | By::Name | By::Stream | By::Pool => None,
        }
    }

    /// Returns the tree of the calls that allocated the blocks, as [`DeviceHistory::tree`] does.
    #[must_use]
    pub fn tree(&self, stacks: &DeviceHistory<'_>, least_bytes: u64) -> Vec<Branch> {
        stacks.tree_of_groups(&self.groups(), least_bytes)
    }

    /// By stack, the largest first.
    fn groups(&self) -> Vec<Group> {
        let of = |sum: &Allocated| group_of(sum, sum.n_at_peak, sum.bytes_at_peak);
        sorted(self.run.sums.iter().filter(|sum| sum.n_at_peak > 0).map(of).collect())
    }

    /// Returns what each owner had.
    pub(super) fn owners(&self) -> BTreeMap<Text, OfOwner> {
        let mut judge = Owners::new(&self.run.stacks);
        let mut all: BTreeMap<Text, OfOwner> = BTreeMap::new();
        for sum in self.run.sums.iter().filter(|sum| sum.n_at_peak > 0) {
            let (stacks, stack, bytes) = (self.run.stacks.clone(), sum.stack, sum.bytes_at_peak);
            let of = all.entry(judge.of(Some(stack))).or_insert_with(|| OfOwner {
                bytes: 0,
                n_blocks: 0,
                n_stacks: 0,
                largest: MappedStack { stacks, stack, bytes },
            });
            of.bytes = of.bytes.saturating_add(bytes);
            of.n_blocks = of.n_blocks.saturating_add(sum.n_at_peak);
            of.n_stacks += 1;
            if bytes > of.largest.bytes {
                (of.largest.stack, of.largest.bytes) = (stack, bytes);
            }
        }
        all
    }
}

/// What one owner had.
pub(super) struct OfOwner {
    pub(super) bytes: u64,
    pub(super) n_blocks: u64,
    pub(super) n_stacks: usize,
    /// The stack with the most.
    pub(super) largest: MappedStack,
}
