//! What the segments of each stream hold: only requests on its stream can use a free block.

use std::cmp::Reverse;

use serde::Serialize;

use super::segment_sum::{SegmentSum, sums_by};
use crate::{
    analysis::{AtSite, DeviceHistory, SegmentLayout, Site},
    history::Moment,
    words::StreamId,
};

/// The segments of one stream at a moment.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct StreamUse {
    /// The stream.
    pub stream: StreamId,
    /// What its segments hold.
    #[serde(flatten)]
    pub sum: SegmentSum,
}

impl DeviceHistory<'_> {
    /// Returns what the segments of each stream hold at a moment, most free bytes first.
    #[must_use]
    pub fn stream_uses(&self, moment: Moment) -> Vec<StreamUse> {
        self.uses_of_streams(&self.layout(moment))
    }

    pub(super) fn uses_of_streams(&self, segments: &[SegmentLayout<'_>]) -> Vec<StreamUse> {
        let sums = sums_by(self, segments, |range| Some(range.stream));
        let mut uses: Vec<StreamUse> =
            sums.into_iter().map(|(stream, sum)| StreamUse { stream, sum }).collect();
        uses.sort_by_key(|of| (Reverse(of.sum.free_bytes), Reverse(of.sum.reserved_bytes), of.stream));
        uses
    }
}

impl AtSite for StreamUse {
    fn site(&self) -> Option<&Site> {
        Some(&self.sum.site)
    }
}
