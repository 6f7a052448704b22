//! A hash table of streams or pools with PyTorch's order of iteration.
//!
//! When frees wait for several streams, they complete in the order of a hash
//! table's slots, and the rest of the trace depends on that order; so do
//! private pools when the cache is emptied. The table is therefore part of the
//! rules (`docs/caching-allocator.md` 4.4, 5.1): open addressing, robin-hood
//! displacement, Fibonacci hashing, at most half full, overflow slots after the
//! last, no shrinking.
//!
//! PyTorch's table doubles whenever a key is too far from its own slot. Keys that
//! are chosen so that their hashes are equal would double it without bound. Here
//! a table grows only up to [`most_slots`]; then keys may be at any distance.
//! Handles of real streams do not reach that.
#![forbid(unsafe_code)]

use memreel_snapshot::words::{DeviceId, PoolId, StreamId};

/// 2^64 divided by the golden ratio.
const FIBONACCI: u64 = 11_400_714_819_323_198_485;
const LEAST_SLOTS: usize = 4;

/// Returns the number of slots, without the overflow, beyond which a table with `n_keys` keys does not grow. With few
/// keys, PyTorch's table has 2 to 64 slots per key, and more only for keys at unlucky distances.
fn most_slots(n_keys: usize) -> usize {
    4096.max(64 * n_keys)
}

/// A stream with the value that PyTorch hashes: device kind (CUDA is 1), device, and stream number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct StreamKey {
    pub(super) stream: StreamId,
    hash: u64,
}

impl StreamKey {
    pub(super) fn new(device: DeviceId, stream: StreamId, number: u64) -> StreamKey {
        let hash = 1 << 56 | device.0.cast_unsigned() << 48 | number & ((1 << 48) - 1);
        StreamKey { stream, hash }
    }
}

/// A key of a table, with its hash before the bits are spread.
pub(super) trait Hashed: Copy + PartialEq {
    fn hash(self) -> u64;
}

impl Hashed for StreamKey {
    fn hash(self) -> u64 {
        self.hash
    }
}

impl Hashed for PoolId {
    /// The half that is not zero.
    fn hash(self) -> u64 {
        if self.graph == 0 { self.user } else { self.graph }
    }
}

#[derive(Clone, Debug)]
struct Slot<K, V> {
    key: K,
    value: V,
    /// The distance from the slot of its hash.
    distance: usize,
}

/// A map that iterates in the order of its slots.
#[derive(Clone, Debug)]
pub(super) struct Table<K, V> {
    slots: Vec<Option<Slot<K, V>>>,
    /// The number of slots without the overflow; 0 or a power of two.
    n_main: usize,
    len: usize,
}

/// A map from streams.
pub(super) type StreamTable<V> = Table<StreamKey, V>;

/// A set of streams.
pub(super) type StreamSet = StreamTable<()>;

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        Table { slots: Vec::new(), n_main: 0, len: 0 }
    }
}

impl<K: Hashed, V> Table<K, V> {
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Iterates over the keys in the order of their slots.
    pub(super) fn keys(&self) -> impl Iterator<Item = K> {
        self.slots.iter().flatten().map(|slot| slot.key)
    }

    /// Returns the first key at or after a slot, with its slot.
    pub(super) fn at_or_after(&self, from: usize) -> Option<(usize, K)> {
        let rest = self.slots.get(from..)?;
        rest.iter().enumerate().find_map(|(i, slot)| Some((from + i, slot.as_ref()?.key)))
    }

    pub(super) fn get_mut(&mut self, key: K) -> Option<&mut V> {
        let place = self.find(key).ok()?;
        self.slots[place].as_mut().map(|slot| &mut slot.value)
    }

    /// Returns the value of a key, which is inserted if it is new.
    pub(super) fn entry(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        if self.find(key).is_err() {
            self.insert_new(Slot { key, value: make(), distance: 0 });
        }
        self.get_mut(key).expect("it was found or inserted")
    }

