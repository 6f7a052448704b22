//! An explanation in serialisable form.

use serde::Serialize;

use super::{Cause, CauseKind, Tried, explanation::Explanation};
use crate::analysis::{Group, Growth, MarkedFrame, WithFrames, oom::Fit};

/// A failed request, as the pairs in `oom` of `memreel oom --json`.
#[derive(Serialize)]
struct Failed<'a> {
    event: usize,
    /// The kind of the first cause, and what was found.
    verdict: CauseKind,
    is_limited: bool,
    why: String,
    n_ooms: usize,
    requested_bytes: u64,
    segment_bytes: u64,
    device_free_bytes: u64,
    /// Null if the size of the device is not known.
    outside_bytes: Option<u64>,
    reserved_bytes: u64,
    allocated_bytes: u64,
    active_bytes: u64,
    free_here_bytes: u64,
    largest_free_bytes: u64,
    free_elsewhere_bytes: u64,
    free_pages_bytes: u64,
    /// Null if the request was for memory.
    reserved_address_bytes: Option<u64>,
    fits_compacted: bool,
    /// Null if it is not known.
    fits_expandable: Option<bool>,
    with_expandable_segments: Fit,
    is_expandable: bool,
    pool_id: Option<[u64; 2]>,
    pending_bytes: u64,
    pending_blocks: usize,
    is_last: bool,
    stack: Option<Vec<MarkedFrame<'a>>>,
}

/// The groups of a list beyond the first ones.
#[derive(Serialize)]
struct Rest {
    count: usize,
    bytes: u64,
}

/// The whole answer.
#[derive(Serialize)]
struct Answer<'a> {
    oom: Failed<'a>,
    causes: Vec<Cause>,
    grown: Vec<WithFrames<'a, Growth>>,
    tried: &'a Tried,
    live: Vec<WithFrames<'a, Group>>,
    pending: Vec<WithFrames<'a, Group>>,
    rest: Rest,
    is_exact: bool,
}

impl Explanation<'_, '_> {
    /// Returns the explanation in serialisable form, with the first `n` groups of each list: the pairs of a line of
    /// `memreel oom --json`.
    #[must_use]
    pub fn answer(&self, n: usize) -> impl Serialize + '_ {
        let with_frames = |group| WithFrames::new(group, &self.shown);
        let rest = self.live.get(n..).unwrap_or_default();
        let causes = self.causes();
        Answer {
            oom: self.failed(&causes[0]),
            causes,
            grown: self
                .growths
                .iter()
                .flat_map(|all| &all.sites)
                .take(n)
                .map(|site| WithFrames::new(site, &self.shown))
                .collect(),
            tried: &self.tried,
            live: self.live.iter().take(n).map(with_frames).collect(),
            pending: self.pending.iter().take(n).map(with_frames).collect(),
            rest: Rest {
                count: rest.len(),
                bytes: rest.iter().map(|group| group.bytes).fold(0, u64::saturating_add),
            },
            is_exact: self.history.trust().is_exact(),
        }
    }

    fn failed(&self, cause: &Cause) -> Failed<'_> {
        let report = &self.report;
        let fits = self.tried.with_expandable;
        Failed {
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
            pool_id: report.pool.map(|pool| [pool.graph, pool.user]),
            pending_bytes: report.pending_bytes,
            pending_blocks: report.n_pending,
            is_last: report.is_last,
            stack: report.stack.map(|stack| self.shown.marked(stack).collect()),
        }
    }
}
