//! How the segments are cut at a moment: blocks in use, and what is free between them.

use super::{segments::Range, state::DeviceHistory};
use crate::history::{Life, Moment};

/// A segment with its blocks at a moment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Layout<'a> {
    /// Where it is.
    pub range: Range,
    /// The blocks in use, by address.
    pub blocks: Vec<&'a Life>,
    /// What is free, as address and bytes, by address. Of blocks that are gone at the end the
    /// rounding is only known at least, so that these may be a little too large.
    pub gaps: Vec<(u64, u64)>,
}

impl Layout<'_> {
    /// The bytes of its blocks.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.range.bytes - self.free_bytes()
    }

    /// The bytes of its gaps.
    #[must_use]
    pub fn free_bytes(&self) -> u64 {
        self.gaps.iter().map(|(_, bytes)| bytes).sum()
    }

    /// Its largest gap, in bytes.
    #[must_use]
    pub fn largest_gap_bytes(&self) -> u64 {
        self.gaps.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0)
    }
}

/// The segments at a moment, by address. Blocks in no segment are in none of them.
#[must_use]
pub fn layout<'a>(history: &'a DeviceHistory<'_>, moment: Moment) -> Vec<Layout<'a>> {
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
            Layout { gaps: gaps(range, &blocks), range, blocks }
        })
        .collect()
}

fn gaps(range: Range, blocks: &[&Life]) -> Vec<(u64, u64)> {
    let (mut gaps, mut free_from) = (Vec::new(), range.address);
    for block in blocks {
        if block.address > free_from {
            gaps.push((free_from, block.address - free_from));
        }
        free_from = free_from.max(block.address.saturating_add(block.bytes)).min(range.end());
    }
    if range.end() > free_from {
        gaps.push((free_from, range.end() - free_from));
    }
    gaps
}
