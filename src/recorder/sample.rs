//! Which allocations are kept when one in every N bytes is.

use std::{
    cell::Cell,
    hash::{BuildHasher, RandomState},
};

use crate::sync::thread_local;

/// Bytes until the next kept allocation, in units of the mean distance, and
/// the state of the generator; 0 before the first draw.
#[derive(Clone, Copy, Debug, Default)]
struct Dice {
    left: f64,
    state: u64,
}

thread_local! {
    static DICE: Cell<Dice> = const { Cell::new(Dice { left: 0.0, state: 0 }) };
}

/// Whether an allocation of that size is kept.
///
/// Bytes that are kept lie as far apart as the clicks of a counter of rays:
/// the distance to the next does not depend on what was before, so each
/// allocation is kept with the probability 1 - exp(-bytes / every), whatever
/// its neighbours are.
pub(super) fn is_kept(bytes: u64, every_bytes: u64) -> bool {
    let decide = |dice: &Cell<Dice>| {
        let mut now = dice.get();
        let kept = now.decide(bytes, every_bytes);
        dice.set(now);
        kept
    };
    // A thread that is ending keeps all of its few.
    DICE.try_with(decide).unwrap_or(true)
}

/// How many allocations of that size each kept one stands for, where one in
/// every `every_bytes` bytes was kept.
///
/// The sum of the weights of what was kept is an unbiased estimate of the
/// number of what was there, and the sum of weight times size of its bytes.
///
/// ```
/// use memreel::recorder::sample_weight;
///
/// assert!((sample_weight(1 << 30, 4096) - 1.0).abs() < 1e-9, "large ones are always kept");
/// assert!((sample_weight(1, 1000) - 1000.5).abs() < 0.1, "of the small ones one in a thousand");
/// assert_eq!(sample_weight(512, 0), 1.0, "no sampling");
/// ```
#[must_use]
#[allow(clippy::cast_precision_loss)] // Sizes beyond 2^53 are kept whatever their last digit.
pub fn sample_weight(bytes: u64, every_bytes: u64) -> f64 {
    if every_bytes == 0 || bytes == 0 {
        return 1.0;
    }
    -1.0 / (-(bytes as f64) / every_bytes as f64).exp_m1()
}

impl Dice {
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

    /// Exponentially distributed with the mean 1.
    #[allow(clippy::cast_precision_loss)]
    fn distance(&mut self) -> f64 {
        // xorshift64*: no cryptography, but no pattern that a program's sizes could meet.
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

    /// Estimates of sizes that follow a pattern, from a fixed seed: of the
    /// bytes within five of their own standard deviations.
    #[test]
    fn estimates_are_unbiased() {
        for every_bytes in [512, 4096, 1 << 20] {
            let mut dice = Dice { left: 0.0, state: 7 };
            dice.left = dice.distance();
            let (mut truth, mut estimate, mut variance) = (0.0, 0.0, 0.0);
            for n in 0..2_000_000_u64 {
                let bytes = if n % 1000 == 0 { 3 << 20 } else { 64 << (n % 5) };
                truth += bytes as f64;
                let weight = sample_weight(bytes, every_bytes);
                variance += (weight - 1.0) * (bytes as f64).powi(2);
                if dice.decide(bytes, every_bytes) {
                    estimate += weight * bytes as f64;
                }
            }
            let off = (estimate - truth).abs();
            assert!(off < 5.0 * variance.sqrt(), "one in {every_bytes}: {estimate} for {truth}");
            assert!(off / truth < 0.05, "one in {every_bytes}: {estimate} for {truth}");
        }
    }
}
