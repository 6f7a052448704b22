//! The tree of calls that allocated what is in use at a moment.

use std::{cmp::Reverse, ops::Range};

use serde::Serialize;

use super::{same_calls::SameCalls, site::Site, top::Group};
use crate::{
    analysis::DeviceHistory,
    history::{Life, Moment},
    model::FrameIndex,
};

/// A line of the tree of calls that allocated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct Branch {
    /// The number of lines above it that lead to it. A call that accounts for all bytes of its caller has
    /// the depth of the caller.
    pub depth: usize,
    /// The call; if several frames have the same name, file and line, the first. `None` for blocks without a stack.
    pub frame: Option<FrameIndex>,
    /// The requested bytes of the blocks that it allocated, directly or through its callees.
    pub bytes: u64,
    /// The number of these blocks.
    pub n_blocks: usize,
    /// Whether it accounts for all bytes of the call on the line before.
    pub continues: bool,
    /// The number of further calls of its longest stack, if they are left out because they are deeper than
    /// [`MAX_CALLS`]; else 0.
    pub n_left_out: usize,
}

/// The most calls from the outermost inward in the tree of [`DeviceHistory::tree`]. A small file can have stacks of a
/// million calls, each of which would be a line.
pub const MAX_CALLS: usize = 1024;

impl DeviceHistory<'_> {
    /// Returns the tree of the calls that allocated the blocks in use at a moment, from the outermost call
    /// inward and the largest first. Branches of fewer than `least_bytes` bytes are not included, nor are calls deeper
    /// than [`MAX_CALLS`].
    #[must_use]
    pub fn tree(&self, moment: Moment, least_bytes: u64) -> Vec<Branch> {
        self.tree_of(self.lives_at(moment), least_bytes)
    }

    /// Returns the tree of the calls that allocated these blocks. Otherwise like [`DeviceHistory::tree`].
    #[must_use]
    pub fn tree_of<'l>(&self, lives: impl Iterator<Item = &'l Life>, least_bytes: u64) -> Vec<Branch> {
        self.tree_of_groups(&self.grouped(lives, Site::from_life), least_bytes)
    }

    /// Returns the tree of groups by stack.
    pub(crate) fn tree_of_groups(&self, groups: &[Group], least_bytes: u64) -> Vec<Branch> {
        let same = SameCalls::new(self);
        let mut chains: Vec<Chain> =
            (0..).zip(groups).map(|(place, group)| Chain::new(place, group, &same)).collect();
        chains.sort_unstable_by(|one, other| one.calls.cmp(&other.calls));
        branches_of(&chains, least_bytes)
    }
}

/// The calls of a stack, the outermost first, with the sums of its blocks.
struct Chain {
    /// The place of the stack among all: if two branches are equal, the one with the earlier stack comes first.
    place: u32,
    /// `None` for blocks without a stack.
    calls: Box<[Option<FrameIndex>]>,
    /// The calls that are deeper than the tree.
    n_left_out: usize,
    bytes: u64,
    n_blocks: usize,
}

impl Chain {
    fn new(place: u32, group: &Group, same: &SameCalls<'_, '_>) -> Chain {
        let (calls, n_left_out) = match group.site {
            Site::Stack(stack) => {
                let mut all = same.calls(stack).rev().map(Some);
                (all.by_ref().take(MAX_CALLS).collect(), all.count())
            }
            _ => ([None].into(), 0),
        };
        Chain { place, calls, n_left_out, bytes: group.bytes, n_blocks: group.n_blocks }
    }
}

/// Stacks that start with the same calls, with the number of these calls.
#[derive(Clone, Debug)]
struct Branching {
    chains: Range<usize>,
    n_calls: usize,
    depth: usize,
    /// Whether it is the only branch of a call, with all of its bytes.
    continues: bool,
}

/// Returns the lines of the tree of stacks, which are sorted by their calls. It does not recurse, because stacks in a
/// file can have any depth, and keeps no nodes of the tree.
fn branches_of(chains: &[Chain], least_bytes: u64) -> Vec<Branch> {
    let mut lines = Vec::with_capacity(chains.iter().map(|chain| chain.calls.len()).max().unwrap_or(0));
    let bytes = |range: &Range<usize>| {
        chains[range.clone()].iter().fold(0_u64, |sum, chain| sum.saturating_add(chain.bytes))
    };
    let place = |range: &Range<usize>| chains[range.clone()].iter().map(|chain| chain.place).min();
    let mut open = vec![Branching { chains: 0..chains.len(), n_calls: 0, depth: 0, continues: false }];
    while let Some(Branching { chains: range, n_calls, depth, continues }) = open.pop() {
        let all_bytes = bytes(&range);
        // The stacks that end here come first.
        let mut inner: Vec<(Range<usize>, u64)> = Vec::new();
        let mut next =
            range.start + chains[range.clone()].partition_point(|chain| chain.calls.len() == n_calls);
        while next < range.end {
            let call = chains[next].calls[n_calls];
            let end = next + chains[next..range.end].partition_point(|chain| chain.calls[n_calls] == call);
            inner.push((next..end, bytes(&(next..end))));
            next = end;
        }
        let is_passed_on = inner.len() == 1 && inner[0].1 == all_bytes;
        let is_root = n_calls == 0;
        if !is_root {
            let n_blocks = chains[range.clone()].iter().map(|chain| chain.n_blocks).sum();
            let frame = chains[range.start].calls[n_calls - 1];
            let ended = chains[range.clone()].iter().filter(|chain| chain.calls.len() == n_calls);
            let n_left_out = ended.map(|chain| chain.n_left_out).max().unwrap_or(0);
            lines.push(Branch { depth, frame, bytes: all_bytes, n_blocks, continues, n_left_out });
        }
        inner.retain(|(_, bytes)| *bytes >= least_bytes.max(1));
        inner.sort_by_cached_key(|(range, bytes)| (*bytes, Reverse(place(range))));
        let depth = depth + usize::from(!is_root && !is_passed_on);
        open.extend(inner.into_iter().map(|(chains, _)| Branching {
            chains,
            n_calls: n_calls + 1,
            depth,
            continues: !is_root && is_passed_on,
        }));
    }
    lines
}
