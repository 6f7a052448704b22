//! Random numbers for tests: SplitMix64, the same sequence for the same seed.
#![forbid(unsafe_code)]

/// A sequence of random numbers.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
    /// Numbers to return before those of the state, in reverse order.
    given: Vec<u64>,
}

impl Random {
    /// Creates the sequence of a seed.
    pub fn new(seed: u64) -> Random {
        Random { state: seed, given: Vec::new() }
    }

    /// Creates a sequence from bytes, four bytes for each number, followed by the sequence of seed 0. A fuzzer chooses
    /// the bytes.
    pub fn of_bytes(bytes: &[u8]) -> Random {
        let number = |bytes: &[u8]| bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        Random { state: 0, given: bytes.chunks_exact(4).rev().map(number).collect() }
    }

    /// Returns the next number, of 64 random bits.
    #[allow(clippy::should_implement_trait, reason = "the sequence has no end")]
    pub fn next(&mut self) -> u64 {
        if let Some(given) = self.given.pop() {
            return given;
        }
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let a = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let b = (a ^ (a >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        b ^ (b >> 31)
    }

    /// Returns a number below `n`, which must not be 0.
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// Returns an index into a list of `n` items, which must not be empty.
    pub fn index(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// Returns one of some items, which must not be empty.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.index(items.len())]
    }

    /// Returns a copy of some bytes with one of them changed, to another one of them or in one bit, and the index of
    /// the change.
    pub fn changed(&mut self, bytes: &[u8]) -> (Vec<u8>, usize) {
        let at = self.index(bytes.len());
        let mut changed = bytes.to_vec();
        changed[at] = if self.chance(2) { *self.pick(bytes) } else { bytes[at] ^ 1 << self.below(8) };
        (changed, at)
    }

    /// Returns `true` once in `n` calls on average.
    pub fn chance(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}
