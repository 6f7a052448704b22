//! Address ranges that do not overlap, each with a value: segments at one point of a walk, or pieces of them.

use std::collections::BTreeMap;

use crate::words::Address;

/// A value of a [`Ranges`]; it decides whether neighbouring ranges become one.
pub trait RangeValue: Copy {
    /// Returns whether a range with this value and the range directly after it are one range. The value of the first is
    /// kept.
    fn joins(&self, _next: &Self) -> bool {
        false
    }
}

impl RangeValue for usize {}

/// A range without its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span<T> {
    /// The first address past it.
    pub end: Address,
    /// What the range has.
    pub value: T,
}

/// A map from address ranges to values. Ranges do not overlap and are not empty.
#[derive(Clone, Debug)]
pub struct Ranges<T>(BTreeMap<Address, Span<T>>);

impl<T> Default for Ranges<T> {
    fn default() -> Ranges<T> {
        Ranges(BTreeMap::new())
    }
}

impl<T: RangeValue> Ranges<T> {
    /// Every range with its address, by rising address.
    pub fn iter(&self) -> impl Iterator<Item = (Address, Span<T>)> {
        self.0.iter().map(|(start, span)| (*start, *span))
    }

    /// The range that begins at an address.
    pub fn get(&self, start: Address) -> Option<Span<T>> {
        self.0.get(&start).copied()
    }

    /// The range that an address is in.
    pub fn at(&self, address: Address) -> Option<(Address, Span<T>)> {
        let (start, span) = self.0.range(..=address).next_back()?;
        (span.end > address).then_some((*start, *span))
    }

    /// The range that covers all of `[start, end)`.
    pub fn covering(&self, start: Address, end: Address) -> Option<(Address, Span<T>)> {
        self.at(start).filter(|(_, span)| span.end >= end)
    }

    /// The last range that shares a byte with `[start, end)`.
    pub fn overlapping(&self, start: Address, end: Address) -> Option<(Address, Span<T>)> {
        let (other, span) = self.0.range(..end).next_back()?;
        (span.end > start && end > start).then_some((*other, *span))
    }

    /// Adds a range that overlaps no other and joins it with its neighbours where their values say so.
    pub fn insert(&mut self, start: Address, span: Span<T>) {
        let (mut start, mut span) = (start, span);
        let before = self.0.range(..start).next_back().map(|(at, before)| (*at, *before));
        let after = self.0.get(&span.end).copied().filter(|after| span.value.joins(&after.value));
        if let Some((at, before)) =
            before.filter(|(_, before)| before.end == start && before.value.joins(&span.value))
        {
            start = at;
            span.value = before.value;
        }
        if let Some(after) = after {
            self.0.remove(&span.end);
            span.end = after.end;
        }
        self.0.insert(start, span);
    }

    /// Adds a range that overlaps no other, and joins it to none.
    pub fn insert_apart(&mut self, start: Address, span: Span<T>) {
        self.0.insert(start, span);
    }

    /// Removes the range that begins at an address.
    pub fn remove(&mut self, start: Address) -> Option<Span<T>> {
        self.0.remove(&start)
    }

    /// Returns the first of the ranges that begin in `[start, end)`.
    pub fn first_beginning_in(&self, start: Address, end: Address) -> Option<(Address, Span<T>)> {
        self.beginning_in(start, end).next()
    }

    /// Returns the ranges that begin in `[start, end)`, by address.
    pub fn beginning_in(
        &self,
        start: Address,
        end: Address,
    ) -> impl DoubleEndedIterator<Item = (Address, Span<T>)> {
        self.0.range(start..end.max(start)).map(|(start, span)| (*start, *span))
    }

    /// Removes `[start, end)` from every range that covers a part of it.
    pub fn carve(&mut self, start: Address, end: Address) {
        while let Some((from, span)) = self.overlapping(start, end) {
            self.0.remove(&from);
            if from < start {
                self.0.insert(from, Span { end: start, ..span });
            }
            if end < span.end {
                self.0.insert(end, span);
            }
        }
    }
}

/// Ranges of which each address belongs to the one that was added first.
///
/// Neighbours are remembered as one covered range too, so that adding one range after the other on top of many takes
/// no walk over all of them.
#[derive(Clone, Debug)]
pub(crate) struct Layers<T> {
    ranges: Ranges<T>,
    covered: Ranges<Covered>,
}

/// The value of a range that ranges without gaps between them cover.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Covered;

