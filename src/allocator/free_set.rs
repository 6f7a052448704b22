//! The free blocks of a pool, ordered by stream, size and address, in bins by size.
//!
//! A single ordered tree would take three walks from its root for each pair of an allocation and a free. Such a walk
//! mostly compares sizes, but the bin of a size can be computed: a search then reads two words of bits and the end of a
//! short list.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use super::{
    bin::{Bin, Free, key},
    ids::BlockId,
};
use memreel_snapshot::words::{Address, StreamId, torch::BLOCK_BYTES};

/// The number of bins per doubling of sizes. Sizes below twice this number of 512-byte granules have one bin each.
const BINS_A_ROW: u32 = 32;
/// The number of rows, one per bit of `u64`.
const N_ROWS: usize = 64;

/// The free blocks of a pool.
#[derive(Debug, Default)]
pub(super) struct FreeSet {
    streams: Vec<(StreamId, Rows)>,
    /// The index of each stream in `streams`.
    order: BTreeMap<StreamId, usize>,
    /// The stream that changed last. Most programs use one stream for a long time.
    last: usize,
    /// The number of streams at which those without a block are removed.
    n_tidy: usize,
}

impl FreeSet {
    #[inline]
    fn place(&self, stream: StreamId) -> Option<usize> {
        match self.streams.get(self.last) {
            Some((last, _)) if *last == stream => Some(self.last),
            _ => self.order.get(&stream).copied(),
        }
    }

    fn rows(&self, stream: StreamId) -> Option<&Rows> {
        self.place(stream).map(|place| &self.streams[place].1)
    }

    /// Inserts a block; returns false if it was there already.
    #[inline(always)]
    pub(super) fn insert(&mut self, stream: StreamId, bytes: u64, address: Address, id: BlockId) -> bool {
        self.last = self.place(stream).unwrap_or_else(|| self.begin(stream));
        self.streams[self.last].1.insert(Free { bytes, address, id })
    }

    /// Adds a stream. Bins of a stream without blocks are kept for its next block, but removed once there are twice as
    /// many streams as were in use.
    #[cold]
    fn begin(&mut self, stream: StreamId) -> usize {
        if self.streams.len() >= self.n_tidy {
            self.streams.retain(|(_, rows)| rows.occupied != 0);
            self.n_tidy = 2 * self.streams.len() + 8;
            self.order =
                self.streams.iter().enumerate().map(|(place, (stream, _))| (*stream, place)).collect();
        }
        let place = self.streams.len();
        self.streams.push((stream, Rows::default()));
        self.order.insert(stream, place);
        place
    }

    /// Removes a block; returns false if it was not there.
    #[inline]
    pub(super) fn remove(&mut self, stream: StreamId, bytes: u64, address: Address) -> bool {
        let Some(place) = self.place(stream) else { return false };
        self.last = place;
        self.streams[place].1.remove(bytes, address)
    }

    /// Removes and returns the first block of [`FreeSet::fitting`] if `serves` accepts it.
    #[inline]
    pub(super) fn take_best_fit(
        &mut self,
        stream: StreamId,
        bytes: u64,
        serves: impl FnOnce(BlockId) -> bool,
    ) -> Option<BlockId> {
        self.last = self.place(stream)?;
        self.streams[self.last].1.take_first_from(bytes, serves)
    }

    /// Iterates over a stream's blocks of at least `bytes` bytes, in order.
    pub(super) fn fitting(&self, stream: StreamId, bytes: u64) -> impl Iterator<Item = BlockId> {
        self.rows(stream).into_iter().flat_map(move |rows| rows.from(bytes))
    }

    /// Iterates over a stream's blocks below `bytes` bytes, in reverse order.
    pub(super) fn below(&self, stream: StreamId, bytes: u64) -> impl Iterator<Item = BlockId> {
        self.rows(stream).into_iter().flat_map(move |rows| rows.below(bytes))
    }

    /// Iterates over all blocks, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = BlockId> {
        self.order.values().flat_map(|place| self.streams[*place].1.from(0))
    }
}

/// The free blocks of one stream.
#[derive(Debug)]
struct Rows {
    /// A bit for each row that has a block.
    occupied: u64,
    /// The first row has sizes below 32 granules, each further row one
    /// doubling. The largest `u64` is in row 50.
    rows: [Option<Box<Row>>; N_ROWS],
}

impl Default for Rows {
    fn default() -> Rows {
        Rows { occupied: 0, rows: [const { None }; N_ROWS] }
    }
}

#[derive(Debug, Default)]
struct Row {
    /// A bit for each bin that has a block.
    occupied: u32,
    bins: [Bin; BINS_A_ROW as usize],
}

