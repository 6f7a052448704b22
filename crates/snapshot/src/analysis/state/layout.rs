//! The layout of segments at a moment: blocks in use, and the gaps between them.

use serde::Serialize;

use super::{device_history::DeviceHistory, segments::SegmentRange};
use crate::{
    history::{Life, Moment},
    words::Address,
};

/// A segment with its blocks at a moment.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct SegmentLayout<'a> {
    /// Its range of addresses.
    pub range: SegmentRange,
    /// The blocks in use, by address.
    pub blocks: Vec<&'a Life>,
    /// The gaps between them, by address. Only the minimum rounding of blocks that are freed before the end is known,
    /// so gaps may be a little too large.
    pub gaps: Vec<Gap>,
}

impl SegmentLayout<'_> {
    /// Returns the bytes of its blocks.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.range.bytes - self.free_bytes()
    }

    /// Returns the bytes of its gaps.
    #[must_use]
    pub fn free_bytes(&self) -> u64 {
        self.gaps.iter().map(|gap| gap.bytes).sum()
    }

    /// Returns the size of its largest gap in bytes.
    #[must_use]
    pub fn largest_gap_bytes(&self) -> u64 {
        self.gaps.iter().map(|gap| gap.bytes).max().unwrap_or(0)
    }
}

/// A range of free bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct Gap {
    /// Its first address.
    pub address: Address,
    /// Its size in bytes.
    pub bytes: u64,
}

impl DeviceHistory<'_> {
    /// Returns the segments at a moment with their blocks, by address. Blocks outside of all segments
    /// are not included: [`DeviceHistory::outside_segments`] has them.
    #[must_use]
    pub fn layout(&self, moment: Moment) -> Vec<SegmentLayout<'_>> {
        let mut lives: Vec<&Life> = self.lives_at(moment).collect();
        lives.sort_unstable_by_key(|life| life.address);
        let mut next = 0;
        let ranges = self.segments_at(moment);
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

    /// Returns the blocks in use at a moment that start in no segment, by address: the trace has them, but the file
    /// lacks their segments.
    #[must_use]
    pub fn outside_segments(&self, moment: Moment) -> Vec<&Life> {
        let ranges = self.segments_at(moment);
        let is_outside = |life: &&Life| {
            let n_before = ranges.partition_point(|range| range.address <= life.address);
            n_before == 0 || ranges[n_before - 1].end() <= life.address
        };
        let mut lives: Vec<&Life> = self.lives_at(moment).filter(is_outside).collect();
        lives.sort_unstable_by_key(|life| life.address);
        lives
    }
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
