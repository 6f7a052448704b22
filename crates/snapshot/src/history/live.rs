//! The blocks in use at one point of a walk: a map sorted by address, for a trace whose addresses are all known.
//!
//! A walk needs the neighbour of a block at every event. A B-tree of twenty thousand blocks costs four cache misses,
//! three times an event. With the addresses numbered beforehand, a neighbour is found with a few bits of a bitmap.

use std::cell::Cell;

use super::ranges::Span;
use crate::words::{Address, SeededMap};

/// The addresses that a walk can meet, numbered in their order.
#[derive(Debug)]
pub struct Places {
    addresses: Vec<Address>,
    numbers: SeededMap<Address, u32>,
}

impl Places {
    /// Numbers addresses; each may be given any number of times.
    ///
    /// # Panics
    /// Beyond 2^32 addresses, which no trace in memory has.
    pub fn new(addresses: impl IntoIterator<Item = Address>) -> Places {
        let mut numbers = SeededMap::default();
        let mut last = None;
        for address in addresses {
            // Events of one block often follow each other.
            if last != Some(address) {
                numbers.insert(address, 0);
                last = Some(address);
            }
        }
        let mut addresses: Vec<Address> = numbers.keys().copied().collect();
        addresses.sort_unstable();
        for (number, address) in addresses.iter().enumerate() {
            numbers.insert(*address, u32::try_from(number).expect("fewer addresses than bytes of memory"));
        }
        Places { addresses, numbers }
    }

    /// The number of addresses below `address`. The search begins at the number `from`, whose address is
    /// not above it.
    fn n_below(&self, from: usize, address: Address) -> usize {
        let (mut low, mut step) = (from, 1);
        while self.addresses.get(low + step).is_some_and(|other| *other < address) {
            low += step;
            step *= 2;
        }
        let high = (low + step).min(self.addresses.len());
        low + self.addresses[low..high].partition_point(|other| *other < address)
    }
}

/// No number.
const NONE: u32 = u32::MAX;

/// A value that covers a range of addresses.
pub trait Extent: Copy {
    /// The first address past it.
    fn end(&self) -> Address;
}

impl<T: Copy> Extent for Span<T> {
    fn end(&self) -> Address {
        self.end
    }
}

/// Values by address. The addresses are among those of [`Places`].
#[derive(Debug)]
pub struct Live<'a, T> {
    places: &'a Places,
    /// By the number of the address: where its value is.
    slots: Vec<u32>,
    values: Vec<T>,
    free: Vec<u32>,
    /// A bit for each address that has a value.
    bits: Vec<u64>,
    /// A bit for each word of those that is not 0.
    words: Vec<u64>,
    /// The last address that was looked up, with its number.
    recent: Cell<(Address, u32)>,
}

impl<'a, T: Copy> Live<'a, T> {
    /// Creates a table without blocks.
    pub fn new(places: &'a Places) -> Self {
        let n_words = places.addresses.len().div_ceil(64);
        Live {
            places,
            slots: vec![NONE; places.addresses.len()],
            values: Vec::new(),
            free: Vec::new(),
            bits: vec![0; n_words],
            words: vec![0; n_words.div_ceil(64)],
            recent: Cell::new((Address(0), NONE)),
        }
    }

    #[inline]
    fn number(&self, address: Address) -> Option<usize> {
        let (recent, number) = self.recent.get();
        if recent == address && number != NONE {
            return Some(number as usize);
        }
        let number = *self.places.numbers.get(&address)?;
        self.recent.set((address, number));
        Some(number as usize)
    }

    #[inline]
    fn slot(&self, address: Address) -> Option<usize> {
        let slot = self.slots[self.number(address)?];
        (slot != NONE).then_some(slot as usize)
    }

    /// Returns the value of a block, if there is one.
    pub fn get(&self, address: Address) -> Option<&T> {
        self.slot(address).map(|slot| &self.values[slot])
    }

    /// Returns the value of a block for changes, if there is one.
    pub fn get_mut(&mut self, address: Address) -> Option<&mut T> {
        self.slot(address).map(|slot| &mut self.values[slot])
    }

    /// Inserts a value and returns the one that was there.
    ///
    /// # Panics
    /// If the address is not among the places.
    pub fn insert(&mut self, address: Address, value: T) -> Option<T> {
        let number = self.number(address).expect("the places have every address of the trace");
        if let Some(slot) = self.slot(address) {
            return Some(std::mem::replace(&mut self.values[slot], value));
        }
        let slot = match self.free.pop() {
            Some(slot) => {
                self.values[slot as usize] = value;
                slot
            }
            None => {
                self.values.push(value);
                u32::try_from(self.values.len() - 1).expect("fewer values than places")
            }
        };
        self.slots[number] = slot;
        self.bits[number / 64] |= 1 << (number % 64);
        self.words[number / 4096] |= 1 << (number / 64 % 64);
        None
    }

