//! An explanation as data: the pairs of a line of `memreel oom --json`.

use serde::Serialize;

use super::{Cause, CauseKind, Tried, explanation::Explanation};
use crate::{
    analysis::{Group, Growth, MarkedFrame, Rest, SiteList, oom::Fit},
    words::PoolId,
};

/// A request that failed, as the value of `oom` in `memreel oom --json`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct OomRequest<'a> {
    /// The index of the event.
    pub event: usize,
    /// The kind of the first cause.
    pub verdict: CauseKind,
    /// Whether the device had enough free bytes, so that a limit refused.
    pub is_limited: bool,
    /// What was found about the first cause, in one sentence.
    pub why: String,
    /// The number of requests of the history that failed.
    pub n_ooms: usize,
    /// The size of the request after rounding, in bytes.
    pub requested_bytes: u64,
    /// The bytes of the segment or the pages that it needed, with default settings.
    pub segment_bytes: u64,
    /// The bytes that the device had free.
    pub device_free_bytes: u64,
    /// The bytes of the device that others held; null if the size of the device is not known.
    pub outside_bytes: Option<u64>,
    /// The bytes that were held from the device.
    pub reserved_bytes: u64,
    /// The requested bytes of the blocks that the program held.
    pub allocated_bytes: u64,
    /// The requested bytes of these and of pending blocks.
    pub active_bytes: u64,
    /// The free bytes in segments that the request could use: those of its stream, its pool and its kind of pool.
    pub free_here_bytes: u64,
    /// The bytes of the largest piece of these.
    pub largest_free_bytes: u64,
    /// The free bytes of other streams and pools.
    pub free_elsewhere_bytes: u64,
    /// The free bytes in whole pages, which expandable segments could unmap; a lower bound.
    pub free_pages_bytes: u64,
    /// The bytes of addresses that the process had reserved, if the request was for addresses; null if it was for memory.
    pub reserved_address_bytes: Option<u64>,
    /// Whether the request would fit if all free memory of its stream, its pool and the device were in one piece.
    pub fits_compacted: bool,
    /// Whether it would fit with expandable segments; null if that is not known.
    pub fits_expandable: Option<bool>,
    /// Whether it would fit with expandable segments, according to a replay.
    pub with_expandable_segments: Fit,
    /// Whether the run had expandable segments.
    pub is_expandable: bool,
    /// The pool of the request; null if the file does not name it and has private pools, so that the figures are those of the
    /// default pool.
    pub pool_id: Option<PoolId>,
    /// The requested bytes of blocks that were freed and waited for a stream.
    pub pending_bytes: u64,
    /// The number of these blocks.
    pub pending_blocks: usize,
    /// Whether no block was allocated or freed afterwards; otherwise the figures of free memory are upper bounds.
    pub is_last: bool,
    /// All frames of the stack of the request, innermost first; null if it was not recorded.
    pub stack: Option<Vec<MarkedFrame<'a>>>,
}

/// A failed request with its causes and with what held the memory.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct OomRecord<'a> {
    /// The last request that failed.
    pub oom: OomRequest<'a>,
    /// Why it failed, the first to act on first.
    pub causes: Vec<Cause>,
    /// The sites that grew until the request, which counts as served.
    pub grown: SiteList<'a, Growth>,
    /// The results of replays of the history.
    pub tried: &'a Tried,
    /// The sites that held the most at that moment.
    pub live: SiteList<'a, Group>,
    /// The sites with the most pending bytes.
    pub pending: SiteList<'a, Group>,
    /// The sites that `live` leaves out.
    pub rest: Rest,
    /// Whether the figures of every recorded moment are exact.
    pub is_exact: bool,
}

impl Explanation<'_, '_> {
    /// Returns the explanation as data, with the first `n` results of each list.
    #[must_use]
    pub fn record(&self, n: usize) -> OomRecord<'_> {
        let causes = self.causes();
        let grown = self.growths.as_ref().map_or(&[][..], |growths| &growths.sites);
        let live = SiteList::new(&self.live[..], n, self.shown.clone());
        OomRecord {
            oom: self.failed(&causes[0]),
            causes,
            grown: SiteList::new(grown, n, self.shown.clone()),
            tried: &self.tried,
            rest: live.rest(|group| group.bytes),
            live,
            pending: SiteList::new(&self.pending[..], n, self.shown.clone()),
            is_exact: self.history.trust().is_exact(),
        }
    }

    fn failed(&self, cause: &Cause) -> OomRequest<'_> {
        let report = &self.report;
        let fits = self.tried.with_expandable;
        OomRequest {
            event: report.entry,
            verdict: cause.kind,
            is_limited: report.is_limited(),
            why: cause.finding.clone(),
            n_ooms: report.n_ooms,
            requested_bytes: report.requested_bytes,
            segment_bytes: report.segment_bytes,
            device_free_bytes: report.device_free_bytes,
            outside_bytes: report.outside_bytes(),
            reserved_bytes: report.totals.reserved_bytes,
            allocated_bytes: report.totals.allocated_bytes,
            active_bytes: report.totals.active_bytes,
            free_here_bytes: report.free_here_bytes,
            largest_free_bytes: report.largest_free_bytes,
            free_elsewhere_bytes: report.free_elsewhere_bytes,
            free_pages_bytes: report.free_pages_bytes,
            reserved_address_bytes: report.reserved_address_bytes,
            fits_compacted: report.fits_compacted(),
            fits_expandable: (fits != Fit::Perhaps).then_some(fits == Fit::Yes),
            with_expandable_segments: fits,
            is_expandable: report.is_expandable,
            pool_id: report.pool,
            pending_bytes: report.pending_bytes,
            pending_blocks: report.n_pending,
            is_last: report.is_last,
            stack: report.stack.map(|stack| self.shown.marked(stack).collect()),
        }
    }
}