impl RangeValue for Covered {
    fn joins(&self, _next: &Covered) -> bool {
        true
    }
}

impl<T> Default for Layers<T> {
    fn default() -> Layers<T> {
        Layers { ranges: Ranges::default(), covered: Ranges::default() }
    }
}

impl<T: RangeValue> Layers<T> {
    /// The range that contains an address.
    pub(crate) fn at(&self, address: Address) -> Option<(Address, Span<T>)> {
        self.ranges.at(address)
    }

    /// Adds what of a range no other range covers, in as many pieces as it takes.
    pub(crate) fn add(&mut self, start: Address, span: Span<T>) {
        let mut from = start;
        while from < span.end {
            let covered = self.covered.at(from).or_else(|| self.covered.first_beginning_in(from, span.end));
            let (gap_end, resume) = covered.map_or((span.end, span.end), |(at, covered)| (at, covered.end));
            if from < gap_end {
                self.ranges.insert_apart(from, Span { end: gap_end, ..span });
                self.covered.insert(from, Span { end: gap_end, value: Covered });
            }
            from = resume;
        }
    }

    /// Removes every range that begins in `[start, end)`.
    pub(crate) fn remove_beginning_in(&mut self, start: Address, end: Address) {
        while let Some((at, span)) = self.ranges.first_beginning_in(start, end) {
            self.ranges.remove(at);
            self.covered.carve(at, span.end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fastrand::Rng;

    /// Every byte with the range it is in is the oracle.
    #[derive(Default)]
    struct Bytes(BTreeMap<u64, usize>);

    #[test]
    fn it_is_a_map_of_bytes() {
        let mut random = Rng::with_seed(7);
        for _ in 0..300 {
            let (mut ranges, mut bytes) = (Ranges::default(), Bytes::default());
            let (mut layers, mut first) = (Layers::default(), Bytes::default());
            for value in 0..12_usize {
                let start = random.u64(..40);
                let end = start + random.u64(..15);
                if random.u64(..3) == 0 {
                    ranges.carve(Address(start), Address(end));
                    bytes.0.retain(|at, _| !(start..end).contains(at));
                    // The pieces that begin in it.
                    let pieces: Vec<_> = layers.ranges.beginning_in(Address(start), Address(end)).collect();
                    for (from, piece) in pieces {
                        first.0.retain(|at, _| !(from.0..piece.end.0).contains(at));
                    }
                    layers.remove_beginning_in(Address(start), Address(end));
                } else {
                    ranges.carve(Address(start), Address(end));
                    if start < end {
                        ranges.insert(Address(start), Span { end: Address(end), value });
                    }
                    layers.add(Address(start), Span { end: Address(end), value });
                    (start..end).for_each(|at| {
                        bytes.0.insert(at, value);
                        first.0.entry(at).or_insert(value);
                    });
                }
                for address in 0..60 {
                    let found = ranges.at(Address(address)).map(|(_, span)| span.value);
                    assert_eq!(found, bytes.0.get(&address).copied(), "{address} in {ranges:?}");
                    let found = layers.at(Address(address)).map(|(_, span)| span.value);
                    assert_eq!(found, first.0.get(&address).copied(), "{address} in {layers:?}");
                    assert_eq!(found.is_some(), layers.covered.at(Address(address)).is_some());
                    let any = bytes.0.range(address..address + 4).next().is_some();
                    assert_eq!(ranges.overlapping(Address(address), Address(address + 4)).is_some(), any);
                }
            }
        }
    }

    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    struct Joined(u8);

    impl RangeValue for Joined {
        fn joins(&self, next: &Joined) -> bool {
            self == next
        }
    }

    #[test]
    fn neighbours_with_one_value_are_one_range() {
        let mut ranges = Ranges::default();
        for (start, end, value) in [(0, 2, 1), (4, 6, 1), (6, 8, 2), (2, 4, 1)] {
            ranges.insert(Address(start), Span { end: Address(end), value: Joined(value) });
        }
        let all: Vec<_> = ranges.iter().map(|(start, span)| (start.0, span.end.0, span.value.0)).collect();
        assert_eq!(all, [(0, 6, 1), (6, 8, 2)]);
        assert_eq!(ranges.covering(Address(1), Address(6)).map(|(start, _)| start), Some(Address(0)));
        assert_eq!(ranges.covering(Address(1), Address(7)), None);
        let inside: Vec<_> = ranges.beginning_in(Address(1), Address(7)).map(|(start, _)| start.0).collect();
        assert_eq!(inside, [6]);
    }
}
