//! Searches for the free block that satisfies a request (`docs/caching-allocator.md` 2.3).
#![forbid(unsafe_code)]

use super::{
    core::{Core, Request},
    ids::BlockId,
    settings::Settings,
};

impl Core {
    /// Removes the best free block for a request from its pool and returns it.
    #[inline]
    pub(super) fn take_best_fit(&mut self, request: &Request) -> Option<BlockId> {
        if self.ages_count() {
            self.pools[request.pool].n_searches += 1;
        }
        self.search(request)
    }

    /// Searches like [`Core::take_best_fit`], but does not count the search again.
    #[inline]
    pub(super) fn search(&mut self, request: &Request) -> Option<BlockId> {
        // Later blocks matter only if the first is a piece of an expandable segment.
        let (blocks, settings) = (&self.blocks, &self.settings);
        let serves = |id: BlockId| {
            let block = &blocks[id];
            block.range.is_none() && may_serve(block.bytes, request, settings)
        };
        let pool = &mut self.pools[request.pool];
        pool.take_best_fit(request.stream, request.rounded_bytes, serves)
            .or_else(|| self.take_best_fit_beyond(request))
    }

    /// The slow path: no block fits, or the first one is expandable or may not be used.
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
        // An expandable block is skipped if the next one, including the unmapped space after it, is smaller: that keeps
        // large space together.
        let mut best = fitting.next()?;
        for next in fitting {
            if self.blocks[best].range.is_none() || self.extended_bytes(next) >= self.extended_bytes(best) {
                break;
            }
            best = next;
        }
        Some(best)
    }

    /// Returns a block's size plus that of the unmapped neighbour it could grow into.
    fn extended_bytes(&self, id: BlockId) -> u64 {
        let block = &self.blocks[id];
        let room = block.next.map(|next| &self.blocks[next]).filter(|next| !next.is_mapped);
        block.bytes + room.map_or(0, |next| next.bytes)
    }

    /// Returns true if garbage collection is on, which needs the ages of free blocks.
    pub(super) fn ages_count(&self) -> bool {
        self.settings.garbage_collection_threshold > 0.0 && self.supply.allowed_bytes().is_some()
    }
}

/// Returns true if a block may satisfy a request: oversize blocks are only for oversize requests that nearly fill them.
/// If the best block may not, the search ends without trying others.
#[inline]
fn may_serve(bytes: u64, request: &Request, settings: &Settings) -> bool {
    if settings.is_splittable(request.rounded_bytes) {
        return settings.is_splittable(bytes);
    }
    bytes < request.rounded_bytes.saturating_add(settings.max_non_split_rounding_bytes)
}
