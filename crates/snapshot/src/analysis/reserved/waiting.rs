//! Finds memory that the program has freed and that waits for a stream or an event.

use serde::Serialize;

use crate::{
    analysis::{AtSite, DeviceHistory, Group, Site, SiteFinding},
    history::Moment,
    words::{Bytes, DeviceId},
};

/// The blocks that are pending at a moment.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct Waiting {
    /// The call that allocated most of them.
    #[serde(skip)]
    pub site: Site,
    /// Their requested bytes.
    pub bytes: u64,
    /// Their number.
    pub n_blocks: usize,
    /// The bytes of these that the call allocated.
    pub site_bytes: u64,
    /// Whether they are pinned host memory, which waits for events.
    pub is_of_host: bool,
}

/// Less than this fraction of what is allocated or pending is not reported, one in this number.
const LEAST: u64 = 4;

impl DeviceHistory<'_> {
    /// Returns the blocks that are pending at a moment, if they are a good part of those in use.
    #[must_use]
    pub fn waiting(&self, moment: Moment) -> Option<Waiting> {
        let totals = self.totals_at(moment);
        let bytes = totals.active_bytes.saturating_sub(totals.allocated_bytes);
        if bytes < (totals.active_bytes / LEAST).max(1) {
            return None;
        }
        let groups = self.pending_at(moment);
        let Group { site, bytes: site_bytes, .. } = groups.first()?.clone();
        let n_blocks = groups.iter().map(|group| group.n_blocks).sum();
        Some(Waiting { site, bytes, n_blocks, site_bytes, is_of_host: self.device() == DeviceId::HOST })
    }
}

impl SiteFinding for Waiting {
    fn finding(&self, by: &str) -> String {
        let blocks = if self.n_blocks == 1 { "block" } else { "blocks" };
        let by = match self.site_bytes {
            all if all == self.bytes => format!("allocated by {by}"),
            most => format!("{} of it allocated by {by}", Bytes(most)),
        };
        let what = if self.is_of_host { "events" } else { "a stream" };
        format!("{} in {} {blocks}, {by}, is freed and waits for {what}", Bytes(self.bytes), self.n_blocks)
    }

    fn advice(&self) -> Option<&'static str> {
        Some(match self.is_of_host {
            true => {
                "it can be reused when the copies that use it are done (torch.cuda.synchronize()); PyTorch \
                 checks the events in order, so an unfinished one keeps the memory of those after it \
                 (pytorch#183501)"
            }
            false => {
                "it can be reused when the streams of Tensor.record_stream are done: synchronise them \
                 earlier, or free it on the stream that allocated it"
            }
        })
    }
}

impl AtSite for Waiting {
    fn site(&self) -> Option<&Site> {
        Some(&self.site)
    }
}