/// Returns the row and the bin of a size. Larger sizes are never in earlier bins.
#[inline]
fn place_of(bytes: u64) -> (usize, usize) {
    let granules = bytes / BLOCK_BYTES;
    let per_row = u64::from(BINS_A_ROW);
    if granules < per_row {
        return (0, granules as usize);
    }
    let doublings = granules.ilog2() - BINS_A_ROW.ilog2();
    ((doublings as usize + 1) % N_ROWS, (granules >> doublings) as usize % BINS_A_ROW as usize)
}

impl Row {
    /// Marks a bin as empty. Returns the bit of the row at `place` if all its bins are empty, else 0.
    #[inline]
    fn vacate(&mut self, bin: usize, place: usize) -> u64 {
        self.occupied &= !(1 << bin);
        u64::from(self.occupied == 0) << place
    }
}

#[cold]
fn make_row(none: &mut Option<Box<Row>>) -> &mut Row {
    none.get_or_insert_default()
}

impl Rows {
    #[inline(always)]
    fn insert(&mut self, free: Free) -> bool {
        let (place, bin) = place_of(free.bytes);
        let row = match &mut self.rows[place] {
            Some(row) => row,
            none => make_row(none),
        };
        self.occupied |= 1 << place;
        row.occupied |= 1 << bin;
        row.bins[bin].insert(free)
    }

    #[inline]
    fn remove(&mut self, bytes: u64, address: Address) -> bool {
        let (place, bin) = place_of(bytes);
        let Some(row) = &mut self.rows[place] else { return false };
        let was_there = row.bins[bin].remove(key(bytes, address));
        if row.bins[bin].is_empty() {
            self.occupied &= !row.vacate(bin, place);
        }
        was_there
    }

    /// Removes and returns the first block of at least `bytes` bytes if `serves` accepts it.
    #[inline]
    fn take_first_from(&mut self, bytes: u64, serves: impl FnOnce(BlockId) -> bool) -> Option<BlockId> {
        let (place, bin) = place_of(bytes);
        let (place, bin) = self.first_occupied(place, !0 << bin)?;
        // Usually all blocks of the bin are large enough, so the first is the best.
        if let Some(row) = &mut self.rows[place]
            && let Bin::List(list) = &mut row.bins[bin]
            && let Some(first) = list.last()
            && first.bytes >= bytes
        {
            let id = first.id;
            if !serves(id) {
                return None;
            }
            list.pop();
            if list.is_empty() {
                self.occupied &= !row.vacate(bin, place);
            }
            return Some(id);
        }
        let first = self.first_from(bytes, Address(0)).filter(|first| serves(first.id))?;
        self.remove(first.bytes, first.address);
        Some(first.id)
    }

    /// Returns the first occupied bin, among `bins` of a row or in a later row.
    #[inline]
    fn first_occupied(&self, place: usize, bins: u32) -> Option<(usize, usize)> {
        let first_of = |bins: u32| bins.trailing_zeros() as usize % BINS_A_ROW as usize;
        let here = self.rows[place].as_ref().map_or(0, |row| row.occupied & bins);
        if here != 0 {
            return Some((place, first_of(here)));
        }
        let behind = self.occupied & (!1 << place);
        let place = behind.trailing_zeros() as usize % N_ROWS;
        let row = self.rows[place].as_ref()?;
        (behind != 0).then_some((place, first_of(row.occupied)))
    }

    /// Iterates over the blocks of at least `bytes` bytes, in order.
    fn from(&self, bytes: u64) -> impl Iterator<Item = BlockId> {
        let first = self.first_from(bytes, Address(0));
        let next = |free: &Free| self.first_from(free.bytes, Address(free.address.0.checked_add(1)?));
        std::iter::successors(first, next).map(|free| free.id)
    }

    /// Iterates over the blocks below `bytes` bytes, in reverse order.
    fn below(&self, bytes: u64) -> impl Iterator<Item = BlockId> {
        let last = self.last_below(bytes, Address(0));
        std::iter::successors(last, |free| self.last_below(free.bytes, free.address)).map(|free| free.id)
    }

    /// Returns the first block at or after a size and address.
    #[inline(never)]
    fn first_from(&self, bytes: u64, address: Address) -> Option<Free> {
        let (place, bin) = place_of(bytes);
        let here = self.rows[place].as_ref().and_then(|row| row.bins[bin].first_from(key(bytes, address)));
        here.or_else(|| {
            let (place, bin) = self.first_occupied(place, !1 << bin)?;
            self.rows[place].as_ref()?.bins[bin].first()
        })
    }

