//! Finds the request for which free memory matters: the one that failed, or the largest that is still to come.

use serde::Serialize;

use crate::{
    analysis::{DeviceHistory, SegmentRange},
    history::{Moment, pool_of_entry},
    model::TraceEntry,
    words::{Action, PoolId, PoolKind, StreamId, torch::pool_kind},
};

/// A request, and which segments it could use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct Wanted {
    /// The number of its event.
    pub event: usize,
    /// Its size in bytes.
    pub bytes: u64,
    /// Whether it failed.
    pub has_failed: bool,
    /// Its stream.
    pub stream: StreamId,
    /// The kind of pool that it uses.
    pub kind: PoolKind,
    /// Its pool. `None` if the file does not name it (before PyTorch 2.12) and has private pools; then the default pool
    /// counts.
    #[serde(rename = "pool_id")]
    pub pool: Option<PoolId>,
}

impl Wanted {
    /// Returns whether a segment is of its pool.
    pub(crate) fn is_in_pool(&self, range: &SegmentRange) -> bool {
        range.pool.is_none_or(|found| found == self.pool.unwrap_or(PoolId::DEFAULT))
    }

    /// Returns whether it could use a segment: one of its stream, its kind of pool and its pool.
    #[must_use]
    pub fn is_served_by(&self, range: &SegmentRange) -> bool {
        range.stream == self.stream
            && range.kind.is_none_or(|found| found == self.kind)
            && self.is_in_pool(range)
    }
}

impl DeviceHistory<'_> {
    /// Returns the request of an entry, an `alloc` or an `oom`.
    pub(crate) fn wanted_by(&self, event: usize) -> Option<Wanted> {
        let entry = self.entries().get(event)?;
        let has_private = || self.segments().iter().any(|segment| segment.pool != PoolId::DEFAULT);
        let named = pool_of_entry(self.snapshot(), entry);
        Some(Wanted {
            event,
            bytes: entry.size,
            has_failed: entry.action == Some(Action::Oom),
            stream: entry.stream,
            kind: pool_kind(entry.size),
            pool: named.or_else(|| (!has_private()).then_some(PoolId::DEFAULT)),
        })
    }

    /// Returns the last request that failed, or otherwise the largest one after a moment; `None` if there is neither.
    #[must_use]
    pub fn wanted_at(&self, moment: Moment) -> Option<Wanted> {
        let entries = self.entries();
        let is = |action| move |entry: &TraceEntry| entry.action == Some(action);
        let failed = entries.iter().rposition(is(Action::Oom));
        let later = || {
            let later = entries.iter().enumerate().skip(moment.n_entries());
            // The first, if several are equally large.
            let largest =
                later.rev().filter(|(_, entry)| is(Action::Alloc)(entry)).max_by_key(|(_, entry)| entry.size);
            largest.map(|(event, _)| event)
        };
        self.wanted_by(failed.or_else(later)?)
    }
}