    /// Removes a key; displaced keys after it move up by one slot.
    pub(super) fn remove(&mut self, key: K) -> Option<V> {
        let place = self.find(key).ok()?;
        let removed = self.slots[place].take();
        self.len -= 1;
        let mut hole = place;
        while let Some(mut follower) = self.slots.get_mut(hole + 1).and_then(|slot| {
            if slot.as_ref().is_some_and(|slot| slot.distance > 0) { slot.take() } else { None }
        }) {
            follower.distance -= 1;
            self.slots[hole] = Some(follower);
            hole += 1;
        }
        removed.map(|slot| slot.value)
    }

    /// Returns the slot of a key, or the slot and the distance at which the search ended.
    fn find(&self, key: K) -> Result<usize, (usize, usize)> {
        if self.n_main == 0 {
            return Err((0, 0));
        }
        let (mut place, mut distance) = (self.ideal(key), 0);
        while let Some(Some(slot)) = self.slots.get(place) {
            if slot.distance < distance {
                break;
            }
            if slot.key == key {
                return Ok(place);
            }
            place += 1;
            distance += 1;
        }
        Err((place, distance))
    }

    fn ideal(&self, key: K) -> usize {
        let bits = self.n_main.trailing_zeros();
        let slot = key.hash().wrapping_mul(FIBONACCI) >> (u64::BITS - bits);
        usize::try_from(slot).expect("a slot's number is small")
    }

    /// Returns the distance at which the table grows, which is also the number of overflow slots.
    fn max_distance(n_main: usize) -> usize {
        LEAST_SLOTS.max(n_main.trailing_zeros() as usize)
    }

    /// Inserts a key that is not in the table, displacing keys that are nearer
    /// to their own slot.
    fn insert_new(&mut self, new: Slot<K, V>) {
        self.insert_within(new, most_slots(self.len + 1));
    }

    /// Inserts a key into a table that may grow to `most_slots` slots.
    fn insert_within(&mut self, new: Slot<K, V>, most_slots: usize) {
        let mut carried = new;
        while let Some(left_over) = self.place(carried, most_slots) {
            carried = left_over;
            self.grow(most_slots);
        }
    }

    /// Tries to insert a key. If the table must grow first, returns the entry that was not placed.
    fn place(&mut self, mut carried: Slot<K, V>, most_slots: usize) -> Option<Slot<K, V>> {
        let may_grow = self.n_main * 2 <= most_slots;
        let limit = if may_grow { Self::max_distance(self.n_main.max(1)) } else { usize::MAX };
        let (mut place, distance) = self.find(carried.key).err()?;
        if (self.len + 1) * 2 > self.n_main || distance >= limit {
            return Some(carried);
        }
        carried.distance = distance;
        let own_place = place;
        loop {
            match self.slots.get_mut(place) {
                None => self.slots.push(None),
                Some(empty @ None) => {
                    *empty = Some(carried);
                    self.len += 1;
                    return None;
                }
                Some(Some(settled)) => {
                    if settled.distance < carried.distance {
                        std::mem::swap(settled, &mut carried);
                    }
                    place += 1;
                    carried.distance += 1;
                    if carried.distance >= limit {
                        // The entry that is left over takes the new key's slot, and the
                        // new key is inserted last after the table has grown.
                        return self.slots[own_place].replace(carried);
                    }
                }
            }
        }
    }

