//! The layout of segments at a moment: blocks in use, and the gaps between them.

use super::{segments::SegmentRange, state::DeviceHistory};
use crate::{
    event::Address,
    history::{Life, Moment},
};

/// A segment with its blocks at a moment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SegmentLayout<'a> {
    /// Where it is.
    pub range: SegmentRange,
    /// The blocks in use, by address.
    pub blocks: Vec<&'a Life>,
    /// What is free between them, by address. The rounding of blocks that are gone at the end is only
    /// known as a minimum, so that gaps may be a little too large.
    pub gaps: Vec<Gap>,
}

impl SegmentLayout<'_> {
    /// The bytes of its blocks.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.range.bytes - self.free_bytes()
    }

    /// The bytes of its gaps.
    #[must_use]
    pub fn free_bytes(&self) -> u64 {
        self.gaps.iter().map(|gap| gap.bytes).sum()
    }

    /// Its largest gap, in bytes.
    #[must_use]
    pub fn largest_gap_bytes(&self) -> u64 {
        self.gaps.iter().map(|gap| gap.bytes).max().unwrap_or(0)
    }
}

/// Free bytes in a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Gap {
    /// Where it begins.
    pub address: Address,
    /// Its size.
    pub bytes: u64,
}

impl DeviceHistory<'_> {
    /// Returns the segments at a moment with their blocks, by address. Blocks outside every segment
    /// are left out.
    #[must_use]
    pub fn layout(&self, moment: Moment) -> Vec<SegmentLayout<'_>> {
        layout(self, moment)
    }
}

fn layout<'a>(history: &'a DeviceHistory<'_>, moment: Moment) -> Vec<SegmentLayout<'a>> {
    let mut lives: Vec<&Life> = history.lives_at(moment).collect();
    lives.sort_unstable_by_key(|life| life.address);
    let mut next = 0;
    let ranges = history.segments_at(moment);
    ranges
        .into_iter()
        .map(|range| {
            next += lives[next..].partition_point(|life| life.address < range.address);
            let n = lives[next..].partition_point(|life| life.address < range.end());
            let blocks = lives[next..next + n].to_vec();
            next += n;
            SegmentLayout { gaps: gaps(range, &blocks), range, blocks }
        })
        .collect()
}

fn gaps(range: SegmentRange, blocks: &[&Life]) -> Vec<Gap> {
    let (mut gaps, mut free_from) = (Vec::new(), range.address);
    for block in blocks {
        if block.address > free_from {
            gaps.push(Gap { address: free_from, bytes: block.address - free_from });
        }
        free_from = free_from.max(block.address.saturating_add(block.bytes)).min(range.end());
    }
    if range.end() > free_from {
        gaps.push(Gap { address: free_from, bytes: range.end() - free_from });
    }
    gaps
}
