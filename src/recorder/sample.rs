//! Sampling: chooses which allocations are recorded when on average one in every N bytes is.
#![forbid(unsafe_code)]

use std::{
    cell::Cell,
    hash::{BuildHasher, RandomState},
};

use memreel_snapshot::words::sample_weight;

/// A thread's sampling state.
///
/// Cells, so that an allocation that is not sampled is a load, a subtraction and a store.
#[derive(Debug)]
struct Sampler {
    /// Bytes until the next sampled byte.
    left: Cell<i64>,
    /// The mean distance with which `left` was drawn; 0 before the first use.
    every_bytes: Cell<u64>,
    /// State of the random number generator; 0 before the first use.
    state: Cell<u64>,
}

thread_local! {
    static SAMPLER: Sampler = const { Sampler::new(0) };
}

/// Decides whether an allocation of `bytes` bytes is recorded.
///
/// Each byte is sampled with the same probability, whatever its neighbours are, so the distance to the next sampled
/// byte has an exponential distribution, rounded up, that does not depend on earlier allocations. An allocation
/// is recorded if one of its bytes is sampled: with the probability 1 - exp(-bytes / every_bytes).
#[inline(always)]
pub(super) fn is_kept(bytes: u64, every_bytes: u64) -> bool {
    // A thread whose storage is already destroyed records all of its few remaining allocations.
    SAMPLER.try_with(|sampler| sampler.decide(bytes, every_bytes)).unwrap_or(true)
}

/// Returns the bytes that a block stands for.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
pub(crate) fn represented(bytes: u64, sample_bytes: u64) -> u64 {
    match sample_bytes {
        0 => bytes,
        every => (sample_weight(bytes, every) * bytes as f64).round() as u64,
    }
}

impl Sampler {
    const fn new(state: u64) -> Sampler {
        Sampler { left: Cell::new(0), every_bytes: Cell::new(0), state: Cell::new(state) }
    }

    #[inline(always)]
    fn decide(&self, bytes: u64, every_bytes: u64) -> bool {
        let left = self.left.get().saturating_sub_unsigned(bytes);
        if left > 0 && self.every_bytes.get() == every_bytes {
            self.left.set(left);
            return false;
        }
        self.decide_anew(bytes, every_bytes)
    }

    /// Decides about an allocation that contains the next sampled byte, or is the first with this mean distance.
    #[cold]
    #[inline(never)]
    fn decide_anew(&self, bytes: u64, every_bytes: u64) -> bool {
        if self.every_bytes.replace(every_bytes) != every_bytes {
            self.left.set(self.distance());
        }
        let left = self.left.get().saturating_sub_unsigned(bytes);
        let is_kept = left <= 0;
        // The part of the allocation after its first sampled byte does not count towards the next: the distances have
        // no memory.
        self.left.set(if is_kept { self.distance() } else { left });
        is_kept
    }

    /// Draws the distance to the next sampled byte, at least 1.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
    fn distance(&self) -> i64 {
        let mut state = self.state.get();
        if state == 0 {
            state = RandomState::new().hash_one(0) | 1;
        }
        // xorshift64*: not cryptographic, but without a pattern that a program's sizes could match.
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        self.state.set(state);
        let bits = state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11;
        let in_means = -((bits + 1) as f64 / (1_u64 << 53) as f64).ln();
        ((in_means * self.every_bytes.get() as f64).ceil() as i64).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sizes follow a pattern and the seed is fixed; the estimate of the bytes must be within five of its
    /// own standard deviations.
    #[test]
    fn estimates_are_unbiased() {
        for every_bytes in [512, 4096, 1 << 20] {
            let sampler = Sampler::new(7);
            let (mut truth, mut estimate, mut variance) = (0.0, 0.0, 0.0);
            for n in 0..2_000_000_u64 {
                let bytes = if n % 1000 == 0 { 3 << 20 } else { 64 << (n % 5) };
                truth += bytes as f64;
                let weight = sample_weight(bytes, every_bytes);
                variance += (weight - 1.0) * (bytes as f64).powi(2);
                if sampler.decide(bytes, every_bytes) {
                    estimate += weight * bytes as f64;
                }
            }
            let off = (estimate - truth).abs();
            assert!(off < 5.0 * variance.sqrt(), "one in {every_bytes}: {estimate} for {truth}");
            assert!(off / truth < 0.05, "one in {every_bytes}: {estimate} for {truth}");
        }
    }
}