    /// Returns the last block before a size and address.
    fn last_below(&self, bytes: u64, address: Address) -> Option<Free> {
        let (place, bin) = place_of(bytes);
        if let Some(row) = &self.rows[place] {
            let here = row.bins[bin].last_below(key(bytes, address));
            let before = row.occupied & !(!0 << bin);
            if here.is_some() || before != 0 {
                return here.or_else(|| row.bins[before.ilog2() as usize].last());
            }
        }
        let before = (self.occupied & !(!0 << place)).checked_ilog2()?;
        let row = self.rows[before as usize].as_ref()?;
        row.bins[row.occupied.checked_ilog2()? as usize].last()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::btree_map::Entry;

    use super::*;
    use crate::process::testing::random::Random;

    /// Returns sizes that share a bin, are in neighbouring bins, and are far apart.
    fn sizes() -> Vec<u64> {
        let near = (0..24).map(|n| 512 * (1 + n * 11));
        let far = (16..60).flat_map(|n| [1 << n, (1 << n) + 512, (1 << n) - 512]);
        near.chain(far).collect()
    }

    /// The oracle is a map ordered by everything that determines the order.
    #[test]
    fn the_order_is_stream_size_address() {
        let (sizes, mut random) = (sizes(), Random::new(1));
        let mut draw = |n: usize| random.index(n);
        let (mut set, mut oracle) = (FreeSet::default(), BTreeMap::new());
        for step in 0..60_000 {
            // Phases with few and with many sizes alternate, so that bins become trees and lists again.
            let n_sizes = if step / 10_000 % 2 == 1 { 2 } else { sizes.len() };
            let (stream, bytes) = (StreamId([0, 7, -1][draw(3)]), sizes[draw(n_sizes)]);
            let address = Address(512 * (1 + draw(2_000) as u64));
            let own =
                |(key, id): (&(StreamId, u64, Address), &BlockId)| (key.0 == stream).then_some((*key, *id));
            match draw(6) {
                0..=2 => {
                    let id = BlockId::from_index(step + 1);
                    if let Entry::Vacant(vacant) = oracle.entry((stream, bytes, address)) {
                        vacant.insert(id);
                        assert!(set.insert(stream, bytes, address, id));
                    }
                }
                3 | 4 => {
                    let was_there = oracle.remove(&(stream, bytes, address)).is_some();
                    assert_eq!(set.remove(stream, bytes, address), was_there);
                }
                _ => {
                    let best = oracle.range((stream, bytes, Address(0))..).map_while(own).next();
                    assert_eq!(set.take_best_fit(stream, bytes, |_| false), None);
                    let taken = set.take_best_fit(stream, bytes, |id| Some(id) == best.map(|(_, id)| id));
                    assert_eq!(taken, best.and_then(|(key, _)| oracle.remove(&key)));
                }
            }
            if step % 16 == 0 {
                let asked = sizes[draw(sizes.len())] - [0, 1][draw(2)];
                let least = (stream, asked, Address(0));
                let fitting = oracle.range(least..).map_while(own).map(|(_, id)| id).take(20);

                assert!(set.fitting(stream, asked).take(20).eq(fitting));
                let below = oracle.range(..least).rev().map_while(own).map(|(_, id)| id).take(20);
                assert!(set.below(stream, asked).take(20).eq(below));
            }
            if step % 5_000 == 4_999 {
                assert!(set.iter().eq(oracle.values().copied()));
            }
        }
    }

    #[test]
    fn streams_without_blocks_are_forgotten() {
        let mut set = FreeSet::default();
        set.insert(StreamId(0), 512, Address(512), BlockId::from_index(1));
        for stream in 1..10_000 {
            assert!(set.insert(StreamId(stream), 512, Address(1024), BlockId::from_index(2)));
            assert!(set.remove(StreamId(stream), 512, Address(1024)));
        }
        assert!(set.streams.len() < 12, "{}", set.streams.len());
        assert_eq!(set.fitting(StreamId(0), 512).next(), Some(BlockId::from_index(1)));
    }

    #[test]
    fn larger_sizes_have_later_bins() {
        let sizes: Vec<u64> =
            (0..64).flat_map(|n| [(1 << n) - 1, 1 << n, (1 << n) + (1 << n >> 1)]).collect();
        assert!(sizes.is_sorted_by_key(|bytes| place_of(*bytes)));
        assert_eq!(place_of(u64::MAX), (50, 31));
        assert_eq!(
            [place_of(63 * 512), place_of(64 * 512 - 1), place_of(64 * 512)],
            [(1, 31), (1, 31), (2, 0)]
        );
    }
}
