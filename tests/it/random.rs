//! Random numbers for tests: SplitMix64, the same sequence for the same seed. Unit tests of `src` use this file too.
#![forbid(unsafe_code)]

/// A sequence of random numbers.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

#[allow(dead_code, reason = "not every crate of tests uses every method")]
impl Random {
    /// The sequence of a seed.
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next number, of 64 random bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let a = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let b = (a ^ (a >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        b ^ (b >> 31)
    }

    /// A number below `n`, which must not be 0.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// An index of a list of `n` items, which must not be empty.
    pub(crate) fn index(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// One of some items, which must not be empty.
    pub(crate) fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.index(items.len())]
    }

    /// Some bytes with one of them changed, to a byte of theirs or in one bit, and the place of the change.
    pub(crate) fn changed(&mut self, bytes: &[u8]) -> (Vec<u8>, usize) {
        let at = self.index(bytes.len());
        let mut changed = bytes.to_vec();
        changed[at] = if self.chance(2) { *self.pick(bytes) } else { bytes[at] ^ 1 << self.below(8) };
        (changed, at)
    }

    /// `true` once in `n` times on average.
    pub(crate) fn chance(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}
