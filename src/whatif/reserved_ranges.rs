//! Infers the address ranges that are reserved for expandable segments from what is mapped in them.
//!
//! A file does not contain them. Each stream, kind of pool and private pool has its own range, usually one. A range is
//! mapped from its base on, so a later mapping starts at or below the end of all earlier ones.

use std::{
    collections::BTreeMap,
    ops::Bound::{Excluded, Unbounded},
};

use super::held::{Held, Key};
use memreel_snapshot::{
    history::{Ranges, Span},
    words::{
        Address,
        torch::{LARGE_SEGMENT_BYTES, SMALL_SEGMENT_BYTES},
    },
};

/// A reserved range, without its key and its base.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Reserved {
    /// The end of what is mapped when the history starts; `None` if the range is reserved later.
    end_at_start: Option<Address>,
    /// The end of all that was ever mapped.
    high: Address,
    mapped_bytes: u64,
    /// The bytes to the next range.
    room_bytes: u64,
}

/// A range that is reserved when the history starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct EarlyRange {
    pub(super) key: Key,
    pub(super) base: Address,
    /// The end of what is mapped at that time.
    pub(super) end: Address,
    /// The distance to the nearest higher range that is reserved at the same time, in bytes.
    pub(super) room_bytes: u64,
}

/// The ranges of a history.
#[derive(Debug)]
pub(super) struct ReservedRanges {
    /// The ranges that are reserved now, by key and base.
    now: BTreeMap<(Key, Address), Reserved>,
    /// Their keys by base.
    bases: BTreeMap<Address, Key>,
    /// The early ranges that were released.
    ended: Vec<EarlyRange>,
    /// Mapped stretches of one key that are further apart are in different ranges.
    span_bytes: u64,
    /// The smallest distance between two ranges that are reserved at the same time.
    least_gap_bytes: Option<u64>,
}

impl ReservedRanges {
    /// Finds the ranges that are reserved when the history starts. A range is an eighth larger than its device, which
    /// holds at least `peak_bytes`.
    pub(super) fn new(held: &Ranges<Held>, peak_bytes: u64) -> ReservedRanges {
        let mut found = ReservedRanges {
            now: BTreeMap::new(),
            bases: BTreeMap::new(),
            ended: Vec::new(),
            span_bytes: peak_bytes.saturating_add(peak_bytes / 8),
            least_gap_bytes: None,
        };
        for (start, Span { end, value }) in held.iter().filter(|(_, span)| span.value.is_expandable) {
            let last = found.bases.last_key_value().map(|(base, key)| (*key, *base));
            let last = last.filter(|(key, base)| *key == value.key && start - *base < found.span_bytes);
            match last.and_then(|last| found.now.get_mut(&last)) {
                Some(range) => {
                    (range.end_at_start, range.high) = (Some(end), end);
                    range.mapped_bytes += end - start;
                }
                None => found.insert(value.key, start, Some(end), Reserved::new(start, end)),
            }
        }
        found
    }

    fn insert(&mut self, key: Key, base: Address, end_at_start: Option<Address>, range: Reserved) {
        let mut range = Reserved { end_at_start, room_bytes: u64::MAX - base.0, ..range };
        let below = self.bases.range(..base).next_back().map(|(base, key)| (*key, *base));
        if let Some(below) = below {
            let gap_bytes = base - below.1;
            self.note_gap(gap_bytes);
            if let Some(below) = self.now.get_mut(&below) {
                below.room_bytes = below.room_bytes.min(gap_bytes);
            }
        }
        if let Some(above) = self.base_above(base) {
            range.room_bytes = above.1 - base;
            self.note_gap(range.room_bytes);
        }
        self.now.insert((key, base), range);
        self.bases.insert(base, key);
    }

    fn note_gap(&mut self, bytes: u64) {
        self.least_gap_bytes = Some(self.least_gap_bytes.map_or(bytes, |least| least.min(bytes)));
    }

    fn base_above(&self, address: Address) -> Option<(Key, Address)> {
        self.bases.range((Excluded(address), Unbounded)).next().map(|(base, key)| (*key, *base))
    }

    /// Returns the range of a key that contains an address, or whose mapped part ended there.
    fn range_at(&mut self, key: Key, address: Address) -> Option<(Address, &mut Reserved)> {
        let ((of, base), range) = self.now.range_mut(..=(key, address)).next_back()?;
        (*of == key && address <= range.high).then_some((*base, range))
    }

    /// Records that pages are mapped.
    pub(super) fn map(&mut self, key: Key, start: Address, end: Address) {
        if let Some((_, range)) = self.range_at(key, start) {
            range.high = range.high.max(end);
            range.mapped_bytes = range.mapped_bytes.saturating_add(end - start);
            return;
        }
        let above = self.base_above(start).filter(|(of, base)| *of == key && *base - start < self.span_bytes);
        // The pages at the base of a range above were unmapped before the history started, or this is a new range.
        let known = above.and_then(|above| {
            self.bases.remove(&above.1);
            self.now.remove(&above)
        });
        let mut range = known.unwrap_or(Reserved { mapped_bytes: 0, ..Reserved::new(start, end) });
        range.mapped_bytes = range.mapped_bytes.saturating_add(end - start);
        self.insert(key, start, range.end_at_start, range);
    }

    /// Records that pages are unmapped. A range without pages is released.
    pub(super) fn unmap(&mut self, key: Key, start: Address, end: Address) {
        let Some((base, range)) = self.range_at(key, start) else { return };
        range.mapped_bytes = range.mapped_bytes.saturating_sub(end - start);
        if range.mapped_bytes == 0 {
            let range = *range;
            self.now.remove(&(key, base));
            self.bases.remove(&base);
            self.ended.extend(EarlyRange::new(key, base, range));
        }
    }

    /// Returns the ranges that are reserved when the history starts.
    pub(super) fn early(&self) -> impl Iterator<Item = EarlyRange> {
        let now = self.now.iter().filter_map(|((key, base), range)| EarlyRange::new(*key, *base, *range));
        self.ended.iter().copied().chain(now)
    }

    /// Returns the size of the largest device on which the ranges do not overlap; `None` if they do not limit it. A
    /// range is an eighth larger than its device, in whole pages, so the two closest ranges limit the device's size.
    /// The device held all that was reserved at the peak.
    pub(super) fn total_bytes(&self) -> Option<u64> {
        let pages = self.least_gap_bytes?.saturating_sub(LARGE_SEGMENT_BYTES);
        let total_bytes = pages / 9 * 8 / SMALL_SEGMENT_BYTES * SMALL_SEGMENT_BYTES;
        Some(total_bytes.max(self.span_bytes).max(SMALL_SEGMENT_BYTES))
    }
}

impl Reserved {
    /// Returns a range that is mapped between two addresses.
    fn new(start: Address, end: Address) -> Reserved {
        Reserved { end_at_start: None, high: end, mapped_bytes: end - start, room_bytes: 0 }
    }
}

impl EarlyRange {
    fn new(key: Key, base: Address, range: Reserved) -> Option<EarlyRange> {
        Some(EarlyRange { key, base, end: range.end_at_start?, room_bytes: range.room_bytes })
    }
}
