//! Which free block serves a request (caching-allocator.md 2.3).
#![forbid(unsafe_code)]

use super::{
    block::BlockId,
    heap::{Heap, Request},
    pool::PoolIndex,
};

impl Heap {
    /// Takes the best free block out of its pool.
    pub(super) fn take_best_fit(&mut self, request: &Request) -> Option<BlockId> {
        if self.ages_count() {
            self.pools[request.pool].n_searches += 1;
        }
        let id = self.best_fit(request.pool, request).filter(|id| self.may_serve(*id, request))?;
        self.pools[request.pool].remove(id, &self.blocks[id]);
        Some(id)
    }

    fn best_fit(&self, pool: PoolIndex, request: &Request) -> Option<BlockId> {
        let best = self.pools[pool].best_fit(request.stream, request.rounded_bytes)?;
        // The next one matters only where there are expandable segments.
        if self.blocks[best].range.is_none() { Some(best) } else { self.best_fit_beyond(pool, request) }
    }

    /// The best fit when an expandable block is the first.
    fn best_fit_beyond(&self, pool: PoolIndex, request: &Request) -> Option<BlockId> {
        let mut fitting = self.pools[pool].fitting(request.stream, request.rounded_bytes);
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

    /// Oversize blocks serve only oversize requests that nearly fill them.
    /// One refusal ends the search: no other candidate is looked at.
    fn may_serve(&self, id: BlockId, request: &Request) -> bool {
        let bytes = self.blocks[id].bytes;
        if self.settings.is_splittable(request.rounded_bytes) {
            return self.settings.is_splittable(bytes);
        }
        bytes < request.rounded_bytes.saturating_add(self.settings.max_non_split_rounding_bytes)
    }

    /// Whether free blocks grow old: only then are they given back for it.
    pub(super) fn ages_count(&self) -> bool {
        self.settings.garbage_collection_threshold > 0.0 && self.segments.allowed_bytes().is_some()
    }
}
