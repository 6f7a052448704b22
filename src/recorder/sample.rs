//! Sampling: which allocations are recorded when one in every N bytes is.
#![forbid(unsafe_code)]

use std::{
    cell::Cell,
    hash::{BuildHasher, RandomState},
};

use crate::sync::thread_local;

/// A thread's sampling state.
#[derive(Clone, Copy, Debug, Default)]
struct Sampler {
    /// Bytes until the next sampled byte, in units of the mean distance.
    left: f64,
    /// State of the random number generator; 0 before the first use.
    state: u64,
}

thread_local! {
    static SAMPLER: Cell<Sampler> = const { Cell::new(Sampler { left: 0.0, state: 0 }) };
}

/// Decides whether an allocation of `bytes` bytes is recorded.
///
/// Sampled bytes are a Poisson process: the distance to the next one is exponentially distributed and does
/// not depend on earlier allocations. So each allocation is recorded with the probability
/// 1 - exp(-bytes / every_bytes), whatever its neighbours are.
pub(super) fn is_kept(bytes: u64, every_bytes: u64) -> bool {
    let decide = |cell: &Cell<Sampler>| {
        let mut sampler = cell.get();
        let kept = sampler.decide(bytes, every_bytes);
        cell.set(sampler);
        kept
    };
    // A thread whose storage is already destroyed records all of its few remaining allocations.
    SAMPLER.try_with(decide).unwrap_or(true)
}

/// Returns the number of allocations of `bytes` bytes that one recorded allocation represents, when one in
/// every `every_bytes` bytes was sampled ([`History::sample_every`](super::History::sample_every)).
///
/// The sum of the weights of the recorded allocations is an unbiased estimate of the number of all
/// allocations; the sum of weight times size is an unbiased estimate of their bytes. Without sampling
/// (`every_bytes` is 0) the weight is 1.
///
/// ```
/// use memreel::recorder::sample_weight;
///
/// assert!((sample_weight(1 << 30, 4096) - 1.0).abs() < 1e-9, "large ones are always kept");
/// assert!((sample_weight(1, 1000) - 1000.5).abs() < 0.1, "of the small ones one in a thousand");
/// assert_eq!(sample_weight(512, 0), 1.0, "no sampling");
/// ```
#[must_use]
#[allow(clippy::cast_precision_loss)] // Allocations beyond 2^53 bytes are always recorded, so digits do not matter.
pub fn sample_weight(bytes: u64, every_bytes: u64) -> f64 {
    if every_bytes == 0 || bytes == 0 {
        return 1.0;
    }
    -1.0 / (-(bytes as f64) / every_bytes as f64).exp_m1()
}

impl Sampler {
    #[allow(clippy::cast_precision_loss)]
    fn decide(&mut self, bytes: u64, every_bytes: u64) -> bool {
        if self.state == 0 {
            self.state = RandomState::new().hash_one(0) | 1;
            self.left = self.distance();
        }
        self.left -= bytes as f64 / every_bytes as f64;
        let kept = self.left <= 0.0;
        if kept {
            self.left = self.distance();
        }
        kept
    }

    /// Draws an exponentially distributed number with mean 1.
    #[allow(clippy::cast_precision_loss)]
    fn distance(&mut self) -> f64 {
        // xorshift64*: not cryptographic, but without a pattern that a program's sizes could match.
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        let bits = self.state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11;
        -((bits + 1) as f64 / (1_u64 << 53) as f64).ln()
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
            let mut sampler = Sampler { left: 0.0, state: 7 };
            sampler.left = sampler.distance();
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
