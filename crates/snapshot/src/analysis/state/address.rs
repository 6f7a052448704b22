//! Who had an address: every block and every piece of device memory that covered it, in the order of the events.

use std::ops::Range;

use super::{device_history::DeviceHistory, pools::Pools, segments::SegmentRange};
use crate::{
    history::{Life, Moment},
    model::TraceEntry,
    words::{Action, Address, PoolId},
};

/// What happened at a range of addresses.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AddressHistory<'h> {
    /// The events, in order; what was there before the history comes first.
    pub events: Vec<AddressEvent<'h>>,
    /// The blocks that covered a byte of the range, in the order in which they start, each with its pool if that is
    /// known.
    pub owners: Vec<(&'h Life, Option<PoolId>)>,
    /// The ranges of device memory that are held at the moment in question and cover a byte of the range, by address.
    pub held: Vec<SegmentRange>,
    /// The private pools that have a part of the range at that moment. A captured graph reads and writes in its pool whenever it
    /// is replayed, whether a block covers the address or not; a `MemPool` is the program's own ([`PoolOf`](crate::analysis::PoolOf)).
    pub private_pools: Vec<PoolId>,
}

/// An event at a range of addresses.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct AddressEvent<'h> {
    /// The moment right after the event; [`Moment::START`] for what was there before the history.
    pub moment: Moment,
    /// What happened.
    pub what: AddressChange<'h>,
}

/// What happened at a range of addresses.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum AddressChange<'h> {
    /// Device memory was held before the history.
    Held(SegmentRange),
    /// Memory came from the device or went back to it: `segment_alloc`, `segment_free`, `segment_map`, `segment_unmap`.
    Memory(&'h TraceEntry),
    /// A block was allocated, or existed before the history; the number is its place among the owners.
    Alloc(usize),
    /// The program freed it.
    FreeRequested(usize),
    /// The block was free.
    FreeCompleted(usize),
}

impl DeviceHistory<'_> {
    /// Returns every owner of a range of addresses over time, and what device memory it is part of at a moment. For a
    /// block that is free at the end, only the minimum size after rounding is known.
    ///
    /// ```
    /// use memreel::{Address, DeviceId, Reel, analysis::DeviceHistory, recorder::Recording};
    ///
    /// let reel = Reel::builder().history(Recording::all()).build()?;
    /// let address = reel.alloc(1000)?.address();
    /// let again = reel.alloc(500)?;
    /// let snapshot = reel.snapshot();
    /// let history = DeviceHistory::new(&snapshot, DeviceId(0));
    /// let found = history.at_address(address..Address(address.0 + 1), history.end());
    /// let sizes: Vec<u64> = found.owners.iter().map(|(life, _)| life.requested_bytes).collect();
    /// assert_eq!((sizes, again.address()), (vec![1000, 500], address));
    /// # Ok::<(), memreel::Error>(())
    /// ```
    #[must_use]
    pub fn at_address(&self, range: Range<Address>, moment: Moment) -> AddressHistory<'_> {
        let meets =
            |start: Address, bytes: u64| start < range.end && range.start < start.saturating_add(bytes);
        let of_range = |moment| {
            let held = self.segments_at(moment).into_iter();
            held.filter(|held| meets(held.address, held.bytes)).collect::<Vec<SegmentRange>>()
        };
        let mut lives: Vec<&Life> =
            self.lives().iter().filter(|life| meets(life.address, life.bytes)).collect();
        lives.sort_by_key(|life| (life.from, life.address));
        let mut events: Vec<AddressEvent<'_>> = of_range(Moment::START)
            .into_iter()
            .map(|held| AddressEvent { moment: Moment::START, what: AddressChange::Held(held) })
            .collect();
        for (number, entry) in self.entries().iter().enumerate() {
            if is_of_memory(entry) && meets(entry.address, entry.size) {
                events
                    .push(AddressEvent { moment: Moment::after(number), what: AddressChange::Memory(entry) });
            }
        }
        for (number, life) in lives.iter().enumerate() {
            // One event may be both the request and the completion.
            let requested = if life.requested < life.until { life.requested } else { Moment::NEVER };
            let changes = [
                (life.from, AddressChange::Alloc(number)),
                (requested, AddressChange::FreeRequested(number)),
                (life.until, AddressChange::FreeCompleted(number)),
            ];
            let known = changes.into_iter().filter(|(moment, _)| *moment != Moment::NEVER);
            events.extend(known.map(|(moment, what)| AddressEvent { moment, what }));
        }
        events.sort_by_key(|event| (event.moment, event.rank()));
        let held = of_range(moment);
        let pools = Pools::new(self);
        let mut private_pools: Vec<PoolId> =
            held.iter().filter_map(|held| held.pool).filter(|pool| *pool != PoolId::DEFAULT).collect();
        private_pools.sort_unstable();
        private_pools.dedup();
        let owners = lives.into_iter().map(|life| (life, pools.of(life))).collect();
        AddressHistory { events, owners, held, private_pools }
    }
}

impl AddressEvent<'_> {
    /// The order of events at one moment: one block ends before another starts, and a block that was freed before the
    /// history was in use before.
    fn rank(&self) -> u8 {
        match self.what {
            AddressChange::Held(_) | AddressChange::Memory(_) => 0,
            AddressChange::FreeCompleted(_) => 1,
            AddressChange::Alloc(_) => 2,
            AddressChange::FreeRequested(_) => 3,
        }
    }
}

fn is_of_memory(entry: &TraceEntry) -> bool {
    use Action::{SegmentAlloc, SegmentFree, SegmentMap, SegmentUnmap};
    matches!(entry.action, Some(SegmentAlloc | SegmentFree | SegmentMap | SegmentUnmap))
}
