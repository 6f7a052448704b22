//! Sums segments that share a property, such as their stream or their pool.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{
    analysis::{DeviceHistory, SegmentLayout, SegmentRange, Site, sites::SameCalls},
    model::StackTable,
};

/// What some segments hold at a moment.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct SegmentSum {
    /// The number of segments.
    #[serde(rename = "segments")]
    pub n_segments: usize,
    /// Their bytes.
    pub reserved_bytes: u64,
    /// The bytes of their blocks, including rounding.
    pub block_bytes: u64,
    /// Their free bytes.
    pub free_bytes: u64,
    /// The bytes of those without a block.
    pub empty_bytes: u64,
    /// The call for which most of the free bytes were reserved, or most of all bytes if none is free.
    #[serde(skip)]
    pub site: Site,
}

impl SegmentSum {
    fn new() -> SegmentSum {
        SegmentSum {
            n_segments: 0,
            reserved_bytes: 0,
            block_bytes: 0,
            free_bytes: 0,
            empty_bytes: 0,
            site: Site::NoStack,
        }
    }

    fn add(&mut self, segment: &SegmentLayout<'_>) {
        let add = |sum: &mut u64, bytes: u64| *sum = sum.saturating_add(bytes);
        self.n_segments += 1;
        add(&mut self.reserved_bytes, segment.range.bytes);
        add(&mut self.block_bytes, segment.used_bytes());
        add(&mut self.free_bytes, segment.free_bytes());
        add(&mut self.empty_bytes, if segment.blocks.is_empty() { segment.range.bytes } else { 0 });
    }
}

/// Returns the sums of segments by a key; segments without a key are left out.
pub(super) fn sums_by<K: Ord + Copy>(
    history: &DeviceHistory<'_>,
    segments: &[SegmentLayout<'_>],
    key: impl Fn(&SegmentRange) -> Option<K>,
) -> BTreeMap<K, SegmentSum> {
    let mut calls = SameCalls::new(history);
    let mut sums: BTreeMap<K, SegmentSum> = BTreeMap::new();
    let mut of_sites: BTreeMap<(K, Site), [u64; 2]> = BTreeMap::new();
    for segment in segments {
        let Some(key) = key(&segment.range) else { continue };
        sums.entry(key).or_insert_with(SegmentSum::new).add(segment);
        let sum = of_sites.entry((key, calls.site(&site_of(segment)))).or_default();
        for (sum, bytes) in sum.iter_mut().zip([segment.free_bytes(), segment.range.bytes]) {
            *sum = sum.saturating_add(bytes);
        }
    }
    let mut sites: Vec<_> = of_sites.into_iter().collect();
    // The last one for each key has the most.
    sites.sort_by_key(|(_, bytes)| *bytes);
    for ((key, site), _) in sites {
        sums.entry(key).and_modify(|sum| sum.site = site);
    }
    sums
}

/// Returns the call for which a segment was reserved, or the call of its largest block if that was not recorded.
fn site_of(segment: &SegmentLayout<'_>) -> Site {
    let of_largest = || segment.blocks.iter().max_by_key(|life| life.bytes).and_then(|life| life.stack);
    let known = |stack: &_| *stack != StackTable::EMPTY;
    let stack = segment.range.stack.filter(known).or_else(of_largest).filter(known);
    stack.map_or(Site::Size(segment.range.bytes), Site::Stack)
}