    /// Doubles the slots and inserts all entries again, in the old order.
    fn grow(&mut self, most_slots: usize) {
        let n_main = LEAST_SLOTS.max(self.n_main * 2);
        let n_slots = n_main + Self::max_distance(n_main);
        let old = std::mem::replace(&mut self.slots, (0..n_slots).map(|_| None).collect());
        self.n_main = n_main;
        self.len = 0;
        for slot in old.into_iter().flatten() {
            self.insert_within(slot, most_slots);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::testing::random::Random;

    fn key(number: u64) -> StreamKey {
        StreamKey::new(DeviceId(0), StreamId::from_handle(number), number)
    }

    fn order(numbers: &[u64]) -> Vec<u64> {
        let mut table = StreamSet::default();
        numbers.iter().for_each(|number| *table.entry(key(*number), || ()) = ());
        table.keys().map(|key| key.stream.handle()).collect()
    }

    #[test]
    fn slots_that_were_seen_on_the_real_allocator() {
        let slots = |numbers: &[u64], n| {
            let table = StreamSet { n_main: n, ..StreamSet::default() };
            numbers.iter().map(|number| table.ideal(key(*number))).collect::<Vec<_>>()
        };
        assert_eq!(slots(&[3, 35, 67, 99], 4), [3, 2, 1, 1]);
        assert_eq!(slots(&[0x9010, 0x9020, 0x9030], 8), [1, 0, 7]);
        assert_eq!(order(&[0x9010, 0x9020, 0x9030]), [0x9020, 0x9010, 0x9030]);
        assert_eq!(order(&[0x9010, 0x9020]), [0x9010, 0x9020], "both in slot 0 of 4: order of insertion");
    }

    #[test]
    fn keys_whose_hashes_are_equal_do_not_grow_a_table_without_bound() {
        // Equal modulo 2^48, and others whose spread hashes are 0, 1, 2 and so on.
        let inverse =
            (0..6).fold(FIBONACCI, |x, _| x.wrapping_mul(2_u64.wrapping_sub(FIBONACCI.wrapping_mul(x))));
        let spread = |n: u64| PoolId::of_user(n.wrapping_mul(inverse));
        let (mut streams, mut pools) = (StreamTable::default(), Table::default());
        for n in 1..=1000_usize {
            *streams.entry(key((n as u64) << 48), || 0) = n;
            *pools.entry(spread(n as u64), || 0) = n;
            assert!(streams.n_main <= most_slots(n) && pools.n_main <= most_slots(n), "{n} keys");
        }
        assert!(streams.slots.len() <= 1 << 17 && pools.slots.len() <= 1 << 17);
        for n in (1..=1000_usize).rev() {
            let (stream, pool) = (key((n as u64) << 48), spread(n as u64));
            assert_eq!((streams.remove(stream), pools.remove(pool)), (Some(n), Some(n)));
            assert!(streams.get_mut(stream).is_none() && streams.len == n - 1);
        }
    }

    /// Handles are pointers at equal distances, or small numbers; a program has few streams.
    #[test]
    fn real_handles_do_not_reach_the_limit() {
        let mut random = Random::new(2);
        for distance in (1..256).map(|n| 16 * n).chain((0..22).map(|n| 16 << n)) {
            for base in [0, random.below(1 << 47) & !0xf] {
                let mut table = StreamSet::default();
                for n in 1..=32 {
                    *table.entry(key(base + distance * n), || ()) = ();
                }
                assert!(table.n_main * 2 <= most_slots(table.len), "at a distance of {distance}");
            }
        }
    }

    #[test]
    fn a_table_holds_what_a_plain_map_holds() {
        let mut random = Random::new(1);
        let mut next = || random.next();
        for _ in 0..200 {
            let (mut table, mut plain) = (StreamTable::default(), std::collections::BTreeMap::new());
            // Every other table has many keys with the same slot.
            let shift = if next() % 2 == 0 { 0 } else { 45 };
            for _ in 0..100 {
                let (number, value) = ((next() % 40) << shift, next());
                if next() % 3 == 0 {
                    assert_eq!(table.remove(key(number)), plain.remove(&number));
                } else {
                    *table.entry(key(number), || 0) = value;
                    plain.insert(number, value);
                }
                let mut held: Vec<_> = table.keys().map(|key| key.stream.handle()).collect();
                held.sort_unstable();
                assert!(held.iter().eq(plain.keys()), "{held:?}");
                assert_eq!(table.is_empty(), plain.is_empty());
            }
            for (number, value) in &plain {
                assert_eq!(table.get_mut(key(*number)).copied(), Some(*value));
            }
        }
    }
}
