//! Finds the blocks that pin segments which a failed request could have used.

use std::cmp::Reverse;

use super::{Verdict, explanation::Explanation};
use crate::{
    analysis::{Bytes, PinnedSegment, Site, sites::SameCalls},
    words::SeededMap,
};

/// The segments that the blocks of one call keep.
#[derive(Default)]
struct Kept {
    n_segments: usize,
    free_bytes: u64,
    largest_bytes: u64,
    /// Whether their largest blocks have the same size.
    are_alike: bool,
    bytes: u64,
}

impl Explanation<'_, '_> {
    /// Returns which call pins the most free bytes that the request could have used, and how many segments other calls
    /// pin.
    pub(super) fn pins_text(&self, verdict: Verdict) -> String {
        let pinned = if verdict == Verdict::Elsewhere { &self.elsewhere.pinned } else { &self.pinned };
        let kept = self.kept(pinned);
        let Some((site, of)) = kept.first() else { return String::new() };
        let (site, each) = (self.site(site), Bytes(of.largest_bytes / of.n_segments as u64));
        let what = match of.n_segments {
            1 => format!(
                "a block of {each} from {site} keeps a segment of {} from being released",
                Bytes(of.bytes)
            ),
            n => {
                let blocks = match of.are_alike {
                    true => format!("{each} blocks"),
                    false => format!("blocks averaging {each}"),
                };
                format!(
                    "{blocks} from {site} keep {n} segments with {} free from being released",
                    Bytes(of.free_bytes)
                )
            }
        };
        let others = match kept[1..].iter().map(|(_, of)| of.n_segments).sum() {
            0 => String::new(),
            1 => ", and other blocks keep 1 more".to_owned(),
            n => format!(", and other blocks keep {n} more"),
        };
        format!("; {what}{others}")
    }

    /// Returns the calls whose blocks pin segments, most free bytes first.
    fn kept(&self, pinned: &[PinnedSegment]) -> Vec<(Site, Kept)> {
        let mut calls = SameCalls::new(self.history);
        let mut of_sites: SeededMap<Site, Kept> = SeededMap::default();
        for pinned in pinned {
            let kept = of_sites.entry(calls.site(&Site::from_life(&pinned.largest))).or_default();
            let bytes = pinned.largest.requested_bytes;
            kept.n_segments += 1;
            kept.are_alike = match kept.n_segments {
                1 => true,
                n => kept.are_alike && kept.largest_bytes == bytes.saturating_mul(n as u64 - 1),
            };
            kept.free_bytes = kept.free_bytes.saturating_add(pinned.free_bytes);
            kept.largest_bytes = kept.largest_bytes.saturating_add(bytes);
            kept.bytes = kept.bytes.saturating_add(pinned.range.bytes);
        }
        let mut kept: Vec<(Site, Kept)> = of_sites.into_iter().collect();
        kept.sort_by(|(one, kept), (other, others)| {
            let key = |kept: &Kept| (Reverse(kept.free_bytes), kept.n_segments);
            key(kept).cmp(&key(others)).then_with(|| one.cmp(other))
        });
        kept
    }
}
