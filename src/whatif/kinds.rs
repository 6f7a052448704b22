//! Determines the kinds of pool of segment events, which a trace does not name.

use std::collections::BTreeMap;

use super::{calls::Read, recorded_run::RecordedRun};
use memreel_snapshot::{
    model::TraceEntry,
    words::{
        Action, Address, PoolKind, SeededMap, StreamId,
        torch::{SMALL_SEGMENT_BYTES, kind_of_segment, pool_kind},
    },
};

/// The kinds of a trace's segment events.
///
/// A size shows the kind, except when pages are unmapped: several small pages may be unmapped at once, and their size may
/// be a multiple of a large page's.
pub(super) struct Kinds {
    /// The kinds that a size does not show, by entry.
    unmapped: SeededMap<usize, PoolKind>,
}

/// The blocks and pages seen so far that have memory, by stream and address.
struct Met {
    kinds: BTreeMap<(StreamId, Address), PoolKind>,
    /// Addresses that are further apart are in different ranges.
    span_bytes: u64,
}

impl Kinds {
    pub(super) fn new(trace: &[TraceEntry], read: &Read, recorded: &RecordedRun) -> Kinds {
        let kind_of = |bytes: u64| pool_kind(recorded.settings.rounded_bytes(bytes));
        let priors = read.priors.iter().map(|prior| ((prior.stream, prior.address), kind_of(prior.bytes)));
        let mut met = Met { kinds: priors.collect(), span_bytes: recorded.reserved_peak_bytes };
        let mut kinds = Kinds { unmapped: SeededMap::default() };
        let large_page_bytes = recorded.settings.page_bytes(PoolKind::Large);
        for (number, entry) in trace.iter().enumerate().skip(read.first_entry) {
            let place = (entry.stream, entry.address);
            match entry.action {
                Some(Action::Alloc) => drop(met.kinds.insert(place, kind_of(entry.size))),
                Some(Action::SegmentMap) => drop(met.kinds.insert(place, kind_of_segment(entry.size))),
                Some(Action::SegmentUnmap) => {
                    let kind = match entry.size.is_multiple_of(large_page_bytes) {
                        true => met.kind_of(entry),
                        false => PoolKind::Small,
                    };
                    kinds.unmapped.insert(number, kind);
                    met.forget(entry);
                }
                _ => {}
            }
        }
        kinds
    }

    /// Returns the kind of the pool of a segment event.
    pub(super) fn of(&self, number: usize, entry: &TraceEntry) -> PoolKind {
        // A small request maps one small page at a time, and a large request never maps that size.
        let known = || self.unmapped.get(&number).copied().filter(|_| entry.size != SMALL_SEGMENT_BYTES);
        known().unwrap_or_else(|| kind_of_segment(entry.size))
    }
}

impl Met {
    /// Returns the kind of the pool whose pages are unmapped: that of a block in them, or of the nearest block of the
    /// stream.
    fn kind_of(&self, entry: &TraceEntry) -> PoolKind {
        let (stream, start, end) = (entry.stream, entry.address, entry.end());
        let above = self.kinds.range((stream, start)..).next();
        let below = self.kinds.range(..(stream, start)).next_back();
        let above = above.map(|((of, at), kind)| (*of, at.saturating_sub(end), *kind));
        let below = below.map(|((of, at), kind)| (*of, start.saturating_sub(*at), *kind));
        let is_near = |(of, bytes, _): &(StreamId, u64, PoolKind)| *of == stream && *bytes < self.span_bytes;
        let nearest = above.into_iter().chain(below).filter(is_near).min_by_key(|(_, bytes, _)| *bytes);
        nearest.map_or(PoolKind::Large, |(_, _, kind)| kind)
    }

    /// Removes what is in pages that are unmapped.
    fn forget(&mut self, entry: &TraceEntry) {
        while let Some((place, _)) = self.kinds.range((entry.stream, entry.address)..).next()
            && place.0 == entry.stream
            && place.1 < entry.end()
        {
            let place = *place;
            self.kinds.remove(&place);
        }
    }
}
