//! Which free block serves a request (caching-allocator.md 2.3).
#![forbid(unsafe_code)]

use super::{
    heap::{Heap, Request},
    ids::BlockId,
    settings::Settings,
};

impl Heap {
    /// Takes the best free block out of its pool.
    #[inline]
    pub(super) fn take_best_fit(&mut self, request: &Request) -> Option<BlockId> {
        if self.ages_count() {
            self.pools[request.pool].n_searches += 1;
        }
        // Only beside expandable segments does the next one matter.
        let (blocks, settings) = (&self.blocks, &self.settings);
        let serves = |id: BlockId| {
            let block = &blocks[id];
            block.range.is_none() && may_serve(block.bytes, request, settings)
        };
        let pool = &mut self.pools[request.pool];
        pool.take_best_fit(request.stream, request.rounded_bytes, serves)
            .or_else(|| self.take_best_fit_beyond(request))
    }

    /// There is none, or the first is expandable or may not serve.
    #[inline(never)]
    fn take_best_fit_beyond(&mut self, request: &Request) -> Option<BlockId> {
        let id = self.best_fit(request)?;
        let block = &self.blocks[id];
        may_serve(block.bytes, request, &self.settings).then(|| {
            self.pools[request.pool].remove(id, block);
            id
        })
    }

    fn best_fit(&self, request: &Request) -> Option<BlockId> {
        let mut fitting = self.pools[request.pool].fitting(request.stream, request.rounded_bytes);
        if !request.is_expandable {
            return fitting.find(|id| self.blocks[*id].range.is_none());
        }
        // An expandable block gives way to the next one while that is the
        // smaller together with the room behind it: large room is kept.
        let mut best = fitting.next()?;
        for next in fitting {
            if self.blocks[best].range.is_none() || self.extended_bytes(next) >= self.extended_bytes(best) {
                break;
            }
            best = next;
        }
        Some(best)
    }

    /// Its size with that of the unmapped neighbour it could grow into.
    fn extended_bytes(&self, id: BlockId) -> u64 {
        let block = &self.blocks[id];
        let room = block.next.map(|next| &self.blocks[next]).filter(|next| !next.is_mapped);
        block.bytes + room.map_or(0, |next| next.bytes)
    }

    /// Whether free blocks grow old: only then are they given back for it.
    pub(super) fn ages_count(&self) -> bool {
        self.settings.garbage_collection_threshold > 0.0 && self.segments.allowed_bytes().is_some()
    }
}

/// Oversize blocks serve only oversize requests that nearly fill them.
/// One refusal ends the search: no other candidate is looked at.
#[inline]
fn may_serve(bytes: u64, request: &Request, settings: &Settings) -> bool {
    if settings.is_splittable(request.rounded_bytes) {
        return settings.is_splittable(bytes);
    }
    bytes < request.rounded_bytes.saturating_add(settings.max_non_split_rounding_bytes)
}