    /// Removes a block, and returns its value.
    pub fn remove(&mut self, address: Address) -> Option<T> {
        let number = self.number(address)?;
        let slot = std::mem::replace(&mut self.slots[number], NONE);
        if slot == NONE {
            return None;
        }
        self.free.push(slot);
        self.bits[number / 64] &= !(1 << (number % 64));
        if self.bits[number / 64] == 0 {
            self.words[number / 4096] &= !(1 << (number / 64 % 64));
        }
        Some(self.values[slot as usize])
    }

    /// The last value whose address is below `end`. The search is fast where `start` is one of the places
    /// and not above `end`.
    pub fn last_below(&self, start: Address, end: Address) -> Option<(Address, &T)> {
        let from = self.number(start).filter(|_| start <= end).unwrap_or(0);
        let number = self.last_bit_below(self.places.n_below(from, end))?;
        Some((self.places.addresses[number], &self.values[self.slots[number] as usize]))
    }

    fn last_bit_below(&self, end: usize) -> Option<usize> {
        let last_of = |word: u64| 63 - word.leading_zeros() as usize;
        let below = |end: usize| (1u64 << (end % 64)) - 1;
        let word = end / 64;
        let rest = self.bits.get(word).map_or(0, |bits| bits & below(end));
        if rest != 0 {
            return Some(word * 64 + last_of(rest));
        }
        let rest = self.words.get(word / 64).map_or(0, |words| words & below(word));
        let word = match rest {
            0 => {
                let group =
                    self.words[..(word / 64).min(self.words.len())].iter().rposition(|words| *words != 0)?;
                group * 64 + last_of(self.words[group])
            }
            rest => word / 64 * 64 + last_of(rest),
        };
        Some(word * 64 + last_of(self.bits[word]))
    }

    /// Every value, by rising address.
    pub fn iter(&self) -> impl Iterator<Item = (Address, &T)> {
        let all = self.places.addresses.iter().zip(&self.slots).filter(|(_, slot)| **slot != NONE);
        all.map(|(address, slot)| (*address, &self.values[*slot as usize]))
    }
}

impl<T: Extent> Live<'_, T> {
    /// The last value that shares a byte with `[start, end)`, with its address.
    pub fn overlapping(&self, start: Address, end: Address) -> Option<(Address, T)> {
        let (address, value) = self.last_below(start, end)?;
        (value.end() > start && end > start).then_some((address, *value))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use fastrand::Rng;

    /// The B-tree is the oracle.
    #[test]
    fn it_is_a_sorted_map() {
        let mut random = Rng::with_seed(1);
        let mut below = |limit: u64| random.u64(..limit);
        for n_places in [1, 2, 63, 64, 65, 1000, 10_000] {
            let places: Vec<Address> = (0..n_places).map(|_| Address(below(1 << 20) * 512)).collect();
            let numbered = Places::new(places.iter().copied());
            let (mut live, mut oracle) = (Live::new(&numbered), BTreeMap::new());
            let mut n_found = 0;
            for step in 0..20_000u64 {
                let address = places[usize::try_from(below(n_places)).unwrap()];
                match below(5) {
                    // Mostly few are in use, in turn with many.
                    0 | 1 if step / 1000 % 2 == 0 || below(8) == 0 => {
                        assert_eq!(live.insert(address, step), oracle.insert(address, step));
                    }
                    0..3 => assert_eq!(live.remove(address), oracle.remove(&address)),
                    3 => {
                        assert_eq!(live.get(address), oracle.get(&address));
                        assert_eq!(live.get_mut(address), oracle.get_mut(&address));
                    }
                    _ => {
                        let end =
                            address.offset([0, 1, 512, 1 << 20, 1 << 30][usize::try_from(below(5)).unwrap()]);
                        let start = [address, Address(7), end.offset(1)][usize::try_from(below(3)).unwrap()];
                        let found = live.last_below(start, end).map(|(at, value)| (at, *value));
                        assert_eq!(found, oracle.range(..end).next_back().map(|(at, value)| (*at, *value)));
                        n_found += usize::from(found.is_some());
                    }
                }
            }
            assert!(live.iter().eq(oracle.iter().map(|(at, value)| (*at, value))));
            assert!(n_found > 100, "{n_found} of {n_places}");
        }
        let none = Places::new([]);
        assert_eq!(Live::<u8>::new(&none).last_below(Address(0), Address(u64::MAX)), None);
    }
}
