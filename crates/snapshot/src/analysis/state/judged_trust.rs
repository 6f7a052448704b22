//! How far the figures of a history can be trusted.

use super::{device_history::DeviceHistory, run_peak::of_run};
use crate::{
    analysis::frames::is_backward,
    history::{Absence, Life, Trust, disorder},
    model::TraceEntry,
    words::Action,
};

impl DeviceHistory<'_> {
    /// Returns the facts that limit how far the figures can be trusted.
    #[must_use]
    pub fn trust(&self) -> Trust {
        *self.trust.get_or_init(|| self.judge())
    }

    fn judge(&self) -> Trust {
        let before = || self.lives.all.iter().filter(|life| life.is_from_before());
        let (mut end, mut has_more_than_reserved) = (self.start, false);
        // Sampled blocks stand for others, which are in no segment.
        let is_weighted = self.shared.records.recorded(self.device).weight_bytes > 0;
        for totals in self.totals() {
            has_more_than_reserved |= totals.active_bytes > totals.reserved_bytes && !is_weighted;
            end = totals;
        }
        let segments_bytes = self.segments.iter().fold(0, |sum: u64, s| sum.saturating_add(s.total_size));
        let is_held = end.reserved_bytes > 0 || end.n_blocks > 0;
        let n_contradictions = self.lives.n_contradictions;
        let is_nameless = |life: &&Life| self.snapshot.frames(life.stack).next().is_none();
        let n_nameless = before().filter(is_nameless).count();
        let since = || self.lives.all.iter().filter(|life| !life.is_from_before());
        let (lacks, has) = (since().any(|life| is_nameless(&life)), since().any(|life| !is_nameless(&life)));
        Trust {
            n_entries: self.entries.len(),
            n_before: before().count(),
            bytes_before: self.start.active_bytes,
            n_nameless,
            names_the_rest: n_nameless > 0 && has && !lacks,
            lacks_in_backward: lacks && has && self.snapshot.stacks.all_frames().any(is_backward),
            reserved_before_bytes: self.start.reserved_bytes,
            n_contradictions,
            first_contradiction: self.lives.first_contradiction,
            first_disorder: disorder(self.entries, n_contradictions > 0).map(|disorder| disorder.entry),
            n_uncompleted: self.lives.n_uncompleted,
            n_unrequested: self.lives.n_unrequested,
            lacks_block_events: self.lacks_block_events(),
            lacks_segments: self.segments.is_empty() && is_held,
            lacks_segment_events: has_more_than_reserved || end.reserved_bytes != segments_bytes,
            absence: Absence::of(&self.shared.records, self.device),
            run_peak_bytes: of_run(self.snapshot, self.device, self.shared.records.recorded(self.device))
                .map(|(_, bytes)| bytes),
            ..Trust::from_settings(&self.shared.records, self.device)
        }
    }

    /// Whether memory was taken from the device, and no entry is about a block in it. Allocations that
    /// were filtered out are another reason for it.
    fn lacks_block_events(&self) -> bool {
        let is_of_block = |entry: &TraceEntry| {
            matches!(entry.action, Some(Action::Alloc | Action::FreeRequested | Action::FreeCompleted))
        };
        let is_growth =
            |entry: &TraceEntry| matches!(entry.action, Some(Action::SegmentAlloc | Action::SegmentMap));
        let Trust { min_size_bytes, sample_bytes, .. } =
            Trust::from_settings(&self.shared.records, self.device);
        (min_size_bytes, sample_bytes) == (0, 0)
            && !self.entries.iter().any(is_of_block)
            && self.entries.iter().any(is_growth)
    }
}
