//! The reserved memory that no block uses.

use memreel_snapshot::{
    Address,
    analysis::{
        IdlePool, IdleStreams, PinnedSegment, PoolUse, Rest, ShownFrames, Site, SiteFrames, SiteList,
        StreamUse, Totals, Wanted,
    },
    history::Moment,
};
use serde::{Serialize, Serializer};

use crate::{At, Question, Refusal, Subject, last_oom};

/// Which reserved memory no block uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FragmentationQuestion {
    /// The moment of the free pieces and of the segments; `None` is that of the last failed request, or else the end.
    pub at: Option<At>,
    /// The most segments, streams and pools that are listed; `idle_pools` has all.
    pub n: usize,
}

impl Default for FragmentationQuestion {
    fn default() -> FragmentationQuestion {
        FragmentationQuestion { at: None, n: 10 }
    }
}

/// The answer to [`FragmentationQuestion`].
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Fragmented<'s> {
    /// The figures of the moment.
    pub at: Waste,
    /// The figures of the first moment with the most reserved bytes.
    pub most_reserved: Waste,
    /// The figures of the first moment with the most reserved bytes outside blocks.
    pub most_waste: Waste,
    /// The free bytes in segments at the moment.
    pub free_bytes: u64,
    /// The number of pieces that they are in.
    pub free_pieces: usize,
    /// The bytes of the largest piece.
    pub largest_free_bytes: u64,
    /// The free bytes in segments without blocks.
    pub empty_segments_bytes: u64,
    /// Those of them that emptying the cache would return to the device, which excludes private pools.
    pub returnable_bytes: u64,
    /// The request that failed, or the largest one after the moment; null if there is neither, or if nothing is free in
    /// segments that it could use.
    pub wanted: Option<Wanted>,
    /// What the segments of each stream hold.
    pub streams: SiteList<'s, StreamUse>,
    /// The calls for which several streams keep free memory.
    pub idle_streams: SiteList<'s, IdleStreams>,
    /// What the segments of each pool hold.
    pub pools: SiteList<'s, PoolUse>,
    /// Private pools without a block in use, by their numbers.
    pub idle_pools: Vec<IdlePool>,
    /// Segments with free bytes and with blocks that could serve the request `wanted`, or all of them without one; those with
    /// the most free bytes first.
    pub pinned: PinnedList<'s>,
    /// The segments that `pinned` leaves out, with their free bytes.
    pub rest: Rest,
    /// What limits the figures, one sentence each; empty if nothing does.
    pub warnings: Vec<String>,
}

/// The unused memory of a moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct Waste {
    /// The moment, after this event; null before the first one.
    #[serde(rename = "event")]
    pub moment: Moment,
    /// The bytes that are held from the device.
    pub reserved_bytes: u64,
    /// The requested bytes of the blocks in use.
    pub active_bytes: u64,
    /// The reserved bytes that are in no block.
    pub external_bytes: u64,
    /// The bytes that rounding adds to the blocks in use, at the least.
    pub internal_bytes: u64,
}

impl From<Totals> for Waste {
    fn from(totals: Totals) -> Waste {
        Waste {
            moment: totals.moment,
            reserved_bytes: totals.reserved_bytes,
            active_bytes: totals.active_bytes,
            external_bytes: totals.unused_bytes(),
            internal_bytes: totals.rounding_bytes(),
        }
    }
}

/// Segments that blocks keep from being returned. It serialises as an array of the first of them, as [`Pinned`].
#[derive(Clone, Debug)]
pub struct PinnedList<'s> {
    all: Vec<PinnedSegment>,
    n_listed: usize,
    shown: ShownFrames<'s>,
}

impl PinnedList<'_> {
    /// Returns all segments.
    #[must_use]
    pub fn all(&self) -> &[PinnedSegment] {
        &self.all
    }

    /// Returns the segments that are listed.
    #[must_use]
    pub fn listed(&self) -> &[PinnedSegment] {
        &self.all[..self.n_listed]
    }
}

/// A segment that blocks keep from being returned.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Pinned<'p> {
    /// The address of the segment.
    pub address: Address,
    /// The bytes of the segment.
    pub bytes: u64,
    /// Its free bytes.
    pub free_bytes: u64,
    /// The number of its blocks.
    pub blocks: usize,
    /// The bytes of its blocks.
    pub used_bytes: u64,
    /// The site of the largest of its blocks.
    pub largest: SiteFrames<'p>,
}

impl Serialize for PinnedList<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let sites: Vec<Site> = self.listed().iter().map(|pinned| Site::from_life(&pinned.largest)).collect();
        serializer.collect_seq(self.listed().iter().zip(&sites).map(|(pinned, site)| Pinned {
            address: pinned.range.address,
            bytes: pinned.range.bytes,
            free_bytes: pinned.free_bytes,
            blocks: pinned.n_blocks,
            used_bytes: pinned.used_bytes,
            largest: SiteFrames::new(site, &self.shown),
        }))
    }
}

impl Question for FragmentationQuestion {
    type Answer<'s> = Fragmented<'s>;

    fn ask<'s>(&self, subject: &'s Subject<'_>) -> Result<Fragmented<'s>, Refusal> {
        let (history, n) = (subject.history(), self.n);
        let moment = match self.at {
            Some(at) => at.moment(history)?,
            None => last_oom(history).unwrap_or_else(|| history.end()),
        };
        let (found, shown) = (history.fragmentation(moment), history.shown_frames());
        let n_listed = n.min(found.pinned.len());
        Ok(Fragmented {
            at: found.totals.into(),
            most_reserved: found.most_reserved.into(),
            most_waste: found.most_unused.into(),
            free_bytes: found.free_bytes,
            free_pieces: found.n_free,
            largest_free_bytes: found.largest_free_bytes,
            empty_segments_bytes: found.empty_bytes,
            returnable_bytes: found.returnable_bytes,
            wanted: found.wanted,
            streams: SiteList::new(found.streams, n, shown.clone()),
            idle_streams: SiteList::new(found.idle_streams, n, shown.clone()),
            pools: SiteList::new(found.pools, n, shown.clone()),
            idle_pools: found.idle_pools,
            rest: Rest::of(&found.pinned[n_listed..], |pinned| pinned.free_bytes),
            pinned: PinnedList { all: found.pinned, n_listed, shown },
            warnings: subject.warnings(),
        })
    }
}
