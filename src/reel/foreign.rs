//! Reports from allocators other than the reel's: their bytes, for triggers, and the requests that they refused.
#![forbid(unsafe_code)]

use super::{Builder, Reel, Shared, verdict};
use crate::trigger::Levels;
use memreel_snapshot::words::{Bytes, Inventory, InventorySegment, OutOfMemory, Refusal};

impl Reel {
    /// Finds out why another allocator refused a request, and writes the snapshots that are due at a failed request.
    /// Returns the figures, with the verdict.
    ///
    /// Report the refusal first (`Ledger::oom`). `inventory` is the allocator, which is
    /// inspected; hold none of its locks. Of requests that write no snapshot, one per second is explained.
    ///
    /// ```
    /// use memreel::{Address, Reel, StreamId, integrate::Refusal, recorder::Recording};
    ///
    /// let reel = Reel::builder().history(Recording::all()).build()?;
    /// let ledger = reel.recorder().ledger(1);
    /// ledger.alloc(Address(0x1000), 3 << 30, StreamId::DEFAULT)?;
    /// let refusal =
    ///     Refusal { bytes: 2 << 30, device_free_bytes: 1 << 30, device_total_bytes: 4 << 30, ..Refusal::default() };
    /// ledger.oom(refusal);
    /// let figures = reel.refused(&ledger, refusal);
    /// assert_eq!(figures.allocated_bytes, 3 << 30);
    /// assert!(figures.verdict.unwrap().text.starts_with("full: 3.00 GiB is in use and 2.00 GiB was requested"));
    /// # Ok::<(), memreel::Error>(())
    /// ```
    pub fn refused(&self, inventory: &dyn Inventory, refusal: Refusal) -> OutOfMemory {
        let mut seen = Seen::default();
        inventory.inspect(&mut |segments| seen = Seen::of(segments));
        let mut figures = OutOfMemory::new(inventory.device());
        figures.requested_bytes = refusal.bytes;
        figures.rounded_bytes = refusal.bytes;
        figures.segment_bytes = refusal.bytes;
        figures.stream = refusal.stream;
        figures.device_total_bytes = refusal.device_total_bytes;
        figures.device_free_bytes = refusal.device_free_bytes;
        figures.allocated_bytes = seen.allocated_bytes;
        figures.reserved_bytes = seen.reserved_bytes;
        let explain = |shared: &Shared, figures: &OutOfMemory| {
            verdict::verdict(&shared.recorder, inventory, seen.n_blocks, figures)
        };
        self.shared.explain(&mut figures, &explain);
        figures
    }
}

impl Builder {
    /// Adds the bytes of other allocators to those that triggers watch. Default: only the reel's own.
    ///
    /// `watch` is called by memreel's thread, 100 times a second if triggers watch bytes.
    pub fn watch_with(mut self, watch: impl Fn() -> Levels + Send + Sync + 'static) -> Builder {
        self.watch_with = Some(Box::new(watch));
        self
    }
}

/// The result of an inspection.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    allocated_bytes: u64,
    reserved_bytes: u64,
    /// The number of blocks and segments.
    n_blocks: usize,
}

impl Seen {
    fn of(segments: &[InventorySegment]) -> Seen {
        Seen {
            allocated_bytes: segments.iter().map(InventorySegment::active_bytes).sum::<Bytes>().0,
            reserved_bytes: segments.iter().map(|segment| segment.size_bytes).sum::<Bytes>().0,
            n_blocks: segments.iter().map(|segment| segment.blocks.len() + 1).sum(),
        }
    }
}
